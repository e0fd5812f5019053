//! A census in memory, without store, schedule or leases: for tests and benchmarks of the kernel,
//! and small orders.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicBool},
};

use parking_lot::RwLock;
use trailtrap_shared::{
    class::Class,
    count::summary::Summary,
    game::{GameName, Layout},
    graph::degree::DegreeSequence,
    labelling::batch::Kernel,
    partition::{BucketTable, KeyedOutcomes},
    plan::{Plan, PlanOptions, Unit},
};

use crate::kernel::{BucketKey, SolveError, SolvedUnit, Solver, Source, SourceError};

/// The tables of the parts of one bucket.
type Parts = Vec<Arc<BucketTable>>;

/// Partitions in memory, none of which is ever dropped.
#[derive(Default)]
pub struct Memory {
    tables: RwLock<HashMap<(DegreeSequence, u32), Parts>>,
}

impl Memory {
    /// Adds a solved unit; the parts of a shard in order.
    pub fn keep(&self, solved: &SolvedUnit) {
        let mut tables = self.tables.write();
        for table in &solved.tables {
            tables.entry((solved.sequence, table.bucket())).or_default().push(table.clone());
        }
    }

    /// All tables of an order.
    pub fn tables(&self, order: usize) -> Vec<Arc<BucketTable>> {
        let tables = self.tables.read();
        tables
            .values()
            .flatten()
            .filter(|table| table.sequence().order() == order)
            .cloned()
            .collect()
    }

    /// The tables of a bucket, one for each part.
    pub(crate) fn parts(&self, sequence: &DegreeSequence, bucket: u32) -> Option<Parts> {
        self.tables.read().get(&(*sequence, bucket)).cloned()
    }
}

impl Source for Memory {
    fn parents(&self, sequence: &DegreeSequence) -> Result<Arc<Vec<u64>>, SourceError> {
        let mut slots: Vec<u64> = (0..)
            .map_while(|bucket| self.parts(sequence, bucket))
            .flatten()
            .flat_map(|table| (0..table.len()).map(|i| table.slot(i)).collect::<Vec<_>>())
            .collect();
        slots.sort_unstable();
        Ok(Arc::new(slots))
    }

    fn is_at_hand(&self, _: &BucketKey) -> bool {
        true
    }

    fn table(
        &self,
        BucketKey { sequence, bucket, .. }: &BucketKey,
    ) -> Result<Arc<BucketTable>, SourceError> {
        let parts = self
            .parts(sequence, *bucket)
            .ok_or_else(|| format!("partition {sequence} is not solved"))?;
        if let [table] = &parts[..] {
            return Ok(table.clone());
        }
        let blocks: Vec<KeyedOutcomes> = parts
            .iter()
            .enumerate()
            .map(|(part, table)| table.to_blocks(part as u32).into())
            .collect();
        Ok(Arc::new(BucketTable::from_blocks(&blocks)?))
    }
}

/// Solves all orders up to `order`: statistics and digest of each, and all partitions. Order 9
/// takes a second.
///
/// # Errors
/// As [`Solver::solve`].
pub fn census(
    order: usize,
    options: PlanOptions,
    solver: &Solver,
) -> Result<(Vec<Summary>, Memory), SolveError> {
    let mut results = vec![Summary::default(); order];
    let memory =
        census_with(order, options, solver, &mut |plan, solved| add(&mut results, plan, solved))?;
    Ok((results, memory))
}

/// The same of a game without a name.
#[cfg(test)]
pub(crate) fn census_as<G: trailtrap_shared::game::Game>(
    order: usize,
    options: PlanOptions,
    solver: &Solver,
) -> Result<(Vec<Summary>, Memory), SolveError> {
    let mut results = vec![Summary::default(); order];
    let solve = |plan: &Plan, unit, memory: &Memory| {
        let mut solved = solver.solve_as::<G>(plan, &[unit], memory)?;
        Ok(solved.pop().expect("one unit was solved"))
    };
    let memory = each_unit(G::LAYOUT, order, options, &solve, &mut |plan, solved| {
        add(&mut results, plan, solved)
    })?;
    Ok((results, memory))
}

fn add(results: &mut [Summary], plan: &Plan, solved: &SolvedUnit) {
    results[plan.order - 1] += &solved.summary;
}

/// Solves all orders up to `order`, and shows each solved unit to `observe`.
///
/// # Errors
/// As [`Solver::solve`].
pub fn census_with(
    order: usize,
    options: PlanOptions,
    solver: &Solver,
    observe: &mut dyn FnMut(&Plan, &SolvedUnit),
) -> Result<Memory, SolveError> {
    census_of(Class::All, order, options, solver, observe)
}

/// The same for the graphs of a class.
///
/// # Errors
/// As [`Solver::solve`].
pub fn census_of(
    class: Class,
    order: usize,
    options: PlanOptions,
    solver: &Solver,
    observe: &mut dyn FnMut(&Plan, &SolvedUnit),
) -> Result<Memory, SolveError> {
    let solve = |plan: &Plan, unit, memory: &Memory| solver.solve(plan, unit, memory);
    each_unit(solver.game.layout().on(class), order, options, &solve, observe)
}

/// Shows each unit of one order to `observe`, solved with the portable kernel, and hands out the plan
/// of that order: for tests.
///
/// # Errors
/// As [`Solver::solve`].
pub fn each_unit_of(
    game: GameName,
    class: Class,
    order: usize,
    options: PlanOptions,
    mut observe: impl FnMut(&SolvedUnit),
) -> Result<Plan, SolveError> {
    let (kernel, stop) = (Kernel::Portable, AtomicBool::new(false));
    let solver = Solver { game, kernel, allowance_bytes: 1 << 20, stop: &stop };
    census_of(class, order, options, &solver, &mut |plan, solved| {
        if plan.order == order {
            observe(solved);
        }
    })?;
    Ok(Plan::new(game.layout().on(class), order, options))
}

fn each_unit(
    layout: Layout,
    order: usize,
    options: PlanOptions,
    solve: &dyn Fn(&Plan, Unit, &Memory) -> Result<SolvedUnit, SolveError>,
    observe: &mut dyn FnMut(&Plan, &SolvedUnit),
) -> Result<Memory, SolveError> {
    let memory = Memory::default();
    for n in 1..=order {
        let plan = Plan::new(layout, n, options);
        for unit in plan.units() {
            let solved = solve(&plan, unit, &memory)?;
            memory.keep(&solved);
            observe(&plan, &solved);
        }
    }
    Ok(memory)
}
