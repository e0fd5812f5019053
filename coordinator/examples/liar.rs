//! A worker that lies, for `scripts/chaos --liars`: the engine of real workers, with a link that
//! alters what is delivered. It says on standard output what it has told, and what the coordinator
//! said to that. Exit codes are those of a worker.

#[path = "../tests/program/common/lies.rs"]
mod lies;

use std::{
    collections::HashMap,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::Duration,
};

use clap::Parser;
use lies::{Delivering, Lie};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use trailtrap_census::core::random::Random;
use trailtrap_shared::{class::Class, game::GameName, labelling::batch::Kernel};
use trailtrap_worker::{
    access::Reach,
    engine::Engine,
    kernel::SolvedUnit,
    link::{
        Delivered, Lease, Link, LinkError, RunEnd,
        grpc::{GrpcLink, Identity},
    },
    process::log,
    supply::{Supply, SupplyOptions},
};

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    supply: SupplyOptions,
    /// The name that it gives itself
    #[arg(long)]
    name: String,
    /// What it lies about
    #[arg(long, value_enum)]
    lie: Lie,
    /// It lies in one delivery of so many
    #[arg(long, default_value_t = 1)]
    one_in: u64,
    /// Which deliveries these are follows from this
    #[arg(long)]
    seed: u64,
    /// Wait so many seconds, without renewing a lease, before a lie
    #[arg(long, default_value_t = 0)]
    late: u64,
}

/// What it lies about, and what it can lie with.
struct Liar {
    lie: Lie,
    one_in: u64,
    late: Duration,
    random: Mutex<Random>,
    /// The last result of each shard, and of all.
    seen: Mutex<HashMap<Option<u32>, SolvedUnit>>,
}

impl Liar {
    /// The results with a lie about one of them, if it is to be told.
    fn altered(&self, lease: &Lease, results: &[SolvedUnit]) -> Option<Vec<SolvedUnit>> {
        let (mut random, mut seen) = (self.random.lock().unwrap(), self.seen.lock().unwrap());
        let drawn = random.below(results.len() as u64) as usize;
        let solved = &results[drawn];
        let lies = random.below(self.one_in) == 0;
        let about = (self.lie == Lie::OtherPart).then_some(solved.unit.shard);
        let altered = lies
            .then(|| self.lie.tell(&lease.plan, solved, seen.get(&about), &mut random))
            .flatten();
        for key in [None, Some(solved.unit.shard)] {
            seen.insert(key, lies::copied(solved));
        }
        let mut all: Vec<SolvedUnit> = results.iter().map(lies::copied).collect();
        all[drawn] = altered?;
        Some(all)
    }

    fn deliver(
        &self,
        link: &Arc<GrpcLink>,
        lease: &Lease,
        results: &[SolvedUnit],
    ) -> Result<Delivered, LinkError> {
        let Some(altered) = self.altered(lease, results) else {
            return link.complete(lease, results);
        };
        std::thread::sleep(self.late);
        let answer = link.complete(lease, &altered);
        let said = match &answer {
            Ok(Delivered::Accepted { .. }) => "accepted",
            Ok(Delivered::Left) => "left",
            Ok(Delivered::Void) => "void",
            Err(LinkError::Refused(_)) => "refused",
            Err(LinkError::Lost(_)) => "lost",
        };
        println!("told: {said}");
        answer
    }
}

fn main() -> ExitCode {
    log::log_to_stderr("info");
    match run(Arguments::parse()) {
        Ok(RunEnd::Finished) => ExitCode::SUCCESS,
        Ok(RunEnd::Stopped) => ExitCode::from(75),
        Err(error) => {
            log::say(&format!("liar: {}", log::explained(&error)));
            ExitCode::from(match error.downcast_ref() {
                Some(LinkError::Lost(_)) => 75,
                Some(LinkError::Refused(_)) => 78,
                None => 1,
            })
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<RunEnd> {
    let Arguments { reach, supply, name, lie, one_in, seed, late } = arguments;
    let (runtime, stop) = (Runtime::new()?, CancellationToken::new());
    let (game, kernel) = (GameName::TrailTrap, Kernel::best());
    let handle = runtime.handle().clone();
    let supply = Supply::open(&supply, handle.clone(), stop.clone())?;
    let (class, memory) = (Class::All, 1 << 30);
    let identity = Identity { name, threads: 1, kernel, game, class, memory };
    let patience = Duration::from_secs(120);
    let link =
        Arc::new(GrpcLink::connect(handle, reach, identity, supply, patience, stop.clone())?);
    if late == 0 {
        runtime.spawn(link.heartbeats());
    }
    runtime.spawn(link.tidying());
    let liar = Liar {
        lie,
        one_in,
        late: Duration::from_secs(late),
        random: Mutex::new(Random(seed)),
        seen: Mutex::default(),
    };
    let deliver = |link: &_, lease: &_, results: &_| liar.deliver(link, lease, results);
    let lying = Delivering { link: link.clone(), deliver };
    let ended = Engine::new(lying, game, 1, kernel, 256 << 20, stop)?.run()?;
    if matches!(ended, RunEnd::Finished) {
        link.clear_shelf();
    }
    Ok(ended)
}
