//! Trials in progress, and what they took.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use super::Census;
use crate::trust::trial::TOGETHER;

/// Turns of those who read a lot at a time: so they hold not too much together.
#[derive(Default)]
pub(super) struct Turns {
    taken: Mutex<usize>,
    ended: Condvar,
}

/// A turn, until this is dropped.
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Waits until less than so many turns are taken.
    pub(super) fn take(&self, most: usize) -> Turn<'_> {
        let mut taken = self.taken.lock();
        self.ended.wait_while(&mut taken, |taken| *taken >= most);
        *taken += 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock() -= 1;
        self.0.ended.notify_one();
    }
}

/// Trials of a run. Those that read take their turns, a few at a time: so they hold a few buckets
/// together.
#[derive(Default)]
pub(super) struct Trials {
    reading: Turns,
    units: AtomicU64,
    records: AtomicU64,
    bytes_read: AtomicU64,
    bytes_examined: AtomicU64,
    bytes_named: AtomicU64,
    bytes_counted: AtomicU64,
}

/// What trials took, of all that was examined in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Units of which records were tried.
    pub units: u64,
    /// Records that were tried.
    pub records: u64,
    /// Bytes of blocks that were read for that.
    pub bytes_read: u64,
    /// Bytes of the blocks of all units that were examined.
    pub bytes_examined: u64,
    /// Bytes of the blocks of units that were delivered by the names of blocks …
    pub bytes_named: u64,
    /// … and of those of them that were read here to count them again.
    pub bytes_counted: u64,
}

impl Trials {
    /// Waits for a turn.
    pub(super) fn take_turn(&self) -> Turn<'_> {
        self.reading.take(TOGETHER)
    }

    /// Blocks of so many bytes were read.
    pub(super) fn note_read(&self, bytes: u64) {
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A unit of so many bytes was delivered by name, and read here or not.
    pub(super) fn note_named(&self, bytes: u64, is_read: bool) {
        self.bytes_named.fetch_add(bytes, Ordering::Relaxed);
        self.bytes_counted.fetch_add(if is_read { bytes } else { 0 }, Ordering::Relaxed);
    }

    /// A unit of so many bytes was examined, and so many of its records tried.
    pub(super) fn note_examined(&self, bytes: u64, tried: u64) {
        self.bytes_examined.fetch_add(bytes, Ordering::Relaxed);
        self.units.fetch_add(u64::from(tried > 0), Ordering::Relaxed);
        self.records.fetch_add(tried, Ordering::Relaxed);
    }
}

impl Census {
    /// What the trials of this run took so far.
    pub fn tried(&self) -> Tried {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let Trials { units, records, bytes_read, bytes_examined, .. } = &self.trials;
        Tried {
            units: load(units),
            records: load(records),
            bytes_read: load(bytes_read),
            bytes_examined: load(bytes_examined),
            bytes_named: load(&self.trials.bytes_named),
            bytes_counted: load(&self.trials.bytes_counted),
        }
    }
}
