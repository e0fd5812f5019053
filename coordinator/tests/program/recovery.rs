//! Runs that are stopped, killed, starved and cut off end in the same table and digests as
//! undisturbed ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use trailtrap_census::{
    core::random::Random,
    records::{
        OrderRecord,
        alarm::{Alarm, AlarmKind},
    },
    store::{self, Store, StoreError, parity_bytes},
};
use trailtrap_shared::{
    game::{Game, TrailTrap},
    graph::degree::DegreeSequence,
    partition::{Block, Section},
    plan::{Plan, PlanOptions, Shard, Unit},
};

use crate::common::{
    ATTEMPTS, Data, FAMILIES, GIVE_UP, LONG_LEASE, PATIENCE, Process, census, census_json,
    command, coordinator, do_without, eventually, expected, is_thorough, orders_done,
    reserved_port, run, salvage, status, stderr, stdout, succeeded, trailtrap, units_leased,
    until_hit, usual, verified, worker,
};

/// Shards of each order that are done, as far as a directory that nobody works on says.
fn shards_done(data: &Data) -> u64 {
    let status = status(&["--data", &data.text()]);
    let whole = status["orders_done"].as_array().map_or(0, |orders| {
        orders
            .iter()
            .map(|order| DegreeSequence::all(order.as_u64().unwrap() as usize).len())
            .sum()
    });
    whole as u64 + status["order"]["shards_done"].as_u64().unwrap_or(0)
}

/// A run with a smaller --keep that ended before anything was dropped costs nothing: it may have
/// been begun by mistake.
#[test]
fn outcomes_that_are_there_stay_although_a_run_was_to_drop_them() {
    until_hit(|| {
        let data = Data::new();
        census_json(8, &data, &["--max-size", "10"]);
        let before = data.units_on_record(8);
        let text = data.text();
        let fewer = ["census", "8", "--threads", "1", "--keep", "graphs", "--data", &text];
        let mut process = Process::start(trailtrap().args(fewer));
        eventually("more is done", || !process.is_running() || data.units_on_record(8) > before);
        if !process.is_killed() {
            return None;
        }
        let output = census(8, &data, &[]);
        assert_eq!(stdout(&output), expected(8), "{}", stderr(&output));
        assert!(!stderr(&output).contains("not kept"), "{}", stderr(&output));
        succeeded(&run(&["lookup", "G?????", "--data", &text]));
        verified(&["8", "--level", "4", "--data", &text]);
        Some(())
    });
}

/// So it is where the run was to drop graphs, too, and outcomes had been dropped before.
#[test]
fn graphs_that_are_there_stay_although_a_run_was_to_drop_them() {
    let data = Data::new();
    census_json(8, &data, &["--keep", "graphs"]);
    {
        // What --keep minimal makes of an order in work before anything of it is dropped.
        let store = Store::open(&data.path().join("store"), None, None).unwrap();
        let record = store.order(8).unwrap().unwrap();
        let record = OrderRecord { result: None, graphs_dropped: true, ..record };
        store.put_order(8, &record).unwrap();
    }
    let before = solved_by(&data, 8);
    let output = census(9, &data, &["--keep", "graphs"]);
    assert_eq!(stdout(&output), expected(9), "{}", stderr(&output));
    assert!(!stderr(&output).contains("graphs are not kept"), "{}", stderr(&output));
    assert_eq!(solved_by(&data, 8), before);
    verified(&["8", "--level", "2", "--data", &data.text()]);
}

/// Kills a census again and again. How long it may run adapts to the machine: longer when it came
/// to nothing, shorter when it came far. A kill counts only if results had become durable since
/// the one before, and more were to come.
#[test]
fn killed_at_random_points_a_census_ends_the_same() {
    const KILLS: usize = 15;
    let expected = expected(9);
    let all = (1..=9).map(|order| DegreeSequence::all(order).len() as u64).sum::<u64>();
    let mut random = Random(3);
    let shorter = |window: Duration| (window / 2).max(Duration::from_millis(1));
    let (mut window, mut kills, mut idle, mut starts) = (Duration::from_millis(8), 0, 0, 0);
    // A census that ends before it was killed often enough is followed by another.
    while kills < KILLS {
        let data = Data::new();
        let mut before = 0;
        loop {
            starts += 1;
            let goes_on = starts <= KILLS * ATTEMPTS && window < GIVE_UP;
            assert!(goes_on, "only {kills} kills hit, {idle} came too early");
            let more: &[&str] = if kills % 2 == 0 { &[] } else { &["--threads", "3"] };
            let mut process = Process::start(
                trailtrap().args(["census", "9", "--json", "--data", &data.text()]).args(more),
            );
            std::thread::sleep(window / 2 + window.mul_f64(random.below(1000) as f64 / 2000.0));
            if !process.is_running() {
                let output = process.finish();
                assert!(output.status.success(), "{}", stderr(&output));
                assert_eq!(stdout(&output), expected, "after {kills} kills");
                window = shorter(window);
                break;
            }
            let hit = process.is_killed();
            // What was done stays done.
            let now = shards_done(&data);
            assert!(now >= before, "{now} of {before} shards are left after {kills} kills");
            match now - before {
                0 => {
                    idle += 1;
                    window *= 2;
                }
                progress => {
                    kills += usize::from(hit && now < all);
                    window = if progress > all / 20 { shorter(window) } else { window };
                }
            }
            before = now;
        }
    }
    println!("{kills} kills hit a running census, {idle} came before it had done anything");
}

/// Files and directories below a directory, itself included.
fn entries(path: &Path) -> usize {
    let list = std::fs::read_dir(path).into_iter().flatten().flatten();
    usize::from(path.exists()) + list.map(|entry| entries(&entry.path())).sum::<usize>()
}

/// Kills a census as soon as there are so many files, for every number of files, until kills have
/// come before there was a store, while it was being made, and afterwards.
#[test]
fn killed_while_the_store_is_being_made_a_census_can_be_started_again() {
    let expected = expected(4);
    let (mut before, mut meanwhile, mut after, mut rounds) = (0, 0, 0, 0);
    while before == 0 || meanwhile == 0 || after == 0 {
        rounds += 1;
        assert!(rounds <= ATTEMPTS, "{before} kills before, {meanwhile} while, {after} after");
        for files in 0.. {
            let data = Data::new();
            let mut process =
                Process::start(trailtrap().args(["census", "4", "--data", &data.text()]));
            // What is over in a moment is looked for all the time.
            let start = Instant::now();
            while process.is_running() && entries(&data.path()) < files {
                assert!(start.elapsed() < GIVE_UP, "waited in vain for {files} files, or the end");
                std::thread::yield_now();
            }
            let hit = process.is_killed();
            // The store is made under another name.
            let [new, made] = ["store.new", "store"].map(|name| data.path().join(name).exists());
            match (hit, new, made) {
                (false, ..) => {}
                (true, false, false) => before += 1,
                (true, true, false) => meanwhile += 1,
                (true, _, true) => after += 1,
            }
            let status = run(&["status", "--data", &data.text()]);
            let is_told = status.status.success() || !data.path().join("LOCK").exists();
            assert!(is_told, "{}", stderr(&status));
            assert_eq!(census_json(4, &data, &[]), expected, "killed at {files} files");
            if !hit {
                break;
            }
        }
    }
    println!("killed {before} times before, {meanwhile} while, {after} after the store was made");
}

