//! The kernel against forward search and against itself in other cuts.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, atomic::AtomicBool},
};

use trailtrap_shared::{
    degree::DegreeSequence,
    digest::Digest,
    game::TrailTrap,
    labelling::batch::Kernel,
    partition::Table,
    plan::{Plan, PlanOptions, Unit},
    statistics::Statistics,
};

use crate::solve::{Solver, Source, SourceError};

/// Everything solved so far, in memory.
#[derive(Default)]
pub struct Memory {
    tables: Mutex<HashMap<(DegreeSequence, u32), Vec<Arc<Table>>>>,
}

impl Source for Memory {
    fn parents(&self, sequence: &DegreeSequence) -> Result<Arc<Vec<u64>>, SourceError> {
        let tables = self.tables.lock().unwrap();
        let mut slots: Vec<u64> = (0..)
            .map_while(|bucket| tables.get(&(*sequence, bucket)))
            .flatten()
            .flat_map(|table| (0..table.len()).map(|i| table.slot(i)))
            .collect();
        slots.sort_unstable();
        Ok(Arc::new(slots))
    }

    fn table(&self, sequence: &DegreeSequence, bucket: u32) -> Result<Arc<Table>, SourceError> {
        let tables = self.tables.lock().unwrap();
        let parts = &tables[&(*sequence, bucket)];
        if let [table] = &parts[..] {
            return Ok(table.clone());
        }
        let blocks: Vec<_> = parts
            .iter()
            .enumerate()
            .map(|(part, table)| {
                let [keys, outcomes, _] = table.to_blocks::<TrailTrap>(part as u32);
                (keys, outcomes)
            })
            .collect();
        Ok(Arc::new(Table::from_blocks::<TrailTrap>(&blocks)?))
    }
}

/// Solves all orders up to `order`; statistics and digest of each.
pub fn census(
    order: usize,
    options: PlanOptions,
    kernel: Kernel,
    allowance: usize,
) -> (Vec<(Statistics, Digest)>, Memory) {
    let memory = Memory::default();
    let stop = AtomicBool::new(false);
    let solver = Solver { kernel, allowance, stop: &stop };
    let mut results = Vec::new();
    for n in 1..=order {
        let plan = Plan::new::<TrailTrap>(n, options);
        let (mut statistics, mut digest) = (Statistics::default(), Digest::default());
        for (index, shard) in plan.shards.iter().enumerate() {
            let mut mass = 0;
            for part in 0..shard.parts {
                let unit = Unit { order: n as u8, shard: index as u32, part };
                let solved = solver.solve::<TrailTrap>(&plan, unit, &memory).unwrap();
                for table in solved.tables {
                    memory.tables.lock().unwrap().entry((shard.sequence, table.bucket())).or_default().push(table);
                }
                mass += solved.statistics.labelled.all.graphs;
                statistics += solved.statistics;
                digest += solved.digest;
            }
            assert_eq!(mass, shard.mass, "mass of {}", shard.sequence);
        }
        results.push((statistics, digest));
    }
    (results, memory)
}

#[test]
fn table_1_of_the_paper() {
    let (results, _) = census(7, PlanOptions::default(), Kernel::best(), usize::MAX);
    let connected: Vec<_> =
        results.iter().map(|(s, _)| (s.classes.connected.graphs, s.classes.connected.p2_wins())).collect();
    assert_eq!(connected[2..], [(2, 2), (6, 4), (21, 17), (112, 88), (853, 734)]);
    let all: Vec<_> = results.iter().map(|(s, _)| (s.classes.all.p1_wins, s.classes.all.p2_wins())).collect();
    assert_eq!(all[1..6], [(1, 1), (1, 3), (3, 8), (7, 27), (33, 123)]);
}

#[test]
fn cuts_and_kernels_change_nothing() {
    let (expected, _) = census(8, PlanOptions::default(), Kernel::best(), usize::MAX);
    let cut = PlanOptions { part_graphs: 40, bucket_bytes: 500 };
    assert_eq!(census(8, cut, Kernel::best(), usize::MAX).0, expected, "in parts and buckets");
    assert_eq!(census(8, cut, Kernel::best(), 1).0, expected, "one bucket of one predecessor at a time");
    for kernel in Kernel::ALL.into_iter().filter(|kernel| kernel.is_available()) {
        assert_eq!(census(8, PlanOptions::default(), kernel, usize::MAX).0, expected, "{}", kernel.name());
    }
}

#[test]
#[ignore]
fn timing() {
    let n: usize = std::env::var("N").unwrap().parse().unwrap();
    let kernel: Kernel = std::env::var("K").unwrap_or("auto".into()).parse().unwrap();
    let t = std::time::Instant::now();
    let (r, _) = census(n, PlanOptions::default(), kernel, usize::MAX);
    println!("{n} {:?} {:?}", t.elapsed(), r.last().unwrap());
}
