//! Who is let in: access files, tokens and certificates between real processes, and what strangers
//! can do.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use tokio::io::AsyncWriteExt;
use tonic::{Code, Request, Status};
use trailtrap_shared::protocol::{
    access::{Access, AccessToken},
    wire::{self, complete_request::Part, fetch_request::What},
};
use trailtrap_worker::access::{self, AdmittedClient};

use crate::common::{
    Data, GIVE_UP, PATIENCE, Process, coordinator, eventually, expected, farewell_with,
    introduction, reserved_port, run, stayed_small, stderr, stdout, succeeded, trailtrap,
    watch_memory, worker,
};

/// Beyond loopback, and yet reachable in any sandbox.
const ANYWHERE: &str = "0.0.0.0:0";
const HERE: [&str; 2] = ["--advertise", "127.0.0.1"];
/// What a call ends with whose connection is closed meanwhile, or is never made: that depends on
/// which of its two sides, and which of its layers, sees it first.
const CLOSED: [Code; 4] = [Code::Unavailable, Code::Internal, Code::Unknown, Code::Cancelled];

fn file(data: &Data, name: &str) -> PathBuf {
    data.path().join(name)
}

fn worker_with(access: &Path) -> Command {
    let mut command = worker();
    command.args(["--threads", "1", "--patience", PATIENCE, "--access"]).arg(access);
    command
}

#[test]
fn an_access_file_is_all_that_a_worker_needs_and_it_outlives_the_coordinator() {
    let data = Data::new();
    let logs = tempfile::tempdir().unwrap();
    let log = |name: &str| fs::File::create(logs.path().join(name)).unwrap();
    let start = |name: &str, command: &mut Command| {
        let command =
            command.env("TRAILTRAP_LOG", "trace").stdout(Stdio::piped()).stderr(log(name));
        Process::of(command.spawn().unwrap())
    };
    let start_leader = |name: &str, order: &str, listen: &str, more: &[&str]| {
        let mut command = trailtrap();
        command
            .args([
                "coordinator",
                "--json",
                "--order",
                order,
                "--data",
                &data.text(),
                "--listen",
                listen,
            ])
            .args(HERE)
            .args(more);
        start(name, &mut command)
    };
    let (access, viewer) = (file(&data, "access.json"), file(&data, "viewer.json"));
    // The worker may wait for the file too.
    let helper = start("worker", &mut worker_with(&access));
    // It has more to do than is done by the time it is killed, and a port that no other gets.
    let (_reserved, port) = reserved_port();
    let mut leader = start_leader("leader-1", "10", &format!("0.0.0.0:{port}"), &[]);
    eventually("there are access files", || viewer.exists());
    let tokens = [&access, &viewer].map(|path| {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        let json: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        json["pass"]["token"].as_str().unwrap().to_owned()
    });
    assert_eq!(
        fs::metadata(file(&data, "secrets.json")).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(tokens[0].len() == 64 && tokens[0] != tokens[1]);
    let status = || run(&["status", "--access", viewer.to_str().unwrap()]);
    // Until the server is up, and the worker is there.
    eventually("the worker is there", || stdout(&status()).contains("1 threads"));
    for process in [&helper, &leader] {
        let line = fs::read(format!("/proc/{}/cmdline", process.0.id())).unwrap();
        assert!(tokens.iter().all(|token| !String::from_utf8_lossy(&line).contains(token)));
    }
    // Started again, it has another port, which the worker learns from the file; everything else
    // is as before.
    let first = access::read(&access).unwrap();
    leader.kill();
    let leader = start_leader("leader-2", "9", ANYWHERE, &["--stay"]);
    assert_eq!(helper.finish().status.code(), Some(0));
    leader.signal("TERM");
    let output = leader.finish();
    assert!(output.status.success());
    assert_eq!(stdout(&output), expected(9));
    let second = access::read(&access).unwrap();
    assert_eq!(first.pass, second.pass);
    assert_ne!(first.address, second.address);
    for name in ["worker", "leader-1", "leader-2"] {
        let text = fs::read(logs.path().join(name)).unwrap();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("TRACE"), "{name} says everything");
        assert!(tokens.iter().all(|token| !text.contains(token)), "{name} shows a token");
    }
}

