//! How a process is asked to end, and how it ends when something in it is broken.

use std::{
    io,
    time::{Duration, Instant},
};

use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use super::log::say;

/// The signals by which people and batch systems ask a process to leave, caught from the moment
/// this exists: SIGINT, SIGTERM, SIGUSR1 and SIGUSR2. SIGXFSZ does nothing from then on.
pub struct Signals([Signal; 4]);

impl Signals {
    /// Catches the signals; they are delivered on `runtime`.
    ///
    /// # Errors
    /// If the handlers cannot be installed.
    pub fn new(runtime: &Runtime) -> io::Result<Self> {
        let _inside = runtime.enter();
        let [interrupt, terminate, user1, user2] = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ]
        .map(signal);
        // A file that may not grow is an error for whoever writes it, and does not end the process.
        let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
        Ok(Signals([interrupt?, terminate?, user1?, user2?]))
    }

    /// What the first signal cancels; the second ends the process with `code`.
    ///
    /// # Errors
    /// If the handlers cannot be installed.
    pub fn stopping(runtime: &Runtime, code: u8) -> io::Result<CancellationToken> {
        let (signals, stop) = (Self::new(runtime)?, CancellationToken::new());
        let asked = stop.clone();
        runtime.spawn(signals.stop_or_exit(code, move || asked.cancel()));
        Ok(stop)
    }

    /// Calls `stop` on the first signal, and ends the process with `code` on the second. Signals
    /// within a second of the first count as the same one, because batch systems signal both a
    /// script and its children, and scripts pass signals on.
    pub async fn stop_or_exit(mut self, code: u8, stop: impl FnOnce()) {
        self.next().await;
        let first = Instant::now();
        say("stopping; a second signal stops at once");
        stop();
        while first.elapsed() < Duration::from_secs(1) {
            self.next().await;
        }
        std::process::exit(code.into());
    }

    async fn next(&mut self) {
        let [interrupt, terminate, user1, user2] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = user1.recv() => {}
            _ = user2.recv() => {}
        }
    }
}

/// Makes a panic of any thread end the process. A census survives a process that ends, but not one
/// that goes on without one of its threads.
pub fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}
