//! Runs that are stopped, killed, starved and cut off end in the same table and digests as
//! undisturbed ones.

mod common;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant, SystemTime},
};

use common::{Data, Process, census_json, coordinator, run, stderr, stdout, trailtrap, worker};
use serde_json::Value;
use trailtrap_census::{core::random::Random, store::Store};

fn expected(order: usize) -> String {
    census_json(order, &Data::new(), &[])
}

/// Units that are done, as an onlooker sees them between two runs.
fn shards_done(data: &Data) -> u64 {
    let status: Value =
        serde_json::from_str(&stdout(&run(&["status", "--json", "--data", &data.text()])))
            .unwrap();
    let done = status["orders_done"].as_array().unwrap().len() as u64;
    done * 1_000_000 + status["order"]["shards_done"].as_u64().unwrap_or(0)
}

#[test]
fn killed_at_random_points_a_census_ends_the_same() {
    let expected = expected(9);
    for seed in [3, 1415, 92653] {
        let mut random = Random(seed);
        let data = Data::new();
        let (mut kills, mut before) = (0, 0);
        loop {
            let more: &[&str] = if kills % 2 == 0 { &[] } else { &["--threads", "3"] };
            let mut process = Process::start(
                trailtrap().args(["census", "9", "--json", "--data", &data.text()]).args(more),
            );
            let until = Instant::now() + Duration::from_millis(60 + random.below(300));
            while Instant::now() < until && process.0.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            if process.0.try_wait().unwrap().is_some() {
                let output = process.finish();
                assert!(output.status.success(), "{}", stderr(&output));
                assert_eq!(stdout(&output), expected, "seed {seed}");
                break;
            }
            process.kill();
            kills += 1;
            assert!(kills < 200, "no progress");
            // What was done stays done.
            let now = shards_done(&data);
            assert!(now >= before, "seed {seed}: {now} < {before}");
            before = now;
        }
        assert!(kills > 0);
    }
}

#[test]
fn killed_while_the_store_is_being_made_a_census_can_be_started_again() {
    let expected = expected(4);
    for delay in (2..30).chain([40, 60, 90]) {
        let data = Data::new();
        let mut process =
            Process::start(trailtrap().args(["census", "4", "--data", &data.text()]));
        std::thread::sleep(Duration::from_millis(delay));
        process.kill();
        let status = run(&["status", "--data", &data.text()]);
        assert!(
            status.status.success() || !data.path().join("LOCK").exists(),
            "{}",
            stderr(&status)
        );
        assert_eq!(census_json(4, &data, &[]), expected, "killed after {delay} ms");
    }
}

#[test]
fn interrupted_politely_a_census_keeps_everything() {
    let data = Data::new();
    let process = Process::start(trailtrap().args(["census", "10", "--data", &data.text()]));
    std::thread::sleep(Duration::from_millis(1500));
    process.signal("INT");
    let start = Instant::now();
    let output = process.finish();
    assert_eq!(output.status.code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(stderr(&output).contains("The same command goes on"), "{}", stderr(&output));
    assert!(stdout(&output).is_empty());
    // A lower order that was finished on the way is there at once.
    assert_eq!(census_json(8, &data, &[]), expected(8));
}

#[test]
fn workers_and_coordinators_that_are_killed_change_nothing() {
    let expected = expected(9);
    let mut random = Random(271828);
    let data = Data::new();
    let (mut leader, address) = coordinator(9, &data, "127.0.0.1:0", &["--lease", "1"]);
    let start_worker = || {
        Process::start(worker().args([
            "--coordinator",
            &address,
            "--threads",
            "1",
            "--patience",
            "30",
        ]))
    };
    let mut workers: Vec<Process> = (0..3).map(|_| start_worker()).collect();
    let start = Instant::now();
    let mut kills = 0;
    while leader.0.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(100), "not done after {kills} kills");
        std::thread::sleep(Duration::from_millis(40 + random.below(120)));
        if kills == 12 {
            continue;
        }
        if random.below(5) == 0 {
            leader.kill();
            leader = coordinator(9, &data, &address, &["--lease", "1"]).0;
        } else {
            let victim = random.below(3) as usize;
            workers[victim].kill();
            workers[victim] = start_worker();
        }
        kills += 1;
    }
    assert!(kills >= 3, "too quick to be disturbed: {kills} kills");
    let output = leader.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected);
    for worker in workers {
        assert_eq!(worker.finish().status.code(), Some(0), "workers leave by themselves");
    }
    // The directory is the one that an embedded census would leave.
    assert_eq!(census_json(9, &data, &[]), expected);
}

