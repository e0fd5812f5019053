//! Censuses of classes of graphs: `--class`.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    io::Write,
    process::{Command, Output, Stdio},
    str::FromStr as _,
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tonic::Code;
use trailtrap_census::{
    driver::{Census, CensusOptions, Refusal},
    records::{Delivery, UnitRecord, ahead::Ahead, delivery},
    store::{Store, plan},
};
use trailtrap_shared::{
    class::Class,
    count::summary::Summary,
    game::{Game, GameName, TrailTrap},
    graph::{Graph, all_vertices, degree::DegreeSequence, graph6},
    partition::{Block, BucketTable, Content, Section, slot_of},
    plan::{Goal, Plan, PlanOptions, Unit},
};
use trailtrap_worker::{
    counting::recount::{Recount, recount},
    link::memory,
};

use crate::common::{
    Data, Process, add_up, answers::solver, census, census_json, connect, coordinator,
    failures_of, introduction, next_work, put_record, resealed, rewrite, run, run_with_input,
    salvage, stderr, stdout, succeeded, take_apart, verified, worker,
};

/// One of each kind.
const SOME: [&str; 9] = [
    "max-degree:3",
    "triangle-free",
    "girth:5",
    "square-free",
    "bipartite",
    "planar",
    "outerplanar",
    "forest",
    "linear-forest",
];

fn done(order: usize, data: &Data, more: &[&str]) -> Value {
    serde_json::from_str(&census_json(order, data, more)).unwrap()
}

fn finished(order: usize, class: &str) -> Data {
    let data = Data::new();
    done(order, &data, &["--class", class]);
    data
}

