//! Blocks that workers keep on their own shelves, for each other.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use serde_json::Value;
use trailtrap_census::store::Store;
use walkdir::{DirEntry, WalkDir};

use crate::common::{
    Data, FAMILIES, GIVE_UP, PATIENCE, Process, census_json, coordinator, eventually, expected,
    reserved_port, run, status, stderr, stdout, succeeded, traffic, until_hit, worker,
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

    /// Whether a worker has registered with this shelf: whoever does so now hears of it.
    fn is_used(&self, name: &str) -> bool {
        let files = fs::read_dir(self.shelf(name)).into_iter().flatten().flatten();
        let mut names = files.map(|file| file.file_name());
        names.any(|name| name.to_string_lossy().starts_with("census-"))
    }

    /// A worker with a shelf of this name, and so little memory that it reads partitions again and
    /// again.
    fn worker(&self, reach: &[&str], name: &str) -> Process {
        small_worker(reach, &["--shelf", self.shelf(name).to_str().unwrap()])
    }
}

/// A worker of so little memory that it reads partitions again and again.
pub fn small_worker(reach: &[&str], options: &[&str]) -> Process {
    Process::start(&mut small(reach, options))
}

fn small(reach: &[&str], options: &[&str]) -> Command {
    let mut worker = worker();
    worker.args(reach).args(["--threads", "1", "--memory", "1MiB", "--patience", PATIENCE]);
    worker.args(options);
    worker
}

/// The names of the blocks that lie on a shelf.
fn blocks(shelf: &Path) -> BTreeSet<String> {
    let names = WalkDir::new(shelf).into_iter().flatten().map(DirEntry::into_path);
    let names = names.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    names.filter(|name| name.len() == 32 && !name.contains('.')).collect()
}

/// Whether the database refers to something on shelves.
fn needs_shelves(data: &Data) -> bool {
    let store = data.path().join("store");
    // Whoever opened it where there is none would make a directory.
    store.exists()
        && Store::open_read_only(&store).is_ok_and(|store| store.needs_shelves().unwrap_or(false))
}

/// The bytes of the largest block of graphs or outcomes that the database has itself.
fn largest_block(data: &Data) -> usize {
    let (options, store) = (rocksdb::Options::default(), data.path().join("store"));
    let db = rocksdb::DB::open_cf_for_read_only(&options, store, FAMILIES, false).unwrap();
    let lengths = |family| {
        let entries = db.iterator_cf(db.cf_handle(family).unwrap(), rocksdb::IteratorMode::Start);
        entries.map(|entry| entry.unwrap().1.len())
    };
    ["keys", "outcomes"].into_iter().flat_map(lengths).max().expect("there is something")
}

const SHELVES: [&str; 3] = ["--shelves", "--keep", "minimal"];

/// The coordinator has names alone, the others read what one of them has solved, and when all is
/// done nothing is left.
#[test]
fn a_census_lies_on_the_shelves_of_its_workers() {
    let expected = expected(9);
    let (room, data) = (Room::new(), Data::new());
    let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &SHELVES);
    let reach = ["--coordinator", &address];
    let inside = ["one", "two"].map(|name| room.worker(&reach, name));
    // It has no shelf: what it solves is sent, and what it reads it has from the others.
    let outside = small_worker(&reach, &[]);
    let output = leader.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected);
    let [mut sent, _, _, mut read, put] = traffic(&stderr(&outside.finish()));
    assert!(read > 0 && put == 0, "{sent}, {read}, {put}");
    for (worker, name) in inside.into_iter().zip(["one", "two"]) {
        let said = stderr(&worker.finish());
        let [coordinator, _, depot, shelves, put] = traffic(&said);
        assert!(depot == 0 && shelves > 0 && put > 0, "{said}");
        (sent, read) = (sent + coordinator, read + shelves);
        let left = fs::read_dir(room.shelf(name)).unwrap().map(|entry| entry.unwrap().path());
        let left: Vec<PathBuf> = left.filter(|path| path.is_file()).collect();
        assert!(blocks(&room.shelf(name)).is_empty());
        assert!(!left.iter().any(|path| path.to_string_lossy().contains("census-")), "{left:?}");
    }
    // The coordinator sends small blocks, of which most of this order is made, and what the one
    // without a shelf has solved: about twice what is read from shelves.
    println!("{sent} bytes from the coordinator, {read} from shelves");
    assert!(4 * read > sent, "{sent}, {read}");
    assert!(!data.alarms().contains("alarm 1"), "{}", data.alarms());
    // Nothing lies there any more, so anybody goes on.
    assert_eq!(census_json(9, &data, &["--keep", "minimal"]), expected);
}

