//! Blocks that workers keep on disk and share in a depot.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use tonic::{Code, Status, transport::Channel};
use trailtrap_census::{
    driver::LEAST_COUNTED_BYTES,
    read::finished::{FinishedError, FinishedOrder, open_store},
    records::Author,
    store::{Store, plan},
};
use trailtrap_shared::{
    count::{ahead::ToldAhead, statistics::Statistics},
    game::{Game, GameName, TrailTrap},
    partition::{Block, BlockName, Section},
    plan::{Plan, PlanOptions, Unit},
    protocol::{
        codec,
        messages::{self, Described, NamedUnit},
        shelves::Shelves,
        wire::{
            self, census_client::CensusClient, complete_request::Part, counted_request::What,
            lease_reply::Answer,
        },
    },
};
use trailtrap_worker::{
    counting::{self, CountTask, Statement, recount},
    supply::{
        is_shared,
        kept::{KeptDepot, MARK_TEXT, Mark},
    },
};
use walkdir::{DirEntry, WalkDir};

use crate::{
    common::{
        ATTEMPTS, Data, GIVE_UP, LONG_LEASE, Process, QUESTIONS, answers::Answers, census_json,
        connect, coordinator, eventually, expected, farewell, granted, introduction, parts,
        reserved_port, run, stderr, stdout, succeeded, trailtrap, until_hit, verified,
    },
    shelves,
};

/// Half of the graphs of order 9. Large blocks are among what is made of them, and are read again.
const HALF: [&str; 2] = ["--max-size", "18"];

/// What a census of them prints that nothing disturbs, made once in a process.
fn expected_of_half() -> String {
    static MADE: OnceLock<String> = OnceLock::new();
    MADE.get_or_init(|| census_json(9, &Data::new(), &HALF)).clone()
}

/// Files below a directory, by name, with their contents. What is removed meanwhile is left out.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = WalkDir::new(directory).into_iter().flatten().map(DirEntry::into_path);
    paths.filter_map(|path| Some((path.clone(), fs::read(path).ok()?))).collect()
}

/// Blocks in a directory, without notes.
fn blocks(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let is_block = |path: &PathBuf| path.extension().is_none() && !path.ends_with("LOCK");
    files(directory).into_iter().filter(|(path, _)| is_block(path)).collect()
}

fn flip_all(directory: &Path) {
    for (path, mut bytes) in blocks(directory) {
        bytes[60] ^= 4;
        fs::write(path, bytes).unwrap();
    }
}

/// A worker of so little memory that it reads partitions again and again.
fn small_worker(address: &str, options: &[&str]) -> Process {
    shelves::small_worker(&["--coordinator", address], options)
}

/// Bytes from coordinator, disk and depot, and those put there, as a worker says when it leaves.
fn traffic(text: &str) -> [u64; 4] {
    let [coordinator, disk, depot, shelves, put] = crate::common::traffic(text);
    assert_eq!(shelves, 0);
    [coordinator, disk, depot, put]
}

#[test]
fn workers_that_keep_and_share_blocks_spare_the_coordinator() {
    let expected = expected_of_half();
    let directory = tempfile::tempdir().unwrap();
    let [disk, depot] = ["disk", "depot"].map(|name| directory.path().join(name));
    fs::create_dir(&depot).unwrap();
    let [disk_cache, place] = [&disk, &depot].map(|path| path.to_str().unwrap());
    // What a small worker with these options reads, in a census of its own.
    let census_with = |options: &[&str]| -> [u64; 4] {
        let data = Data::new();
        let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &HALF);
        let worker = small_worker(&address, options);
        let output = leader.finish();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stdout(&output), expected);
        traffic(&stderr(&worker.finish()))
    };
    census_with(&["--disk-cache", disk_cache, "--depot", place]);
    assert!(!blocks(&depot).is_empty() && !blocks(&disk).is_empty());
    let [alone, none @ ..] = census_with(&[]);
    assert_eq!(none, [0; 3]);
    // Another worker reads what that one has solved; and so does one with its disk. The
    // coordinator sends small blocks alone, which are about half of what is read; how often they
    // are read depends on what comes when.
    for options in [["--depot", place], ["--disk-cache", disk_cache]] {
        let [coordinator, disk, depot, _] = census_with(&options);
        println!("{coordinator} of {alone}, {disk}, {depot}, {options:?}");
        assert!(3 * (disk + depot) > coordinator, "{coordinator}, {disk}, {depot}, {options:?}");
        assert!(5 * coordinator < 4 * alone, "{coordinator} of {alone}, {options:?}");
    }
}

/// A directory to keep blocks in, and its path as text.
fn depot() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().to_str().unwrap().to_owned();
    (directory, text)
}