#[test]
fn interrupted_politely_a_census_keeps_everything() {
    let data = Data::new();
    // It does not come to the end of this, however fast it is.
    let endless = ["census", "11", "--force", "--data", &data.text()];
    let process = Process::start(trailtrap().args(endless));
    eventually("order 8 is done", || data.orders_done() >= 8);
    process.signal("INT");
    let output = process.finish();
    assert_eq!(output.status.code(), Some(130));
    assert!(stderr(&output).contains("The same command goes on"), "{}", stderr(&output));
    assert!(stdout(&output).is_empty());
    // It stopped at once: order 11 is not done. What was done is kept, and not done again.
    let left = data.status_at_rest();
    assert!((8..11).contains(&orders_done(&left)), "{left}");
    let before = instances(&data, 8);
    assert_eq!(census_json(8, &data, &[]), expected(8));
    assert_eq!(instances(&data, 8), before);
}

/// The next kill comes when a few more shards are done, however long that takes.
#[test]
fn workers_and_coordinators_that_are_killed_change_nothing() {
    let expected = expected(9);
    let mut random = Random(271828);
    let (mut workers_killed, mut leaders_killed, mut censuses) = (0, 0, 0);
    // A census that ends before enough was killed is followed by another.
    while workers_killed < 4 || leaders_killed < 2 {
        censuses += 1;
        assert!(censuses <= ATTEMPTS, "only {workers_killed} and {leaders_killed} kills hit");
        let data = Data::new();
        // Nobody else gets the port while no coordinator listens.
        let (_reserved, port) = reserved_port();
        let address = format!("127.0.0.1:{port}");
        let mut leader = coordinator(9, &data, &address, &["--lease", "1"]).0;
        let start_worker = || {
            let flags = ["--coordinator", &address, "--threads", "1", "--patience", PATIENCE];
            Process::start(worker().args(flags))
        };
        let mut workers: Vec<Process> = (0..3).map(|_| start_worker()).collect();
        let mut kills = 0;
        loop {
            let (order, shards) = shards_done_at(&address);
            let more = random.below(300);
            eventually("there is progress", || {
                let now = shards_done_at(&address);
                !leader.is_running() || now.0 > order || now.1 > shards + more
            });
            if !leader.is_running() || kills == 12 {
                break;
            }
            if random.below(5) == 0 {
                leaders_killed += usize::from(leader.is_killed());
                leader = coordinator(9, &data, &address, &["--lease", "1"]).0;
            } else {
                let victim = random.below(3) as usize;
                workers_killed += usize::from(workers[victim].is_killed());
                workers[victim] = start_worker();
            }
            kills += 1;
        }
        let output = leader.finish();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stdout(&output), expected);
        // Those that were started too late to hear the end from the first hear it from another.
        let (late, _) = coordinator(9, &data, &address, &["--stay"]);
        for worker in workers {
            let output = worker.finish();
            let said = stderr(&output);
            assert!(output.status.success(), "workers leave by themselves: {output:?}: {said}");
        }
        late.signal("TERM");
        assert_eq!(late.finish().status.code(), Some(0));
        // The directory is the one that an embedded census would leave.
        assert_eq!(census_json(9, &data, &[]), expected);
    }
    println!("{workers_killed} workers and {leaders_killed} coordinators killed at work");
}

/// The order that a coordinator works on, and how many of its shards are done; zeros if it cannot
/// be asked.
fn shards_done_at(address: &str) -> (u64, u64) {
    let status = status(&["--coordinator", address]);
    let number = |name: &str| status["order"][name].as_u64().unwrap_or(0);
    (number("order"), number("shards_done"))
}

/// The beginning of what `scripts/chaos` does with real processes: with the blocks in a depot, and
/// where tests are thorough also with all of them in the database. What it goes without here, it
/// says.
#[test]
fn a_little_chaos_changes_nothing() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/chaos");
    let programs = Path::new(env!("CARGO_BIN_EXE_trailtrap")).parent().unwrap();
    let runs = [&["--depot", "7", "10"][..], &["7", "10"]];
    for arguments in &runs[..usual(runs.len())] {
        let output = command(&script)
            .args(*arguments)
            .env("CARGO_TARGET_DIR", programs.parent().unwrap())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
        assert!(stdout(&output).contains("10 faults survived"), "{}", stdout(&output));
        stdout(&output).lines().filter(|line| line.contains("goes without")).for_each(do_without);
    }
}

#[test]
fn a_worker_that_is_asked_to_stop_gives_back_what_it_has() {
    let data = Data::new();
    // Leases that would not expire within this test, and more work than it has time for.
    let (_leader, address) = coordinator(10, &data, "127.0.0.1:0", &["--lease", LONG_LEASE]);
    for signal in ["TERM", "INT", "USR1", "USR2"] {
        let polite = Process::start(worker().args(["--coordinator", &address, "--threads", "1"]));
        eventually("the worker has work", || units_leased(&address) > 0);
        polite.signal(signal);
        assert_eq!(polite.finish().status.code(), Some(75), "there is more to do");
        assert_eq!(units_leased(&address), 0, "{signal}");
    }
}

#[test]
fn a_worker_whose_log_has_no_reader_gives_back_what_it_has() {
    let data = Data::new();
    let (_leader, address) = coordinator(10, &data, "127.0.0.1:0", &["--lease", LONG_LEASE]);
    let mut lonely = Process::start(worker().args(["--coordinator", &address, "--threads", "1"]));
    eventually("the worker has work", || units_leased(&address) > 0);
    drop(lonely.0.stderr.take());
    lonely.signal("TERM");
    assert_eq!(lonely.finish().status.code(), Some(75));
    assert_eq!(units_leased(&address), 0);
}

#[test]
fn a_worker_is_gone_when_its_time_is_up() {
    let data = Data::new();
    // More work than anybody does in three seconds.
    let flags = ["--lease", LONG_LEASE, "--force"];
    let (_leader, address) = coordinator(11, &data, "127.0.0.1:0", &flags);
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
    // Nobody else gets the port while no coordinator listens.
    let (_reserved, port) = reserved_port();
    let address = format!("127.0.0.1:{port}");
    // More work than is done before it is stopped.
    let (leader, _) = coordinator(10, &data, &address, &["--lease", LONG_LEASE]);
    let helper = Process::start(worker().args([
        "--coordinator",
        &address,
        "--threads",
        "1",
        "--patience",
        PATIENCE,
    ]));
    eventually("the worker has work", || units_leased(&address) > 0);
    leader.signal("TERM");
    assert_eq!(leader.finish().status.code(), Some(130));
    // Leases of a day would be waited for, and this test give up, if the worker were not
    // recognized as a new one. However late it comes back, it hears that all is done.
    let (leader, _) = coordinator(9, &data, &address, &["--lease", LONG_LEASE, "--stay"]);
    assert_eq!(helper.finish().status.code(), Some(0));
    leader.signal("TERM");
    let output = leader.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected(9));
}