/// What becomes of each call.
async fn codes(client: AdmittedClient) -> Vec<Code> {
    answers(client).await.1
}

/// The number of the worker that is registered, and what becomes of each call.
async fn answers(mut client: AdmittedClient) -> (Option<u64>, Vec<Code>) {
    let mut answers = Vec::new();
    let registered = client.register(introduction("x")).await;
    let worker = registered.as_ref().ok().map(|reply| reply.get_ref().worker);
    answers.push(registered.err());
    answers
        .push(client.lease(wire::LeaseRequest { worker: 1, room: 0, by_name: false }).await.err());
    let fetch = wire::FetchRequest {
        worker: 1,
        degrees: vec![0],
        what: Some(What::Parents(true)),
        only: Vec::new(),
    };
    answers.push(client.describe(tokio_stream::iter([fetch.clone()])).await.err());
    answers.push(client.fetch_partition(tokio_stream::iter([fetch])).await.err());
    answers
        .push(client.heartbeat(wire::HeartbeatRequest { worker: 1, leases: vec![] }).await.err());
    let start = Part::Start(wire::CompleteStart { worker: 1, lease: 1, by_name: false });
    answers.push(
        client
            .complete(tokio_stream::iter([wire::CompleteRequest { part: Some(start) }]))
            .await
            .err(),
    );
    answers.push(
        client
            .give_back(wire::GiveBackRequest {
                worker: 1,
                leases: vec![1],
                failure: String::new(),
            })
            .await
            .err(),
    );
    answers.push(client.status(wire::StatusRequest {}).await.err());
    let code = |error: Option<Status>| error.map_or(Code::Ok, |status| status.code());
    (worker, answers.into_iter().map(code).collect())
}

