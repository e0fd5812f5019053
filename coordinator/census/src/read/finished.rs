//! A finished order in a data directory, to read from.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use trailtrap_shared::{
    graph::{MAX_ORDER, degree::DegreeSequence},
    partition::{Block, BucketTable, KeyedOutcomes, Mismatch, Section},
    plan::{Plan, Shard, order_name},
};
use trailtrap_worker::kernel::{BucketKey, Source, SourceError};

use crate::{
    core::parents::Parents,
    records::{OrderRecord, OrderResult, alarm::Alarm},
    store::{
        self, REMEDY, Store, StoreError, block_id,
        directory::{DataFlag, DirectoryError, quoted, store_in},
    },
};

/// Why an order cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FinishedError {
    /// There is no store in this directory.
    #[error(
        "there is no census in {0}; `trailtrap census N --data {quoted}` makes one, if that is a new \
         or empty directory",
        quoted = quoted(.0)
    )]
    NoCensus(PathBuf),
    /// The store cannot be opened.
    #[error("data directory {data}")]
    Open {
        /// The data directory.
        data: PathBuf,
        /// Why not.
        source: StoreError,
    },
    /// The system does not let the directory be looked at.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The order has no result yet.
    #[error(
        "order {order} is not finished here; `{command}` does it, goes on with it, or says why it \
         cannot"
    )]
    NotFinished {
        /// The order.
        order: usize,
        /// The command that does it.
        command: String,
    },
    /// An alarm about the order, or one below, is not settled.
    #[error(
        "order {order} is disputed, as this is open:\n{alarm}\nLook into it, then `trailtrap alarms \
         --settle {number} --because REASON{data}`"
    )]
    OpenAlarm {
        /// The order.
        order: usize,
        /// The number of the alarm.
        number: u32,
        /// The alarm as one line.
        alarm: String,
        /// The directory, for the advice.
        data: DataFlag,
    },
    /// Units are doubted, and have not been solved again.
    #[error(
        "order {order}, or one below, has what alarm {number} doubts: `{command}` solves it again"
    )]
    Doubted {
        /// The order.
        order: usize,
        /// The number of the alarm.
        number: u32,
        /// The command that does so.
        command: String,
    },
    /// The order has a result and no outcomes.
    #[error(
        "the outcomes of order {0} were not kept (`--keep`); do it again in another directory, \
         with `--keep all`"
    )]
    NotKept(usize),
    /// The graphs of the order have served, and are gone.
    #[error(
        "the graphs of order {0} were not kept (`--keep`), but for those listed; do it again in \
         another directory, with `--keep all`"
    )]
    GraphsNotKept(usize),
    /// The store cannot be read, or is damaged.
    #[error(transparent)]
    Store(StoreError),
    /// A block is damaged or missing.
    #[error("a part of the store is damaged: {REMEDY}")]
    Block(#[source] StoreError),
    /// Two blocks of one bucket do not belong together.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

impl From<StoreError> for FinishedError {
    fn from(error: StoreError) -> Self {
        match error.bad_block() {
            Some(_) => FinishedError::Block(error),
            None => FinishedError::Store(error),
        }
    }
}

/// That results of orders are withdrawn until units that they follow from are solved again, and
/// which command does that; `None` if none are.
///
/// # Errors
///
/// The store cannot be read, or what it holds is damaged.
pub fn told_of_withdrawn(store: &Store) -> Result<Option<String>, StoreError> {
    let mut withdrawn = Vec::new();
    for order in 1..=MAX_ORDER {
        if let Some(record) = store.order(order)?.filter(|record| record.withdrawn) {
            withdrawn.push((order, record.max_size));
        }
    }
    let Some(&(last, max_size)) = withdrawn.last() else { return Ok(None) };
    let names: Vec<String> =
        withdrawn.into_iter().map(|(order, max_size)| order_name(order, max_size)).collect();
    Ok(Some(format!(
        "withdrawn are the results of {}, since units that they follow from are to be solved again; \
         `{}` has them again",
        names.join(", "),
        command(store, last, max_size, last)
    )))
}

/// The command that does an order, up to so many edges if not all of it, and all orders from some
/// first one on again, and keeps what was kept.
pub(super) fn command(
    store: &Store,
    order: usize,
    max_size: Option<usize>,
    first: usize,
) -> String {
    let (limit, data) = (limit_flag(max_size), DataFlag::of(store));
    let record = |order| store.order(order).ok().flatten();
    // What is said holds for all orders that are done again.
    let is_kept_again = |n: usize| {
        let is_done_again = |record: &OrderRecord| n >= first || record.result.is_none();
        record(n).is_some_and(|record| record.outcomes_kept && is_done_again(&record))
    };
    let keep = match record(order) {
        _ if (1..=order).any(is_kept_again) => "",
        Some(last) if last.graphs_dropped => " --keep minimal",
        Some(_) => " --keep graphs",
        None => "",
    };
    match store.is_on_shelves() {
        true => format!(
            "trailtrap coordinator --order {order}{limit}{data} --listen ADDRESS:PORT --shelves \
             --keep minimal"
        ),
        false => format!("trailtrap census {order}{limit}{data}{keep}"),
    }
}

/// Opens the store of a data directory, in use or not, to read from.
///
/// # Errors
///
/// There is no census here, or its store cannot be read.
pub fn open_store(data: &Path) -> Result<Arc<Store>, FinishedError> {
    let path = store_in(data);
    let io = |source| DirectoryError::Io { path: data.to_owned(), source };
    if !path.try_exists().map_err(io)? {
        return Err(FinishedError::NoCensus(data.to_owned()));
    }
    let store = Store::open_read_only(&path)
        .map_err(|source| FinishedError::Open { data: data.to_owned(), source });
    Ok(Arc::new(store?))
}

/// The result of an order, if its record has one.
pub fn result(order: usize, record: &OrderRecord) -> Option<OrderResult> {
    Some(OrderResult { order, by_size: record.result.clone()? })
}

/// The alarms of a census.
pub struct Alarms {
    /// All of them, by number.
    pub all: Vec<(u32, Alarm)>,
    /// See [`Store::pending`].
    pending: Option<(usize, u32)>,
}

/// Why results of an order are disputed.
pub enum Dispute<'a> {
    /// This alarm about the order, or about one that it was computed from, is not settled.
    Open(u32, &'a Alarm),
    /// What this alarm doubts of this order has not been solved again.
    Doubted(u32, usize),
}

impl Dispute<'_> {
    /// That results of an order are not given for that reason, and what to do.
    pub fn refusal(&self, store: &Store, order: usize) -> FinishedError {
        match *self {
            Dispute::Open(number, alarm) => {
                let data = DataFlag::of(store);
                FinishedError::OpenAlarm { order, number, alarm: alarm.line(number), data }
            }
            Dispute::Doubted(number, first) => {
                let command = command(store, order, limit_of(store, order), first);
                FinishedError::Doubted { order, number, command }
            }
        }
    }
}

