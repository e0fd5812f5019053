//! What workers answer, solved beforehand by the real solver: for workers of whom there are many,
//! or in a simulation.

use std::{collections::HashMap, sync::atomic::AtomicBool, time::Duration};

use tonic::{Status, Streaming, transport::Channel};
use trailtrap_census::records::OrderResult;
use trailtrap_shared::{
    count::summary::Summary,
    game::{Game, GameName, TrailTrap},
    graph::{degree::DegreeSequence, pairs},
    labelling::batch::Kernel,
    partition::Block,
    plan::{Plan, PlanOptions, Unit},
    protocol::{
        messages::{self, Wanted},
        wire::{self, census_client::CensusClient},
    },
};
use trailtrap_worker::{kernel::Solver, link::memory};

/// Solves units by the best kernel, without bounds.
pub fn solver() -> Solver<'static> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    Solver {
        game: GameName::TrailTrap,
        kernel: Kernel::best(),
        allowance_bytes: usize::MAX,
        stop: &NEVER,
    }
}

/// The bytes of the blocks that answer one request; `None` if the answers end before.
pub async fn next_answer(
    stream: &mut Streaming<wire::BlockPiece>,
) -> Result<Option<Vec<Vec<u8>>>, Status> {
    let (mut blocks, mut bytes) = (Vec::new(), Vec::new());
    while let Some(piece) = stream.message().await? {
        bytes.extend_from_slice(&piece.data);
        if piece.last {
            blocks.push(std::mem::take(&mut bytes));
        }
        if piece.done {
            return Ok(Some(blocks));
        }
    }
    Ok(None)
}

/// A census that is known already.
pub struct Answers {
    plans: HashMap<usize, Plan>,
    results: HashMap<Unit, wire::UnitResult>,
    /// Keys, outcomes, wins of each bucket.
    blocks: HashMap<(DegreeSequence, u32), Vec<Block>>,
    by_size: Vec<Vec<Summary>>,
}

impl Answers {
    /// Solves all orders up to `order`.
    pub fn solve(order: usize, options: PlanOptions) -> Self {
        let by_size = (1..=order).map(|n| vec![Default::default(); pairs(n) + 1]).collect();
        let mut answers = Answers {
            plans: (1..=order).map(|n| (n, Plan::new(TrailTrap::LAYOUT, n, options))).collect(),
            results: HashMap::new(),
            blocks: HashMap::new(),
            by_size,
        };
        memory::census_with(order, options, &solver(), &mut |plan, solved| {
            let elapsed = Duration::from_micros(1);
            let result = messages::result(&solved.unit, &solved.summary, elapsed);
            answers.blocks.insert((solved.sequence, solved.unit.part), solved.blocks());
            answers.results.insert(solved.unit, result);
            let size = plan.shard_of(solved.unit).size;
            answers.by_size[plan.order - 1][size] += &solved.summary;
        })
        .unwrap();
        answers
    }

    /// The results of the orders up to `order`.
    pub fn order_results(&self, order: usize) -> Vec<OrderResult> {
        let by_size = self.by_size[..order].iter().cloned();
        by_size.enumerate().map(|(i, by_size)| OrderResult { order: i + 1, by_size }).collect()
    }

    /// All units of all orders.
    pub fn units(&self) -> impl Iterator<Item = Unit> {
        self.results.keys().copied()
    }

    fn sequence(&self, unit: Unit) -> DegreeSequence {
        self.plans[&(unit.order as usize)].shard_of(unit).sequence
    }

    /// The messages that deliver a lease.
    pub fn delivery(&self, worker: u64, lease: u64, units: &[Unit]) -> Vec<wire::CompleteRequest> {
        messages::delivery(worker, lease, self.results(units))
    }

    /// What is said of units, and their blocks.
    pub fn results(&self, units: &[Unit]) -> Vec<(wire::UnitResult, Vec<Block>)> {
        let result = |unit: &Unit| {
            let blocks = &self.blocks[&(self.sequence(*unit), unit.part)];
            (self.results[unit].clone(), blocks.clone())
        };
        units.iter().map(result).collect()
    }

    /// Fetches a bucket that a unit reads. It has to be what was delivered.
    pub async fn check_input(
        &self,
        client: &mut CensusClient<Channel>,
        worker: u64,
        unit: Unit,
    ) -> Result<(), Status> {
        let plan = &self.plans[&(unit.order as usize)];
        let Some(&predecessor) = plan.shard_of(unit).predecessors.first() else {
            return Ok(());
        };
        let shard = &plan.shards[predecessor as usize];
        let bucket = (1 << shard.bucket_bits) - 1;
        let request = messages::request(worker, &Wanted::Bucket(shard.sequence, bucket), &[]);
        let mut stream = client.fetch_partition(tokio_stream::iter([request])).await?.into_inner();
        let blocks = next_answer(&mut stream).await?.expect("the answer has an end");
        assert!(stream.message().await?.is_none(), "one answer was asked for");
        let of_part = |part: u32| {
            let first = 3 * bucket as usize;
            self.blocks[&(shard.sequence, part)][first..first + 2]
                .iter()
                .map(|block| block.bytes())
        };
        assert!(
            blocks.iter().map(Vec::as_slice).eq((0..shard.parts).flat_map(of_part)),
            "{unit:?} reads something else"
        );
        Ok(())
    }
}