/// The blocks that the coordinator has only by name are the same census, whoever put them there.
#[test]
fn a_census_keeps_its_blocks_in_a_depot() {
    let expected = expected(9);
    let (directory, depot) = depot();
    let data = Data::new();
    let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &["--depot", &depot]);
    // One that sees the depot, and one that does not; neither has memory for what it reads.
    let inside = small_worker(&address, &["--depot", &depot]);
    let outside = small_worker(&address, &[]);
    let output = leader.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected);
    let [.., from_depot, put] = traffic(&stderr(&inside.finish()));
    assert!(from_depot > 0 && put > 0, "{from_depot}, {put}");
    let [_, none @ ..] = traffic(&stderr(&outside.finish()));
    assert_eq!(none, [0; 3]);
    // What large blocks there are is in the depot alone.
    let kept = blocks(directory.path());
    assert!(!kept.is_empty());
    let store = Store::open_read_only(&data.path().join("store")).unwrap();
    let record = store.order(9).unwrap().unwrap();
    let plan = plan(store.layout(), 9, &record).unwrap();
    for (unit, _) in store.units(9).unwrap() {
        let shard = plan.shard_of(unit);
        for section in Section::ALL {
            let block = store.block(shard, unit.part, 0, section).unwrap();
            let is_kept = kept.values().any(|bytes| bytes == block.bytes());
            assert_eq!(is_kept, is_shared(&block), "{:?}", block.id);
        }
    }
    assert!(verify(&data).contains("nothing wrong"));
    // It goes on there without being told, in one process too, and nothing of it is written again.
    assert_eq!(census_json(9, &data, &[]), expected);
    assert_eq!(blocks(directory.path()), kept);
    flip_all(directory.path());
    let checked = verify(&data);
    assert!(checked.contains("is damaged"), "{checked}");
}

/// Whatever is killed while blocks are put into the depot, nothing that is on record is missing
/// there or damaged, and the table is that of an undisturbed census.
#[test]
fn a_census_in_a_depot_outlives_its_coordinators_and_workers() {
    until_hit(|| {
        let ((directory, depot), data) = (depot(), Data::new());
        // Nobody else gets the port while no coordinator listens.
        let (_reserved, port) = reserved_port();
        let address = format!("127.0.0.1:{port}");
        let options = [&HALF[..], &["--depot", &depot, "--lease", "1"]].concat();
        let lead = || coordinator(9, &data, &address, &options).0;
        let help = || small_worker(&address, &["--depot", &depot]);
        let is_file = |entry: &DirEntry| entry.file_type().is_file();
        let kept = || WalkDir::new(directory.path()).into_iter().flatten().filter(is_file).count();
        let (mut leader, mut workers, mut kills) = (lead(), [help(), help()], [0; 2]);
        // In the end there are more than a hundred.
        for i in 0..6 {
            let before = kept();
            eventually("more is kept", || !leader.is_running() || kept() > before + 12);
            if i % 2 == 0 {
                kills[0] += usize::from(leader.is_killed());
                leader = lead();
            } else {
                let worker = &mut workers[i / 2 % 2];
                kills[1] += usize::from(worker.is_killed());
                *worker = help();
            }
        }
        let output = leader.finish();
        succeeded(&output);
        assert_eq!(stdout(&output), expected_of_half());
        assert_eq!(data.alarms(), "no alarms\n");
        verified(&["9", "--level", "2", "--data", &data.text()]);
        // They may have been quicker.
        kills.iter().all(|&kills| kills > 1).then_some(())
    });
}

/// What `verify` says of order 9, right or wrong.
fn verify(data: &Data) -> String {
    let output = run(&["verify", "9", "--data", &data.text()]);
    stdout(&output) + &stderr(&output)
}

/// What whoever writes drops while somebody reads is said not to have been kept, and not to be
/// damaged. An order that is carried further from a depot comes out as one that is done at once.
#[test]
fn what_goes_while_it_is_read_is_not_called_damaged() {
    let (_directory, depot) = depot();
    let data = Data::new();
    census_json(9, &data, &["--depot", &depot, "--max-size", "20"]);
    let finished = FinishedOrder::open(&open_store(&data.path()).unwrap(), 9).unwrap();
    assert!(finished.outcomes_kept);
    let first_error = || {
        finished.plan.shards.iter().find_map(|shard| finished.tables(shard).find_map(Result::err))
    };
    assert!(first_error().is_none());
    assert_eq!(census_json(9, &data, &["--keep", "minimal"]), expected(9));
    let error = first_error().expect("what has been dropped cannot be read");
    assert!(
        matches!(error, FinishedError::NotKept(9) | FinishedError::GraphsNotKept(9)),
        "{error}"
    );
}