/// A worker whose shelf the coordinator does not reach, as it looks for it at the address of the
/// worker, puts nothing there, and reads the shelves of others all the same.
#[test]
fn a_shelf_that_is_not_reached_is_not_used() {
    let (room, data) = (Room::new(), Data::new());
    let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &SHELVES);
    let reach = ["--coordinator", &address];
    let elsewhere = room.shelf("elsewhere");
    let options = ["--shelf", elsewhere.to_str().unwrap(), "--shelf-listen", "127.0.0.2:0"];
    let unreached = Process::start_and_listen(&mut small(&reach, &options));
    eventually("it hears that its shelf is not used", || {
        unreached.said().contains("does not reach this shelf")
    });
    let inside = room.worker(&reach, "inside");
    let output = leader.finish();
    assert_eq!(stdout(&output), expected(9), "{}", stderr(&output));
    let said = stderr(&unreached.finish());
    let [_, _, _, read, put] = traffic(&said);
    assert!(read > 0 && put == 0, "{said}");
    assert!(blocks(&elsewhere).is_empty());
    succeeded(&inside.finish());
}

/// With a door: tokens are shown, and connections encrypted, between workers, too. A coordinator
/// that is started again hears what lies where, and a worker that is gone takes nothing with it:
/// what it had lies elsewhere, too.
#[test]
fn nothing_is_lost_with_a_coordinator_or_a_worker() {
    let expected = expected(9);
    let options = [&SHELVES[..], &["--secure"]].concat();
    // Nobody else gets the port while no coordinator listens.
    let (_reserved, port) = reserved_port();
    let address = format!("127.0.0.1:{port}");
    let (room, data, mut first, others) = until_hit(|| {
        let (room, data) = (Room::new(), Data::new());
        let access = data.path().join("access.json");
        let reach = ["--access", access.to_str().unwrap()];
        let (mut leader, _) = coordinator(9, &data, &address, &options);
        let others = ["two", "three"].map(|name| room.worker(&reach, name));
        eventually("their shelves are used", || {
            ["two", "three"].iter().all(|name| room.is_used(name)) || !leader.is_running()
        });
        // It knows the others from the beginning, and puts a copy of everything there.
        let first = room.worker(&reach, "one");
        let is_filled = |name: &&str| blocks(&room.shelf(name)).len() > 10;
        eventually("there is something on each shelf", || {
            ["one", "two", "three"].iter().all(is_filled) || !leader.is_running()
        });
        // They may have been quicker.
        leader.is_killed().then_some((room, data, first, others))
    });
    // A salvage reaches no shelf, and would leave out what it does not see.
    let salvaged = run(&["salvage", "--data", &data.text()]);
    assert!(!salvaged.status.success(), "{}", stdout(&salvaged));
    assert!(stderr(&salvaged).contains("lie on the shelves of workers"), "{}", stderr(&salvaged));
    eventually("what lies on the first shelf lies on another, too", || {
        // Some is being put there, for leases that are void now.
        let [one, two, three] = ["one", "two", "three"].map(|name| blocks(&room.shelf(name)));
        one.iter().all(|name| two.contains(name) || three.contains(name))
    });
    assert!(first.is_killed());
    fs::remove_dir_all(room.shelf("one")).unwrap();
    let (leader, _) = coordinator(9, &data, &address, &[&options[..], &["--stay"]].concat());
    let (mut shelves, mut put) = (0, 0);
    for worker in others {
        let [_, _, _, taken, given] = traffic(&stderr(&worker.finish()));
        (shelves, put) = (shelves + taken, put + given);
    }
    // Whoever comes back late finds little to do.
    assert!(shelves > 0 && put > 0, "{shelves}, {put}");
    leader.signal("TERM");
    let output = leader.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected);
    assert!(!data.alarms().contains("alarm 1"), "{}", data.alarms());
}

