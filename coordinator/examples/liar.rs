//! A worker that lies, for `scripts/chaos --liars`: the engine of real workers, with a link that
//! alters what is delivered. It says on standard output what it has told, and what the coordinator
//! said to that. Exit codes are those of a worker.

#[path = "../tests/common/lies.rs"]
mod lies;

use std::{
    collections::HashMap,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::Duration,
};

use clap::Parser;
use lies::Lie;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use trailtrap_census::core::random::Random;
use trailtrap_shared::{
    class::Class, game::GameName, labelling::batch::Kernel, partition::Block,
    protocol::messages::Wanted,
};
use trailtrap_worker::{
    cache::Fetch,
    engine::Engine,
    kernel::{SolvedUnit, SourceError},
    link::{
        Delivered, Grant, Lease, Link, LinkError, RunEnd, Unsolved,
        access::Reach,
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
    /// Wait so many seconds, without a sign of life, before a lie
    #[arg(long, default_value_t = 0)]
    late: u64,
}

/// A link that alters what is delivered.
struct LyingLink {
    link: Arc<GrpcLink>,
    lie: Lie,
    one_in: u64,
    late: Duration,
    random: Mutex<Random>,
    /// The last result of each shard, and of all.
    seen: Mutex<HashMap<Option<u32>, SolvedUnit>>,
}

impl LyingLink {
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
}

impl Fetch for LyingLink {
    fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
        self.link.fetch(wanted)
    }
}

impl Link for LyingLink {
    fn lease(&self, room: u64) -> Result<Grant, LinkError> {
        self.link.lease(room)
    }

    fn complete(&self, lease: &Lease, results: &[SolvedUnit]) -> Result<Delivered, LinkError> {
        let Some(altered) = self.altered(lease, results) else {
            return self.link.complete(lease, results);
        };
        std::thread::sleep(self.late);
        let answer = self.link.complete(lease, &altered);
        let said = match &answer {
            Ok(Delivered::Accepted { .. }) => "accepted",
            Ok(Delivered::Void) => "void",
            Err(LinkError::Refused(_)) => "refused",
            Err(LinkError::Lost(_)) => "lost",
        };
        println!("told: {said}");
        answer
    }

    fn is_alone(&self) -> bool {
        self.link.is_alone()
    }

    fn pipeline(&self) -> usize {
        self.link.pipeline()
    }

    fn give_back(&self, lease: &Lease, reason: Unsolved) {
        self.link.give_back(lease, reason);
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
    let identity = Identity { name, threads: 1, kernel, game, class: Class::All };
    let patience = Duration::from_secs(120);
    let link =
        Arc::new(GrpcLink::connect(handle, reach, identity, supply, patience, stop.clone())?);
    if late == 0 {
        runtime.spawn(link.heartbeats());
    }
    let lying = LyingLink {
        link,
        lie,
        one_in,
        late: Duration::from_secs(late),
        random: Mutex::new(Random(seed)),
        seen: Mutex::default(),
    };
    Ok(Engine::new(lying, game, 1, kernel, 256 << 20, stop)?.run()?)
}