#[tokio::test]
async fn without_a_valid_token_nothing_can_be_done() {
    let data = Data::new();
    let (leader, address) = coordinator(7, &data, ANYWHERE, &HERE);
    let (path, viewer) = (file(&data, "access.json"), file(&data, "viewer.json"));
    let access = access::read(&path).unwrap();
    let with = |change: &dyn Fn(&mut Access)| {
        let mut access = access.clone();
        change(&mut access);
        access
    };
    let client = |access: &Access| access::client(access, None).unwrap();
    // The right one: whether the calls make sense is another question.
    let (registered, right) = answers(client(&access)).await;
    assert!(
        !right.contains(&Code::Unauthenticated) && right[0] == Code::Ok && right[7] == Code::Ok,
        "{right:?}"
    );
    // It opens the door, but not for anything: this message is refused.
    let too_large = introduction("x".repeat(70 << 10));
    let refused = client(&access).register(too_large).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused:?}");
    // Another token.
    let stranger = with(&|access| access.pass.as_mut().unwrap().token = AccessToken::new([7; 32]));
    assert_eq!(codes(client(&stranger)).await, [Code::Unauthenticated; 8]);
    // Those who look on.
    let looking = codes(client(&access::read(&viewer).unwrap())).await;
    assert_eq!(looking[..7], [Code::PermissionDenied; 7]);
    assert_eq!(looking[7], Code::Ok);
    // Plain text: no connection.
    let no_connection = |codes: Vec<Code>| {
        assert!(codes.iter().all(|code| CLOSED.contains(code)), "{codes:?}");
    };
    let plain = with(&|access| access.pass = None);
    no_connection(codes(client(&plain)).await);
    // The certificate of another coordinator.
    let other = Data::new();
    for nowhere in
        ["host:99999", "host:0", "host:abc", "a b:1", "h:1:2", ":7461", "", "0.0.0.0", "[::]:7461"]
    {
        let refused = run(&["secrets", "--data", &other.text(), "--advertise", nowhere]);
        assert!(!refused.status.success(), "{nowhere}");
        let is_of_any = nowhere.starts_with("0.0.0.0") || nowhere.starts_with("[::]");
        assert_eq!(stderr(&refused).contains("from another machine nobody"), is_of_any);
    }
    let made = run(&["secrets", "--data", &other.text(), "--advertise", &access.address]);
    assert!(made.status.success(), "{}", stderr(&made));
    let foreign = file(&other, "access.json");
    no_connection(codes(client(&access::read(&foreign).unwrap())).await);

    // What the programs say, and that they do not try for ever.
    let directory = tempfile::tempdir().unwrap();
    let written = |name: &str, access: &Access| {
        let path = directory.path().join(name);
        access::write(access, &path).unwrap();
        path
    };
    let cases = [
        (written("stranger", &stranger), "the token is not valid"),
        (viewer.clone(), "workers need access.json"),
        (foreign.clone(), "not the coordinator of the access file"),
    ];
    for (path, hint) in &cases {
        let output = Process::start(&mut worker_with(path)).finish();
        assert_eq!(output.status.code(), Some(78), "{hint}: {}", stderr(&output));
        assert!(stderr(&output).contains(hint), "{}", stderr(&output));
    }
    let here = address.replace("0.0.0.0", "127.0.0.1");
    let output =
        Process::start(worker().args(["--coordinator", &here, "--patience", "1"])).finish();
    assert_eq!(output.status.code(), Some(75));
    assert!(stderr(&output).contains("--access"), "{}", stderr(&output));
    for (path, hint) in [(&cases[0].0, "not valid"), (&foreign, "certificate")] {
        let output = run(&["status", "--access", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(hint), "{}", stderr(&output));
    }

    let honest = Process::start(&mut worker_with(&path)).finish();
    assert!(honest.status.success(), "{}", stderr(&honest));
    farewell_with(&access, &[registered.expect("it is let in")]).await;
    let output = leader.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected(7));
}

/// Whether a call among a flood got no answer of its own: its connection was closed, or so many
/// were at it that it was not read in time.
fn is_cut_off(status: &Status) -> bool {
    CLOSED.contains(&status.code()) || status.code() == Code::DeadlineExceeded
}