/// Whatever is damaged on one shelf is read from the other.
#[test]
fn what_is_damaged_is_read_elsewhere() {
    let expected = expected(9);
    // However late a worker comes, it hears that all is done.
    let options = [&SHELVES[..], &["--stay"]].concat();
    until_hit(|| {
        let (room, data) = (Room::new(), Data::new());
        let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &options);
        let reach = ["--coordinator", &address];
        let mut two = room.worker(&reach, "two");
        eventually("its shelf is used", || room.is_used("two") || !two.is_running());
        // It knows the other from the beginning, and puts a copy of everything there.
        let mut workers = [room.worker(&reach, "one"), two];
        let (shelf, mut damaged) = (room.shelf("one"), BTreeSet::new());
        // Everything that comes to lie there, as soon as it is seen.
        let start = Instant::now();
        while workers.iter_mut().any(Process::is_running) {
            assert!(start.elapsed() < GIVE_UP, "the workers hear that all is done");
            let begun = Instant::now();
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
            // Half of the time the processor is left to them.
            std::thread::sleep(begun.elapsed());
        }
        leader.signal("TERM");
        let output = leader.finish();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stdout(&output), expected);
        let said = workers.map(|worker| stderr(&worker.finish())).concat();
        assert!(!data.alarms().contains("alarm 1"), "{}", data.alarms());
        // All of them may have been read before.
        said.contains("a block on a shelf is damaged").then_some(())
    });
}

/// A census that lies on a shelf, whose worker is gone.
struct Begun {
    // It ends before its directories go.
    leader: Process,
    address: String,
    room: Room,
    data: Data,
}

/// Begins one with these options, unless it was quicker than whoever looks on.
fn begun(options: &[&str]) -> Option<Begun> {
    let (room, data) = (Room::new(), Data::new());
    let (mut leader, address) = coordinator(9, &data, "127.0.0.1:0", options);
    let mut one = room.worker(&["--coordinator", &address], "one");
    eventually("the database refers to what lies on the shelf", || {
        needs_shelves(&data) || !leader.is_running()
    });
    one.kill();
    leader.is_running().then_some(Begun { leader, address, room, data })
}

/// A census that is to do less than before has nothing to do. What goes on from the shelves later
/// stays there, and the coordinator has only the names of what is not small.
#[test]
fn what_a_larger_census_needs_stays_on_its_shelves() {
    let expected = expected(9);
    let (room, data) = until_hit(|| {
        let Begun { room, data, mut leader, .. } = begun(&SHELVES)?;
        leader.is_killed().then_some((room, data))
    });
    assert!(!blocks(&room.shelf("one")).is_empty());
    assert!(largest_block(&data) < 4 << 10, "{} bytes", largest_block(&data));
    // However late a worker comes, it hears that all is done.
    let (leader, address) =
        coordinator(5, &data, "127.0.0.1:0", &[&SHELVES[..], &["--stay"]].concat());
    succeeded(&room.worker(&["--coordinator", &address], "one").finish());
    leader.signal("TERM");
    succeeded(&leader.finish());
    assert!(!blocks(&room.shelf("one")).is_empty());
    let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &SHELVES);
    let one = room.worker(&["--coordinator", &address], "one");
    let output = leader.finish();
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
    assert!(!data.alarms().contains("alarm 1"), "{}", data.alarms());
    succeeded(&one.finish());
    assert!(blocks(&room.shelf("one")).is_empty());
}