impl Alarms {
    /// Those that a store has.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn of(store: &Store) -> Result<Self, StoreError> {
        let all = store.alarms()?;
        let pending = store.pending(&all)?;
        Ok(Alarms { all, pending })
    }

    /// Why results of an order are disputed, if they are.
    pub fn dispute(&self, order: usize) -> Option<Dispute<'_>> {
        let mut all = self.all.iter();
        if let Some((number, alarm)) = all.find(|(_, alarm)| alarm.is_open_about(order)) {
            return Some(Dispute::Open(*number, alarm));
        }
        let (least, number) = self.pending.filter(|&(least, _)| least <= order)?;
        Some(Dispute::Doubted(number, least))
    }
}

/// The results of all finished orders: those from 1 to the last one. None of them may be missing.
///
/// # Errors
///
/// The store cannot be read, or an order below a finished one is not finished.
pub fn results(store: &Store) -> Result<Vec<OrderResult>, FinishedError> {
    let mut results = Vec::new();
    for order in 1..=MAX_ORDER {
        match store.order(order)?.and_then(|record| result(order, &record)) {
            Some(result) if results.len() + 1 == order => results.push(result),
            Some(_) => return Err(not_finished(store, results.len() + 1)),
            None => {}
        }
    }
    Ok(results)
}

/// That an order is not finished in this store.
pub fn not_finished(store: &Store, order: usize) -> FinishedError {
    let command = command(store, order, limit_of(store, order), order);
    FinishedError::NotFinished { order, command }
}