#[test]
fn a_depot_that_is_away_is_no_damage() {
    let (directory, depot) = depot();
    let data = Data::new();
    let expected = census_json(9, &data, &["--depot", &depot]);
    let census = |more: &[&str]| run(&[&["census", "9", "--data", &data.text()], more].concat());
    let moved = directory.path().with_extension("moved");
    fs::rename(directory.path(), &moved).unwrap();
    let away = census(&[]);
    assert!(!away.status.success());
    assert!(stderr(&away).contains("is not there now"), "{}", stderr(&away));
    let checked = verify(&data);
    assert!(checked.contains("could not be made now") && !checked.contains("WRONG"), "{checked}");
    fs::create_dir(directory.path()).unwrap();
    let empty = census(&[]);
    assert!(stderr(&empty).contains("is not there now"), "{}", stderr(&empty));
    let other = census(&["--depot", &depot]);
    assert!(stderr(&other).contains("is not that one"), "{}", stderr(&other));
    // Of the depot itself the mark alone may be lost.
    let lost = fs::read_dir(&moved).unwrap().map(|entry| entry.unwrap().file_name());
    let mark = lost.filter_map(|name| name.into_string().ok()).find(|name| name.ends_with(".txt"));
    let mark = mark.expect("a depot is marked");
    for refused in [&empty, &other] {
        assert!(stderr(refused).contains(&mark), "{}", stderr(refused));
    }
    fs::remove_file(moved.join(&mark)).unwrap();
    assert!(!census(&["--depot", moved.to_str().unwrap()]).status.success());
    fs::write(moved.join(&mark), "").unwrap();
    let missing = census(&["--depot", directory.path().join("x").to_str().unwrap()]);
    assert!(stderr(&missing).contains("make it"), "{}", stderr(&missing));
    for (address, says) in [
        ("gs://bucket/census", "'gs://bucket/census' is no depot"),
        ("s3://someone:hunter2@bucket", "put credentials into"),
        ("someone:hunter2@bucket", "put credentials into"),
        #[cfg(not(feature = "s3"))]
        ("s3://bucket/census", "--features s3"),
    ] {
        let remote = census(&["--depot", address]);
        let text = stderr(&remote);
        assert!(!remote.status.success() && text.contains(says), "{text}");
        assert!(!text.contains("hunter"), "{text}");
    }
    // Where it is now is remembered.
    assert_eq!(census_json(9, &data, &["--depot", moved.to_str().unwrap()]), expected);
    let checked = verify(&data);
    assert!(checked.contains("nothing wrong") && !checked.contains("UNCHECKED"), "{checked}");
    fs::remove_dir_all(moved).unwrap();
}

/// A depot to which nothing refers any more may go: results are told without it, and what is done
/// then has another one. As long as something lies there, it may not.
#[test]
fn a_depot_that_has_served_may_go() {
    let (first, depot) = depot();
    let data = Data::new();
    let minimal = [&HALF[..], &["--keep", "minimal"]].concat();
    let half = census_json(9, &data, &[&minimal[..], &["--depot", &depot]].concat());
    assert!(blocks(first.path()).is_empty(), "nothing of order 8 is large");
    drop(first);
    assert_eq!(census_json(9, &data, &minimal), half);
    let text = data.text();
    let further = |more: &[&str]| {
        let whole = ["census", "9", "--json", "--force", "--data", &text];
        run(&[&whole[..], more].concat())
    };
    assert!(stderr(&further(&[])).contains("is not there now"));
    let [(second, another), (_third, yet_another)] = [self::depot(), self::depot()];
    assert_eq!(stdout(&further(&["--depot", &another])), expected(9));
    assert!(!blocks(second.path()).is_empty());
    assert!(stderr(&further(&["--depot", &yet_another])).contains("is not that one"));
}

/// Damaged blocks of a depot are solved again, as those of the database are, and files that cannot
/// be read; and blocks that nothing reads any more go.
#[test]
fn what_a_depot_keeps_is_solved_again_if_it_is_damaged_and_goes_when_it_is_dropped() {
    let expected = expected(9);
    let census = |data: &Data, depot: &str| {
        let mut command = trailtrap();
        let arguments = ["census", "9", "--json", "--keep", "minimal", "--memory", "64MiB"];
        command.args(arguments).args(["--data", &data.text(), "--depot", depot]);
        Process::start(&mut command)
    };
    // Stopped at any time it has been damaged, and goes on.
    let (directory, depot, data, kept) = until_hit(|| {
        let ((directory, depot), data) = (depot(), Data::new());
        let mut run = census(&data, &depot);
        eventually("there is something to damage", || {
            blocks(directory.path()).len() > 20 || !run.is_running()
        });
        // It may have been quicker.
        let kept = if run.is_killed() { blocks(directory.path()) } else { BTreeMap::new() };
        (!kept.is_empty()).then_some((directory, depot, data, kept))
    });
    for (i, (path, mut bytes)) in kept.into_iter().step_by(3).enumerate() {
        match i % 2 {
            0 => {
                bytes[60] ^= 4;
                fs::write(path, bytes).unwrap();
            }
            // It cannot be read at all.
            _ => {
                fs::remove_file(&path).unwrap();
                std::os::unix::fs::symlink(&path, &path).unwrap();
            }
        }
    }
    let output = census(&data, &depot).finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected);
    let left = files(directory.path());
    // One that was being written when the run was killed is left for a day.
    let is_left = |path: &&PathBuf| path.extension().is_none_or(|end| end == "txt");
    assert_eq!(left.keys().filter(is_left).count(), 2, "mark and lock: {:?}", left.keys());
}

