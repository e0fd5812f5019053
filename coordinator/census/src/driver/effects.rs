//! Events are handed in to the core, and its effects carried out.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::AtomicBool,
};

use trailtrap_shared::partition::Section;

use super::{
    Census, CensusError, CensusState, Fault, committer::Task, comparer::Comparison, examination,
};
use crate::{
    core::{Core, Effect, Examined},
    records::Delivery,
    store::StoreError,
};

impl Census {
    /// Hands an event in, and carries out what comes of it.
    pub(super) fn event<T>(&self, event: impl FnOnce(&mut Core) -> T) -> T {
        self.event_with_waiter(|state| event(&mut state.core))
    }

    /// The same for somebody who waits for what comes of it.
    pub(super) fn event_with_waiter<T>(&self, event: impl FnOnce(&mut CensusState) -> T) -> T {
        let (value, todo) = self.hand_in(event);
        // What comes of an effect is carried out before the next one, without calling itself: a
        // delivery may have thousands of units to compare.
        let mut todo = VecDeque::from(todo);
        while let Some(effect) = todo.pop_front() {
            match self.carry_out(effect) {
                Ok(more) => more.into_iter().rev().for_each(|effect| todo.push_front(effect)),
                Err(error) => drop(self.fail(error)),
            }
        }
        value
    }

    /// The driver cannot do what it has to do: the census ends, and says why when it is closed.
    /// Returns what others are told. What is not done because it is closed is no failure.
    pub(super) fn fail(&self, error: CensusError) -> CensusError {
        let of_closing = matches!(
            error,
            CensusError::Store(StoreError::Closed) | CensusError::Fault(Fault::Driver)
        );
        if of_closing && self.is_cut_off() {
            return CensusError::Fault(Fault::Driver);
        }
        let ((), _nothing) = self.hand_in(|state| {
            if state.core.fail() {
                state.error = Some(error);
            }
        });
        CensusError::Fault(Fault::Driver)
    }

    /// Hands an event in. Returns what is to be done without the lock; what costs nothing is done,
    /// and what is for the committer is on its way to it, in the order in which it was accepted.
    fn hand_in<T>(&self, event: impl FnOnce(&mut CensusState) -> T) -> (T, Vec<Effect>) {
        let mut state = self.state();
        let value = event(&mut state);
        let (mut todo, mut wakes) = (Vec::new(), false);
        for effect in state.core.effects() {
            match effect {
                Effect::Commit(entry) => {
                    entry.deliveries.iter().for_each(|delivery| self.names.note_all(delivery));
                    let arrival = entry.arrival;
                    if !self.enqueue(Task::Commit(entry))
                        && let Some(arrival) = arrival
                    {
                        state.waiting.remove(&arrival);
                    }
                }
                Effect::BeginEdition { units } => {
                    self.enqueue(Task::BeginEdition(units));
                }
                Effect::Answer { arrival, answer } => {
                    if let Some(waiter) = state.waiting.remove(&arrival) {
                        let _ = waiter.send(answer);
                    }
                }
                Effect::Compare { lease, plan, units } => {
                    self.comparer.give(Comparison { lease, plan, units });
                }
                Effect::Say(news) => self.news.tell(news),
                Effect::EditionOver => {
                    self.names.clear();
                    self.counting.clear();
                }
                Effect::Wake => wakes = true,
                effect => todo.push(effect),
            }
        }
        drop(state);
        if wakes {
            self.changed.notify_all();
            self.wakeup.notify_waiters();
        }
        (value, todo)
    }

    /// Carries an effect out, and hands in what comes of that. Returns what is to be done next.
    fn carry_out(&self, effect: Effect) -> Result<Vec<Effect>, CensusError> {
        Ok(match effect {
            Effect::Examine { arrival, plan, mut deliveries } => {
                let examine = AssertUnwindSafe(|| self.examine(&plan, &mut deliveries));
                let examined = match catch_unwind(examine) {
                    Ok(Err(_)) if self.is_cut_off() => Examined::Gone,
                    Ok(examined) => examined?,
                    Err(panic) => {
                        // No order ends while something is being examined.
                        self.event(|core| core.examined(arrival, Vec::new(), Examined::Gone));
                        resume_unwind(panic);
                    }
                };
                self.hand_in(|state| state.core.examined(arrival, deliveries, examined)).1
            }
            Effect::ReadRecords { arrival, units } => {
                let mut found = Vec::new();
                for unit in units {
                    found.extend(self.store.unit(unit)?.map(|record| (unit, record)));
                }
                self.hand_in(|state| state.core.records_read(arrival, found)).1
            }
            Effect::KeepAlarm { number, alarm } => {
                tracing::error!("{}", alarm.line(number));
                self.store.put_alarm(number, &alarm)?;
                self.hand_in(|state| state.core.alarm_kept(number)).1
            }
            Effect::Judge { alarm, case } => {
                let verdict = self.judge(&case);
                if self.is_cut_off() {
                    // The next run takes back what the alarm doubts.
                    return Ok(Vec::new());
                }
                self.hand_in(|state| state.core.judged(alarm, verdict)).1
            }
            Effect::Solve { alarm, plan, units } => {
                let solved = {
                    let _turn = self.judgements.lock();
                    // A shard in parts has more blocks than are to be held at once.
                    let record = |delivery: Delivery| (delivery.unit, delivery.record);
                    self.solve(&plan, &units, &AtomicBool::new(false), record)
                };
                if self.is_cut_off() {
                    return Ok(Vec::new());
                }
                self.hand_in(|state| state.core.solved(alarm, solved)).1
            }
            Effect::Trace { alarm, workers, blamed } => {
                let units = examination::trace(&self.store, workers, &blamed, u64::MAX)?;
                self.hand_in(|state| state.core.traced(alarm, units)).1
            }
            Effect::OpenOrder { order, edition } => {
                self.open_order(order, edition)?;
                Vec::new()
            }
            Effect::CloseOrder { plan } => {
                self.close_order(&plan)?;
                Vec::new()
            }
            Effect::Drop { plan, shards, with_graphs } => {
                let sections: &[Section] = match with_graphs {
                    // That outcomes have gone tells that graphs may have.
                    true => &[Section::Outcomes, Section::Keys],
                    false => &[Section::Outcomes],
                };
                self.store.drop_shards(&plan, &shards, sections)?;
                Vec::new()
            }
            Effect::Commit(_)
            | Effect::BeginEdition { .. }
            | Effect::Answer { .. }
            | Effect::Compare { .. }
            | Effect::Say(_)
            | Effect::EditionOver
            | Effect::Wake => unreachable!("done when it was handed in"),
        })
    }
}
