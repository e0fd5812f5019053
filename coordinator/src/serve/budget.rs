//! Bounds the bytes of messages that are in memory at a time, however many workers there are: who
//! is about to read or to send many bytes has its share of the budget grow first, and waits until
//! there is room.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// So many bytes for all.
pub struct Budget {
    bytes: usize,
    taken: Mutex<Taken>,
    /// Told when bytes come back.
    returned: Notify,
}

#[derive(Default)]
struct Taken {
    bytes: usize,
    /// The number of the share that grows whether there is room or not. Whoever has it gets on,
    /// or gives up before long.
    privileged: Option<u64>,
    /// The numbers of the shares that wait to grow; older ones have smaller numbers.
    waiting: BTreeSet<u64>,
    next: u64,
}

impl Taken {
    fn give_back(&mut self, share: u64, bytes: usize) {
        self.bytes -= bytes;
        self.waiting.remove(&share);
        if self.privileged == Some(share) {
            self.privileged = None;
        }
    }
}

/// A part of a budget, until it is dropped.
pub struct MemoryShare {
    budget: Arc<Budget>,
    number: u64,
    bytes: usize,
    /// How many of them are those of what was read.
    read: usize,
}

impl Budget {
    /// A budget of this many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Budget { bytes, taken: Mutex::default(), returned: Notify::new() })
    }

    /// A share of no bytes yet.
    pub fn share(self: &Arc<Self>) -> MemoryShare {
        let mut taken = self.taken.lock();
        let number = taken.next;
        taken.next += 1;
        MemoryShare { budget: self.clone(), number, bytes: 0, read: 0 }
    }

    /// The bytes that are taken.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.taken.lock().bytes
    }
}

impl MemoryShare {
    /// Lets the share grow until it covers `bytes`. If there is no room, the oldest of those that
    /// wait grows all the same, and as far as it has to, but no second one before it has given
    /// back what it has: so one always gets on, and what is taken exceeds the budget by no more
    /// than one message.
    pub async fn cover(&mut self, bytes: usize) {
        let waiting = Waiting { budget: &self.budget, number: self.number };
        loop {
            let returned = self.budget.returned.notified();
            let more = bytes.saturating_sub(self.bytes);
            {
                let mut taken = self.budget.taken.lock();
                let has_room = taken.bytes.saturating_add(more) <= self.budget.bytes;
                let is_next = || taken.waiting.first().is_none_or(|&first| first >= self.number);
                let is_privileged = match taken.privileged {
                    Some(number) => number == self.number,
                    None => is_next(),
                };
                if more == 0 || has_room || is_privileged {
                    if !has_room && more > 0 {
                        taken.privileged = Some(self.number);
                    }
                    taken.bytes += more;
                    self.bytes += more;
                    break;
                }
                taken.waiting.insert(self.number);
            }
            returned.await;
        }
        drop(waiting);
    }

    /// Covers what is about to be read, beside what was read before.
    pub async fn cover_reading(&mut self, more: usize) {
        self.cover(self.read.saturating_add(more)).await;
        self.read += more;
    }

    /// Covers `bytes` beside what was read.
    pub async fn cover_beside(&mut self, bytes: usize) {
        self.cover(self.read.saturating_add(bytes)).await;
    }

    /// Gives back what is beyond `bytes`; of what was read, nothing is left.
    pub fn shrink(&mut self, bytes: usize) {
        self.read = 0;
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        self.budget.taken.lock().give_back(self.number, less);
        self.budget.returned.notify_waiters();
    }
}

/// Stands in line as long as somebody waits.
struct Waiting<'a> {
    budget: &'a Budget,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // Whoever stood behind may be the next.
        if self.budget.taken.lock().waiting.remove(&self.number) {
            self.budget.returned.notify_waiters();
        }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.budget.taken.lock().give_back(self.number, self.bytes);
        self.budget.returned.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::{Pin, pin},
        sync::atomic::{AtomicUsize, Ordering},
        task::{Context, Poll, Waker},
    };

    use super::*;

    /// The result of a future that need not wait.
    fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        poll(pin!(future))
    }

    fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_share_grows_at_once_and_the_others_when_there_is_room() {
        let budget = Budget::new(100);
        let (_idle, mut old, mut young) = (budget.share(), budget.share(), budget.share());
        at_once(old.cover(50)).unwrap();
        assert!(at_once(young.cover(50)).is_some(), "there is room");
        assert!(at_once(young.cover(20)).is_some(), "it covers that");
        assert!(at_once(young.cover(51)).is_some(), "nobody else waits");
        assert!(at_once(young.cover(300)).is_some(), "and it goes on");
        assert!(at_once(old.cover(51)).is_none(), "one is enough");
        young.shrink(50);
        assert!(at_once(old.cover(200)).is_some());
        drop(old);
        assert_eq!(budget.taken(), 50);
    }

    #[test]
    fn of_those_that_wait_the_oldest_grows_first() {
        let budget = Budget::new(100);
        let (mut old, mut young, mut first) = (budget.share(), budget.share(), budget.share());
        at_once(first.cover(200)).unwrap();
        let (mut old, mut young) = (pin!(old.cover(190)), pin!(young.cover(190)));
        assert!(poll(young.as_mut()).is_none() && poll(old.as_mut()).is_none());
        drop(first);
        assert!(poll(young.as_mut()).is_none(), "an older one waits");
        assert!(poll(old.as_mut()).is_some());
    }

    #[test]
    fn a_share_counts_what_was_read_within_what_was_expected() {
        let budget = Budget::new(100);
        let mut share = budget.share();
        at_once(share.cover_reading(10)).unwrap();
        at_once(share.cover(60)).unwrap();
        at_once(share.cover_reading(50)).unwrap();
        assert_eq!(budget.taken(), 60);
        at_once(share.cover_reading(1)).unwrap();
        at_once(share.cover_beside(20)).unwrap();
        assert_eq!(budget.taken(), 81);
        share.shrink(100);
        assert_eq!(budget.taken(), 81);
        share.shrink(5);
        assert_eq!(budget.taken(), 5);
        at_once(share.cover_beside(7)).unwrap();
        assert_eq!(budget.taken(), 7);
    }

    #[test]
    fn who_stops_waiting_does_not_hold_up_the_others() {
        let budget = Budget::new(100);
        let (mut first, mut impatient, mut last) =
            (budget.share(), budget.share(), budget.share());
        at_once(first.cover(190)).unwrap();
        assert!(at_once(impatient.cover(150)).is_none());
        assert!(at_once(last.cover(150)).is_none());
        drop(first);
        assert!(at_once(last.cover(150)).is_some());
        drop((impatient, last));
        assert_eq!(budget.taken(), 0);
    }

    /// Many who take less than they will need: all get through, and never more is taken than the
    /// budget and one message.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_crowd_gets_through_within_bounds() {
        let budget = Budget::new(1000);
        let most = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..300usize)
            .map(|i| {
                let (budget, most) = (budget.clone(), most.clone());
                tokio::spawn(async move {
                    let needed = i * 7919 % 700;
                    let mut share = budget.share();
                    share.cover(needed / 10).await;
                    for received in (0..=needed).step_by(50) {
                        share.cover(received).await;
                        most.fetch_max(budget.taken(), Ordering::Relaxed);
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(budget.taken(), 0);
        let most = most.load(Ordering::Relaxed);
        assert!((700..=1700).contains(&most), "{most}");
    }
}