/// What a program of nauty writes: a graph on each line.
fn nauty(program: &str, arguments: &[&str], input: &str) -> Vec<String> {
    let name = format!("nauty-{program}");
    let mut command = Command::new(&name);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap_or_else(|error| {
        panic!("{name}: {error}; this test needs the programs of nauty (Debian: nauty)")
    });
    let mut standard_input = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || {
        // Programs that read nothing may be gone by now.
        let _ = standard_input.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{name} {arguments:?}");
    stdout(&output).lines().map(str::to_owned).collect()
}

/// How many of these graphs have each number of edges.
fn by_size(lines: &[String]) -> BTreeMap<u64, u64> {
    let mut sizes = BTreeMap::new();
    for line in lines {
        let graph = graph6::decode(line.as_bytes()).unwrap();
        *sizes.entry(graph.size() as u64).or_default() += 1;
    }
    sizes
}

/// The same of the last order of a census.
fn counted(report: &Value, key: impl Fn(&Value) -> u64) -> BTreeMap<u64, u64> {
    let order = report["orders"].as_array().unwrap().last().unwrap();
    let sizes = order["by_size"].as_array().unwrap().iter();
    sizes
        .map(|row| (row["size"].as_u64().unwrap(), key(row)))
        .filter(|(_, graphs)| *graphs > 0)
        .collect()
}

/// As many graphs as nauty's own programs make or pick out, by number of edges.
#[test]
fn nauty_makes_as_many_graphs() {
    let of_class = |order: usize, class: &str| done(order, &Data::new(), &["--class", class]);
    let graphs = |row: &Value| row["graphs"].as_u64().unwrap();
    for (class, option, order) in [
        ("bipartite", "-b", 9),
        ("triangle-free", "-t", 9),
        ("square-free", "-f", 9),
        ("girth:5", "-tf", 10),
        ("max-degree:3", "-D3", 8),
        ("max-degree:4", "-D4", 8),
    ] {
        let expected = by_size(&nauty("geng", &["-q", option, &order.to_string()], ""));
        assert_eq!(counted(&of_class(order, class), graphs), expected, "{class}");
    }
    let all = nauty("geng", &["-q", "8"], "");
    let planar = nauty("planarg", &["-q"], &(all.join("\n") + "\n"));
    assert_eq!(counted(&of_class(8, "planar"), graphs), by_size(&planar));
    // A graph is outerplanar if it is planar with a vertex more that is joined to all others.
    let joined = |line: &String| {
        let graph = graph6::decode(line.as_bytes()).unwrap();
        let more = graph.with_vertex(all_vertices(8));
        graph6::encode(&more)
    };
    let joined: Vec<String> = all.iter().map(joined).collect();
    let outerplanar = nauty("planarg", &["-q"], &(joined.join("\n") + "\n"));
    let more_edges = by_size(&outerplanar);
    let expected: BTreeMap<u64, u64> =
        more_edges.into_iter().map(|(size, graphs)| (size - 8, graphs)).collect();
    assert_eq!(counted(&of_class(8, "outerplanar"), graphs), expected);
    // Connected forests are trees.
    let trees = nauty("gentreeg", &["-q", "10"], "").len() as u64;
    let connected = |row: &Value| row["connected"]["graphs"].as_u64().unwrap();
    let report = of_class(10, "forest");
    assert_eq!(counted(&report, connected), BTreeMap::from([(9, trees)]));
}

/// Beyond order 12, where keys are numbers: as many graphs as nauty makes, whoever solves them and
/// however that is cut; everything holds that holds below; and the graphs that P1 wins are those
/// that search finds.
#[test]
fn classes_go_beyond_the_order_of_all_graphs() {
    let class = ["--class", "girth:5"];
    let data = Data::new();
    let report = done(13, &data, &class);
    let expected = by_size(&nauty("geng", &["-q", "-tf", "13"], ""));
    assert_eq!(counted(&report, |row| row["graphs"].as_u64().unwrap()), expected);
    verified(&["13", "--level", "4", "--data", &data.text()]);
    // Some of all graphs are searched, and looked up in the store and in the list.
    let won = stdout(&run(&["export", "graphs", "13", "--data", &data.text()]));
    let all = nauty("geng", &["-q", "-tf", "-l", "13"], "");
    let some: Vec<&str> = all.iter().map(String::as_str).step_by(1500).collect();
    let input = some.join("\n") + "\n";
    let searched = stdout(&run_with_input(&["solve", "-", "--format", "json"], &input));
    let found =
        stdout(&run_with_input(&["lookup", "--data", &data.text(), "--format", "json"], &input));
    let winners = |text: &str| -> Vec<Value> {
        let rows: Vec<Value> = serde_json::from_str(text).unwrap();
        rows.iter().map(|row| row["winner"].clone()).collect()
    };
    let (searched, found) = (winners(&searched), winners(&found));
    assert_eq!(searched, found);
    assert_eq!(found.len(), some.len());
    let listed: HashSet<&str> = won.lines().collect();
    for (line, winner) in some.iter().zip(&found) {
        assert_eq!(listed.contains(line), winner == "P1", "{line}");
    }

    let class = ["--class", "max-degree:3"];
    let shared = Data::new();
    let (process, address) = coordinator(13, &shared, "127.0.0.1:0", &class);
    let mut other = worker();
    other.args(["--coordinator", &address, "--kernel", "portable", "--memory", "32MiB"]);
    let helped = Process::start(other.args(class)).finish();
    assert!(helped.status.success(), "{}", stderr(&helped));
    let output = process.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let split = ["--part-graphs", "500", "--bucket-size", "30KiB"];
    assert_eq!(report, done(13, &Data::new(), &[&class[..], &split].concat()));
    let expected = by_size(&nauty("geng", &["-q", "-D3", "13"], ""));
    assert_eq!(counted(&report, |row| row["graphs"].as_u64().unwrap()), expected);

    let refused = census(14, &Data::new(), &["--class", "bipartite"]);
    assert!(stderr(&refused).contains("up to order 13"), "{}", stderr(&refused));
    assert_eq!(refused.status.code(), Some(1));
}

/// Beyond order 16, where a set of vertices has more than 16 bits: everything holds that holds
/// below, whoever solves, and in both games.
#[test]
fn forests_go_up_to_order_20() {
    let class = ["--class", "linear-forest"];
    let data = Data::new();
    let report = done(20, &data, &class);
    let said = verified(&["20", "--level", "6", "--data", &data.text()]);
    assert!(said.contains("627 forests, by Theorem 14"), "{said}");
    // Some graphs of orders 17 and 20 are searched, and looked up.
    let paths = |parts: &[usize]| {
        let (mut graph, mut first) = (Graph::edgeless(parts.iter().sum()), 0);
        for part in parts {
            (first + 1..first + part).for_each(|v| graph.add_edge(v - 1, v));
            first += part;
        }
        graph6::encode(&graph)
    };
    let mut graphs: Vec<String> = (1..=8).map(|k| paths(&[k, 17 - k])).collect();
    graphs.extend([paths(&[20]), paths(&[2; 10]), paths(&[2, 18]), paths(&[2, 2, 16])]);
    let input = graphs.join("\n") + "\n";
    let winners = |output: Output| -> Vec<Value> {
        let rows: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
        rows.iter().map(|row| row["winner"].clone()).collect()
    };
    let searched = winners(run_with_input(&["solve", "-", "--format", "json"], &input));
    let look_up = ["lookup", "--data", &data.text(), "--format", "json"];
    assert_eq!(winners(run_with_input(&look_up, &input)), searched);
    assert_eq!(searched.len(), graphs.len());
    let won = stdout(&run(&["export", "graphs", "20", "--data", &data.text()]));
    let last = report["orders"].as_array().unwrap().last().unwrap();
    assert_eq!(won.lines().count() as u64, last["p1_wins"].as_u64().unwrap());
    let bundle = data.path().join("bundle");
    let bundle = bundle.to_str().unwrap();
    let exported = run(&["export", "bundle", bundle, "--data", &data.text()]);
    assert!(exported.status.success(), "{}", stderr(&exported));
    verified(&[bundle]);

    let shared = Data::new();
    let (process, address) = coordinator(20, &shared, "127.0.0.1:0", &class);
    let mut other = worker();
    other.args(["--coordinator", &address, "--kernel", "portable"]).args(class);
    let helped = Process::start(&mut other).finish();
    assert!(helped.status.success(), "{}", stderr(&helped));
    let output = process.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(serde_json::from_str::<Value>(&stdout(&output)).unwrap(), report);

    let data = Data::new();
    done(18, &data, &["--class", "linear-forest", "--game", "edge-geography"]);
    let said = verified(&["18", "--level", "6", "--data", &data.text()]);
    assert!(said.contains("385 bipartite graphs"), "{said}");

    // Connected forests are trees, and Theorem 14 tells who wins all of them.
    let data = Data::new();
    let report = done(17, &data, &["--class", "forest"]);
    let trees = nauty("gentreeg", &["-q", "17"], "").len() as u64;
    let connected = |row: &Value| row["connected"]["graphs"].as_u64().unwrap();
    assert_eq!(counted(&report, connected), BTreeMap::from([(16, trees)]));
    let said = verified(&["17", "--level", "4", "--data", &data.text()]);
    assert!(said.contains("122963 forests, by Theorem 14"), "{said}");

    // Elsewhere nobody is asked whether so large a graph belongs to the class.
    let data = finished(4, "outerplanar");
    let output = run_with_input(&["lookup", "--data", &data.text()], &input);
    assert_eq!(output.status.code(), Some(1));
    let answers = stderr(&output);
    assert!(
        answers.contains("line 12: no census of this class has graphs of order 20"),
        "{answers}"
    );

    let refused = census(17, &Data::new(), &["--class", "max-degree:3"]);
    assert!(stderr(&refused).contains("up to order 16"), "{}", stderr(&refused));
}

/// P1 wins the graphs of a class that it wins among all: lists are parts of the list of all.
#[test]
fn verdicts_are_those_of_the_whole_census() {
    for game in GameName::ALL.map(|game| game.to_string()) {
        let whole = Data::new();
        done(7, &whole, &["--game", &game]);
        let all = stdout(&run(&["export", "graphs", "7", "--data", &whole.text()]));
        for name in SOME {
            let data = Data::new();
            let report = done(7, &data, &["--game", &game, "--class", name]);
            assert_eq!(report["class"], name);
            let found = stdout(&run(&["export", "graphs", "7", "--data", &data.text()]));
            let class: Class = name.parse().unwrap();
            let belongs = |line: &&str| {
                class.contains_by_definition(&graph6::decode(line.as_bytes()).unwrap())
            };
            let expected: Vec<&str> = all.lines().filter(belongs).collect();
            assert_eq!(found.lines().collect::<Vec<_>>(), expected, "{game}, {name}");
        }
    }
}

/// Every check holds of a class too, however its census is cut, limited, and kept.
#[test]
fn a_class_is_verified() {
    for name in SOME {
        let data = Data::new();
        let first = done(6, &data, &["--class", name, "--max-size", "5"]);
        let split = ["--part-graphs", "10", "--bucket-size", "300", "--sample", "1"];
        let report = done(8, &data, &split);
        assert_eq!((&first["class"], &report["class"]), (&name.into(), &name.into()));
        let plain = done(8, &Data::new(), &["--class", name, "--keep", "minimal"]);
        assert_eq!(report, plain, "{name}");
        let verified = run(&["verify", "--level", "6", "--data", &data.text()]);
        assert!(verified.status.success(), "{name}: {}", stdout(&verified));
        let status = stdout(&run(&["status", "--data", &data.text()]));
        assert!(status.contains(&format!("census of class {name} up to order 8")), "{status}");
    }
    // Where a game reads no predecessors, graphs are told of all the same.
    let data = Data::new();
    done(8, &data, &["--class", "bipartite", "--game", "edge-geography"]);
    verified(&["--level", "6", "--data", &data.text()]);
}

/// Where degrees bound a class only roughly, a shard may have parents with degrees that its plans
/// lack: there are none of them, also when it is solved again.
#[test]
fn parents_that_no_plan_has_are_none() {
    let class: Class = "girth:12".parse().unwrap();
    let sequence = DegreeSequence::new([[1; 4], [4; 4], [4; 4]].concat());
    assert!(class.may_have(&sequence));
    assert!(sequence.parents().iter().any(|parent| !class.may_have(&parent.sequence)));
    let data = finished(12, "girth:12");
    verified(&["12", "--level", "6", "--data", &data.text()]);
}

#[test]
fn stores_keep_to_their_class() {
    let data = finished(4, "bipartite");
    for other in ["all", "planar"] {
        let refused = census(4, &data, &["--class", other]);
        let errors = stderr(&refused);
        assert!(!refused.status.success(), "{other}");
        assert!(errors.contains("a census of the class bipartite"), "{errors}");
    }
    let report = done(6, &data, &[]);
    assert_eq!(report["class"], "bipartite");
    let unknown = stderr(&census(3, &Data::new(), &["--class", "perfect"]));
    assert!(unknown.contains("no class") && unknown.contains("outerplanar"), "{unknown}");
    // A store of all graphs is none of a class.
    let whole = Data::new();
    assert_eq!(done(3, &whole, &[])["class"], Value::Null);
    let refused = stderr(&census(3, &whole, &["--class", "forest"]));
    assert!(refused.contains("a census of the class all"), "{refused}");
    // What is salvaged is of the same class.
    fs::write(data.path().join("store/CURRENT"), "nonsense").unwrap();
    salvage(&data);
    assert_eq!(done(6, &data, &[]), report);
    verified(&["--level", "4", "--data", &data.text()]);
}

/// Workers of another class are sent away, and told what to do; those of the same are not.
#[tokio::test]
async fn workers_keep_to_their_class() {
    let class = ["--class", "triangle-free"];
    let data = Data::new();
    let (process, address) = coordinator(7, &data, "127.0.0.1:0", &class);
    let mut client = connect(&address).await;
    let refused = client.register(introduction("of all graphs")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("--class triangle-free"), "{refused}");
    let with_class = |class: &[&str]| {
        Process::start(worker().args(["--coordinator", &address]).args(class)).finish()
    };
    let other = with_class(&["--class", "forest"]);
    assert_eq!(other.status.code(), Some(78), "{}", stderr(&other));
    succeeded(&with_class(&class));
    succeeded(&process.finish());
    assert_eq!(done(7, &data, &[]), done(7, &Data::new(), &class));
}

#[test]
fn a_courier_carries_a_class() {
    let class = ["--class", "bipartite"];
    let data = Data::new();
    let (leader, address) = coordinator(6, &data, "127.0.0.1:0", &class);
    let directory = tempfile::tempdir().unwrap();
    let tasks = directory.path().join("tasks");
    let link = ["--coordinator", &address, "--courier"];
    let courier = Process::start(worker().args(link).arg(&tasks).args(class));
    let offline = Process::start(worker().args(class).arg("--offline").arg(&tasks));
    let output = leader.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report, done(6, &Data::new(), &class));
    assert_eq!(offline.finish().status.code(), Some(0));
    assert_eq!(courier.finish().status.code(), Some(0));
}