#[test]
fn a_coordinator_shows_its_status_and_refuses_a_port_in_use() {
    let data = Data::new();
    // Nobody else gets the port when no coordinator listens any more.
    let (_reserved, port) = reserved_port();
    let address = format!("127.0.0.1:{port}");
    let (leader, _) = coordinator(8, &data, &address, &[]);
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
        do_without("may not mount a small file system here");
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
    let explained = |output: &Output| {
        let told = stderr(output);
        assert!(told.contains("is full") && told.contains("Make room"), "{told}");
    };
    explained(&output);
    assert!(stdout(&output).is_empty());
    let remount = |megabytes: u32| {
        let options = format!("remount,size={megabytes}m");
        let mounted = Command::new("mount").args(["-o", &options, &path]).output();
        mounted.unwrap().status.success()
    };
    assert!(remount(64));
    let output = run(&["census", "9", "--data", &data, "--json", "--force"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected(9));
    // No room at all: the smallest size that is not refused, and what is free of that filled.
    let least = (4..64).find(|megabytes| remount(*megabytes));
    let least = least.expect("what is there has room in the size that it has");
    let mut filling = File::create(mount.path().join("filling")).unwrap();
    while filling.write_all(&[1; 4096]).is_ok() {}
    let output = run(&["census", "9", "--data", &data, "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    explained(&output);
    assert!(stdout(&output).is_empty());
    // Nothing more is solved: it takes no more room than a database has to have to be opened.
    assert!(remount(least + 1));
    let output = run(&["census", "9", "--data", &data, "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected(9));
}

#[test]
fn a_store_of_another_version_is_refused() {
    let data = Data::new();
    census_json(4, &data, &[]);
    {
        let db = data.database();
        // Codec version 1, then store format 7.
        db.put_cf(db.cf_handle("records").unwrap(), b"format", [1, 7, 0, 1, 0, 1, 0, 1, 0])
            .unwrap();
    }
    let output = run(&["census", "4", "--data", &data.text()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("store format 7, this program has 6"), "{}", stderr(&output));
}

/// Changes a byte in the middle of a block with so many edges.
fn damage(data: &Data, family: &str, order: u8, size: u8) {
    damage_first(data, family, &[order, size], |block| block.len() > 80);
}

/// Changes a byte in the middle of the first block from a key on that `is_it`.
fn damage_first(data: &Data, family: &str, from: &[u8], is_it: impl Fn(&[u8]) -> bool) {
    let mut options = rocksdb::Options::default();
    options.set_enable_blob_files(true);
    options.set_enable_blob_gc(true);
    options.set_blob_gc_age_cutoff(1.0);
    options.set_blob_gc_force_threshold(0.0);
    let descriptors =
        FAMILIES.map(|family| rocksdb::ColumnFamilyDescriptor::new(family, options.clone()));
    let db = rocksdb::DB::open_cf_descriptors(
        &rocksdb::Options::default(),
        data.path().join("store"),
        descriptors,
    )
    .unwrap();
    let blocks = db.cf_handle(family).unwrap();
    let (key, mut block) = db
        .iterator_cf(blocks, rocksdb::IteratorMode::From(from, rocksdb::Direction::Forward))
        .map(Result::unwrap)
        .find(|(_, block)| is_it(block))
        .unwrap();
    let middle = block.len() / 2;
    block[middle] ^= 1;
    db.put_cf(blocks, key, block).unwrap();
    // Files that still have the undamaged block go: salvage would find it there.
    for family in FAMILIES {
        db.flush_cf(db.cf_handle(family).unwrap()).unwrap();
    }
    let mut everything = rocksdb::CompactOptions::default();
    everything.set_bottommost_level_compaction(rocksdb::BottommostLevelCompaction::Force);
    db.compact_range_cf_opt(blocks, None::<&[u8]>, None::<&[u8]>, &everything);
}

/// The lease under which each unit of an order was solved, in the order of the units.
fn instances(data: &Data, order: usize) -> Vec<u64> {
    solved_by(data, order).into_values().collect()
}

#[test]
fn a_damaged_block_is_named_and_its_unit_solved_again_and_nothing_else() {
    let data = Data::new();
    census_json(7, &data, &[]);
    damage(&data, "keys", 7, 10);
    let before = instances(&data, 7);
    // Order 8 needs these parents.
    assert_eq!(census_json(8, &data, &[]), expected(8));
    let after = instances(&data, 7);
    assert_eq!(before.len(), after.len());
    assert_eq!(before.iter().zip(&after).filter(|(before, after)| before != after).count(), 1);
    let alarms = data.alarms();
    assert!(
        alarms.contains("alarm 1, damage, order 7") && alarms.contains("checksum mismatch"),
        "{alarms}"
    );
    assert!(alarms.contains("settled: it is solved again"), "{alarms}");
    verified(&["--data", &data.text()]);
}

/// Without the outcomes of an order none of its units can be solved again alone: the order is done
/// again. So is the order below, from whose graphs it is generated, as these are not kept either.
/// Order 6 is generated without what is stored.
#[test]
fn a_damaged_block_of_a_minimal_census_costs_its_order() {
    let data = Data::new();
    census_json(8, &data, &["--keep", "graphs"]);
    damage(&data, "keys", 8, 12);
    let all = || all_solved_by(&data).map(|units| units.into_values().collect::<Vec<u64>>());
    let before = all();
    assert_eq!(census_json(9, &data, &["--keep", "minimal"]), expected(9));
    for (order, (before, after)) in (1..=8).zip(before.iter().zip(&all())) {
        let redone = before.iter().filter(|instance| !after.contains(instance)).count();
        let expected = if order >= 7 { before.len() } else { 0 };
        assert_eq!((after.len(), redone), (before.len(), expected), "order {order}");
    }
}

/// A census of order 9 that was killed when there was an outcome block that is still to be read, of
/// graphs with one edge less than those in work, which have few, and that no parity mends; and its
/// bytes.
fn killed_with_outcomes(keep: &[&str]) -> (Data, Vec<u8>) {
    // How far it is by then depends on the machine.
    let killed = |least: usize| {
        let data = Data::new();
        killed_with_blobs(&data, keep, least);
        let store = Store::open_read_only(&data.path().join("store")).unwrap();
        let record = store.order(9).unwrap().unwrap();
        let plan = store::plan(store.layout(), 9, &record).unwrap();
        let done: BTreeSet<u32> = solved_by(&data, 9).into_keys().map(|unit| unit.shard).collect();
        let mut shards = 0..plan.shards.len() as u32;
        let first = shards.find(|shard| !done.contains(shard))?;
        let last = plan.shards[first as usize].size.saturating_sub(1);
        let successors = plan.successors();
        // Of few graphs none might lead to those that are damaged.
        let unread = |&shard: &u32| -> u64 {
            let readers =
                successors[shard as usize].iter().filter(|reader| !done.contains(reader));
            readers.map(|&reader| plan.shards[reader as usize].estimate).sum()
        };
        let blocks = plan.layer(last).filter(|shard| unread(shard) > 100).map(|shard| {
            let shard = &plan.shards[shard as usize];
            store.block(shard, 0, 0, Section::Outcomes).unwrap().bytes().to_vec()
        });
        let found = blocks.filter(|block| parity_bytes(block.len()) == 0).max_by_key(Vec::len);
        let block = found.filter(|_| last < 20)?;
        drop(store);
        Some((data, block))
    };
    let mut least = (1..=4).cycle();
    until_hit(|| killed(least.next()?))
}

/// Such a census that keeps graphs.
static GRAPHS_IN_WORK: LazyLock<(Data, Vec<u8>)> =
    LazyLock::new(|| killed_with_outcomes(&["--keep", "graphs"]));

/// Such a census that keeps results only.
static MINIMAL_IN_WORK: LazyLock<(Data, Vec<u8>)> =
    LazyLock::new(|| killed_with_outcomes(&["--keep", "minimal"]));

/// A copy of one of these, to be damaged, and the bytes of the block.
fn outcomes_in_work((data, bytes): &(Data, Vec<u8>)) -> (Data, Vec<u8>) {
    (data.copy(), bytes.clone())
}

/// The lease under which each unit of an order was solved.
fn solved_by(data: &Data, order: usize) -> BTreeMap<Unit, u64> {
    solved_in(&Store::open_read_only(&data.path().join("store")).unwrap(), order)
}

fn solved_in(store: &Store, order: usize) -> BTreeMap<Unit, u64> {
    let units = store.units(order).unwrap().into_iter();
    units.map(|(unit, record)| (unit, record.instance)).collect()
}

/// The same of each of the orders 1 to 9: who opens a store reads all of its journal, so that is
/// done once.
fn all_solved_by(data: &Data) -> [BTreeMap<Unit, u64>; 9] {
    let store = Store::open_read_only(&data.path().join("store")).unwrap();
    std::array::from_fn(|i| solved_in(&store, i + 1))
}

/// Ends a census of order 9 that was stopped; how many units of each order that were on record have
/// been solved again, and how many were on record.
fn ended(data: &Data, keep: &[&str]) -> [(usize, usize); 9] {
    let before = all_solved_by(data);
    assert_eq!(census_json(9, data, keep), expected(9));
    let after = all_solved_by(data);
    std::array::from_fn(|i| {
        let (before, after) = (&before[i], &after[i]);
        let is_again = |(unit, lease): &(&Unit, &u64)| after[unit] != **lease;
        (before.iter().filter(is_again).count(), before.len())
    })
}

/// Where two numbers of edges keep their outcomes, a unit of the last of them is solved again
/// alone, in the middle of its order, and what was computed from it counts again.
#[test]
fn a_damaged_block_costs_its_unit_while_what_that_reads_is_kept() {
    let keep = ["--keep", "graphs"];
    let (data, bytes) = outcomes_in_work(&GRAPHS_IN_WORK);
    damage_first(&data, "outcomes", &[9], |block| block == bytes);
    let redone = ended(&data, &keep).map(|(redone, _)| redone);
    assert_eq!(redone, [0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let store = Store::open_read_only(&data.path().join("store")).unwrap();
    assert_eq!(store.alarms().unwrap().len(), 1);
}

/// The same when what it was computed from has gone: it costs the order.
#[test]
fn a_damaged_block_costs_its_order_when_what_it_reads_is_gone() {
    let keep = ["--keep", "minimal"];
    let (data, bytes) = outcomes_in_work(&MINIMAL_IN_WORK);
    {
        let store = Store::open(&data.path().join("store"), None, None).unwrap();
        let plan = store::plan(store.layout(), 9, &store.order(9).unwrap().unwrap()).unwrap();
        let sequence = Block::parse(store.layout(), bytes.clone()).unwrap().id.sequence;
        let size = plan.shards[plan.find(&sequence).unwrap() as usize].size;
        let before: Vec<u32> = plan.layer(size - 1).collect();
        store.drop_shards(&plan, &before, &[Section::Keys, Section::Outcomes]).unwrap();
    }
    damage_first(&data, "outcomes", &[9], |block| block == bytes);
    let ended = ended(&data, &keep);
    assert_eq!(ended[8].0, ended[8].1);
    assert!(ended[..8].iter().all(|(redone, _)| *redone == 0), "{ended:?}");
}

/// Damaged graphs of the order below cost that order, and what it is made from, and not the one in
/// work: what was computed from them counts again.
#[test]
fn damaged_parents_do_not_cost_the_order_in_work() {
    let keep = ["--keep", "minimal"];
    let (data, _) = outcomes_in_work(&MINIMAL_IN_WORK);
    damage(&data, "keys", 8, 22);
    let ended = ended(&data, &keep);
    for (order, (redone, before)) in (1..=9).zip(ended) {
        let expected = if (7..=8).contains(&order) { before } else { 0 };
        assert_eq!(redone, expected, "order {order}");
    }
}

/// Has units doubted, as an alarm does whose census was stopped before it took them back.
fn doubt(data: &Data, units: &[Unit]) {
    let store = Store::open(&data.path().join("store"), None, None).unwrap();
    let plan = Plan::new(store.layout(), units[0].order.into(), PlanOptions::default());
    let sequence = &plan.shards[units[0].shard as usize].sequence;
    let alarm = Alarm::at(0, AlarmKind::Sum, units[0], sequence, "doubted".to_owned());
    let settled = Some("it is solved again".to_owned());
    let alarm = Alarm { doubted: units.to_vec(), last_instance: u64::MAX, settled, ..alarm };
    store.put_alarm(1, &alarm).unwrap();
}

/// What is doubted in several orders is solved again whatever of them is finished, and so are the
/// orders between whose graphs have gone.
#[test]
fn doubts_in_several_orders_need_no_force() {
    let data = Data::new();
    let keep = ["--keep", "graphs"];
    census_json(9, &data, &keep);
    let last = |order| *solved_by(&data, order).last_key_value().unwrap().0;
    let middle = |order| {
        let units = solved_by(&data, order);
        *units.keys().nth(units.len() / 2).unwrap()
    };
    doubt(&data, &[last(7), middle(9)]);
    let redone = ended(&data, &keep).map(|(redone, before)| redone == before);
    assert_eq!(redone, [false, false, false, false, false, false, true, true, true]);
}

/// Units beyond what is to be done now, left by a run that was to do more, can be doubted, too.
#[test]
fn units_that_are_left_out_can_be_doubted() {
    let keep = ["--keep", "graphs"];
    let (data, bytes) = outcomes_in_work(&GRAPHS_IN_WORK);
    let store = Store::open_read_only(&data.path().join("store")).unwrap();
    let plan = Plan::new(store.layout(), 9, PlanOptions::default());
    let sequence = Block::parse(store.layout(), bytes).unwrap().id.sequence;
    drop(store);
    let unit = Unit { order: 9, shard: plan.find(&sequence).unwrap(), part: 0 };
    let fewer = (sequence.size() - 1).to_string();
    doubt(&data, &[unit]);
    let limited =
        run(&["census", "9", "--data", &data.text(), "--max-size", &fewer, "--keep", "graphs"]);
    assert!(limited.status.success(), "{}", stderr(&limited));
    assert!(!solved_by(&data, 9).contains_key(&unit), "it was taken back");
    assert_eq!(census_json(9, &data, &keep), expected(9));
}

/// Changes bytes of a block in the files of large values, so many of them and so far apart. Each
/// copy of the block is changed.
fn change_in_files(data: &Data, block: &Block, count: usize, apart: usize) {
    let middle = block.bytes().len() / 2;
    let traces = &block.bytes()[middle - 32..middle + 32];
    let mut copies = 0;
    for entry in std::fs::read_dir(data.path().join("store")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "blob") {
            rewrite(&path, |bytes| {
                let found = bytes.windows(traces.len()).position(|window| window == traces);
                let Some(at) = found else { return };
                (0..count).for_each(|i| bytes[at + i * apart] ^= 16);
                copies += 1;
            });
        }
    }
    assert!(copies > 0, "the block is large, and lies in such a file");
}

/// Where a few bytes of a large block are others, it is mended from its parity: whoever only reads
/// goes on, and whoever may write has it as it was. What cannot be mended is found, as ever.
#[test]
fn a_few_damaged_bytes_cost_nothing() {
    let data = Data::new();
    census_json(9, &data, &["--keep", "graphs"]);
    let path = data.path().join("store");
    let read = |store: &Store, section| {
        let plan = Plan::new(TrailTrap::LAYOUT, 9, PlanOptions::default());
        let largest = plan.shards.iter().max_by_key(|shard| shard.estimate).unwrap();
        store.block(largest, 0, 0, section)
    };
    let sound = read(&Store::open_read_only(&path).unwrap(), Section::Keys).unwrap();
    let verify = || run(&["verify", "9", "--level", "2", "--data", &data.text()]);
    let has_mended = |output: &Output| stdout(output).contains("read by their parity: 1 ");
    assert!(!has_mended(&verify()));

    change_in_files(&data, &sound, 1, 1);
    for _ in 0..2 {
        let verified = verify();
        assert!(verified.status.success() && has_mended(&verified), "{}", stderr(&verified));
    }
    salvage(&data);
    let verified = verify();
    assert!(verified.status.success() && !has_mended(&verified), "{}", stderr(&verified));

    change_in_files(&data, &sound, 1, 1);
    let store = Store::open(&path, None, None).unwrap();
    assert_eq!(read(&store, Section::Keys).unwrap(), sound);
    drop(store);
    let verified = verify();
    assert!(verified.status.success() && !has_mended(&verified), "{}", stderr(&verified));
    assert!(Store::open_read_only(&path).unwrap().alarms().unwrap().is_empty());

    // Half a kilobyte is a piece.
    change_in_files(&data, &sound, 4, 600);
    let verified = verify();
    assert!(!verified.status.success() && !has_mended(&verified), "{}", stdout(&verified));
    let lost = read(&Store::open(&path, None, None).unwrap(), Section::Keys).unwrap_err();
    assert!(matches!(lost, StoreError::UnreadableBlock { .. }), "{lost}");
}

/// Some tables of a store: those in which keys of blocks of these shards of order 9 may lie, and
/// of each family the largest and the last.
fn some_tables(store: &Path, shards: &[&Shard]) -> BTreeSet<String> {
    let options = rocksdb::Options::default();
    let db = rocksdb::DB::open_cf_for_read_only(&options, store, FAMILIES, false).unwrap();
    let tables = db.live_files().unwrap();
    let key = |shard: &&Shard| {
        let first = [9, shard.size as u8];
        [&first[..], shard.sequence.bytes(), &[0; 8][..]].concat()
    };
    let keys: Vec<Vec<u8>> = shards.iter().map(key).collect();
    let may_have_one = |table: &&rocksdb::LiveFile| {
        let (Some(first), Some(last)) = (&table.start_key, &table.end_key) else { return true };
        keys.iter().any(|key| first <= key && key <= last)
    };
    let mut some: Vec<&rocksdb::LiveFile> = tables.iter().filter(may_have_one).collect();
    for family in FAMILIES {
        let of_family = || tables.iter().filter(move |table| table.column_family_name == family);
        some.extend(of_family().max_by_key(|table| table.size));
        some.extend(of_family().max_by_key(|table| table.name.clone()));
    }
    // They are named as if they lay in the root.
    some.into_iter().map(|table| table.name.trim_start_matches('/').to_owned()).collect()
}

/// Wherever a file is damaged that tells where blocks lie, they are read as they are, or found
/// damaged: what is there is not followed unchecked.
#[test]
fn wherever_a_table_is_damaged_reading_ends() {
    // Towards the end of each, where it says what lies where, so far from each other.
    const PLACES: usize = 10;
    const APART: usize = 211;
    let data = Data::new();
    census_json(9, &data, &[]);
    let path = data.path().join("store");
    let plan = Plan::new(TrailTrap::LAYOUT, 9, PlanOptions::default());
    let mut shards: Vec<&Shard> = plan.shards.iter().collect();
    shards.sort_by_key(|shard| std::cmp::Reverse(shard.estimate));
    shards.truncate(5);
    let places: Vec<(&Shard, Section)> =
        shards.iter().flat_map(|&shard| Section::ALL.map(|section| (shard, section))).collect();
    let known: Vec<Block> = {
        let store = Store::open_read_only(&path).unwrap();
        let read = |&(shard, section): &(&Shard, Section)| store.block(shard, 0, 0, section);
        places.iter().map(|place| read(place).unwrap()).collect()
    };
    let (mut sound, mut damaged, mut refused) = (0, 0, 0);
    let tables = some_tables(&path, &shards);
    for name in &tables {
        let undamaged = std::fs::read(path.join(name)).unwrap();
        for place in 1..=PLACES {
            let mut bytes = undamaged.clone();
            let Some(at) = bytes.len().checked_sub(place * APART) else { break };
            bytes[at..at + 8].iter_mut().for_each(|byte| *byte ^= 0x5a);
            std::fs::write(path.join(name), bytes).unwrap();
            let Ok(store) = Store::open_read_only(&path) else {
                refused += 1;
                continue;
            };
            for (&(shard, section), known) in places.iter().zip(&known) {
                match store.block(shard, 0, 0, section) {
                    Ok(block) => {
                        assert!(block.count > 0 || section == Section::Wins);
                        assert!(block == *known, "{name}, {place}: {}", known.id);
                        sound += 1;
                    }
                    Err(error) => {
                        assert!(error.bad_block().is_some(), "{error}");
                        damaged += 1;
                    }
                }
            }
        }
        std::fs::write(path.join(name), undamaged).unwrap();
    }
    let tables = tables.len();
    println!("{tables} tables: {sound} sound, {damaged} damaged, {refused} times refused");
    assert!(sound > 0 && damaged > 0, "{sound} sound, {damaged} damaged");
}

/// One way to damage a file.
type Way = (&'static str, fn(&Path));

fn rewrite(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

fn flip(path: &Path, part: usize) {
    rewrite(path, |bytes| {
        let at = bytes.len() * part / 8;
        bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 4);
    });
}

const WAYS: [Way; 7] = [
    ("flipped at the beginning", |path| flip(path, 0)),
    ("flipped", |path| flip(path, 3)),
    ("flipped in the middle", |path| flip(path, 4)),
    ("flipped towards the end", |path| flip(path, 7)),
    ("cut", |path| rewrite(path, |bytes| bytes.truncate(bytes.len() / 2))),
    ("emptied", |path| rewrite(path, Vec::clear)),
    ("removed", |path| std::fs::remove_file(path).unwrap()),
];

/// A kind that the second piece of a log, or of a manifest, may not have: RocksDB would read it for
/// ever.
const RELABELLED: Way = ("with a piece of another kind", |path| {
    rewrite(path, |bytes| {
        let Some(&[low, high]) = bytes.get(4..6) else { return };
        let second = 7 + usize::from(u16::from_le_bytes([low, high]));
        bytes.get_mut(second + 6).into_iter().for_each(|kind| *kind = 5);
    });
});

/// Adds so many alarms, which are settled.
fn add_alarms(data: &Data, alarms: u32) {
    let store = Store::open(&data.path().join("store"), None, None).unwrap();
    for number in 1..=alarms {
        let unit = Unit { order: 3, shard: 0, part: 0 };
        let sequence = DegreeSequence::new([0; 3]);
        let text = format!("alarm number {number}");
        let alarm = Alarm::at(0, AlarmKind::Damage, unit, &sequence, text);
        let settled = Some("of no concern".to_owned());
        store.put_alarm(number, &Alarm { settled, ..alarm }).unwrap();
    }
}

/// A census of order 9 that was killed while it worked on that order, so that there is something
/// in its log.
fn killed_in_order_9(data: &Data, more: &[&str]) {
    // When the third one comes, there are records of what is in the first one.
    killed_with_blobs(data, more, 3);
}

/// Such a census that keeps everything, to be copied.
static KILLED_IN_ORDER_9: LazyLock<Data> = LazyLock::new(|| {
    let data = Data::new();
    killed_in_order_9(&data, &[]);
    data
});

/// A census of order 9 that was killed when there were so many files of large blocks.
fn killed_with_blobs(data: &Data, more: &[&str], least: usize) {
    let blobs = || -> BTreeSet<PathBuf> {
        let store = std::fs::read_dir(data.path().join("store"));
        let blobs = store.into_iter().flatten().flatten().filter(|file| {
            file.path().extension().is_some_and(|end| end == "blob")
                && file.metadata().is_ok_and(|metadata| metadata.len() > 10_000)
        });
        blobs.map(|file| file.path()).collect()
    };
    until_hit(|| {
        let before = blobs();
        let mut process =
            Process::start(trailtrap().args(["census", "9", "--data", &data.text()]).args(more));
        eventually("there are large blocks", || {
            !process.is_running() || blobs().difference(&before).count() >= least
        });
        if process.is_killed() {
            return Some(());
        }
        // It was quicker: all over again.
        let store = Store::open(&data.path().join("store"), None, None).unwrap();
        let units = store.units(9).unwrap().into_iter().map(|(unit, _)| unit);
        store.take_back(&units.collect::<Vec<Unit>>()).unwrap();
        let order = store.order(9).unwrap().unwrap();
        store.put_order(9, &OrderRecord { result: None, ..order }).unwrap();
        None
    });
}

/// The files of a store, but for what RocksDB says to people.
fn store_files(store: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(store).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap())
    });
    files.filter(|(name, _)| !name.starts_with("LOG")).collect()
}

/// Salvages a census, and returns how many units were kept and how many were not; of the damaged
/// store nothing is changed.
fn salvaged(data: &Data) -> (u64, u64) {
    let before = store_files(&data.path().join("store"));
    let said = stdout(&salvage(data));
    assert!(before == store_files(&data.path().join("store.damaged-1")));
    let number = |text: &str| text.split(' ').next().unwrap().parse::<u64>().unwrap();
    let (kept, rest) = said.strip_prefix("kept ").unwrap().split_once("; ").unwrap();
    (number(kept), number(rest))
}

/// Whichever file of a store is damaged, however it is: either nothing is missing, or it is said
/// that something is, and what helps. Salvage keeps what does not stand in that file, and a census
/// solves the rest again.
#[test]
fn whatever_happens_to_a_file_of_a_store_what_stands_elsewhere_is_kept() {
    const ALARMS: u32 = 5;
    let data = Data::new();
    census_json(5, &data, &[]);
    add_alarms(&data, ALARMS);
    killed_in_order_9(&data, &[]);
    let before = Damaged::a_little_further(data);
    assert_eq!(before.alarms, ALARMS as usize);
    let files = store_files(&before.data.path().join("store"));
    let mut cases: Vec<(&String, Way, bool)> = Vec::new();
    for kind in
        ["CURRENT", "MANIFEST-", "OPTIONS-", "IDENTITY", "JOURNAL", ".log", ".sst", ".blob"]
    {
        let holds_data = kind.starts_with('.');
        let mut names: Vec<&String> = files.keys().filter(|name| name.contains(kind)).collect();
        assert!(!names.is_empty(), "no {kind} in {:?}", files.keys());
        // Of files that there are many of, the largest and the last that is not empty.
        names.retain(|name| !files[*name].is_empty());
        let largest = names.iter().max_by_key(|name| files[**name].len()).copied();
        names = largest.into_iter().chain(names.last().copied()).collect();
        names.dedup();
        for name in names {
            cases.extend(WAYS.map(|way| (name, way, holds_data)));
            if ["MANIFEST-", ".log"].contains(&kind) {
                cases.push((name, RELABELLED, holds_data));
            }
        }
    }
    if !is_thorough() {
        // As there is an odd number of ways, each of them is among these, and every file.
        let mut is_odd = false;
        cases.retain(|(_, (way, _), _)| {
            is_odd = !is_odd;
            is_odd || *way == RELABELLED.0
        });
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(&(name, (way, damage), holds_data)) =
                    cases.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let what = format!("{name} ({} bytes) {way}", files[name].len());
                    let lost = before.check(&what, |store| damage(&store.join(name)));
                    assert!(lost == 0 || holds_data, "{what}: {lost} units are lost");
                }
            });
        }
    });
}

