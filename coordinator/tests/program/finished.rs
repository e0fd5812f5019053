//! `trailtrap lookup` and `trailtrap verify`: what a finished census says about graphs, and what
//! is noticed when it is damaged.

use std::{
    cmp::Reverse,
    collections::HashMap,
    fs,
    io::Read,
    ops::RangeBounds,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::{Arc, LazyLock},
    time::Duration,
};

use flate2::read::GzDecoder;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use trailtrap_census::{
    read::{archive::ShardSummary, finished::FinishedOrder},
    records::{
        Delivery, OrderRecord, UnitRecord,
        alarm::{Alarm, AlarmKind},
    },
    store::{Store, plan},
};
use trailtrap_export::shards;
use trailtrap_shared::{
    class::Class,
    count::statistics::{Statistics, Structure},
    game::{
        Game, Search, TrailTrap,
        trail_trap::{ForwardSearch, REFUTED_ENDS, WINNING_FIRST_MOVES, WON_POSITIONS},
    },
    graph::{Graph, degree::DegreeSequence, graph6, nauty},
    partition::{Block, BucketTable, Section, graph_of_slot, slot_bits},
    plan::{Plan, PlanOptions, Unit},
};
use trailtrap_worker::supply::{kept::Mark, shelf::others::OtherShelves};

use crate::common::{
    Data, Process, add_up, by_name, census_json, command, copy_directory, failures_of, put_record,
    resealed, rewrite, run, run_with_input, skip, stderr, stdout, succeeded, take_apart,
    trailtrap, verified, worker,
};

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
            let label =
                std::array::from_fn(|v| if v < n { ((v * (n - 1) + i) % n) as u8 } else { 0 });
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
        let p1_wins = search.solve(graph).unwrap().is_listed();
        assert_eq!(answer["winner"], if p1_wins { "P1" } else { "P2" }, "{graph:?}");
        assert_eq!(answer["automorphisms"], nauty::label(graph).automorphisms);
        let mut won = 0;
        for a in 0..n {
            let expected: Vec<usize> =
                (0..n).filter(|&b| search.mover_wins(graph, a, b).unwrap()).collect();
            won += expected.len();
            assert_eq!(
                answer["positions"]["won_against"][a],
                serde_json::json!(expected),
                "{graph:?}, token at {a}"
            );
        }
        assert_eq!(answer["won_positions"], won);
        let refuted: Vec<usize> =
            (0..n).filter(|&v| search.answer(graph, v).unwrap().is_some()).collect();
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
    let remedy = format!(
        "line 2: order 6 is not finished here; `trailtrap census 6 --data {}`",
        data.text()
    );
    assert!(errors.contains(&remedy), "{errors}");
    assert!(errors.contains("line 3: column 2"), "{errors}");
    // Nobody reads along.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let alone = trailtrap()
        .args(["lookup", "--data", &data.text(), "D!w", "C~"])
        .stderr(writer)
        .output()
        .unwrap();
    assert_eq!((alone.status.code(), stdout(&alone).lines().count()), (Some(1), 1));
    let unfinished = run(&["verify", "6", "--data", &data.text()]);
    assert_eq!(unfinished.status.code(), Some(1));
    let errors = stderr(&unfinished);
    assert!(
        errors.contains(&format!("data directory {}", data.text()))
            && errors.contains(&remedy[8..]),
        "{errors}"
    );
    let nowhere = run(&["lookup", "--data", "/nonexistent", "C~"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(stderr(&nowhere).contains("there is no census in /nonexistent"));
}

/// A graph of an order whose outcomes are gone has no answer, and takes no other's away.
#[test]
fn what_was_not_kept_is_said_and_nothing_else_is_missing() {
    ["graphs", "minimal"].into_iter().for_each(what_was_not_kept_is_said);
}

fn what_was_not_kept_is_said(keep: &str) {
    let data = Data::new();
    census_json(6, &data, &[]);
    census_json(8, &data, &["--keep", keep]);
    // Orders 5, 7, 8, 5.
    let output = lookup(&data, "D~{\nF~~~w\nG~~~~{\nD??\n", &["--format", "csv"]);
    assert_eq!(output.status.code(), Some(1));
    let answers = stdout(&output);
    let answered: Vec<&str> =
        answers.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(answered, ["D~{", "D??"], "{}", stderr(&output));
    for (line, order) in [(2, 7), (3, 8)] {
        let said = format!("line {line}: the outcomes of order {order} were not kept");
        assert!(stderr(&output).contains(&said), "{}", stderr(&output));
    }
    // Everything is right, as far as it is there.
    for order in ["6", "7", "8"] {
        let report = verified(&[order, "--level", "5", "--json", "--data", &data.text()]);
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!((&report["failures"], &report["unchecked"]), (&0.into(), &0.into()));
        let findings = report["findings"].as_array().unwrap();
        let not_kept: Vec<&str> = findings
            .iter()
            .filter(|finding| !finding["not_kept"].is_null())
            .map(|finding| finding["check"].as_str().unwrap())
            .collect();
        let expected: &[&str] = match order {
            "6" => &[],
            _ => &[STATISTICS, STEPS, FORWARD, THEOREMS, SHARDS],
        };
        assert_eq!(not_kept, expected, "order {order}");
    }
    let text = stdout(&run(&["verify", "--level", "3", "--data", &data.text()]));
    assert!(
        text.contains("order 8: not kept   ")
            && text.contains("nothing wrong; 2 of 57 checks need what was not kept"),
        "{text}"
    );
    // What should be there is missed all the same.
    for (family, order) in [("keys", 8), ("wins", 7)] {
        if (keep, family) == ("minimal", "keys") {
            continue;
        }
        let data = data.copy();
        remove_block(&data, family, order);
        let failed = failures_of(&["--level", "2", "--data", &data.text()]);
        assert!(failed[BLOCKS].contains("is missing"), "{family}: {failed:?}");
    }
}

/// Removes the first block of an order from a family.
fn remove_block(data: &Data, family: &str, order: u8) {
    let db = data.database();
    let blocks = db.cf_handle(family).unwrap();
    let from = rocksdb::IteratorMode::From(&[order], rocksdb::Direction::Forward);
    let (key, _) = db.iterator_cf(blocks, from).next().unwrap().unwrap();
    assert_eq!(key[0], order);
    db.delete_cf(blocks, key).unwrap();
}

/// All blocks of an order, unit by unit, with what is recorded.
fn deliveries(store: &Store, order: usize) -> Vec<Delivery> {
    let record = store.order(order).unwrap().unwrap();
    let plan = plan(store.layout(), order, &record).unwrap();
    let delivery = |(unit, record): (Unit, UnitRecord)| {
        let shard = plan.shard_of(unit);
        let blocks = shard.buckets().flat_map(|bucket| {
            Section::ALL.map(|section| store.block(shard, unit.part, bucket, section).unwrap())
        });
        Delivery::new(unit, shard.sequence, blocks.collect(), record)
    };
    store.units(order).unwrap().into_iter().map(delivery).collect()
}

#[test]
fn what_is_dropped_of_some_shards_is_gone_and_nothing_else() {
    let data = Data::new();
    census_json(7, &data, &["--part-graphs", "5", "--bucket-size", "100"]);
    let path = data.path().join("store");
    let store = Store::open(&path, None, None).unwrap();
    let plan = plan(store.layout(), 7, &store.order(7).unwrap().unwrap()).unwrap();
    assert!(plan.shards.iter().any(|shard| shard.parts > 1));
    assert!(plan.shards.iter().any(|shard| shard.bucket_bits > 0));
    let is_dropped = |index: usize| index % 3 == 1 || (100..150).contains(&index);
    let shards = plan.shards.iter().enumerate();
    let dropped: Vec<u32> =
        (0..plan.shards.len() as u32).rev().filter(|&index| is_dropped(index as usize)).collect();
    store.drop_shards(&plan, &dropped, &[Section::Keys, Section::Outcomes]).unwrap();
    let look = |store: &Store| {
        for (index, shard) in shards.clone() {
            for (part, bucket) in
                (0..shard.parts).flat_map(|part| shard.buckets().map(move |b| (part, b)))
            {
                for section in Section::ALL {
                    let is_there = store.block(shard, part, bucket, section).is_ok();
                    assert_eq!(is_there, section == Section::Wins || !is_dropped(index));
                }
            }
        }
    };
    look(&store);
    drop(store);
    look(&Store::open(&path, None, None).unwrap());
}

/// Writes the largest units of an order again, one at a time, until the store has more than so
/// many files: how many a census leaves depends on how fast it was.
fn scatter(path: &Path, order: usize, count: usize) {
    let files = || fs::read_dir(path).unwrap().count();
    let mut all = deliveries(&Store::open(path, None, None).unwrap(), order);
    all.sort_by_key(|delivery| Reverse(delivery.record.bytes));
    for delivery in all {
        if files() > count {
            return;
        }
        // What is still in the log is moved to files of its own when a store is opened.
        Store::open(path, None, None).unwrap().commit(&[Arc::new(delivery)], u64::MAX).unwrap();
    }
    assert!(files() > count, "{} files", files());
}

/// Whoever looks on while every file is replaced sees no difference.
#[test]
fn files_that_are_gone_by_the_time_they_are_read_are_no_damage() {
    let data = Data::new();
    census_json(9, &data, &[]);
    let path = data.path().join("store");
    let blobs = || -> Vec<PathBuf> {
        let files = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|end| end == "blob")).collect()
    };
    let reader = Store::open_read_only(&path).unwrap();
    let before = blobs();
    assert!(!before.is_empty());
    let writer = Store::open(&path, None, None).unwrap();
    let all: Vec<Arc<Delivery>> = deliveries(&writer, 9).into_iter().map(Arc::new).collect();
    for section in Section::ALL {
        writer.drop_section(section, 9, 36).unwrap();
    }
    writer.commit(&all, 1 << 20).unwrap();
    // Files go when nobody in that process reads them any more.
    drop(writer);
    drop(Store::open(&path, None, None).unwrap());
    let after = blobs();
    assert!(before.iter().all(|blob| !after.contains(blob)), "{before:?} {after:?}");
    let seen = deliveries(&reader, 9);
    assert_eq!(seen.len(), all.len());
    for (seen, written) in seen.iter().zip(&all) {
        assert_eq!((seen.unit, &seen.blocks), (written.unit, &written.blocks));
        assert_eq!(seen.record, written.record);
    }
}

/// Whoever may open few files reads the same, and what the system refuses is no wrong result.
#[test]
fn few_descriptors_suffice_and_too_few_are_no_wrong_result() {
    let data = Data::new();
    census_json(9, &data, &[]);
    scatter(&data.path().join("store"), 9, 70);
    let verify = |limit: usize| {
        let program = env!("CARGO_BIN_EXE_trailtrap");
        let line = format!("ulimit -n {limit} && exec \"$@\"");
        let arguments = ["verify", "9", "--level", "2", "--data", &data.text()];
        let mut command = command("sh");
        command.args(["-c", &line, "sh", program]).args(arguments).output().unwrap()
    };
    let mut complete = 0;
    for limit in (8..=64).rev().step_by(4) {
        let output = verify(limit);
        let said = stdout(&output) + &stderr(&output);
        assert!(!said.contains("WRONG") && !said.contains("do not trust"), "{limit}: {said}");
        match output.status.code() {
            Some(0) => complete += 1,
            _ => assert!(limit < 64, "{limit}: {said}"),
        }
    }
    assert!(complete > 0);
}

