//! How a process is asked to end, and how it ends when something in it is broken.

use std::{
    any::Any,
    cell::Cell,
    fs,
    future::poll_fn,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Poll,
    time::{Duration, Instant},
};

use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use super::{limits::told, log::say_aside};

/// The signals by which people, terminals and batch systems ask a process to leave, caught from the
/// moment this exists.
pub struct Signals {
    /// SIGINT, SIGTERM, SIGUSR1 and SIGUSR2.
    asked: [Signal; 4],
    /// SIGHUP, of a terminal that is closed, unless whoever started the process had it ignored, as
    /// `nohup` does.
    closed: Option<Signal>,
}

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
        let closed = (!ignores_hangup()).then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Signals { asked: [interrupt?, terminate?, user1?, user2?], closed })
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
    /// script and its children, and scripts pass signals on. SIGHUP is never the second: shell and
    /// kernel both tell of the same terminal.
    pub async fn stop_or_exit(mut self, code: u8, stop: impl FnOnce()) {
        self.next().await;
        let first = Instant::now();
        stop();
        say_aside("stopping; a second signal stops at once");
        self.closed = None;
        loop {
            self.next().await;
            if first.elapsed() >= Duration::from_secs(1) {
                std::process::exit(code.into());
            }
        }
    }

    async fn next(&mut self) {
        poll_fn(|context| {
            let mut signals = self.asked.iter_mut().chain(&mut self.closed);
            match signals.any(|signal| signal.poll_recv(context).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

/// Whether this process was started with SIGHUP ignored. Where the system does not tell, it is
/// taken for ignored, and what it does stays as it was.
fn ignores_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = told(&status, "SigIgn:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    mask.is_none_or(|mask| mask >> (rustix::process::Signal::HUP.as_raw() - 1) & 1 == 1)
}

thread_local! {
    /// Whether this thread is in the code of a library that panics over what it reads.
    static MAY_PANIC: Cell<bool> = const { Cell::new(false) };
}

/// Makes a panic of any thread end the process, but for those that are [`survived`]. A census
/// survives a process that ends, but not one that goes on without one of its threads.
pub fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !MAY_PANIC.get() {
            report(panic);
            std::process::abort();
        }
    }));
}

/// Does something with the library of others that may panic over what it reads, in this thread.
///
/// # Errors
/// What the panic says.
pub fn survived<T>(action: impl FnOnce() -> T) -> Result<T, String> {
    MAY_PANIC.set(true);
    let done = catch_unwind(AssertUnwindSafe(action));
    MAY_PANIC.set(false);
    done.map_err(|panic| said(&*panic).to_owned())
}

/// What a panic says.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_that_is_survived_says_what_it_says() {
        assert_eq!(survived(|| 7), Ok(7));
        let places = [1, 2];
        let beyond = places.len() + std::hint::black_box(3);
        assert!(survived(|| places[beyond]).unwrap_err().contains("out of bounds"));
        assert_eq!(survived(|| -> () { panic!("as it stands") }), Err("as it stands".to_owned()));
        assert!(!MAY_PANIC.get());
    }
}
