//! Messages to people on standard error, and the log.

use std::{
    ffi::OsString,
    io::{self, IsTerminal, Write},
};

use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

/// Writes a line to standard error. An error is ignored, so that a worker goes on when its
/// terminal was closed.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The same for those who must not wait for whoever reads standard error. Where no thread can be
/// had, nothing is said.
pub fn say_aside(text: &'static str) {
    let _ = std::thread::Builder::new().spawn(|| say(text));
}

/// Logs to standard error. `TRAILTRAP_LOG` selects what, as `LEVEL` or `MODULE=LEVEL,…`; if it is
/// not set or malformed, `default` does. To be called once in a process.
pub fn log_to_stderr(default: &str) {
    let parse = |text: &str| text.parse::<Targets>().ok();
    let wanted = std::env::var("TRAILTRAP_LOG").ok().and_then(|text| parse(&text));
    let log = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        // With them, a standard error that is closed would end the process with a panic.
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal() && wants_colours())
        .with_filter(wanted.or_else(|| parse(default)).unwrap_or_default());
    tracing_subscriber::registry().with(log).init();
}

/// Whether people want colours on a terminal, as far as the environment says (no-color.org).
fn wants_colours() -> bool {
    let is_set = |value: &OsString| !value.is_empty();
    std::env::var_os("NO_COLOR").filter(is_set).is_none()
        && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// An error and its causes in one line, each of them once: some errors name their cause in their
/// own words as well.
pub fn explained(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text += ": ";
            text += &cause;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write report: {source}")]
    struct Repeating {
        source: io::Error,
    }

    /// People read a message once; said twice, its end looks like a second failure.
    #[test]
    fn causes_are_said_once() {
        let cause = || io::Error::other("the disk is full");
        let repeating = anyhow::Error::from(Repeating { source: cause() });
        assert_eq!(explained(&repeating), "cannot write report: the disk is full");
        let plain = anyhow::Error::from(cause()).context("cannot write report");
        assert_eq!(explained(&plain), "cannot write report: the disk is full");
        let nested = repeating.context("order 8");
        assert_eq!(explained(&nested), "order 8: cannot write report: the disk is full");
    }
}
