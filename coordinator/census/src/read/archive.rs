//! The orders of a data directory, to read only: the finished ones, and if asked for the one in
//! work.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    path::Path,
    sync::Arc,
};

use trailtrap_shared::{
    class::Class,
    count::{digest::Digest, statistics::Statistics, summary::Summary},
    game::GameName,
    graph::{Graph, degree::DegreeSequence},
    partition::{Section, graph_of_slot},
    plan::{Plan, Shard, Unit},
};

use crate::{
    read::finished::{self, Alarms, FinishedError, FinishedOrder},
    records::{
        Author, OrderRecord, OrderResult, UnitRecord,
        alarm::{self, Alarm},
    },
    store::{self, Store, StoreError},
};

/// Why orders cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// There is no census, the order is not finished, or the store cannot be read or is damaged.
    #[error(transparent)]
    Finished(#[from] FinishedError),
    /// Nothing of the order is in the store.
    #[error("order {order} is not begun here; `{command}` does it, or says why it cannot")]
    NotBegun {
        /// The order.
        order: usize,
        /// What does it.
        command: String,
    },
    /// Graphs with many edges were left out.
    #[error(
        "order {order} is done up to {max_size} edges only; `{command}` does the rest, or says why \
         it cannot"
    )]
    Limited {
        /// The order.
        order: usize,
        /// The most edges of the graphs that are done.
        max_size: usize,
        /// What does the rest, and the orders up to the last that was asked for.
        command: String,
    },
    /// A finished order lacks records of units.
    #[error(
        "order {order} is marked as done, but units of the shard {sequence} are missing: the \
         store is damaged"
    )]
    MissingUnits {
        /// The order.
        order: usize,
        /// The degree sequence of a shard that is not complete.
        sequence: DegreeSequence,
    },
    /// A list in the store holds something that is no graph of its shard.
    #[error("the shard {sequence} lists slot {slot:#x}, which is no graph: the store is damaged")]
    NoGraph {
        /// The degree sequence of the shard.
        sequence: DegreeSequence,
        /// What stands in the list.
        slot: u64,
    },
}

/// The orders of a data directory, in use or not.
pub struct Archive {
    store: Arc<Store>,
    alarms: Alarms,
    /// Whether orders that are not finished may be read.
    unfinished: bool,
}

impl From<StoreError> for ArchiveError {
    fn from(error: StoreError) -> Self {
        FinishedError::from(error).into()
    }
}

/// Whether an order is all there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completeness {
    /// How far it is.
    pub stage: Stage,
    /// Graphs with more edges are left out, if it is not done, or not to be done, to the end.
    pub max_size: Option<usize>,
}

/// How far an order is, as far as it is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is done, and has passed the checks.
    Finished,
    /// So many units of the planned ones are recorded, and nothing was checked.
    Unfinished {
        /// Units with a record.
        recorded: usize,
        /// Units of the plan.
        planned: usize,
    },
    /// It was done, and units that it follows from are to be solved again.
    Withdrawn,
    /// It is done, but an alarm about it, or about an order that it was computed from, is open, or
    /// doubts what has not been solved again.
    Disputed,
}

impl Completeness {
    /// Whether nothing is missing, and nothing doubted.
    pub fn is_complete(self) -> bool {
        self.stage == Stage::Finished && self.max_size.is_none()
    }

    /// One word about the stage, for programs.
    pub fn word(self) -> &'static str {
        match self.stage {
            Stage::Finished if self.max_size.is_some() => "limited",
            Stage::Finished => "finished",
            Stage::Unfinished { .. } => "unfinished",
            Stage::Withdrawn => "withdrawn",
            Stage::Disputed => "disputed",
        }
    }

    /// What the name of a list says that may lack graphs.
    pub fn mark(self) -> &'static str {
        if self.stage == Stage::Finished { "limited" } else { "unfinished" }
    }
}

