//! The gRPC service against clients that are of another version, confused or hostile.

mod common;

use common::{
    Data, Process, census_json, coordinator, introduction, parts, stderr, stdout, worker,
};
use tonic::{Code, Status, transport::Channel};
use trailtrap_shared::protocol::wire::{
    self, PIECE_BYTES, census_client::CensusClient, complete_request::Part, fetch_request::What,
    lease_reply::Answer,
};

fn unit(shard: u32) -> Part {
    Part::Unit(wire::UnitResult {
        unit: Some(wire::UnitId { shard, part: 0 }),
        statistics: vec![1, 2, 3],
        digest: vec![0; 32],
        elapsed_microseconds: 1,
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
    let mut client = CensusClient::connect(format!("http://{address}")).await.unwrap();
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
    let mut client = CensusClient::connect(format!("http://{address}")).await.unwrap();
    let worker = client.register(introduction("test")).await.unwrap().into_inner().worker;
    (leader, address, client, worker)
}

/// The lease of the first unit.
async fn lease(client: &mut CensusClient<Channel>, worker: u64) -> wire::Grant {
    let request = wire::LeaseRequest { worker };
    match client.lease(request).await.unwrap().into_inner().answer {
        Some(Answer::Grant(grant)) => grant,
        other => panic!("work is there: {other:?}"),
    }
}

fn code<T>(result: Result<T, Status>) -> Code {
    result.map_or_else(|status| status.code(), |_| Code::Ok)
}

/// After whatever clients have sent, an honest worker finishes the census.
fn ends_well(leader: Process, address: &str) {
    let honest = Process::start(worker().args(["--coordinator", address, "--threads", "1"]));
    let output = leader.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), census_json(7, &Data::new(), &[]));
    assert!(honest.finish().status.success());
}

#[tokio::test]
async fn what_there_is_not_is_refused() {
    let data = Data::new();
    let (leader, address, mut client, worker) = beginning(&data).await;
    let stranger = worker + 1;
    let no_work = client.lease(wire::LeaseRequest { worker: stranger }).await;
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
    ends_well(leader, &address);
}

#[tokio::test]
async fn what_is_no_delivery_is_refused() {
    let data = Data::new();
    let (leader, address, mut client, worker) = beginning(&data).await;
    let start = |lease| Part::Start(wire::CompleteStart { worker, lease });
    // Without a lease it is dropped.
    let dropped = client.complete(parts(vec![start(12345), unit(0)])).await;
    assert!(!dropped.unwrap().into_inner().accepted);
    let grant = lease(&mut client, worker).await;
    let (start, first) = (|| start(grant.lease), || unit(grant.units[0].shard));
    let piece = |data: &[u8], last| {
        Part::Piece(wire::BlockPiece { data: data.to_vec(), last, done: false })
    };
    let open = |length| piece(&vec![7; length], false);
    let deliveries = [
        ("without a start", vec![first()]),
        ("a block that is none", vec![start(), first(), piece(b"no block", true)]),
        ("a block before any unit", vec![start(), piece(b"before any unit", true)]),
        ("two starts", vec![start(), start()]),
        ("no such shard", vec![start(), unit(u32::MAX)]),
        ("a unit without blocks", vec![start(), first()]),
        ("little at a time", vec![start(), first(), open(1), open(PIECE_BYTES)]),
        ("nothing at a time", vec![start(), first(), open(0)]),
        ("far too much", [vec![start(), first()], vec![open(PIECE_BYTES); 70]].concat()),
    ];
    for (what, delivery) in deliveries {
        assert_eq!(code(client.complete(parts(delivery)).await), Code::InvalidArgument, "{what}");
    }
    let leases = vec![grant.lease, 1, 2];
    let give_back = wire::GiveBackRequest { worker, leases, failure: String::new() };
    client.give_back(give_back).await.unwrap();
    ends_well(leader, &address);
}

#[tokio::test]
async fn lists_longer_than_any_worker_has_are_refused() {
    let data = Data::new();
    let (leader, address, mut client, worker) = beginning(&data).await;
    let leases = vec![lease(&mut client, worker).await.lease; 100_000];
    let heartbeat = wire::HeartbeatRequest { worker, leases: leases.clone() };
    assert_eq!(code(client.heartbeat(heartbeat).await), Code::InvalidArgument);
    let give_back =
        wire::GiveBackRequest { worker, leases: leases.clone(), failure: String::new() };
    assert_eq!(code(client.give_back(give_back).await), Code::InvalidArgument);
    let only = vec![vec![7; 16]; 100_000];
    let fetch = wire::FetchRequest { worker, degrees: vec![0], what: Some(What::Bucket(0)), only };
    let fetched = client.fetch_partition(tokio_stream::iter([fetch])).await;
    assert_eq!(code(fetched), Code::InvalidArgument);
    let leases = leases[..1].to_vec();
    let give_back = wire::GiveBackRequest { worker, leases, failure: String::new() };
    client.give_back(give_back).await.unwrap();
    ends_well(leader, &address);
}