/// Whatever is exported says what class it is about.
#[test]
fn exports_name_the_class() {
    let data = finished(6, "max-degree:3");
    let text = data.text();
    let export = |arguments: &[&str]| run(&[&["export"], arguments, &["--data", &text]].concat());
    let csv = stdout(&export(&["table", "sizes", "6", "--format", "csv"]));
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let heads = rows.headers().unwrap().clone();
    let class = heads.iter().position(|head| head == "class").unwrap();
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    // Graphs of six vertices of degree three have nine edges.
    assert_eq!(rows.len(), 10);
    assert!(rows.iter().all(|row| &row[class] == "max-degree:3"));
    for kind in ["orders", "sizes", "girth", "degrees", "connectivity"] {
        let markdown = stdout(&export(&["table", kind, "6", "--format", "markdown"]));
        assert!(markdown.contains("on all graphs of maximum degree at most 3 with"), "{markdown}");
    }
    let table = stdout(&run(&["census", "6", "--data", &text]));
    assert!(table.contains("| all graphs of maximum degree at most 3 |"), "{table}");
    for plot in [&["orders"][..], &["sizes", "6"], &["heat-map"], &["degrees", "6"]] {
        let picture = export(&[&["plot"], plot].concat());
        let text = stdout(&picture);
        assert!(picture.status.success(), "{}", stderr(&picture));
        assert!(text.contains("graphs of maximum degree at most 3"), "{plot:?}");
    }
    let drawn = stdout(&export(&["drawing", "6", "--most", "1"]));
    assert!(drawn.contains("P1-win graphs of maximum degree at most 3 of order 6"), "{drawn}");
    let parquet = export(&["shards", "6"]);
    assert!(parquet.status.success() && stdout(&parquet).contains("max-degree:3"));
    let triangle = stdout(&export(&["bfile", "connected-p1-wins", "--by-size"]));
    let says = "# T(n, m), n >= 1, 0 <= m <= the largest number of edges that there is, read by \
                rows, m being the number of edges: number of connected graphs of maximum degree at \
                most 3 on n unlabeled nodes that the first player wins in the game";
    assert!(triangle.starts_with(says), "{triangle}");
    // With n vertices there are at most ⌊3n/2⌋ edges, and at most C(n, 2).
    let terms = [0, 1, 3, 6, 7, 9].map(|most| most + 1).iter().sum::<usize>();
    assert_eq!(triangle.lines().count(), 1 + terms);
    // A list says so by its name.
    let list = |name: &str| {
        let path = data.path().join(name);
        let output = export(&["graphs", "6", "--output", path.to_str().unwrap()]);
        (output.status.success(), stderr(&output), path)
    };
    let (made, errors, _) = list("wins.g6");
    assert!(!made && errors.contains("say `max-degree-3`"), "{errors}");
    let (made, errors, path) = list("wins-max-degree-3.g6");
    assert!(made && errors.contains("graphs of maximum degree at most 3 only"), "{errors}");
    let said = verified(&[path.to_str().unwrap(), "--data", &text]);
    assert!(said.contains("census of the class"), "{said}");
    // Graphs that do not belong to it are not looked up; others are.
    let found = run_with_input(&["lookup", "--data", &text, "--format", "json"], "E???\nE~~w\n");
    assert_eq!(found.status.code(), Some(1));
    let errors = stderr(&found);
    assert!(errors.contains("line 2") && errors.contains("does not belong to it"), "{errors}");
    // Nor is anything drawn from it as if it had all graphs.
    let sample =
        ["sample", "--order", "6", "--model", "labelled", "--seed", "1", "--samples", "9"];
    let refused = run(&[&sample[..], &["--endgame", &text]].concat());
    assert!(stderr(&refused).contains("endgames are made of all graphs"), "{}", stderr(&refused));
}

