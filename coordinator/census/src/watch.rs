//! How people hear of what takes longer than a moment. Nothing here prints; whoever calls says
//! how.

use std::sync::atomic::AtomicU64;

/// Somebody who wants to hear how far things are, from whichever thread.
pub trait Watcher: Sync {
    /// Hears one sentence.
    fn say(&self, text: &str);

    /// Does `work`, which counts in `done` up to `total`, and may show meanwhile how far it is.
    fn watched(&self, what: &str, total: u64, done: &AtomicU64, work: &mut dyn FnMut());

    /// Whether what is being done is not wanted any more. Who can stop halfway asks now and then.
    fn wants_no_more(&self) -> bool {
        false
    }
}

impl dyn Watcher + '_ {
    /// Does `work`, as [`Watcher::watched`] does, and returns what comes of it.
    pub fn during<T>(
        &self,
        what: &str,
        total: u64,
        done: &AtomicU64,
        work: impl FnOnce() -> T,
    ) -> T {
        let (mut work, mut result) = (Some(work), None);
        self.watched(what, total, done, &mut || result = work.take().map(|work| work()));
        result.expect("watchers do the work once")
    }
}