/// Where the system refuses threads, the libraries that take them would end the process without a
/// word.
#[test]
fn who_has_too_few_threads_is_told() {
    // The system refuses the superuser none, so that somebody else runs a copy, where all may write.
    let somebody: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
        false => &["env"],
    };
    let as_somebody = || {
        let mut command = command(somebody[0]);
        command.args(&somebody[1..]).args(["prlimit", "--nproc=0"]);
        command
    };
    if !as_somebody().arg("true").output().is_ok_and(|output| output.status.success()) {
        skip("nobody else can be had here, or no limit");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let all_may = || fs::Permissions::from_mode(0o777);
    fs::set_permissions(place.path(), all_may()).unwrap();
    for program in [trailtrap(), worker()] {
        let copy = place.path().join(Path::new(program.get_program()).file_name().unwrap());
        fs::copy(program.get_program(), &copy).unwrap();
        fs::set_permissions(&copy, all_may()).unwrap();
    }
    let said = |line: &str| {
        let mut command = as_somebody();
        command.current_dir(place.path()).args(format!("./{line}").split(' '));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}: {}", stderr(&output));
        stderr(&output)
    };
    for command in ["solve Dhc", "plan 5", "verify 5", "census 5"] {
        let said = said(&format!("trailtrap {command}"));
        assert!(said.contains("have 0 of ") && said.contains("ulimit -u"), "{command}: {said}");
    }
    let said = said("trailtrap-worker --coordinator 127.0.0.1:1");
    assert!(said.contains("have 0 of ") && said.contains("ulimit -u"), "{said}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2, "nothing is begun");
}

/// Runs `verify` on order 7 and gives what failed.
fn failures(data: &Data, arguments: &[&str]) -> HashMap<String, String> {
    failures_of(&[&["7", "--data", &data.text()], arguments].concat())
}

/// That these checks have failed, and no others, and what they say.
fn have_failed(failed: &HashMap<String, String>, expected: &[(&str, &str)]) {
    for (check, says) in expected {
        let is_said = failed.get(*check).is_some_and(|failure| failure.contains(says));
        assert!(is_said, "{check}, {says}: {failed:?}");
    }
    assert_eq!(failed.len(), expected.len(), "{failed:?}");
}

const UNITS: &str = "every unit recorded once";
const COUNTS: &str = "Pólya counts and mass formula";
const KNOWN: &str = "known sequences";
const INPUTS: &str = "units computed from what is there";
const BLOCKS: &str = "blocks complete and undamaged";
const STATISTICS: &str = "statistics and digests of the stored graphs";
const STEPS: &str = "one step of the recurrence, by nauty";
const FORWARD: &str = "forward search";
const THEOREMS: &str = "theorems";
const SHARDS: &str = "shards solved again";

/// A census of order 7 without any fault.
static SOUND: LazyLock<Data> = LazyLock::new(|| {
    let data = Data::new();
    census_json(7, &data, &[]);
    data
});

/// Slots and records of a shard.
type Entries = Vec<(u64, Vec<u8>)>;

/// The outcomes of two graphs swapped.
fn swap_outcomes(entries: &mut Entries) {
    let other = (1..entries.len()).find(|&i| entries[i].1 != entries[0].1).unwrap();
    let record = entries[0].1.clone();
    entries[0].1 = std::mem::replace(&mut entries[other].1, record);
}

/// Two columns of a record swapped.
fn swap_columns(entries: &mut Entries) {
    let bit = |record: &[u8], place: usize| record[place / 8] >> (place % 8) & 1;
    let differ = |record: &[u8], x: usize, y: usize| {
        (0..7).any(|a| bit(record, 7 * x + a) != bit(record, 7 * y + a))
    };
    let columns = |record: &[u8]| {
        (0..7).flat_map(|x| (0..x).map(move |y| (x, y))).find(|&(x, y)| differ(record, x, y))
    };
    let (entry, (x, y)) =
        (0..entries.len()).find_map(|i| Some((i, columns(&entries[i].1)?))).unwrap();
    let record = &mut entries[entry].1;
    for a in 0..7 {
        if bit(record, 7 * x + a) != bit(record, 7 * y + a) {
            [7 * x + a, 7 * y + a]
                .into_iter()
                .for_each(|place| record[place / 8] ^= 1 << (place % 8));
        }
    }
}

/// One way to damage a shard, with all checksums in order, and what notices.
struct DamagedShard {
    what: &'static str,
    change: fn(&mut Entries),
    level: &'static str,
    found_by: &'static [&'static str],
    /// What the first of these says.
    says: &'static str,
}

const DAMAGES: [DamagedShard; 7] = [
    DamagedShard {
        what: "a verdict flipped",
        change: |entries| *entries[0].1.last_mut().unwrap() ^= 1 << ((7 * 7 + 7) % 8),
        level: "6",
        found_by: &[STATISTICS, BLOCKS, STEPS, FORWARD],
        says: "do not have the recorded statistics",
    },
    DamagedShard {
        what: "one position flipped: no count of graphs tells",
        change: |entries| entries[3].1[1] ^= 4,
        level: "6",
        found_by: &[STATISTICS, BLOCKS, STEPS],
        says: "do not have the recorded statistics",
    },
    DamagedShard {
        what: "a graph dropped",
        change: |entries| drop(entries.remove(2)),
        level: "3",
        found_by: &[BLOCKS, STATISTICS],
        says: "entries, recorded",
    },
    DamagedShard {
        what: "what is no graph in the place of one",
        change: |entries| entries[1].0 ^= 1,
        level: "3",
        found_by: &[STATISTICS],
        says: "is no graph",
    },
    DamagedShard {
        what: "the outcomes of two graphs swapped",
        change: swap_outcomes,
        level: "3",
        found_by: &[STATISTICS, BLOCKS],
        says: "do not have the recorded statistics",
    },
    DamagedShard {
        what: "two columns of a record swapped: as many positions are won as before",
        change: swap_columns,
        level: "6",
        found_by: &[STATISTICS, BLOCKS, STEPS],
        says: "digest",
    },
    DamagedShard {
        what: "a graph in the place of its neighbour: it stands twice, and none seems missing",
        change: |entries| entries[4] = entries[3].clone(),
        level: "3",
        found_by: &[STATISTICS],
        says: "slots do not increase",
    },
];

#[test]
fn verify_finds_nothing_wrong_and_everything_that_is() {
    assert_eq!(failures(&SOUND, &["--level", "6"]), HashMap::new());
    for DamagedShard { what, change, level, found_by, says } in DAMAGES {
        let arguments = ["--level", level, "--sample", "5000"];
        let failed = failures(&damaged(&SOUND, 12, change), &arguments);
        assert!(found_by.iter().all(|check| failed.contains_key(*check)), "{what}: {failed:?}");
        assert!(failed[found_by[0]].contains(says), "{what}: {failed:?}");
    }
}