/// While the coordinator waits for a shelf that is away, a worker that waits for a block of it
/// hears that it is to leave.
#[test]
fn whoever_waits_for_a_shelf_leaves_when_asked_to() {
    let options = [&SHELVES[..], &["--lease", "2", "--shelf-patience", "86400"]].concat();
    let begun = until_hit(|| begun(&options));
    let reach = ["--coordinator", &begun.address];
    let mut two = begun.room.worker(&reach, "two");
    let name = format!("/{}", two.0.id());
    eventually("it has leased what the other one had", || {
        let status = status(&reach);
        let mut workers = status["workers"].as_array().into_iter().flatten();
        let holds = |worker: &Value| {
            worker["name"].as_str().is_some_and(|text| text.ends_with(&name))
                && worker["units_leased"].as_u64() > Some(0)
        };
        workers.any(holds) || !two.is_running()
    });
    assert!(two.is_running(), "it cannot read what it has leased");
    two.signal("TERM");
    assert_eq!(two.finish().status.code(), Some(75));
}

/// What nobody has any more is solved again, and so is all of its order.
#[test]
fn what_is_lost_is_solved_again() {
    let expected = expected(9);
    let options = [&SHELVES[..], &["--lease", "2", "--shelf-patience", "2"]].concat();
    let (room, data, leader, address) = until_hit(|| {
        let (room, data) = (Room::new(), Data::new());
        let (mut leader, address) = coordinator(9, &data, "127.0.0.1:0", &options);
        let reach = ["--coordinator", &address];
        let [mut one, mut two] = ["one", "two"].map(|name| room.worker(&reach, name));
        eventually("there is something on each shelf", || {
            ["one", "two"].iter().all(|name| blocks(&room.shelf(name)).len() > 10)
                || !leader.is_running()
        });
        // Both at once: what they had is nowhere.
        one.kill();
        two.kill();
        // They may have been quicker.
        let is_in_work = !status(&["--coordinator", &address])["order"].is_null();
        is_in_work.then_some((room, data, leader, address))
    });
    for name in ["one", "two"] {
        fs::remove_dir_all(room.shelf(name)).unwrap();
    }
    let three = room.worker(&["--coordinator", &address], "three");
    let output = leader.finish();
    succeeded(&output);
    assert_eq!(stdout(&output), expected);
    three.finish();
    assert!(data.alarms().contains("it is solved again"), "{}", data.alarms());
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
    // A shelf has one worker, and one census, which does not end while that worker stands still.
    let twin = one.paused(|_| {
        let twin = room.worker(&reach, "one").finish();
        assert!(leader.is_killed(), "it was not done yet");
        twin
    });
    assert!(stderr(&twin).contains("another process"), "{}", stderr(&twin));
    assert_eq!(twin.status.code(), Some(78));
    one.kill();
    refused(&["census", "9", "--keep", "minimal"], "on the shelves of its workers");
    let depot = tempfile::tempdir().unwrap();
    let with_depot = ["--depot", depot.path().to_str().unwrap()];
    refused(&[&begun[..], &with_depot].concat(), "on the shelves of its workers");
    // It knows of its shelves by itself, and goes on with them.
    let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &["--keep", "minimal"]);
    let one = room.worker(&["--coordinator", &address], "one");
    let output = leader.finish();
    assert_eq!(stdout(&output), expected(9), "{}", stderr(&output));
    assert!(!data.alarms().contains("alarm 1"), "{}", data.alarms());
    one.finish();
    // Another census.
    let other = Data::new();
    let (leader, address) = coordinator(5, &other, "127.0.0.1:0", &[]);
    let unused = room.worker(&["--coordinator", &address], "one").finish();
    assert!(stderr(&unused).contains("this shelf is not used"), "{}", stderr(&unused));
    succeeded(&leader.finish());
}
