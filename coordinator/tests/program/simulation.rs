//! The real service and the real census in a simulated network with a simulated clock: messages
//! are delayed and lost, links are cut, hosts crash, and every run ends with the digests of an
//! undisturbed one.
//!
//! `TRAILTRAP_SEEDS=1000` tries more seeds than the usual; `TRAILTRAP_SEEDS=17..18` only that one.

use std::{
    collections::HashSet,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tokio_stream::StreamExt;
use tonic::Code;
use trailtrap_census::{core::random::Random, driver::CensusOptions};
use trailtrap_shared::{
    plan::Unit,
    protocol::{messages, wire, wire::lease_reply::Answer},
};

use crate::common::{
    answers::Answers,
    introduction, seeds,
    simulated::{
        Client, Craft, FAULTS, HeldLease, LEADER, Leader, Messages, Met, Planned, Reply, SPLIT,
        STEPS, SimulatedWorker, TICK, client, copy_store, is_passing, open, options, plan,
        simulate, try_seeds,
    },
    usual,
};

/// The order that is simulated.
const ORDER: usize = 8;
/// So long the simulation waits for what does not follow its clock.
const LOOK: Duration = Duration::from_millis(10);

/// A worker that knows the answers beforehand.
#[derive(Clone)]
struct Knows {
    name: &'static str,
    answers: Arc<Answers>,
    acknowledged: Arc<Mutex<HashSet<Unit>>>,
    random: Arc<Mutex<Random>>,
}

/// Three of them.
fn workers(seed: u64, answers: &Arc<Answers>) -> [(&'static str, Knows); 3] {
    let (acknowledged, random) = (Arc::default(), Arc::new(Mutex::new(Random(seed))));
    ["worker-0", "worker-1", "worker-2"].map(|name| {
        let (answers, acknowledged) = (answers.clone(), Arc::clone(&acknowledged));
        (name, Knows { name, answers, acknowledged, random: random.clone() })
    })
}

impl Craft for Knows {
    fn name(&self, place: usize) -> Option<String> {
        assert_eq!(place, 0, "{} is not trusted", self.name);
        Some(self.name.to_owned())
    }

    async fn solve(&mut self, client: &mut Client, held: &HeldLease) -> Option<Messages> {
        let HeldLease { worker, lease, ref units } = *held;
        let looks = self.random.lock().unwrap().below(3) == 0;
        if looks && let Err(status) = self.answers.check_input(client, worker, units[0]).await {
            assert!(is_passing(&status), "{status:?}");
        }
        Some(self.answers.delivery(worker, lease, units))
    }

    fn answered(&self, held: &HeldLease, reply: Reply, why: &str) {
        assert!(reply != Reply::Refused, "{why}");
        if reply == Reply::Taken {
            let mut acknowledged = self.acknowledged.lock().unwrap();
            let new = held.units.iter().all(|&unit| acknowledged.insert(unit));
            assert!(new, "what was acknowledged is accepted again: {:?}", held.units);
        }
    }
}

/// One record in a hundred is tried.
fn tried(order: usize) -> CensusOptions {
    CensusOptions { trial_rate: 0.01, ..options(order) }
}

/// A run of all orders up to `order` that are not in the directory yet, with faults. They are
/// counted by the step that they met.
fn run(
    seed: u64,
    directory: &Path,
    order: usize,
    answers: &Arc<Answers>,
    planned: Vec<Planned>,
    memory: usize,
) -> Met {
    let leader = Leader { directory: directory.to_owned(), options: tried(order), memory };
    let run = simulate(seed, &leader, &workers(seed, answers), planned);
    let results = open(directory, tried(order)).unwrap().close().unwrap().expect("all is done");
    assert!(results == answers.order_results(order), "other results than undisturbed");
    run.met
}

#[test]
fn whatever_happens_the_digests_are_those_of_an_undisturbed_run() {
    let answers = Arc::new(Answers::solve(ORDER, SPLIT));
    // Nothing happens, to begin with. What is left is where most of the other runs begin.
    let template = tempfile::tempdir().unwrap();
    let met = run(0, template.path(), ORDER - 1, &answers, Vec::new(), 1 << 30);
    assert!(met.is_empty());
    let (seeds, all) = (seeds(usual(30) as u64), Mutex::new(Met::new()));
    try_seeds(seeds.clone(), |seed| {
        let mut random = Random(seed * 7919 + 1);
        // Some runs pass through several orders.
        let from_scratch = seed % 6 == 5;
        let (order, directory) = match from_scratch {
            true => (ORDER - 2, tempfile::tempdir().unwrap()),
            false => (ORDER, copy_store(template.path())),
        };
        let memory = [1, 1 << 10, 1 << 30][random.below(3) as usize];
        let planned = plan(seed, &mut random);
        for (pair, count) in run(seed, directory.path(), order, &answers, planned, memory) {
            *all.lock().unwrap().entry(pair).or_default() += count;
        }
    });
    let met = all.into_inner().unwrap();
    println!("{} faults in {seeds:?}: {met:?}", met.values().sum::<u64>());
    if seeds.start == 0 && seeds.end >= 15 {
        // Half of the usual seeds do not bring all of them together.
        for fault in FAULTS {
            assert!(met.keys().any(|(_, other)| *other == fault), "{fault:?} has met no step");
        }
        for step in STEPS {
            assert!(met.keys().any(|(other, _)| *other == step), "no fault has met {step:?}");
        }
    }
    if seeds.start == 0 && seeds.end >= 30 {
        for fault in FAULTS {
            for step in STEPS {
                assert!(met.contains_key(&(step, fault)), "{fault:?} has never met {step:?}");
            }
        }
    }
}

/// One worker begins to deliver and says nothing more, though it is alive; the memory of messages
/// is enough for one delivery.
#[test]
fn a_client_that_stalls_does_not_keep_its_share_of_the_memory() {
    let answers = Arc::new(Answers::solve(4, SPLIT));
    let directory = tempfile::tempdir().unwrap();
    let mut sim = turmoil::Builder::new()
        .tick_duration(TICK)
        .simulation_duration(Duration::from_secs(600))
        .build();
    let leader = Leader { directory: directory.path().to_owned(), options: tried(4), memory: 1 };
    sim.host(LEADER, move || leader.clone().lead());
    let (gave_up, holds) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(false)));
    sim.client("silent", {
        let (answers, gave_up, holds) = (answers.clone(), gave_up.clone(), holds.clone());
        async move {
            let mut client = client();
            let worker = client.register(introduction("silent")).await?.into_inner().worker;
            let grant = loop {
                let request = wire::LeaseRequest { worker, room: 0, by_name: false };
                match client.lease(request).await?.into_inner().answer {
                    Some(Answer::Grant(grant)) => break grant,
                    // A thread opens the order, while the simulated clock goes as fast as it likes.
                    Some(Answer::WaitMilliseconds(_)) => std::thread::sleep(LOOK),
                    other => panic!("work is there: {other:?}"),
                }
            };
            *holds.lock().unwrap() = true;
            let begun = answers
                .delivery(worker, grant.lease, &messages::units(&grant))
                .into_iter()
                .take(3);
            let start = Instant::now();
            let status = client
                .complete(tokio_stream::iter(begun).chain(tokio_stream::pending()))
                .await
                .unwrap_err();
            assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
            *gave_up.lock().unwrap() = Some(start.elapsed());
            Ok(())
        }
    });
    let [(_, honest), ..] = workers(1, &answers);
    sim.client("honest", async move {
        while !*holds.lock().unwrap() {
            sleep(Duration::from_secs(1)).await;
        }
        // When the other one has its share.
        sleep(Duration::from_secs(5)).await;
        SimulatedWorker::new(1, honest).work().await
    });
    sim.run().unwrap();
    let gave_up = gave_up.lock().unwrap().expect("the silent one was told");
    assert!((55..90).contains(&gave_up.as_secs()), "{gave_up:?}");
}