/// What a worker has put into another directory than the coordinator's is sent when the
/// coordinator does not find it.
#[test]
fn a_worker_that_sees_another_depot_sends_its_blocks() {
    let (directory, depot) = depot();
    let (elsewhere, other) = self::depot();
    let data = Data::new();
    let options = [&HALF[..], &["--depot", &depot]].concat();
    let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &options);
    // With the mark of the first.
    crate::common::copy_directory(directory.path(), elsewhere.path());
    let worker = small_worker(&address, &["--depot", &other]);
    let output = leader.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected_of_half());
    let said = stderr(&worker.finish());
    assert!(said.contains("results are kept in the depot, and only named"), "{said}");
    assert!(said.contains("the coordinator does not find all blocks"), "{said}");
    assert!(!blocks(directory.path()).is_empty() && !blocks(elsewhere.path()).is_empty());
}

#[test]
fn a_depot_is_for_one_census() {
    let (_directory, depot) = depot();
    let [first, second] = [Data::new(), Data::new()];
    census_json(5, &first, &["--depot", &depot]);
    for more in [&["--class", "forest"][..], &[]] {
        let other = ["census", "5", "--data", &second.text(), "--depot", &depot];
        let other = run(&[&other[..], more].concat());
        assert!(stderr(&other).contains("another census"), "{}", stderr(&other));
        assert!(!second.path().join("store").exists(), "it has not begun");
    }
    let same = run(&["census", "5", "--data", &second.text(), "--depot", &second.text()]);
    assert!(stderr(&same).contains("is the data directory"), "{}", stderr(&same));
    // A copy of the data directory is the same census; one of both can be at work.
    let copy = first.copy();
    let (leader, address) = coordinator(6, &first, "127.0.0.1:0", &[]);
    let twin = run(&["census", "6", "--data", &copy.text()]);
    assert!(stderr(&twin).contains("another process is at work"), "{}", stderr(&twin));
    let worker = small_worker(&address, &["--depot", &depot]);
    succeeded(&leader.finish());
    worker.finish();
}

/// What is salvaged goes on with the same depot, unless that is away.
#[test]
fn a_store_with_a_depot_is_salvaged() {
    let (directory, depot) = depot();
    let data = Data::new();
    let expected = census_json(8, &data, &["--depot", &depot]);
    fs::remove_file(data.path().join("store/CURRENT")).unwrap();
    let refused = run(&["census", "8", "--data", &data.text()]);
    assert!(stderr(&refused).contains("trailtrap salvage"), "{}", stderr(&refused));
    let moved = directory.path().with_extension("moved");
    fs::rename(directory.path(), &moved).unwrap();
    fs::create_dir(directory.path()).unwrap();
    let salvage = || run(&["salvage", "--data", &data.text()]);
    let away = salvage();
    assert!(!away.status.success());
    assert!(stderr(&away).contains("is not there now"), "{}", stderr(&away));
    assert_eq!(directory.path().read_dir().unwrap().count(), 0, "it is not marked");
    fs::remove_dir(directory.path()).unwrap();
    fs::rename(&moved, directory.path()).unwrap();
    let kept = files(directory.path());
    let changed = || {
        let paths = kept.keys().map(|path| fs::metadata(path).unwrap().modified().unwrap());
        paths.collect::<Vec<_>>()
    };
    let before = changed();
    let salvaged = salvage();
    assert!(salvaged.status.success(), "{}", stderr(&salvaged));
    assert_eq!(files(directory.path()), kept);
    assert_eq!(changed(), before, "none is rewritten");
    verified(&["8", "--data", &data.text()]);
    assert_eq!(census_json(8, &data, &[]), expected);
    assert_eq!(files(directory.path()), kept, "all was salvaged");
}

/// A depot that is away is not needed where nothing lies in it.
#[test]
fn a_store_of_which_nothing_lies_in_the_depot_is_salvaged_without() {
    let (directory, depot) = depot();
    let data = Data::new();
    let minimal = ["--keep", "minimal"];
    let expected = census_json(8, &data, &[&minimal[..], &["--depot", &depot]].concat());
    assert!(blocks(directory.path()).is_empty());
    drop(directory);
    let salvaged = run(&["salvage", "--data", &data.text()]);
    succeeded(&salvaged);
    assert!(stderr(&salvaged).contains("nothing of this lay in it"), "{}", stderr(&salvaged));
    assert!(stdout(&salvaged).contains("; 0 are damaged"), "{}", stdout(&salvaged));
    assert_eq!(census_json(8, &data, &minimal), expected);
}

