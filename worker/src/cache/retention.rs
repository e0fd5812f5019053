//! Which values of a cache go first: those that are read again last (Belady 1966), as far as that
//! is known. A pure state machine, without the values.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

use trailtrap_shared::plan::Turn;

/// It is not read again, as far as is known.
pub const NEVER: Turn = Turn::MAX;

/// Keys of values that take bytes of a budget. While all take more than that, the one goes that is
/// read again last. Of several, it is the one that was read last: what a shard reads is read by
/// its parts in turn, so that the others come before.
pub struct Retention<K> {
    known: HashMap<K, Known>,
    /// The same by next turn, then by the time when they were read.
    order: BTreeSet<(Turn, u64, K)>,
    bytes: usize,
    budget_bytes: usize,
    /// Counts what is read.
    time: u64,
}

#[derive(Clone, Copy)]
struct Known {
    bytes: usize,
    next: Turn,
    read: u64,
}

impl<K: Copy + Eq + Hash + Ord> Retention<K> {
    /// Nothing, and a budget.
    pub fn new(budget_bytes: usize) -> Self {
        let (known, order) = (HashMap::new(), BTreeSet::new());
        Retention { known, order, bytes: 0, budget_bytes, time: 0 }
    }

    /// Whether there is such a value.
    pub fn contains(&self, key: &K) -> bool {
        self.known.contains_key(key)
    }

    /// Bytes that all values may have together.
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    /// Bytes of all values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Has another budget from now on, and drops what is beyond it, as [`Retention::put`] does.
    pub fn set_budget(
        &mut self,
        budget_bytes: usize,
        now: Turn,
        next_turn: impl Fn(&K) -> Turn,
        mut drop: impl FnMut(&K),
    ) {
        self.budget_bytes = budget_bytes;
        while let Some(gone) = self.evict(0, now, &next_turn) {
            drop(&gone);
        }
    }

    /// Notes that a value is read, and that it is read again at `next`. Whether there is such a
    /// value.
    pub fn read(&mut self, key: &K, next: Turn) -> bool {
        let Some(known) = self.known.get_mut(key) else { return false };
        self.time += 1;
        self.order.remove(&(known.next, known.read, *key));
        (known.next, known.read) = (next, self.time);
        self.order.insert((next, self.time, *key));
        true
    }

    /// Takes in a value, in place of another with this key if there is one, and drops what there
    /// is no room for any more: those that are read again last. Turns before `now` are past; what
    /// was expected then is read at `next_turn`, which says of each value when it is read, since
    /// somebody else may have done that.
    pub fn put(
        &mut self,
        key: K,
        bytes: usize,
        now: Turn,
        next_turn: impl Fn(&K) -> Turn,
        mut drop: impl FnMut(&K),
    ) {
        self.remove(&key);
        while let Some(gone) = self.evict(bytes, now, &next_turn) {
            drop(&gone);
        }
        self.insert(key, bytes, next_turn(&key));
    }

    /// Takes in a value that is not here, and is read at `next`. It has not been read yet.
    fn insert(&mut self, key: K, bytes: usize, next: Turn) {
        self.known.insert(key, Known { bytes, next, read: 0 });
        self.order.insert((next, 0, key));
        self.bytes += bytes;
    }

    /// Forgets a value.
    pub fn remove(&mut self, key: &K) {
        if let Some(Known { bytes, next, read }) = self.known.remove(key) {
            self.order.remove(&(next, read, *key));
            self.bytes -= bytes;
        }
    }