/// A census that is to be damaged, and what is known of it.
struct Damaged {
    data: Data,
    /// What orders 8 and 9 print.
    table: [String; 2],
    /// How many edges order 9 is done up to in `table`, if not to its end.
    most_edges: Option<String>,
    units: usize,
    alarms: usize,
}

/// How many units there are on record, and how many of the alarms that were added.
fn on_record(data: &Data) -> (usize, usize) {
    let store = Store::open_read_only(&data.path().join("store")).unwrap();
    let units = (1..=9).map(|order| store.units(order).unwrap().len()).sum();
    // As `trailtrap alarms` shows them.
    let lines = store.alarms().unwrap().into_iter().map(|(number, alarm)| alarm.line(number));
    (units, lines.filter(|line| line.contains("of no concern")).count())
}

impl Damaged {
    /// A census of which order 9 is done to its end, and in which there are no alarms.
    fn to_the_end(data: Data) -> Self {
        let (units, alarms) = on_record(&data);
        assert_eq!(alarms, 0);
        Damaged { data, table: [8, 9].map(expected), most_edges: None, units, alarms }
    }

    /// A census that was killed in order 9, which is done up to where it was, and a little further:
    /// what was lost is solved again, and read.
    fn a_little_further(data: Data) -> Self {
        let plan = Plan::new(TrailTrap::LAYOUT, 9, PlanOptions::default());
        let size = |unit: Unit| plan.shards[unit.shard as usize].size;
        let begun = solved_by(&data, 9).into_keys().map(size).max().unwrap_or(0);
        let most_edges = (begun + 1).min(36).to_string();
        let whole = Data::new();
        let eight = census_json(8, &whole, &[]);
        let nine = census_json(9, &whole, &["--max-size", &most_edges]);
        let (units, alarms) = on_record(&data);
        Damaged { data, table: [eight, nine], most_edges: Some(most_edges), units, alarms }
    }

