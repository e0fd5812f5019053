//! Workers that lie, machines that err, and units that nobody can solve.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Instant,
};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tonic::{Code, transport::Channel};
use trailtrap::serve::embedded::EmbeddedLink;
use trailtrap_census::{
    core::random::Random,
    driver::{Census, CensusOptions, Keep, KeptIn, Refusal},
    records::{Delivery, OrderResult, alarm::AlarmKind, delivery},
    store::Store,
};
use trailtrap_shared::{
    count::{digest::Digest, statistics::Statistics, summary::Summary},
    game::{
        Game, Tally, TrailTrap,
        trail_trap::{self, Outcome},
    },
    graph::{Graph, degree::DegreeSequence},
    labelling::batch::Kernel,
    partition::{self, BucketTable, Section},
    plan::{Goal, Plan, PlanOptions, Unit},
    protocol::{
        codec, messages,
        wire::{self, census_client::CensusClient, complete_request::Part, lease_reply::Answer},
    },
};
use trailtrap_worker::{
    engine::Engine,
    kernel::{Evidence, SolvedUnit},
    link::{Lease, Link, LinkError, RunEnd, memory},
    supply::kept::{KeptDepot, Mark},
};

use crate::common::{
    Data, GIVE_UP, Process,
    answers::{Answers, solver},
    by_name, census_json, completed, connect, coordinator, eventually, expected, farewell,
    granted, honest, introduction, leased,
    lies::{Delivering, Lie, copied},
    next_work, parts, run, stderr, stdout, succeeded,
};

type PlainClient = CensusClient<Channel>;

async fn status(client: &mut PlainClient) -> Value {
    serde_json::from_str(&client.status(wire::StatusRequest {}).await.unwrap().into_inner().json)
        .unwrap()
}

/// The edgeless graph of order 8, the first unit of its order, with an outcome that is said to be
/// its own. All that is stated follows from that outcome.
fn edgeless(worker: u64, grant: &wire::Grant, outcome: &Outcome) -> Vec<Part> {
    assert_eq!((grant.order, grant.units.len()), (8, 1), "only the edgeless graph is ready");
    let graph = Graph::edgeless(8);
    let slots = [partition::slot_of_key(8, 0)];
    let table = BucketTable::new(
        TrailTrap::LAYOUT,
        DegreeSequence::new([0; 8]),
        0,
        0,
        slots.into_iter(),
        |_, record| {
            TrailTrap::encode(8, outcome, record);
        },
    );
    let mut statistics = Statistics::default();
    let tally: Tally = TrailTrap::tally(&graph, 40_320, outcome);
    statistics.add(&graph, 40_320, &tally);
    let mut digest = Digest::default();
    digest.add::<TrailTrap>(&graph, outcome);
    let mut delivery = vec![
        Part::Start(wire::CompleteStart { worker, lease: grant.lease, by_name: false }),
        Part::Unit(wire::UnitResult {
            unit: Some(grant.units[0]),
            statistics: codec::encode(&statistics),
            digest: digest.to_le_bytes().to_vec(),
            elapsed_microseconds: 1,
            content: Vec::new(),
            ahead: Vec::new(),
        }),
    ];
    let blocks = table.to_blocks(0).into_iter();
    delivery.extend(blocks.map(|block| {
        Part::Piece(wire::BlockPiece { data: block.into_bytes(), last: true, done: false })
    }));
    delivery
}

/// The player to move is said to win from everywhere, without an edge to go along.
fn lie() -> Outcome {
    let mut outcome: Outcome = Outcome::default();
    outcome.wins[..8].fill(0xff);
    outcome
}

/// Order 7 is done; a client of a coordinator of order 8 holds the lease of the first unit.
async fn beginning(
    data: &Data,
    more: &[&str],
) -> (Process, String, PlainClient, u64, wire::Grant) {
    census_json(7, data, &[]);
    let (leader, address) = coordinator(8, data, "127.0.0.1:0", more);
    let mut client = connect(&address).await;
    let worker = client.register(introduction("test")).await.unwrap().into_inner().worker;
    let grant = granted(&mut client, worker).await;
    (leader, address, client, worker, grant)
}

