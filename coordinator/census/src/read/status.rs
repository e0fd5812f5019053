//! What is done, running and waiting, by whom, how fast, and how long it will take: for people,
//! for scripts, and for a second process that looks at a data directory in use.

use std::{
    fmt::Write as _,
    fs::{self, File, TryLockError},
    io,
    path::Path,
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use trailtrap_shared::{class::Class, game::GameName, plan::order_name};
use trailtrap_worker::process::replace::Replacement;

use crate::{
    read::finished,
    records::{OrderRecord, alarm::Alarm},
    store::{
        self, Store, StoreError,
        directory::{DirectoryError, LOCK, STATUS, store_in},
    },
};

/// A snapshot of a census.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CensusStatus {
    /// Whether a process is working on it.
    pub running: bool,
    /// Which.
    pub process: Option<u32>,
    /// The game, if it is not Trail Trap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub game: Option<String>,
    /// The class of the graphs, if it is not all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Last order that the census is to do.
    pub target_order: usize,
    /// Orders whose results are there, checked and stored.
    pub orders_done: Vec<usize>,
    /// Those of them that were not done to the end, and up to how many edges they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders_limited: Vec<(usize, usize)>,
    /// Those of them that an alarm is about which is open, or doubts what has not been solved again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders_disputed: Vec<usize>,
    /// Of a census that nobody works on: that results of orders are withdrawn, and what brings them
    /// back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdrawn: Option<String>,
    /// The order in work.
    pub order: Option<OrderStatus>,
    /// The workers that are at work, or were lately.
    pub workers: Vec<WorkerStatus>,
    /// (graph, edge) pairs a second, lately: in the last ten minutes, or since the run began.
    pub pairs_per_second: f64,
    /// What was found wrong in this census so far, by number.
    pub alarms: Vec<(u32, Arc<Alarm>)>,
    /// Until the order in work is done, at this rate.
    pub seconds_left: Option<f64>,
    /// Time since the run began; 0 without one.
    pub seconds_running: f64,
}

/// How far the order in work is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OrderStatus {
    /// The order.
    pub order: usize,
    /// Graphs with more edges are left out, if it is not done to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<usize>,
    /// Shards that are done in all parts.
    pub shards_done: usize,
    /// Shards of the plan.
    pub shards: usize,
    /// Units whose predecessors are done.
    pub units_ready: usize,
    /// Units that are leased.
    pub units_leased: usize,
    /// Graphs of units that are done.
    pub graphs_done: u64,
    /// Graphs of the order, by theory; 0 of a class, of which that is not known beforehand.
    pub graphs: u64,
    /// (graph, edge) pairs of units that are done.
    pub pairs_done: u64,
    /// (graph, edge) pairs of the order, by theory; 0 likewise.
    pub pairs: u64,
    /// Units that wait for a second computation by another worker.
    pub units_to_compare: usize,
    /// Units that failed too often: nobody who asks for work is asked for them any more.
    pub set_aside: Vec<SetAside>,
}

/// A unit that failed again and again, and is left out until others come, or the next start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SetAside {
    /// Degree sequence of the shard.
    pub sequence: String,
    /// The part of the shard.
    pub part: u32,
    /// Why each attempt failed, and whose it was.
    pub failures: Vec<String>,
}

/// A worker as the coordinator sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// What it calls itself.
    pub name: String,
    /// Cores that it has.
    pub threads: usize,
    /// The instruction set of its kernel.
    pub kernel: String,
    /// Units that it holds.
    pub units_leased: usize,
    /// Units of it that were accepted in this run.
    pub units_done: u64,
    /// (graph, edge) pairs of those, for each second since it registered.
    pub pairs_per_second: f64,
    /// Time since it last said anything.
    pub seconds_since_heard: f64,
}

impl CensusStatus {
    /// Without the units and results that alarms are about: a text of any size would not fit into
    /// a message.
    pub fn brief(mut self) -> Self {
        for (_, alarm) in &mut self.alarms {
            *alarm = Arc::new(alarm.brief());
        }
        self
    }

