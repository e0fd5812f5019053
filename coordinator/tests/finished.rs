//! `trailtrap lookup` and `trailtrap verify`: what a finished census says about graphs, and what is noticed when it is damaged.

mod common;

use std::{collections::HashMap, fs, path::Path, process::Output, sync::Arc};

use common::{Data, census_json, run, run_with_input, stderr, stdout};
use serde_json::Value;
use trailtrap::{
    finished::FinishedOrder,
    store::{Delivery, Store, UnitRecord},
};
use trailtrap_shared::{
    game::TrailTrap,
    graph::Graph,
    graph6, nauty,
    partition::{Block, Table},
    plan::Unit,
};
use trailtrap_worker::forward::{ForwardSearch, Solution};

fn lookup(data: &Data, input: &str, arguments: &[&str]) -> Output {
    run_with_input(&[&["lookup", "--data", &data.text()], arguments].concat(), input)
}

#[test]
fn lookup_agrees_with_forward_search_in_any_labelling() {
    let data = Data::new();
    census_json(6, &data, &[]);
    // Every graph of orders 5 and 6, turned around, in one pipe.
    let graphs: Vec<Graph> = nauty::enumerate(6)[4..]
        .iter()
        .flatten()
        .enumerate()
        .map(|(i, graph)| {
            let n = graph.order();
            let label = std::array::from_fn(|v| if v < n { ((v * (n - 1) + i) % n) as u8 } else { 0 });
            graph.relabelled(&label)
        })
        .collect();
    let input: String = graphs.iter().map(|graph| graph6::encode(graph) + "\n").collect();
    let output = lookup(&data, &input, &["--format", "json", "--positions", "--batch", "50"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let answers: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answers.len(), graphs.len());
    let mut search = ForwardSearch::new(usize::MAX);
    for (graph, answer) in graphs.iter().zip(&answers) {
        let n = graph.order();
        let p1_wins = matches!(search.solve(graph).unwrap(), Solution::P1 { .. });
        assert_eq!(answer["winner"], if p1_wins { "P1" } else { "P2" }, "{graph:?}");
        assert_eq!(answer["automorphisms"], nauty::label(graph).automorphisms);
        let mut won = 0;
        for a in 0..n {
            let expected: Vec<usize> = (0..n).filter(|&b| search.mover_wins(graph, a, b).unwrap()).collect();
            won += expected.len();
            assert_eq!(answer["positions"]["won_against"][a], serde_json::json!(expected), "{graph:?}, token at {a}");
        }
        assert_eq!(answer["won_positions"], won);
        let refuted: Vec<usize> = (0..n).filter(|&v| search.answer(graph, v).unwrap().is_some()).collect();
        assert_eq!(answer["positions"]["refuted"], serde_json::json!(refuted), "{graph:?}");
    }
}

#[test]
fn what_cannot_be_looked_up_is_named() {
    let data = Data::new();
    census_json(5, &data, &[]);
    let output = lookup(&data, "C~\nEEh_\nD!w\nCF\n", &["--format", "csv"]);
    assert_eq!(output.status.code(), Some(1));
    let csv = "graph6,order,size,winner,automorphisms,won_positions,refuted_ends\n";
    assert!(stdout(&output).starts_with(&format!("{csv}C~,4,6,P1,24,")), "{}", stdout(&output));
    assert_eq!(stdout(&output).lines().count(), 3);
    let errors = stderr(&output);
    assert!(errors.contains("line 2: order 6 is not finished here; `trailtrap census 6`"), "{errors}");
    assert!(errors.contains("line 3: column 2"), "{errors}");
    let nowhere = run(&["lookup", "--data", "/nonexistent", "C~"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(stderr(&nowhere).contains("there is no census in /nonexistent"));
}

/// Runs `verify` on order 7 and gives what failed.
fn failures(data: &Data, arguments: &[&str]) -> HashMap<String, String> {
    let output = run(&[&["verify", "7", "--json", "--data", &data.text()], arguments].concat());
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let failed: HashMap<String, String> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| !finding["failure"].is_null())
        .map(|finding| (finding["check"].as_str().unwrap().to_owned(), finding["failure"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(output.status.code(), Some(i32::from(!failed.is_empty())));
    assert_eq!(report["failures"], failed.len());
    failed
}

const STATISTICS: &str = "statistics and digests of the stored graphs";
const STEPS: &str = "one step of the recurrence, by nauty";

#[test]
fn verify_finds_nothing_wrong_and_everything_that_is() {
    let sound = Data::new();
    census_json(7, &sound, &[]);
    assert_eq!(failures(&sound, &["--level", "6"]), HashMap::new());

    // A verdict flipped, with all checksums in order.
    let flipped = damaged(&sound, |entries| *entries[0].1.last_mut().unwrap() ^= 1 << ((7 * 7 + 7) % 8));
    let failed = failures(&flipped, &["--level", "6", "--sample", "5000"]);
    assert!([STATISTICS, STEPS, "forward search"].iter().all(|check| failed.contains_key(*check)), "{failed:?}");
    // One position flipped: no count of graphs tells.
    let failed = failures(&damaged(&sound, |entries| entries[3].1[1] ^= 4), &["--level", "6"]);
    assert!(failed.contains_key(STATISTICS) && failed.contains_key(STEPS), "{failed:?}");
    // A graph dropped.
    let failed = failures(&damaged(&sound, |entries| drop(entries.remove(2))), &["--level", "3"]);
    assert!(failed.contains_key("blocks complete and undamaged") && failed.contains_key(STATISTICS), "{failed:?}");
    // A graph put in the place of another, in other labels: not canonical, or not there.
    let failed = failures(&damaged(&sound, |entries| entries[1].0 ^= 1), &["--level", "3"]);
    assert!(failed.contains_key(STATISTICS), "{failed:?}");
    // The outcomes of two graphs swapped.
    let swap = |entries: &mut Vec<(u64, Vec<u8>)>| {
        let other = (1..entries.len()).find(|&i| entries[i].1 != entries[0].1).unwrap();
        let record = entries[0].1.clone();
        entries[0].1 = std::mem::replace(&mut entries[other].1, record);
    };
    assert!(failures(&damaged(&sound, swap), &["--level", "3"]).contains_key(STATISTICS));

    // A unit's record gone, and counts that add up no more.
    let data = copy(&sound);
    let store = Store::open(&data.path().join("store")).unwrap();
    store.forget([Unit { order: 7, shard: 40, part: 0 }].into_iter()).unwrap();
    drop(store);
    let failed = failures(&data, &["--level", "1"]);
    assert!(failed["every unit recorded once"].contains("the list has a gap"), "{failed:?}");
    assert!(failed.contains_key("Pólya counts and mass formula"));
}

#[test]
fn verify_reads_lists() {
    let data = Data::new();
    census_json(7, &data, &[]);
    let listed = stdout(&run(&["export", "graphs", "7", "--data", &data.text()]));
    let sound: Vec<String> = listed.lines().map(str::to_owned).collect();
    let turned = |text: &String| {
        let turn = std::array::from_fn(|v| if v < 7 { 6 - v as u8 } else { 0 });
        graph6::encode(&graph6::decode(text.as_bytes()).unwrap().relabelled(&turn))
    };
    let directory = tempfile::tempdir().unwrap();
    let verify = |lines: &[String], end: &str| -> (Option<i32>, String) {
        let path = directory.path().join("list.g6");
        fs::write(&path, lines.join("\n") + end).unwrap();
        let output = run(&["verify", path.to_str().unwrap(), "--data", &data.text(), "--sample", "1000"]);
        (output.status.code(), stdout(&output))
    };
    let (code, text) = verify(&sound, "\n");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("158 graphs of order 7") && text.contains("none is missing"), "{text}");

    let refused = |lines: &[String], end: &str, why: &str| {
        let (code, text) = verify(lines, end);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("WRONG") && text.contains(why), "{text}");
    };
    refused(&sound, "", "cut short");
    refused(&sound[..100], "\n", "the census has");
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines = sound.clone();
        change(&mut lines);
        lines
    };
    refused(&with(&|lines| lines.insert(5, lines[5].clone())), "\n", "line 7: not greater than");
    refused(&with(&|lines| drop(lines.remove(70))), "\n", "the census has");
    refused(
        &with(&|lines| lines[9] = lines.iter().map(turned).find(|line| !sound.contains(line)).unwrap()),
        "\n",
        "canonical",
    );
    // The edgeless graph comes first in any list, and P2 wins it.
    refused(&with(&|lines| lines.insert(0, "F????".to_owned())), "\n", "P2 wins");
    let nothing = run(&["verify", "no-such-file"]);
    assert!(stderr(&nothing).contains("no such file"), "{}", stderr(&nothing));
}

fn copy(data: &Data) -> Data {
    let copy = Data::new();
    copy_directory(&data.path(), &copy.path());
    copy
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy_directory(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// A copy of a census in which the slots and records of the largest shard of order 7 are changed behind the back of its unit's
/// record, with checksums that fit.
fn damaged(sound: &Data, change: impl Fn(&mut Vec<(u64, Vec<u8>)>)) -> Data {
    let data = copy(sound);
    let store = Arc::new(Store::open(&data.path().join("store")).unwrap());
    let finished = FinishedOrder::open(&store, 7).unwrap();
    let (index, shard) = finished
        .plan
        .shards
        .iter()
        .enumerate()
        .filter(|(_, shard)| shard.size <= 12)
        .max_by_key(|(_, shard)| shard.mass)
        .unwrap();
    let table = finished.table(shard, 0).unwrap();
    let width = trailtrap_shared::game::record_bytes::<TrailTrap>(7);
    let mut entries: Vec<(u64, Vec<u8>)> =
        (0..table.len()).map(|i| (table.slot(i), table.record(i)[..width].to_vec())).collect();
    change(&mut entries);
    entries.sort();
    let slots = entries.iter().map(|(slot, _)| *slot).collect::<Vec<_>>();
    let table = Table::new::<TrailTrap>(shard.sequence, 0, 0, slots.into_iter(), |i, record| {
        record.copy_from_slice(&entries[i].1)
    });
    let unit = Unit { order: 7, shard: index as u32, part: 0 };
    let blocks: Vec<Block> = table.to_blocks::<TrailTrap>(0).into();
    let record: UnitRecord = store.unit(unit).unwrap().unwrap();
    store.commit(&[Arc::new(Delivery { unit, sequence: shard.sequence, blocks, record })]).unwrap();
    data
}