fn verify(data: &Data) -> std::process::Output {
    run(&["verify", "8", "--level", "1", "--data", &data.text()])
}

/// The census has come to the right end, with one alarm, which keeps `verify` from passing until
/// it is settled.
fn ended_well_with_an_alarm(leader: Process, data: &Data, kind: &str) {
    let output = leader.finish();
    succeeded(&output);
    assert_eq!(stdout(&output), expected(8));
    let alarms = data.alarms();
    assert!(
        alarms.starts_with(&format!("alarm 1, {kind}, order 8")) && alarms.contains("(open)"),
        "{alarms}"
    );
    let status = stdout(&run(&["status", "--data", &data.text()]));
    assert!(status.contains("alarm 1"), "{status}");
    let verified = verify(data);
    assert_eq!(verified.status.code(), Some(1), "{}", stdout(&verified));
    assert!(
        stdout(&verified).contains("alarm 1") && stdout(&verified).contains("WRONG"),
        "{}",
        stdout(&verified)
    );
    // What is disputed is not exported unmarked.
    let table = |more: &[&str]| {
        run(&[&["export", "table", "orders", "--data", &data.text()], more].concat())
    };
    let refused = table(&[]);
    assert_eq!((refused.status.code(), stdout(&refused)), (Some(1), String::new()));
    assert!(stderr(&refused).contains("alarms --settle 1"), "{}", stderr(&refused));
    assert!(stdout(&table(&["--unfinished"])).contains("Order 8 is DISPUTED"));
    let settled = run(&[
        "alarms",
        "--settle",
        "1",
        "--because",
        "the liar is known",
        "--data",
        &data.text(),
    ]);
    assert!(stdout(&settled).contains("settled: the liar is known"), "{}", stdout(&settled));
    let verified = verify(data);
    assert!(verified.status.success(), "{}", stdout(&verified));
    let exported = table(&[]);
    assert!(exported.status.success(), "{}", stderr(&exported));
}

/// What a bundle says about the trust that an order deserves.
fn exported_trust(data: &Data, order: usize) -> Value {
    let bundle = data.path().with_file_name("bundle");
    let made = run(&["export", "bundle", bundle.to_str().unwrap(), "--data", &data.text()]);
    assert!(made.status.success(), "{}", stderr(&made));
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(bundle.join("manifest.json")).unwrap()).unwrap();
    manifest["orders"][order - 1]["trust"].clone()
}

/// Another client takes the place of a worker whose lease has run out, and solves its unit: the
/// number of that client.
async fn taken_over(address: &str) -> u64 {
    let answers = Answers::solve(8, PlanOptions::default());
    let mut client = connect(address).await;
    let worker = client.register(introduction("other")).await.unwrap().into_inner().worker;
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < GIVE_UP, "the unit is solved by another");
        let grant = granted(&mut client, worker).await;
        let delivery = answers.delivery(worker, grant.lease, &messages::units(&grant));
        // On a slow machine this lease may run out too.
        if client.complete(tokio_stream::iter(delivery)).await.unwrap().into_inner().accepted {
            return worker;
        }
    }
}

/// A worker that was given up delivers after all, and something else than the one that took its
/// place.
#[tokio::test]
async fn a_late_result_that_differs_is_judged_and_not_believed() {
    let data = Data::new();
    // The lie is not drawn to be tried before it is compared.
    let (leader, address, mut client, worker, grant) =
        beginning(&data, &["--lease", "1", "--sample", "0"]).await;
    let other = taken_over(&address).await;
    let delivery = edgeless(worker, &grant, &lie());
    let answer = client.complete(parts(delivery)).await.unwrap_err();
    assert_eq!(answer.code(), Code::InvalidArgument, "{}", answer.message());
    assert!(answer.message().contains("the first is right"), "{}", answer.message());
    let no_more =
        client.lease(wire::LeaseRequest { worker, room: 0, by_name: false }).await.unwrap_err();
    assert_eq!(no_more.code(), Code::FailedPrecondition);
    completed(&address, &[other]).await;
    ended_well_with_an_alarm(leader, &data, "disagreement");
}

