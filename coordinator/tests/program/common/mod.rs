//! Real processes, for the tests.

pub mod answers;
pub mod lies;
pub mod simulated;

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex, OnceLock},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::net::TcpSocket;
use tonic::{Status, transport::Channel};
use trailtrap_census::{
    core::{Work, WorkerId},
    driver::{Assignment, Census},
    records::{Delivery, UnitRecord},
    store::{Store, plan},
};
use trailtrap_shared::{
    count::{statistics::Statistics, summary::Summary},
    game::{Game, TrailTrap},
    graph::degree::DegreeSequence,
    labelling::LABELLING,
    partition::{BLOCK_FORMAT, Block, Section},
    plan::Unit,
    protocol::{
        access::Access,
        wire::{self, PROTOCOL, census_client::CensusClient, lease_reply::Answer},
    },
};
use trailtrap_worker::{
    access,
    process::limits::{Size, raise_open_files, told_bytes},
};
use walkdir::WalkDir;

/// When a test gives up: long after anything that it waits for has happened, on however slow a
/// machine. Nothing is concluded from how long it took.
pub const GIVE_UP: Duration = Duration::from_secs(1200);
/// How long workers of the tests look for a coordinator, in seconds: as long.
pub const PATIENCE: &str = "1200";
/// How long leases last that are not to expire within a test, in seconds: longer than any test
/// waits.
pub const LONG_LEASE: &str = "86400";
/// How often a scenario is begun that may be over before it was hit.
pub const ATTEMPTS: usize = 50;
/// How often a coordinator is asked again that has nothing to say yet, for which it takes five
/// seconds: longer than anything takes that a test waits for.
pub const QUESTIONS: usize = 240;
/// What the parts of the database of a store are called.
pub const FAMILIES: [&str; 5] = ["default", "records", "keys", "outcomes", "wins"];
/// How often it is looked whether something has happened.
const LOOK: Duration = Duration::from_millis(2);

/// Whether tests that try one thing in many cases try all of them, as `.ci/run` has it
/// (`TRAILTRAP_THOROUGH=1`), and not about half.
pub fn is_thorough() -> bool {
    std::env::var("TRAILTRAP_THOROUGH").is_ok_and(|value| value == "1")
}

/// So many, or about half of them: see [`is_thorough`].
pub fn usual(all: usize) -> usize {
    if is_thorough() { all } else { all.div_ceil(2) }
}

/// Says that a test, or a part of it, is skipped, and why. Where tests are to be thorough nothing
/// may be skipped, unless `TRAILTRAP_MAY_SKIP` is set.
pub fn skip(why: &str) {
    do_without(why);
    let may_skip = !is_thorough() || std::env::var_os("TRAILTRAP_MAY_SKIP").is_some();
    assert!(may_skip, "skipped: {why} (with TRAILTRAP_MAY_SKIP=1 this is only said)");
}

/// The same for what may be missing wherever tests run, such as the right to mount: it is only
/// said.
pub fn do_without(why: &str) {
    let thread = std::thread::current();
    // With one thread for all tests, it has another name.
    let test = thread.name().unwrap_or("a test");
    // Unlike `eprintln!`, this is shown of tests that pass, too.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// The seeds that were asked for: `TRAILTRAP_SEEDS=1000` is more than the usual,
/// `TRAILTRAP_SEEDS=17..18` only that one.
pub fn seeds(usual: u64) -> Range<u64> {
    let number = |text: &str| {
        text.parse().expect("TRAILTRAP_SEEDS is a number or a range of numbers, such as 17..18")
    };
    let seeds = match std::env::var("TRAILTRAP_SEEDS") {
        Err(_) => 0..usual,
        Ok(text) => match text.split_once("..") {
            Some((from, to)) => number(from)..number(to),
            None => 0..number(&text),
        },
    };
    assert!(!seeds.is_empty(), "TRAILTRAP_SEEDS leaves no seed to try: {seeds:?}");
    seeds
}

/// Waits until something has happened.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    eventually_some(what, || condition().then_some(()));
}

