//! What a disk does that fails for a while, or for good. A small library, put before the C library
//! of real processes, lets their calls fail. Where there is no C compiler, these tests are skipped.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        LazyLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use crate::common::{
    Data, LONG_LEASE, PATIENCE, Process, census_json, eventually, expected, reserved_port, run,
    skip, status, stderr, stdout, trailtrap, until_hit, verified, worker,
};

const EMFILE: i32 = 24;
const EIO: i32 = 5;
const ESTALE: i32 = 116;

/// The library, made once, or why there is none.
static LIBRARY: LazyLock<Result<(tempfile::TempDir, PathBuf), String>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("faults.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/faults.c");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .output();
    match made {
        Ok(output) if output.status.success() && cfg!(target_os = "linux") => {
            Ok((directory, library))
        }
        Ok(output) => Err(format!("no library can be made here: {}", stderr(&output))),
        Err(error) => Err(format!("there is no C compiler here: {error}")),
    }
});

/// A disk that can be made to fail.
struct Disk {
    library: PathBuf,
    directory: tempfile::TempDir,
}

impl Disk {
    /// None where there is no library: then the test is skipped.
    fn new() -> Option<Self> {
        let (_, library) = LIBRARY.as_ref().inspect_err(|why| skip(why)).ok()?;
        Some(Disk { library: library.clone(), directory: tempfile::tempdir().unwrap() })
    }

    fn switch(&self) -> PathBuf {
        self.directory.path().join("switch")
    }

    /// Has a command use this disk.
    fn under<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("LD_PRELOAD", &self.library).env("FAULT_SWITCH", self.switch())
    }

    /// Starts `trailtrap` with these arguments on this disk, and listens to it.
    fn start(&self, arguments: &[&str]) -> Process {
        Process::start_and_listen(self.under(trailtrap().args(arguments)))
    }

    fn fail(&self, error: i32) {
        // All at once: nobody reads half a number.
        let new = self.directory.path().join("new");
        fs::write(&new, error.to_string()).unwrap();
        fs::rename(new, self.switch()).unwrap();
    }

    fn heal(&self) {
        fs::remove_file(self.switch()).unwrap();
    }
}

fn is_in_order(arguments: &[&str], order: u64) -> bool {
    let status = status(arguments);
    status["order"]["order"].as_u64().is_some_and(|in_work| in_work >= order)
        && status["order"]["shards_done"].as_u64().is_some_and(|done| done > 0)
}

#[test]
fn a_disk_that_fails_for_a_while_is_waited_for() {
    let expected = expected(9);
    for error in [EIO, ESTALE, EMFILE] {
        let Some(disk) = Disk::new() else { return };
        // A census may end before the disk fails: then another one is begun.
        until_hit(|| {
            let data = Data::new();
            let mut process = disk.start(&["census", "9", "--json", "--data", &data.text()]);
            eventually("order 9 is in work", || {
                !process.is_running() || data.units_on_record(9) > 0
            });
            disk.fail(error);
            eventually("the disk is found to fail", || {
                !process.is_running() || process.said().contains("trying again")
            });
            let waited = process.said().contains("trying again");
            disk.heal();
            let output = process.finish();
            assert!(output.status.success(), "error {error}: {}", stderr(&output));
            assert_eq!(stdout(&output), expected, "error {error}");
            verified(&["--level", "2", "--data", &data.text()]);
            waited.then_some(())
        });
    }
}

#[test]
fn a_disk_that_fails_for_good_ends_a_census_which_says_what_helps() {
    let Some(disk) = Disk::new() else { return };
    let data = Data::new();
    // It does not come to the end of this, however fast it is.
    let endless = ["census", "11", "--force", "--json", "--data", &data.text()];
    let process = disk.start(&endless);
    eventually("order 9 is in work", || is_in_order(&["--data", &data.text()], 9));
    disk.fail(EIO);
    let output = process.finish();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("Input/output error") && said.contains("trailtrap salvage"), "{said}");
    assert!(stdout(&output).is_empty());
    // It does not even begin with such a disk, and says so as well.
    let again = disk.under(trailtrap().args(["census", "9", "--data", &data.text()])).output();
    let again = again.unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("trailtrap salvage"), "{}", stderr(&again));
    disk.heal();
    assert_eq!(census_json(9, &data, &[]), expected(9));
}