/// Two workers have come to the same then.
#[tokio::test]
async fn a_late_result_that_agrees_is_welcome() {
    let data = Data::new();
    let answers = Answers::solve(8, PlanOptions::default());
    let (leader, address, mut client, worker, grant) = beginning(&data, &["--lease", "1"]).await;
    let other = taken_over(&address).await;
    let delivery = answers.delivery(worker, grant.lease, &messages::units(&grant));
    assert!(!client.complete(tokio_stream::iter(delivery)).await.unwrap().into_inner().accepted);
    completed(&address, &[worker, other]).await;
    succeeded(&leader.finish());
    assert_eq!(data.alarms(), "no alarms\n");
    let store = Store::open_read_only(&data.path().join("store")).unwrap();
    let confirmed = store.unit(messages::units(&grant)[0]).unwrap().unwrap().confirmed;
    let confirmed: Vec<String> = confirmed.iter().map(ToString::to_string).collect();
    assert_eq!(confirmed, ["test, portable"]);
}

#[tokio::test]
async fn a_lie_about_an_outcome_is_not_let_in_when_records_are_tried() {
    let data = Data::new();
    let (leader, address, mut client, worker, grant) = beginning(&data, &["--sample", "1"]).await;
    let answer = client.complete(parts(edgeless(worker, &grant, &lie()))).await.unwrap_err();
    assert!(
        answer.message().contains("does not follow from its predecessors"),
        "{}",
        answer.message()
    );
    assert_eq!(leased(&mut client, worker).await.unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(
        client.register(introduction("test")).await.unwrap_err().code(),
        Code::FailedPrecondition
    );
    let honest = honest(&address);
    ended_well_with_an_alarm(leader, &data, "trial");
    succeeded(&honest.finish());
    let trust = exported_trust(&data, 8);
    assert_eq!(
        (&trust["replication"], &trust["records_tried"]),
        (&json!(1), &json!(12_346)),
        "every graph of order 8"
    );
}

/// The lie is let in, and much is computed from it; the second computation of the unit finds it
/// out.
#[tokio::test]
async fn a_lie_is_found_out_for_certain_when_everything_is_solved_twice() {
    let data = Data::new();
    let (leader, address, mut client, worker, grant) =
        beginning(&data, &["--sample", "0", "--double-check", "1"]).await;
    assert!(
        client
            .complete(parts(edgeless(worker, &grant, &lie())))
            .await
            .unwrap()
            .into_inner()
            .accepted
    );
    let workers = [honest(&address), honest(&address)];
    ended_well_with_an_alarm(leader, &data, "disagreement");
    for worker in workers {
        succeeded(&worker.finish());
    }
    let store = Store::open_read_only(&data.path().join("store")).unwrap();
    assert!(store.units(8).unwrap().iter().all(|(_, record)| record.confirmed.len() == 1));
    let units = store.units(8).unwrap().len();
    drop(store);
    let expected = json!({
        "replication": 2,
        "units_confirmed": units,
        "records_tried": 0,
        "alarms_settled": 1,
    });
    assert_eq!(exported_trust(&data, 8), expected);
}

/// Changes what is stated of a unit.
type Alteration = (&'static str, fn(&mut Statistics, &mut Vec<u8>));

const ALTERATIONS: [Alteration; 8] = [
    ("digest", |_, digest| digest[5] ^= 1),
    ("connected wins", |s, _| s.classes.connected.listed += 1),
    ("all wins", |s, _| s.classes.all.listed += 1),
    ("labelled graphs", |s, _| s.labelled.all.graphs -= 1),
    ("a labelled sum", |s, _| s.labelled.sums.0[trail_trap::WON_POSITIONS] += 1),
    ("a sum", |s, _| s.classes.sums.0[trail_trap::REFUTED_ENDS] -= 1),
    // It is possible, and in no record.
    ("first moves", |s, _| s.classes.sums.0[trail_trap::WINNING_FIRST_MOVES] -= 1),
    ("structure", |s, _| {
        let cell = s.structure.girth.remove(&0).expect("it is a forest");
        s.structure.girth.insert(3, cell);
    }),
];

/// Whoever states what does not follow from the records it delivers is named, and nothing of it is
/// let in: not the digest, nor any count, nor the sum that records do not keep.
#[tokio::test]
async fn whatever_is_altered_beside_the_records_is_noticed() {
    let data = Data::new();
    let answers = Answers::solve(8, PlanOptions::default());
    let (leader, address, mut client, worker, grant) = beginning(&data, &["--sample", "0"]).await;
    let units = messages::units(&grant);
    let delivery = answers.delivery(worker, grant.lease, &units);
    assert!(client.complete(tokio_stream::iter(delivery)).await.unwrap().into_inner().accepted);
    // The graph with one edge comes next, which P1 wins by two first moves.
    for (what, alter) in ALTERATIONS {
        let worker = client.register(introduction(what)).await.unwrap().into_inner().worker;
        let grant = granted(&mut client, worker).await;
        let units = messages::units(&grant);
        let mut delivery = answers.delivery(worker, grant.lease, &units);
        let Some(Part::Unit(result)) = &mut delivery[1].part else {
            panic!("a unit comes second")
        };
        let mut statistics: Statistics = codec::decode(&result.statistics).unwrap();
        assert_eq!(statistics.classes.sums.0[trail_trap::WINNING_FIRST_MOVES], 2);
        alter(&mut statistics, &mut result.digest);
        result.statistics = codec::encode(&statistics);
        let answer = client.complete(tokio_stream::iter(delivery)).await.unwrap_err();
        assert_eq!(answer.code(), Code::InvalidArgument, "{what}: {}", answer.message());
        let again = client.register(introduction(what)).await.unwrap_err();
        assert_eq!(again.code(), Code::FailedPrecondition, "{what}");
    }
    completed(&address, &[worker]).await;
    let output = leader.finish();
    succeeded(&output);
    assert_eq!(stdout(&output), expected(8));
    let alarms = data.alarms();
    assert_eq!(alarms.lines().count(), ALTERATIONS.len(), "{alarms}");
    for ((what, _), line) in ALTERATIONS.iter().zip(alarms.lines()) {
        assert!(line.contains(&format!("a result of {what}, portable was not let in")), "{line}");
    }
}

/// One worker that delivers no graphs, and an honest one.
#[tokio::test]
async fn an_empty_result_is_wrong_whatever_the_others_say() {
    let data = Data::new();
    let (leader, address, mut client, worker, grant) =
        beginning(&data, &["--sample", "0", "--double-check", "1"]).await;
    let mut delivery = edgeless(worker, &grant, &Outcome::default());
    delivery.truncate(2);
    let Part::Unit(result) = &mut delivery[1] else { panic!("a unit comes second") };
    result.statistics = codec::encode(&Statistics::default());
    result.digest = vec![0; 32];
    let nothing = BucketTable::new(
        TrailTrap::LAYOUT,
        DegreeSequence::new([0; 8]),
        0,
        0,
        std::iter::empty(),
        |_, _| {},
    );
    delivery.extend(nothing.to_blocks(0).into_iter().map(|block| {
        Part::Piece(wire::BlockPiece { data: block.into_bytes(), last: true, done: false })
    }));
    let answer = client.complete(parts(delivery)).await.unwrap_err();
    assert!(answer.message().contains("is 0, not 1"), "{}", answer.message());
    let workers = [honest(&address), honest(&address)];
    ended_well_with_an_alarm(leader, &data, "trial");
    for worker in workers {
        succeeded(&worker.finish());
    }
}

#[tokio::test]
async fn a_unit_that_many_workers_cannot_solve_is_set_aside() {
    let data = Data::new();
    let (leader, _, mut client, mut worker, mut grant) = beginning(&data, &[]).await;
    for attempt in 1..=5 {
        let failure = format!("out of memory, attempt {attempt}");
        client
            .give_back(wire::GiveBackRequest { worker, leases: vec![grant.lease], failure })
            .await
            .unwrap();
        if attempt < 5 {
            let other = introduction(format!("test {attempt}"));
            worker = client.register(other).await.unwrap().into_inner().worker;
            grant = granted(&mut client, worker).await;
            assert_eq!(grant.units.len(), 1);
        }
    }
    let failures = status(&mut client).await["order"]["set_aside"][0]["failures"].clone();
    assert_eq!(failures.as_array().unwrap().len(), 5);
    assert_eq!(failures[4], "test 4, portable: out of memory, attempt 5");
    // Told, or cut off: there is nothing else to do.
    assert!(client.lease(wire::LeaseRequest { worker, room: 0, by_name: false }).await.is_err());
    let output = leader.finish();
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
    // Perhaps it was the machines: the next start tries again.
    assert_eq!(census_json(8, &data, &[]), expected(8));
}

/// One worker that gives everything back does not end a census, however often it does.
#[tokio::test]
async fn one_worker_that_fails_again_and_again_ends_nothing() {
    let data = Data::new();
    let (leader, address, mut client, worker, mut grant) = beginning(&data, &[]).await;
    for attempt in 1..=3 {
        let failure = format!("attempt {attempt}");
        client
            .give_back(wire::GiveBackRequest { worker, leases: vec![grant.lease], failure })
            .await
            .unwrap();
        if attempt < 3 {
            grant = granted(&mut client, worker).await;
        }
    }
    // It does not get that unit any more.
    let request = wire::LeaseRequest { worker, room: 0, by_name: false };
    let answer = client.lease(request).await.unwrap().into_inner().answer;
    assert!(matches!(answer, Some(Answer::WaitMilliseconds(_))), "{answer:?}");
    completed(&address, &[worker]).await;
    let output = leader.finish();
    succeeded(&output);
    assert_eq!(stdout(&output), expected(8));
}

/// Nobody can speak for a worker whose number it was not told, and nobody gets the name of a
/// living one.
#[tokio::test]
async fn workers_are_not_taken_for_others() {
    let data = Data::new();
    let (leader, address, mut client, worker, grant) = beginning(&data, &[]).await;
    let other = client.register(introduction("test")).await.unwrap().into_inner().worker;
    assert!(worker.abs_diff(other) > 1 << 20, "numbers follow each other: {worker}, {other}");
    let names: Vec<Value> = status(&mut client).await["workers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|worker| worker["name"].clone())
        .collect();
    assert_eq!(names, ["test", "test (2)"]);
    // Not its lease.
    let delivery = edgeless(other, &grant, &lie());
    assert!(!client.complete(parts(delivery)).await.unwrap().into_inner().accepted);
    let honest = honest(&address);
    client
        .give_back(wire::GiveBackRequest {
            worker,
            leases: vec![grant.lease],
            failure: String::new(),
        })
        .await
        .unwrap();
    succeeded(&honest.finish());
    farewell(&address, &[worker, other]).await;
    succeeded(&leader.finish());
    assert_eq!(data.alarms(), "no alarms\n");
}

/// A shard that somebody doubts is solved again by the next census, and nothing else is.
#[test]
fn a_shard_that_is_doubted_is_solved_again() {
    let data = Data::new();
    let before = census_json(6, &data, &[]);
    let store = |data: &Data| Store::open_read_only(&data.path().join("store")).unwrap();
    let leases = |data: &Data| -> Vec<(Unit, u64)> {
        let units = store(data).units(6).unwrap().into_iter();
        units.map(|(unit, record)| (unit, record.instance)).collect()
    };
    let first = leases(&data);
    let alarms = |more: &[&str]| {
        run(&[&["alarms", "--because", "odd", "--data", &data.text()], more].concat())
    };
    let doubt =
        |shard: &str, more: &[&str]| alarms(&[&["--doubt", "6", "--shard", shard], more].concat());
    for no_sequence in ["3,3,3,3,3", "300,3,3,3,3,3"] {
        let refused = doubt(no_sequence, &[]);
        assert_eq!((refused.status.code(), stdout(&refused)), (Some(1), String::new()));
        assert!(stderr(&refused).contains("is no degree sequence"), "{}", stderr(&refused));
    }
    let refused = doubt("3,3,3,3,3,3", &["--part", "1"]);
    assert!(stderr(&refused).contains("has no part 1: the last of its 1 parts is 0"));
    let doubted = doubt("3,3,3,3,3,3", &[]);
    assert!(stdout(&doubted).contains("doubted: odd (settled: given up: a census"), "{doubted:?}");
    assert_eq!(census_json(6, &data, &[]), before);
    let again = leases(&data);
    let changed: Vec<Unit> = first
        .iter()
        .zip(&again)
        .filter(|(before, after)| before != after)
        .map(|(before, _)| before.0)
        .collect();
    let plan = Plan::new(TrailTrap::LAYOUT, 6, PlanOptions::default());
    let shard = plan.find(&DegreeSequence::new([3; 6])).unwrap();
    assert_eq!(changed, [Unit { order: 6, shard, part: 0 }]);
}

/// A census that goes less far than results went, of which something is doubted, says what is
/// withdrawn and what brings it back; and so do all who look there until that is done.
#[test]
fn results_that_are_withdrawn_are_told_of() {
    let data = Data::new();
    let before = census_json(7, &data, &[]);
    let trailtrap = |arguments: &[&str]| run(&[arguments, &["--data", &data.text()]].concat());
    let shard = ["--shard", "3,3,3,3,3,3", "--because", "odd"];
    assert!(trailtrap(&[&["alarms", "--doubt", "6"], &shard[..]].concat()).status.success());
    let path = data.text();
    let state = || crate::common::status(&["--data", &path]);
    let doubted = state();
    assert_eq!(doubted["orders_disputed"], json!([6, 7]), "{doubted}");
    let told = format!(
        "withdrawn are the results of order 6, order 7, since units that they follow from are to \
         be solved again; `trailtrap census 7 --data {}` has them again",
        data.text()
    );
    let smaller = trailtrap(&["census", "5"]);
    assert!(smaller.status.success() && stderr(&smaller).contains(&told), "{}", stderr(&smaller));
    assert!(stdout(&trailtrap(&["status"])).contains(&told));
    let checked = trailtrap(&["verify", "--level", "1"]);
    assert!(!checked.status.success() && stdout(&checked).contains(&told), "{checked:?}");
    let withdrawn = state();
    assert_eq!(withdrawn["orders_disputed"], json!(null), "{withdrawn}");
    assert_eq!(withdrawn["order"]["order"], 6, "the first of them is done next: {withdrawn}");
    let unfinished = ["export", "table", "orders", "--unfinished", "--format", "csv"];
    let unfinished = stdout(&trailtrap(&unfinished));
    assert!(unfinished.trim_end().ends_with(",withdrawn"), "{unfinished}");
    let exported = trailtrap(&["export", "table", "orders", "--format", "csv"]);
    assert_eq!(stdout(&exported).lines().count(), 6, "a head and orders 1 to 5");
    assert!(stderr(&exported).contains(&told), "{}", stderr(&exported));
    let again = trailtrap(&["census", "7", "--json"]);
    assert_eq!(stdout(&again), before);
    assert!(!stderr(&again).contains("withdrawn are"), "{}", stderr(&again));
    let exported = trailtrap(&["export", "table", "orders", "--format", "csv"]);
    assert_eq!((stdout(&exported).lines().count(), stderr(&exported)), (8, String::new()));
}

/// What a census of all orders up to this one is to do, of which so much is kept and so many records
/// are tried.
fn options(order: usize, keep: Keep, trial_rate: f64) -> CensusOptions {
    CensusOptions { keep, trial_rate, ..CensusOptions::new(Goal::new(order, None)) }
}

/// Such a census.
fn opened(directory: &Path, order: usize, keep: Keep, trial_rate: f64) -> Arc<Census> {
    Census::open(&directory.join("store"), options(order, keep, trial_rate)).unwrap()
}

/// A kernel that gets records wrong is found in an embedded census, by evidence and by what is
/// read.
#[test]
fn a_kernel_that_is_wrong_is_found_by_what_is_at_hand() {
    // At the lower rate one unit in sixteen is drawn, and nearly all records of it are tried.
    for (trial_rate, wrong_order) in [(0.06, None), (1.0, None), (0.06, Some(7)), (1.0, Some(6))] {
        let data = Data::new();
        let census = opened(&data.path(), 7, Keep::All, trial_rate);
        let link = EmbeddedLink::new(census.clone(), "Ann".to_owned(), 2, "kernel").unwrap();
        let order = wrong_order.unwrap_or(0);
        let random = Mutex::new(Random(1));
        let deliver = |link: &EmbeddedLink, lease: &Lease, results: &[SolvedUnit]| {
            let wrong = |solved: &SolvedUnit| {
                let random = &mut random.lock().unwrap();
                let told = Lie::Record.tell(&lease.plan, solved, None, random);
                told.filter(|_| lease.plan.order == order).unwrap_or_else(|| copied(solved))
            };
            link.complete(lease, &results.iter().map(wrong).collect::<Vec<_>>())
        };
        let link = Delivering { link, deliver };
        let (game, kernel, stop) = (census.game(), Kernel::best(), CancellationToken::new());
        let ended = Engine::new(link, game, 2, kernel, 64 << 20, stop).unwrap().run();
        let tried = census.tried();
        assert!(tried.units > 0 && tried.bytes_examined > 0, "{tried:?}");
        assert!(wrong_order.is_some() || tried.bytes_read > 0, "{tried:?}");
        if wrong_order.is_some() {
            assert!(matches!(ended, Err(LinkError::Refused(_))), "{ended:?}");
            assert!(census.alarms().iter().any(|(_, alarm)| alarm.kind == AlarmKind::Trial));
            assert!(census.close().unwrap().is_none());
        } else {
            assert_eq!(ended.unwrap(), RunEnd::Finished);
            assert!(census.alarms().is_empty());
            assert!(census.close().unwrap().is_some());
        }
    }
}

/// A record that comes out wrong once in an embedded census costs what was in work then, whatever
/// is kept: what was durable stays, and the table is right.
#[test]
fn an_accident_of_the_machine_costs_what_was_in_work() {
    [Keep::All, Keep::Minimal].into_iter().for_each(has_an_accident);
}

fn has_an_accident(keep: Keep) {
    let data = Data::new();
    let census = opened(&data.path(), 7, keep, 1.0);
    let link = EmbeddedLink::new(census.clone(), "Ann".to_owned(), 2, "kernel").unwrap();
    let random = Mutex::new(Random(1));
    // How often each unit was delivered, and the one that came out wrong.
    let delivered = Mutex::new(BTreeMap::<Unit, usize>::new());
    let accident = Mutex::new(None);
    let first = Unit { order: 7, shard: 0, part: 0 };
    let deliver = |link: &EmbeddedLink, lease: &Lease, results: &[SolvedUnit]| {
        let told = |solved: &SolvedUnit| {
            *delivered.lock().unwrap().entry(solved.unit).or_default() += 1;
            let accident = &mut *accident.lock().unwrap();
            if accident.is_some() || solved.unit.order < 7 || solved.sequence.size() < 10 {
                return copied(solved);
            }
            let path = data.path().join("store");
            eventually("the first unit is durable", || {
                Store::open_read_only(&path).unwrap().unit(first).unwrap().is_some()
            });
            let random = &mut random.lock().unwrap();
            let told = Lie::Record.tell(&lease.plan, solved, None, random);
            *accident = told.is_some().then_some(solved.unit);
            told.unwrap_or_else(|| copied(solved))
        };
        link.complete(lease, &results.iter().map(told).collect::<Vec<_>>())
    };
    let link = Delivering { link, deliver };
    let (game, kernel, stop) = (census.game(), Kernel::best(), CancellationToken::new());
    let ended = Engine::new(link, game, 2, kernel, 64 << 20, stop).unwrap().run();
    assert_eq!(ended.unwrap(), RunEnd::Finished);
    let accident = accident.into_inner().unwrap().expect("a record was altered");
    let alarms = census.alarms();
    let [(_, alarm)] = &alarms[..] else { panic!("one alarm: {alarms:?}") };
    assert_eq!((alarm.kind, &alarm.doubted[..]), (AlarmKind::Trial, &[accident][..]));
    assert!(alarm.blamed.is_empty() && alarm.settled.is_some(), "{alarm:?}");
    let delivered = delivered.into_inner().unwrap();
    assert_eq!((delivered[&first], delivered[&accident]), (1, 2));
    assert!(delivered.iter().all(|(unit, &times)| unit.order == 7 || times == 1));
    let results = census.close().unwrap().expect("everything is done");
    let results: Vec<Summary> = results.iter().map(OrderResult::total).collect();
    let (expected, _) = memory::census(7, PlanOptions::default(), &solver()).unwrap();
    assert_eq!(results, expected);
}

/// A wrong digest of what others have solved is found, drawn or not, and one of what was solved in
/// the same process where records are drawn.
#[test]
fn counts_of_others_and_those_of_drawn_units_are_taken_again() {
    for (is_own, trial_rate) in [(false, 0.0), (true, 1.0)] {
        let data = Data::new();
        let census = opened(&data.path(), 1, Keep::All, trial_rate);
        let worker = census.register("Ann", 1, "kernel", None).unwrap();
        let work = next_work(&census, worker, is_own).expect("there is work");
        let mut deliveries = Vec::new();
        memory::census_with(1, work.plan.options, &solver(), &mut |_, solved| {
            let (blocks, summary) = (solved.blocks(), solved.summary.clone());
            let author = census.author(worker);
            let right =
                delivery(solved.unit, solved.sequence, blocks, summary, solved.elapsed, author);
            let mut wrong = Delivery { own: is_own.then(Evidence::default), ..right };
            wrong.record.digest[0] ^= 1;
            deliveries.push(wrong);
        })
        .unwrap();
        assert_eq!(deliveries.len(), work.units.len());
        let refusal = census.accept(worker, work.lease, deliveries, true).unwrap_err();
        // In the same process it is an accident, at first.
        assert_eq!(matches!(refusal, Refusal::Void), is_own, "{refusal}");
        let (_, alarm) = &census.alarms()[0];
        assert!(alarm.text.contains("digest"), "{alarm:?}");
        assert_eq!(alarm.blamed.is_empty(), is_own);
        census.close().unwrap();
    }
}

/// Whoever delivers blocks by their names may hear that they are asked for, and so that the unit was
/// drawn, and say that they are not there. When they come again, the unit is tried in any case,
/// however seldom units are drawn.
#[test]
fn what_could_not_be_read_is_tried_when_it_comes_again() {
    const LAST: usize = 4;
    let (data, depot) = (Data::new(), tempfile::tempdir().unwrap());
    let (path, kept_in) = (data.path().join("store"), KeptIn::Depot(depot.path()));
    // One unit in sixteen is drawn, and one record of it tried.
    let census = Census::open_with(&path, kept_in, options(LAST, Keep::All, 1e-9)).unwrap();
    let worker = census.register("Ann", 1, "kernel", None).unwrap();
    let mut solved = BTreeMap::new();
    memory::census_with(LAST, PlanOptions::default(), &solver(), &mut |_, unit| {
        solved.insert(unit.unit, copied(unit));
    })
    .unwrap();
    let named = |unit: &Unit| {
        let one: &SolvedUnit = &solved[unit];
        let (blocks, summary, author) = (one.blocks(), one.summary.clone(), census.author(worker));
        let right = delivery(one.unit, one.sequence, blocks, summary, one.elapsed, author);
        by_name(right, &[Section::Keys, Section::Outcomes])
    };
    let in_depot = KeptDepot::at(depot.path(), Mark(1));
    let mut again = 0;
    while let Some(work) = next_work(&census, worker, false) {
        let deliver = || {
            let deliveries = work.units.iter().map(named).collect();
            census.accept(worker, work.lease, deliveries, true)
        };
        for unit in &work.units {
            let lacking = deliver();
            assert!(matches!(lacking, Err(Refusal::Lacking)), "{unit:?}: {lacking:?}");
            solved[unit].blocks().iter().for_each(|block| in_depot.write(block).unwrap());
        }
        let before = census.tried().units;
        deliver().unwrap();
        assert_eq!(census.tried().units - before, work.units.len() as u64, "{:?}", work.units);
        again += work.units.len();
    }
    assert_eq!(again, solved.len());
    assert!(census.alarms().is_empty());
    assert_eq!(census.close().unwrap().map(|results| results.len()), Some(LAST));
}