/// Waits until there is something, and returns it. Half of the time at most goes into looking, so
/// that what is waited for has a processor.
pub fn eventually_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        let begun = Instant::now();
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < GIVE_UP, "waited in vain until {what}");
        std::thread::sleep(begun.elapsed().max(LOOK));
    }
}

/// A port of this machine that nobody else gets while the socket is there. Connections to it are
/// refused until a coordinator listens, which may do so beside the socket.
pub fn reserved_port() -> (TcpSocket, u16) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

/// What `trailtrap status --json` says with these arguments; nothing as long as there is nothing
/// to say.
pub fn status(arguments: &[&str]) -> Value {
    let output = run(&[&["status", "--json"], arguments].concat());
    serde_json::from_str(&stdout(&output)).unwrap_or_default()
}

/// How many orders are done, as a status says; none if it says nothing.
pub fn orders_done(status: &Value) -> usize {
    status["orders_done"].as_array().map_or(0, Vec::len)
}

/// Units that the coordinator believes to be in work. One that is gone says nothing, which is not
/// taken for none.
pub fn units_leased(address: &str) -> u64 {
    let status = eventually_some("the coordinator says what is in work", || {
        Some(status(&["--coordinator", address])).filter(|status| !status.is_null())
    });
    // Between two orders there are none.
    status["order"]["units_leased"].as_u64().unwrap_or(0)
}

/// The messages of a delivery.
pub fn parts(
    parts: Vec<wire::complete_request::Part>,
) -> impl tonic::IntoStreamingRequest<Message = wire::CompleteRequest> {
    tokio_stream::iter(parts.into_iter().map(|part| wire::CompleteRequest { part: Some(part) }))
}

/// A command that does not see those variables of the environment that our programs read: whoever
/// runs the tests may have set them for a census.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_read(name)) {
        command.env_remove(name);
    }
    command
}

/// Whether our programs may read a variable of this name: their flags, what a batch system has
/// allotted, and the credentials of a depot.
fn is_read(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let ours = ["TRAILTRAP_", "SLURM_", "PBS_", "AWS_"];
    name == "NCPUS" || ours.iter().any(|beginning| name.starts_with(beginning))
}

pub fn trailtrap() -> Command {
    command(env!("CARGO_BIN_EXE_trailtrap"))
}

/// The worker lies beside the coordinator; its own tests have cargo build it.
pub fn worker() -> Command {
    let path = Path::new(env!("CARGO_BIN_EXE_trailtrap")).with_file_name("trailtrap-worker");
    assert!(path.exists(), "build the whole workspace: cargo test --release --workspace");
    command(path)
}

pub fn run(arguments: &[&str]) -> Output {
    Process::start(trailtrap().args(arguments).stdin(Stdio::null())).finish()
}

/// Runs the program with this on its standard input, which a program that refuses its
/// arguments may end without reading.
pub fn run_with_input(arguments: &[&str], input: &str) -> Output {
    let mut process = Process::start(trailtrap().args(arguments).stdin(Stdio::piped()));
    if let Err(error) = process.0.stdin.take().unwrap().write_all(input.as_bytes()) {
        assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{error}");
    }
    process.finish()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// That a process has succeeded; if it has not, what it said on standard error is shown.
#[track_caller]
pub fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}: {}", output.status, stderr(output));
}

/// A directory for data that does not exist yet.
pub struct Data {
    directory: tempfile::TempDir,
}

