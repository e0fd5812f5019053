//! The gRPC service against clients that are of another version, confused or hostile.

use std::{
    collections::HashSet,
    pin::Pin,
    task::{Context, Poll},
};

use http_body::Frame;
use tokio::time::timeout;
use tonic::{
    Code, Status,
    codegen::{Bytes, Service, http},
    transport::{Channel, Endpoint},
};
use trailtrap_census::core::MOST_WORKERS;
use trailtrap_shared::protocol::wire::{
    self, PIECE_BYTES, census_client::CensusClient, complete_request::Part, fetch_request::What,
};

use crate::common::{
    Data, GIVE_UP, Process, completed, connect, coordinator, expected, granted, introduction,
    parts, status, stayed_small, stderr, stdout, watch_memory,
};

fn unit(shard: u32) -> Part {
    Part::Unit(wire::UnitResult {
        unit: Some(wire::UnitId { shard, part: 0 }),
        statistics: vec![1, 2, 3],
        digest: vec![0; 32],
        elapsed_microseconds: 1,
        content: Vec::new(),
        ahead: Vec::new(),
    })
}

/// The first answer to a request to describe, which comes in the stream.
async fn describe(
    client: &mut CensusClient<Channel>,
    requests: impl tonic::IntoStreamingRequest<Message = wire::FetchRequest>,
) -> Result<Option<wire::Description>, Status> {
    client.describe(requests).await?.into_inner().message().await
}

#[tokio::test]
async fn other_versions_are_refused_by_name() {
    let data = Data::new();
    let (_leader, address) = coordinator(7, &data, "127.0.0.1:0", &[]);
    let mut client = connect(&address).await;
    let request = introduction("test");
    let others = [
        ("protocol 1", wire::RegisterRequest { protocol: 1, ..request.clone() }),
        ("labelling 77", wire::RegisterRequest { labelling: 77, ..request.clone() }),
        ("game 9", wire::RegisterRequest { game: 9, ..request.clone() }),
        ("block format 0", wire::RegisterRequest { block_format: 0, ..request.clone() }),
    ];
    for (what, request) in others {
        let status = client.register(request).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().contains(&format!("worker has {what}")), "{}", status.message());
    }
    assert!(client.register(request).await.is_ok());
}

/// A coordinator of order 7, and a worker that has registered with it.
async fn beginning(data: &Data) -> (Process, String, CensusClient<Channel>, u64) {
    let (leader, address) = coordinator(7, data, "127.0.0.1:0", &[]);
    let mut client = connect(&address).await;
    let worker = client.register(introduction("test")).await.unwrap().into_inner().worker;
    (leader, address, client, worker)
}

fn code<T>(result: Result<T, Status>) -> Code {
    result.map_or_else(|status| status.code(), |_| Code::Ok)
}

/// After whatever these clients have sent, an honest worker finishes the census.
async fn ends_well(leader: Process, address: &str, clients: &[u64]) {
    completed(address, clients).await;
    let output = leader.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected(7));
}

#[tokio::test]
async fn what_there_is_not_is_refused() {
    let data = Data::new();
    let (leader, address, mut client, worker) = beginning(&data).await;
    let stranger = worker + 1;
    let no_work =
        client.lease(wire::LeaseRequest { worker: stranger, room: 0, by_name: false }).await;
    assert_eq!(code(no_work), Code::NotFound);
    let refusals: [(u64, &[u8], u32, Code); 7] = [
        (stranger, &[0], 0, Code::NotFound),
        (worker, &[], 0, Code::InvalidArgument),
        (worker, &[1], 0, Code::InvalidArgument),
        (worker, &[3, 2, 1], 0, Code::InvalidArgument),
        (worker, &[9; 40], 0, Code::InvalidArgument),
        (worker, &[0; 12], 0, Code::NotFound),
        (worker, &[0], 999, Code::NotFound),
    ];
    for (worker, degrees, bucket, expected) in refusals {
        let request = || {
            tokio_stream::iter([wire::FetchRequest {
                worker,
                degrees: degrees.to_vec(),
                what: Some(What::Bucket(bucket)),
                only: Vec::new(),
            }])
        };
        let answers = [
            code(client.fetch_partition(request()).await),
            code(describe(&mut client, request()).await),
        ];
        assert_eq!(answers, [expected; 2], "{degrees:?}, bucket {bucket}");
    }
    ends_well(leader, &address, &[worker]).await;
}