    /// Damages a copy, and returns how many units that were there are not kept by salvage.
    fn check(&self, what: &str, damage: impl Fn(&Path)) -> usize {
        self.check_as_far_as(true, what, damage)
    }

    /// The same where records may be lost that nothing else tells of any more: then a census may
    /// solve their units again and say nothing.
    fn check_as_far_as(
        &self,
        records_are_told_of: bool,
        what: &str,
        damage: impl Fn(&Path),
    ) -> usize {
        let Damaged { table, units: before, alarms: alarms_before, .. } = self;
        let data = self.data.copy();
        damage(&data.path().join("store"));
        // A census says what it cannot use, and names the remedy; or all is there.
        let other = data.copy();
        let output = run(&["census", "8", "--json", "--data", &other.text()]);
        let is_refused = !output.status.success();
        if is_refused {
            let said = stderr(&output);
            assert!(said.contains("trailtrap salvage"), "{what}: {said}");
        } else {
            assert_eq!(stdout(&output), table[0], "{what}");
            let (units, alarms) = on_record(&other);
            assert_eq!(alarms, *alarms_before, "{what}");
            assert!(
                units == *before || !records_are_told_of && units < *before,
                "{what}: {units}"
            );
        }
        let (kept, _) = salvaged(&data);
        assert_eq!(on_record(&data), (kept as usize, *alarms_before), "{what}");
        let refused = if is_refused { "refused" } else { "used as it is" };
        println!("{what}: {refused}; {kept} of {before} units salvaged");
        // If nothing is missing, nothing but order 9 is left to do.
        let is_whole = kept as usize == *before;
        // Fewer edges would be asked for in orders below, too, if these were not done.
        if is_whole || self.most_edges.is_some() {
            assert_eq!(census_json(8, &data, &[]), table[0], "{what}");
        }
        if !is_whole {
            let most_edges = self.most_edges.iter().flat_map(|most| ["--max-size", most.as_str()]);
            let options: Vec<&str> = most_edges.collect();
            assert_eq!(census_json(9, &data, &options), table[1], "{what}");
        }
        let verified = run(&["verify", "--level", "2", "--data", &data.text()]);
        assert!(verified.status.success(), "{what}: {}", stdout(&verified));
        before.checked_sub(kept as usize).expect("units that were there")
    }
}

