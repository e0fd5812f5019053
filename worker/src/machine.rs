//! What this machine has to offer, as far as this process may use it.

use std::{
    fs,
    io::{self, IsTerminal},
    str::FromStr,
};

use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
};

/// Threads that may run at once: respects CPU affinity and cgroup quotas.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Bytes of memory that can be had without swapping: what the kernel calls available, or what is left under the cgroup's
/// limit if that is less.
pub fn available_memory() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .map_or(4 << 30, |kilobytes| kilobytes << 10);
    let cgroup =
        |file: &str| -> Option<u64> { fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?.trim().parse().ok() };
    match cgroup("memory.max") {
        Some(limit) => available.min(limit.saturating_sub(cgroup("memory.current").unwrap_or(0))),
        None => available,
    }
}

/// The budget for anonymous memory when none is given: six tenths of what is available.
pub fn default_memory() -> Size {
    Size(available_memory() / 10 * 6)
}

/// A number of bytes, written like `512MiB` or `14GiB` (`14G` means the same; a plain number means bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match text[digits.len()..].trim_end_matches("iB").trim_end_matches('B') {
            "" => 0,
            "K" | "k" => 10,
            "M" | "m" => 20,
            "G" | "g" => 30,
            "T" | "t" => 40,
            _ => return Err(format!("'{text}' is not a size; write 512MiB or 14GiB")),
        };
        let number: u64 =
            digits.trim().parse().map_err(|_| format!("'{text}' is not a size; write 512MiB or 14GiB"))?;
        number.checked_mul(1 << unit).map(Size).ok_or_else(|| format!("'{text}' is too large"))
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1024 => write!(f, "{} B", self.0),
            1024..1_048_576 => write!(f, "{:.1} KiB", bytes / 1024.0),
            1_048_576..1_073_741_824 => write!(f, "{:.1} MiB", bytes / 1_048_576.0),
            1_073_741_824..1_099_511_627_776 => write!(f, "{:.1} GiB", bytes / 1_073_741_824.0),
            _ => write!(f, "{:.1} TiB", bytes / 1_099_511_627_776.0),
        }
    }
}

/// The name of this host and process, for people.
pub fn identity() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "unknown".to_owned());
    format!("{}/{}", host.trim(), std::process::id())
}

/// SIGINT and SIGTERM, caught from the moment this exists.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Catches the signals; they are delivered on `runtime`.
    pub fn new(runtime: &Runtime) -> io::Result<Self> {
        let _inside = runtime.enter();
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Calls `stop` on the first signal, and ends the process on the second.
    pub async fn stop_or_exit(mut self, stop: impl FnOnce()) {
        self.next().await;
        eprintln!("stopping; a second signal stops at once");
        stop();
        self.next().await;
        std::process::exit(130);
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Makes a panic of any thread end the process. A census is safe against crashes, but not against a thread that is missing.
pub fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

/// Logs to standard error; `TRAILTRAP_LOG` sets the level (default: warnings, or `default`).
pub fn log_to_stderr(default: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("TRAILTRAP_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let ansi = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false).with_ansi(ansi).init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let parse = |text: &str| text.parse::<Size>().map(|size| size.0);
        assert_eq!(parse("14GiB"), Ok(14 << 30));
        assert_eq!(parse("14G"), Ok(14 << 30));
        assert_eq!(parse("512MB"), Ok(512 << 20));
        assert_eq!(parse("1000"), Ok(1000));
        for bad in ["", "GiB", "-1G", "1X", "1.5G", "99999999999T", "4 apples"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Size(3 << 29).to_string(), "1.5 GiB");
    }
}
