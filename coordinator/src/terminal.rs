//! Standard output, and on standard error the progress of what takes longer than a moment.

use std::{
    io::{self, Write},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use trailtrap_census::{read::status::duration, watch::Watcher};
use trailtrap_worker::process::log;

/// Nothing is shown before.
const PATIENCE: Duration = Duration::from_secs(2);

/// Writes text, or other bytes, to standard output. A reader who wants no more is no error.
///
/// # Errors
/// If it cannot be written for another reason.
pub fn print(text: &(impl AsRef<[u8]> + ?Sized)) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Writes to standard output one JSON object of what is told, or the text for people.
///
/// # Errors
/// As [`print`].
pub fn print_as(
    json: bool,
    what: &impl Serialize,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    print(&match json {
        true => serde_json::to_string(what)? + "\n",
        false => text(),
    })
}

/// Tells people by standard error.
pub struct Terminal;

impl Watcher for Terminal {
    fn say(&self, text: &str) {
        log::say(text);
    }

    fn watched(&self, what: &str, total: u64, done: &AtomicU64, work: &mut dyn FnMut()) {
        watched(what, total, done, work);
    }
}

/// The same, of a process that is asked to stop by a signal.
pub struct StoppableTerminal(pub CancellationToken);

impl Watcher for StoppableTerminal {
    fn say(&self, text: &str) {
        Terminal.say(text);
    }

    fn watched(&self, what: &str, total: u64, done: &AtomicU64, work: &mut dyn FnMut()) {
        Terminal.watched(what, total, done, work);
    }

    fn wants_no_more(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// Does `work`, which counts in `done` up to `total`, and shows how far it is: a bar on a
/// terminal that can draw one, a line every ten seconds elsewhere.
pub fn watched<T>(what: &str, total: u64, done: &AtomicU64, work: impl FnOnce() -> T) -> T {
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(what, total, done, &finished));
        let result = work();
        finished.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        result
    })
}

fn watch(what: &str, total: u64, done: &AtomicU64, finished: &AtomicBool) {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(5));
    // On a terminal, too, unless TERM says what it can draw.
    let is_drawn = !bar.is_hidden();
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {percent} %, {eta} left")
        .expect("a valid template");
    bar.set_style(style);
    bar.set_prefix(what.to_owned());
    let (start, mut printed) = (Instant::now(), Instant::now());
    while !finished.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_millis(100));
        let now = done.load(Ordering::Relaxed).min(total);
        if is_drawn && start.elapsed() > PATIENCE {
            bar.set_position(now);
        } else if !is_drawn && printed.elapsed() > Duration::from_secs(10) {
            printed = Instant::now();
            let share = now as f64 / total.max(1) as f64;
            let left = match share > 0.0 {
                true => duration(start.elapsed().as_secs_f64() * (1.0 - share) / share),
                false => "?".to_owned(),
            };
            log::say(&format!("{what}: {:.1} %, {left} left", 100.0 * share));
        }
    }
    bar.finish_and_clear();
}