impl Data {
    pub fn new() -> Self {
        Data { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub fn text(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }

    /// The database of the store, to be changed behind the back of all programs.
    pub fn database(&self) -> rocksdb::DB {
        let options = rocksdb::Options::default();
        rocksdb::DB::open_cf(&options, self.path().join("store"), FAMILIES).unwrap()
    }

    /// How many units of an order are on record, also while a census is at work, whose status
    /// tells of them up to a second later.
    pub fn units_on_record(&self, order: usize) -> usize {
        let path = self.path().join("store");
        // In the beginning there is no store, and whoever opened it would make a directory.
        if !path.exists() {
            return 0;
        }
        let units = || Store::open_read_only(&path)?.units(order);
        units().map_or(0, |units| units.len())
    }
}

impl Data {
    /// How many orders are done, as the status says; none as long as there is nothing to say.
    pub fn orders_done(&self) -> usize {
        orders_done(&status(&["--data", &self.text()]))
    }

    /// What the status says of a directory in which there is a census, and on which nobody works.
    pub fn status_at_rest(&self) -> Value {
        let output = run(&["status", "--json", "--data", &self.text()]);
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_str(&stdout(&output)).unwrap()
    }

    /// What `trailtrap alarms` prints.
    pub fn alarms(&self) -> String {
        let output = run(&["alarms", "--data", &self.text()]);
        succeeded(&output);
        stdout(&output)
    }

    /// Another directory with the same files in it.
    pub fn copy(&self) -> Self {
        let copy = Data::new();
        copy_directory(&self.path(), &copy.path());
        copy
    }
}

/// Copies all files below a directory.
pub fn copy_directory(from: &Path, to: &Path) {
    for entry in WalkDir::new(from) {
        let entry = entry.unwrap();
        let copy = to.join(entry.path().strip_prefix(from).unwrap());
        match entry.file_type().is_dir() {
            true => std::fs::create_dir_all(copy).unwrap(),
            false => drop(std::fs::copy(entry.path(), copy).unwrap()),
        }
    }
}

/// The same delivery, of which blocks of these sections are only named, and the lists of wins come
/// along. All other blocks are left out.
pub fn by_name(right: Delivery, sections: &[Section]) -> Delivery {
    let (wins, others): (Vec<Block>, Vec<Block>) =
        right.blocks.into_iter().partition(|block| block.id.section == Section::Wins);
    let named = others.iter().filter(|block| sections.contains(&block.id.section));
    let named = named.map(|block| (block.id, block.name())).collect();
    Delivery { blocks: wins, named, ..right }
}

/// The work that a worker, in this process or not, is given next; `None` when all is done.
pub fn next_work(census: &Census, worker: WorkerId, is_own: bool) -> Option<Work> {
    eventually_some("there is work, or all is done", || match census.assign(worker, 0, is_own) {
        Assignment::Work(work) => Some(Some(work)),
        // One order is being closed before the next is begun.
        Assignment::Wait => None,
        Assignment::Finished => Some(None),
        other => panic!("nothing is wrong: {other:?}"),
    })
}

/// The next lease, when there is work.
pub async fn granted(client: &mut CensusClient<Channel>, worker: u64) -> wire::Grant {
    leased(client, worker).await.unwrap()
}

/// The same, or that this worker is refused.
pub async fn leased(
    client: &mut CensusClient<Channel>,
    worker: u64,
) -> Result<wire::Grant, Status> {
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < GIVE_UP, "work is there");
        let request = wire::LeaseRequest { worker, room: 0, by_name: false };
        match client.lease(request).await?.into_inner().answer {
            Some(Answer::Grant(grant)) => return Ok(grant),
            // It may take until others are out of time.
            Some(Answer::WaitMilliseconds(_)) => {}
            other => panic!("work is there: {other:?}"),
        }
    }
}

/// A client of the coordinator at this address.
pub async fn connect(address: &str) -> CensusClient<Channel> {
    CensusClient::connect(format!("http://{address}")).await.unwrap()
}

/// Has clients ask for work once more when all is done. A coordinator waits a while for workers
/// that have not heard that; on a slow machine it may have gone by then.
pub async fn farewell(address: &str, workers: &[u64]) {
    farewell_with(&Access { address: address.to_owned(), pass: None }, workers).await;
}

