//! Pauses in the use of something that has failed, and the end of waiting for anything.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// When this process is asked to stop, what is under way is abandoned after so long.
const GRACE: Duration = Duration::from_secs(1);

/// Returns when this process has been asked to stop, and what is under way is to be abandoned.
pub(crate) async fn stopped(stop: &CancellationToken) {
    stop.cancelled().await;
    sleep(GRACE).await;
}

/// A pause after a failure, during which the same thing is not tried again.
pub(crate) struct Rest {
    until: Mutex<Option<Instant>>,
    pause: Duration,
}

/// Of a minute.
impl Default for Rest {
    fn default() -> Self {
        Self::of(Duration::from_secs(60))
    }
}

impl Rest {
    /// There is none yet; each lasts so long.
    pub(crate) fn of(pause: Duration) -> Self {
        Rest { until: Mutex::default(), pause }
    }

    /// Whether there still is a pause.
    pub(crate) fn lasts(&self) -> bool {
        self.until.lock().is_some_and(|until| Instant::now() < until)
    }

    /// Begins a pause, and returns true, unless there is one already.
    pub(crate) fn begin(&self) -> bool {
        let mut until = self.until.lock();
        let begins = until.is_none_or(|until| Instant::now() >= until);
        if begins {
            *until = Some(Instant::now() + self.pause);
        }
        begins
    }
}