#[tokio::test]
async fn what_is_no_delivery_is_refused() {
    let data = Data::new();
    let (leader, address, mut client, worker) = beginning(&data).await;
    let start = |lease| Part::Start(wire::CompleteStart { worker, lease, by_name: false });
    let piece = |data: &[u8], last| {
        Part::Piece(wire::BlockPiece { data: data.to_vec(), last, done: false })
    };
    let open = |length| piece(&vec![7; length], false);
    // Without a lease it is dropped.
    let dropped = client.complete(parts(vec![start(12345), unit(0)])).await;
    assert!(!dropped.unwrap().into_inner().accepted);
    let without_start = client.complete(parts(vec![unit(0)])).await;
    assert_eq!(code(without_start), Code::InvalidArgument);
    let grant = granted(&mut client, worker).await;
    // What breaks off is nobody's fault: the client may have given up.
    let delivery = || vec![start(grant.lease), unit(grant.units[0].shard)];
    let breaks_off =
        [vec![start(grant.lease)], delivery(), [delivery(), vec![open(PIECE_BYTES)]].concat()];
    for delivery in breaks_off {
        assert_eq!(code(client.complete(parts(delivery)).await), Code::InvalidArgument);
    }
    let leases = vec![grant.lease];
    let give_back = wire::GiveBackRequest { worker, leases, failure: String::new() };
    client.give_back(give_back).await.unwrap();
    // Whoever sends what is no delivery is not trusted any more, and has no lease.
    let deliveries: [(&str, Vec<Part>); 7] = [
        ("a block that is none", vec![unit(0), piece(b"no block", true)]),
        ("a block before any unit", vec![piece(b"before any unit", true)]),
        ("two starts", vec![start(0)]),
        ("two units for one", vec![unit(0), unit(0)]),
        ("little at a time", vec![unit(0), open(1), open(PIECE_BYTES)]),
        ("nothing at a time", vec![unit(0), open(0)]),
        ("far too much", [vec![unit(0)], vec![open(PIECE_BYTES); 70]].concat()),
    ];
    for (what, rest) in deliveries {
        let worker = client.register(introduction(what)).await.unwrap().into_inner().worker;
        let lease = granted(&mut client, worker).await.lease;
        let start = Part::Start(wire::CompleteStart { worker, lease, by_name: false });
        let delivery = [vec![start], rest].concat();
        assert_eq!(code(client.complete(parts(delivery)).await), Code::InvalidArgument, "{what}");
        let again = client.lease(wire::LeaseRequest { worker, room: 0, by_name: false }).await;
        assert_eq!(code(again), Code::FailedPrecondition, "{what}");
    }
    ends_well(leader, &address, &[worker]).await;
    let alarms = data.alarms();
    assert_eq!(alarms.lines().count(), 7, "{alarms}");
}

/// What the coordinator sees of workers that are killed: each had the first unit, on a connection
/// that breaks, and is silent from then on. Nobody is to blame, and the next one solves it.
#[tokio::test]
async fn a_unit_whose_workers_vanish_goes_to_the_next_however_many_there_were() {
    let data = Data::new();
    let (leader, address) = coordinator(7, &data, "127.0.0.1:0", &["--lease", "1s"]);
    let (mut leases, mut workers) = (HashSet::new(), Vec::new());
    for number in 0..6 {
        let mut client = connect(&address).await;
        let introduction = introduction(format!("vanishing {number}"));
        let worker = client.register(introduction).await.unwrap().into_inner().worker;
        // It is answered as soon as the lease of the one before has expired.
        let grant = timeout(GIVE_UP, granted(&mut client, worker)).await.expect("it expires");
        assert_eq!(grant.units, [wire::UnitId { shard: 0, part: 0 }]);
        assert!(leases.insert(grant.lease));
        workers.push(worker);
    }
    ends_well(leader, &address, &workers).await;
    assert_eq!(data.alarms(), "no alarms\n");
}

