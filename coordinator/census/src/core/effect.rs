//! What the core wants done, and what it tells those who asked.

use std::{error::Error, sync::Arc};

use trailtrap_shared::{
    graph::degree::DegreeSequence,
    plan::{Plan, Unit},
};

use crate::records::{Author, Delivery, UnitRecord, alarm::Alarm};

/// What was delivered under one lease, from its coming in to its answer. Never used again.
pub type ArrivalId = u64;

/// Something that the driver is to do. Whoever handed in the event that caused it carries it out,
/// outside the lock, and hands the outcome in as another event.
///
/// The first two are different: they go to the committer, which carries them out one after the
/// other in the order in which they were emitted.
pub enum Effect {
    /// Make this durable: [`Core::writing`](super::Core::writing), then
    /// [`Core::written`](super::Core::written).
    Commit(CommitEntry),
    /// Take these units back and make the state anew of what the store still holds:
    /// [`Core::beginning`](super::Core::beginning), then [`Core::begun`](super::Core::begun).
    BeginEdition { units: Vec<Unit> },
    /// Read what the store knows of an order: [`Core::opened`](super::Core::opened) or
    /// [`Core::found_finished`](super::Core::found_finished).
    OpenOrder { order: usize, edition: u32 },
    /// Add an order up, check it and record its result: [`Core::closed`](super::Core::closed) or
    /// [`Core::contradicted`](super::Core::contradicted).
    CloseOrder { plan: Arc<Plan> },
    /// Nothing reads the outcomes of graphs with up to `size` edges any more: drop them.
    DropOutcomes { order: usize, size: usize },
    /// Find out whether results are what they say they are:
    /// [`Core::examined`](super::Core::examined).
    Examine { arrival: ArrivalId, plan: Arc<Plan>, deliveries: Vec<Delivery> },
    /// Read the records of these units: [`Core::records_read`](super::Core::records_read).
    ReadRecords { arrival: ArrivalId, units: Vec<Unit> },
    /// Make an alarm durable, new or changed: [`Core::alarm_kept`](super::Core::alarm_kept).
    KeepAlarm { number: u32, alarm: Alarm },
    /// Find out which of two results is wrong: [`Core::judged`](super::Core::judged).
    Judge { alarm: u32, case: Box<Case> },
    /// Find out what the store holds of these workers since a result of theirs was last
    /// confirmed, `besides` what is accepted and not durable:
    /// [`Core::traced`](super::Core::traced).
    Trace { alarm: u32, workers: Vec<Suspect> },
    /// Tell a worker what became of what it delivered.
    Answer { arrival: ArrivalId, answer: Result<Accepted, Refusal> },
    /// What was remembered of the blocks of this edition is not to be relied upon any more.
    EditionOver,
    /// Wake those who wait for work.
    Wake,
}

/// What the committer makes durable as one.
pub struct CommitEntry {
    /// What it belongs to; what was accepted in an earlier edition is dropped.
    pub edition: u32,
    /// Units that were accepted.
    pub deliveries: Vec<Arc<Delivery>>,
    /// Units that were confirmed.
    pub confirmed: Vec<Confirmed>,
    /// Units whose records are to go, because they are solved again.
    pub stale: Vec<Unit>,
    /// When this is durable, no unfinished shard needs these outcomes.
    pub retired: Option<Retired>,
    /// Nothing will come for a while: do not wait for more.
    pub urgent: bool,
    /// Who waits for it.
    pub arrival: Option<ArrivalId>,
}

impl CommitEntry {
    /// Nothing, in this edition.
    pub fn of(edition: u32) -> Self {
        CommitEntry {
            edition,
            deliveries: Vec::new(),
            confirmed: Vec::new(),
            stale: Vec::new(),
            retired: None,
            urgent: false,
            arrival: None,
        }
    }
}

/// A unit that another worker has solved again with the same results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmed {
    pub unit: Unit,
    /// That worker.
    pub by: Author,
}

/// Outcomes of graphs with up to `size` edges that no unfinished shard of the order reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Retired {
    pub order: usize,
    pub size: usize,
}

/// Two results of one unit that differ.
pub struct Case {
    pub plan: Arc<Plan>,
    /// The record of the one that was accepted.
    pub accepted: UnitRecord,
    /// The one that came later.
    pub other: Delivery,
    pub edition: u32,
}

/// A worker whose results are not believed, and those of them that are accepted and not durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// As records name it.
    pub worker: Author,
    pub pending: Vec<Instance>,
}

/// A unit, and the lease it was solved under: later computations have larger numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    pub lease: u64,
    pub unit: Unit,
}

/// What an examination has shown.
#[derive(Debug)]
pub enum Examined {
    /// Nothing wrong.
    Passed,
    /// Counts, blocks or sums are not those of such a unit.
    Wrong { unit: Unit, why: String },
    /// A record of the delivery with this index does not follow from its predecessors.
    Flaw { index: usize, why: String },
    /// What it was computed from is not there any more.
    Gone,
}

/// Who is wrong when two results of a unit differ.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum DisputeVerdict {
    #[error("by nauty, the first is wrong ({0})")]
    First(String),
    #[error("by nauty, the first is right")]
    Second,
    #[error("which of them is wrong could not be found out ({0})")]
    Unknown(String),
}

/// That results were accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Shards that nothing will read any more.
    pub retired: Vec<u32>,
}

/// Why a delivery was not accepted.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refusal {
    #[error("the lease is void")]
    Void,
    #[error("the results of unit {unit:?} are wrong: {why}")]
    Wrong { unit: Unit, why: String },
    #[error("the parts of {sequence} do not add up and are all to be solved again: {why}")]
    TakenBack { sequence: DegreeSequence, why: String },
    #[error("this worker is not trusted any more: {0}")]
    Distrusted(String),
    #[error("the census has ended")]
    Ended,
}

/// What ends a census before everything is done.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error(
        "the results contradict theory and are not reported; a machine that worked on them is \
         faulty, or the program is"
    )]
    Contradiction(#[source] Box<dyn Error + Send + Sync>),
    #[error("{0}: a machine that worked on it, or this program, is faulty")]
    Faulty(String),
    #[error(
        "{count} units failed again and again and were set aside, the first of them part {part} \
         of {sequence}: {failures}; everything else that could be done is done and kept. The same \
         command tries again"
    )]
    SetAside { count: usize, sequence: DegreeSequence, part: u32, failures: String },
    /// Something that the driver was to do failed; it knows why.
    #[error("the coordinator could not do what it has to do")]
    Driver,
}