    /// To make room for so many bytes, forgets the value that is read again last; which it was.
    /// `None` if there is room, or no value left.
    fn evict(&mut self, room: usize, now: Turn, next_turn: impl Fn(&K) -> Turn) -> Option<K> {
        if self.bytes + room <= self.budget_bytes {
            return None;
        }
        while let Some(&(turn, read, key)) = self.order.first().filter(|(turn, ..)| *turn < now) {
            self.order.remove(&(turn, read, key));
            let next = next_turn(&key).max(now);
            self.order.insert((next, read, key));
            self.known.get_mut(&key).expect("what is ordered is known").next = next;
        }
        let (_, _, key) = *self.order.last()?;
        self.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(budget_bytes: usize, values: &[(u8, Turn)]) -> Retention<u8> {
        let mut retention = Retention::new(budget_bytes);
        values.iter().for_each(|&(key, next)| retention.insert(key, 1, next));
        retention
    }

    #[test]
    fn what_is_read_last_goes_first() {
        let mut retention = of(4, &[(1, 30), (2, 10), (3, 20), (4, NEVER)]);
        assert_eq!(retention.evict(0, 5, |_| NEVER), None, "there is room");
        assert_eq!(retention.evict(2, 5, |_| NEVER), Some(4));
        assert_eq!(retention.evict(2, 5, |_| NEVER), Some(1));
        assert_eq!(retention.evict(2, 5, |_| NEVER), None);
        assert!(retention.contains(&2) && retention.contains(&3));
        assert_eq!(retention.bytes(), 2);
        retention.remove(&2);
        assert_eq!(retention.evict(9, 5, |_| NEVER), Some(3));
        assert_eq!(retention.evict(9, 5, |_| NEVER), None, "nothing is left");
    }

    #[test]
    fn a_smaller_budget_drops_what_is_beyond_it() {
        let mut retention = of(3, &[(1, 30), (2, 10), (3, 20)]);
        let mut gone = Vec::new();
        retention.set_budget(1, 5, |_| NEVER, |&key| gone.push(key));
        assert_eq!((gone, retention.bytes()), (vec![1, 3], 1));
        retention.set_budget(3, 5, |_| NEVER, |_| unreachable!());
        retention.put(4, 2, 5, |_| 7, |_| unreachable!());
        assert_eq!(retention.bytes(), 3);
    }

    #[test]
    fn of_equal_turns_what_was_read_last_goes_first() {
        let mut retention = of(3, &[(1, 7), (2, 7), (3, 7)]);
        assert!(retention.read(&1, 7) && retention.read(&2, 7));
        assert!(!retention.read(&9, 7));
        assert_eq!(retention.evict(1, 7, |_| 7), Some(2));
        assert_eq!(retention.evict(2, 7, |_| 7), Some(1));
    }

    #[test]
    fn past_turns_are_asked_for_again() {
        let mut retention = of(3, &[(1, 3), (2, 40), (3, 50)]);
        let next_turn = |key: &u8| if *key == 1 { 60 } else { 0 };
        assert_eq!(retention.evict(1, 10, next_turn), Some(1), "somebody else did turn 3");
    }

    /// Going through more than fits, again and again, keeps most of what fits.
    #[test]
    fn a_scan_keeps_its_beginning() {
        let mut retention = Retention::new(60);
        let mut missed = 0;
        for key in (0..10).flat_map(|_| 0..100_u8) {
            if !retention.contains(&key) {
                missed += 1;
                while retention.evict(1, 1, |_| 1).is_some() {}
                retention.insert(key, 1, 1);
            }
            retention.read(&key, 1);
        }
        assert_eq!(missed, 100 + 9 * 40);
    }

    proptest! {
        /// Bytes add up, whatever happens; what goes is not read before something that stays.
        #[test]
        fn the_order_is_kept(
            steps in prop::collection::vec((0..20_u8, 1..5_usize, 0..9_u32), 1..200)
        ) {
            let mut retention = Retention::new(30);
            let mut values = HashMap::new();
            for (key, bytes, next) in steps {
                retention.remove(&key);
                values.remove(&key);
                while let Some(gone) = retention.evict(bytes, 0, |_| NEVER) {
                    let (_, last) = values.remove(&gone).unwrap();
                    prop_assert!(values.values().all(|&(_, next)| next <= last));
                }
                retention.insert(key, bytes, next);
                values.insert(key, (bytes, next));
                prop_assert_eq!(retention.bytes(), values.values().map(|v| v.0).sum::<usize>());
                prop_assert!(retention.bytes() <= 30);
                prop_assert!(values.keys().all(|key| retention.contains(key)));
            }
        }
    }
}
