//! Blocks that workers keep on disk and share in a depot.

mod common;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    time::Duration,
};

use common::{
    Data, LONG_LEASE, Process, census_json, coordinator, eventually, stderr, stdout, worker,
};
use trailtrap_worker::process::limits::Size;
use walkdir::{DirEntry, WalkDir};

/// Files below a directory, by name, with their contents. What is removed meanwhile is left out.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = WalkDir::new(directory).into_iter().flatten().map(DirEntry::into_path);
    paths.filter_map(|path| Some((path.clone(), fs::read(path).ok()?))).collect()
}

/// Blocks in a directory, without notes.
fn blocks(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files(directory).into_iter().filter(|(path, _)| path.extension().is_none()).collect()
}

fn flip_all(directory: &Path) {
    for (path, mut bytes) in blocks(directory) {
        bytes[60] ^= 4;
        fs::write(path, bytes).unwrap();
    }
}

/// A worker of so little memory that it reads partitions again and again.
fn small_worker(address: &str, options: &[&str]) -> Process {
    Process::start(
        worker()
            .args(["--coordinator", address, "--threads", "1", "--memory", "1MiB"])
            .args(options),
    )
}

/// Bytes from coordinator, disk and depot, and those put there, as a worker says when it leaves.
fn traffic(text: &str) -> [u64; 4] {
    let line = text
        .lines()
        .find_map(|line| line.split_once("blocks read: "))
        .unwrap_or_else(|| panic!("{text}"))
        .1;
    let numbers: Vec<u64> = line
        .split([',', ';'])
        .map(|part| {
            let [number, unit, ..] = part.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let unit = if unit == "B" { 1 } else { format!("1{unit}").parse::<Size>().unwrap().0 };
            (number.parse::<f64>().unwrap() * unit as f64) as u64
        })
        .collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn workers_that_keep_and_share_blocks_spare_the_coordinator() {
    let expected = census_json(9, &Data::new(), &[]);
    let directory = tempfile::tempdir().unwrap();
    let [disk, depot] = ["disk", "depot"].map(|name| directory.path().join(name));
    fs::create_dir(&depot).unwrap();
    let url = format!("file://{}", depot.display());
    let disk_cache = disk.to_str().unwrap();
    // What a small worker with these options reads, in a census of its own.
    let census_with = |options: &[&str]| -> [u64; 4] {
        let data = Data::new();
        let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &[]);
        let worker = small_worker(&address, options);
        let output = leader.finish();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stdout(&output), expected);
        traffic(&stderr(&worker.finish()))
    };
    census_with(&["--disk-cache", disk_cache, "--depot", &url]);
    assert!(!blocks(&depot).is_empty() && !blocks(&disk).is_empty());
    let [_, none @ ..] = census_with(&[]);
    assert_eq!(none, [0; 3]);
    // Another worker reads what that one has solved; and so does one with its disk. The
    // coordinator sends small blocks alone, and how often they are read depends on what comes when.
    for options in [["--depot", &url], ["--disk-cache", disk_cache]] {
        let [coordinator, disk, depot, _] = census_with(&options);
        assert!(3 * (disk + depot) > coordinator, "{coordinator}, {disk}, {depot}, {options:?}");
    }
}

/// Reads what a worker says until it says `what`, and returns that line.
fn wait_for(process: &mut Process, what: &str) -> String {
    let lines = BufReader::new(process.0.stderr.as_mut().unwrap()).lines();
    lines
        .map_while(Result::ok)
        .find(|line| line.contains(what))
        .unwrap_or_else(|| panic!("it never said: {what}"))
}

#[test]
fn damage_is_named_and_mended() {
    let directory = tempfile::tempdir().unwrap();
    let [disk, depot] = ["disk", "depot"].map(|name| directory.path().join(name));
    fs::create_dir(&depot).unwrap();
    let options = ["--disk-cache", disk.to_str().unwrap(), "--depot", depot.to_str().unwrap()];
    let data = Data::new();
    let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &[]);
    let first = small_worker(&address, &options[2..]);
    assert!(leader.finish().status.success());
    first.finish();
    // Blocks of order 9 are read again as parents, and not made again.
    let in_depot = blocks(&depot);
    flip_all(&depot);
    let (_leader, address) = coordinator(10, &data, "127.0.0.1:0", &["--lease", LONG_LEASE]);
    let wait_until_mended = |line: &str, sound: &BTreeMap<PathBuf, Vec<u8>>| {
        let is_named =
            |path: &&PathBuf| line.contains(path.file_name().unwrap().to_str().unwrap());
        let path = sound.keys().find(is_named).unwrap_or_else(|| panic!("{line}"));
        eventually(&format!("this is mended: {line}"), || {
            fs::read(path).ok().as_ref() == Some(&sound[path])
        });
    };
    let mut second = small_worker(&address, &options);
    let line = wait_for(&mut second, "a block in the depot is damaged");
    wait_until_mended(&line, &in_depot);
    second.kill();
    let on_disk = blocks(&disk);
    flip_all(&disk);
    let mut third = small_worker(&address, &options);
    let line = wait_for(&mut third, "a block on disk is damaged");
    assert!(line.contains(disk.to_str().unwrap()), "{line}");
    wait_until_mended(&line, &on_disk);
}

#[test]
fn a_disk_cache_stays_within_its_budget() {
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    let data = Data::new();
    let (mut leader, address) = coordinator(9, &data, "127.0.0.1:0", &["--lease", LONG_LEASE]);
    let options = ["--disk-cache", disk.to_str().unwrap(), "--disk-budget", "300KiB"];
    let mut worker = small_worker(&address, &options);
    let (mut most, mut counts) = (0, 0);
    while leader.is_running() {
        // Files that come and go while others are counted would be counted all.
        most = most.max(worker.paused(|_| files(&disk).values().map(Vec::len).sum()));
        counts += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("{most} bytes at most, in {counts} counts");
    assert!(leader.finish().status.success());
    let [coordinator, from_disk, ..] = traffic(&stderr(&worker.finish()));
    // A file that is being written is there beside the others; without a budget there are
    // megabytes.
    assert!(most > 200 << 10 && most < 400 << 10, "{most}");
    assert!(coordinator > 0 && from_disk > 0, "{coordinator}, {from_disk}");
}
