//! Workers without network: units travel as files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::common::{
    Data, LONG_LEASE, Process, census_json, coordinator, eventually, eventually_some, orders_done,
    status, stderr, stdout, worker,
};

/// Files with this extension.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let list = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    list.filter(|path| path.extension().is_some_and(|e| e == extension)).collect()
}

fn make_fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

/// A task that is put out, other than `last`.
fn task(directory: &Path, last: Option<&Path>) -> PathBuf {
    eventually_some("there is a task", || {
        files(directory, "task").into_iter().find(|path| Some(&**path) != last)
    })
}

/// Files of others may have names like those of tasks.
#[test]
fn a_courier_takes_no_directory_of_others() {
    let data = Data::new();
    let (_leader, address) = coordinator(5, &data, "127.0.0.1:0", &["--stay"]);
    let directory = tempfile::tempdir().unwrap();
    let foreign = directory.path().join("12.result");
    fs::write(&foreign, "precious").unwrap();
    for (place, why) in [
        (directory.path().to_owned(), "names of tasks"),
        (foreign.clone(), "is no directory"),
        (foreign.join("in"), "is no directory"),
    ] {
        let courier =
            Process::start(worker().args(["--coordinator", &address, "--courier"]).arg(place))
                .finish();
        assert_eq!(courier.status.code(), Some(78));
        assert!(stderr(&courier).contains(why), "{}", stderr(&courier));
        assert_eq!(fs::read_to_string(&foreign).unwrap(), "precious");
    }
}

#[test]
fn a_courier_carries_a_census_to_workers_without_network() {
    let data = Data::new();
    let (leader, address) =
        coordinator(6, &data, "127.0.0.1:0", &["--lease", LONG_LEASE, "--part-graphs", "9"]);
    let directory = tempfile::tempdir().unwrap();
    let tasks = directory.path().join("tasks");
    let courier =
        Process::start(worker().args(["--coordinator", &address, "--courier"]).arg(&tasks));
    // A result that is none, and a task that nobody can use. Whoever fails a third time is not
    // asked again.
    let first = task(&tasks, None);
    fs::write(first.with_extension("result"), "nonsense").unwrap();
    let second = task(&tasks, Some(&first));
    let damaged = second.with_extension("damaged");
    fs::rename(&second, &damaged).unwrap();
    eventually("the task that nobody can use is given back", || !second.exists());
    let offline = || Process::start(worker().args(["--threads", "1", "--offline"]).arg(&tasks));
    // Asked to leave, a worker puts back what it has taken.
    let mut polite = offline();
    eventually("the worker has taken a task", || {
        polite.paused(|polite| {
            let has_taken = !files(&tasks, "taken").is_empty();
            if has_taken {
                polite.signal("TERM");
            }
            has_taken
        })
    });
    assert_eq!(polite.finish().status.code(), Some(75));
    // What it has solved by then lies there until the courier has seen it.
    let is_done = |taken: &PathBuf| taken.with_extension("result").exists() || !taken.exists();
    assert!(files(&tasks, "taken").iter().all(is_done));
    let patient = offline();
    let output = leader.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), census_json(6, &Data::new(), &[]));
    let output = patient.finish();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = courier.finish();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let bad = [
        format!("{} is damaged", first.with_extension("result").display()),
        damaged.display().to_string(),
    ];
    assert!(bad.iter().all(|bad| stderr(&output).contains(bad)), "{}", stderr(&output));
    let left: Vec<_> = fs::read_dir(&tasks).unwrap().map(|entry| entry.unwrap().path()).collect();
    let stays = |path: &PathBuf| {
        let known = ["courier", "finished"].iter().any(|name| path.ends_with(name));
        *path == damaged || known
    };
    assert!(left.iter().all(stays), "{left:?}");
}

/// What is done is not thrown away: a courier that is asked to stop looks once more.
#[test]
fn a_courier_that_is_asked_to_stop_delivers_what_lies_there() {
    let data = Data::new();
    let (_leader, address) = coordinator(6, &data, "127.0.0.1:0", &["--lease", LONG_LEASE]);
    let directory = tempfile::tempdir().unwrap();
    let tasks = directory.path().join("tasks");
    let mut courier =
        Process::start(worker().args(["--coordinator", &address, "--courier"]).arg(&tasks));
    task(&tasks, None);
    courier.paused(|courier| {
        let _offline = Process::start(worker().args(["--threads", "1", "--offline"]).arg(&tasks));
        eventually("there is a result", || !files(&tasks, "result").is_empty());
        courier.signal("TERM");
    });
    assert_eq!(courier.finish().status.code(), Some(75));
    eventually("it is delivered", || {
        let status = status(&["--coordinator", &address]);
        let graphs_done = status["order"]["graphs_done"].as_u64().unwrap_or(0);
        orders_done(&status) > 0 || graphs_done > 0
    });
}

#[test]
fn files_that_are_no_tasks_are_named_and_set_aside() {
    let directory = tempfile::tempdir().unwrap();
    let nonsense = [&b""[..], b"\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x04abc", b"\x00\x00"];
    let path =
        |number: usize, extension: &str| directory.path().join(format!("{number}.{extension}"));
    for (number, nonsense) in (1..).zip(nonsense) {
        fs::write(path(number, "task"), nonsense).unwrap();
    }
    let end = "trailtrap: the census is done; there are no more tasks\n";
    fs::write(directory.path().join("finished"), end).unwrap();
    let output =
        Process::start(worker().args(["--threads", "1", "--offline"]).arg(directory.path()))
            .finish();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for (number, nonsense) in (1..).zip(nonsense) {
        assert!(
            stderr(&output).contains(&format!("{number}.taken is damaged")),
            "{}",
            stderr(&output)
        );
        assert_eq!(fs::read(path(number, "damaged")).unwrap(), nonsense);
    }
}

/// Pipes where tasks should be, without anybody who writes into them.
#[test]
fn who_waits_among_pipes_still_hears_signals() {
    let directory = tempfile::tempdir().unwrap();
    for number in 1..10 {
        make_fifo(&directory.path().join(format!("{number}.task")));
    }
    let worker = Process::start(worker().args(["--offline"]).arg(directory.path()));
    eventually("all are set aside", || files(directory.path(), "damaged").len() == 9);
    worker.signal("TERM");
    assert_eq!(worker.finish().status.code(), Some(75));
}

/// One that is away may come back; what is none stays so.
#[test]
fn a_directory_that_stays_away_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let [missing, file] = ["missing", "file"].map(|name| directory.path().join(name));
    fs::write(&file, "").unwrap();
    for (place, code) in [(missing, 75), (file.join("in"), 78), (file, 78)] {
        let output =
            Process::start(worker().args(["--patience", "1", "--offline"]).arg(&place)).finish();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(place.to_str().unwrap()), "{}", stderr(&output));
    }
}
