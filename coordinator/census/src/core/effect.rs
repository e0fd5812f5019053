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
    BeginEdition {
        /// Those whose records go.
        units: Vec<Unit>,
    },
    /// Read what the store knows of an order: [`Core::opened`](super::Core::opened) or
    /// [`Core::found_finished`](super::Core::found_finished).
    OpenOrder {
        /// Which one.
        order: usize,
        /// The edition that it is read in.
        edition: u32,
    },
    /// Add an order up, check it and record its result: [`Core::closed`](super::Core::closed) or
    /// [`Core::contradicted`](super::Core::contradicted).
    CloseOrder {
        /// The plan of the order.
        plan: Arc<Plan>,
    },
    /// Nothing reads the outcomes of these shards any more: drop them.
    Drop {
        /// The plan of their order.
        plan: Arc<Plan>,
        /// Which they are.
        shards: Vec<u32>,
        /// Whether their graphs go too, but for those listed.
        with_graphs: bool,
    },
    /// Find out whether results are what they say they are:
    /// [`Core::examined`](super::Core::examined).
    Examine {
        /// Under which number they have come in.
        arrival: ArrivalId,
        /// The plan of their order.
        plan: Arc<Plan>,
        /// What was delivered, to be handed back with what was found.
        deliveries: Vec<Delivery>,
    },
    /// Read the records of these units: [`Core::records_read`](super::Core::records_read).
    ReadRecords {
        /// Who waits for them.
        arrival: ArrivalId,
        /// The units; those without a record are left out of the answer.
        units: Vec<Unit>,
    },
    /// Make an alarm durable, new or changed: [`Core::alarm_kept`](super::Core::alarm_kept).
    KeepAlarm {
        /// Its number.
        number: u32,
        /// What is to be kept.
        alarm: Arc<Alarm>,
    },
    /// Find out which of two results is wrong: [`Core::judged`](super::Core::judged).
    Judge {
        /// The number of the alarm that it is about.
        alarm: u32,
        /// Both results.
        case: Box<Case>,
    },
    /// Solve these parts of a shard in this process: [`Core::solved`](super::Core::solved).
    Solve {
        /// The number of the alarm that it is done for.
        alarm: u32,
        /// The plan of their order.
        plan: Arc<Plan>,
        /// The parts.
        units: Vec<Unit>,
    },
    /// Solve these units in this process a second time, beside everything else, and hand the
    /// results in as the coordinator's: [`Core::deliver`](super::Core::deliver), or
    /// [`Core::give_back`](super::Core::give_back).
    Compare {
        /// The coordinator's lease.
        lease: u64,
        /// The plan of their order.
        plan: Arc<Plan>,
        /// The units.
        units: Vec<Unit>,
    },
    /// Find out what the store holds of these workers since a result of theirs was last
    /// confirmed, beside what is accepted and not durable, which each suspect has with it:
    /// [`Core::traced`](super::Core::traced).
    Trace {
        /// The number of the alarm that blames them.
        alarm: u32,
        /// Whose units are looked up.
        workers: Vec<Suspect>,
        /// Whose confirmations count for nothing: all whom open alarms blame.
        blamed: Vec<Author>,
    },
    /// Tell a worker what became of what it delivered.
    Answer {
        /// Which delivery it is about.
        arrival: ArrivalId,
        /// What the worker is told.
        answer: Result<Accepted, Refusal>,
    },
    /// Tell people.
    Say(News),
    /// What was remembered of the blocks of this edition is not to be relied upon any more.
    EditionOver,
    /// Wake those who wait for work.
    Wake,
}

/// What people may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A worker fell silent, or takes too long: its units go to others.
    LeaseExpired {
        /// The number of the lease.
        lease: u64,
        /// Who held it.
        worker: Author,
        /// Number of its units.
        units: usize,
    },
    /// A worker has tried a unit in vain so often that it is not asked again.
    LeftToOthers {
        /// The unit.
        unit: Unit,
        /// Who has tried.
        worker: Author,
        /// The last reason.
        failure: String,
    },
    /// Too many workers have tried a unit in vain.
    SetAside {
        /// The unit.
        unit: Unit,
        /// The last reason.
        failure: String,
    },
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
    /// When this is durable, nothing that is left to do reads the outcomes of these shards.
    pub retired: Vec<u32>,
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
            retired: Vec::new(),
            urgent: false,
            arrival: None,
        }
    }
}