/// Blocks with as many entries as were recorded are not those that were recorded: a list of wins,
/// which lists of graphs are made of, has another graph of its shard in the place of one.
#[test]
fn verify_finds_a_foreign_list_of_wins_without_looking_at_outcomes() {
    // Where graphs of both kinds are, the verdicts of two are exchanged, and the list alone is kept.
    let is_won = |(_, record): &(u64, Vec<u8>)| TrailTrap::LAYOUT.is_listed(7, record);
    let exchange = |entries: &mut Entries| {
        let place_of = |won| entries.iter().position(|entry| is_won(entry) == won).unwrap();
        for place in [true, false].map(place_of) {
            *entries[place].1.last_mut().unwrap() ^= 1 << ((7 * 7 + 7) % 8);
        }
    };
    let (data, foreign) = (SOUND.copy(), damaged(&SOUND, 12, exchange));
    let open = |data: &Data| Store::open(&data.path().join("store"), None, None).unwrap();
    let (store, foreign) = (open(&data), open(&foreign));
    let both = deliveries(&store, 7).into_iter().zip(deliveries(&foreign, 7));
    let (mut delivery, other) = both.into_iter().find(|(a, b)| a.blocks != b.blocks).unwrap();
    assert_ne!(delivery.blocks[2], other.blocks[2]);
    delivery.blocks[2] = other.blocks[2].clone();
    store.commit(&[Arc::new(delivery)], u64::MAX).unwrap();
    drop(store);
    let failed = failures(&data, &["--level", "2"]);
    assert!(failed[BLOCKS].contains("are not those that were recorded"), "{failed:?}");
    let failed = failures(&data, &["--level", "3"]);
    assert!(failed[STATISTICS].contains("its list of P1-wins"), "{failed:?}");
    // What is drawn by it is searched, too.
    let drawn = ["export", "drawing", "7", "--most", "200", "--data", &data.text()];
    let output = run(&[&drawn[..], &["-o", &(data.text() + "/drawn.svg")]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stderr(&output).contains("CONTRADICTION"), "{}", stderr(&output));
}

/// Of a limited order the outcomes with most edges are kept, which samples are decided by: what can
/// be checked of them is.
#[test]
fn verify_reads_what_a_limited_census_has_kept() {
    let sound = Data::new();
    census_json(7, &sound, &["--max-size", "12", "--keep", "graphs"]);
    let failures = |data: &Data, level: &str| {
        failures_of(&["7", "--data", &data.text(), "--level", level, "--sample", "5000"])
    };
    assert_eq!(failures(&sound, "6"), HashMap::new());
    let text = stdout(&run(&["verify", "7", "--level", "4", "--data", &sound.text()]));
    for said in [
        "outcomes of graphs with fewer than 12 edges were not kept",
        "131 graphs of at least 12 edges",
        "not kept   one step of the recurrence",
        "not kept   theorems",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let flip: fn(&mut Entries) =
        |entries| *entries[0].1.last_mut().unwrap() ^= 1 << ((7 * 7 + 7) % 8);
    let failed = failures(&damaged(&sound, 12, flip), "4");
    for check in [BLOCKS, STATISTICS, FORWARD] {
        assert!(failed.contains_key(check), "{check}: {failed:?}");
    }
    let spoilt = sound.copy();
    let db = spoilt.database();
    let outcomes = db.cf_handle("outcomes").unwrap();
    let (key, block) =
        db.iterator_cf(outcomes, rocksdb::IteratorMode::End).next().unwrap().unwrap();
    db.put_cf(outcomes, key, vec![0; block.len()]).unwrap();
    drop(db);
    let failed = failures(&spoilt, "2");
    assert!(failed[BLOCKS].contains("is damaged"), "{failed:?}");
}

/// Counts that contradict theory, or each other, are no result: all units with so many edges are
/// solved again, and an alarm says so.
#[test]
fn counts_that_contradict_theory_are_solved_again() {
    let sound = census_json(7, &SOUND, &[]);
    let changes: [fn(&mut Statistics); 4] = [
        |s| s.classes.all.graphs += 1,
        |s| s.classes.connected.graphs -= 1,
        |s| s.labelled.all.graphs += 1,
        |s| s.classes.sums.0[WINNING_FIRST_MOVES] += 1,
    ];
    let unclosed = |change| {
        let data = miscounted(&SOUND, change);
        let store = Store::open(&data.path().join("store"), None, None).unwrap();
        let record = store.order(7).unwrap().unwrap();
        store.put_order(7, &OrderRecord { result: None, ..record }).unwrap();
        data
    };
    for (i, change) in changes.into_iter().enumerate() {
        let data = unclosed(change);
        let output = run(&["census", "7", "--json", "--data", &data.text()]);
        assert!(output.status.success(), "{i}: {}", stderr(&output));
        assert_eq!(stdout(&output), sound, "{i}");
        let store = Store::open_read_only(&data.path().join("store")).unwrap();
        let [(_, alarm)] = &store.alarms().unwrap()[..] else { panic!("{i}: not one alarm") };
        assert_eq!(alarm.kind, AlarmKind::Sum, "{}", alarm.text);
    }
}

/// The verdicts of all graphs with six edges and these degrees are flipped: Theorem 14 knows better
/// of those that are trees.
#[test]
fn verify_holds_forests_to_a_theorem() {
    let flip = |entries: &mut Entries| {
        let last = |(_, record): &mut (u64, Vec<u8>)| *record.last_mut().unwrap() ^= 1;
        entries.iter_mut().for_each(last);
    };
    assert_eq!((7 * 7 + 7) % 8, 0, "the verdict is the lowest bit of the last byte");
    let failed = failures(&damaged(&SOUND, 6, flip), &["--level", "4"]);
    assert!(failed[THEOREMS].contains("Theorem 14 of the paper says otherwise"), "{failed:?}");
}

/// Whatever goes by records misses a unit that has none.
#[test]
fn verify_finds_a_gap_in_the_records() {
    let data = SOUND.copy();
    let store = Store::open(&data.path().join("store"), None, None).unwrap();
    store.take_back(&[Unit { order: 7, shard: 40, part: 0 }]).unwrap();
    drop(store);
    let expected = [
        (UNITS, "the list has a gap"),
        (COUNTS, "has mass 0, not"),
        (INPUTS, "some units are missing"),
        (STATISTICS, "a shard without records"),
        (STEPS, "a shard without records"),
        (SHARDS, "is not recorded"),
    ];
    have_failed(&failures(&data, &["--level", "5", "--sample", "5000"]), &expected);
}

/// A record that is not that of the blocks that are there, of what they were computed from, or of
/// what can be computed again, is found by these checks, and by no others.
#[test]
fn verify_holds_records_to_what_is_there() {
    type Change = fn(&mut UnitRecord);
    let inputs = (INPUTS, "was computed from partitions that are not there");
    let changes: [(Change, &[(&str, &str)]); 3] = [
        (|record| record.inputs.0[0] ^= 1, &[inputs]),
        // Those that read it have read something else.
        (
            |record| record.content.0[0] ^= 1,
            &[inputs, (BLOCKS, "are not those that were recorded")],
        ),
        (
            |record| record.digest[0] ^= 1,
            &[
                (COUNTS, "is not the sum of its units"),
                (STATISTICS, "its records have digest"),
                (SHARDS, "solved again it has digest"),
            ],
        ),
    ];
    for (change, found_by) in changes {
        let data = SOUND.copy();
        let store = Store::open(&data.path().join("store"), None, None).unwrap();
        let unit = Unit { order: 7, shard: 100, part: 0 };
        let mut record = store.unit(unit).unwrap().unwrap();
        change(&mut record);
        put_record(&store, unit, record);
        drop(store);
        have_failed(&failures(&data, &["--level", "5", "--sample", "5000"]), found_by);
    }
}

/// What is solved again is generated from the order below, which has to be finished for that, and for
/// nothing else.
#[test]
fn verify_solves_nothing_again_without_the_order_below() {
    let data = Data::new();
    census_json(8, &data, &[]);
    let store = Store::open(&data.path().join("store"), None, None).unwrap();
    let below = store.order(7).unwrap().unwrap();
    store.put_order(7, &OrderRecord { result: None, ..below }).unwrap();
    drop(store);
    let failed = failures_of(&["8", "--level", "5", "--sample", "3", "--data", &data.text()]);
    let says = "shards are generated from the order below: order 7 is not finished";
    have_failed(&failed, &[(SHARDS, says)]);
}

/// Records of units that the plan does not have are named, and nothing is looked up by them.
#[test]
fn verify_names_units_that_are_not_of_the_plan() {
    let first = Unit { order: 7, shard: 0, part: 0 };
    const NO_SHARD: &str = "a record of no shard";
    for (foreign, [counts, blocks, statistics]) in [
        (
            Unit { part: 1, ..first },
            ["has mass 2, not 1", "is missing", "do not have the recorded statistics"],
        ),
        (Unit { shard: 1000, ..first }, [NO_SHARD; 3]),
    ] {
        let data = SOUND.copy();
        let store = Store::open(&data.path().join("store"), None, None).unwrap();
        let record = store.unit(first).unwrap().unwrap();
        put_record(&store, foreign, record);
        drop(store);
        let units = (UNITS, "is recorded but not in the plan");
        let expected = [units, (COUNTS, counts), (BLOCKS, blocks), (STATISTICS, statistics)];
        have_failed(&failures(&data, &["--level", "3"]), &expected);
    }
}

/// A copy of a census in which the statistics of the largest unit of order 7 are changed, and
/// those of its size accordingly, so that sums add up.
fn miscounted(sound: &Data, change: impl Fn(&mut Statistics)) -> Data {
    let data = sound.copy();
    let store = Arc::new(Store::open(&data.path().join("store"), None, None).unwrap());
    let finished = FinishedOrder::open(&store, 7).unwrap();
    let shards = finished.plan.shards.iter().enumerate();
    let (index, shard) = shards.max_by_key(|(_, shard)| shard.mass).unwrap();
    let unit = Unit { order: 7, shard: index as u32, part: 0 };
    let mut record: UnitRecord = store.unit(unit).unwrap().unwrap();
    change(&mut record.statistics);
    let blocks = shard.buckets().flat_map(|bucket| {
        Section::ALL.map(|section| store.block(shard, 0, bucket, section).unwrap())
    });
    let result = Delivery::new(unit, shard.sequence, blocks.collect(), record);
    store.commit(&[Arc::new(result)], u64::MAX).unwrap();
    add_up(&store, 7);
    data
}

/// Counts more graphs, isomorphism classes and labelled ones, so that nothing contradicts itself: they
/// are said to be forests, and not connected.
fn count_more(statistics: &mut Statistics, classes: u128, labelled: u128) {
    statistics.classes.all.graphs += classes;
    statistics.labelled.all.graphs += labelled;
    let Structure { girth, bipartite, connectivity, automorphisms } = &mut statistics.structure;
    for (cells, value) in [(girth, 0), (bipartite, 1), (connectivity, 0), (automorphisms, 2)] {
        let cell = cells.entry(value).or_default();
        cell.classes.graphs += classes;
        cell.labelled.graphs += labelled;
    }
}

/// Says that P1 wins a connected graph more, by a first move more.
fn win_more(statistics: &mut Statistics) {
    statistics.classes.all.listed += 1;
    statistics.classes.connected.listed += 1;
    statistics.classes.sums.0[WINNING_FIRST_MOVES] += 1;
    let Structure { girth, bipartite, connectivity, automorphisms } = &mut statistics.structure;
    for cells in [girth, bipartite, connectivity, automorphisms] {
        let (_, cell) = cells.iter_mut().next_back().expect("there are graphs");
        cell.classes.listed += 1;
    }
}

/// Counts of a unit, and of the order with it, that contradict each other, theory, or what others
/// have counted, are found by the records alone.
#[test]
fn verify_holds_counts_to_theory_and_to_what_others_have_counted() {
    type Change = fn(&mut Statistics);
    let changes: [(Change, &[(&str, &str)]); 5] = [
        (|s| s.labelled.all.graphs += 1, &[(COUNTS, "contradict each other")]),
        (|s| count_more(s, 0, 1), &[(COUNTS, "has mass")]),
        (
            |s| count_more(s, 1, 0),
            &[(COUNTS, " graphs, but there are "), (KNOWN, "found 1045 graphs (OEIS A000088)")],
        ),
        (
            take_apart,
            &[
                (COUNTS, " connected graphs, but there are "),
                (KNOWN, "found 852 connected graphs (OEIS A001349)"),
            ],
        ),
        (win_more, &[(KNOWN, "found 733 connected P2-wins (Table 1 of the paper)")]),
    ];
    for (change, found_by) in changes {
        have_failed(&failures(&miscounted(&SOUND, change), &["--level", "1"]), found_by);
    }
}

/// How many first moves win is told by the stored outcomes of graphs with one edge less: levels
/// that do not read outcomes know bounds only.
#[test]
fn verify_counts_winning_first_moves_from_level_3_on() {
    let of_classes: fn(&mut Statistics) = |s| s.classes.sums.0[WINNING_FIRST_MOVES] += 1;
    let of_labellings: fn(&mut Statistics) = |s| s.labelled.sums.0[WINNING_FIRST_MOVES] += 1;
    let beyond_bounds: fn(&mut Statistics) = |s| s.classes.sums.0[WINNING_FIRST_MOVES] += 1 << 20;
    for (change, level, found_by) in [
        (of_classes, "2", &[][..]),
        (of_classes, "3", &[STATISTICS]),
        (of_classes, "5", &[SHARDS, STATISTICS]),
        (of_classes, "6", &[STEPS, SHARDS, STATISTICS]),
        (of_labellings, "2", &[]),
        (of_labellings, "4", &[STATISTICS]),
        (of_labellings, "6", &[STEPS, SHARDS, STATISTICS]),
        (beyond_bounds, "1", &[COUNTS]),
    ] {
        // So many that the largest shard is among those that are drawn.
        let data = miscounted(&SOUND, change);
        let failed = failures(&data, &["--level", level, "--sample", "300"]);
        let mut names: Vec<&str> = failed.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, found_by, "level {level}: {failed:?}");
    }
}

/// Until it has been solved again, and verify says so.
#[test]
fn what_is_doubted_is_not_exported() {
    let data = Data::new();
    let text = data.text();
    let before = census_json(6, &data, &[]);
    let list = data.path().join("five.g6");
    let list = list.to_str().unwrap();
    let listed = run(&["export", "graphs", "5", "-o", list, "--data", &text]);
    assert!(listed.status.success(), "{}", stderr(&listed));
    let look_up = || run(&["lookup", "DCw", "--data", &text]);
    let compare = || run(&["verify", list, "--data", &text]);
    let sample = |place: &str| {
        let place = data.path().join(place);
        let how = ["--model", "gnm:4", "--samples", "10", "--seed", "1", "--output"];
        let of = ["sample", "--order", "5", "--endgame", &text];
        run(&[&of[..], &how, &[place.to_str().unwrap()]].concat())
    };
    let all = [look_up(), compare(), sample("before")];
    all.iter().for_each(|output| assert!(output.status.success(), "{}", stderr(output)));
    let doubt = ["alarms", "--doubt", "5", "--shard", "0,1,1,1,1", "--because", "a test"];
    let doubted = run(&[&doubt[..], &["--data", &text]].concat());
    assert!(doubted.status.success(), "{}", stderr(&doubted));
    let unsolved = "doubted units that are not solved again yet: 1 of 1";
    assert!(stdout(&doubted).contains(unsolved), "{}", stdout(&doubted));
    let export =
        |more: &[&str]| run(&[&["export", "table", "orders", "--data", &text], more].concat());
    // Of order 4 nothing is doubted, and order 6 was computed from order 5.
    let verify = |order: &str| run(&["verify", order, "--level", "1", "--data", &text]);
    assert!(verify("4").status.success(), "{}", stdout(&verify("4")));
    for order in ["5", "6"] {
        assert!(stdout(&verify(order)).contains("has not been solved again"), "{order}");
    }
    let refused = export(&[]);
    assert!(!refused.status.success());
    assert!(stderr(&refused).contains("`trailtrap census 6"), "{}", stderr(&refused));
    for (output, code) in [(look_up(), 1), (compare(), 75), (sample("meanwhile"), 1)] {
        let said = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains("solves it again"), "{said}");
    }
    let unfinished = export(&["--unfinished", "--format", "csv"]);
    assert!(stdout(&unfinished).contains("disputed"), "{}", stdout(&unfinished));
    assert_eq!(census_json(6, &data, &[]), before);
    for output in [look_up(), compare(), sample("after")] {
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert!(export(&[]).status.success() && verify("6").status.success());
    let settle = ["alarms", "--settle", "1", "--because", "a reader erred", "--data", &text];
    let settled = stdout(&run(&settle));
    assert!(settled.contains("settled: given up: a census solves it again; a reader erred"));
    assert!(!settled.contains("not solved again yet"), "{settled}");
}

/// What would cost whole orders is doubted by force alone.
#[test]
fn what_costs_an_order_is_not_doubted_by_mistake() {
    let data = Data::new();
    let keep = ["--keep", "graphs"];
    let before = census_json(7, &data, &keep);
    let units = || -> Vec<u64> {
        let store = Store::open_read_only(&data.path().join("store")).unwrap();
        store.units(7).unwrap().into_iter().map(|(_, record)| record.instance).collect()
    };
    let (text, solved) = (data.text(), units());
    let doubt = ["alarms", "--doubt", "7", "--shard", "0,0,0,2,2,2,2", "--because", "odd"];
    let doubt = |more: &[&str]| run(&[&doubt[..], &["--data", &text], more].concat());
    let refused = doubt(&[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("use --force"), "{}", stderr(&refused));
    assert_eq!(data.alarms(), "no alarms\n");

    succeeded(&doubt(&["--force"]));
    assert!(!run(&["verify", "7", "--level", "1", "--data", &text]).status.success());
    assert_eq!(census_json(7, &data, &keep), before);
    assert!(units().iter().all(|instance| !solved.contains(instance)), "all of the order");
}

/// Who asks for an order that was taken back whole is told to keep of it what was kept.
#[test]
fn an_order_that_was_taken_back_is_asked_for_as_it_was_kept() {
    for keep in ["graphs", "minimal"] {
        let data = Data::new();
        let (text, keep) = (data.text(), ["--keep", keep]);
        let before = census_json(7, &data, &keep);
        let doubt = ["alarms", "--doubt", "7", "--shard", "0,0,0,2,2,2,2", "--because", "odd"];
        succeeded(&run(&[&doubt[..], &["--force", "--data", &text]].concat()));
        // This takes it back, and does not do it again.
        census_json(6, &data, &keep);
        assert_eq!(data.units_on_record(7), 0);
        let asked = run(&["verify", "7", "--data", &text]);
        let remedy = format!("`trailtrap census 7 --data {text} --keep {}`", keep[1]);
        assert!(stderr(&asked).contains(&remedy), "{}", stderr(&asked));
        assert_eq!(census_json(7, &data, &keep), before);
    }
}

/// Of an order whose graphs have served, and are gone, some are made again. They do not pass for all
/// of them, so nobody misses the others.
#[test]
fn graphs_that_came_back_do_not_pass_for_all() {
    let keep = ["--keep", "graphs"];
    for is_killed in [false, true] {
        let data = Data::new();
        let [seven, eight] = [7, 8].map(|order| census_json(order, &data, &keep));
        if is_killed {
            // As a run leaves it that is killed when they are dropped, before it records the result.
            let store = Store::open(&data.path().join("store"), None, None).unwrap();
            let record = store.order(8).unwrap().unwrap();
            store.put_order(8, &OrderRecord { result: None, ..record }).unwrap();
        }
        let text = data.text();
        let doubt = ["alarms", "--doubt", "7", "--shard", "0,0,0,0,0,0,0", "--because", "odd"];
        succeeded(&run(&[&doubt[..], &["--data", &text]].concat()));
        // Order 8 is not closed again, which would drop them.
        assert_eq!(census_json(7, &data, &keep), seven);
        assert_eq!(failures_of(&["7", "--level", "2", "--data", &text]), HashMap::new());
        assert_eq!(census_json(8, &data, &keep), eight);
        assert_eq!(failures_of(&["--level", "2", "--data", &text]), HashMap::new());
    }
}

/// An alarm about an order that this one was computed from counts, one about an order above does
/// not.
#[test]
fn verify_heeds_alarms() {
    let data = SOUND.copy();
    let put = |number: u32, order: u8| {
        let unit = Unit { order, shard: 0, part: 0 };
        let sequence = DegreeSequence::new([0; 8]);
        let alarm = Alarm::at(0, AlarmKind::Damage, unit, &sequence, "damaged".to_owned());
        let store = Store::open(&data.path().join("store"), None, None).unwrap();
        store.put_alarm(number, &alarm).unwrap();
    };
    put(1, 8);
    assert_eq!(failures(&data, &["--level", "1"]), HashMap::new());
    put(2, 5);
    let failed = failures(&data, &["--level", "1"]);
    let remedy = format!("`trailtrap alarms --settle 2 --because REASON --data {}`", data.text());
    assert!(failed["no alarms"].contains(&remedy), "{failed:?}");
}

/// A way to spoil the list of order 7, line by line, and what `verify` says of it.
struct SpoiltList {
    spoil: fn(&mut Vec<String>),
    says: &'static str,
}

const SPOILT_LISTS: [SpoiltList; 4] = [
    SpoiltList {
        spoil: |lines| lines.insert(5, lines[5].clone()),
        says: "line 7: not greater than",
    },
    SpoiltList {
        spoil: |lines| lines.insert(1, format!("{}\r", lines[0])),
        says: "line 2: not greater than",
    },
    // A graph in other labels.
    SpoiltList {
        spoil: |lines| {
            let turn = std::array::from_fn(|v| if v < 7 { 6 - v as u8 } else { 0 });
            let turned = |line: &String| {
                graph6::encode(&graph6::decode(line.as_bytes()).unwrap().relabelled(&turn))
            };
            lines[9] = lines.iter().map(turned).find(|line| !lines.contains(line)).unwrap();
        },
        says: "canonical",
    },
    // The edgeless graph comes first in any list, and P2 wins it.
    SpoiltList { spoil: |lines| lines.insert(0, "F????".to_owned()), says: "P2 wins" },
];

/// A filter may have left graphs out, or somebody has lost them.
const PARTIAL_LISTS: [SpoiltList; 3] = [
    SpoiltList { spoil: |lines| lines.truncate(100), says: "100 of them are P1-wins" },
    SpoiltList {
        spoil: |lines| drop(lines.remove(70)),
        says: "and 1 others of it are not listed",
    },
    SpoiltList { spoil: |lines| lines.clear(), says: "the list is empty" },
];

/// The list of order 7, a line for each graph that P1 wins.
fn list_of_seven() -> Vec<String> {
    let listed = stdout(&run(&["export", "graphs", "7", "--data", &SOUND.text()]));
    listed.lines().map(str::to_owned).collect()
}

/// Runs `verify` on a list of this text, of which it searches `sample` graphs forward.
fn verify_list(text: &str, sample: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("list.g6");
    fs::write(&path, text).unwrap();
    run(&["verify", path.to_str().unwrap(), "--data", &SOUND.text(), "--sample", sample])
}

/// Every line with its end.
fn ended(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn verify_passes_a_sound_list_and_no_spoilt_one() {
    let sound = list_of_seven();
    let passed = verify_list(&ended(&sound), "1000");
    let text = stdout(&passed);
    assert_eq!(passed.status.code(), Some(0), "{text}");
    for part in ["158 graphs of order 7", "they are those of the census, and none is missing"] {
        assert!(text.contains(part), "{text}");
    }
    // As other programs write it.
    let text = ended(&sound);
    let headed = [format!(">>graph6<<{text}"), format!(">>graph6<<\n{text}")];
    for list in headed.into_iter().flat_map(|list| [list.replace('\n', "\r\n"), list]) {
        let passed = stdout(&verify_list(&list, "1"));
        assert!(passed.contains("they are those of the census, and none is missing"), "{passed}");
    }
    let mut spoilt = vec![(sound.join("\n"), "cut short")];
    for SpoiltList { spoil, says } in SPOILT_LISTS {
        let mut lines = sound.clone();
        spoil(&mut lines);
        spoilt.push((ended(&lines), says));
    }
    for (list, says) in spoilt {
        let refused = verify_list(&list, "1000");
        let text = stdout(&refused);
        assert_eq!(refused.status.code(), Some(1), "{says}: {text}");
        assert!(text.contains("WRONG") && text.contains(says), "{says}: {text}");
    }
}

/// K_{5,5} is no P1-win; but no census here has it, and it has too many edges to be searched.
#[test]
fn verify_does_not_say_of_large_graphs_that_nobody_knows_that_they_are_right() {
    let output = verify_list("IsaBzx{^?\n", "1000");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(75), "{text}");
    assert!(text.contains("UNCHECKED") && text.contains("more than 20 edges"), "{text}");
}

/// A writer that begins lets the log of the last one go: whoever opens the store at that moment sees
/// all that was in it.
#[test]
fn readers_see_all_of_a_store_that_a_writer_opens() {
    let read = |data: &Data| run(&["export", "table", "orders", "--data", &data.text()]);
    let expected = stdout(&read(&SOUND));
    for _ in 0..30 {
        let data = SOUND.copy();
        let text = data.text();
        let writer = Process::start(trailtrap().args(["census", "7", "--data", &text]));
        for _ in 0..2 {
            assert_eq!(stdout(&read(&data)), expected);
        }
        succeeded(&writer.finish());
    }
}

#[test]
fn verify_does_not_know_whether_a_partial_list_should_have_more() {
    for SpoiltList { spoil, says } in PARTIAL_LISTS {
        let mut lines = list_of_seven();
        spoil(&mut lines);
        let output = verify_list(&ended(&lines), "1000");
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(75), "{says}: {text}");
        assert!(text.contains("UNCHECKED") && text.contains(says), "{says}: {text}");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("list.g6").to_str().unwrap().to_owned();
    run(&["export", "graphs", "7", "--connected", "--data", &SOUND.text(), "-o", &path]);
    let verify = |data: &str| run(&["verify", &path, "--data", data]);
    assert_eq!(verify(&SOUND.text()).status.code(), Some(75));
    // A census that is not where it is said to be, or cannot be read, is not left out silently.
    let nowhere = directory.path().join("nowhere").to_str().unwrap().to_owned();
    let output = verify(&nowhere);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("there is no census in"), "{}", stderr(&output));
    let damaged = SOUND.copy();
    fs::write(damaged.path().join("store/CURRENT"), "").unwrap();
    assert_eq!(verify(&damaged.text()).status.code(), Some(1));
}

/// Lists come as `export` writes them, and empty variables of the environment are none.
#[test]
fn what_export_writes_is_looked_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (packed, data) = (path("list.g6.gz"), SOUND.text());
    let with_empty = |arguments: &[&str]| {
        let variables = ["TRAILTRAP_DATA", "TRAILTRAP_ACCESS", "TRAILTRAP_COORDINATOR"];
        let mut command = trailtrap();
        command.envs(variables.map(|name| (name, "")));
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    };
    with_empty(&["export", "graphs", "7", "-o", &packed, "--data", &data]);
    let looked_up = with_empty(&["lookup", &packed, "--format", "csv", "--data", &data]);
    assert_eq!(looked_up.lines().filter(|line| line.contains("P1")).count(), 158, "{looked_up}");
    let solved = with_empty(&["solve", &packed, "--format", "csv"]);
    assert_eq!(solved.lines().filter(|line| line.contains("P1")).count(), 158, "{solved}");
    let shown = with_empty(&["status", "--data", &data]);
    let by_variable = trailtrap().arg("status").env("TRAILTRAP_DATA", &data).output().unwrap();
    assert_eq!(stdout(&by_variable), shown);
    let elsewhere = trailtrap()
        .args(["status", "--data", &data])
        .env("TRAILTRAP_COORDINATOR", "nowhere:1")
        .output()
        .unwrap();
    assert_eq!(stdout(&elsewhere), shown);
    // Tables are written as their names say.
    for (name, begins) in [("t.csv", "order,"), ("t.json", "{"), ("t.tex", "%"), ("t.md", "")] {
        with_empty(&["export", "table", "orders", "-o", &path(name), "--data", &data]);
        let text = fs::read_to_string(path(name)).unwrap();
        assert!(text.starts_with(begins), "{name}: {text}");
        assert_eq!(text.contains("| "), name == "t.md", "{name}");
    }
    let parquet = path("t.parquet");
    with_empty(&["export", "table", "orders", "-o", &parquet, "--data", &data]);
    assert!(fs::read(parquet).unwrap().starts_with(b"PAR1"));
}