/// Up to how many edges an order was done, or is to be, if not to its end.
fn limit_of(store: &Store, order: usize) -> Option<usize> {
    store.order(order).ok().flatten().and_then(|record| record.max_size)
}

/// The option that says up to how many edges an order is done; nothing if that is to its end.
fn limit_flag(max_size: Option<usize>) -> String {
    max_size.map_or_else(String::new, |max_size| format!(" --max-size {max_size}"))
}

/// Whether outcomes of graphs with the most edges of a plan are gone.
fn lacks_last(store: &Store, plan: &Plan) -> Result<bool, StoreError> {
    let shards = plan.layer(plan.max_size).map(|shard| &plan.shards[shard as usize]);
    for (shard, part) in shards.flat_map(|shard| (0..shard.parts).map(move |part| (shard, part))) {
        if !store.has(&block_id(shard, part, 0, Section::Outcomes))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A finished order.
pub struct FinishedOrder {
    /// The store that it is in.
    pub store: Arc<Store>,
    /// The plan by which it was split.
    pub plan: Plan,
    /// The result that is recorded.
    pub result: OrderResult,
    /// Whether the outcomes of all positions are still there.
    pub outcomes_kept: bool,
    /// Whether all its graphs are still there: without outcomes they go when the next order is
    /// done, or with the outcomes.
    pub graphs_kept: bool,
    /// The most edges of graphs whose outcomes may be gone.
    retired_size: Option<usize>,
}

impl FinishedOrder {
    /// An order, if it is finished; otherwise says what to do.
    ///
    /// # Errors
    ///
    /// The order is not finished, its outcomes were not kept, or the store is damaged.
    pub fn open(store: &Arc<Store>, order: usize) -> Result<Self, FinishedError> {
        let record = store.order(order)?.ok_or_else(|| not_finished(store, order))?;
        let result = result(order, &record).ok_or_else(|| not_finished(store, order))?;
        let plan = store::plan(store.layout(), order, &record)?;
        let outcomes_kept = record.outcomes_kept;
        let may_be_gone = record.graphs_dropped || store.order(order + 1)?.is_some();
        let graphs_kept = outcomes_kept || !may_be_gone || store.has_all_graphs(order)?;
        let mut retired_size = plan.retired_size(record.graphs_dropped).filter(|_| !outcomes_kept);
        // A run that was to do more drops those with most edges, too.
        if retired_size < Some(plan.max_size) && !outcomes_kept && lacks_last(store, &plan)? {
            retired_size = Some(plan.max_size);
        }
        let store = store.clone();
        Ok(FinishedOrder { store, plan, result, outcomes_kept, graphs_kept, retired_size })
    }

    /// An order, if it is finished and nothing of it is disputed.
    ///
    /// # Errors
    ///
    /// As [`FinishedOrder::open`]; or an alarm is open, or doubts what has not been solved again.
    pub fn open_undisputed(store: &Arc<Store>, order: usize) -> Result<Self, FinishedError> {
        match Alarms::of(store)?.dispute(order) {
            Some(dispute) => Err(dispute.refusal(store, order)),
            None => Self::open(store, order),
        }
    }

    /// The shard of a degree sequence of this order.
    pub fn shard(&self, sequence: &DegreeSequence) -> Option<&Shard> {
        self.plan.find(sequence).map(|index| &self.plan.shards[index as usize])
    }

    /// One bucket of a partition, keys and outcomes; an error if the outcomes were not kept.
    ///
    /// # Errors
    ///
    /// A block is missing or damaged, or two of them do not belong together.
    pub fn table(&self, shard: &Shard, bucket: u32) -> Result<BucketTable, FinishedError> {
        self.outcomes_of(shard.size)?;
        let keys = self.blocks(shard, bucket, Section::Keys)?;
        let outcomes = self.blocks(shard, bucket, Section::Outcomes)?;
        let pairs = keys.into_iter().zip(outcomes);
        let parts: Vec<KeyedOutcomes> =
            pairs.map(|(keys, outcomes)| KeyedOutcomes { keys, outcomes }).collect();
        Ok(BucketTable::from_blocks(&parts)?)
    }

    /// That there are outcomes of all graphs.
    ///
    /// # Errors
    ///
    /// They were not kept.
    pub fn outcomes(&self) -> Result<(), FinishedError> {
        self.outcomes_kept.then_some(()).ok_or(FinishedError::NotKept(self.plan.order))
    }

    /// That there are outcomes of the graphs with so many edges.
    ///
    /// # Errors
    ///
    /// They were not kept.
    pub fn outcomes_of(&self, size: usize) -> Result<(), FinishedError> {
        if self.keeps(size, Section::Outcomes) { Ok(()) } else { self.outcomes() }
    }

    /// Whether the blocks of this section of the graphs with so many edges are still there.
    pub fn keeps(&self, size: usize, section: Section) -> bool {
        match section {
            Section::Keys => self.graphs_kept,
            Section::Outcomes => self.outcomes_kept || self.retired_size < Some(size),
            Section::Wins => true,
        }
    }

    /// The slots in one bucket of a partition, of its keys or of its wins.
    ///
    /// # Errors
    ///
    /// They were not kept, or a block is missing or damaged.
    pub fn slots(
        &self,
        shard: &Shard,
        bucket: u32,
        section: Section,
    ) -> Result<Vec<u64>, FinishedError> {
        if section == Section::Keys && !self.keeps(shard.size, section) {
            return Err(self.not_kept(section));
        }
        let blocks = self.blocks(shard, bucket, section)?;
        Ok(blocks.iter().flat_map(|block| block.slots().collect::<Vec<_>>()).collect())
    }

    /// The blocks of one bucket of a partition. What is missing may have been kept when the order
    /// was opened: whoever writes to the store drops what has served, and meanwhile the order has no
    /// result.
    fn blocks(
        &self,
        shard: &Shard,
        bucket: u32,
        section: Section,
    ) -> Result<Vec<Block>, FinishedError> {
        self.store.blocks(shard, bucket, section).map_err(|error| {
            let is_kept = || {
                let store = Arc::new(Store::open_read_only(self.store.path())?);
                Ok(Self::open(&store, self.plan.order)?.keeps(shard.size, section))
            };
            match error.bad_block().map(|_| is_kept()) {
                Some(Ok(false)) => self.not_kept(section),
                Some(Err(unfinished @ FinishedError::NotFinished { .. })) => unfinished,
                _ => error.into(),
            }
        })
    }

    /// That blocks of this section were not kept.
    fn not_kept(&self, section: Section) -> FinishedError {
        match section {
            Section::Keys => FinishedError::GraphsNotKept(self.plan.order),
            Section::Outcomes | Section::Wins => FinishedError::NotKept(self.plan.order),
        }
    }

    /// All buckets of a partition.
    pub fn tables(
        &self,
        shard: &Shard,
    ) -> impl Iterator<Item = Result<BucketTable, FinishedError>> {
        shard.buckets().map(|bucket| self.table(shard, bucket))
    }
}

/// What a unit reads when it is solved again: the finished order itself, and its parents.
pub struct FinishedSource<'a> {
    /// The order that outcomes are read from.
    pub finished: &'a FinishedOrder,
    /// The order below, unless its graphs are enumerated by nauty.
    pub below: Option<FinishedOrder>,
    /// Parents of the first orders.
    pub parents: Parents,
}

impl Source for FinishedSource<'_> {
    fn parents(&self, sequence: &DegreeSequence) -> Result<Arc<Vec<u64>>, SourceError> {
        let mut slots: Vec<u64> = match (self.parents.block(sequence), &self.below) {
            (Some(block), _) => block.slots().collect(),
            (None, None) => Vec::new(),
            // No graph of the class has degrees that no plan of it has.
            (None, Some(below)) if below.plan.number(sequence).is_none() => Vec::new(),
            (None, Some(below)) => {
                let shard = below.shard(sequence).ok_or_else(|| format!("no shard {sequence}"))?;
                let mut slots = Vec::new();
                for bucket in shard.buckets() {
                    slots.extend(below.slots(shard, bucket, Section::Keys)?);
                }
                slots
            }
        };
        slots.sort_unstable();
        Ok(Arc::new(slots))
    }

    fn table(
        &self,
        BucketKey { sequence, bucket, .. }: &BucketKey,
    ) -> Result<Arc<BucketTable>, SourceError> {
        let shard = self.finished.shard(sequence).ok_or_else(|| format!("no shard {sequence}"))?;
        Ok(Arc::new(self.finished.table(shard, *bucket)?))
    }
}
