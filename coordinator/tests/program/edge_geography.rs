//! The second game, from the command line to the bundle, and that games do not mix.

use std::fs;

use serde_json::{Value, json};
use tonic::Code;
use trailtrap_shared::{
    game::{Search, edge_geography::RootedSearch},
    graph::{Graph, graph6, nauty, vertices},
    labelling::hashed,
};

use crate::common::{
    Data, Process, census, census_json, connect, coordinator, introduction, run, run_with_input,
    salvage, stderr, stdout, succeeded, verified, worker,
};

/// Order 7 with its digests as first computed.
const GOLDEN: &str = include_str!("../golden/edge-geography-7.json");
const GAME: [&str; 2] = ["--game", "edge-geography"];

fn finished(order: usize) -> Data {
    let data = Data::new();
    census_json(order, &data, &GAME);
    data
}

#[test]
fn order_7_is_what_it_always_was_however_it_is_cut() {
    for more in [
        &["--threads", "1", "--kernel", "portable"][..],
        &["--threads", "3", "--part-graphs", "20", "--bucket-size", "300", "--sample", "1"],
        &["--keep", "minimal"],
    ] {
        let found = census_json(7, &Data::new(), &[&GAME, more].concat());
        assert_eq!(found, GOLDEN, "{more:?}");
    }
}

/// The golden counts again, by forward search on nauty's list of all graphs.
#[test]
fn the_golden_counts_are_those_of_forward_search() {
    let report: Value = serde_json::from_str(GOLDEN).unwrap();
    assert_eq!(report["game"], "edge-geography");
    let mut search = RootedSearch::new(usize::MAX);
    for (graphs, found) in nauty::enumerate(7).iter().zip(report["orders"].as_array().unwrap()) {
        let (mut wins, mut roots, mut won_rooted, mut rooted) = (0, 0, 0, 0);
        for graph in graphs {
            let won = search.roots(graph).unwrap().won;
            let firsts = hashed::first_of_orbits(graph);
            wins += u64::from((0..graph.order()).any(|v| won >> v & 1 == 0));
            roots += u64::from(won.count_ones());
            won_rooted += u64::from((won & firsts).count_ones());
            rooted += u64::from(firsts.count_ones());
        }
        assert_eq!(found["p1_wins"], wins);
        assert_eq!(
            found["sums"],
            json!({"won_roots": roots, "won_rooted_graphs": won_rooted, "rooted_graphs": rooted})
        );
    }
}

#[test]
fn the_table_counts_rooted_graphs() {
    let data = finished(5);
    let text = stdout(&run(&["census", "5", "--data", &data.text()]));
    let header = text.lines().next().unwrap();
    assert!(header.contains("| rooted, N | rooted |"), "{header}");
    assert!(text.trim_end().lines().last().unwrap().ends_with(" 90 |"), "{text}");
}

#[test]
fn lookup_and_solve_say_what_forward_search_does() {
    let data = finished(6);
    let graphs: Vec<Graph> = nauty::enumerate(6).into_iter().flatten().collect();
    let input: String = graphs.iter().map(|graph| graph6::encode(graph) + "\n").collect();
    let arguments = ["lookup", "--data", &data.text(), "--format", "json", "--positions"];
    let output = run_with_input(&arguments, &input);
    assert!(output.status.success(), "{}", stderr(&output));
    let looked_up: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
    let arguments = [&["solve", "--format", "json", "--explain"], &GAME[..]].concat();
    let output = run_with_input(&arguments, &input);
    assert!(output.status.success(), "{}", stderr(&output));
    let solved: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
    let mut search = RootedSearch::new(usize::MAX);
    for ((graph, looked_up), solved) in graphs.iter().zip(&looked_up).zip(&solved) {
        let won = search.roots(graph).unwrap().won;
        let p1_wins = search.solve(graph).unwrap().is_listed();
        let winner = if p1_wins { "P1" } else { "P2" };
        assert_eq!((&looked_up["winner"], &solved["winner"]), (&json!(winner), &json!(winner)));
        assert_eq!(looked_up["won_roots"], won.count_ones());
        let orbits = nauty::label(graph).orbits;
        let rooted = (0..graph.order()).filter(|&v| orbits[v].trailing_zeros() as usize == v);
        assert_eq!(looked_up["rooted_graphs"], rooted.count());
        assert_eq!(looked_up["positions"]["won"], json!(vertices(won).collect::<Vec<_>>()));
        match p1_wins {
            true => {
                let start = solved["first_move"].as_u64().unwrap();
                assert_eq!(won >> start & 1, 0, "{graph:?}: a vertex that P2 loses from");
            }
            false => assert_eq!(solved["answers"].as_array().unwrap().len(), graph.order()),
        }
    }
    let text = run_with_input(&["lookup", "--data", &data.text()], "Bw\n");
    assert_eq!(stdout(&text), "Bw P2 |Aut| 6 |U| 3 orbits in U 1 orbits 1\n");
    let explained = run_with_input(&[&["solve", "--explain"], &GAME[..]].concat(), "A_\n");
    assert_eq!(
        stdout(&explained),
        "A_ P2\n  P2 answers a start at 0 by 0→1\n  P2 answers a start at 1 by 1→0\n"
    );
}

