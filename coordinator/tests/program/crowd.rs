//! One coordinator and hundreds of workers. They solve nothing: all answers are known, so all that
//! is measured is the coordinator's.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    sync::{Barrier, mpsc},
    task::JoinSet,
};
use tokio_stream::wrappers::ReceiverStream;
use trailtrap_shared::{
    plan::{PlanOptions, Unit},
    protocol::{
        messages,
        wire::{self, lease_reply::Answer},
    },
};

use crate::common::{
    Data, LONG_LEASE, QUESTIONS, answers::Answers, connect, coordinator, expected, introduction,
    stayed_small, stderr, stdout, watch_memory,
};

const ORDER: usize = 9;
const WORKERS: usize = 500;

/// What one worker has seen.
#[derive(Default)]
struct Seen {
    /// Units that the coordinator accepted from it.
    accepted: Vec<Unit>,
    /// How long the coordinator took to answer with work.
    leases: Vec<Duration>,
    /// How long it took to answer heartbeats while a delivery had begun and could not end.
    heartbeats: Vec<Duration>,
}

/// What all workers share.
struct Crowd {
    address: String,
    answers: Answers,
    /// All have registered before any of them asks for work.
    all_are_there: Barrier,
    /// All have had work before any of them asks for more: there are not many more leases than
    /// workers.
    all_were_served: Barrier,
    /// Deliveries that have begun, and the most of them at a time.
    open: AtomicUsize,
    most_open: AtomicUsize,
}

impl Crowd {
    /// A worker on a connection of its own, until all is done.
    async fn work(self: Arc<Self>, name: usize) -> Seen {
        let mut client = connect(&self.address).await;
        let registered = client.register(introduction(format!("worker {name}"))).await.unwrap();
        let worker = registered.into_inner().worker;
        self.all_are_there.wait().await;
        let (mut seen, mut waits) = (Seen::default(), 0);
        loop {
            let asked = Instant::now();
            let reply = client
                .lease(wire::LeaseRequest { worker, room: 0, by_name: false })
                .await
                .unwrap()
                .into_inner();
            let grant = match reply.answer.unwrap() {
                Answer::Grant(grant) => grant,
                Answer::WaitMilliseconds(_) => {
                    waits += 1;
                    assert!(waits < QUESTIONS, "there is neither work nor an end of it");
                    continue;
                }
                Answer::Finished(_) => {
                    if seen.leases.is_empty() {
                        self.all_were_served.wait().await;
                    }
                    return seen;
                }
            };
            waits = 0;
            seen.leases.push(asked.elapsed());
            let units = messages::units(&grant);
            self.answers.check_input(&mut client, worker, units[0]).await.unwrap();
            // The delivery begins, and goes on when a heartbeat was answered: were heartbeats held
            // back by deliveries that wait, neither would ever end.
            let mut delivery = self.answers.delivery(worker, grant.lease, &units).into_iter();
            let (sender, receiver) = mpsc::channel(1);
            let mut heart = client.clone();
            let deliver = async {
                // If it is refused early, the reply says so.
                for message in delivery.by_ref().take(2) {
                    let _ = sender.send(message).await;
                }
                let open = 1 + self.open.fetch_add(1, Ordering::Relaxed);
                self.most_open.fetch_max(open, Ordering::Relaxed);
                let asked = Instant::now();
                heart.heartbeat(wire::HeartbeatRequest { worker, leases: vec![] }).await.unwrap();
                seen.heartbeats.push(asked.elapsed());
                for message in delivery {
                    let _ = sender.send(message).await;
                }
                drop(sender);
            };
            let (reply, ()) =
                tokio::join!(client.complete(ReceiverStream::new(receiver)), deliver);
            self.open.fetch_sub(1, Ordering::Relaxed);
            assert!(reply.unwrap().into_inner().accepted, "{units:?}");
            seen.accepted.extend(units);
            if seen.leases.len() == 1 {
                self.all_were_served.wait().await;
            }
        }
    }
}

/// For people: nothing is concluded from it.
fn describe(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("{what}: {} answers, median {:.1} ms, p99 {:.1} ms", times.len(), at(0.5), at(0.99));
}

/// Every worker gets work, every unit is accepted once, heartbeats are answered while deliveries
/// wait, and the coordinator's memory stays bounded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_workers_come_at_once() {
    // Small parts: enough leases for all.
    let options = PlanOptions { part_graphs: 8, ..PlanOptions::default() };
    let answers = Answers::solve(ORDER, options);
    let mut units: Vec<Unit> = answers.units().collect();
    let data = Data::new();
    // No records are tried: what a coordinator does for many workers is looked at here.
    let flags = [
        ["--part-graphs", "8"],
        ["--message-memory", "1MiB"],
        ["--sample", "0"],
        ["--lease", LONG_LEASE],
    ]
    .concat();
    // It stays until the last of them has heard that all is done.
    let flags = [&flags[..], &["--stay"]].concat();
    let (leader, address) = coordinator(ORDER, &data, "127.0.0.1:0", &flags);
    let peak = watch_memory(leader.0.id());
    let start = Instant::now();
    let crowd = Arc::new(Crowd {
        address,
        answers,
        all_are_there: Barrier::new(WORKERS),
        all_were_served: Barrier::new(WORKERS),
        open: AtomicUsize::new(0),
        most_open: AtomicUsize::new(0),
    });
    let mut workers: JoinSet<Seen> = (0..WORKERS).map(|i| crowd.clone().work(i)).collect();
    let (mut accepted, mut leases, mut heartbeats) = (Vec::new(), Vec::new(), Vec::new());
    let mut fewest = usize::MAX;
    // If one of them fails, others may wait for it for ever.
    while let Some(seen) = workers.join_next().await {
        let seen = seen.unwrap();
        assert_eq!(seen.leases.len(), seen.heartbeats.len());
        fewest = fewest.min(seen.leases.len());
        accepted.extend(seen.accepted);
        leases.extend(seen.leases);
        heartbeats.extend(seen.heartbeats);
    }
    let seconds = start.elapsed().as_secs_f64();
    leader.signal("TERM");
    let output = tokio::task::spawn_blocking(|| leader.finish()).await.unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected(ORDER));
    println!(
        "{WORKERS} workers: {seconds:.1} s, {:.0} leases a second, at least {fewest} each, up to \
         {} deliveries at a time",
        leases.len() as f64 / seconds,
        crowd.most_open.load(Ordering::Relaxed)
    );
    assert!(fewest > 0, "a worker had asked for work, and got none");
    accepted.sort_unstable();
    units.sort_unstable();
    assert!(
        accepted == units,
        "{} units were accepted, {} are to do",
        accepted.len(),
        units.len()
    );
    describe("leases", leases);
    describe("heartbeats", heartbeats);
    stayed_small(peak);
}