/// What cannot be read for want of descriptors is not left out of what is salvaged.
#[test]
fn a_lack_of_descriptors_is_not_taken_for_damage() {
    let Some(disk) = Disk::new() else { return };
    let data = Data::new();
    let expected = census_json(7, &data, &[]);
    fs::write(data.path().join("store/CURRENT"), "nonsense").unwrap();
    disk.fail(EMFILE);
    let salvage = ["salvage", "--data", &data.text()];
    let refused = disk.under(trailtrap().args(salvage)).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("Too many open files"), "{}", stderr(&refused));
    disk.heal();
    let salvaged = run(&salvage);
    assert!(salvaged.status.success(), "{}", stderr(&salvaged));
    assert!(stdout(&salvaged).contains("; 0 are damaged"), "{}", stdout(&salvaged));
    assert_eq!(census_json(7, &data, &[]), expected);
}

/// Workers outlast a coordinator whose disk fails, be it for a while or for good.
#[test]
fn workers_wait_while_the_disk_of_their_coordinator_fails() {
    let Some(disk) = Disk::new() else { return };
    // Nobody comes to the end of this, however fast they are.
    let (data, order) = (Data::new(), "11");
    let (_socket, port) = reserved_port();
    let address = format!("127.0.0.1:{port}");
    let start = || {
        let flags = ["--order", order, "--listen", &address, "--lease", LONG_LEASE, "--json"];
        let beginning = ["coordinator", "--force", "--data", &data.text()];
        disk.start(&[&beginning, &flags[..]].concat())
    };
    let mut leader = start();
    let flags = ["--coordinator", &address, "--threads", "1", "--patience", PATIENCE];
    let mut helpers: Vec<Process> = (0..2).map(|_| Process::start(worker().args(flags))).collect();
    let all_run = |helpers: &mut Vec<Process>| helpers.iter_mut().all(Process::is_running);
    let remote = ["--coordinator", &address];
    eventually("order 9 is in work", || is_in_order(&remote, 9));
    disk.fail(EIO);
    eventually("the disk is found to fail", || leader.said().contains("trying again"));
    disk.heal();
    eventually("order 10 is in work", || is_in_order(&remote, 10));
    assert!(leader.is_running() && all_run(&mut helpers));
    assert_eq!(status(&remote)["order"]["set_aside"], serde_json::json!([]));
    // Now for good.
    disk.fail(EIO);
    let output = leader.finish();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("trailtrap salvage"), "{}", stderr(&output));
    assert!(all_run(&mut helpers), "workers wait for the next run");
    disk.heal();
    let leader = start();
    eventually("the workers go on", || {
        let status = status(&remote);
        status["order"]["units_leased"].as_u64().is_some_and(|units| units > 0)
    });
    assert!(all_run(&mut helpers));
    let status = status(&remote);
    assert_eq!(status["order"]["set_aside"], serde_json::json!([]));
    assert_eq!(status["alarms"], serde_json::json!([]));
    leader.signal("TERM");
    assert_eq!(leader.finish().status.code(), Some(130));
}

/// How often each reader has looked at a census at work in the end …
const LOOKS: usize = 30;
/// … and how often since order 10 was begun.
const LOOKS_AT_ORDER_10: usize = 10;

/// Looking at a census while it works never finds it damaged, however often files come and go.
#[test]
fn who_looks_on_never_takes_a_census_at_work_for_a_damaged_one() {
    let data = Data::new();
    // It does not come to the end of this, however fast it is.
    let endless = ["census", "11", "--force", "--json", "--data", &data.text()];
    let mut process = Process::start(trailtrap().args(endless));
    eventually("an order is done", || data.orders_done() > 2);
    let over = AtomicBool::new(false);
    let looked = [const { AtomicUsize::new(0) }; 2];
    std::thread::scope(|scope| {
        let look = |reader: usize, arguments: &'static [&'static str]| {
            let (data, over, looked) = (data.text(), &over, &looked[reader]);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let output = trailtrap().args(arguments).args(["--data", &data]).output();
                    let output = output.unwrap();
                    let said = stderr(&output) + &stdout(&output);
                    assert!(output.status.success(), "{said}");
                    looked.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let readers = [
            look(0, &["export", "table", "orders", "--unfinished"]),
            look(1, &["verify", "3", "--level", "2"]),
        ];
        // One that has failed does not look any more.
        let has_failed = || readers.iter().any(|reader| reader.is_finished());
        let times = || looked.each_ref().map(|times| times.load(Ordering::Relaxed));
        eventually("order 10 is begun", || {
            has_failed() || is_in_order(&["--data", &data.text()], 10)
        });
        let before = times();
        eventually("each has looked often enough", || {
            let least = |before: usize| LOOKS.max(before + LOOKS_AT_ORDER_10);
            let mut all = times().into_iter().zip(before);
            has_failed() || all.all(|(now, before)| now >= least(before))
        });
        over.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        println!("looked {:?} times, {before:?} of them before order 10", times());
    });
    assert!(process.is_running(), "it was at work all the time");
    process.kill();
}
