//! `trailtrap alarms`: what was found wrong in a census.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, bail};
use clap::{Args, builder::NonEmptyStringValueParser};
use serde::Serialize;
use trailtrap_census::{
    core::{parents::ENUMERATED_ORDER, withdrawal::can_be_solved_alone},
    read::{finished::open_store, status},
    records::alarm::{Alarm, AlarmKind},
    store::{
        Store, StoreError,
        directory::{DATA_VARIABLE, DataDirectory, USUAL_DATA},
        plan,
    },
};
use trailtrap_shared::{
    graph::degree::DegreeSequence,
    plan::{Plan, Unit},
};

use crate::{cli::run::full_or, terminal};

/// Shows what was found wrong in a census, settles it, or adds to it.
///
/// An alarm is raised when two computations of a unit differ, when results contradict themselves
/// or theory, when a record does not follow from its predecessors, and when stored data are
/// damaged. Wrong units, and what their worker did since a result of it was last confirmed, are
/// solved again at once; so results that are reported are right again. But `verify` fails while an
/// alarm is open, until somebody has looked into it and says so. Where nobody is to blame, for
/// damage, for accidents in `census` and for what was doubted by hand, it is settled from the
/// beginning, and `verify` fails only until the units are solved again.
#[derive(Args)]
pub struct AlarmsCommand {
    /// The data directory
    #[arg(long, value_name = "DIR", default_value = USUAL_DATA, env = DATA_VARIABLE)]
    data: PathBuf,
    /// Settle the alarm of this number; reasons that it has already are kept
    #[arg(long, value_name = "NUMBER", requires = "because", group = "about")]
    settle: Option<u32>,
    /// Raise an alarm about a shard of this order that readers find bad: the next census solves it
    /// again, and whatever comes out otherwise for it; and before, what it is computed from, where
    /// that was not kept, which takes --force: then that is all of the order, and those below it
    /// whose graphs are gone
    #[arg(long, value_name = "ORDER", requires_all = ["because", "shard"],
          conflicts_with = "settle", group = "about")]
    doubt: Option<usize>,
    /// The degree sequence of the shard, for instance 3,2,2,2,1
    #[arg(long, value_name = "DEGREES", requires = "doubt", value_delimiter = ',')]
    shard: Vec<usize>,
    /// Only this part of the shard
    #[arg(long, value_name = "PART", requires = "doubt")]
    part: Option<u32>,
    /// Doubt it even though whole orders have to be solved again for that
    #[arg(long, requires = "doubt")]
    force: bool,
    /// Why it is of no concern any more, or why the shard is doubted; kept with it
    #[arg(long, value_name = "REASON", requires = "about",
          value_parser = NonEmptyStringValueParser::new())]
    because: Option<String>,
    /// Print one JSON object, with the results that were quarantined, and how many of the doubted
    /// units have not been solved again yet (`unsolved`)
    #[arg(long)]
    json: bool,
}

/// All alarms of a census.
#[derive(Serialize)]
struct AllAlarms {
    alarms: Vec<ToldAlarm>,
}

/// What is told of an alarm.
#[derive(Serialize)]
struct ToldAlarm {
    number: u32,
    alarm: Arc<Alarm>,
    /// How many of the doubted units are not solved again yet.
    unsolved: usize,
}

impl AllAlarms {
    fn text(&self) -> String {
        match self.alarms.is_empty() {
            true => "no alarms\n".to_owned(),
            false => self.alarms.iter().map(|told| told.line() + "\n").collect(),
        }
    }
}

impl ToldAlarm {
    fn line(&self) -> String {
        let ToldAlarm { number, alarm, unsolved } = self;
        let line = alarm.line(*number);
        match unsolved {
            _ if alarm.is_untraced() => format!(
                "{line}; what those whom it blames have done is not known yet: a census finds it \
                 out when it begins"
            ),
            0 => line,
            unsolved => format!(
                "{line}; doubted units that are not solved again yet: {unsolved} of {}",
                alarm.doubted.len()
            ),
        }
    }
}

