//! What a process says, to people and into its log.

use std::io::{self, IsTerminal, Write};

/// Says something to people, on standard error. If nobody is there any more (a connection that was
/// cut, a terminal that was closed), the work goes on.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Logs to standard error; `TRAILTRAP_LOG` sets the level (default: warnings, or `default`).
pub fn log_to_stderr(default: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("TRAILTRAP_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let ansi = io::stderr().is_terminal();
    // Its own complaints about a standard error that is gone would end the process.
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .log_internal_errors(false);
    log.with_target(false).with_ansi(ansi).init();
}