/// A bundle of a class is one of all graphs with other graphs in it; `verify` holds it to what is
/// known of the class, by degrees or not.
#[test]
fn bundles_of_classes_are_verified() {
    for (class, graphs) in [("max-degree:3", "62"), ("bipartite", "35")] {
        let data = finished(6, class);
        let bundle = data.path().join("bundle");
        let path = bundle.to_str().unwrap();
        let made = run(&["export", "bundle", path, "--data", &data.text()]);
        assert!(made.status.success(), "{}", stderr(&made));
        verified(&[path, "--level", "2"]);
        let read = |name: &str| fs::read_to_string(bundle.join(name)).unwrap();
        let manifest: Value = serde_json::from_str(&read("manifest.json")).unwrap();
        assert_eq!(manifest["class"], class);
        assert_eq!(manifest["orders"][5]["graphs"].to_string(), graphs);
        let list = format!("graphs/trailtrap.{}.n06.p1.g6.gz", class.replace(':', "-"));
        assert_eq!(manifest["orders"][5]["p1_win_list"]["file"], list);
        let (readme, citation) = (read("README.md"), read("CITATION.cff"));
        assert!(
            readme.contains(&format!("trailtrap census 6 --class {class} --json")),
            "{readme}"
        );
        assert!(readme.contains(&format!("zcat {list} |")) && !readme.contains('{'), "{readme}");
        let title = manifest["title"].as_str().unwrap();
        let over = Class::from_str(class).unwrap().title();
        assert!(title.contains(&format!("over all {over} of small order")), "{title}");
        assert!(citation.contains(title) && readme.contains(title));

        // What is altered, with checksums that fit again, and what notices.
        let forged = |name: &str, from: &str, to: &str, check: &str, says: &str| {
            let copy = resealed(&bundle, |root| {
                rewrite(root.join(name), |text| text.replacen(from, to, 1));
            });
            let failed = failures_of(&[copy.path().to_str().unwrap(), "--level", "2"]);
            let told = failed.get(check).is_some_and(|failure| failure.contains(says));
            assert!(told, "{class}, {name}, {says}: {failed:?}");
        };
        let named = format!("\"class\": \"{class}\"");
        forged("manifest.json", &format!("{named},"), "", "tables", "rows are missing");
        forged("manifest.json", &named, "\"class\": \"planar\"", "tables", "A005470");
        let older = resealed(&bundle, |root| {
            let newer = "\"bundle_format\": 3";
            rewrite(root.join("manifest.json"), |text| {
                text.replacen(newer, &newer.replace('3', "2"), 1)
            });
        });
        let refused = run(&["verify", older.path().to_str().unwrap()]);
        let says = format!("bundles of format 2 are about all graphs, and this one names {class}");
        assert!(stderr(&refused).contains(&says), "{}", stderr(&refused));
        // The trees with three edges: one of the two is a P1-win.
        let [trees, fewer] = ["4,3,2,1,1,0.500000,0.500000", "4,3,1,1,0,1.000000,0.000000"];
        let says = "order 4, 3 edges: found 1 connected graphs, but there are 2";
        forged("tables/sizes.csv", trees, fewer, "tables", says);
        let cell = format!(",{class}\n");
        forged("tables/girth.csv", &cell, ",planar\n", "tables", "another class of graphs");
    }
}

