//! Alarms: what was found wrong in a census, by whom it was done, and what became of it. They stay
//! with the data.

use serde::{Deserialize, Serialize};
use trailtrap_shared::{graph::degree::DegreeSequence, plan::Unit};

use crate::records::{Author, UnitRecord};

/// What kind of thing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AlarmKind {
    /// Two computations of a unit differ.
    Disagreement,
    /// Results contradict themselves or theory, or a record does not follow from its predecessors.
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
    /// What kind of thing was found.
    pub kind: AlarmKind,
    /// The unit that it is about; the first, if there are several.
    pub unit: Unit,
    /// The degree sequence of the unit.
    pub sequence: String,
    /// What was found, and what was done about it.
    pub text: String,
    /// Whose results are not believed (any more), as far as that is known.
    pub blamed: Vec<Author>,
    /// Units that are to be solved again, if their [`UnitRecord::instance`] is no larger than …
    pub doubted: Vec<Unit>,
    /// … this number: that of the last lease when it was raised, or, of an alarm that blames somebody,
    /// when they got no more work. Until that is known, the largest that a lease of the run can have.
    pub last_instance: u64,
    /// Results that were taken back, or not accepted. The store keeps
    /// [`Alarm::MOST_QUARANTINED`] of them at most.
    pub quarantined: Vec<UnitRecord>,
    /// Why this is of no concern any more.
    pub settled: Option<String>,
}

/// Whom those of these alarms blame that are open.
pub fn blamed<'a>(
    alarms: impl IntoIterator<Item = &'a Alarm>,
) -> impl Iterator<Item = &'a Author> {
    let open = alarms.into_iter().filter(|alarm| alarm.settled.is_none());
    open.flat_map(|alarm| &alarm.blamed)
}

impl Alarm {
    /// So many results, of a few kilobytes each, are kept with an alarm: a record of more than
    /// 64 MiB is not read again.
    pub const MOST_QUARANTINED: usize = 1000;

    /// An alarm of a moment in seconds since 1970.
    pub fn at(
        time: u64,
        kind: AlarmKind,
        unit: Unit,
        sequence: &DegreeSequence,
        text: String,
    ) -> Self {
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

    /// Whether it is not known yet what those whom it blames have done since a result of theirs was
    /// last confirmed: the run that was to find it out ended before. That it is settled says nothing
    /// of that.
    pub fn is_untraced(&self) -> bool {
        self.last_instance as u32 == u32::MAX && !self.blamed.is_empty()
    }

    /// What an untraced alarm doubts has been found out.
    pub fn trace(&mut self, units: impl IntoIterator<Item = Unit>) {
        self.doubted.extend(units);
        self.doubted.sort_unstable();
        self.doubted.dedup();
        // No run has so many leases that one of them has the number that is left out.
        self.last_instance -= 1;
    }

    /// Whether two results differ, and it is not known which is wrong: it could not be told, or the
    /// run that was to find it out ended before.
    pub fn is_undecided(&self) -> bool {
        self.kind == AlarmKind::Disagreement
            && self.settled.is_none()
            && self.blamed.is_empty()
            && self.quarantined.len() > 1
    }

    /// Whether it is about an order, or about one that it was computed from; or may be, as far as is
    /// known.
    pub fn concerns(&self, order: usize) -> bool {
        let units = [&self.unit].into_iter().chain(&self.doubted);
        self.is_untraced() || units.map(|unit| usize::from(unit.order)).any(|known| known <= order)
    }

    /// Whether it is about such an order, and nobody has looked into it yet.
    pub fn is_open_about(&self, order: usize) -> bool {
        self.settled.is_none() && self.concerns(order)
    }

    /// Without the units and results that it is about, which may be many.
    pub fn brief(&self) -> Self {
        Alarm {
            time: self.time,
            kind: self.kind,
            unit: self.unit,
            sequence: self.sequence.clone(),
            text: self.text.clone(),
            blamed: self.blamed.clone(),
            doubted: Vec::new(),
            last_instance: self.last_instance,
            quarantined: Vec::new(),
            settled: self.settled.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that is caught in one order may have done what is below it.
    #[test]
    fn alarms_concern_the_orders_whose_units_they_doubt() {
        let unit = |order| Unit { order, shard: 0, part: 0 };
        let sequence = DegreeSequence::new([0]);
        let mut alarm = Alarm::at(0, AlarmKind::Trial, unit(9), &sequence, String::new());
        let concerned = |alarm: &Alarm| (1..=12).filter(|&order| alarm.concerns(order)).min();
        assert_eq!(concerned(&alarm), Some(9));
        alarm.doubted = vec![unit(9), unit(7), unit(10)];
        assert_eq!(concerned(&alarm), Some(7));
        alarm.blamed = vec![Author::new("Ann", "portable")];
        assert_eq!(concerned(&alarm), Some(7));
        // Whatever Ann has done is not known yet, and settling it does not make it known.
        alarm.last_instance = 5 << 32 | u64::from(u32::MAX);
        alarm.settled = Some("Ann is gone".to_owned());
        assert!(alarm.is_untraced());
        assert_eq!(concerned(&alarm), Some(1));
        alarm.trace([unit(8), unit(7)]);
        assert!(!alarm.is_untraced());
        assert_eq!(concerned(&alarm), Some(7));
        assert_eq!(alarm.doubted, [7, 8, 9, 10].map(unit));
    }
}
