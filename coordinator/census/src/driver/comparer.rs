//! The comparer: a thread that solves units a second time which no worker can compare.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
};

use parking_lot::Mutex;
use trailtrap_shared::plan::{Plan, Unit};

use super::Census;
use crate::core::COORDINATOR;

/// Units that the coordinator is to solve a second time.
pub(super) struct Comparison {
    /// Under which lease of its own.
    pub(super) lease: u64,
    /// The plan of their order.
    pub(super) plan: Arc<Plan>,
    pub(super) units: Vec<Unit>,
}

/// The thread, while there is one, and what it is to do.
#[derive(Default)]
pub(super) struct Comparer {
    running: Mutex<Option<(Sender<Comparison>, JoinHandle<()>)>>,
    stop: AtomicBool,
}

impl Comparer {
    /// Starts the thread, which ends with the census at the latest.
    pub(super) fn start(&self, census: &Arc<Census>) {
        let (sender, receiver) = channel();
        let census = Arc::downgrade(census);
        let thread = std::thread::Builder::new().name("comparer".to_owned());
        let thread = thread.spawn(move || compare_all(&census, &receiver));
        *self.running.lock() = Some((sender, thread.expect("threads can be spawned")));
    }

    /// Has the thread do something, if it still does anything.
    pub(super) fn give(&self, comparison: Comparison) {
        if let Some((sender, _)) = &*self.running.lock() {
            let _ = sender.send(comparison);
        }
    }

    /// Stops what it does. Returns the thread, which then ends.
    pub(super) fn stop(&self) -> Option<JoinHandle<()>> {
        self.stop.store(true, Ordering::Relaxed);
        let running = self.running.lock().take();
        running.map(|(_sender, thread)| thread)
    }
}

fn compare_all(census: &Weak<Census>, comparisons: &Receiver<Comparison>) {
    while let Ok(comparison) = comparisons.recv() {
        let Some(census) = census.upgrade() else { return };
        census.compare(comparison);
    }
}

impl Census {
    fn compare(&self, Comparison { lease, plan, units }: Comparison) {
        let solved = self.solve(&plan, &units, &self.comparer.stop, |delivery| delivery);
        match solved {
            Ok(deliveries) => {
                if let Err(error) = self.accept(COORDINATOR, lease, deliveries, false) {
                    tracing::debug!(lease, %error, "a comparison of the coordinator is void");
                }
            }
            Err(_) if self.comparer.stop.load(Ordering::Relaxed) => {
                self.give_back(COORDINATOR, lease, None);
            }
            Err(why) => self.give_back(COORDINATOR, lease, Some(&why)),
        }
    }
}
