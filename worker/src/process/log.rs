//! Messages to people on standard error, and the log.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

/// Writes a line to standard error. An error is ignored, so that a worker goes on when its
/// terminal was closed.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
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
        .with_ansi(io::stderr().is_terminal())
        .with_filter(wanted.or_else(|| parse(default)).unwrap_or_default());
    tracing_subscriber::registry().with(log).init();
}
