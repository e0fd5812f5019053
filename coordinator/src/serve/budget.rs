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
    /// The shares that are out, by number; older ones have smaller numbers.
    shares: BTreeSet<u64>,
    next: u64,
}

/// A part of a budget, until it is dropped.
pub struct Share {
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

    /// A share of no bytes yet, which stands behind all that are out.
    pub fn share(self: &Arc<Self>) -> Share {
        let mut taken = self.taken.lock();
        let number = taken.next;
        taken.next += 1;
        taken.shares.insert(number);
        Share { budget: self.clone(), number, bytes: 0, read: 0 }
    }

    /// The bytes that are taken.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.taken.lock().bytes
    }
}

impl Share {
    /// Lets the share grow until it covers `bytes`. The oldest share grows at once: so one of
    /// those that grow always gets on, and what is taken exceeds the budget by no more than one
    /// message.
    pub async fn cover(&mut self, bytes: usize) {
        loop {
            let returned = self.budget.returned.notified();
            let more = bytes.saturating_sub(self.bytes);
            {
                let mut taken = self.budget.taken.lock();
                if more == 0
                    || taken.shares.first() == Some(&self.number)
                    || taken.bytes.saturating_add(more) <= self.budget.bytes
                {
                    taken.bytes += more;
                    self.bytes += more;
                    return;
                }
            }
            returned.await;
        }
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
        self.budget.taken.lock().bytes -= less;
        self.budget.returned.notify_waiters();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.budget.taken.lock();
        taken.shares.remove(&self.number);
        taken.bytes -= self.bytes;
        drop(taken);
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
    fn the_oldest_share_grows_at_once_and_the_others_when_there_is_room() {
        let budget = Budget::new(100);
        let (mut old, mut young) = (budget.share(), budget.share());
        assert!(at_once(old.cover(50)).is_some());
        assert!(at_once(young.cover(50)).is_some(), "there is room");
        assert!(at_once(young.cover(20)).is_some(), "it covers that");
        assert!(at_once(young.cover(51)).is_none());
        assert!(at_once(old.cover(500)).is_some());
        drop(old);
        assert!(at_once(young.cover(200)).is_some(), "now it is the oldest");
        assert_eq!(budget.taken(), 200);
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
        at_once(first.cover(90)).unwrap();
        assert!(at_once(impatient.cover(50)).is_none());
        assert!(at_once(last.cover(10)).is_some());
        drop(impatient);
        assert!(at_once(last.cover(11)).is_none());
        drop(first);
        assert!(at_once(last.cover(usize::MAX >> 1)).is_some(), "all of it, and more");
        drop(last);
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