#[test]
fn a_plan_tells_what_is_known_of_a_class() {
    let plan = |more: &[&str]| {
        let output = run(&[&["plan", "12", "--json"], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_str::<Value>(&stdout(&output)).unwrap()
    };
    assert_eq!(plan(&["--class", "bipartite"])["graphs"], 251_135);
    let subcubic = plan(&["--class", "max-degree:3"]);
    assert_eq!((&subcubic["class"], &subcubic["graphs"]), (&"max-degree:3".into(), &Value::Null));
    assert!(subcubic["shards"].as_u64().unwrap() < 500);
}

/// A worker that leaves out a graph of a class is found, and named: how many there should be is
/// known from the graphs with one edge less, though no formula tells it.
#[test]
fn a_graph_that_is_left_out_is_missed() {
    const LAST: usize = 6;
    let class = Class::Bipartite;
    let data = Data::new();
    let options = CensusOptions {
        class: Some(class),
        lease_term: Duration::from_secs(86400),
        ..CensusOptions::new(Goal::new(LAST, None))
    };
    let census = Census::open(&data.path().join("store"), options).unwrap();
    let worker = census.register("Ann", 1, "kernel", None).unwrap();
    let author = || census.author(worker);
    let mut solved: HashMap<Unit, (Plan, Delivery, Delivery)> = HashMap::new();
    memory::census_of(class, LAST, PlanOptions::default(), &solver(), &mut |plan, unit| {
        let right = delivery(
            unit.unit,
            unit.sequence,
            unit.blocks(),
            unit.summary.clone(),
            unit.elapsed,
            author(),
        );
        // The same without its last graph, and all that is stated is right of the others.
        let [table] = &unit.tables[..] else { panic!("one bucket") };
        let kept = table.len().saturating_sub(1);
        let fewer = BucketTable::new(
            plan.layout,
            unit.sequence,
            0,
            0,
            (0..kept).map(|i| table.slot(i)),
            |i, record| record.copy_from_slice(&table.record(i)[..record.len()]),
        );
        let blocks: Vec<_> = fewer.to_blocks(0).into_iter().collect();
        let mut summary = recount(GameName::TrailTrap, plan, &blocks).unwrap().summary;
        let told = TrailTrap::ABOUT.told_by_outcome().unwrap();
        let stated = &unit.summary.statistics;
        summary.statistics.classes.sums.0[told] = stated.classes.sums.0[told];
        summary.statistics.labelled.sums.0[told] = stated.labelled.sums.0[told];
        let wrong = delivery(unit.unit, unit.sequence, blocks, summary, unit.elapsed, author());
        solved.insert(unit.unit, (plan.clone(), right, wrong));
    })
    .unwrap();
    let mut delivered = Vec::new();
    loop {
        let work = next_work(&census, worker, true).expect("a graph is still to be left out");
        let chosen = work.units.iter().find(|unit| {
            let graphs = solved[unit].1.record.statistics.classes.all;
            // The last order, and a shard of which some is left.
            usize::from(unit.order) == LAST && graphs.graphs > 1 && graphs.listed == 0
        });
        let deliveries = work.units.iter().map(|unit| {
            let (_, right, wrong) = solved.remove(unit).unwrap();
            if Some(unit) == chosen { wrong } else { right }
        });
        let deliveries: Vec<Delivery> = deliveries.collect();
        assert!(deliveries.iter().all(|one| one.blocks[0].id.section == Section::Keys));
        let contents = deliveries.iter().map(|one| Content::of_unit(&one.blocks));
        let contents: Vec<Content> = contents.collect();
        let answer = census.accept(worker, work.lease, deliveries, true);
        if chosen.is_some() {
            // In one process that is an accident, at first.
            assert!(matches!(answer, Err(Refusal::Void)), "{answer:?}");
            let (_, alarm) = &census.alarms()[0];
            assert!(alarm.text.contains("Σ n!/|Aut|"), "{alarm:?}");
            break;
        }
        answer.unwrap();
        delivered.extend(work.units.into_iter().zip(contents));
    }
    census.close().unwrap();
    // What the units tell is kept with the content of the blocks that tell it.
    let store = Store::open_read_only(&data.path().join("store")).unwrap();
    delivered.retain(|(unit, _)| usize::from(unit.order) < LAST);
    assert!(delivered.len() > 10);
    for (unit, content) in delivered {
        assert_eq!(store.ahead(unit).unwrap().unwrap().content, content);
        assert_eq!(store.unit(unit).unwrap().unwrap().content, content);
    }
}

/// What `verify` calls the check of counts of a class that degrees do not tell.
const TOLD: &str = "labelled graphs from those with one edge less";
const STATISTICS: &str = "statistics and digests of the stored graphs";

/// A copy of a census of the bipartite graphs of order 6 that is changed behind its back, and what
/// `verify` finds wrong with it then.
fn failures(
    sound: &Data,
    arguments: &[&str],
    change: impl FnOnce(&Store, &Plan),
) -> HashMap<String, String> {
    let data = sound.copy();
    let store = Store::open(&data.path().join("store"), None, None).unwrap();
    let plan = plan(store.layout(), 6, &store.order(6).unwrap().unwrap()).unwrap();
    change(&store, &plan);
    drop(store);
    failures_of(&[&["6", "--data", &data.text()], arguments].concat())
}

/// What graphs tell of those with an edge more is kept, and `verify` holds the counts of a class to
/// it: if it is told otherwise, or of other blocks, that is noticed.
#[test]
fn verify_notices_what_is_told_otherwise_of_a_class() {
    let sound = finished(6, "bipartite");
    type Change = fn(&mut Ahead, u128);
    let changes: [(Change, &str); 3] = [
        (|ahead, _| ahead.masses[0].1 += 1, "what is told of its mass is uneven"),
        (|ahead, size| ahead.masses[0].1 += size, "has mass"),
        (|ahead, _| ahead.content.0[0] ^= 1, "it is not known what a unit tells of larger graphs"),
    ];
    for (change, says) in changes {
        let failed = failures(&sound, &["--level", "1"], |store, plan| {
            // Of graphs with two edges or more.
            let told = store.units(6).unwrap().into_iter().find_map(|(unit, _)| {
                let ahead = store.ahead(unit).unwrap()?;
                let size = plan.shards[ahead.masses.first()?.0 as usize].size;
                (size > 1).then_some((unit, ahead, size))
            });
            let (unit, mut ahead, size) = told.unwrap();
            change(&mut ahead, size as u128);
            store.put_ahead(unit, &ahead).unwrap();
        });
        assert!(failed.len() == 1 && failed[TOLD].contains(says), "{says}: {failed:?}");
    }
}

/// How many graphs of a class are connected follows from how many there are of smaller orders.
#[test]
fn verify_counts_connected_graphs_of_a_class() {
    let sound = finished(6, "bipartite");
    let failed = failures(&sound, &["--level", "1"], |store, _| {
        let mut units = store.units(6).unwrap().into_iter();
        // One that P2 wins.
        let (unit, mut record) = units
            .find(|(_, record)| record.statistics.classes.connected.others() > 0)
            .expect("P2 wins a connected graph");
        take_apart(&mut record.statistics);
        put_record(store, unit, record);
        add_up(store, 6);
    });
    let says = " connected graphs, but there are ";
    assert!(failed.len() == 1 && failed[TOLD].contains(says), "{failed:?}");
}

/// A graph with the degrees of one of the class, in its place, does not belong to it.
#[test]
fn verify_finds_a_graph_that_does_not_belong_to_the_class() {
    let sound = finished(6, "bipartite");
    let failed = failures(&sound, &["--level", "3"], |store, plan| {
        // The cycle of length six is the only one of the class.
        let sequence = DegreeSequence::new([2; 6]);
        let index = plan.find(&sequence).unwrap();
        let shard = &plan.shards[index as usize];
        let outcomes = store.block(shard, 0, 0, Section::Outcomes).unwrap();
        assert_eq!(outcomes.count, 1);
        let triangles = Graph::from_edges(6, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]);
        let slots = [slot_of(&triangles)].into_iter();
        let record = |_: usize, record: &mut [u8]| record.copy_from_slice(outcomes.record(0));
        let table = BucketTable::new(plan.layout, sequence, 0, 0, slots, record);
        let unit = Unit { order: 6, shard: index, part: 0 };
        let record = store.unit(unit).unwrap().unwrap();
        let blocks = table.to_blocks(0).into_iter().collect();
        let foreign = Delivery { blocks, ..Delivery::of_statement(unit, sequence, record) };
        store.commit(&[Arc::new(foreign)], 1).unwrap();
    });
    assert!(failed[STATISTICS].contains("does not belong to the class"), "{failed:?}");
}

/// A graph of a class that is not there, nor in any count, digest or content, is missed by what those
/// with one edge less tell: as it is kept, and as it follows from the graphs themselves.
#[test]
fn verify_misses_a_graph_of_a_class_that_nobody_counts() {
    let sound = finished(6, "bipartite");
    let failed = failures(&sound, &["--level", "3"], |store, plan| {
        let mut units = store.units(6).unwrap().into_iter();
        let (unit, before) = units
            .find(|(_, record)| {
                let all = record.statistics.classes.all;
                all.graphs > 1 && all.listed == 0
            })
            .expect("P2 wins two graphs with the same degrees");
        let shard = plan.shard_of(unit);
        let [keys, outcomes] = [Section::Keys, Section::Outcomes]
            .map(|section| store.block(shard, 0, 0, section).unwrap());
        let slots: Vec<u64> = keys.slots().skip(1).collect();
        let record = |i: usize, record: &mut [u8]| record.copy_from_slice(outcomes.record(i + 1));
        let slots = slots.into_iter();
        let table = BucketTable::new(plan.layout, shard.sequence, 0, 0, slots, record);
        let blocks: Vec<Block> = table.to_blocks(0).into_iter().collect();
        // No first move wins, before and after.
        let Recount { summary: Summary { statistics, digest }, ahead } =
            recount(GameName::TrailTrap, plan, &blocks).unwrap();
        let content = Content::of_unit(&blocks);
        let record = UnitRecord { statistics, digest: digest.to_le_bytes(), content, ..before };
        let fewer = Delivery {
            blocks,
            ahead: Some(Ahead::of(content, ahead)),
            ..Delivery::of_statement(unit, shard.sequence, record)
        };
        store.commit(&[Arc::new(fewer)], 1).unwrap();
        add_up(store, 6);
    });
    for check in [TOLD, STATISTICS] {
        assert!(failed[check].contains("has mass"), "{check}: {failed:?}");
    }
    assert!(!failed.contains_key("blocks complete and undamaged"), "{failed:?}");
}

/// Where no labelled graph is recorded there is nothing to draw, and that is said.
#[test]
fn verify_draws_nothing_where_no_graph_is_recorded() {
    let sound = finished(6, "bipartite");
    let sample = ["--level", "5", "--sample", "1"];
    let failed = failures(&sound, &sample, |store, _| {
        for (unit, mut record) in store.units(6).unwrap() {
            record.statistics.labelled.all.graphs = 0;
            put_record(store, unit, record);
        }
    });
    let drawing =
        ["one step of the recurrence, by nauty", "forward search", "shards solved again"];
    for check in drawing {
        assert!(failed[check].contains("no graph is recorded"), "{check}: {failed:?}");
    }
}