/// The same of a coordinator that does not admit everybody.
pub async fn farewell_with(access: &Access, workers: &[u64]) {
    let mut client = access::client(access, None).unwrap();
    for &worker in workers {
        let request = wire::LeaseRequest { worker, room: 0, by_name: false };
        // Those that are not trusted, or not known any more, are not waited for.
        let Ok(reply) = client.lease(request).await else { continue };
        let answer = reply.into_inner().answer;
        assert!(matches!(answer, Some(Answer::Finished(_))), "{answer:?}");
    }
}

/// A worker that does as it should, on one thread.
pub fn honest(address: &str) -> Process {
    Process::start(worker().args(["--coordinator", address, "--threads", "1"]))
}

/// An honest worker does what is left to do, and these clients hear that all is done.
pub async fn completed(address: &str, clients: &[u64]) {
    let honest = honest(address).finish();
    assert!(honest.status.success(), "{}", stderr(&honest));
    farewell(address, clients).await;
}

/// Writes the record of a unit, without blocks.
pub fn put_record(store: &Store, unit: Unit, record: UnitRecord) {
    // The degrees of its graphs are told by its number.
    let sequence = DegreeSequence::new(vec![0; unit.order.into()]);
    let statement = Delivery::of_statement(unit, sequence, record);
    store.commit(&[Arc::new(statement)], u64::MAX).unwrap();
}

/// Says that a graph that is connected is not.
pub fn take_apart(statistics: &mut Statistics) {
    statistics.classes.connected.graphs -= 1;
    let cells = &mut statistics.structure.connectivity;
    let (_, connected) = cells.range_mut(1..).next().expect("one is connected");
    connected.classes.graphs -= 1;
    cells.entry(0).or_default().classes.graphs += 1;
}

/// Adds the result of a finished order up again from what is recorded of its units, unchecked.
pub fn add_up(store: &Store, order: usize) {
    let mut finished = store.order(order).unwrap().unwrap();
    let plan = plan(store.layout(), order, &finished).unwrap();
    let mut by_size = vec![Summary::default(); plan.max_size + 1];
    for (unit, record) in store.units(order).unwrap() {
        let size = plan.shard_of(unit).size;
        by_size[size].add(&record.statistics, record.digest());
    }
    finished.result = Some(by_size);
    store.put_order(order, &finished).unwrap();
}

/// What an attempt comes to that may be over before it was hit, and is then made again.
pub fn until_hit<T>(attempt: impl FnMut() -> Option<T>) -> T {
    let hit = std::iter::repeat_with(attempt).take(ATTEMPTS).flatten().next();
    hit.unwrap_or_else(|| panic!("none of {ATTEMPTS} attempts was hit"))
}

/// Runs `trailtrap census ORDER --json` in a directory.
pub fn census(order: usize, data: &Data, more: &[&str]) -> Output {
    let order = order.to_string();
    run(&[&["census", &order, "--json", "--data", &data.text()], more].concat())
}

/// What it prints when it succeeds.
pub fn census_json(order: usize, data: &Data, more: &[&str]) -> String {
    let output = census(order, data, more);
    assert!(output.status.success(), "{more:?}: {}", stderr(&output));
    stdout(&output)
}

/// What `trailtrap census ORDER --json` prints that nothing disturbs, made once in a process.
pub fn expected(order: usize) -> String {
    static MADE: [OnceLock<String>; 11] = [const { OnceLock::new() }; 11];
    MADE[order].get_or_init(|| census_json(order, &Data::new(), &[])).clone()
}

/// How a worker of this version introduces itself.
pub fn introduction(name: impl Into<String>) -> wire::RegisterRequest {
    wire::RegisterRequest {
        protocol: PROTOCOL,
        labelling: LABELLING.into(),
        game: TrailTrap::LAYOUT.game.into(),
        block_format: BLOCK_FORMAT.into(),
        name: name.into(),
        threads: 1,
        kernel: "portable".to_owned(),
        memory: 0,
        shelf: None,
    }
}