/// Without its log a store is an older one. That is noticed by whoever opens it, and all of the
/// records are in the journal.
#[test]
fn a_lost_log_is_not_lost_in_silence() {
    let data = Data::new();
    census_json(8, &data, &[]);
    add_alarms(&data, 5);
    let before = instances(&data, 8);
    let store = data.path().join("store");
    let logs = store_files(&store).into_keys().filter(|name| name.ends_with(".log"));
    logs.for_each(|name| std::fs::remove_file(store.join(name)).unwrap());
    for command in [
        &["census", "8"][..],
        &["status"],
        &["alarms"],
        &["verify"],
        &["export", "table", "orders"],
        &["alarms", "--settle", "1", "--because", "why"],
    ] {
        let output = run(&[command, &["--data", &data.text()]].concat());
        assert_eq!(output.status.code(), Some(1), "{command:?}: {}", stdout(&output));
        let said = stderr(&output);
        assert!(said.contains("has lost its last writes"), "{command:?}: {said}");
        assert!(said.contains("and 5 alarms were durable"), "{command:?}: {said}");
        assert!(said.contains("trailtrap salvage"), "{command:?}: {said}");
    }
    salvage(&data);
    assert_eq!(data.alarms().matches("of no concern").count(), 5);
    assert_eq!(instances(&data, 8), before);
    assert_eq!(census_json(8, &data, &[]), expected(8));
}

