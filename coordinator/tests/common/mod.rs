//! Real processes, for the tests.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod answers;

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use trailtrap_shared::{
    game::{Game, TrailTrap},
    labelling::LABELLING,
    partition::BLOCK_FORMAT,
    protocol::wire::{self, PROTOCOL},
};

/// The messages of a delivery.
pub fn parts(
    parts: Vec<wire::complete_request::Part>,
) -> impl tonic::IntoStreamingRequest<Message = wire::CompleteRequest> {
    tokio_stream::iter(parts.into_iter().map(|part| wire::CompleteRequest { part: Some(part) }))
}

pub fn trailtrap() -> Command {
    Command::new(env!("CARGO_BIN_EXE_trailtrap"))
}

/// The worker lies beside the coordinator; its own tests have cargo build it.
pub fn worker() -> Command {
    let path = Path::new(env!("CARGO_BIN_EXE_trailtrap")).with_file_name("trailtrap-worker");
    assert!(path.exists(), "build the whole workspace: cargo test --release --workspace");
    Command::new(path)
}

pub fn run(arguments: &[&str]) -> Output {
    trailtrap().args(arguments).output().unwrap()
}

/// Runs the program with this on its standard input.
pub fn run_with_input(arguments: &[&str], input: &str) -> Output {
    let mut command = trailtrap();
    let piped = command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
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
}

/// What `trailtrap census ORDER --json` prints in a directory.
pub fn census_json(order: usize, data: &Data, more: &[&str]) -> String {
    let output = trailtrap()
        .args(["census", &order.to_string(), "--json", "--data", &data.text()])
        .args(more)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
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
    }
}

/// Bytes that a process has had in memory at most; `None` where that cannot be told.
pub fn peak_memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    kilobytes
        .trim()
        .trim_end_matches("kB")
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kilobytes| kilobytes << 10)
}

/// Kills its process when it goes.
pub struct Process(pub Child);

impl Process {
    pub fn start(command: &mut Command) -> Self {
        Process(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Waits for the end; panics after a minute.
    pub fn finish(mut self) -> Output {
        let start = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < Duration::from_secs(60), "still running after a minute");
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut out =
            Output { status: self.0.wait().unwrap(), stdout: Vec::new(), stderr: Vec::new() };
        for (pipe, bytes) in [
            (self.0.stdout.take().map(|p| Box::new(p) as Box<dyn std::io::Read>), &mut out.stdout),
            (self.0.stderr.take().map(|p| Box::new(p) as Box<dyn std::io::Read>), &mut out.stderr),
        ] {
            if let Some(mut pipe) = pipe {
                pipe.read_to_end(bytes).unwrap();
            }
        }
        out
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

/// A coordinator on a free port, and its address.
pub fn coordinator(order: usize, data: &Data, listen: &str, more: &[&str]) -> (Process, String) {
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
    let mut process = Process::start(&mut command);
    let mut lines = BufReader::new(process.0.stderr.take().unwrap()).lines();
    let first = lines.next().expect("a line").unwrap();
    let address = first
        .strip_prefix("trailtrap: listening on ")
        .unwrap_or_else(|| panic!("{first}"))
        .to_owned();
    // Keep the pipe open and empty.
    std::thread::spawn(move || lines.for_each(drop));
    (process, address)
}
