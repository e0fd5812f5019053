//! How a process is asked to end, and how it ends when something in it is broken.

use std::{
    fs,
    future::poll_fn,
    io,
    task::Poll,
    time::{Duration, Instant},
};

use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use super::log::say;

/// The signals by which people, terminals and batch systems ask a process to leave, caught from the
/// moment this exists: SIGINT, SIGTERM, SIGUSR1 and SIGUSR2, and SIGHUP unless whoever started the
/// process had it ignored, as `nohup` does. SIGXFSZ does nothing from then on.
pub struct Signals(Vec<Signal>);

impl Signals {
    /// Catches the signals; they are delivered on `runtime`.
    ///
    /// # Errors
    /// If the handlers cannot be installed.
    pub fn new(runtime: &Runtime) -> io::Result<Self> {
        let _inside = runtime.enter();
        let asked = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ];
        let of_terminal = (!ignores_hangup()).then(SignalKind::hangup);
        let signals =
            asked.into_iter().chain(of_terminal).map(signal).collect::<Result<_, _>>()?;
        // A file that may not grow is an error for whoever writes it, and does not end the process.
        let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
        Ok(Signals(signals))
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
        poll_fn(|context| {
            let mut received = self.0.iter_mut().map(|signal| signal.poll_recv(context));
            match received.any(|signal| signal.is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

/// Whether this process was started with SIGHUP ignored, or where nobody tells.
fn ignores_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status)
        .is_none_or(|mask| mask & 1 << (rustix::process::Signal::HUP.as_raw() - 1) != 0)
}

/// The mask of the signals that a process ignores, given its `/proc/self/status`.
fn ignored(status: &str) -> Option<u64> {
    let told = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(told.trim(), 16).ok()
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
