//! The worker process and people's mistakes.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Output, Stdio},
};

use tokio::net::TcpSocket;

/// The worker, which does not see those variables of the environment that it reads: whoever runs
/// the tests may have set them for a census.
fn command() -> Command {
    let read = ["TRAILTRAP_", "SLURM_", "PBS_", "AWS_", "NCPUS"];
    let is_read = |name: &str| read.iter().any(|beginning| name.starts_with(beginning));
    let mut command = Command::new(env!("CARGO_BIN_EXE_trailtrap-worker"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_read(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

fn worker(arguments: &[&str]) -> Output {
    command().args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An address of this machine where connections are refused as long as the socket is there, as
/// nobody else gets the port.
fn refusing_address() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

#[test]
fn help_teaches() {
    let output = worker(&["--help"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("--coordinator")
            && text.contains("--threads")
            && text.contains("Exit codes")
    );
}

#[test]
fn an_unreachable_coordinator_is_waited_for_and_then_named() {
    let (_socket, address) = refusing_address();
    let output = worker(&["--coordinator", &address, "--patience", "1"]);
    assert_eq!(output.status.code(), Some(75));
    let text = stderr(&output);
    assert!(
        text.contains(&address) && text.contains("refused") && text.contains("Is it running"),
        "{text}"
    );
}

#[test]
fn bad_flags_are_refused() {
    for (arguments, hint) in [
        (&[][..], "--coordinator"),
        (&["--coordinator", "x:1", "--threads", "0"], "0"),
        (&["--coordinator", "x:1", "--memory", "lots"], "14GiB"),
        (&["--coordinator", "x:1", "--memory", "64"], "64 B is too small"),
        (&["--coordinator", "x:1", "--kernel", "mmx"], "portable"),
    ] {
        let output = worker(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(hint), "{arguments:?}: {}", stderr(&output));
    }
}

/// As long as a time can be: it is not added to another.
#[test]
fn patience_may_be_as_long_as_can_be_and_no_longer() {
    let (_socket, address) = refusing_address();
    let mut child = command()
        .args(["--coordinator", &address, "--patience", "18446744073709551615"])
        .args(["--until", "18446744073709551615"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // It tries again, and goes on to do so.
    lines
        .by_ref()
        .map(Result::unwrap)
        .filter(|line| line.contains("trying again"))
        .nth(1)
        .unwrap();
    assert!(
        Command::new("kill")
            .args(["-s", "TERM", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(75));
    let output = worker(&["--coordinator", &address, "--patience", "18446744073709551616"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is not a time"), "{}", stderr(&output));
}

#[test]
fn an_address_that_is_none_is_refused_at_once() {
    let output = worker(&["--coordinator", "no spaces allowed:1", "--patience", "60"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("HOST:PORT"));
}

#[test]
fn places_for_blocks_that_are_none_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("file"), "in the way").unwrap();
    for (flag, place) in [
        ("--depot", at("missing")),
        ("--depot", "gs://b/x".to_owned()),
        ("--disk-cache", at("file")),
    ] {
        let output = worker(&["--coordinator", "127.0.0.1:1", "--patience", "60", flag, &place]);
        assert_eq!(output.status.code(), Some(78), "{place}");
        let text = stderr(&output);
        assert!(text.contains(&place), "{text}");
        // The cause is said, and once.
        for cause in ["(os error 2)", "(os error 17)", "(os error 20)"] {
            assert!(text.matches(cause).count() <= 1, "{text}");
        }
    }
}

#[test]
#[cfg(feature = "s3")]
fn a_depot_out_of_reach_is_done_without_and_nothing_shows_credentials() {
    let (_socket, endpoint) = refusing_address();
    let output = command()
        .args(["--coordinator", "127.0.0.1:1", "--patience", "1", "--depot", "s3://bucket/prefix"])
        .envs([
            ("AWS_ACCESS_KEY_ID", "someone"),
            ("AWS_SECRET_ACCESS_KEY", "hunter2"),
            ("AWS_SESSION_TOKEN", "hunter3"),
        ])
        .envs([
            ("AWS_ENDPOINT_URL", format!("http://{endpoint}").as_str()),
            ("AWS_ALLOW_HTTP", "true"),
        ])
        .env("TRAILTRAP_LOG", "trace")
        .output()
        .unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(75), "{text}");
    assert!(
        text.contains("the depot cannot be written") && text.contains("s3://bucket/prefix"),
        "{text}"
    );
    assert!(text.contains("cannot reach the coordinator"), "{text}");
    assert!(!text.contains("hunter"), "{text}");
}

#[test]
fn credentials_in_the_address_of_a_depot_are_refused_and_not_shown() {
    let output = worker(&[
        "--coordinator",
        "127.0.0.1:1",
        "--depot",
        "s3://someone:hunter2/hunter3@bucket",
    ]);
    assert_eq!(output.status.code(), Some(78));
    assert!(!stderr(&output).contains("hunter"), "{}", stderr(&output));
}
