//! `trailtrap census` as scripts rely on it, and people's mistakes.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, process::Stdio};

use serde_json::Value;
use trailtrap_shared::{
    game::{Game, TrailTrap},
    graph::{Graph, graph6, nauty},
    plan::{Plan, PlanOptions},
};

use crate::common::{
    Data, Process, census_json, command, do_without, eventually, honest, run, salvage, stderr,
    stdout, succeeded, trailtrap,
};

/// Order 8 with its digests as first computed; later kernels, labellings and stores must give the
/// same bytes.
const GOLDEN: &str = include_str!("../golden/census-8.json");

#[test]
fn order_8_is_what_it_always_was_and_is_not_done_twice() {
    let data = Data::new();
    assert_eq!(census_json(8, &data, &[]), GOLDEN);
    assert_eq!(census_json(8, &data, &[]), GOLDEN);
    // Lower orders are there as well, and their table is short.
    let seven: Value = serde_json::from_str(&census_json(7, &data, &[])).unwrap();
    assert_eq!(seven["orders"].as_array().unwrap().len(), 7);
}

#[test]
fn threads_kernels_and_cuts_change_no_byte() {
    for more in [
        &["--threads", "1", "--kernel", "portable"][..],
        &["--threads", "3", "--part-graphs", "20", "--bucket-size", "300"],
        &["--keep", "minimal", "--memory", "40MiB"],
        &["--keep", "minimal", "--part-graphs", "50"],
        &["--keep", "graphs"],
        &["--part-graphs", "1"],
    ] {
        assert_eq!(census_json(8, &Data::new(), more), GOLDEN, "{more:?}");
    }
}

#[test]
fn the_json_has_the_promised_shape() {
    let report: Value = serde_json::from_str(GOLDEN).unwrap();
    let seven = &report["orders"][6];
    assert_eq!(seven["order"], 7);
    assert_eq!(seven["graphs"], 1044);
    assert_eq!(
        seven["connected"],
        serde_json::json!({"graphs": 853, "p1_wins": 119, "p2_wins": 734})
    );
    assert_eq!(seven["labelled"]["graphs"], "2097152");
    assert_eq!(seven["labelled"]["connected"]["graphs"], "1866256");
    assert_eq!(seven["digest"].as_str().unwrap().len(), 64);
    let by_size = seven["by_size"].as_array().unwrap();
    assert_eq!(by_size.len(), 22);
    assert_eq!(by_size[21]["size"], 21);
    assert_eq!(by_size[21]["p1_wins"], 1, "K7 is a P1-win");
    let total: u64 =
        by_size.iter().map(|size| size["connected"]["p2_wins"].as_u64().unwrap()).sum();
    assert_eq!(total, 734);
}

#[test]
fn the_table_goes_to_standard_output_and_nothing_else() {
    let data = Data::new();
    let output = run(&["census", "5", "--data", &data.text()]);
    succeeded(&output);
    let text = stdout(&output);
    assert!(text.starts_with("| order | connected |"), "{text}");
    let last = text.trim_end().lines().last().unwrap();
    let cells: Vec<&str> = last.split('|').map(str::trim).collect();
    assert_eq!(cells[1..10], ["5", "21", "4", "17", "80.95", "34", "7", "27", "79.41"]);
}

/// A terminal that can draw no bar is told how far a census is in lines, as whoever has none is.
#[test]
fn a_terminal_that_draws_nothing_is_told_in_lines() {
    // Whoever has this program gets a command a terminal of its own.
    let script = |line: &str| {
        let mut command = command("sh");
        command
            .args(["-c", "exec script -qefc \"$LINE\" /dev/null >&2"])
            .envs([("LINE", line), ("SHELL", "/bin/sh"), ("TERM", "dumb")])
            .stdin(Stdio::null());
        command
    };
    if !script("true").output().is_ok_and(|output| output.status.success()) {
        return do_without("no terminal is to be had here by util-linux's `script`");
    }
    let data = Data::new();
    // Order 1 is begun, and waits for a worker.
    let mut command = script(
        "exec \"$PROGRAM\" coordinator --order 4 --part-graphs 1000 --listen 127.0.0.1:0 --data \
         \"$DATA\"",
    );
    command.env("PROGRAM", env!("CARGO_BIN_EXE_trailtrap")).env("DATA", data.path());
    let mut leader = Process::start_and_listen(&mut command);
    let is_told = |said: &str| said.contains("order 1: 0.0 %");
    eventually("it says how far it is", || is_told(&leader.said()) || !leader.is_running());
    let said = leader.said();
    assert!(is_told(&said), "{said}");
    let address = said.lines().find_map(|line| Some(line.split_once("listening on ")?.1));
    succeeded(&honest(address.expect("it says where it listens")).finish());
    succeeded(&leader.finish());
}