#[test]
fn everything_is_verified_and_exported() {
    let data = finished(7);
    verified(&["--data", &data.text(), "--level", "6", "--sample", "20"]);
    let bundle = data.path().with_file_name("bundle").to_str().unwrap().to_owned();
    let exported = run(&["export", "bundle", &bundle, "--data", &data.text()]);
    assert!(exported.status.success(), "{}", stderr(&exported));
    verified(&[&bundle, "--level", "2"]);
    let read = |name: &str| fs::read_to_string(format!("{bundle}/{name}")).unwrap();
    assert!(!read("README.md").contains("Trail Trap"), "{}", read("README.md"));
    assert!(read("README.md").contains("trailtrap census 7 --game edge-geography --json"));
    let orders = read("tables/orders.csv");
    let columns: Vec<&str> = orders.lines().next().unwrap().split(',').collect();
    let at = columns.iter().position(|column| *column == "rooted_graphs").unwrap();
    // OEIS A000666.
    let rooted: Vec<&str> =
        orders.lines().skip(1).map(|line| line.split(',').nth(at).unwrap()).collect();
    assert_eq!(rooted, ["1", "2", "6", "20", "90", "544", "5096"]);
    let list = format!("{bundle}/graphs/trailtrap.edge-geography.n06.p1.g6.gz");
    verified(&[&list, "--data", &data.text()]);
    // By the rules of the other game not all of them are won, and this census says nothing of it.
    let other = ["verify", &list, "--game", "trail-trap"];
    let listed = run(&other);
    assert!(stdout(&listed).contains("WRONG"), "{}", stdout(&listed));
    let refused = run(&[&other[..], &["--data", &data.text()]].concat());
    let said = stderr(&refused);
    assert_eq!((refused.status.code(), &*stdout(&refused)), (Some(1), ""));
    assert!(said.contains("of the game edge-geography") && said.contains("trail-trap"), "{said}");
    for arguments in [&["table", "sizes", "7"][..], &["plot", "orders"], &["drawing", "5"]] {
        let directory = data.text();
        let arguments = [&["export"], arguments, &["--data", &directory]].concat();
        let exported = run(&arguments);
        assert!(exported.status.success(), "{arguments:?}: {}", stderr(&exported));
        let text = stdout(&exported);
        assert!(!text.contains("Trail Trap"), "{arguments:?}");
        assert!(text.contains("Undirected Edge Geography"), "{arguments:?}");
    }
}

/// A store says what game it is of: other games are refused, and its own need not be named.
#[test]
fn stores_keep_to_their_game() {
    let data = finished(4);
    let refused = census(4, &data, &["--game", "trail-trap"]);
    assert!(!refused.status.success());
    assert!(stderr(&refused).contains("a census of the game edge-geography"), "{refused:?}");
    let went_on = census_json(5, &data, &[]);
    let report: Value = serde_json::from_str(&went_on).unwrap();
    assert_eq!(report["game"], "edge-geography");
    let other = Data::new();
    census_json(3, &other, &[]);
    let refused = census(3, &other, &GAME);
    assert!(stderr(&refused).contains("a census of the game trail-trap"), "{refused:?}");
    assert!(stderr(&census(3, &other, &["--game", "chess"])).contains("edge-geography"));
    // What is salvaged is of the same game.
    salvage(&data);
    assert_eq!(census_json(5, &data, &[]), went_on);
}

/// Workers of another game are sent away, and told what to do; those of the same are not.
#[tokio::test]
async fn workers_keep_to_their_game() {
    let data = Data::new();
    let (process, address) = coordinator(5, &data, "127.0.0.1:0", &GAME);
    let mut client = connect(&address).await;
    let refused = client.register(introduction("of the first game")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("--game edge-geography"), "{refused}");
    let other = Process::start(worker().args(["--coordinator", &address])).finish();
    assert_eq!(other.status.code(), Some(78), "{}", stderr(&other));
    let same = Process::start(worker().args(["--coordinator", &address]).args(GAME)).finish();
    succeeded(&same);
    succeeded(&process.finish());
    let alone = finished(5);
    assert_eq!(
        census_json(5, &data, &[]),
        census_json(5, &alone, &[]),
        "by a worker of its own, and in one process"
    );
}