/// The beginning of what `scripts/chaos` does with real processes.
#[test]
fn a_little_chaos_changes_nothing() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/chaos");
    let programs = Path::new(env!("CARGO_BIN_EXE_trailtrap")).parent().unwrap();
    let output = Command::new(script)
        .args(["7", "10"])
        .env("CARGO_TARGET_DIR", programs.parent().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("10 faults survived"), "{}", stdout(&output));
}

/// Units that the coordinator believes to be in work.
fn units_leased(address: &str) -> u64 {
    let output = run(&["status", "--json", "--coordinator", address]);
    let status: Value = serde_json::from_str(&stdout(&output)).unwrap();
    // Between two orders there are none.
    status["order"]["units_leased"].as_u64().unwrap_or(0)
}

#[test]
fn a_worker_that_is_asked_to_stop_gives_back_what_it_has() {
    let data = Data::new();
    // Leases that would not expire within this test, and more work than it has time for.
    let (_leader, address) = coordinator(10, &data, "127.0.0.1:0", &["--lease", "3600"]);
    for signal in ["TERM", "INT", "USR1", "USR2"] {
        let polite = Process::start(worker().args(["--coordinator", &address, "--threads", "1"]));
        let start = Instant::now();
        while units_leased(&address) == 0 {
            assert!(start.elapsed() < Duration::from_secs(30));
        }
        polite.signal(signal);
        assert_eq!(polite.finish().status.code(), Some(75), "there is more to do");
        assert_eq!(units_leased(&address), 0, "{signal}");
    }
}

#[test]
fn a_worker_whose_log_has_no_reader_gives_back_what_it_has() {
    let data = Data::new();
    let (_leader, address) = coordinator(10, &data, "127.0.0.1:0", &["--lease", "3600"]);
    let mut lonely = Process::start(worker().args(["--coordinator", &address, "--threads", "1"]));
    let start = Instant::now();
    while units_leased(&address) == 0 {
        assert!(start.elapsed() < Duration::from_secs(30));
    }
    drop(lonely.0.stderr.take());
    lonely.signal("TERM");
    assert_eq!(lonely.finish().status.code(), Some(75));
    assert_eq!(units_leased(&address), 0);
}

#[test]
fn a_worker_is_gone_when_its_time_is_up() {
    let data = Data::new();
    let (_leader, address) = coordinator(10, &data, "127.0.0.1:0", &["--lease", "3600"]);
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let batch = |variable: &str, end: u64| {
        let mut command = worker();
        command.args(["--coordinator", &address, "--threads", "1"]).env(variable, end.to_string());
        Process::start(&mut command).finish()
    };
    let output = batch("SLURM_JOB_END_TIME", now() + 3);
    assert_eq!(output.status.code(), Some(75), "{}", stderr(&output));
    assert_eq!(units_leased(&address), 0);
    assert_eq!(
        batch("SLURM_JOB_END_TIME", now() - 100).status.code(),
        Some(75),
        "too late to begin"
    );
}

#[test]
fn workers_wait_for_a_coordinator_that_is_stopped_politely() {
    let data = Data::new();
    let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &["--lease", "3600"]);
    let helper = Process::start(worker().args([
        "--coordinator",
        &address,
        "--threads",
        "1",
        "--patience",
        "30",
    ]));
    std::thread::sleep(Duration::from_millis(250));
    leader.signal("TERM");
    assert_eq!(leader.finish().status.code(), Some(130));
    // Leases of an hour would be waited for if the worker were not recognized as a new one.
    let start = Instant::now();
    let output = coordinator(9, &data, &address, &["--lease", "3600"]).0.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected(9));
    assert!(start.elapsed() < Duration::from_secs(50));
    assert_eq!(helper.finish().status.code(), Some(0));
}