/// Blocks that are named and are not there, or are other ones, are to be sent.
#[tokio::test]
async fn what_is_not_found_in_the_depot_is_asked_for() {
    let (directory, depot) = depot();
    let data = Data::new();
    let options = ["--depot", &depot, "--lease", LONG_LEASE];
    let (leader, address) = coordinator(7, &data, "127.0.0.1:0", &options);
    let mut client = connect(&address).await;
    let reply = client.register(introduction("test")).await.unwrap().into_inner();
    let mark = directory.path().join(Mark(reply.depot_mark).file_name());
    assert_eq!(fs::read(mark).unwrap(), MARK_TEXT.as_bytes());
    let worker = reply.worker;
    let answers = Answers::solve(7, PlanOptions::default());
    let grant = granted(&mut client, worker).await;
    // Every block by its name.
    let results: Vec<(wire::UnitResult, Vec<Block>)> = answers.results(&messages::units(&grant));
    let named = |worker, lease| {
        tokio_stream::iter(messages::delivery_by_name(worker, lease, named_units(&results)))
    };
    let lacking = |reply: &wire::CompleteReply| !reply.accepted && reply.lacking;
    let reply = client.complete(named(worker, grant.lease)).await.unwrap().into_inner();
    assert!(lacking(&reply), "none is there: {reply:?}");
    let kept = KeptDepot::at(directory.path(), Mark(1));
    results.iter().flat_map(|(_, blocks)| blocks).for_each(|block| kept.write(block).unwrap());
    let path = blocks(directory.path()).into_keys().next().unwrap();
    let sound = fs::read(&path).unwrap();
    flip_all(path.parent().unwrap());
    let reply = client.complete(named(worker, grant.lease)).await.unwrap().into_inner();
    assert!(lacking(&reply), "one is damaged: {reply:?}");
    fs::write(path, sound).unwrap();
    let reply = client.complete(named(worker, grant.lease)).await.unwrap().into_inner();
    assert!(reply.accepted && !reply.lacking, "{reply:?}");
    // Whoever names blocks that are not those of its unit, or states another content, is not
    // believed.
    type Spoil = fn(&mut Vec<Part>);
    let deliveries: [(&str, Spoil); 7] = [
        ("other blocks", |parts| parts.swap(2, 4)),
        ("another content", |parts| {
            let Part::Unit(result) = &mut parts[1] else { panic!("{parts:?}") };
            result.content[3] ^= 1;
        }),
        ("no content", |parts| {
            let Part::Unit(result) = &mut parts[1] else { panic!("{parts:?}") };
            result.content.clear();
        }),
        ("what it does not tell ahead", |parts| {
            let Part::Unit(result) = &mut parts[1] else { panic!("{parts:?}") };
            let (shares, masses) = (Vec::new(), vec![(0, 1)]);
            result.ahead = codec::encode(&ToldAhead { shares, masses });
        }),
        ("wins on a shelf", |parts| {
            let Part::Name(name) = &mut parts[4] else { panic!("{parts:?}") };
            name.shelves = vec![1];
        }),
        ("far too much", |parts| {
            let Part::Name(name) = &mut parts[2] else { panic!("{parts:?}") };
            name.length = u64::MAX;
        }),
        ("more than a unit may have", |parts| {
            let Part::Name(name) = &mut parts[2] else { panic!("{parts:?}") };
            name.length = 65 << 20;
        }),
    ];
    for (what, spoil) in deliveries {
        let worker = client.register(introduction(what)).await.unwrap().into_inner().worker;
        let grant = loop {
            let request = wire::LeaseRequest { worker, room: 0, by_name: true };
            match client.lease(request).await.unwrap().into_inner().answer {
                Some(Answer::Grant(grant)) => break grant,
                Some(Answer::WaitMilliseconds(_)) => {}
                other => panic!("work is there: {other:?}"),
            }
        };
        let results = answers.results(&messages::units(&grant));
        results.iter().flat_map(|(_, blocks)| blocks).for_each(|block| kept.write(block).unwrap());
        let right = messages::delivery_by_name(worker, grant.lease, named_units(&results));
        let mut spoilt: Vec<Part> = right.into_iter().flat_map(|message| message.part).collect();
        spoil(&mut spoilt);
        let refused = client.complete(parts(spoilt)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{what}: {refused}");
    }
    small_worker(&address, &[]).finish();
    farewell(&address, &[worker]).await;
    let output = leader.finish();
    assert_eq!(stdout(&output), expected(7));
}

/// All of their blocks by their names.
fn named_units(results: &[(wire::UnitResult, Vec<Block>)]) -> impl Iterator<Item = NamedUnit> {
    results.iter().map(|(result, blocks)| {
        NamedUnit::new(result.clone(), blocks, Shelves::default(), |_| true)
    })
}

/// A client that counts what others have solved.
struct Counter {
    client: CensusClient<Channel>,
    worker: u64,
    depot: KeptDepot,
}

impl Counter {
    async fn new(address: &str, name: &str, depot: &Path) -> Self {
        let mut client = connect(address).await;
        let reply = client.register(introduction(name)).await.unwrap().into_inner();
        let depot = KeptDepot::at(depot, Mark(reply.depot_mark));
        Counter { client, worker: reply.worker, depot }
    }

    /// Waits for something to count.
    async fn task(&mut self) -> Result<CountTask, Status> {
        for _ in 0..QUESTIONS {
            let request = wire::CountRequest { worker: self.worker, room: 1 << 30 };
            let Some(task) = self.client.count(request).await?.into_inner().task else { continue };
            let grant = task.grant.unwrap();
            let options =
                PlanOptions { part_graphs: grant.part_graphs, bucket_bytes: grant.bucket_bytes };
            let order = grant.order as usize;
            return Ok(CountTask {
                number: grant.lease,
                plan: Arc::new(Plan::new(TrailTrap::LAYOUT, order, options)),
                unit: messages::units(&grant)[0],
                edition: grant.edition,
                blocks: messages::described(TrailTrap::LAYOUT, task.blocks.unwrap()).unwrap(),
            });
        }
        panic!("there is nothing to count, and the census does not end");
    }

    fn count(&self, task: &CountTask) -> Statement {
        let read = |name: &BlockName, _| {
            let bytes = self.depot.read(name).unwrap()?;
            Block::parse_named(TrailTrap::LAYOUT, bytes, name).ok()
        };
        let pool = rayon::ThreadPoolBuilder::new().build().unwrap();
        counting::count(GameName::TrailTrap, task, read, None, &pool).unwrap()
    }

    async fn state(&mut self, task: &CountTask, what: What) {
        let (worker, task) = (self.worker, task.number);
        let request = wire::CountedRequest { worker, task, what: Some(what) };
        // The census may have ended.
        let _ = self.client.counted(request).await;
    }
}

/// Workers count what others have delivered by name, and the coordinator does not read it, but
/// where one cannot, or states what is wrong: then that one is not believed.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_named_is_counted_by_other_workers() {
    let (directory, depot) = depot();
    let data = Data::new();
    let options = ["--depot", &depot, "--lease", LONG_LEASE, "--sample", "0"];
    let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &options);
    let mut wrong = Counter::new(&address, "wrong", directory.path()).await;
    let first = tokio::spawn(async move {
        let task = wrong.task().await;
        (wrong, task.unwrap())
    });
    let honest = small_worker(&address, &["--depot", &depot]);
    // It says that it cannot count the first, and something wrong of the next; others go on.
    let (mut wrong, task) = first.await.unwrap();
    assert!(task.blocks.iter().any(|block| matches!(block, Described::Named(..))));
    wrong.state(&task, What::Failure("a test".to_owned())).await;
    let task = wrong.task().await.unwrap();
    let mut statement = wrong.count(&task).to_message();
    statement.digest[0] ^= 1;
    let mut right = Counter::new(&address, "right", directory.path()).await;
    let counters = [wrong.worker, right.worker];
    let others = tokio::spawn(async move {
        let mut counted = 0;
        while let Ok(task) = right.task().await {
            let statement = right.count(&task).to_message();
            right.state(&task, What::Statement(statement)).await;
            counted += 1;
        }
        counted
    });
    wrong.state(&task, What::Statement(statement)).await;
    let refused = loop {
        match wrong.task().await {
            Ok(task) => wrong.state(&task, What::Failure("a test".to_owned())).await,
            Err(status) => break status,
        }
    };
    // Or the others have ended the census.
    let codes = [Code::FailedPrecondition, Code::Unavailable];
    assert!(codes.contains(&refused.code()), "{refused}");
    succeeded(&honest.finish());
    farewell(&address, &counters).await;
    let output = leader.finish();
    assert_eq!(stdout(&output), expected(9));
    assert!(others.await.unwrap() > 0);
    // What is smaller the coordinator counts, and what comes while nobody waits for something to
    // count. Of the rest others count much.
    let store = Store::open_read_only(&data.path().join("store")).unwrap();
    let bytes = store.units(9).unwrap().into_iter().map(|(_, record)| record.bytes);
    let large: u64 = bytes.filter(|&bytes| bytes >= LEAST_COUNTED_BYTES).sum();
    // Such as `0.763 (2.6 MiB of 3.4 MiB)`.
    let said = stderr(&output);
    let (_, told) = said.split_once("counted here, of what was delivered by name: ").unwrap();
    let words: Vec<&str> = told.split([' ', '(', ')']).filter(|word| !word.is_empty()).collect();
    let [share, _, _, _, all, "MiB", ..] = words[..] else { panic!("{said}") };
    let [share, all] = [share, all].map(|number| number.parse::<f64>().unwrap());
    let elsewhere = (1.0 - share) * all * f64::from(1_u32 << 20);
    println!("counted by others: {elsewhere:.0} bytes, of {large}");
    assert!(4.0 * elsewhere > large as f64, "{elsewhere} bytes, of {large}: {said}");
    let alarms = data.alarms();
    assert!(alarms.starts_with("alarm 1, trial, order 9"), "{alarms}");
    assert!(alarms.contains("wrong") && alarms.contains("miscounted"), "{alarms}");
    assert!(!alarms.contains("alarm 2"), "{alarms}");
}

