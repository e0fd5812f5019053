//! The gRPC service against clients that are of another version, confused or hostile.

mod common;

use common::{Data, coordinator, introduction};
use tonic::{Code, Status};
use trailtrap_shared::{
    codec,
    degree::DegreeSequence,
    game::{Tally, TrailTrap},
    graph::Graph,
    partition::{self, Table},
    statistics::Statistics,
    wire::{self, census_client::CensusClient, complete_request::Part, fetch_request::What, lease_reply::Answer},
};

fn parts(parts: Vec<Part>) -> impl tonic::IntoStreamingRequest<Message = wire::CompleteRequest> {
    tokio_stream::iter(parts.into_iter().map(|part| wire::CompleteRequest { part: Some(part) }))
}

fn unit(shard: u32) -> Part {
    Part::Unit(wire::UnitResult {
        unit: Some(wire::UnitId { shard, part: 0 }),
        statistics: vec![1, 2, 3],
        digest: vec![0; 32],
        elapsed_microseconds: 1,
    })
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

#[tokio::test]
async fn nonsense_is_refused_and_the_census_goes_on() {
    let data = Data::new();
    let (leader, address) = coordinator(7, &data, "127.0.0.1:0", &[]);
    let mut client = CensusClient::connect(format!("http://{address}")).await.unwrap();
    let code = |status: Status| status.code();
    // Strangers.
    assert_eq!(client.lease(wire::LeaseRequest { worker: 5 }).await.map_err(code).unwrap_err(), Code::NotFound);
    let fetch = |worker, degrees: &[u8], bucket| {
        let what = Some(What::Bucket(bucket));
        tokio_stream::iter([wire::FetchRequest { worker, degrees: degrees.to_vec(), what }])
    };
    assert_eq!(client.fetch_partition(fetch(5, &[0], 0)).await.map_err(code).unwrap_err(), Code::NotFound);
    // A registered worker that asks for what there is not.
    let worker = client.register(introduction("test")).await.unwrap().into_inner().worker;
    for degrees in [&[][..], &[1], &[3, 2, 1], &[9; 40]] {
        let answer = client.fetch_partition(fetch(worker, degrees, 0)).await.map_err(code);
        assert_eq!(answer.unwrap_err(), Code::InvalidArgument, "{degrees:?}");
    }
    assert_eq!(client.fetch_partition(fetch(worker, &[0; 12], 0)).await.map_err(code).unwrap_err(), Code::NotFound);
    assert_eq!(client.fetch_partition(fetch(worker, &[0], 999)).await.map_err(code).unwrap_err(), Code::NotFound);
    // Deliveries without a lease are dropped, those that are no deliveries refused.
    let start = |lease| Part::Start(wire::CompleteStart { worker, lease });
    assert!(!client.complete(parts(vec![start(12345), unit(0)])).await.unwrap().into_inner().accepted);
    assert_eq!(client.complete(parts(vec![unit(0)])).await.map_err(code).unwrap_err(), Code::InvalidArgument);
    let Some(Answer::Grant(grant)) = client.lease(wire::LeaseRequest { worker }).await.unwrap().into_inner().answer
    else {
        panic!("work is there");
    };
    let piece = |data: &[u8]| Part::Piece(wire::BlockPiece { data: data.to_vec(), last: true, done: false });
    for delivery in [
        vec![start(grant.lease), unit(grant.units[0].shard), piece(b"no block")],
        vec![start(grant.lease), piece(b"before any unit")],
        vec![start(grant.lease), start(grant.lease)],
        vec![start(grant.lease), unit(u32::MAX)],
        vec![start(grant.lease), unit(grant.units[0].shard)],
    ] {
        assert_eq!(client.complete(parts(delivery)).await.map_err(code).unwrap_err(), Code::InvalidArgument);
    }
    client.give_back(wire::GiveBackRequest { worker, leases: vec![grant.lease, 1, 2] }).await.unwrap();
    // An honest worker finishes the census.
    let honest = common::Process::start(common::worker().args(["--coordinator", &address, "--threads", "1"]));
    let output = leader.finish();
    assert!(output.status.success(), "{}", common::stderr(&output));
    assert_eq!(common::stdout(&output), common::census_json(7, &Data::new(), &[]));
    assert!(honest.finish().status.success());
}

/// A worker that was given up delivers after all, and something else than the one that took its place.
#[tokio::test]
async fn two_computations_that_differ_end_the_census() {
    let data = Data::new();
    common::census_json(8, &data, &[]);
    let (leader, address) = coordinator(9, &data, "127.0.0.1:0", &["--lease", "1"]);
    let mut client = CensusClient::connect(format!("http://{address}")).await.unwrap();
    let worker = client.register(introduction("test")).await.unwrap().into_inner().worker;
    let Some(Answer::Grant(grant)) = client.lease(wire::LeaseRequest { worker }).await.unwrap().into_inner().answer
    else {
        panic!("work is there");
    };
    assert_eq!((grant.order, grant.units.len()), (9, 1), "only the edgeless graph is ready");
    let honest = common::Process::start(common::worker().args(["--coordinator", &address, "--threads", "1"]));
    loop {
        let json = client.status(wire::StatusRequest {}).await.unwrap().into_inner().json;
        let status: serde_json::Value = serde_json::from_str(&json).unwrap();
        if status["order"]["shards_done"].as_u64() > Some(0) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    // The right graph, blocks and counts, and another digest.
    let sequence = DegreeSequence::new([0; 9]);
    let slots = [partition::slot_of_key(9, 0)];
    let table = Table::new::<TrailTrap>(sequence, 0, 0, slots.into_iter(), |_, record| record.fill(0));
    let mut statistics = Statistics::default();
    statistics.add(&Graph::edgeless(9), 362_880, &Tally::default());
    let mut delivery = vec![
        Part::Start(wire::CompleteStart { worker, lease: grant.lease }),
        Part::Unit(wire::UnitResult {
            unit: Some(grant.units[0]),
            statistics: codec::encode(&statistics),
            digest: vec![7; 32],
            elapsed_microseconds: 1,
        }),
    ];
    delivery.extend(
        table
            .to_blocks::<TrailTrap>(0)
            .map(|block| Part::Piece(wire::BlockPiece { data: block.into_bytes(), last: true, done: false })),
    );
    assert!(!client.complete(parts(delivery)).await.unwrap().into_inner().accepted);
    let output = leader.finish();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "nothing is reported");
    drop(honest);
}