/// What one of many strangers does: one call or connection.
async fn disturb(kind: usize, here: &str, stranger: &Access, access: &Access) {
    let large = || introduction("x".repeat(3 << 20));
    // The answer, or that the stream was closed before all was sent.
    let refused = |status: &Status, answer: Code| {
        assert!(status.code() == answer || is_cut_off(status), "{status:?}");
    };
    match kind {
        // A connection that says nothing, nonsense, or nothing after the first words of a
        // greeting.
        0..3 => {
            let Ok(mut stream) = tokio::net::TcpStream::connect(here).await else { return };
            let greeting = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
            let words = match kind {
                0 => Vec::new(),
                1 => vec![7; 5000],
                _ => greeting.to_vec(),
            };
            let _ = stream.write_all(&words).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        // A wrong token and a body of megabytes, which nobody reads.
        3 => {
            let mut client = access::client(stranger, None).unwrap();
            refused(&client.register(large()).await.unwrap_err(), Code::Unauthenticated);
        }
        // Many calls at once on one connection.
        4 => {
            let client = access::client(stranger, None).unwrap();
            let calls = (0..100).map(|_| {
                let mut client = client.clone();
                tokio::spawn(async move { client.status(wire::StatusRequest {}).await })
            });
            for call in calls.collect::<Vec<_>>() {
                refused(&call.await.unwrap().unwrap_err(), Code::Unauthenticated);
            }
        }
        // A delivery that never ends.
        5 => {
            let piece = wire::BlockPiece { data: vec![7; 1 << 20], last: false, done: false };
            let endless = tokio_stream::iter(std::iter::repeat_with(move || {
                wire::CompleteRequest { part: Some(Part::Piece(piece.clone())) }
            }));
            let mut client = access::client(stranger, None).unwrap();
            refused(&client.complete(endless).await.unwrap_err(), Code::Unauthenticated);
        }
        // Somebody who belongs here, and sends more than is allowed.
        _ => {
            let mut client = access::client(access, None).unwrap();
            let too_large = introduction("x".repeat(3 << 20));
            refused(&client.register(too_large).await.unwrap_err(), Code::OutOfRange);
        }
    }
}

/// Registers a worker with a long name, and returns its number. If its connection takes too long
/// among all others, it tries again.
async fn register_in_the_crowd(access: &Access) -> u64 {
    let start = Instant::now();
    loop {
        let mut client = access::client(access, None).unwrap();
        match client.register(introduction("x".repeat(20 << 10))).await {
            Ok(reply) => return reply.into_inner().worker,
            Err(status) => assert!(is_cut_off(&status), "{status:?}"),
        }
        assert!(start.elapsed() < GIVE_UP, "it is cut off again and again");
    }
}

/// Hundreds of strangers who come again and again, until a worker has finished the census; memory
/// stays bounded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_do_not_keep_workers_out() {
    let data = Data::new();
    let (leader, address) = coordinator(9, &data, ANYWHERE, &HERE);
    let here = address.replace("0.0.0.0", "127.0.0.1");
    let path = file(&data, "access.json");
    let access = access::read(&path).unwrap();
    // Metadata beyond the bounds is refused even to those who hold a token.
    let padded = |bytes: usize| {
        let mut request = Request::new(introduction("x"));
        request.metadata_mut().insert("padding", "y".repeat(bytes).parse().unwrap());
        request
    };
    let mut client = access::client(&access, None).unwrap();
    client.status(wire::StatusRequest {}).await.unwrap();
    let refused = client.register(padded(30 << 10)).await.unwrap_err();
    // HTTP has a status for that, which may be overtaken by the end of the stream.
    assert!([Code::Unknown, Code::Internal].contains(&refused.code()), "{refused:?}");
    assert!(client.register(padded(1 << 20)).await.is_err());
    let mut stranger = access.clone();
    stranger.pass.as_mut().unwrap().token = AccessToken::new([7; 32]);
    // Some connections are there for good.
    let silent: Vec<_> = (0..200).map(|_| std::net::TcpStream::connect(&here).unwrap()).collect();
    let peak = watch_memory(leader.0.id());
    let over = Arc::new(AtomicBool::new(false));
    let disturbances = Arc::new(AtomicUsize::new(0));
    let floods: Vec<_> = (0..300)
        .map(|i| {
            let (here, stranger, access, over, disturbances) = (
                here.clone(),
                stranger.clone(),
                access.clone(),
                over.clone(),
                disturbances.clone(),
            );
            tokio::spawn(async move {
                for count in 0.. {
                    disturb((i + count) % 7, &here, &stranger, &access).await;
                    disturbances.fetch_add(1, Ordering::Relaxed);
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            })
        })
        .collect();
    // Texts are cut.
    let registered = register_in_the_crowd(&access).await;
    let mut told = String::new();
    tokio::task::block_in_place(|| {
        eventually("the coordinator shows its status", || {
            told = stdout(&run(&["status", "--json", "--access", path.to_str().unwrap()]));
            !told.is_empty()
        });
        eventually("many have disturbed", || disturbances.load(Ordering::Relaxed) >= 300);
    });
    assert!(told.len() < 10_000, "names are cut");
    // In the middle of all this, a worker that belongs here.
    let before = disturbances.load(Ordering::Relaxed);
    let honest = Process::start(&mut worker_with(&path));
    let honest = tokio::task::spawn_blocking(move || honest.finish()).await.unwrap();
    assert!(honest.status.success(), "{}", stderr(&honest));
    let meanwhile = disturbances.load(Ordering::Relaxed) - before;
    assert!(meanwhile > 0, "nobody disturbed it");
    over.store(true, Ordering::Relaxed);
    for flood in floods {
        flood.await.unwrap();
    }
    println!("{before} disturbances before the worker came, {meanwhile} while it was there");
    farewell_with(&access, &[registered]).await;
    let output = tokio::task::spawn_blocking(|| leader.finish()).await.unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected(9));
    stayed_small(peak);
    drop(silent);
}