/// For people, after the name of an order.
impl fmt::Display for Completeness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stage {
            Stage::Finished if self.max_size.is_some() => write!(f, "is done"),
            Stage::Finished => write!(f, "is finished"),
            Stage::Unfinished { recorded, planned } => {
                write!(
                    f,
                    "is UNFINISHED: {recorded} of {planned} units are recorded, counts are lower \
                     bounds, and nothing was checked"
                )
            }
            Stage::Withdrawn => {
                write!(
                    f,
                    "is WITHDRAWN: units that it follows from are to be solved again, and counts \
                     may be wrong either way"
                )
            }
            Stage::Disputed => {
                write!(
                    f,
                    "is DISPUTED: an alarm is open, or what it doubts has not been solved again; \
                     see `trailtrap alarms`"
                )
            }
        }?;
        match (self.max_size, self.stage) {
            (None, _) => Ok(()),
            (Some(max_size), Stage::Finished) => write!(f, " up to {max_size} edges only"),
            (Some(max_size), _) => {
                write!(f, "; graphs with more than {max_size} edges are left out")
            }
        }
    }
}

/// What is known of a shard without looking at its graphs.
pub struct ShardSummary {
    /// Its degree sequence.
    pub sequence: DegreeSequence,
    /// The counts of its recorded parts.
    pub statistics: Statistics,
    /// The public digest of its recorded parts.
    pub digest: Digest,
    /// Parts of the plan, and those of them that the rest is about.
    pub parts: u32,
    /// Parts of which there is a record.
    pub parts_recorded: u32,
    /// Bytes of its blocks.
    pub bytes: u64,
    /// Time it took its workers.
    pub microseconds: u64,
    /// Who solved its parts, each named once.
    pub workers: Vec<String>,
    /// Parts that another worker solved again, with the same results.
    pub parts_confirmed: u32,
    /// Records that nauty derived again from their predecessors before they were accepted.
    pub records_tried: u64,
}

impl Archive {
    /// Opens the store of a data directory. Orders that are not finished can be read if
    /// `unfinished` is set.
    ///
    /// # Errors
    ///
    /// There is no census here, or its store cannot be read.
    pub fn open(data: &Path, unfinished: bool) -> Result<Self, ArchiveError> {
        let store = finished::open_store(data)?;
        let alarms = Alarms::of(&store)?;
        Ok(Archive { store, alarms, unfinished })
    }

    /// That results of orders are withdrawn, if some are ([`finished::told_of_withdrawn`]).
    ///
    /// # Errors
    ///
    /// The store cannot be read, or is damaged.
    pub fn told_of_withdrawn(&self) -> Result<Option<String>, ArchiveError> {
        Ok(finished::told_of_withdrawn(&self.store)?)
    }

    /// The game that all is about.
    pub fn game(&self) -> GameName {
        self.store.game()
    }

    /// The class of the graphs that it is about.
    pub fn class(&self) -> Class {
        self.store.class()
    }

    /// Whether orders that are not finished can be read.
    pub fn admits_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Alarms about an order, settled or not.
    pub fn alarms(&self, order: usize) -> impl Iterator<Item = &Alarm> {
        self.alarms
            .all
            .iter()
            .map(|(_, alarm)| alarm)
            .filter(move |alarm| alarm.unit.order as usize == order)
    }

    /// The record of an order that may be read.
    fn record(&self, order: usize) -> Result<OrderRecord, ArchiveError> {
        if let Some(dispute) = self.alarms.dispute(order).filter(|_| !self.unfinished) {
            return Err(dispute.refusal(&self.store, order).into());
        }
        match self.store.order(order)? {
            Some(record) if self.unfinished || record.result.is_some() => Ok(record),
            None if self.unfinished => {
                let command = finished::command(&self.store, order, None, order);
                Err(ArchiveError::NotBegun { order, command })
            }
            _ => Err(finished::not_finished(&self.store, order).into()),
        }
    }

