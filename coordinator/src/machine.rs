//! What this process takes of its machine.

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use trailtrap_worker::process::limits::resident_memory;

/// Seconds of a core on a clock: those that this process, or this thread, has had so far.
pub fn core_seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Seconds of a core that the living threads with this name have had; `None` where the system does
/// not tell.
pub fn core_seconds_of(name: &str) -> Option<f64> {
    let mut seconds = 0.0;
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let directory = thread.ok()?.path();
        // It may have ended meanwhile.
        let Ok(its_name) = fs::read_to_string(directory.join("comm")) else { continue };
        if its_name.trim() != name {
            continue;
        }
        let Ok(spent) = fs::read_to_string(directory.join("schedstat")) else { continue };
        let nanoseconds: f64 = spent.split_whitespace().next()?.parse().ok()?;
        seconds += nanoseconds * 1e-9;
    }
    Some(seconds)
}

/// The most memory that this process was seen to have.
#[derive(Default)]
pub struct Memory(u64);

impl Memory {
    /// Looks at how much it has now.
    pub fn look(&mut self) {
        self.0 = self.0.max(resident_memory().unwrap_or(0));
    }

    /// Bytes; `None` where the system does not tell.
    pub fn most(&self) -> Option<u64> {
        (self.0 > 0).then_some(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elsewhere it cannot be told, and nothing is said.
    #[test]
    #[cfg(target_os = "linux")]
    fn what_this_process_takes_is_told() {
        let mut memory = Memory::default();
        assert_eq!(memory.most(), None);
        memory.look();
        assert!(memory.most() > Some(1 << 20));
        let name = "spends-time";
        let thread = std::thread::Builder::new().name(name.to_owned());
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let spends = thread.spawn(move || while stopped.try_recv().is_err() {}).unwrap();
        while core_seconds_of(name) < Some(0.01) {}
        assert!(core_seconds(ClockId::ProcessCPUTime) >= 0.01);
        stop.send(()).unwrap();
        spends.join().unwrap();
        assert_eq!(core_seconds_of("nobody"), Some(0.0));
    }
}