#[test]
fn whatever_was_kept_a_finished_census_can_be_continued() {
    for keep in ["graphs", "minimal"] {
        let data = Data::new();
        census_json(6, &data, &["--keep", keep]);
        let seven = census_json(7, &data, &["--keep", keep]);
        let eight = run(&["census", "8", "--data", &data.text()]);
        assert_eq!(eight.status.success(), keep == "graphs", "{}", stderr(&eight));
        if keep == "minimal" {
            // Order 7 would have to be done again, and its result is too good to lose unasked.
            let said = stderr(&eight);
            assert!(said.contains("--force to solve orders 7 to 7 again"), "{said}");
            assert_eq!(census_json(7, &data, &["--keep", keep]), seven);
        }
        assert_eq!(census_json(8, &data, &["--force"]), GOLDEN);
    }
}

#[test]
fn orders_out_of_range_are_refused() {
    for order in ["0", "21", "-3", "ten", "", "8.5"] {
        let output = run(&["census", order]);
        assert_eq!(output.status.code(), Some(2), "{order}");
        assert!(!stderr(&output).is_empty());
    }
    assert!(stderr(&run(&["census", "21"])).contains("from 1 to 20"));
}

#[test]
fn orders_that_cannot_be_held_are_refused_before_anything_is_written() {
    let data = Data::new();
    let output = run(&["census", "12", "--data", &data.text()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("--keep minimal") && stderr(&output).contains("--force"),
        "{}",
        stderr(&output)
    );
    assert!(!data.path().join("store").exists());
    let output = run(&["census", "13", "--data", &data.text(), "--force"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("order 13 is beyond"));
    let output = run(&["census", "9", "--data", &data.text(), "--memory", "1KiB"]);
    assert!(stderr(&output).contains("too small"), "{}", stderr(&output));
}

#[test]
fn a_directory_in_use_is_refused_and_can_be_looked_at() {
    let data = Data::new();
    // It does not come to the end of this, however fast it is.
    let endless = ["census", "11", "--force", "--data", &data.text()];
    let _running = Process::start(trailtrap().args(endless));
    eventually("it shows its status", || data.path().join("status.json").exists());
    let output = run(&["census", "3", "--data", &data.text()]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.contains("in use by process") && text.contains("trailtrap status --data"),
        "{text}"
    );
    let status = run(&["status", "--data", &data.text(), "--json"]);
    let status: Value = serde_json::from_str(&stdout(&status)).unwrap();
    assert_eq!(status["running"], true);
    assert_eq!(status["target_order"], 11);
}

/// Whoever can open a lock can keep others from it: those who may only read a data directory must
/// not be able to, and directories of earlier versions change when they are taken.
#[test]
fn who_may_only_read_a_directory_cannot_lock_it() {
    let data = Data::new();
    census_json(4, &data, &[]);
    let locks = [data.path().join("LOCK"), data.path().join("store/LOCK")];
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let is_open = |path: &PathBuf| {
        let mode = mode(path);
        mode & 0o444 != (mode & 0o222) << 1
    };
    assert!(!locks.iter().any(is_open));
    for lock in &locks {
        fs::set_permissions(lock, fs::Permissions::from_mode(0o644)).unwrap();
    }
    census_json(4, &data, &[]);
    assert_eq!(locks.each_ref().map(mode), [0o600; 2]);
    // It is never written through a link.
    fs::rename(&locks[0], data.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", &locks[0]).unwrap();
    let output = run(&["census", "4", "--data", &data.text()]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}

/// A copy by somebody else lacks it: only its owner can read it.
#[test]
fn a_data_directory_without_its_lock_is_known() {
    let data = Data::new();
    census_json(5, &data, &[]);
    fs::remove_file(data.path().join("LOCK")).unwrap();
    let status = run(&["status", "--data", &data.text()]);
    assert!(stdout(&status).contains("orders done: 1 to 5"), "{}", stderr(&status));
    census_json(6, &data, &[]);
    fs::remove_file(data.path().join("LOCK")).unwrap();
    salvage(&data);
}

#[test]
fn directories_that_are_not_ours_are_left_alone() {
    let data = Data::new();
    fs::create_dir(data.path()).unwrap();
    fs::write(data.path().join("thesis.tex"), "precious").unwrap();
    let output = run(&["census", "3", "--data", &data.text()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("holds other files"), "{}", stderr(&output));
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1);
    let output = run(&["status", "--data", &data.text()]);
    assert!(stderr(&output).contains("there is no census"), "{}", stderr(&output));
    let output = run(&["census", "3", "--data", "/proc/nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/proc/nowhere"));
}

#[test]
fn status_tells_what_is_done() {
    let data = Data::new();
    census_json(6, &data, &[]);
    let output = run(&["status", "--data", &data.text()]);
    let text = stdout(&output);
    assert!(text.contains("not running") && text.contains("orders done: 1 to 6"), "{text}");
    // In use by what leaves no snapshot, as a salvage does.
    fs::remove_file(data.path().join("status.json")).unwrap();
    let lock = fs::File::options().write(true).open(data.path().join("LOCK")).unwrap();
    lock.lock().unwrap();
    let output = run(&["status", "--data", &data.text()]);
    let text = stdout(&output);
    assert!(text.contains(": running") && text.contains("orders done: 1 to 6"), "{text}");
}

#[test]
fn wins_are_the_ones_of_table_1() {
    let data = Data::new();
    census_json(6, &data, &["--keep", "minimal"]);
    let wins = |order: &str| stdout(&run(&["export", "graphs", order, "--data", &data.text()]));
    let canonical = |text: &str| nauty::label(&graph6::decode(text.as_bytes()).unwrap()).canonical;
    let mut found: Vec<Graph> = ["4", "5", "6"]
        .iter()
        .flat_map(|n| wins(n).lines().map(canonical).collect::<Vec<_>>())
        .collect();
    found.retain(Graph::is_connected);
    let listed = "CF C~ DCw DQw DTw D]w ECR_ ECRw ECqg ECZG ECYW ECZo ECZW ECfw ECzo ECvo EC~o \
                  EC~w EEr_ EErw EEiW EEhW \
                  EEjw EEno EQj_ EQjw EQyw EUZ_ EUZO E~~w";
    let mut expected: Vec<Graph> = listed.split_whitespace().map(canonical).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_plan_counts_before_anything_runs() {
    // How fast this machine is matters for none of these numbers.
    let plan = |order: &str| -> Value {
        let output = run(&["plan", order, "--json", "--cores", "1", "--pair", "100"]);
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_str(&stdout(&output)).unwrap()
    };
    let ten = plan("10");
    assert_eq!(ten["shards"], 16016);
    assert_eq!(ten["graphs"], 12_005_168);
    // 14 bytes a graph for its outcome, and some three for its slot, which has 36 bits.
    assert_eq!(ten["bytes_stored"], 205_340_156);
    let twelve = Plan::new(TrailTrap::LAYOUT, 12, PlanOptions::default());
    assert_eq!(twelve.shards.len(), 222_117);
    assert_eq!(twelve.totals().unwrap().0, 165_091_172_592);
    assert!(twelve.unit_count() > 222_117);
    // What it takes is measured.
    let text = stdout(&run(&["plan", "6"]));
    assert!(text.contains("core-hours") && text.contains("wall time"), "{text}");
    assert_eq!(run(&["plan", "14"]).status.code(), Some(1));
}

/// What a census reads is what was simulated before, roughly where the cache holds little of what
/// the leases read that are in work at a time.
#[test]
fn a_plan_says_what_a_census_reads() {
    let data = Data::new();
    let little = ["--memory", "400KiB", "--bucket-size", "6600", "--part-graphs", "300"];
    let alone = ["plan", "9", "--json", "--cores", "1", "--pair", "100"];
    let output = run(&[&alone[..], &little].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let plan: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let simulated = &plan["simulated"];
    let said = |what: &str| simulated[what].as_f64().unwrap();
    let census = ["census", "9", "--threads", "1", "--force", "--data", &data.text()];
    let output = run(&[&census[..], &little[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stderr(&output);
    let found = text.split("of keys and outcomes made: ").nth(1).unwrap();
    let (found, sizes) = found.split_once(' ').unwrap();
    let found: f64 = found.parse().unwrap();
    let expected = said("bytes_read") / said("bytes_made");
    let made: f64 =
        sizes.split(" of ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let made = made * f64::from(1 << 20) / said("bytes_made");
    assert!(sizes.contains(" MiB)") && (0.9..1.1).contains(&made), "{sizes}: {made}");
    assert!((0.7..2.0).contains(&(found / expected)), "{found}, and not {expected}");
    assert!(found > 1.0, "the cache holds little: {found}");
    // Nodes that each have less at hand read more, and through the coordinator.
    let output = run(&[&alone[..], &["--nodes", "4"], &little].concat());
    let plan: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let read = |what: &str| plan["simulated"][what].as_f64().unwrap();
    assert!(read("bytes_read") > said("bytes_read"));
    let through = read("bytes_through_coordinator") / (read("bytes_read") + read("bytes_made"));
    assert!((0.99..1.01).contains(&through), "{through}");
    assert_eq!(simulated["bytes_through_coordinator"], 0);
}

#[test]
fn help_and_usage() {
    for command in ["plan", "rehearse", "census", "coordinator", "status", "solve", "export"] {
        let output = run(&[command, "--help"]);
        assert!(output.status.success() && stdout(&output).len() > 300, "{command}");
    }
    assert_eq!(run(&["sensus", "3"]).status.code(), Some(2));
    // Nobody has made a census here.
    let nowhere = run(&["status"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(stderr(&nowhere).contains("trailtrap-data"), "{}", stderr(&nowhere));
    assert_eq!(run(&["census", "3", "--kernel", "gpu"]).status.code(), Some(2));
}