/// Delivers what the answers say under this name, blocks in the depot by their names, until all is
/// done; or until it has lied, about the first unit that others may count, and is not believed.
/// Returns that unit, and the edition.
async fn deliver_by_name(
    address: &str,
    name: &str,
    depot: &Path,
    answers: &Answers,
    lie: Option<fn(&mut wire::UnitResult)>,
) -> Option<(u32, Unit)> {
    let mut client = connect(address).await;
    let reply = client.register(introduction(name)).await.unwrap().into_inner();
    let (worker, kept) = (reply.worker, KeptDepot::at(depot, Mark(reply.depot_mark)));
    let (plan, start) = (Plan::new(TrailTrap::LAYOUT, 9, PlanOptions::default()), Instant::now());
    loop {
        assert!(start.elapsed() < GIVE_UP, "work is there, or all is done");
        let request = wire::LeaseRequest { worker, room: 1 << 20, by_name: true };
        let grant = match client.lease(request).await.unwrap().into_inner().answer {
            Some(Answer::Grant(grant)) => grant,
            Some(Answer::WaitMilliseconds(_)) => continue,
            _ => return None,
        };
        let (units, mut told) = (messages::units(&grant), None);
        let mut results = answers.results(&units);
        for (unit, (result, blocks)) in units.iter().zip(&mut results) {
            let shared = blocks.iter().filter(|block| is_shared(block));
            shared.for_each(|block| kept.write(block).unwrap());
            let bytes: u64 = blocks.iter().map(|block| block.name().length).sum();
            if bytes < LEAST_COUNTED_BYTES {
                continue;
            }
            let ahead = recount::ahead(GameName::TrailTrap, &plan, blocks).unwrap();
            result.ahead = codec::encode(&ahead);
            if let (Some(lie), None) = (lie, told) {
                lie(result);
                told = Some((grant.edition, *unit));
            }
        }
        let named = results.iter().map(|(result, blocks)| {
            NamedUnit::new(result.clone(), blocks, Shelves::default(), is_shared)
        });
        let delivery = messages::delivery_by_name(worker, grant.lease, named);
        match client.complete(tokio_stream::iter(delivery)).await.map(|reply| reply.into_inner()) {
            // What is taken back meanwhile makes leases void.
            Ok(reply) => {
                let is_believed = reply.accepted && told.is_some();
                assert!(!reply.lacking && !is_believed, "{told:?}");
            }
            Err(status) => {
                assert!(told.is_some() && status.code() == Code::InvalidArgument, "{status}");
                return told;
            }
        }
    }
}

