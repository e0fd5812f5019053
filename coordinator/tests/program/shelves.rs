//! Blocks that workers keep on their own shelves, for each other.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use walkdir::{DirEntry, WalkDir};

use crate::common::{
    Data, PATIENCE, Process, census_json, coordinator, eventually, heard_coordinator, run, stderr,
    stdout, traffic, worker,
};

/// A place for shelves.
struct Room(tempfile::TempDir);

impl Room {
    fn new() -> Self {
        Room(tempfile::tempdir().unwrap())
    }

    fn shelf(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A worker with a shelf of this name, and so little memory that it reads partitions again and
    /// again.
    fn worker(&self, reach: &[&str], name: &str) -> Process {
        small_worker(reach, &["--shelf", self.shelf(name).to_str().unwrap()])
    }
}

fn small_worker(reach: &[&str], options: &[&str]) -> Process {
    Process::start(
        worker()
            .args(reach)
            .args(["--threads", "1", "--memory", "1MiB", "--patience", PATIENCE])
            .args(options),
    )
}

/// The names of the blocks that lie on a shelf.
fn blocks(shelf: &Path) -> BTreeSet<String> {
    let names = WalkDir::new(shelf).into_iter().flatten().map(DirEntry::into_path);
    let names = names.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    names.filter(|name| name.len() == 32 && !name.contains('.')).collect()
}

const SHELVES: [&str; 3] = ["--shelves", "--keep", "minimal"];

fn alarms(data: &Data) -> String {
    stdout(&run(&["alarms", "--data", &data.text()]))
}

/// The coordinator has names alone, the others read what one of them has solved, and when all is
/// done nothing is left.
#[test]
fn a_census_lies_on_the_shelves_of_its_workers() {
    let expected = census_json(9, &Data::new(), &[]);
    let (room, data) = (Room::new(), Data::new());
    let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &SHELVES);
    let reach = ["--coordinator", &address];
    let inside = ["one", "two"].map(|name| room.worker(&reach, name));
    // It has no shelf: what it solves is sent, and what it reads it has from the others.
    let outside = small_worker(&reach, &[]);
    let output = leader.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected);
    let [coordinator, _, _, shelves, put] = traffic(&stderr(&outside.finish()));
    assert!(shelves > 0 && put == 0, "{coordinator}, {shelves}, {put}");
    for (worker, name) in inside.into_iter().zip(["one", "two"]) {
        let said = stderr(&worker.finish());
        let [_, _, depot, shelves, put] = traffic(&said);
        assert!(depot == 0 && shelves > 0 && put > 0, "{said}");
        let left = fs::read_dir(room.shelf(name)).unwrap().map(|entry| entry.unwrap().path());
        let left: Vec<PathBuf> = left.filter(|path| path.is_file()).collect();
        assert!(blocks(&room.shelf(name)).is_empty());
        assert!(!left.iter().any(|path| path.to_string_lossy().contains("census-")), "{left:?}");
    }
    assert!(!alarms(&data).contains("alarm 1"), "{}", alarms(&data));
    // Nothing lies there any more, so anybody goes on.
    assert_eq!(census_json(9, &data, &["--keep", "minimal"]), expected);
}

/// With a door: tokens are shown, and connections encrypted, between workers, too. A coordinator
/// that is started again hears what lies where, and a worker that is gone takes nothing with it:
/// what it had lies elsewhere, too.
#[test]
fn nothing_is_lost_with_a_coordinator_or_a_worker() {
    let expected = census_json(9, &Data::new(), &[]);
    let (room, data) = (Room::new(), Data::new());
    let options = [&SHELVES[..], &["--secure"]].concat();
    let access = data.path().join("access.json");
    let reach = ["--access", access.to_str().unwrap()];
    let (mut leader, _) = coordinator(9, &data, "127.0.0.1:0", &options);
    let mut first = room.worker(&reach, "one");
    let others = ["two", "three"].map(|name| room.worker(&reach, name));
    let shelf = |name: &str| blocks(&room.shelf(name));
    eventually("there is something on each shelf", || {
        ["one", "two", "three"].iter().all(|name| shelf(name).len() > 10) || !leader.is_running()
    });
    assert!(leader.is_killed(), "it was not done yet");
    // A salvage reaches no shelf, and would leave out what it does not see.
    let salvaged = run(&["salvage", "--data", &data.text()]);
    assert!(!salvaged.status.success(), "{}", stdout(&salvaged));
    assert!(stderr(&salvaged).contains("lie on the shelves of workers"), "{}", stderr(&salvaged));
    eventually("every block lies on two shelves", || {
        let all = ["one", "two", "three"].map(shelf);
        let on_two = |name: &&String| all.iter().filter(|shelf| shelf.contains(*name)).count() > 1;
        // Some were being put there, for leases that are void now.
        let (two, one) = all.iter().flatten().partition::<Vec<&String>, _>(on_two);
        two.len() > 10 * one.len()
    });
    assert!(first.is_killed());
    fs::remove_dir_all(room.shelf("one")).unwrap();
    let (leader, _) = coordinator(9, &data, "127.0.0.1:0", &options);
    let output = leader.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected);
    for worker in others {
        let said = stderr(&worker.finish());
        let [_, _, _, shelves, put] = traffic(&said);
        assert!(shelves > 0 && put > 0, "{said}");
    }
    assert!(!alarms(&data).contains("alarm 1"), "{}", alarms(&data));
}

