//! Workers without network: units travel as files.

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use common::{Data, Process, census_json, coordinator, stderr, stdout, worker};

/// A task that is put out, other than `last`.
fn task(directory: &Path, last: Option<&Path>) -> PathBuf {
    loop {
        let mut paths =
            fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_new = |path: &PathBuf| {
            path.extension().is_some_and(|e| e == "task") && Some(&**path) != last
        };
        if let Some(path) = paths.find(is_new) {
            return path;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_courier_carries_a_census_to_workers_without_network() {
    let data = Data::new();
    let (leader, address) =
        coordinator(6, &data, "127.0.0.1:0", &["--lease", "3600", "--part-graphs", "9"]);
    let directory = tempfile::tempdir().unwrap();
    let tasks = directory.path().join("tasks");
    let courier =
        Process::start(worker().args(["--coordinator", &address, "--courier"]).arg(&tasks));
    // A result that is none, and a task that nobody can use.
    let first = task(&tasks, None);
    fs::write(first.with_extension("result"), "nonsense").unwrap();
    let second = task(&tasks, Some(&first));
    let damaged = second.with_extension("damaged");
    fs::rename(&second, &damaged).unwrap();
    while second.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let offline = || Process::start(worker().args(["--threads", "1", "--offline"]).arg(&tasks));
    // Asked to leave, a worker puts back what it has taken.
    let polite = offline();
    std::thread::sleep(Duration::from_millis(500));
    polite.signal("TERM");
    assert_eq!(polite.finish().status.code(), Some(75));
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
        *path == damaged || path.ends_with("courier") || path.ends_with("finished")
    };
    assert!(left.iter().all(stays), "{left:?}");
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
    fs::write(directory.path().join("finished"), "").unwrap();
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

#[test]
fn a_directory_that_stays_away_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let output =
        Process::start(worker().args(["--patience", "1", "--offline"]).arg(&missing)).finish();
    assert_eq!(output.status.code(), Some(75), "{}", stderr(&output));
    assert!(stderr(&output).contains(missing.to_str().unwrap()), "{}", stderr(&output));
}