/// Whoever names the data directory of a census for a depot has not meant that.
#[test]
fn a_data_directory_is_no_depot() {
    let (data, other) = (SOUND.copy(), Data::new());
    let before = fs::read_dir(data.path()).unwrap().count();
    let refused = run(&["census", "4", "--depot", &data.text(), "--data", &other.text()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("of another census"), "{}", stderr(&refused));
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), before);
}

#[test]
fn verify_reads_compressed_lists() {
    let directory = tempfile::tempdir().unwrap();
    let packed = directory.path().join("list.g6.gz");
    let path = packed.to_str().unwrap();
    run(&["export", "graphs", "7", "--data", &SOUND.text(), "-o", path]);
    assert_eq!(failures_of(&[path, "--data", &SOUND.text()]), HashMap::new());
    fs::write(&packed, &fs::read(&packed).unwrap()[..300]).unwrap();
    let failed = failures_of(&[path]);
    assert!(failed.values().any(|why| why.contains("damaged or cut short")), "{failed:?}");
}

/// Counts alone do not tell: a graph that P2 wins stands where one stood that is counted like it.
#[test]
fn verify_finds_graphs_swapped_that_count_the_same() {
    let sound = list_of_seven();
    let looks = |line: &str| {
        let graph = graph6::decode(line.as_bytes()).unwrap();
        (graph.size(), graph.is_connected(), nauty::label(&graph).automorphisms)
    };
    let all: Vec<String> = nauty::enumerate(7)[6].iter().map(graph6::encode).collect();
    let swaps = all.iter().filter(|line| !sound.contains(line)).flat_map(|lost| {
        sound
            .iter()
            .filter(|won| looks(won) == looks(lost))
            .map(move |won| (won.clone(), lost.clone()))
    });
    let (won, lost) = swaps.into_iter().last().unwrap();
    let mut swapped: Vec<String> =
        sound.iter().filter(|line| **line != won).cloned().chain([lost]).collect();
    swapped.sort();
    let refused = verify_list(&ended(&swapped), "1");
    let text = stdout(&refused);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(["is not among", "P2 wins"].iter().any(|why| text.contains(why)), "{text}");
}