/// Whatever is damaged on one shelf is read from the other.
#[test]
fn what_is_damaged_is_read_elsewhere() {
    let expected = census_json(9, &Data::new(), &[]);
    let (room, data) = (Room::new(), Data::new());
    let (mut leader, address) = coordinator(9, &data, "127.0.0.1:0", &SHELVES);
    let reach = ["--coordinator", &address];
    let workers = ["one", "two"].map(|name| room.worker(&reach, name));
    let (shelf, mut damaged) = (room.shelf("one"), BTreeSet::new());
    // Everything that comes to lie there, as soon as it is seen.
    while leader.is_running() {
        for name in blocks(&shelf) {
            let path = shelf.join(&name[..2]).join(&name);
            if damaged.contains(&name) || !fs::exists(&path).unwrap() {
                continue;
            }
            // It may be read, and go, meanwhile.
            let Ok(mut bytes) = fs::read(&path) else { continue };
            bytes[60] ^= 4;
            if let Ok(mut file) = fs::File::options().write(true).open(&path) {
                file.write_all(&bytes).unwrap();
                damaged.insert(name);
            }
        }
    }
    let output = leader.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected);
    let said = workers.map(|worker| stderr(&worker.finish())).concat();
    assert!(said.contains("a block on a shelf is damaged"), "{} {said}", damaged.len());
    assert!(!alarms(&data).contains("alarm 1"), "{}", alarms(&data));
}

/// What nobody has any more is solved again, and so is all of its order.
#[test]
fn what_is_lost_is_solved_again() {
    let expected = census_json(9, &Data::new(), &[]);
    let (room, data) = (Room::new(), Data::new());
    let options = [&SHELVES[..], &["--lease", "2", "--shelf-patience", "2"]].concat();
    let (mut leader, address, said) = heard_coordinator(9, &data, "127.0.0.1:0", &options);
    let reach = ["--coordinator", &address];
    let [mut one, mut two] = ["one", "two"].map(|name| room.worker(&reach, name));
    eventually("there is something on each shelf", || {
        ["one", "two"].iter().all(|name| blocks(&room.shelf(name)).len() > 10)
            || !leader.is_running()
    });
    // Both at once: what they had is nowhere.
    one.kill();
    two.kill();
    assert!(leader.is_running(), "it is not done yet");
    for name in ["one", "two"] {
        fs::remove_dir_all(room.shelf(name)).unwrap();
    }
    let three = room.worker(&reach, "three");
    let output = leader.finish();
    assert!(output.status.success(), "{}", said.join().unwrap());
    assert_eq!(stdout(&output), expected);
    three.finish();
    assert!(alarms(&data).contains("it is solved again"), "{}", alarms(&data));
}

#[test]
fn shelves_are_for_a_coordinator_that_keeps_least() {
    let (room, data) = (Room::new(), Data::new());
    let text = data.text();
    let refused = |arguments: &[&str], why: &str| {
        let output = run(&[arguments, &["--data", &text]].concat());
        assert!(!output.status.success());
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    };
    let begun = ["coordinator", "--order", "9", "--listen", "127.0.0.1:0"];
    refused(&[&begun[..], &["--shelves"]].concat(), "say --keep minimal");
    let both = ["--shelves", "--keep", "minimal", "--depot", "depot"];
    refused(&[&begun[..], &both].concat(), "cannot be used with");
    let (mut leader, address) = coordinator(9, &data, "127.0.0.1:0", &SHELVES);
    let reach = ["--coordinator", &address];
    let mut one = room.worker(&reach, "one");
    eventually("something lies on the shelf", || blocks(&room.shelf("one")).len() > 10);
    // A shelf has one worker, and one census.
    let twin = room.worker(&reach, "one").finish();
    assert!(stderr(&twin).contains("another process"), "{}", stderr(&twin));
    assert_eq!(twin.status.code(), Some(78));
    assert!(leader.is_killed(), "it was not done yet");
    one.kill();
    refused(&["census", "9", "--keep", "minimal"], "on the shelves of its workers");
    let depot = tempfile::tempdir().unwrap();
    let with_depot = ["--depot", depot.path().to_str().unwrap()];
    refused(&[&begun[..], &with_depot].concat(), "on the shelves of its workers");
    // It knows of its shelves by itself, and goes on with them.
    let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &["--keep", "minimal"]);
    let one = room.worker(&["--coordinator", &address], "one");
    let output = leader.finish();
    assert_eq!(stdout(&output), census_json(9, &Data::new(), &[]), "{}", stderr(&output));
    assert!(!alarms(&data).contains("alarm 1"), "{}", alarms(&data));
    one.finish();
    // Another census.
    let other = Data::new();
    let (leader, address) = coordinator(5, &other, "127.0.0.1:0", &[]);
    let unused = room.worker(&["--coordinator", &address], "one").finish();
    assert!(stderr(&unused).contains("it is not used"), "{}", stderr(&unused));
    assert!(leader.finish().status.success());
}
