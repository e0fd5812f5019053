//! What a process says, to people and into its log.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

/// Says something to people, on standard error. If nobody is there any more (a connection that was
/// cut, a terminal that was closed), the work goes on.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Logs to standard error. `TRAILTRAP_LOG` says what, as `LEVEL` or `MODULE=LEVEL,…`; without it, or
/// if it cannot be read, `default` does.
pub fn log_to_stderr(default: &str) {
    let parse = |text: &str| text.parse::<Targets>().ok();
    let wanted = std::env::var("TRAILTRAP_LOG").ok().and_then(|text| parse(&text));
    let log = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        // Its own complaints about a standard error that is gone would end the process.
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal())
        .with_filter(wanted.or_else(|| parse(default)).unwrap_or_default());
    tracing_subscriber::registry().with(log).init();
}
