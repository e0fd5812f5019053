//! `trailtrap alarms`: what was found wrong in a census.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, bail};
use clap::Args;
use trailtrap_census::{
    read::{finished::open_store, status},
    records::alarm::Alarm,
    store::{Store, directory::DataDirectory},
};

use crate::terminal;

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
        let alarms = status::look(&self.data)?.alarms;
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
        terminal::print(&(text + "\n"))?;
        Ok(ExitCode::SUCCESS)
    }

    fn settle(&self, number: u32, reason: &str) -> anyhow::Result<()> {
        open_store(&self.data)?;
        let directory = DataDirectory::take(&self.data)?;
        let store = Store::open(&directory.store(), None)?;
        let Some((_, alarm)) = store.alarms()?.into_iter().find(|(found, _)| *found == number)
        else {
            bail!("there is no alarm {number}; `trailtrap alarms` lists them");
        };
        store
            .put_alarm(number, &Alarm { settled: Some(reason.to_owned()), ..alarm })
            .context("cannot settle it")
    }
}