    /// One line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a status is plain data")
    }

    /// Leaves the snapshot for other processes; a reader never sees half of one.
    ///
    /// # Errors
    ///
    /// The file cannot be written or moved to its place.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        // The next start removes it: a loss of power may do so too.
        Replacement::of(path).fleeting().write(self.to_json().as_bytes())
    }

    /// A few lines for people.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let done = match &self.orders_done[..] {
            [] => "none".to_owned(),
            orders => format!("1 to {}", orders.len()),
        };
        let state = match (self.running, self.process) {
            (true, Some(process)) => {
                format!("running (process {process}, {})", duration(self.seconds_running))
            }
            (true, None) => "running".to_owned(),
            (false, _) => "not running".to_owned(),
        };
        let game = self.game.as_ref().map_or_else(String::new, |game| format!(" of {game}"));
        let class =
            self.class.as_ref().map_or_else(String::new, |class| format!(" of class {class}"));
        let goal = match self.target_order {
            0 => String::new(),
            order => format!(" up to order {order}"),
        };
        let _ = writeln!(text, "census{game}{class}{goal}: {state}");
        let _ = writeln!(text, "orders done: {done}");
        if !self.orders_limited.is_empty() {
            let limited = self.orders_limited.iter();
            let limited: Vec<String> =
                limited.map(|&(order, max_size)| order_name(order, Some(max_size))).collect();
            let _ = writeln!(text, "not done to the end: {}", limited.join(", "));
        }
        if !self.orders_disputed.is_empty() {
            let orders: Vec<String> = self.orders_disputed.iter().map(usize::to_string).collect();
            let _ = writeln!(
                text,
                "done, but DISPUTED: order {}; an alarm is open, or what it doubts has not been \
                 solved again (`trailtrap alarms`)",
                orders.join(", ")
            );
        }
        if let Some(withdrawn) = &self.withdrawn {
            let _ = writeln!(text, "{withdrawn}");
        }
        if let Some(order) = &self.order {
            let _ = writeln!(
                text,
                "{}: {:.1} % of the work; {} graphs; shards: {} of {} done; units: {} leased, {} \
                 ready",
                order.name(),
                100.0 * order.share(),
                order.graphs_text(),
                order.shards_done,
                order.shards,
                order.units_leased,
                order.units_ready
            );
            if self.process.is_some() {
                let left = self.seconds_left.map_or_else(|| "unknown".to_owned(), duration);
                let _ = writeln!(
                    text,
                    "rate: {:.2} million pairs/s; time left: {left}",
                    self.pairs_per_second / 1e6
                );
            }
        }
        if let Some(order) = self.order.as_ref().filter(|order| order.units_to_compare > 0) {
            let _ = writeln!(
                text,
                "to be solved again by another worker: {} units",
                order.units_to_compare
            );
        }
        for SetAside { sequence, part, failures } in
            self.order.iter().flat_map(|order| &order.set_aside)
        {
            let _ =
                writeln!(text, "set aside: part {part} of {sequence}: {}", failures.join("; "));
        }
        for (number, alarm) in &self.alarms {
            let _ = writeln!(text, "{}", alarm.line(*number));
        }
        for worker in &self.workers {
            let _ = writeln!(
                text,
                "worker {}: {} threads ({}), {} units in work, {} done, {:.2} million pairs/s, \
                 heard {} ago",
                worker.name,
                worker.threads,
                worker.kernel,
                worker.units_leased,
                worker.units_done,
                worker.pairs_per_second / 1e6,
                duration(worker.seconds_since_heard)
            );
        }
        text
    }
}

impl OrderStatus {
    /// The order, and up to how many edges it is done if that is not all.
    pub fn name(&self) -> String {
        order_name(self.order, self.max_size)
    }

    /// How much of the work is done, from 0 to 1; by shards if it is not known how much there is.
    pub fn share(&self) -> f64 {
        match self.pairs {
            0 => self.shards_done as f64 / self.shards.max(1) as f64,
            pairs => self.pairs_done as f64 / pairs as f64,
        }
    }

    /// How many graphs are done, and of how many if that is known.
    pub fn graphs_text(&self) -> String {
        match self.graphs {
            0 => self.graphs_done.to_string(),
            graphs => format!("{} of {graphs}", self.graphs_done),
        }
    }
}

/// A snapshot that is older was left by a process that was killed.
const FRESH: Duration = Duration::from_secs(60);

