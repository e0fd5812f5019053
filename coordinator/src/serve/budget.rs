//! Bounds the bytes of messages that are in memory at a time, however many workers there are: who
//! is about to read or to send many bytes takes a share of the budget first, and waits until there
//! is one.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// So many bytes for all.
pub struct Budget {
    bytes: usize,
    taken: Mutex<Taken>,
    /// Told when bytes come back.
    returned: Notify,
    /// Who wants a share stands in line.
    line: tokio::sync::Mutex<()>,
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
}

impl Budget {
    /// A budget of this many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Budget {
            bytes,
            taken: Mutex::default(),
            returned: Notify::new(),
            line: tokio::sync::Mutex::default(),
        })
    }

    /// Takes a share of `bytes`, in the order of asking. One that is larger than the budget gets
    /// all of it.
    pub async fn take(self: &Arc<Self>, bytes: usize) -> Share {
        let _first = self.line.lock().await;
        loop {
            let returned = self.returned.notified();
            if let Some(share) = self.try_take(bytes) {
                return share;
            }
            returned.await;
        }
    }

    fn try_take(self: &Arc<Self>, bytes: usize) -> Option<Share> {
        let mut taken = self.taken.lock();
        if !taken.shares.is_empty() && !self.has_room(&taken, bytes) {
            return None;
        }
        let number = taken.next;
        taken.next += 1;
        taken.shares.insert(number);
        taken.bytes += bytes;
        Some(Share { budget: self.clone(), number, bytes })
    }

    fn has_room(&self, taken: &Taken, bytes: usize) -> bool {
        taken.bytes.saturating_add(bytes) <= self.bytes
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
                    || self.budget.has_room(&taken, more)
                {
                    taken.bytes += more;
                    self.bytes += more;
                    return;
                }
            }
            returned.await;
        }
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
    fn shares_are_given_in_the_order_of_asking_and_come_back() {
        let budget = Budget::new(100);
        let first = at_once(budget.take(60)).unwrap();
        let mut large = pin!(budget.take(50));
        let mut small = pin!(budget.take(10));
        assert!(poll(large.as_mut()).is_none());
        assert!(poll(small.as_mut()).is_none(), "there is room, but the large one was first");
        drop(first);
        let large = poll(large).unwrap();
        let small = poll(small).unwrap();
        assert!(at_once(budget.take(41)).is_none());
        assert!(at_once(budget.take(40)).is_some());
        drop((large, small));
        assert_eq!(budget.taken.lock().bytes, 0);
    }

    #[test]
    fn who_stops_waiting_does_not_hold_up_the_others() {
        let budget = Budget::new(100);
        let first = at_once(budget.take(90)).unwrap();
        {
            let mut impatient = pin!(budget.take(50));
            assert!(poll(impatient.as_mut()).is_none());
        }
        assert!(at_once(budget.take(10)).is_some());
        drop(first);
    }

    #[test]
    fn a_share_larger_than_the_budget_gets_all_of_it() {
        let budget = Budget::new(100);
        let little = at_once(budget.take(1)).unwrap();
        let mut huge = pin!(budget.take(usize::MAX));
        assert!(poll(huge.as_mut()).is_none());
        drop(little);
        let huge = poll(huge).unwrap();
        assert!(at_once(budget.take(0)).is_none());
        drop(huge);
        assert!(at_once(budget.take(100)).is_some());
    }

    #[test]
    fn the_oldest_share_grows_at_once_and_the_others_when_there_is_room() {
        let budget = Budget::new(100);
        let mut old = at_once(budget.take(50)).unwrap();
        let mut young = at_once(budget.take(40)).unwrap();
        assert!(at_once(young.cover(50)).is_some(), "there is room");
        assert!(at_once(young.cover(20)).is_some(), "it covers that");
        assert!(at_once(young.cover(51)).is_none());
        assert!(at_once(old.cover(500)).is_some());
        drop(old);
        assert!(at_once(young.cover(200)).is_some(), "now it is the oldest");
        assert_eq!(budget.taken.lock().bytes, 200);
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
                    let mut share = budget.take(needed / 10).await;
                    for received in (0..=needed).step_by(50) {
                        share.cover(received).await;
                        most.fetch_max(budget.taken.lock().bytes, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(budget.taken.lock().bytes, 0);
        let most = most.load(Ordering::Relaxed);
        assert!((700..=1700).contains(&most), "{most}");
    }
}
