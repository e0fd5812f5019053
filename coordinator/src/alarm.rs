//! Alarms: what was found wrong in a census, by whom it was done, and what became of it. They stay
//! with the data.

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use trailtrap_shared::{graph::degree::DegreeSequence, plan::Unit};

use crate::{
    directory::{self, DataDirectory},
    finished::open_store,
    report,
    store::{Store, UnitRecord},
};

/// What kind of thing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AlarmKind {
    /// Two computations of a unit differ.
    Disagreement,
    /// A record does not follow from its predecessors.
    Trial,
    /// A block in the store is damaged or missing.
    Damage,
    /// Counts do not add up to what they have to.
    Sum,
}

impl AlarmKind {
    /// As one word.
    pub fn name(self) -> &'static str {
        match self {
            AlarmKind::Disagreement => "disagreement",
            AlarmKind::Trial => "trial",
            AlarmKind::Damage => "damage",
            AlarmKind::Sum => "sum",
        }
    }
}

/// Something that was found wrong. `verify` fails for as long as one is not settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// Seconds since 1970.
    pub time: u64,
    pub kind: AlarmKind,
    pub unit: Unit,
    /// The degree sequence of the unit.
    pub sequence: String,
    /// What was found, and what was done about it.
    pub text: String,
    /// Whose results are not believed (any more), as far as that is known.
    pub blamed: Vec<String>,
    /// Units that are to be solved again, if they were solved under leases up to …
    pub doubted: Vec<Unit>,
    /// … this one.
    pub last_instance: u64,
    /// Results that were taken out of the census, or not let in.
    pub quarantined: Vec<UnitRecord>,
    /// Why this is of no concern any more.
    pub settled: Option<String>,
}

impl Alarm {
    /// An alarm of this moment.
    pub fn new(kind: AlarmKind, unit: Unit, sequence: &DegreeSequence, text: String) -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Alarm {
            time,
            kind,
            unit,
            sequence: sequence.to_string(),
            text,
            blamed: Vec::new(),
            doubted: Vec::new(),
            last_instance: 0,
            quarantined: Vec::new(),
            settled: None,
        }
    }

    /// One line for people.
    pub fn line(&self, number: u32) -> String {
        let Unit { order, part, .. } = self.unit;
        let state = self
            .settled
            .as_ref()
            .map_or_else(|| "open".to_owned(), |why| format!("settled: {why}"));
        format!(
            "alarm {number}, {}, order {order}, shard {}, part {part}: {} ({state})",
            self.kind.name(),
            self.sequence,
            self.text
        )
    }
}

/// Shows what was found wrong in a census, and settles it.
///
/// An alarm is raised when two computations of a unit differ, when a record does not follow from
/// its predecessors, and when stored data are damaged. Wrong units, and what their worker did
/// since a result of it was last confirmed, are solved again at once; so results that are reported
/// are right again. But `verify` fails until somebody has looked into it and says so.
#[derive(Args)]
pub struct AlarmsCommand {
    /// The data directory
    #[arg(long, value_name = "DIR", default_value = "trailtrap-data", env = "TRAILTRAP_DATA")]
    data: PathBuf,
    /// Settle the alarm of this number
    #[arg(long, value_name = "NUMBER", requires = "because")]
    settle: Option<u32>,
    /// Why it is of no concern any more; kept with it
    #[arg(long, value_name = "REASON", requires = "settle")]
    because: Option<String>,
    /// Print one JSON object, with the results that were quarantined
    #[arg(long)]
    json: bool,
}

impl AlarmsCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if let (Some(number), Some(reason)) = (self.settle, &self.because) {
            self.settle(number, reason)?;
        }
        // A census in progress has not written all it knows where a reader sees it.
        open_store(&self.data)?;
        let alarms = directory::look(&self.data)?.alarms;
        let text = if self.json {
            let alarms: Vec<_> = alarms
                .iter()
                .map(|(number, alarm)| serde_json::json!({ "number": number, "alarm": alarm }))
                .collect();
            serde_json::json!({ "alarms": alarms }).to_string()
        } else if alarms.is_empty() {
            "no alarms".to_owned()
        } else {
            alarms.iter().map(|(number, alarm)| alarm.line(*number)).collect::<Vec<_>>().join("\n")
        };
        report::print(&(text + "\n"))?;
        Ok(ExitCode::SUCCESS)
    }

    fn settle(&self, number: u32, reason: &str) -> anyhow::Result<()> {
        open_store(&self.data)?;
        let directory = DataDirectory::take(&self.data)?;
        let store = Store::open(&directory.store())?;
        let Some((_, alarm)) = store.alarms()?.into_iter().find(|(found, _)| *found == number)
        else {
            bail!("there is no alarm {number}; `trailtrap alarms` lists them");
        };
        store
            .put_alarm(number, &Alarm { settled: Some(reason.to_owned()), ..alarm })
            .context("cannot settle it")
    }
}