/// An authority of one's own, and certificates on both sides.
#[test]
fn mutual_tls_with_an_authority_of_ones_own() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority =
        CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
    let ca = write("ca.pem", &authority.pem());
    let issue = |name: &str, usage: ExtendedKeyUsagePurpose| {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
        parameters.extended_key_usages = vec![usage];
        let certificate = parameters.signed_by(&key, &authority).unwrap();
        let name = name.replace('.', "-");
        (
            write(&format!("{name}.pem"), &certificate.pem()),
            write(&format!("{name}.key"), &key.serialize_pem()),
        )
    };
    let (certificate, key) = issue("127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth);
    let (mine, my_key) = issue("worker", ExtendedKeyUsagePurpose::ClientAuth);
    let data = Data::new();
    let flags = [
        "--certificate",
        &certificate,
        "--key",
        &key,
        "--ca",
        &ca,
        "--client-ca",
        &ca,
        "--advertise",
        "127.0.0.1",
    ];
    let (leader, _) = coordinator(7, &data, ANYWHERE, &flags);
    let access = file(&data, "access.json");
    // The token alone will not do, whatever the client believes.
    let mut bold = access::read(&access).unwrap();
    bold.pass.as_mut().unwrap().mutual = false;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let answers = runtime.block_on(async { codes(access::client(&bold, None).unwrap()).await });
    assert!(answers.iter().all(|code| *code != Code::Ok), "{answers:?}");
    let output = Process::start(&mut worker_with(&access)).finish();
    assert_eq!(output.status.code(), Some(78), "{}", stderr(&output));
    assert!(stderr(&output).contains("asks for a certificate"), "{}", stderr(&output));
    let honest =
        Process::start(worker_with(&access).args(["--certificate", &mine, "--key", &my_key]));
    let output = leader.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected(7));
    succeeded(&honest.finish());
    // Files that are none are named before anything begins.
    let nonsense = write("nonsense", "nonsense");
    let flags = ["--certificate", &nonsense, "--key", &key, "--ca", &ca];
    let output = run(&[
        &["coordinator", "--order", "3", "--listen", ANYWHERE, "--data", &Data::new().text()],
        &flags[..],
    ]
    .concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("certificate"), "{}", stderr(&output));
}

/// What a cluster's supervisor needs: probes without secrets, and a coordinator that is still
/// there when a worker comes late.
#[tokio::test]
async fn a_coordinator_that_stays_answers_probes_and_late_workers() {
    let data = Data::new();
    let (_reserved, port) = reserved_port();
    let health = format!("127.0.0.1:{port}");
    let flags = [&HERE[..], &["--stay", "--health", &health]].concat();
    let (leader, _) = coordinator(5, &data, ANYWHERE, &flags);
    let access = file(&data, "access.json");
    for _ in 0..2 {
        assert_eq!(Process::start(&mut worker_with(&access)).finish().status.code(), Some(0));
    }
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{health}"))
        .unwrap()
        .connect_lazy();
    let request =
        tonic_health::pb::HealthCheckRequest { service: "trailtrap.v1.Census".to_owned() };
    let answer = tonic_health::pb::health_client::HealthClient::new(channel.clone())
        .check(request)
        .await
        .unwrap();
    assert_eq!(
        answer.into_inner().status(),
        tonic_health::pb::health_check_response::ServingStatus::Serving
    );
    let status = wire::census_client::CensusClient::new(channel)
        .status(wire::StatusRequest {})
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented, "probes see nothing of the census");
    leader.signal("TERM");
    let output = leader.finish();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), expected(5));
}