/// Whoever lies about what it delivers by name is found out by what another worker counts, and
/// named; whoever counts is not, and the table is right.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_lies_about_what_it_names_is_found_out_by_who_counts() {
    let (directory, depot) = depot();
    let data = Data::new();
    let options = ["--depot", &depot, "--lease", LONG_LEASE, "--sample", "0"];
    let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &options);
    let answers = Answers::solve(9, PlanOptions::default());
    let mut right = Counter::new(&address, "right", directory.path()).await;
    let (counter, counted) = (right.worker, Arc::new(Mutex::new(HashSet::new())));
    let counting = tokio::spawn({
        let counted = counted.clone();
        async move {
            while let Ok(task) = right.task().await {
                let statement = right.count(&task).to_message();
                counted.lock().unwrap().insert((task.edition, task.unit));
                right.state(&task, What::Statement(statement)).await;
            }
        }
    });
    let lies: [fn(&mut wire::UnitResult); 2] = [
        |result| result.digest[0] ^= 1,
        |result| {
            let mut statistics: Statistics = codec::decode(&result.statistics).unwrap();
            statistics.classes.all.listed += 1;
            result.statistics = codec::encode(&statistics);
        },
    ];
    let mut liars = Vec::new();
    for lie in lies {
        let mut is_counted = false;
        // Nobody may have waited for something to count just then: so the coordinator has counted.
        while !is_counted {
            assert!(liars.len() < ATTEMPTS, "others count nothing that is lied about");
            let name = format!("liar {}", liars.len());
            let told =
                deliver_by_name(&address, &name, directory.path(), &answers, Some(lie)).await;
            is_counted = counted.lock().unwrap().contains(&told.expect("it has lied"));
            liars.push(name);
        }
    }
    assert_eq!(deliver_by_name(&address, "honest", directory.path(), &answers, None).await, None);
    farewell(&address, &[counter]).await;
    let output = leader.finish();
    counting.await.unwrap();
    assert_eq!(stdout(&output), expected(9), "{}", stderr(&output));
    let store = Store::open_read_only(&data.path().join("store")).unwrap();
    let alarms = store.alarms().unwrap();
    let blamed = alarms.iter().flat_map(|(_, alarm)| &alarm.blamed).map(Author::name);
    assert!(blamed.eq(liars.iter().map(String::as_str)), "{liars:?}, {}", data.alarms());
}

