//! Who has tried a unit in vain.

use std::collections::BTreeMap;

use crate::records::Author;

/// A unit that so many different workers could not solve is set aside.
pub const WORKERS: usize = 5;
/// A worker that could not solve a unit so often is not asked again.
pub const ATTEMPTS: usize = 3;

/// Why leased units were not solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setback<'a> {
    /// It was not tried to the end, and says nothing about unit or worker.
    None,
    /// The worker fell silent, or took too long. That is no fault of the unit.
    Late,
    /// The worker tried, and says why it could not.
    Failed(&'a str),
}

/// Who has tried one unit in vain, and why.
#[derive(Clone, Debug, Default)]
pub struct Setbacks {
    /// By the name of the worker, the reasons of its failures; none if it was late only.
    by: BTreeMap<String, Vec<String>>,
    /// How often somebody was late.
    late: u32,
}

impl Setbacks {
    /// Notes what became of a worker's attempt.
    pub fn note(&mut self, author: &Author, setback: Setback) {
        if setback == Setback::None {
            return;
        }
        let reasons = self.by.entry(author.name().to_owned()).or_default();
        match setback {
            Setback::Failed(why) if reasons.len() < ATTEMPTS => {
                reasons.push(format!("{author}: {why}"));
            }
            Setback::Late => self.late = self.late.saturating_add(1),
            Setback::None | Setback::Failed(_) => {}
        }
    }

    /// Whether nobody has tried in vain.
    pub fn is_empty(&self) -> bool {
        self.by.is_empty()
    }

    /// Whether it goes alone, so that it is known which one it is: somebody has failed at it, or
    /// whoever had it was late twice, and may have died of it. Once is what happens to machines;
    /// and what was to be solved together reads the same.
    pub fn goes_alone(&self) -> bool {
        self.late > 1 || self.failures().next().is_some()
    }

    /// Whether so many different workers have failed that nobody is asked any more.
    pub fn is_set_aside(&self) -> bool {
        self.by.values().filter(|reasons| !reasons.is_empty()).count() >= WORKERS
    }

    /// Whether this worker has failed so often that it is not asked again.
    pub fn is_refused_to(&self, author: &Author) -> bool {
        self.by.get(author.name()).is_some_and(|reasons| reasons.len() >= ATTEMPTS)
    }

    /// Whether this worker is to try it. One that has tried in vain has to leave it to those
    /// `others`, if there are any, who have not.
    pub fn admit(&self, author: &Author, others: &[Author]) -> bool {
        let has_tried = |author: &Author| self.by.contains_key(author.name());
        let is_fresh = |other: &Author| !has_tried(other);
        !self.is_set_aside()
            && !self.is_refused_to(author)
            && (is_fresh(author) || !others.iter().any(is_fresh))
    }

    /// Why attempts failed, one text for each.
    pub fn failures(&self) -> impl Iterator<Item = &String> {
        self.by.values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(name: &str) -> Author {
        Author::new(name, "portable")
    }

    #[test]
    fn one_worker_sets_nothing_aside() {
        let mut setbacks = Setbacks::default();
        let (ann, bea) = (worker("Ann"), worker("Bea"));
        for attempt in 0..10 {
            assert_eq!(setbacks.admit(&ann, &[]), attempt < ATTEMPTS);
            setbacks.note(&ann, Setback::Failed("out of memory"));
            assert!(!setbacks.is_set_aside() && setbacks.admit(&bea, std::slice::from_ref(&ann)));
        }
        assert_eq!(setbacks.failures().count(), ATTEMPTS);
        // Another kernel does not make another worker.
        assert!(!setbacks.admit(&Author::new("Ann", "avx2"), &[]));
    }

    #[test]
    fn many_workers_do() {
        let mut setbacks = Setbacks::default();
        for i in 0..WORKERS {
            assert!(!setbacks.is_set_aside());
            setbacks.note(&worker(&i.to_string()), Setback::Failed("out of memory"));
        }
        assert!(setbacks.is_set_aside() && !setbacks.admit(&worker("Ann"), &[]));
    }

    #[test]
    fn whoever_was_late_leaves_it_to_others_and_is_not_blamed() {
        let mut setbacks = Setbacks::default();
        let (ann, bea) = (worker("Ann"), worker("Bea"));
        for _ in 0..10 {
            setbacks.note(&ann, Setback::Late);
        }
        assert!(setbacks.admit(&ann, &[]), "there is nobody else");
        assert!(!setbacks.admit(&ann, std::slice::from_ref(&bea)));
        setbacks.note(&bea, Setback::Late);
        assert!(setbacks.admit(&ann, std::slice::from_ref(&bea)), "neither is better");
        assert_eq!(setbacks.failures().count(), 0);
    }

    #[test]
    fn what_failed_or_was_late_twice_goes_alone() {
        let ann = worker("Ann");
        let noted = |all: &[Setback]| {
            let mut setbacks = Setbacks::default();
            all.iter().for_each(|&setback| setbacks.note(&ann, setback));
            setbacks
        };
        let alone = |all: &[Setback]| noted(all).goes_alone();
        assert!(!alone(&[]) && !alone(&[Setback::Late, Setback::None]));
        // Also if it is one machine that comes back under its name.
        assert!(alone(&[Setback::Late; 2]) && alone(&[Setback::Failed("out of memory")]));
    }
}