#[test]
fn a_coordinator_shows_its_status_and_refuses_a_port_in_use() {
    let data = Data::new();
    let (leader, address) = coordinator(8, &data, "127.0.0.1:0", &[]);
    let output = run(&["status", "--coordinator", &address]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("census up to order 8: running"), "{}", stdout(&output));
    let other = Data::new();
    let output =
        run(&["coordinator", "--order", "3", "--listen", &address, "--data", &other.text()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("cannot listen on") && stderr(&output).contains("in use"),
        "{}",
        stderr(&output)
    );
    drop(leader);
    let output = run(&["status", "--coordinator", &address]);
    assert!(stderr(&output).contains("cannot reach a coordinator"), "{}", stderr(&output));
}

/// Needs the right to mount a file system; says so and passes without it.
#[test]
fn a_full_disk_stops_the_census_and_loses_nothing() {
    let mount = tempfile::tempdir().unwrap();
    let path = mount.path().to_str().unwrap().to_owned();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs", &path]).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: may not mount a small file system here");
        return;
    }
    struct Unmount(String);
    impl Drop for Unmount {
        fn drop(&mut self) {
            let _ = Command::new("umount").args(["-l", &self.0]).status();
        }
    }
    let _unmount = Unmount(path.clone());
    let data = format!("{path}/data");
    let output = run(&["census", "9", "--data", &data]);
    assert!(stderr(&output).contains("will take about"), "{}", stderr(&output));
    let output = run(&["census", "9", "--data", &data, "--force"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("is full") && stderr(&output).contains("Make room"),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&output).is_empty());
    assert!(
        Command::new("mount").args(["-o", "remount,size=64m", &path]).status().unwrap().success()
    );
    let output = run(&["census", "9", "--data", &data, "--json", "--force"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected(9));
    // Room for no more, but nothing more is needed.
    assert!(
        Command::new("mount").args(["-o", "remount,size=12m", &path]).status().unwrap().success()
    );
    let output = run(&["census", "9", "--data", &data, "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn a_store_of_another_version_is_refused() {
    let data = Data::new();
    census_json(4, &data, &[]);
    {
        let families = ["default", "records", "keys", "outcomes", "wins"];
        let db = rocksdb::DB::open_cf(
            &rocksdb::Options::default(),
            data.path().join("store"),
            families,
        )
        .unwrap();
        // Codec version 1, then store format 7.
        db.put_cf(db.cf_handle("records").unwrap(), b"format", [1, 7, 0, 1, 0, 1, 0, 1, 0])
            .unwrap();
    }
    let output = run(&["census", "4", "--data", &data.text()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("store format 7, this program has 3"), "{}", stderr(&output));
}

/// Changes a byte in the middle of a block of a finished order.
fn damage(data: &Data, family: &str, order: u8, size: u8) {
    let families = ["default", "records", "keys", "outcomes", "wins"];
    let db =
        rocksdb::DB::open_cf(&rocksdb::Options::default(), data.path().join("store"), families)
            .unwrap();
    let blocks = db.cf_handle(family).unwrap();
    let (key, mut block) = db
        .iterator_cf(
            blocks,
            rocksdb::IteratorMode::From(&[order, size], rocksdb::Direction::Forward),
        )
        .map(Result::unwrap)
        .find(|(_, block)| block.len() > 80)
        .unwrap();
    let middle = block.len() / 2;
    block[middle] ^= 1;
    db.put_cf(blocks, key, block).unwrap();
}

/// The lease under which each unit of an order was solved.
fn instances(data: &Data, order: usize) -> Vec<u64> {
    let store = Store::open_read_only(&data.path().join("store")).unwrap();
    store.units(order).unwrap().iter().map(|(_, record)| record.instance).collect()
}

#[test]
fn a_damaged_block_is_named_and_its_unit_solved_again_and_nothing_else() {
    let data = Data::new();
    census_json(7, &data, &[]);
    damage(&data, "keys", 7, 10);
    let before = instances(&data, 7);
    // Order 8 needs these parents.
    let output = run(&["census", "8", "--data", &data.text(), "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected(8));
    let after = instances(&data, 7);
    assert_eq!(before.len(), after.len());
    assert_eq!(before.iter().zip(&after).filter(|(before, after)| before != after).count(), 1);
    let alarms = stdout(&run(&["alarms", "--data", &data.text()]));
    assert!(
        alarms.contains("alarm 1, damage, order 7") && alarms.contains("checksum mismatch"),
        "{alarms}"
    );
    assert!(alarms.contains("settled: it is solved again"), "{alarms}");
    let verified = run(&["verify", "--data", &data.text()]);
    assert!(verified.status.success(), "{}", stdout(&verified));
}

/// Without the outcomes of an order none of its units can be solved again alone: the order is done
/// again.
#[test]
fn a_damaged_block_of_a_minimal_census_costs_its_order() {
    let data = Data::new();
    census_json(8, &data, &["--keep", "minimal"]);
    damage(&data, "keys", 8, 12);
    let output = run(&["census", "9", "--data", &data.text(), "--json", "--keep", "minimal"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected(9));
}

/// The largest file of the store with this extension.
fn largest(data: &Data, extension: &str) -> PathBuf {
    let files =
        std::fs::read_dir(data.path().join("store")).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|e| e == extension));
    files.max_by_key(|path| path.metadata().unwrap().len()).unwrap()
}

/// Whatever file of the database is cut short or changed: what is undamaged is kept, and the same
/// table comes out.
#[test]
fn a_damaged_database_is_salvaged_and_what_is_missing_solved_again() {
    let expected = expected(9);
    let cut: &dyn Fn(&Path) = &|path| {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    };
    let flip: &dyn Fn(&Path) = &|path| {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        std::fs::write(path, bytes).unwrap();
    };
    // Of a table that is cut short nothing is left; here it is the one with the records.
    for (extension, damage, some_are_kept) in
        [("sst", cut, false), ("sst", flip, true), ("blob", cut, true), ("blob", flip, true)]
    {
        let data = Data::new();
        census_json(9, &data, &[]);
        let before = instances(&data, 9);
        damage(&largest(&data, extension));
        let verified = run(&["verify", "--level", "2", "--data", &data.text()]);
        assert_eq!(verified.status.code(), Some(1), "{}", stdout(&verified));
        let salvaged = run(&["salvage", "--data", &data.text()]);
        assert!(salvaged.status.success(), "{}", stderr(&salvaged));
        assert!(
            stderr(&salvaged).contains("order "),
            "what is damaged is named: {}",
            stderr(&salvaged)
        );
        assert_eq!(census_json(9, &data, &[]), expected);
        let verified = run(&["verify", "--level", "3", "--data", &data.text()]);
        assert!(verified.status.success(), "{}", stdout(&verified));
        let kept = instances(&data, 9).iter().filter(|instance| before.contains(instance)).count();
        assert_eq!(kept > 0, some_are_kept, "{extension}: {kept} units of order 9 were undamaged");
    }
}

fn salvage(data: &Data) -> Output {
    let output = run(&["salvage", "--data", &data.text()]);
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

/// Neither order 8 nor what it is computed from can be completed: the keys of order 7 are not
/// there either.
#[test]
fn of_a_minimal_census_an_order_is_salvaged_whole_or_not_at_all() {
    let data = Data::new();
    census_json(8, &data, &["--keep", "minimal"]);
    let salvaged = salvage(&data);
    assert!(stdout(&salvaged).contains("; 0 are damaged"), "{}", stdout(&salvaged));
    assert_eq!(census_json(8, &data, &["--keep", "minimal"]), expected(8));
    damage(&data, "keys", 8, 12);
    let salvaged = salvage(&data);
    let left_out = |n: usize| {
        stderr(&salvaged).contains(&format!("order {n}: what is undamaged is of no use"))
    };
    assert!(left_out(8) && left_out(7) && !left_out(6), "{}", stderr(&salvaged));
    assert_eq!(census_json(9, &data, &["--keep", "minimal"]), expected(9));
}

#[test]
fn a_salvage_that_was_interrupted_at_its_end_is_completed() {
    let data = Data::new();
    census_json(7, &data, &[]);
    let before = instances(&data, 7);
    let interrupted =
        || std::fs::rename(data.path().join("store"), data.path().join("store.salvaged")).unwrap();
    interrupted();
    let shown = run(&["export", "table", "orders", "--data", &data.text()]);
    assert!(shown.status.success(), "{}", stderr(&shown));
    assert_eq!(census_json(7, &data, &[]), expected(7));
    assert_eq!(instances(&data, 7), before);
    interrupted();
    assert!(stdout(&salvage(&data)).contains("what was salvaged before is in its place"));
    assert_eq!(instances(&data, 7), before);
    // Remains of one that was interrupted earlier are of no use.
    std::fs::create_dir(data.path().join("store.salvaging")).unwrap();
    std::fs::create_dir(data.path().join("store.salvaged")).unwrap();
    salvage(&data);
    assert_eq!(instances(&data, 7), before);
}

#[test]
fn numbers_of_leases_do_not_repeat_after_a_salvage() {
    let data = Data::new();
    (3..6).for_each(|order| drop(census_json(order, &data, &[])));
    let last = instances(&data, 5).into_iter().max().unwrap() >> 32;
    assert_eq!(last, 3);
    {
        let families = ["default", "records", "keys", "outcomes", "wins"];
        let db = rocksdb::DB::open_cf(
            &rocksdb::Options::default(),
            data.path().join("store"),
            families,
        )
        .unwrap();
        db.delete_cf(db.cf_handle("records").unwrap(), b"epoch").unwrap();
    }
    salvage(&data);
    assert!(
        u64::from(Store::open(&data.path().join("store"), None).unwrap().next_epoch().unwrap())
            > last
    );
}

#[test]
fn where_there_is_no_census_nothing_is_salvaged() {
    let nothing = run(&["salvage", "--data", &Data::new().text()]);
    assert!(stderr(&nothing).contains("there is no census in"), "{}", stderr(&nothing));
}
