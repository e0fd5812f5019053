//! One coordinator and hundreds of workers. They solve nothing: all answers are known, so all that
//! is measured is the coordinator's.

mod common;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use common::{
    Data, answers::Answers, census_json, coordinator, introduction, peak_memory, stderr, stdout,
};
use trailtrap_shared::{
    plan::PlanOptions,
    protocol::{
        messages,
        wire::{self, census_client::CensusClient, lease_reply::Answer},
    },
};

const ORDER: usize = 9;
const WORKERS: usize = 500;

/// How long the coordinator took to answer.
#[derive(Default)]
struct Times {
    /// With work.
    leases: Vec<Duration>,
    heartbeats: Vec<Duration>,
}

/// A worker on a connection of its own, until all is done.
async fn work(name: usize, address: String, answers: Arc<Answers>) -> Times {
    let mut client = CensusClient::connect(format!("http://{address}")).await.unwrap();
    let worker =
        client.register(introduction(format!("worker {name}"))).await.unwrap().into_inner().worker;
    let mut times = Times::default();
    loop {
        let asked = Instant::now();
        match client
            .lease(wire::LeaseRequest { worker })
            .await
            .unwrap()
            .into_inner()
            .answer
            .unwrap()
        {
            Answer::Grant(grant) => {
                times.leases.push(asked.elapsed());
                let units = messages::units(&grant);
                answers.check_input(&mut client, worker, units[0]).await.unwrap();
                let delivery = answers.delivery(worker, grant.lease, &units);
                let reply =
                    client.complete(tokio_stream::iter(delivery)).await.unwrap().into_inner();
                assert!(reply.accepted);
            }
            Answer::WaitMilliseconds(_) => {}
            Answer::Finished(_) => return times,
        }
        let asked = Instant::now();
        client.heartbeat(wire::HeartbeatRequest { worker, leases: vec![] }).await.unwrap();
        times.heartbeats.push(asked.elapsed());
    }
}

fn describe(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("{what}: {} answers, median {:.1} ms, p99 {:.1} ms", times.len(), at(0.5), at(0.99));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_workers_come_at_once() {
    // Small parts: enough leases for all.
    let options = PlanOptions { part_graphs: 8, ..PlanOptions::default() };
    let answers = Arc::new(Answers::solve(ORDER, options));
    let data = Data::new();
    let flags = ["--part-graphs", "8", "--message-memory", "1MiB"];
    let (leader, address) = coordinator(ORDER, &data, "127.0.0.1:0", &flags);
    let start = Instant::now();
    let workers: Vec<_> =
        (0..WORKERS).map(|i| tokio::spawn(work(i, address.clone(), answers.clone()))).collect();
    let id = leader.0.id();
    // The last look before it exits.
    let watch = tokio::spawn(async move {
        let mut peak = None;
        while let Some(bytes) = peak_memory(id) {
            peak = Some(bytes);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        peak
    });
    let (mut leases, mut heartbeats) = (Vec::new(), Vec::new());
    for worker in workers {
        let times = worker.await.unwrap();
        leases.extend(times.leases);
        heartbeats.extend(times.heartbeats);
    }
    let seconds = start.elapsed().as_secs_f64();
    let output = tokio::task::spawn_blocking(|| leader.finish()).await.unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), census_json(ORDER, &Data::new(), &[]));
    println!(
        "{WORKERS} workers: {seconds:.1} s, {:.0} leases a second",
        leases.len() as f64 / seconds
    );
    describe("leases", leases);
    describe("heartbeats", heartbeats);
    // Of a process that is gone nothing can be read, and elsewhere there is no /proc.
    if let Some(peak) = watch.await.unwrap() {
        println!("peak memory of the coordinator: {} MiB", peak >> 20);
        assert!(peak < 512 << 20, "{peak} bytes");
    }
}
