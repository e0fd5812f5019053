//! Rehearsals: the real coordinator with workers that solve nothing. Every unit is accepted once,
//! whatever becomes of workers, and nothing that was invented is ever taken for a result.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::Command,
    time::Instant,
};

use serde_json::Value;
use trailtrap_census::{
    driver::{Census, CensusOptions, Keep},
    store::directory::DataDirectory,
};
use trailtrap_shared::{
    game::{Game, TrailTrap},
    plan::{Goal, Plan, PlanOptions},
};

use crate::common::{Data, Process, eventually, stderr, stdout, trailtrap};

const ORDER: usize = 8;
/// Small parts and buckets, so that shards have several.
const SPLIT: PlanOptions = PlanOptions { part_graphs: 50, bucket_bytes: 4096 };

/// A rehearsal of two dozen workers that leaves nothing in the directory for temporary files.
fn rehearse(scratch: &Path, more: &[&str]) -> Command {
    let mut command = trailtrap();
    command
        .env("TMPDIR", scratch)
        .args(["rehearse", "--nodes", "24", "--cores", "1", "--memory", "64MiB", "--json"])
        .args(["--part-graphs", "50", "--bucket-size", "4096"])
        .args(more);
    command
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

/// Units of all orders of a goal.
fn units(goal: Goal) -> u64 {
    let plans =
        (1..=goal.order).map(|n| Plan::up_to(TrailTrap::LAYOUT, n, SPLIT, goal.max_size(n)));
    plans.map(|plan| plan.unit_count()).sum()
}

/// What a rehearsal to its end has shown.
fn rehearsed(goal: Goal, more: &[&str]) -> Value {
    let scratch = tempfile::tempdir().unwrap();
    let output = rehearse(scratch.path(), more).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(is_empty(scratch.path()), "it left something");
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(found["units"], units(goal), "every unit of all orders");
    assert_eq!(found["units_again"], 0, "and each once");
    let number = |name: &str| found[name].as_f64().unwrap();
    assert!(number("calls") > number("leases"), "{found}");
    assert!(number("wall_seconds") > 0.0 && number("busy") <= 1.0, "{found}");
    assert!((0.0..=1.0).contains(&number("found_in_cache")), "{found}");
    // What would be made is what is planned, whoever does it.
    let planned = &found["forecast"]["simulated"]["bytes_made"].as_f64().unwrap();
    assert!(number("bytes_made") >= 0.99 * planned, "{found}");
    found
}

#[test]
fn every_unit_is_accepted_once() {
    let goal = Goal::new(ORDER, None);
    // What a machine is said to take is as good as what this one takes.
    let found = rehearsed(goal, &["8", "--pair", "200"]);
    assert_eq!((&found["workers_lost"], &found["leases_lost"]), (&0.into(), &0.into()));
    let fast = ["8", "--max-size", "10", "--speed", "100", "--pair", "200"];
    let limited = rehearsed(Goal::new(ORDER, Some(10)), &fast);
    assert!(limited["units"].as_u64() < found["units"].as_u64());
}

/// Leases that went down with their workers expire, and others do the units.
#[test]
fn every_unit_is_accepted_once_though_workers_die() {
    let losses = ["7", "--losses", "0.02", "--lease", "1s"];
    let found = rehearsed(Goal::new(7, None), &losses);
    assert!(found["workers_lost"].as_u64() > Some(0), "{found}");
    assert!(found["leases_lost"].as_u64() > Some(0), "{found}");
}

#[test]
fn a_rehearsal_can_be_stopped_and_leaves_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    // Machines as slow as these take hours.
    let endless = ["10", "--speed", "1", "--pair", "100000"];
    let mut process = Process::start(&mut rehearse(scratch.path(), &endless));
    let mut lines = BufReader::new(process.0.stderr.take().unwrap()).lines();
    let begun = lines.find(|line| line.as_ref().unwrap().starts_with("rehearsing"));
    assert!(begun.is_some());
    eventually("it has a store", || !is_empty(scratch.path()));
    process.signal("INT");
    let last = lines.last().unwrap().unwrap();
    assert!(last.contains("nothing is kept"), "{last}");
    let output = process.finish();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(stdout(&output), "");
    assert!(is_empty(scratch.path()), "it left something");
}

#[test]
fn what_cannot_be_rehearsed_is_said() {
    let fails = |arguments: &[&str], code: i32, hint: &str| {
        let output = trailtrap().arg("rehearse").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(stderr(&output).contains(hint), "{arguments:?}: {}", stderr(&output));
    };
    fails(&["7"], 1, "--nodes");
    fails(&["14", "--nodes", "2"], 1, "beyond this program");
    fails(&["7", "--nodes", "2", "--losses", "0.9"], 1, "0.5 at most");
    fails(&["7", "--nodes", "2", "--speed", "0"], 2, "a speed");
    let scratch = tempfile::tempdir().unwrap();
    let output = rehearse(&scratch.path().join("none"), &["7"]).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
    let said = stderr(&output);
    assert!(said.contains("TMPDIR") && !said.contains("calibrating"), "nothing is begun: {said}");
}

/// A store of a rehearsal that was left, in whatever place: every command says what it is, and
/// none says anything about graphs.
#[test]
fn what_is_invented_is_not_taken_for_a_result() {
    let data = Data::new();
    let options = CensusOptions {
        keep: Keep::Minimal,
        plan: SPLIT,
        ..CensusOptions::new(Goal::new(5, Some(4)))
    };
    {
        let directory = DataDirectory::take(&data.path()).unwrap();
        let census = Census::rehearse(&directory.store(), options, Instant::now).unwrap();
        assert_eq!(census.close().unwrap(), None, "nobody has worked on it");
        let again = Census::rehearse(&directory.store(), options, Instant::now);
        assert!(again.is_err(), "it goes on with none");
    }
    let place = data.text();
    let commands: [&[&str]; 8] = [
        &["census", "5"],
        &["census", "5", "--force", "--max-size", "4"],
        &["coordinator", "--order", "5", "--listen", "127.0.0.1:0"],
        &["status"],
        &["alarms"],
        &["lookup", "D~{"],
        &["verify"],
        &["export", "table", "orders", "--unfinished"],
    ];
    for command in commands.into_iter().chain([&["salvage"][..]]) {
        let output = trailtrap().args(command).args(["--data", &place]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {}", stdout(&output));
        let text = stderr(&output);
        assert!(text.contains("invented"), "{command:?}: {text}");
        assert_eq!(stdout(&output), "", "{command:?}");
    }
}