/// A unit that another worker has solved again with the same results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// The unit.
    pub unit: Unit,
    /// That worker.
    pub by: Author,
}

/// Two results of one unit that differ.
pub struct Case {
    /// The plan of the order of the unit.
    pub plan: Arc<Plan>,
    /// The record of the one that was accepted.
    pub accepted: UnitRecord,
    /// The other one.
    pub other: Delivery,
    /// Whether the blocks of the other one can be read. If not, it came earlier, and its shard is
    /// finished.
    pub is_readable: bool,
    /// The edition in which they were found to differ.
    pub edition: u32,
}

/// A worker whose results are not believed, and those of them that are accepted and not durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// As records name it.
    pub worker: Author,
    /// Its units that are accepted and not durable.
    pub pending: Vec<Instance>,
}

/// A unit as it was solved once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// That of its record, see [`crate::records::UnitRecord::instance`].
    pub number: u64,
    /// The unit.
    pub unit: Unit,
}

/// What an examination has shown.
#[derive(Debug)]
pub enum Examined {
    /// Nothing wrong.
    Passed,
    /// The delivery with this index contradicts itself or theory, or one of its records does not
    /// follow from its predecessors.
    Flaw {
        /// Its place among the deliveries.
        index: usize,
        /// What is wrong.
        why: String,
    },
    /// What it was computed from is not there any more.
    Gone,
    /// A block that is only named is not in the depot or on shelves, as far as can be seen from here,
    /// or is damaged there.
    Lacking,
}

/// Who is wrong when two results of a unit differ.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum DisputeVerdict {
    /// The result that was accepted first is wrong, for this reason.
    #[error("by nauty, the first is wrong ({0})")]
    First(String),
    /// All records of the first are right, so the second is wrong.
    #[error("by nauty, the first is right")]
    Second,
    /// The second is wrong, for this reason; of the first nothing wrong is known.
    #[error("the second is wrong ({0})")]
    SecondFor(String),
    /// Both are wrong, for this reason.
    #[error("both are wrong ({0})")]
    Both(String),
    /// Neither could be shown to be wrong, for this reason; nobody is blamed.
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
    /// The lease has ended, or what the results were computed from is taken back.
    #[error("the lease is void")]
    Void,
    /// A block that was named is not found in the depot, or on shelves: a lease that is held goes on,
    /// and all blocks are to be sent.
    #[error("a block that was named cannot be read")]
    Lacking,
    /// The results contradict themselves or theory; their worker is to blame.
    #[error("the results of unit {unit:?} are wrong: {why}")]
    Wrong {
        /// The first unit with something wrong.
        unit: Unit,
        /// What is wrong.
        why: String,
    },
    /// Some parts of the shard are wrong, perhaps this one.
    #[error("the parts of {sequence} do not add up: {why}")]
    TakenBack {
        /// The degree sequence of the shard.
        sequence: DegreeSequence,
        /// What the parts add up to, and what they should.
        why: String,
    },
    /// Results of the worker of this name were wrong.
    #[error("this worker is not trusted any more: {0}")]
    Distrusted(String),
    /// Nothing is accepted any more.
    #[error("the census has ended")]
    Ended,
}

/// What ends a census before everything is done.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Counts of an order contradict theory, after its units were solved again.
    #[error(
        "the results contradict theory and are not reported; a machine that worked on them is \
         faulty, or the program is"
    )]
    Contradiction(#[source] Box<dyn Error + Send + Sync>),
    /// Sums of a shard are wrong, as this says, after its parts were solved again.
    #[error("{0}: a machine that worked on it, or this program, is faulty")]
    Faulty(String),
    /// Nothing is left to do but units that failed too often.
    #[error(
        "units that failed again and again and were set aside: {count}, the first of them part \
         {part} of {sequence}: {failures}; everything else that could be done is done and kept. The \
         same command tries again"
    )]
    SetAside {
        /// How many they are.
        count: usize,
        /// The degree sequence of the first.
        sequence: DegreeSequence,
        /// Its part of the shard.
        part: u32,
        /// Why each attempt at it failed.
        failures: String,
    },
    /// Something that the driver was to do failed; it knows why.
    #[error("the coordinator could not do what it has to do")]
    Driver,
}