/// RocksDB itself opens the first tables only.
#[test]
fn a_cut_table_is_noticed_however_many_there_are() {
    let data = Data::new();
    census_json(5, &data, &[]);
    let store = data.path().join("store");
    {
        let mut options = rocksdb::Options::default();
        options.set_disable_auto_compactions(true);
        let descriptors =
            FAMILIES.map(|family| rocksdb::ColumnFamilyDescriptor::new(family, options.clone()));
        let db = rocksdb::DB::open_cf_descriptors(&options, &store, descriptors).unwrap();
        let keys = db.cf_handle("keys").unwrap();
        for number in 0..40u8 {
            db.put_cf(keys, [0, number], [number]).unwrap();
            db.flush_cf(keys).unwrap();
        }
    }
    let tables = store_files(&store).into_keys().filter(|name| name.ends_with(".sst"));
    let tables: Vec<String> = tables.collect();
    assert!(tables.len() >= 40);
    for name in tables {
        let copy = data.copy();
        rewrite(&copy.path().join("store").join(&name), |bytes| bytes.truncate(bytes.len() / 2));
        let output = run(&["alarms", "--data", &copy.text()]);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", stdout(&output));
        assert!(stderr(&output).contains("trailtrap salvage"), "{name}: {}", stderr(&output));
    }
}

/// Two files damaged at random: what comes out is right, or nothing does. Records that are lost
/// from the database and from the journal are solved again.
#[test]
fn two_damaged_files_never_make_a_wrong_table() {
    let before = Damaged::a_little_further(KILLED_IN_ORDER_9.copy());
    let names: Vec<String> = store_files(&before.data.path().join("store")).into_keys().collect();
    for log in names.iter().filter(|name| name.ends_with(".log")) {
        before.check_as_far_as(false, &format!("JOURNAL cut, {log} emptied"), |store| {
            rewrite(&store.join("JOURNAL"), |bytes| bytes.truncate(bytes.len() / 2));
            rewrite(&store.join(log), Vec::clear);
        });
        let (way, damage) = RELABELLED;
        before.check_as_far_as(false, &format!("JOURNAL removed, {log} {way}"), |store| {
            std::fs::remove_file(store.join("JOURNAL")).unwrap();
            damage(&store.join(log));
        });
    }
    let mut random = Random(20);
    for _ in 0..usual(12) {
        let mut draw = || {
            let name = &names[random.below(names.len() as u64) as usize];
            (name, WAYS[random.below(WAYS.len() as u64) as usize])
        };
        let [(first, (way, damage)), (second, (other_way, other))] = [draw(), draw()];
        let files = [first.as_str(), second.as_str()];
        let takes_writes = |name: &&str| name.ends_with(".log") || name.starts_with("MANIFEST");
        let records_are_told_of = !files.contains(&"JOURNAL") || !files.iter().any(takes_writes);
        let what = format!("{first} {way}, {second} {other_way}");
        before.check_as_far_as(records_are_told_of, &what, |store| {
            damage(&store.join(first));
            if store.join(second).exists() {
                other(&store.join(second));
            }
        });
    }
}