/// Looks on until a process has ended, and returns the bytes that it has had in memory at most;
/// `None` where that cannot be told.
pub fn watch_memory(process: u32) -> JoinHandle<Option<u64>> {
    std::thread::spawn(move || {
        let mut peak = None;
        // Of a process that has ended nothing can be read.
        while let Some(bytes) = peak_memory(process) {
            peak = Some(bytes);
            std::thread::sleep(LOOK);
        }
        peak
    })
}

/// That a coordinator has had less than half a gigabyte in memory while that was watched.
pub fn stayed_small(peak: JoinHandle<Option<u64>>) {
    // Elsewhere there is no /proc to read it from.
    if let Some(peak) = peak.join().unwrap() {
        println!("peak memory of the coordinator: {} MiB", peak >> 20);
        assert!(peak < 512 << 20, "{peak} bytes");
    }
}

fn peak_memory(process: u32) -> Option<u64> {
    told_bytes(&std::fs::read_to_string(format!("/proc/{process}/status")).ok()?, "VmHWM:")
}

/// Reads from a pipe, so that whoever writes there never waits for a reader.
struct Listener {
    /// What has come, in whole lines as long as there may be more.
    heard: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Listener {
    fn new(pipe: impl Read + Send + 'static) -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let thread = std::thread::spawn({
            let (mut pipe, heard) = (BufReader::new(pipe), heard.clone());
            move || {
                let mut line = Vec::new();
                while pipe.read_until(b'\n', &mut line).unwrap() > 0 {
                    heard.lock().unwrap().append(&mut line);
                }
            }
        });
        Listener { heard, thread }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().unwrap()).into_owned()
    }

    /// Whether nobody can write there any more, and all has been read.
    fn has_all(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for all that is written there. What a process has started may hold the pipe longer
    /// than the process itself, but nobody waits for that for ever.
    fn all(self) -> Vec<u8> {
        eventually("a pipe is closed", || self.has_all());
        self.thread.join().unwrap();
        std::mem::take(&mut *self.heard.lock().unwrap())
    }
}

/// Kills its process when it goes. While the process runs, its standard error may be listened to.
pub struct Process(pub Child, Option<Listener>);