/// It moves nothing there, and would not do without it any more.
#[test]
fn what_is_done_is_not_tied_to_a_depot() {
    let (directory, depot) = depot();
    let data = Data::new();
    let five = census_json(5, &data, &[]);
    assert_eq!(census_json(5, &data, &["--depot", &depot]), five);
    directory.close().unwrap();
    assert_eq!(census_json(6, &data, &[]), expected(6));
}

/// Reads what a worker says until it says `what`, and returns that line; nothing if it never does.
fn hear(process: &mut Process, what: &str) -> Option<String> {
    let lines = BufReader::new(process.0.stderr.as_mut().unwrap()).lines();
    lines.map_while(Result::ok).find(|line| line.contains(what))
}

#[test]
fn damage_is_named_and_mended() {
    until_hit(|| {
        let directory = tempfile::tempdir().unwrap();
        let [disk, depot] = ["disk", "depot"].map(|name| directory.path().join(name));
        fs::create_dir(&depot).unwrap();
        let options = ["--disk-cache", disk.to_str().unwrap(), "--depot", depot.to_str().unwrap()];
        let data = Data::new();
        let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &HALF);
        let first = small_worker(&address, &options[2..]);
        succeeded(&leader.finish());
        first.finish();
        // Those of the graphs with most edges are read again by what has an edge more, and not made
        // again.
        let in_depot = blocks(&depot);
        flip_all(&depot);
        let (_leader, address) = coordinator(9, &data, "127.0.0.1:0", &["--lease", LONG_LEASE]);
        let wait_until_mended = |line: &str, sound: &BTreeMap<PathBuf, Vec<u8>>| {
            let is_named =
                |path: &&PathBuf| line.contains(path.file_name().unwrap().to_str().unwrap());
            let path = sound.keys().find(is_named).unwrap_or_else(|| panic!("{line}"));
            eventually(&format!("this is mended: {line}"), || {
                fs::read(path).ok().as_ref() == Some(&sound[path])
            });
        };
        let mut second = small_worker(&address, &options);
        let line = hear(&mut second, "a block in the depot is damaged").unwrap();
        wait_until_mended(&line, &in_depot);
        // The third one gets what it gives back, and reads the same; unless it has finished all.
        second.signal("TERM");
        if second.finish().status.success() {
            return None;
        }
        let on_disk = blocks(&disk);
        flip_all(&disk);
        let mut third = small_worker(&address, &options);
        let line = hear(&mut third, "a block on disk is damaged")?;
        assert!(line.contains(disk.to_str().unwrap()), "{line}");
        wait_until_mended(&line, &on_disk);
        Some(())
    });
}

#[test]
fn a_disk_cache_stays_within_its_budget() {
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    let data = Data::new();
    let options = [&HALF[..], &["--lease", LONG_LEASE]].concat();
    let (mut leader, address) = coordinator(9, &data, "127.0.0.1:0", &options);
    let options = ["--disk-cache", disk.to_str().unwrap(), "--disk-budget", "300KiB"];
    let mut worker = small_worker(&address, &options);
    let (mut most, mut counts) = (0, 0);
    eventually("the census ends", || {
        // Files that come and go while others are counted would be counted all.
        most = most.max(worker.paused(|_| files(&disk).values().map(Vec::len).sum()));
        counts += 1;
        std::thread::sleep(Duration::from_millis(10));
        !leader.is_running() || !worker.is_running()
    });
    let worker = worker.finish();
    assert!(worker.status.success(), "{}", stderr(&worker));
    succeeded(&leader.finish());
    let [coordinator, from_disk, ..] = traffic(&stderr(&worker));
    // What is left is counted, too, however seldom it was before.
    most = most.max(files(&disk).values().map(Vec::len).sum());
    println!("{most} bytes at most, in {counts} counts");
    // A file that is being written is there beside the others; without a budget there is more than
    // a megabyte.
    assert!(most > 200 << 10 && most < 400 << 10, "{most}");
    assert!(coordinator > 0 && from_disk > 0, "{coordinator}, {from_disk}");
}