/// After a loss of power the journal may lack the last writes. What they took back is not missed.
#[test]
fn a_journal_that_is_behind_is_no_sign_of_damage() {
    let data = Data::new();
    census_json(6, &data, &[]);
    let (store, journal) = (data.path().join("store"), data.path().join("store/JOURNAL"));
    let earlier = std::fs::read(&journal).unwrap();
    let units = {
        let store = Store::open(&store, None, None).unwrap();
        let units = store.units(6).unwrap().into_iter().map(|(unit, _)| unit);
        store.take_back(&units.take(3).collect::<Vec<Unit>>()).unwrap();
        store.units(6).unwrap().len()
    };
    assert!(std::fs::read(&journal).unwrap().len() > earlier.len());
    std::fs::write(&journal, earlier).unwrap();
    assert_eq!(Store::open(&store, None, None).unwrap().units(6).unwrap().len(), units);
}

/// Stores of programs that kept no journal are opened, and get one.
#[test]
fn a_store_without_a_journal_is_opened_and_salvaged() {
    let data = KILLED_IN_ORDER_9.copy();
    std::fs::remove_file(data.path().join("store/JOURNAL")).unwrap();
    let before = Damaged::to_the_end(data);
    assert_eq!(before.check("nothing", |_| ()), 0);
    let current = |store: &Path| std::fs::write(store.join("CURRENT"), "").unwrap();
    assert_eq!(before.check("CURRENT emptied", current), 0);
    let opened = before.data.copy();
    drop(Store::open(&opened.path().join("store"), None, None).unwrap());
    assert!(opened.path().join("store/JOURNAL").exists());
}

/// Neither order 8 nor what it is computed from can be completed: the keys of order 7 are not
/// there either.
#[test]
fn of_a_minimal_census_an_order_is_salvaged_whole_or_not_at_all() {
    let data = Data::new();
    census_json(8, &data, &["--keep", "graphs"]);
    let salvaged = salvage(&data);
    assert!(stdout(&salvaged).contains("; 0 are damaged"), "{}", stdout(&salvaged));
    assert_eq!(census_json(8, &data, &["--keep", "graphs"]), expected(8));
    damage(&data, "keys", 8, 12);
    let salvaged = salvage(&data);
    let left_out = |n: usize| {
        stderr(&salvaged).contains(&format!("order {n}: what is undamaged is of no use"))
    };
    assert!(left_out(8) && left_out(7) && !left_out(6), "{}", stderr(&salvaged));
    assert_eq!(census_json(9, &data, &["--keep", "minimal"]), expected(9));
}

/// What was dropped was not to be kept, and is not missed, neither when the order is finished nor
/// in the middle of it.
#[test]
fn of_an_order_whose_graphs_go_the_rest_is_salvaged() {
    let data = Data::new();
    let minimal = ["--keep", "minimal"];
    census_json(8, &data, &minimal);
    let before = instances(&data, 8);
    let nothing_is_lost = |salvaged: &Output| {
        let (said, errors) = (stdout(salvaged), stderr(salvaged));
        assert!(
            said.contains("; 0 are damaged") && !errors.contains("left out"),
            "{said}{errors}"
        );
    };
    nothing_is_lost(&salvage(&data));
    assert_eq!(instances(&data, 8), before);
    assert_eq!(census_json(8, &data, &minimal), expected(8));
    assert_eq!(instances(&data, 8), before);
    // Order 8 has to be done again for the sake of order 9.
    killed_in_order_9(&data, &["--keep", "minimal", "--force"]);
    let before = instances(&data, 9);
    salvage(&data);
    assert_eq!(instances(&data, 9), before);
    assert_eq!(census_json(9, &data, &minimal), expected(9));
    let after = instances(&data, 9);
    assert!(before.iter().all(|instance| after.contains(instance)), "they were not solved again");
    let store = Store::open_read_only(&data.path().join("store")).unwrap();
    assert!(!store.has_graphs(9).unwrap());
}

/// Outcomes that have gone do not come back because they are asked for in the middle of an order.
#[test]
fn an_order_that_is_begun_keeps_no_more_than_it_was_to_keep() {
    let data = Data::new();
    killed_in_order_9(&data, &["--keep", "minimal"]);
    {
        // Small orders drop too little at a time to do so before they are done.
        let store = Store::open(&data.path().join("store"), None, None).unwrap();
        let plan = store::plan(store.layout(), 9, &store.order(9).unwrap().unwrap()).unwrap();
        store.drop_shards(&plan, &[0], &[Section::Keys, Section::Outcomes]).unwrap();
    }
    let output = run(&["census", "9", "--json", "--keep", "all", "--data", &data.text()]);
    assert_eq!(stdout(&output), expected(9));
    assert!(stderr(&output).contains("its outcomes are not kept"), "{}", stderr(&output));
}

/// Graphs that have served are not asked for again by what is only to be added up, or looked at.
#[test]
fn nothing_is_solved_again_for_the_sake_of_graphs_that_are_not_needed() {
    for keep in ["graphs", "minimal"] {
        let data = Data::new();
        let keep = ["--keep", keep];
        census_json(9, &data, &keep);
        let before = all_solved_by(&data);
        let is_as_before = || all_solved_by(&data)[6..] == before[6..];
        {
            // Killed when the graphs of order 8 had gone, and before its own result was recorded.
            let store = Store::open(&data.path().join("store"), None, None).unwrap();
            assert!(!store.has_graphs(8).unwrap());
            let order = store.order(9).unwrap().unwrap();
            store.put_order(9, &OrderRecord { result: None, ..order }).unwrap();
        }
        assert_eq!(census_json(9, &data, &keep), expected(9));
        assert!(is_as_before());
        // What a salvage leaves if there was damage in order 4: the others are looked at again.
        {
            let store = Store::open(&data.path().join("store"), None, None).unwrap();
            let units = store.units(4).unwrap().into_iter().map(|(unit, _)| unit);
            store.take_back(&units.collect::<Vec<Unit>>()).unwrap();
            for n in 4..=9 {
                let order = store.order(n).unwrap().unwrap();
                store.put_order(n, &OrderRecord { result: None, ..order }).unwrap();
            }
        }
        assert_eq!(census_json(9, &data, &keep), expected(9));
        assert!(is_as_before());
    }
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
        let db = data.database();
        db.delete_cf(db.cf_handle("records").unwrap(), b"epoch").unwrap();
    }
    salvage(&data);
    assert!(
        u64::from(
            Store::open(&data.path().join("store"), None, None).unwrap().next_epoch().unwrap()
        ) > last
    );
}

#[test]
fn where_there_is_no_census_nothing_is_salvaged() {
    let nothing = run(&["salvage", "--data", &Data::new().text()]);
    assert!(stderr(&nothing).contains("there is no census in"), "{}", stderr(&nothing));
}
