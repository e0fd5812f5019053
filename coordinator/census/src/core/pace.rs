//! How fast it goes, lately. A pure state machine.

use std::{collections::VecDeque, time::Duration};

/// What is long ago says little of what is to come: workers come and go.
const LATELY: Duration = Duration::from_secs(600);
/// So far apart are the moments that are remembered.
const STEP: Duration = Duration::from_secs(10);

/// What was done up to some moments, since something began.
#[derive(Clone, Debug)]
pub struct Pace {
    moments: VecDeque<(Duration, u64)>,
    done: u64,
}

impl Pace {
    /// Nothing is done yet.
    pub fn new(now: Duration) -> Self {
        Pace { moments: [(now, 0)].into(), done: 0 }
    }

    /// So much more is done.
    pub fn add(&mut self, more: u64, now: Duration) {
        self.done += more;
        let is_new = |&(last, _): &(Duration, u64)| now.saturating_sub(last) >= STEP;
        if self.moments.back().is_none_or(is_new) {
            self.moments.push_back((now, self.done));
        }
        // The first of them is older than lately, or the beginning.
        while self.moments.get(1).is_some_and(|&(second, _)| now.saturating_sub(second) >= LATELY)
        {
            self.moments.pop_front();
        }
    }

    /// Work begins after nobody had any: a pause of ten minutes or more is no time that work took.
    pub fn begin(&mut self, now: Duration) {
        let &(last, _) = self.moments.back().expect("one moment at least");
        if now.saturating_sub(last) >= LATELY {
            self.moments = [(now, self.done)].into();
        }
    }

    /// How much is done in a second, lately.
    pub fn per_second(&self, now: Duration) -> f64 {
        // If nothing was done since then, back to the last moment before something was: a unit may
        // take longer.
        let is_before = |&&(moment, done): &&(Duration, u64)| {
            now.saturating_sub(moment) >= LATELY && done < self.done
        };
        let since = self.moments.iter().rev().find(is_before).or_else(|| self.moments.front());
        let &(since, before) = since.expect("one moment at least");
        (self.done - before) as f64 / now.saturating_sub(since).as_secs_f64().max(0.001)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_long_ago_does_not_count() {
        let mut pace = Pace::new(at(100));
        assert_eq!(pace.per_second(at(100)), 0.0);
        pace.add(50, at(150));
        assert_eq!(pace.per_second(at(200)), 0.5, "since it began");
        (3600..=7200).step_by(2).for_each(|now| pace.add(6, at(now)));
        assert!((2.9..3.1).contains(&pace.per_second(at(7200))), "without the hour before");
        assert!(pace.moments.len() < 70);
        // Nothing more comes.
        assert!((1.4..1.6).contains(&pace.per_second(at(7500))));
        assert!(pace.per_second(at(8000)) < 0.1);
        pace.begin(at(9000));
        pace.add(30, at(9010));
        assert_eq!(pace.per_second(at(9010)), 3.0);
        pace.begin(at(9100));
        assert_eq!(pace.per_second(at(9110)), 30.0 / 110.0, "somebody was there lately");
    }
}