impl AlarmsCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if let (Some(number), Some(reason)) = (self.settle, &self.because) {
            self.settle(number, reason)?;
        }
        if let (Some(order), Some(reason)) = (self.doubt, &self.because) {
            self.doubt(order, reason)?;
        }
        // A census in progress has not written all it knows where a reader sees it.
        let store = open_store(&self.data)?;
        let mut alarms = Vec::new();
        for (number, alarm) in status::look(&self.data)?.alarms {
            let unsolved = store.unsolved(&alarm)?;
            alarms.push(ToldAlarm { number, alarm, unsolved });
        }
        let told = AllAlarms { alarms };
        terminal::print_as(self.json, &told, || told.text())?;
        Ok(ExitCode::SUCCESS)
    }

    /// The store that is there, to write to, and its directory, taken until it is dropped.
    fn opened(&self) -> anyhow::Result<(DataDirectory, Store)> {
        open_store(&self.data)?;
        let directory = DataDirectory::take(&self.data)?;
        let store = Store::open(&directory.store(), None, None)?;
        Ok((directory, store))
    }

    fn doubt(&self, order: usize, reason: &str) -> anyhow::Result<()> {
        let (_directory, store) = self.opened()?;
        let sequence = self.sequence(order)?;
        let begun = store.order(order)?.with_context(|| format!("order {order} is not begun"))?;
        let plan = plan(store.layout(), order, &begun)?;
        let Some(shard) = plan.find(&sequence) else {
            bail!("there is no {sequence} in {}", plan.name())
        };
        let all = plan.shards[shard as usize].parts;
        let parts = match self.part {
            Some(part) if part >= all => {
                bail!("{sequence} has no part {part}: the last of its {all} parts is {}", all - 1)
            }
            Some(part) => part..part + 1,
            None => 0..all,
        };
        let (mut doubted, mut quarantined) = (Vec::new(), Vec::new());
        for part in parts {
            let unit = Unit { order: order as u8, shard, part };
            if let Some(record) = store.unit(unit)? {
                doubted.push(unit);
                quarantined.push(record);
            }
        }
        let Some(&first) = doubted.first() else {
            bail!("nothing of {sequence} is on record, so it will be solved anyway")
        };
        if !self.force && costs_orders(&store, &plan, begun.outcomes_kept, &doubted)? {
            bail!(
                "what {sequence} is computed from was not kept (--keep): all of order {order}, or of \
                 orders below it whose graphs are gone, would be solved again, and until then \
                 results of these orders and of later ones are withdrawn; use --force to have that \
                 done"
            )
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = since_1970.map_or(0, |since| since.as_secs());
        let last = quarantined.iter().map(|record| record.instance).max().unwrap_or(0);
        let text = format!("doubted: {reason}");
        let number = store.alarms()?.last().map_or(1, |(number, _)| number + 1);
        let alarm = Alarm {
            doubted,
            quarantined,
            last_instance: last,
            settled: Some("given up: a census solves it again".to_owned()),
            ..Alarm::at(time, AlarmKind::Damage, first, &sequence, text)
        };
        store
            .put_alarm(number, &alarm)
            .map_err(|error| full_or(error, &self.data))
            .context("cannot raise the alarm")
    }

    fn sequence(&self, order: usize) -> anyhow::Result<DegreeSequence> {
        let degrees = self.shard.iter().map(|&degree| u8::try_from(degree));
        let sequence = degrees.collect::<Result<Vec<u8>, _>>().ok().and_then(|mut degrees| {
            degrees.sort_unstable();
            DegreeSequence::from_bytes(&degrees)
        });
        sequence
            .filter(|sequence| sequence.order() == order)
            .with_context(|| format!("--shard is no degree sequence of a graph of order {order}"))
    }

    fn settle(&self, number: u32, reason: &str) -> anyhow::Result<()> {
        let (_directory, store) = self.opened()?;
        let Some((_, alarm)) = store.alarms()?.into_iter().find(|(found, _)| *found == number)
        else {
            bail!("there is no alarm {number}; `trailtrap alarms` lists them");
        };
        let settled = match &alarm.settled {
            Some(before) => format!("{before}; {reason}"),
            None => reason.to_owned(),
        };
        store
            .put_alarm(number, &Alarm { settled: Some(settled), ..alarm })
            .map_err(|error| full_or(error, &self.data))
            .context("cannot settle it")
    }
}

/// Whether more than these units is solved again if they are doubted: all of their order, as what
/// they are computed from has gone, or orders below it, whose graphs have.
fn costs_orders(
    store: &Store,
    plan: &Plan,
    outcomes_kept: bool,
    doubted: &[Unit],
) -> Result<bool, StoreError> {
    let has_gone = |shard| store.has_gone(plan, shard);
    if !outcomes_kept && !can_be_solved_alone(plan, doubted, has_gone)? {
        return Ok(true);
    }
    Ok(plan.order > ENUMERATED_ORDER + 1 && !store.has_all_graphs(plan.order - 1)?)
}

#[cfg(test)]
mod tests {
    use trailtrap_census::records::{Author, UnitRecord};
    use trailtrap_shared::{count::statistics::Statistics, partition::Content};

    use super::*;

    /// Labelled graphs of large orders are more than 64 bits count.
    #[test]
    fn large_counts_are_told() {
        let mut statistics = Statistics::default();
        statistics.labelled.all.graphs = 1 << 70;
        let record = UnitRecord {
            statistics,
            digest: [0; 32],
            bytes: 0,
            microseconds: 0,
            worker: Author::new("somebody", "portable"),
            instance: 0,
            content: Content::default(),
            inputs: Content::default(),
            tried: 0,
            confirmed: Vec::new(),
        };
        let unit = Unit { order: 14, shard: 0, part: 0 };
        let sequence = DegreeSequence::new([2; 14]);
        let alarm = Alarm::at(0, AlarmKind::Damage, unit, &sequence, "doubted".to_owned());
        let alarm = Arc::new(Alarm { quarantined: vec![record], ..alarm });
        let told = AllAlarms { alarms: vec![ToldAlarm { number: 1, alarm, unsolved: 0 }] };
        let json = serde_json::to_string(&told).unwrap();
        assert!(json.contains(&(1u128 << 70).to_string()), "{json}");
    }
}