    /// The result of an order; of one that is not finished, what its units add up to.
    ///
    /// # Errors
    ///
    /// The order may not be read: it is not begun or not finished, or an alarm is open. Or the
    /// store is damaged.
    pub fn order(&self, order: usize) -> Result<OrderResult, ArchiveError> {
        let record = self.record(order)?;
        if let Some(result) = finished::result(order, &record) {
            return Ok(result);
        }
        let plan = store::plan(self.store.layout(), order, &record)?;
        let mut by_size = vec![Summary::default(); plan.max_size + 1];
        for item in self.unit_records(&plan) {
            let (unit, record) = item?;
            let size = plan.shard_of(unit).size;
            by_size[size].add(&record.statistics, record.digest());
        }
        Ok(OrderResult { order, by_size })
    }

    /// The results of all orders up to `last`, or of all that there are: at least of order 1.
    ///
    /// # Errors
    ///
    /// As [`Archive::order`].
    pub fn orders(&self, last: Option<usize>) -> Result<Vec<OrderResult>, ArchiveError> {
        if let Some(last) = last {
            return (1..=last).map(|order| self.order(order)).collect();
        }
        let mut results = finished::results(&self.store)?;
        if let Some(last) = results.last() {
            self.record(last.order)?;
        }
        // The one in work comes after them.
        if results.is_empty() || self.unfinished && self.store.order(results.len() + 1)?.is_some()
        {
            results.push(self.order(results.len() + 1)?);
        }
        Ok(results)
    }

    /// The results of all orders up to `last`, none of them limited, or of all that come before
    /// one that is.
    ///
    /// # Errors
    ///
    /// As [`Archive::order`]; or one of the orders asked for is limited.
    pub fn complete_orders(&self, last: Option<usize>) -> Result<Vec<OrderResult>, ArchiveError> {
        let mut results = self.orders(last)?;
        if let Some(i) = results.iter().position(|result| !result.is_complete()) {
            if let Some(last) = last {
                let (order, max_size) = (results[i].order, results[i].max_size());
                let command = finished::command(&self.store, last, None, last);
                return Err(ArchiveError::Limited { order, max_size, command });
            }
            results.truncate(i);
        }
        Ok(results)
    }

    /// Whether an order is all there.
    ///
    /// # Errors
    ///
    /// As [`Archive::order`].
    pub fn status(&self, order: usize) -> Result<Completeness, ArchiveError> {
        let record = self.record(order)?;
        let of_stage = |stage| Completeness { stage, max_size: record.max_size };
        if record.result.is_some() {
            let is_disputed = self.alarms.dispute(order).is_some();
            return Ok(of_stage(if is_disputed { Stage::Disputed } else { Stage::Finished }));
        }
        if record.withdrawn {
            return Ok(of_stage(Stage::Withdrawn));
        }
        let plan = store::plan(self.store.layout(), order, &record)?;
        let planned = plan.unit_count() as usize;
        let mut recorded = 0;
        for item in self.unit_records(&plan) {
            item?;
            recorded += 1;
        }
        Ok(of_stage(Stage::Unfinished { recorded, planned }))
    }

    /// The plan by which an order was split.
    ///
    /// # Errors
    ///
    /// As [`Archive::order`].
    pub fn plan(&self, order: usize) -> Result<Plan, ArchiveError> {
        Ok(store::plan(self.store.layout(), order, &self.record(order)?)?)
    }