#[tokio::test]
async fn messages_longer_than_any_worker_has_are_refused() {
    let data = Data::new();
    let (leader, address, mut client, worker) = beginning(&data).await;
    let leases = vec![granted(&mut client, worker).await.lease; 70_000];
    let heartbeat = wire::HeartbeatRequest { worker, leases: leases.clone() };
    assert_eq!(code(client.heartbeat(heartbeat).await), Code::OutOfRange);
    let give_back =
        wire::GiveBackRequest { worker, leases: leases.clone(), failure: String::new() };
    assert_eq!(code(client.give_back(give_back).await), Code::OutOfRange);
    let long = introduction("x".repeat(70_000));
    assert_eq!(code(client.register(long).await), Code::OutOfRange);
    let only = vec![vec![7; 16]; 100_000];
    let fetch = wire::FetchRequest { worker, degrees: vec![0], what: Some(What::Bucket(0)), only };
    let fetched = client.fetch_partition(tokio_stream::iter([fetch])).await;
    assert_eq!(code(fetched), Code::InvalidArgument);
    let leases = leases[..1].to_vec();
    let give_back = wire::GiveBackRequest { worker, leases, failure: String::new() };
    client.give_back(give_back).await.unwrap();
    ends_well(leader, &address, &[worker]).await;
}

/// The beginning of a message of megabytes, whose end does not come.
struct Endless {
    bytes: usize,
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        const LENGTH: usize = 4 << 20;
        if self.bytes >= LENGTH - 1 {
            return Poll::Pending;
        }
        let mut data = vec![0; 1 << 14];
        if self.bytes == 0 {
            data[1..5].copy_from_slice(&(LENGTH as u32).to_be_bytes());
        }
        self.bytes += data.len();
        Poll::Ready(Some(Ok(Frame::data(data.into()))))
    }
}

/// Hundreds of calls that never come to their end are refused when they are too large, and a crowd
/// that registers is known as far as a status can tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_without_end_and_crowds_of_names_do_not_fill_the_memory() {
    let data = Data::new();
    let (leader, address, _, worker) = beginning(&data).await;
    let peak = watch_memory(leader.0.id());
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut calls = Vec::new();
    for number in 0..300 {
        // Each on a connection of its own.
        let mut channel = endpoint.connect().await.unwrap();
        let call = ["Status", "Register", "Heartbeat"][number % 3];
        let request = http::Request::post(format!("http://{address}/trailtrap.v1.Census/{call}"))
            .header("content-type", "application/grpc")
            .body(tonic::body::Body::new(Endless { bytes: 0 }))
            .unwrap();
        calls.push(tokio::spawn(async move {
            std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
            let answer = channel.call(request).await.unwrap();
            answer.headers()["grpc-status"].to_str().unwrap().parse::<i32>().unwrap()
        }));
    }
    for call in calls {
        let code = timeout(GIVE_UP, call).await.expect("it is refused").unwrap();
        let expected = [Code::OutOfRange as i32, Code::ResourceExhausted as i32];
        assert!(expected.contains(&code), "{code}");
    }
    // Names as long as can be.
    let client = connect(&address).await;
    let crowd = (0..50).map(|group| {
        let mut client = client.clone();
        tokio::spawn(async move {
            let mut workers = Vec::new();
            for number in 0..200 {
                let name = format!("{group}/{number} {}", "🕵".repeat(100));
                let reply = client.register(introduction(name)).await.unwrap();
                workers.push(reply.into_inner().worker);
            }
            workers
        })
    });
    let mut workers = vec![worker];
    for group in crowd.collect::<Vec<_>>() {
        workers.extend(group.await.unwrap());
    }
    let told = tokio::task::spawn_blocking({
        let address = address.clone();
        move || status(&["--coordinator", &address])
    });
    let known = told.await.unwrap()["workers"].as_array().expect("there is a status").len();
    assert!((1000..=MOST_WORKERS).contains(&known), "{known} workers");
    ends_well(leader, &address, &workers).await;
    stayed_small(peak);
}
