//! Leaving alone for a while what has failed.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A pause after a failure, in which what failed is left alone.
#[derive(Default)]
pub(crate) struct Rest(Mutex<Option<Instant>>);

impl Rest {
    const DURATION: Duration = Duration::from_secs(60);

    /// Whether there still is a pause.
    pub(crate) fn lasts(&self) -> bool {
        self.until().is_some_and(|until| Instant::now() < until)
    }

    /// Begins a pause; false if there is one.
    pub(crate) fn begin(&self) -> bool {
        let mut until = self.until();
        let begins = until.is_none_or(|until| Instant::now() >= until);
        if begins {
            *until = Some(Instant::now() + Self::DURATION);
        }
        begins
    }

    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
