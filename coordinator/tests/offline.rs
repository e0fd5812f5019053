//! Workers without network: units travel as files.

mod common;

use std::{fs, time::Duration};

use common::{Data, Process, census_json, coordinator, stderr, stdout, worker};

#[test]
fn a_courier_carries_a_census_to_workers_without_network() {
    let data = Data::new();
    let (leader, address) = coordinator(6, &data, "127.0.0.1:0", &["--lease", "3600", "--part-graphs", "9"]);
    let directory = tempfile::tempdir().unwrap();
    let tasks = directory.path().join("tasks");
    let courier = Process::start(worker().args(["--coordinator", &address, "--courier"]).arg(&tasks));
    while !tasks.exists() {
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
    for process in [courier, patient] {
        let output = process.finish();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let left: Vec<_> = fs::read_dir(&tasks).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "courier" || name == "finished"), "{left:?}");
}

#[test]
fn files_that_are_no_tasks_are_named() {
    let directory = tempfile::tempdir().unwrap();
    for nonsense in [&b""[..], b"\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x04abc", b"\x00\x00"] {
        fs::write(directory.path().join("7.task"), nonsense).unwrap();
        let output = Process::start(worker().arg("--offline").arg(directory.path())).finish();
        assert_eq!(output.status.code(), Some(78));
        assert!(stderr(&output).contains("7.taken is damaged"), "{}", stderr(&output));
    }
}