    /// The units of a plan that are recorded, in order. A unit that is of no plan is an error.
    fn unit_records<'s>(
        &'s self,
        plan: &'s Plan,
    ) -> impl Iterator<Item = Result<(Unit, UnitRecord), StoreError>> + 's {
        self.store.each_unit_of(plan).map(move |item| match item? {
            (unit, record) if plan.has(unit) => Ok((unit, record)),
            _ => Err(StoreError::Plan(plan.order)),
        })
    }

    /// The shards of an order, in the order of the plan; of one that is not finished, those of
    /// which something is recorded.
    ///
    /// # Errors
    ///
    /// As [`Archive::order`].
    pub fn shards(&self, order: usize) -> Result<Vec<ShardSummary>, ArchiveError> {
        let alarms = self.alarms.all.iter().map(|(_, alarm)| alarm);
        let blamed: Vec<Author> = alarm::blamed(alarms).cloned().collect();
        let record = self.record(order)?;
        let plan = store::plan(self.store.layout(), order, &record)?;
        let mut summaries: BTreeMap<u32, ShardSummary> = BTreeMap::new();
        for item in self.unit_records(&plan) {
            let (unit, record) = item?;
            let shard = plan.shard_of(unit);
            let summary = summaries.entry(unit.shard).or_insert_with(|| ShardSummary {
                sequence: shard.sequence,
                statistics: Statistics::default(),
                digest: Digest::default(),
                parts: shard.parts,
                parts_recorded: 0,
                bytes: 0,
                microseconds: 0,
                workers: Vec::new(),
                parts_confirmed: 0,
                records_tried: 0,
            });
            summary.digest += record.digest();
            summary.statistics += &record.statistics;
            summary.parts_recorded += 1;
            summary.bytes += record.bytes;
            summary.microseconds += record.microseconds;
            summary.parts_confirmed += u32::from(record.is_confirmed(&blamed));
            summary.records_tried += record.tried;
            let worker = record.worker.to_string();
            if !summary.workers.contains(&worker) {
                summary.workers.push(worker);
            }
        }
        if record.result.is_some() {
            for (index, shard) in plan.shards.iter().enumerate() {
                if summaries
                    .get(&(index as u32))
                    .is_none_or(|summary| summary.parts_recorded != shard.parts)
                {
                    return Err(ArchiveError::MissingUnits { order, sequence: shard.sequence });
                }
            }
        }
        Ok(summaries.into_values().collect())
    }

    /// Shards of an order with those of their parts whose graphs are there: all of them if it is
    /// finished.
    ///
    /// # Errors
    ///
    /// As [`Archive::order`].
    pub fn parts<'a>(&self, plan: &'a Plan) -> Result<Vec<(&'a Shard, u32)>, ArchiveError> {
        if self.record(plan.order)?.result.is_some() {
            return Ok(plan
                .shards
                .iter()
                .flat_map(|shard| (0..shard.parts).map(move |part| (shard, part)))
                .collect());
        }
        let part = |(unit, _): (Unit, UnitRecord)| (plan.shard_of(unit), unit.part);
        Ok(self.unit_records(plan).map(|item| item.map(part)).collect::<Result<_, _>>()?)
    }

    /// All graphs of a finished order, in the labels of the census, and whether they have the
    /// listed verdict.
    ///
    /// # Errors
    ///
    /// As [`Archive::order`]; or not all graphs were kept, or a block is missing or damaged.
    pub fn verdicts(&self, order: usize) -> Result<Vec<(Graph, bool)>, ArchiveError> {
        self.record(order)?;
        let finished = FinishedOrder::open(&self.store, order)?;
        let mut graphs = Vec::new();
        for shard in &finished.plan.shards {
            let sequence = shard.sequence;
            for bucket in shard.buckets() {
                let listed = finished.slots(shard, bucket, Section::Wins)?;
                let listed: HashSet<u64> = listed.into_iter().collect();
                for slot in finished.slots(shard, bucket, Section::Keys)? {
                    let graph = graph_of_slot(&sequence, slot);
                    let graph = graph.ok_or(ArchiveError::NoGraph { sequence, slot })?;
                    graphs.push((graph, listed.contains(&slot)));
                }
            }
        }
        Ok(graphs)
    }

    /// The graphs of the listed verdict of a part of a shard, in the labels of the census.
    ///
    /// # Errors
    ///
    /// A block is missing or damaged.
    pub fn listed(&self, shard: &Shard, part: u32) -> Result<Vec<Graph>, ArchiveError> {
        let mut graphs = Vec::new();
        for bucket in shard.buckets() {
            for slot in self.store.block(shard, part, bucket, Section::Wins)?.slots() {
                let graph = graph_of_slot(&shard.sequence, slot);
                graphs
                    .push(graph.ok_or(ArchiveError::NoGraph { sequence: shard.sequence, slot })?);
            }
        }
        Ok(graphs)
    }
}