/// Why there is no status.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The directory cannot be read, or is none of a census.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Looks at a directory, in use or not, without disturbing it.
///
/// # Errors
///
/// There is no census, or its store cannot be read.
pub fn look(path: &Path) -> Result<CensusStatus, LookError> {
    let io = |source| DirectoryError::Io { path: path.to_owned(), source };
    let snapshot = path.join(STATUS);
    let in_use = match File::open(path.join(LOCK)) {
        Ok(lock) => matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)),
        // A copy may lack the lock, which only its owner can read.
        Err(error) if error.kind() == io::ErrorKind::NotFound && store_in(path).exists() => false,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(DirectoryError::Nothing { path: path.to_owned() }.into());
        }
        // Those who may not write there may not try the lock. Who has the directory leaves a
        // snapshot every second.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            fs::symlink_metadata(path.join(LOCK)).map_err(io)?;
            let written = fs::metadata(&snapshot).and_then(|file| file.modified());
            written.is_ok_and(|time| time.elapsed().map_or(true, |since| since < FRESH))
        }
        Err(error) => return Err(io(error).into()),
    };
    let snapshot = fs::read(snapshot)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<CensusStatus>(&bytes).ok());
    let store = store_in(path);
    match (in_use, snapshot) {
        (true, Some(snapshot)) => Ok(snapshot),
        // Who has it says nothing: a census that begins, or a salvage, which may not be able to
        // open the store either.
        (true, None) => {
            let stored = store.exists().then(|| stored(&store).ok()).flatten().unwrap_or_default();
            Ok(CensusStatus { running: true, target_order: 0, withdrawn: None, ..stored })
        }
        // It was stopped while the store was being made.
        (false, _) if !store.try_exists().map_err(io)? => Ok(CensusStatus::default()),
        // Nobody writes: the store itself knows best.
        (false, snapshot) => {
            let stored = stored(&store)?;
            let target_order = stored.target_order.max(snapshot.map_or(0, |s| s.target_order));
            Ok(CensusStatus { target_order, ..stored })
        }
    }
}

/// What a store itself says, as of a census at rest: its last order with a record is the target.
fn stored(store: &Path) -> Result<CensusStatus, StoreError> {
    let store = Store::open_read_only(store)?;
    let alarms = finished::Alarms::of(&store)?;
    let disputed = |order: &usize| alarms.dispute(*order).is_some();
    let mut status = CensusStatus {
        game: game_name(store.game()),
        class: class_name(store.class()),
        withdrawn: finished::told_of_withdrawn(&store)?,
        ..CensusStatus::default()
    };
    for order in 1.. {
        match store.order(order)? {
            None => break,
            Some(record) if record.result.is_some() => {
                status.orders_done.push(order);
                status.orders_disputed.extend(Some(order).filter(disputed));
                status.orders_limited.extend(record.max_size.map(|max_size| (order, max_size)));
            }
            // That of those that have a record without a result which is done next.
            Some(record) if status.order.is_none() => {
                status.order = Some(order_status(&store, order, &record)?);
            }
            Some(_) => {}
        }
        status.target_order = order;
    }
    let all = alarms.all.into_iter();
    status.alarms = all.map(|(number, alarm)| (number, Arc::new(alarm))).collect();
    Ok(status)
}

fn order_status(
    store: &Store,
    order: usize,
    record: &OrderRecord,
) -> Result<OrderStatus, StoreError> {
    let plan = store::plan(store.layout(), order, record)?;
    let (graphs, pairs) = plan.totals().unwrap_or_default();
    let (max_size, shards) = (record.max_size, plan.shards.len());
    let mut status =
        OrderStatus { order, max_size, shards, graphs, pairs, ..OrderStatus::default() };
    let mut parts_done = vec![0; plan.shards.len()];
    for item in store.each_unit_of(&plan) {
        let (unit, record) = item?;
        let Some(shard) = plan.shards.get(unit.shard as usize) else { continue };
        let graphs = record.statistics.classes.all.graphs as u64;
        status.graphs_done += graphs;
        status.pairs_done += graphs * shard.size as u64;
        parts_done[unit.shard as usize] += 1;
        status.shards_done += usize::from(parts_done[unit.shard as usize] == shard.parts);
    }
    Ok(status)
}

/// The name of a game, unless it is Trail Trap.
pub fn game_name(game: GameName) -> Option<String> {
    (game != GameName::default()).then(|| game.about().name.to_owned())
}

/// The name of a class, unless it has all graphs.
pub fn class_name(class: Class) -> Option<String> {
    (class != Class::All).then(|| class.to_string())
}

/// A duration for people: `7 s`, `3 min 5 s`, `2 h 10 min`.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use trailtrap_shared::{graph::degree::DegreeSequence, plan::Unit};

    use super::*;
    use crate::records::alarm::AlarmKind;

    #[test]
    fn a_message_does_not_grow_with_what_is_doubted() {
        let unit = Unit { order: 7, shard: 3, part: 0 };
        let alarm =
            Alarm::at(0, AlarmKind::Trial, unit, &DegreeSequence::new([0; 7]), "wrong".to_owned());
        let status = |doubted: usize| CensusStatus {
            alarms: vec![(1, Arc::new(Alarm { doubted: vec![unit; doubted], ..alarm.clone() }))],
            ..CensusStatus::default()
        };
        assert_eq!(status(100_000).brief(), status(0));
    }
}