impl Process {
    pub fn start(command: &mut Command) -> Self {
        Process::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// The process of a command that says itself where its output goes.
    pub fn of(child: Child) -> Self {
        Process(child, None)
    }

    /// Starts a process whose standard error is listened to from the beginning.
    pub fn start_and_listen(command: &mut Command) -> Self {
        let mut process = Process::start(command);
        process.1 = process.0.stderr.take().map(Listener::new);
        process
    }

    /// What it has said on standard error by now, if that is listened to.
    pub fn said(&self) -> String {
        self.1.as_ref().expect("it is listened to").text()
    }

    /// Waits for a line on standard error that begins like this, and returns the rest of it.
    fn told(&self, beginning: &str) -> String {
        let listener = self.1.as_ref().expect("it is listened to");
        eventually_some("the process says what is waited for", || {
            let is_all = listener.has_all();
            let said = listener.text();
            let found = said.lines().find_map(|line| line.strip_prefix(beginning));
            assert!(found.is_some() || !is_all, "{said}");
            found.map(str::to_owned)
        })
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Whether it has not ended by itself.
    pub fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// SIGKILL; false if it had ended by itself: with all done (0), or as a worker that says that
    /// there is more to do (75), since it was asked to leave, or its coordinator was out of reach
    /// for too long.
    pub fn is_killed(&mut self) -> bool {
        self.kill();
        let status = self.0.wait().unwrap();
        let is_killed = std::os::unix::process::ExitStatusExt::signal(&status) == Some(9);
        assert!(is_killed || matches!(status.code(), Some(0 | 75)), "it ended with {status}");
        is_killed
    }

    /// Waits for the end, and returns what it has written, also what has been heard before.
    pub fn finish(mut self) -> Output {
        let out = self.0.stdout.take().map(Listener::new);
        let err = self.1.take().or_else(|| self.0.stderr.take().map(Listener::new));
        eventually("the process ends", || !self.is_running());
        let status = self.0.wait().unwrap();
        let all = |listener: Option<Listener>| listener.map(Listener::all).unwrap_or_default();
        Output { status, stdout: all(out), stderr: all(err) }
    }

    /// Does something while the process stands still. Where nobody can tell whether it does, it
    /// may go on.
    pub fn paused<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.signal("STOP");
        let threads = format!("/proc/{}/task", self.0.id());
        let stands = |thread: std::io::Result<std::fs::DirEntry>| {
            let stat =
                thread.and_then(|thread| std::fs::read_to_string(thread.path().join("stat")));
            // The state stands behind the name in parentheses; a thread that is gone is none.
            stat.is_ok_and(|stat| {
                stat.rsplit(") ").next().is_some_and(|s| !s.starts_with(['R', 'S', 'D']))
            })
        };
        if Path::new(&threads).exists() {
            eventually("the process stands still", || {
                std::fs::read_dir(&threads).is_ok_and(|mut list| list.all(stands))
            });
        }
        let result = work(self);
        self.signal("CONT");
        result
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        assert!(
            Command::new("kill")
                .args(["-s", name, &self.0.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A coordinator on a free port, and its address. What it says is listened to.
pub fn coordinator(order: usize, data: &Data, listen: &str, more: &[&str]) -> (Process, String) {
    // Several tests at a time, which share what this process may open, have hundreds of connections.
    raise_open_files();
    let mut command = trailtrap();
    command
        .args([
            "coordinator",
            "--json",
            "--order",
            &order.to_string(),
            "--data",
            &data.text(),
            "--listen",
            listen,
        ])
        .args(more);
    let process = Process::start_and_listen(&mut command);
    let address = process.told("trailtrap: listening on ");
    (process, address)
}

/// Salvages a census, which succeeds.
pub fn salvage(data: &Data) -> Output {
    let output = run(&["salvage", "--data", &data.text()]);
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

/// Runs `verify`, which finds nothing wrong, and returns what it prints.
pub fn verified(arguments: &[&str]) -> String {
    let output = run(&[&["verify"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

/// Runs `verify` and gives what failed: names of checks, and why.
pub fn failures_of(arguments: &[&str]) -> HashMap<String, String> {
    let output = run(&[&["verify", "--json"], arguments].concat());
    let report: Value =
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let failed: HashMap<String, String> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| !finding["failure"].is_null())
        .map(|finding| {
            (
                finding["check"].as_str().unwrap().to_owned(),
                finding["failure"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    assert_eq!(output.status.code(), Some(i32::from(!failed.is_empty())));
    assert_eq!(report["failures"], failed.len());
    failed
}

/// A copy of a bundle, changed, with checksums that fit again.
pub fn resealed(sound: &Path, change: impl Fn(&Path)) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_directory(sound, copy.path());
    change(copy.path());
    let sums = fs::read_to_string(copy.path().join("SHA256SUMS")).unwrap();
    let sealed: String = sums
        .lines()
        .map(|line| line.split_once("  ").unwrap().1)
        .map(|name| {
            format!(
                "{}  {name}\n",
                hex::encode(Sha256::digest(fs::read(copy.path().join(name)).unwrap()))
            )
        })
        .collect();
    fs::write(copy.path().join("SHA256SUMS"), sealed).unwrap();
    copy
}

/// Changes the text of a file.
pub fn rewrite(path: PathBuf, change: impl Fn(&str) -> String) {
    let old = fs::read_to_string(&path).unwrap();
    let new = change(&old);
    assert_ne!(old, new, "{} is changed", path.display());
    fs::write(path, new).unwrap();
}

/// Bytes from coordinator, disk, depot and shelves, and those put into a depot or on a shelf, as a
/// worker says when it leaves.
pub fn traffic(text: &str) -> [u64; 5] {
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
