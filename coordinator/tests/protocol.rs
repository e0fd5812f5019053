//! The gRPC service against clients that are of another version, confused or hostile.

mod common;

use common::{Data, coordinator, introduction, parts};
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

#[tokio::test]
async fn nonsense_is_refused_and_the_census_goes_on() {
    let data = Data::new();
    let (leader, address) = coordinator(7, &data, "127.0.0.1:0", &[]);
    let mut client = CensusClient::connect(format!("http://{address}")).await.unwrap();
    let code = |status: Status| status.code();
    // Strangers.
    assert_eq!(
        client.lease(wire::LeaseRequest { worker: 5 }).await.map_err(code).unwrap_err(),
        Code::NotFound
    );
    let fetch = |worker, degrees: &[u8], bucket| {
        let what = Some(What::Bucket(bucket));
        tokio_stream::iter([wire::FetchRequest {
            worker,
            degrees: degrees.to_vec(),
            what,
            only: Vec::new(),
        }])
    };
    assert_eq!(
        client.fetch_partition(fetch(5, &[0], 0)).await.map_err(code).unwrap_err(),
        Code::NotFound
    );
    assert_eq!(
        describe(&mut client, fetch(5, &[0], 0)).await.map_err(code).unwrap_err(),
        Code::NotFound
    );
    // A registered worker that asks for what there is not.
    let worker = client.register(introduction("test")).await.unwrap().into_inner().worker;
    for degrees in [&[][..], &[1], &[3, 2, 1], &[9; 40]] {
        let answer = client.fetch_partition(fetch(worker, degrees, 0)).await.map_err(code);
        assert_eq!(answer.unwrap_err(), Code::InvalidArgument, "{degrees:?}");
        let answer = describe(&mut client, fetch(worker, degrees, 0)).await.map_err(code);
        assert_eq!(answer.unwrap_err(), Code::InvalidArgument, "{degrees:?}");
    }
    let answer = describe(&mut client, fetch(worker, &[0], 999)).await.map_err(code);
    assert_eq!(answer.unwrap_err(), Code::NotFound);
    assert_eq!(
        client.fetch_partition(fetch(worker, &[0; 12], 0)).await.map_err(code).unwrap_err(),
        Code::NotFound
    );
    assert_eq!(
        client.fetch_partition(fetch(worker, &[0], 999)).await.map_err(code).unwrap_err(),
        Code::NotFound
    );
    // Deliveries without a lease are dropped, those that are no deliveries refused.
    let start = |lease| Part::Start(wire::CompleteStart { worker, lease });
    assert!(
        !client.complete(parts(vec![start(12345), unit(0)])).await.unwrap().into_inner().accepted
    );
    assert_eq!(
        client.complete(parts(vec![unit(0)])).await.map_err(code).unwrap_err(),
        Code::InvalidArgument
    );
    let Some(Answer::Grant(grant)) =
        client.lease(wire::LeaseRequest { worker }).await.unwrap().into_inner().answer
    else {
        panic!("work is there");
    };
    let piece = |data: &[u8]| {
        Part::Piece(wire::BlockPiece { data: data.to_vec(), last: true, done: false })
    };
    let open =
        |length| Part::Piece(wire::BlockPiece { data: vec![7; length], last: false, done: false });
    for delivery in [
        vec![start(grant.lease), unit(grant.units[0].shard), piece(b"no block")],
        vec![start(grant.lease), piece(b"before any unit")],
        vec![start(grant.lease), start(grant.lease)],
        vec![start(grant.lease), unit(u32::MAX)],
        vec![start(grant.lease), unit(grant.units[0].shard)],
        // Little at a time, and far too much.
        vec![start(grant.lease), unit(grant.units[0].shard), open(1), open(PIECE_BYTES)],
        vec![start(grant.lease), unit(grant.units[0].shard), open(0)],
        [vec![start(grant.lease), unit(grant.units[0].shard)], vec![open(PIECE_BYTES); 70]]
            .concat(),
    ] {
        assert_eq!(
            client.complete(parts(delivery)).await.map_err(code).unwrap_err(),
            Code::InvalidArgument
        );
    }
    // Lists longer than any worker has.
    let many = vec![grant.lease; 100_000];
    let heartbeat = wire::HeartbeatRequest { worker, leases: many.clone() };
    assert_eq!(
        client.heartbeat(heartbeat).await.map_err(code).unwrap_err(),
        Code::InvalidArgument
    );
    let give_back = wire::GiveBackRequest { worker, leases: many, failure: String::new() };
    assert_eq!(
        client.give_back(give_back).await.map_err(code).unwrap_err(),
        Code::InvalidArgument
    );
    let only = vec![vec![7; 16]; 100_000];
    let fetch = wire::FetchRequest { worker, degrees: vec![0], what: Some(What::Bucket(0)), only };
    let fetched = client.fetch_partition(tokio_stream::iter([fetch])).await;
    assert_eq!(fetched.map_err(code).unwrap_err(), Code::InvalidArgument);
    client
        .give_back(wire::GiveBackRequest {
            worker,
            leases: vec![grant.lease, 1, 2],
            failure: String::new(),
        })
        .await
        .unwrap();
    // An honest worker finishes the census.
    let honest = common::Process::start(common::worker().args([
        "--coordinator",
        &address,
        "--threads",
        "1",
    ]));
    let output = leader.finish();
    assert!(output.status.success(), "{}", common::stderr(&output));
    assert_eq!(common::stdout(&output), common::census_json(7, &Data::new(), &[]));
    assert!(honest.finish().status.success());
}
