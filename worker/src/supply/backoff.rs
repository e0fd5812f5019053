//! Pauses in the use of something that has failed.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A pause of a minute after a failure, during which the same thing is not tried again.
#[derive(Default)]
pub(crate) struct Rest(Mutex<Option<Instant>>);

impl Rest {
    const DURATION: Duration = Duration::from_secs(60);

    /// Whether there still is a pause.
    pub(crate) fn lasts(&self) -> bool {
        self.0.lock().is_some_and(|until| Instant::now() < until)
    }

    /// Begins a pause, and returns true, unless there is one already.
    pub(crate) fn begin(&self) -> bool {
        let mut until = self.0.lock();
        let begins = until.is_none_or(|until| Instant::now() >= until);
        if begins {
            *until = Some(Instant::now() + Self::DURATION);
        }
        begins
    }
}