#[test]
fn verify_needs_something_to_check_and_somewhere_to_say_what() {
    let verify = || {
        let mut command = trailtrap();
        command.args(["verify", "7", "--data", &SOUND.text()]);
        command
    };
    // Checks that nobody reads end as others do; those that cannot be written are an error.
    let mut unread = verify().stdout(Stdio::piped()).spawn().unwrap();
    drop(unread.stdout.take());
    assert_eq!(unread.wait().unwrap().code(), Some(0));
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let unwritten = verify().stdout(full).output().unwrap();
    assert_eq!(unwritten.status.code(), Some(1));
    let message = stderr(&unwritten);
    assert!(message.contains("cannot write to standard output: No space"), "{message}");
    let nothing = run(&["verify", "no-such-file"]);
    assert!(stderr(&nothing).contains("no such file"), "{}", stderr(&nothing));
    let table = BUNDLE.1.join("tables/orders.csv");
    let output = run(&["verify", table.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is no list of graphs"), "{}", stderr(&output));
}

/// A bundle of the orders up to 6.
static BUNDLE: LazyLock<(Data, PathBuf)> = LazyLock::new(|| bundle_up_to(6));

/// A bundle, and the census beside which it lies.
fn bundle_up_to(order: usize) -> (Data, PathBuf) {
    let data = Data::new();
    census_json(order, &data, &[]);
    let bundle = data.path().with_file_name("bundle");
    let made = run(&["export", "bundle", bundle.to_str().unwrap(), "--data", &data.text()]);
    assert!(made.status.success(), "{}", stderr(&made));
    (data, bundle)
}

/// What `verify` finds wrong with a bundle.
fn faults(bundle: &Path, level: &str) -> HashMap<String, String> {
    failures_of(&[bundle.to_str().unwrap(), "--level", level])
}

/// Renames the column of a table that has its name.
fn rename_column(root: &Path, table: &str) {
    rewrite(root.join(format!("tables/{table}.csv")), |text| {
        text.replacen(&format!(",{table}"), ",table", 1)
    });
}

/// Replaces how a row of a table begins, in CSV and in JSON.
fn rewrite_rows(root: &Path, table: &str, [from, to]: [&str; 2]) {
    let csv = root.join(format!("tables/{table}.csv"));
    let names = fs::read_to_string(&csv).unwrap();
    let names: Vec<&str> = names.lines().next().unwrap().split(',').collect();
    let in_json = |cells: &str| -> String {
        let cells = names.iter().zip(cells.trim_end_matches(',').split(','));
        cells.map(|(name, cell)| format!("\"{name}\":{cell},")).collect()
    };
    rewrite(csv, |text| text.replacen(&format!("\n{from}"), &format!("\n{to}"), 1));
    rewrite(root.join(format!("tables/{table}.json")), |text| {
        text.replacen(&in_json(from), &in_json(to), 1)
    });
}

/// Changes the first of these texts in a file.
fn replace(path: PathBuf, from: &str, to: &str) {
    rewrite(path, |text| text.replacen(from, to, 1));
}

/// Replaces what the manifest says.
fn rewrite_manifest(root: &Path, from: &str, to: &str) {
    replace(root.join("manifest.json"), from, to);
}

fn change_manifest(root: &Path, change: impl Fn(&mut Value)) {
    let path = root.join("manifest.json");
    let mut manifest = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut manifest);
    fs::write(path, manifest.to_string()).unwrap();
}

/// Changes the list of order 6, and the manifest so that it fits.
fn change_list(root: &Path, change: impl Fn(&mut Vec<String>)) {
    let path = root.join("graphs/trailtrap.n06.p1.g6.gz");
    let mut text = String::new();
    GzDecoder::new(fs::File::open(&path).unwrap()).read_to_string(&mut text).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    change(&mut lines);
    let new = lines.join("\n") + "\n";
    fs::write(&path, &new).unwrap();
    change_manifest(root, |manifest| {
        let entry = &mut manifest["orders"][5]["p1_win_list"];
        entry["sha256"] = hex::encode(Sha256::digest(&new)).into();
        entry["bytes"] = new.len().into();
    });
}

#[test]
fn verify_passes_a_sound_bundle_and_no_altered_file() {
    let sound = &BUNDLE.1;
    assert_eq!(faults(sound, "2"), HashMap::new());
    assert_eq!(faults(resealed(sound, |_| ()).path(), "2"), HashMap::new());
    // One byte, without new checksums.
    let altered = tempfile::tempdir().unwrap();
    copy_directory(sound, altered.path());
    replace(altered.path().join("README.md"), "graph", "grapH");
    assert!(faults(altered.path(), "1")["checksums"].contains("README.md was altered"));
    fs::write(altered.path().join("more.txt"), "more").unwrap();
    fs::copy(sound.join("README.md"), altered.path().join("README.md")).unwrap();
    assert!(faults(altered.path(), "1")["checksums"].contains("more.txt is not listed"));
    // Nothing else is looked into.
    let altered = tempfile::tempdir().unwrap();
    copy_directory(sound, altered.path());
    rename_column(altered.path(), "bipartite");
    let found = faults(altered.path(), "2");
    let nothing = "no file was looked into";
    assert!(found.len() == 1 && found["checksums"].contains(nothing), "{found:?}");
}

/// A bundle forged with checksums that fit, and what notices.
struct Forgery {
    forge: fn(&Path),
    check: &'static str,
    says: &'static str,
}

/// Changes the shards of order 6 in their file.
fn rewrite_shards(root: &Path, change: impl Fn(&mut [ShardSummary])) {
    let (about, path) = (&TrailTrap::ABOUT, root.join("shards/n06.parquet"));
    let file = fs::File::open(&path).unwrap();
    let mut shards = shards::read(about, Class::All, file, &DegreeSequence::all(6)).unwrap();
    change(&mut shards);
    fs::write(path, shards::parquet(about, Class::All, &shards, None).unwrap()).unwrap();
}

fn shard_of(shards: &mut [ShardSummary], degrees: [usize; 6]) -> &mut ShardSummary {
    let sequence = DegreeSequence::new(degrees);
    shards.iter_mut().find(|shard| shard.sequence == sequence).unwrap()
}

const FORGERIES: [Forgery; 42] = [
    // The name of a column.
    Forgery {
        forge: |root| rename_column(root, "bipartite"),
        check: "shards",
        says: "has no column bipartite",
    },
    Forgery {
        forge: |root| rename_column(root, "connectivity"),
        check: "shards",
        says: "has no column connectivity",
    },
    // Files that lie elsewhere.
    Forgery {
        forge: |root| {
            fs::remove_file(root.join("README.md")).unwrap();
            std::os::unix::fs::symlink(BUNDLE.1.join("README.md"), root.join("README.md"))
                .unwrap();
        },
        check: "checksums",
        says: "README.md is no regular file",
    },
    Forgery {
        forge: |root| {
            let file = "shards/n06.parquet";
            rewrite_manifest(root, file, BUNDLE.1.join(file).to_str().unwrap());
        },
        check: "shards",
        says: "is not listed in SHA256SUMS",
    },
    Forgery {
        forge: |root| rewrite_manifest(root, "shards/n06.parquet", "../shards/n06.parquet"),
        check: "shards",
        says: "is not listed in SHA256SUMS",
    },
    Forgery {
        forge: |root| {
            let file = "graphs/trailtrap.n06.p1.g6.gz";
            rewrite_manifest(root, file, BUNDLE.1.join(file).to_str().unwrap());
        },
        check: "lists",
        says: "is not listed in SHA256SUMS",
    },
    Forgery {
        forge: |root| {
            let file = "graphs/trailtrap.n06.p1.g6.gz";
            rewrite_manifest(root, file, &format!("../{file}"));
        },
        check: "lists",
        says: "is not listed in SHA256SUMS",
    },
    Forgery {
        forge: |root| {
            let elsewhere = BUNDLE.1.join("README.md");
            rewrite(root.join("SHA256SUMS"), |sums| format!("{sums}0  {}\n", elsewhere.display()));
        },
        check: "checksums",
        says: "is not a file of the bundle",
    },
    // Two columns swapped in JSON, in a b-file, and in a shard file.
    Forgery {
        forge: |root| {
            rewrite(root.join("tables/girth.json"), |text| {
                let parked = text
                    .replace("\"p1_wins\":", "\"parked\":")
                    .replace("\"p2_wins\":", "\"p1_wins\":");
                parked.replace("\"parked\":", "\"p2_wins\":")
            })
        },
        check: "tables",
        says: "tables/girth.json and tables/girth.csv differ",
    },
    // A second column of the same name, of which some readers take the first and some the last.
    Forgery {
        forge: |root| {
            rewrite(root.join("tables/girth.csv"), |text| {
                let name_or_none = |i| if i == 0 { "p1_wins" } else { "0" };
                let lines = text.lines().enumerate();
                lines.map(|(i, line)| format!("{},{line}\n", name_or_none(i))).collect()
            })
        },
        check: "tables",
        says: "tables/girth.csv: in line 1 there is 'p1_wins,order,",
    },
    Forgery {
        forge: |root| {
            replace(root.join("tables/girth.json"), "{\"order\":", "{\"p1_wins\":0,\"order\":")
        },
        check: "tables",
        says: "tables/girth.json and tables/girth.csv differ",
    },
    // What a column means.
    Forgery {
        forge: |root| replace(root.join("tables/orders.json"), "connected graphs", "all graphs"),
        check: "tables",
        says: "tables/orders.json and tables/orders.csv differ",
    },
    // Who did it.
    Forgery {
        forge: |root| {
            change_manifest(root, |manifest| {
                manifest["orders"][5]["workers"][0]["name"] = "Eve".into();
            });
        },
        check: "shards",
        says: "order 6 was done as",
    },
    Forgery {
        forge: |root| {
            let [from, to] =
                ["p2", "p1"].map(|who| root.join(format!("bfiles/connected-{who}-wins.txt")));
            fs::copy(from, to).unwrap();
        },
        check: "tables",
        says: "bfiles/connected-p1-wins.txt is not what",
    },
    // What the terms are, and what all of it is about.
    Forgery {
        forge: |root| replace(root.join("bfiles/p1-wins.txt"), "first player", "second player"),
        check: "tables",
        says: "bfiles/p1-wins.txt is not what",
    },
    Forgery {
        forge: |root| rewrite_manifest(root, "the game Trail Trap", "the game Chess"),
        check: "tables",
        says: "manifest.json names 'Exact census of the game Chess",
    },
    // A group that no graph of order 6 has, in every file of the table.
    Forgery {
        forge: |root| {
            rewrite_rows(root, "automorphisms", ["6,720,", "6,719,"]);
            replace(root.join("tables/automorphisms.md"), "| 6 |     720 |", "| 6 |     719 |");
            replace(root.join("tables/automorphisms.tex"), "6 & 720 &", "6 & 719 &");
        },
        check: "tables",
        says: "2 graphs with |Aut| 719 are not 2 labelled ones",
    },
    Forgery {
        forge: |root| {
            rewrite_shards(root, |shards| {
                let cubic = &mut shard_of(shards, [3; 6]).statistics.classes.sums;
                cubic.0[WON_POSITIONS] += 1;
            });
        },
        check: "shards",
        says: "do not add up to tables/sizes.csv",
    },
    Forgery {
        forge: |root| {
            rewrite_shards(root, |shards| {
                for shard in shards {
                    let sums = &mut shard.statistics.classes.sums;
                    sums.0.swap(WON_POSITIONS, REFUTED_ENDS);
                }
            });
        },
        check: "shards",
        says: "counts that are impossible together",
    },
    // More connected graphs of one degree sequence than there are graphs, and fewer of another.
    Forgery {
        forge: |root| {
            rewrite_shards(root, |shards| {
                let [more, fewer] = [[4, 4, 2, 2, 1, 1], [4, 3, 2, 2, 2, 1]];
                shard_of(shards, more).statistics.classes.connected.graphs += 1;
                shard_of(shards, fewer).statistics.classes.connected.graphs -= 1;
            });
        },
        check: "shards",
        says: "counts that are impossible together",
    },
    // A digest, in the manifest only.
    Forgery {
        forge: |root| rewrite_manifest(root, "d885ff62", "d885ff63"),
        check: "tables",
        says: "order 6: manifest.json and tables/sizes.csv differ",
    },
    // Rows that add up as before, but are about other graphs.
    Forgery {
        forge: |root| rewrite_rows(root, "density", ["6,0,2,", "6,1,2,"]),
        check: "tables",
        says: "tables/density.csv: size_parity in row",
    },
    Forgery {
        forge: |root| rewrite_rows(root, "odd-degrees", ["6,0,2,", "6,0,3,"]),
        check: "shards",
        says: "tables/odd-degrees.csv: odd_degrees in row",
    },
    // What people read and what they copy into a paper, of rows that all else says otherwise.
    Forgery {
        forge: |root| replace(root.join("tables/orders.md"), "156", "157"),
        check: "tables",
        says: "tables/orders.md and tables/orders.csv differ",
    },
    Forgery {
        forge: |root| {
            rewrite(root.join("tables/girth.tex"), |text| {
                let rows = text.lines().filter(|line| !line.starts_with("6 & forest"));
                rows.flat_map(|line| [line, "\n"]).collect()
            });
        },
        check: "tables",
        says: "tables/girth.tex and tables/girth.csv differ",
    },
    Forgery {
        forge: |root| replace(root.join("tables/odd-degrees.md"), "| 6 ", "| 7 "),
        check: "shards",
        says: "tables/odd-degrees.md and tables/odd-degrees.csv differ",
    },
    // Headings that say the opposite, and the same table where it is read first.
    Forgery {
        forge: |root| {
            rewrite(root.join("tables/orders.tex"), |text| {
                text.replace("P1-win", "P3-win").replace("P2-win", "P1-win").replace("P3-", "P2-")
            });
        },
        check: "tables",
        says: "tables/orders.tex and tables/orders.csv differ",
    },
    Forgery {
        forge: |root| replace(root.join("README.md"), "156", "157"),
        check: "tables",
        says: "the first table of README.md is not that of tables/orders.csv",
    },
    // What README says of lists and of trust, of which the manifest says otherwise.
    Forgery {
        forge: |root| replace(root.join("README.md"), "| 6 | 33 |", "| 6 | 34 |"),
        check: "tables",
        says: "README.md: the table of lists of P1-win graphs is not what",
    },
    Forgery {
        forge: |root| replace(root.join("README.md"), "\n| 6 | 1 | 0 of", "\n| 6 | 2 | 0 of"),
        check: "tables",
        says: "README.md: the table of second computations",
    },
    // What is more than the table, shows another, or looks like it to a machine only.
    Forgery {
        forge: |root| {
            rewrite(root.join("README.md"), |text| {
                let last = text.lines().find(|line| line.starts_with("| 6 ")).unwrap();
                text.replacen(last, &format!("{last}\n{}", last.replacen("6", "7", 1)), 1)
            });
        },
        check: "tables",
        says: "the first table of README.md is not that of tables/orders.csv",
    },
    Forgery {
        forge: |root| {
            rewrite(root.join("tables/orders.md"), |text| {
                text.split_once("\n\n").unwrap().1.replacen("\n", "\n\n", 1)
            });
        },
        check: "tables",
        says: "tables/orders.md and tables/orders.csv differ",
    },
    Forgery {
        forge: |root| replace(root.join("tables/orders.md"), "112 |", "112 \\|"),
        check: "tables",
        says: "tables/orders.md and tables/orders.csv differ",
    },
    Forgery {
        forge: |root| {
            rewrite(root.join("tables/orders.tex"), |text| {
                text.replacen("\n6 & ", "\n\\caption{}\\iffalse\n6 & ", 1)
            });
        },
        check: "tables",
        says: "tables/orders.tex and tables/orders.csv differ",
    },
    Forgery {
        forge: |root| replace(root.join("tables/all.tex"), "orders", "o"),
        check: "tables",
        says: "tables/all.tex is not the document that has all tables",
    },
    // Tables that would not be looked into.
    Forgery {
        forge: |root| rewrite_manifest(root, "\"bundle_format\": 3", "\"bundle_format\": 1"),
        check: "tables",
        says: "tables/density.csv is none of bundle format 1",
    },
    // Files of an order that the manifest does not have.
    Forgery {
        forge: |root| {
            let name = "graphs/trailtrap.n09.p1.g6.gz";
            fs::write(root.join(name), "H??????\n").unwrap();
            rewrite(root.join("SHA256SUMS"), |sums| format!("{sums}0  {name}\n"));
        },
        check: "tables",
        says: "graphs/trailtrap.n09.p1.g6.gz is no file of such a bundle",
    },
    // How an order was done.
    Forgery {
        forge: |root| rewrite_manifest(root, "\"units_confirmed\": 0", "\"units_confirmed\": 1"),
        check: "shards",
        says: "manifest.json says",
    },
    Forgery {
        forge: |root| rewrite_manifest(root, "\"replication\": 1", "\"replication\": 2"),
        check: "shards",
        says: "and 2 computations of each graph",
    },
    // A list that lacks its last graph, and one that has the edgeless graph instead of the one
    // with an edge.
    Forgery {
        forge: |root| change_list(root, |lines| drop(lines.pop())),
        check: "lists",
        says: "the manifest says otherwise",
    },
    Forgery {
        forge: |root| change_list(root, |lines| lines[0] = "E???".to_owned()),
        check: "lists",
        says: "tables/sizes.csv has",
    },
    // One that has another graph with as many edges and automorphisms instead, and other degrees.
    Forgery {
        forge: |root| {
            change_list(root, |lines| {
                let looks = |graph: &Graph| {
                    (graph.size(), graph.is_connected(), nauty::label(graph).automorphisms)
                };
                let read = |line: &String| graph6::decode(line.as_bytes()).unwrap();
                let all = nauty::enumerate(6);
                let lost = all[5].iter().filter(|graph| !lines.contains(&graph6::encode(graph)));
                let mut swaps = lost.flat_map(|lost| {
                    let degrees = DegreeSequence::of(lost);
                    let won = lines.iter().map(read).enumerate().filter(move |(_, won)| {
                        looks(won) == looks(lost) && DegreeSequence::of(won) != degrees
                    });
                    won.map(move |(place, _)| (place, graph6::encode(lost)))
                });
                let (place, lost) = swaps.next().unwrap();
                lines[place] = lost;
                lines.sort();
            });
        },
        check: "lists",
        says: "shards/n06.parquet has",
    },
];

#[test]
fn verify_finds_what_is_forged_in_a_bundle() {
    for (number, Forgery { forge, check, says }) in FORGERIES.into_iter().enumerate() {
        let failed = faults(resealed(&BUNDLE.1, forge).path(), "2");
        let told = failed.get(check).is_some_and(|failure| failure.contains(says));
        assert!(told, "forgery {number}, {says}: {failed:?}");
    }
}

/// In a bundle of the orders up to 4, where any two of them differ already.
#[test]
fn verify_finds_any_two_neighbouring_columns_swapped() {
    let (_data, sound) = &bundle_up_to(4);
    let mut swaps = 0;
    for table in
        fs::read_dir(sound.join("tables")).unwrap().map(|entry| entry.unwrap().file_name())
    {
        let table = table.into_string().unwrap();
        let Some(stem) = table.strip_suffix(".csv") else { continue };
        let text = fs::read_to_string(sound.join("tables").join(&table)).unwrap();
        for column in 1..text.lines().next().unwrap().split(',').count() {
            let swap = |(number, line): (usize, &str)| {
                let mut cells: Vec<&str> = line.split(',').collect();
                if number > 0 {
                    cells.swap(column - 1, column);
                }
                cells.join(",") + "\n"
            };
            let swapped: String = text.lines().enumerate().map(swap).collect();
            if swapped == text {
                continue;
            }
            swaps += 1;
            let forged = resealed(sound, |root| {
                fs::write(root.join("tables").join(&table), &swapped).unwrap();
            });
            let found = faults(forged.path(), "1");
            assert!(found.contains_key("tables"), "{stem}, column {column}: {found:?}");
        }
    }
    assert!(swaps > 100, "{swaps} swaps");
}

/// A copy of a census in which the slots and records of the largest shard of order 7 with at most
/// so many edges are changed behind the back of its unit's record, with checksums that fit.
fn damaged(sound: &Data, most_edges: usize, change: impl Fn(&mut Entries)) -> Data {
    let largest = |plan: &Plan| vec![largest_shard(plan, most_edges)];
    damaged_where(sound, largest, |_, entries| change(entries))
}

/// The largest shard with at most so many edges.
fn largest_shard(plan: &Plan, most_edges: usize) -> u32 {
    let shards = (0..).zip(&plan.shards).filter(|(_, shard)| shard.size <= most_edges);
    shards.max_by_key(|(_, shard)| shard.mass).unwrap().0
}

/// The same of some shards.
fn damaged_where(
    sound: &Data,
    chosen: impl Fn(&Plan) -> Vec<u32>,
    change: impl Fn(&DegreeSequence, &mut Entries),
) -> Data {
    let data = sound.copy();
    let store = Arc::new(Store::open(&data.path().join("store"), None, None).unwrap());
    let finished = FinishedOrder::open(&store, 7).unwrap();
    let damaged = chosen(&finished.plan).into_iter().map(|index| {
        let shard = &finished.plan.shards[index as usize];
        let table = finished.table(shard, 0).unwrap();
        let width = TrailTrap::LAYOUT.record_bytes(7);
        let mut entries: Entries =
            (0..table.len()).map(|i| (table.slot(i), table.record(i)[..width].to_vec())).collect();
        change(&shard.sequence, &mut entries);
        entries.sort();
        let slots = entries.iter().map(|(slot, _)| *slot).collect::<Vec<_>>();
        let table = BucketTable::new(
            TrailTrap::LAYOUT,
            shard.sequence,
            0,
            0,
            slots.into_iter(),
            |i, record| record.copy_from_slice(&entries[i].1),
        );
        let unit = Unit { order: 7, shard: index, part: 0 };
        let blocks: Vec<Block> = table.to_blocks(0).into_iter().collect();
        let record: UnitRecord = store.unit(unit).unwrap().unwrap();
        Arc::new(Delivery::new(unit, shard.sequence, blocks, record))
    });
    store.commit(&damaged.collect::<Vec<_>>(), u64::MAX).unwrap();
    data
}

/// Adds the first graph of a shard once more, in other labels with the same degrees, if it has such,
/// and with the record that is right in these.
fn add_again(sequence: &DegreeSequence, entries: &mut Entries) {
    let (first, record) = entries[0].clone();
    let canonical = nauty::label(&graph_of_slot(sequence, first).unwrap());
    let mut slots = (0..1u64 << slot_bits(7)).filter(|slot| *slot != first);
    let again = slots.find_map(|slot| {
        let other = nauty::label(&graph_of_slot(sequence, slot)?);
        (other.canonical == canonical.canonical).then_some((slot, other))
    });
    if let Some((slot, other)) = again {
        let outcome = TrailTrap::decode(7, &record);
        let outcome = TrailTrap::relabelled(7, &outcome, &canonical.label);
        let outcome = TrailTrap::relabelled(7, &outcome, &other.inverse());
        entries.push((slot, TrailTrap::record(7, &outcome)));
    }
}

/// Graphs that are drawn are derived again from what the store has of others, and searched: what is
/// wrong with many of them, or with what they are derived from, is found by a sample.
#[test]
fn verify_finds_by_a_sample_what_is_wrong_in_many_shards() {
    let sample = ["--level", "4", "--sample", "1000"];
    assert_eq!(failures(&SOUND, &sample), HashMap::new());
    let odd = |plan: &Plan| -> Vec<u32> {
        let shards = (0..).zip(&plan.shards).filter(|(_, shard)| shard.size % 2 == 1);
        shards.map(|(index, _)| index).collect()
    };
    // The verdict is the lowest bit of the last byte.
    let flip = |_: &DegreeSequence, entries: &mut Entries| {
        entries.iter_mut().for_each(|(_, record)| *record.last_mut().unwrap() ^= 1);
    };
    let failed = failures(&damaged_where(&SOUND, odd, flip), &sample);
    assert!(failed[STEPS].contains("is not what follows from its predecessors"), "{failed:?}");
    assert!(failed[FORWARD].contains("forward search says that"), "{failed:?}");
    // Graphs with an edge more lead to those with ten.
    let ten = |plan: &Plan| plan.layer(10).collect::<Vec<u32>>();
    let drop_first = |_: &DegreeSequence, entries: &mut Entries| drop(entries.remove(0));
    let failed = failures(&damaged_where(&SOUND, ten, drop_first), &sample);
    assert!(failed[STEPS].contains("is not in the store"), "{failed:?}");
    let failed = failures(&damaged_where(&SOUND, ten, add_again), &sample);
    assert!(failed[STEPS].contains("stands in it twice"), "{failed:?}");
}

/// In the place of a graph stands what is no graph of its shard, or a graph in labels that are not
/// canonical.
#[test]
fn verify_tells_what_stands_in_the_place_of_a_graph() {
    for (is_graph, says) in [(false, "is no graph"), (true, "is not canonical")] {
        let largest = |plan: &Plan| vec![largest_shard(plan, 12)];
        let change = |sequence: &DegreeSequence, entries: &mut Entries| {
            // All that are canonical are there.
            let is_it = |slot: &u64| {
                graph_of_slot(sequence, *slot).is_some() == is_graph
                    && entries.iter().all(|(known, _)| known != slot)
            };
            let slot = (0..1u64 << slot_bits(7)).find(is_it).unwrap();
            entries[1].0 = slot;
        };
        let failed = failures(&damaged_where(&SOUND, largest, change), &["--level", "3"]);
        assert!(failed[STATISTICS].contains(says), "{says}: {failed:?}");
    }
}

/// The store of a finished census, whose larger blocks lie on the shelves of workers from now on.
fn store_with_shelves(data: &Data) -> Store {
    let mut store = Store::open(&data.path().join("store"), None, None).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let reader = OtherShelves::new(runtime.handle().clone(), None, CancellationToken::new());
    store.keep_on_shelves(Mark(7), reader, Duration::ZERO).unwrap();
    store
}

/// Puts every second block of a section, of graphs of an order with so many edges, on a shelf;
/// `whole` has all of them.
fn put_on_shelves(
    whole: &Data,
    data: &Data,
    section: Section,
    order: usize,
    sizes: impl RangeBounds<usize>,
) -> Store {
    let whole = Store::open(&whole.path().join("store"), None, None).unwrap();
    let store = store_with_shelves(data);
    let all = deliveries(&whole, order).into_iter();
    let every_second = all.filter(|right| sizes.contains(&right.sequence.size())).step_by(2);
    let shelved: Vec<Arc<Delivery>> =
        every_second.map(|right| Arc::new(by_name(right, &[section]))).collect();
    store.commit(&shelved, u64::MAX).unwrap();
    store
}

/// The record of an order that was begun, and of which only results are to be kept.
fn begun(order: usize) -> OrderRecord {
    let plan = Plan::new(TrailTrap::LAYOUT, order, PlanOptions::default());
    OrderRecord { outcomes_kept: false, graphs_dropped: true, ..OrderRecord::begun(&plan) }
}

/// Whether a salvage said that it leaves out what it could read of an order.
fn is_left_out(salvaged: &Output, order: usize) -> bool {
    stderr(salvaged).contains(&format!("order {order}: what is undamaged is of no use"))
}

/// Graphs and outcomes that lie on the shelves of workers are not reached by a salvage. It is refused
/// while they are needed, and says so; if that is forced, all that was done of the order goes, and is
/// done again from what is left.
#[test]
fn a_forced_salvage_leaves_out_what_lies_on_shelves() {
    let (whole, data) = (Data::new(), Data::new());
    let expected = census_json(8, &whole, &[]);
    census_json(7, &data, &["--keep", "graphs"]);
    let (units, kept) = {
        let whole = Store::open(&whole.path().join("store"), None, None).unwrap();
        let store = store_with_shelves(&data);
        // Half of order 8 was done.
        store.put_order(8, &begun(8)).unwrap();
        let all = deliveries(&whole, 8);
        let (units, half) = (all.len(), all.len() / 2);
        let shelved = |right| Arc::new(by_name(right, &[Section::Keys, Section::Outcomes]));
        let done: Vec<Arc<Delivery>> = all.into_iter().take(half).map(shelved).collect();
        store.commit(&done, u64::MAX).unwrap();
        assert_eq!(store.units(8).unwrap().len(), half);
        (units, (1..=7).map(|order| store.units(order).unwrap().len()).sum::<usize>())
    };
    let salvage = |more: &[&str]| run(&[&["salvage", "--data", &data.text()], more].concat());
    let refused = salvage(&[]);
    assert_eq!(refused.status.code(), Some(1), "{}", stdout(&refused));
    let says = "graphs and outcomes of order 8 lie on the shelves of workers";
    assert!(stderr(&refused).contains(says), "{}", stderr(&refused));
    let forced = salvage(&["--force"]);
    assert!(forced.status.success(), "{}", stderr(&forced));
    let says =
        format!("kept {kept} units; {units} are damaged, of no use alone, or were not done");
    assert!(stdout(&forced).contains(&says), "{}", stdout(&forced));
    let left_out = [7, 8].map(|order| is_left_out(&forced, order));
    assert_eq!(left_out, [false, true], "{}", stderr(&forced));
    // Nothing is taken for damaged, and no shelf is needed.
    assert_eq!(census_json(8, &data, &["--keep", "minimal"]), expected);
    assert_eq!(data.alarms(), "no alarms\n");
}

/// So it is with the order before, from whose graphs those of the next one are made: if some of its
/// larger lists lie on shelves, it is of no use without them. Nor is the one that it is made from, of
/// which no graphs were kept.
#[test]
fn a_forced_salvage_leaves_out_graphs_some_of_which_lie_on_shelves() {
    let (whole, data) = (Data::new(), Data::new());
    let expected = census_json(8, &whole, &[]);
    census_json(8, &data, &["--keep", "graphs"]);
    put_on_shelves(&whole, &data, Section::Keys, 8, ..).put_order(9, &begun(9)).unwrap();
    let forced = run(&["salvage", "--force", "--data", &data.text()]);
    assert!(forced.status.success(), "{}", stderr(&forced));
    let left_out = [6, 7, 8].map(|order| is_left_out(&forced, order));
    assert_eq!(left_out, [false, true, true], "{}", stderr(&forced));
    assert_eq!(census_json(8, &data, &["--keep", "minimal"]), expected);
    assert_eq!(data.alarms(), "no alarms\n");
}

/// Of a finished order that the next one does not need yet, the results stay, as they do with
/// `--keep minimal`: nothing of it is damaged, and a census that needs the graphs asks for `--force`.
#[test]
fn a_forced_salvage_keeps_results_of_orders_some_of_whose_graphs_lie_on_shelves() {
    results_stay((7, &[]), (8, &[]), &[7]);
    // To carry it further takes its own graphs, and more of those of the one before.
    results_stay((8, &["--max-size", "12"]), (8, &["--max-size", "14"]), &[7, 8]);
}

/// So they do below an order of which all is there, but that is not closed: it drops what it has read
/// when it is.
#[test]
fn a_forced_salvage_keeps_results_below_an_order_that_is_not_closed() {
    let (whole, data) = (Data::new(), Data::new());
    let expected = census_json(8, &whole, &[]);
    census_json(8, &data, &["--keep", "graphs"]);
    {
        let store = put_on_shelves(&whole, &data, Section::Keys, 7, ..);
        let order = store.order(8).unwrap().unwrap();
        store.put_order(8, &OrderRecord { result: None, ..order }).unwrap();
    }
    let forced = run(&["salvage", "--force", "--data", &data.text()]);
    assert!(forced.status.success(), "{}", stderr(&forced));
    let said = stderr(&forced);
    assert!(said.contains("order 7: its results are kept without its graphs"), "{said}");
    let verified = failures_of(&["7", "--level", "3", "--data", &data.text()]);
    assert_eq!(verified, HashMap::new());
    assert_eq!(census_json(8, &data, &["--keep", "graphs"]), expected);
    assert_eq!(data.alarms(), "no alarms\n");
}

/// Graphs of these orders lie on shelves when a census is `done`, and `more` is asked for after the
/// salvage.
fn results_stay(done: (usize, &[&str]), more: (usize, &[&str]), orders: &[usize]) {
    let census = |data: &Data, asked: (usize, &[&str]), options: &[&str]| {
        census_json(asked.0, data, &[asked.1, options].concat())
    };
    let (whole, data) = (Data::new(), Data::new());
    let expected = census(&whole, done, &[]);
    assert_eq!(census(&data, done, &["--keep", "graphs"]), expected);
    for &order in orders {
        drop(put_on_shelves(&whole, &data, Section::Keys, order, ..));
    }
    let salvage = |options: &[&str]| {
        let salvaged = run(&[&["salvage", "--data", &data.text()], options].concat());
        assert!(salvaged.status.success(), "{}", stderr(&salvaged));
        assert!(stdout(&salvaged).contains("; 0 are damaged"), "{}", stdout(&salvaged));
        stderr(&salvaged)
    };
    let said = salvage(&["--force"]);
    for order in orders.iter().map(usize::to_string) {
        let says = format!("order {order}: its results are kept without its graphs");
        assert!(said.contains(&says), "{said}");
        let verified = failures_of(&[order.as_str(), "--level", "3", "--data", &data.text()]);
        assert_eq!(verified, HashMap::new(), "order {order}");
    }
    assert_eq!(census(&data, done, &["--keep", "graphs"]), expected);
    // Nothing that is needed lies on shelves any more.
    salvage(&[]);
    let order = more.0.to_string();
    let refused = run(&[&["census", order.as_str(), "--data", &data.text()], more.1].concat());
    assert_eq!(refused.status.code(), Some(1), "{}", stdout(&refused));
    let says =
        format!("order {order} needs graphs or outcomes of order {} that were not kept", done.0);
    assert!(stderr(&refused).contains(&says), "{}", stderr(&refused));
    let expected = census(&whole, more, &[]);
    assert_eq!(census(&data, more, &["--keep", "minimal", "--force"]), expected);
    assert_eq!(data.alarms(), "no alarms\n");
}

/// Where graphs with fewer edges lie on shelves, a limited order is carried further from those with
/// most edges, and nothing of it is solved again. What is solved then lies on shelves that are still
/// needed, though there is a result.
#[test]
fn a_forced_salvage_keeps_what_an_order_is_carried_further_from() {
    let (whole, data) = (Data::new(), Data::new());
    let census = |data: &Data, most: &str, keep: &str| {
        census_json(8, data, &["--max-size", most, "--keep", keep])
    };
    let salvage =
        |data: &Data, more: &[&str]| run(&[&["salvage", "--data", &data.text()], more].concat());
    let [done, further] = ["12", "14"].map(|most| census(&whole, most, "all"));
    assert_eq!(census(&data, "12", "graphs"), done);
    drop(put_on_shelves(&whole, &data, Section::Keys, 8, ..12));
    let forced = salvage(&data, &["--force"]);
    assert!(forced.status.success(), "{}", stderr(&forced));
    let said = stderr(&forced);
    assert!(said.contains("order 8: its results are kept without its graphs"), "{said}");
    assert_eq!(failures_of(&["8", "--level", "3", "--data", &data.text()]), HashMap::new());
    let on_record = || {
        let store = Store::open_read_only(&data.path().join("store")).unwrap();
        let instances = |(unit, record): (Unit, UnitRecord)| (unit, record.instance);
        store.units(8).unwrap().into_iter().map(instances).collect::<HashMap<Unit, u64>>()
    };
    let before = on_record();

    let begun = data.copy();
    drop(put_on_shelves(&whole, &begun, Section::Outcomes, 8, 13..));
    let refused = salvage(&begun, &[]);
    assert_eq!(refused.status.code(), Some(1), "{}", stdout(&refused));
    let says = "graphs and outcomes of order 8 lie on the shelves of workers";
    assert!(stderr(&refused).contains(says), "{}", stderr(&refused));

    assert_eq!(census(&data, "14", "graphs"), further);
    let after = on_record();
    assert!(before.iter().all(|(unit, instance)| after[unit] == *instance));
    assert_eq!(data.alarms(), "no alarms\n");
}

/// Where nothing but outcomes lies on shelves that a limited order would be carried further from, all
/// of its graphs stay. To carry it further it is solved again, which takes `--force`, and nothing is
/// taken for damaged.
#[test]
fn a_forced_salvage_keeps_graphs_whose_outcomes_lie_on_shelves() {
    let whole = Data::new();
    let census = |data: &Data, most: &str, more: &[&str]| {
        census_json(8, data, &[&["--max-size", most, "--keep", "graphs"], more].concat())
    };
    let [done, further] =
        ["12", "14"].map(|most| census_json(8, &whole, &["--max-size", most, "--keep", "all"]));
    // Orders, and the most edges that their graphs have.
    for orders in [&[(7, 9)][..], &[(8, 12)], &[(7, 9), (8, 12)]] {
        let data = Data::new();
        assert_eq!(census(&data, "12", &[]), done);
        for &(order, last) in orders {
            drop(put_on_shelves(&whole, &data, Section::Outcomes, order, last..=last));
        }
        let salvaged = run(&["salvage", "--force", "--data", &data.text()]);
        assert!(salvaged.status.success(), "{}", stderr(&salvaged));
        assert!(stdout(&salvaged).contains("; 0 are damaged"), "{}", stdout(&salvaged));
        let store = Store::open_read_only(&data.path().join("store")).unwrap();
        assert!(orders.iter().all(|&(order, _)| store.has_graphs(order).unwrap()), "{orders:?}");
        drop(store);
        assert_eq!(failures_of(&["8", "--level", "2", "--data", &data.text()]), HashMap::new());
        assert_eq!(census(&data, "12", &[]), done);
        let order = orders.iter().map(|&(order, _)| order).max().unwrap();
        let refused = run(&["census", "8", "--max-size", "14", "--data", &data.text()]);
        assert_eq!(refused.status.code(), Some(1), "{}", stdout(&refused));
        let says = format!("order 8 needs graphs or outcomes of order {order} that were not kept");
        assert!(stderr(&refused).contains(&says), "{}", stderr(&refused));
        assert_eq!(census(&data, "14", &["--force"]), further);
        assert_eq!(data.alarms(), "no alarms\n");
    }
}
