//! The processors and the memory that this process may use.

use std::{
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Threads that may run at once: respects CPU affinity, cgroup quotas, and what a batch system has
/// allotted.
pub fn threads() -> usize {
    allotted_threads(|name| std::env::var(name).ok())
        .unwrap_or(usize::MAX)
        .min(std::thread::available_parallelism().map_or(1, usize::from))
}

/// What Slurm, PBS or HyperQueue give to a task, which not every installation enforces.
fn allotted_threads(variable: impl Fn(&str) -> Option<String>) -> Option<usize> {
    ["SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "PBS_NCPUS", "NCPUS"]
        .into_iter()
        .find_map(|name| variable(name)?.trim().parse().ok().filter(|&count| count > 0))
}

/// Lets this process open as many files as the system allows it; how many these are, `None` for any
/// number. Large censuses have thousands.
pub fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // Where that is not allowed, there are fewer.
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(_) => limit.current,
    }
}

/// About how many threads a program has for each processor: one that computes, and waits for files, …
pub const COMPUTING_EACH: usize = 2;
/// … and one that solves units, reads ahead, counts, serves, and waits for files.
pub const SOLVING_EACH: usize = 6;
/// How many it has beside these.
const OTHER_THREADS: usize = 16;

/// The system does not let this process have the threads that it takes.
#[derive(Debug, thiserror::Error)]
#[error(
    "the system lets this process have {had} of {wanted} threads: raise the limit (`ulimit -u`, or \
     that of the container or the job), or let it have fewer processors (`taskset -c 0`), for each \
     of which it takes {each}"
)]
pub struct FewThreads {
    had: usize,
    wanted: usize,
    each: usize,
    source: io::Error,
}

/// Begins as many threads as a program that has so many for each processor, and ends them:
/// libraries end the process, without a word of the cause, where the system refuses them one.
///
/// # Errors
/// [`FewThreads`] if there are fewer to be had.
pub fn check_threads(each: usize) -> Result<(), FewThreads> {
    // Of what a batch system has allotted not all libraries know.
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let wanted = each * processors + OTHER_THREADS;
    let gate = Mutex::new(());
    thread::scope(|scope| {
        let _closed = gate.lock();
        for had in 0..wanted {
            let wait = || drop(gate.lock());
            let few = |source| FewThreads { had, wanted, each, source };
            thread::Builder::new().spawn_scoped(scope, wait).map_err(few)?;
        }
        Ok(())
    })
}

/// A file that may not grow any more is an error for whoever writes it from now on, and does not end
/// the process.
pub fn outlive_file_limit() {
    // SAFETY: no handler is installed, and nobody else cares about this signal.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Bytes of this process in memory; `None` where the system does not tell.
pub fn resident_memory() -> Option<u64> {
    told_bytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// The bytes that a file like `/proc/meminfo` tells behind this name; `None` if it does not.
pub fn told_bytes(file: &str, name: &str) -> Option<u64> {
    let kilobytes: u64 = told(file, name)?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

/// What a file like `/proc/meminfo` tells behind this name; `None` if nothing.
pub(super) fn told<'a>(file: &'a str, name: &str) -> Option<&'a str> {
    Some(file.lines().find_map(|line| line.strip_prefix(name))?.trim())
}

/// Bytes of memory that can be had without swapping: what the kernel calls available, or what is
/// left under the limits of the cgroups that this process is in, if files need not stay in memory, or
/// what Slurm has allotted, if that is less.
pub fn available_memory() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = told_bytes(&meminfo, "MemAvailable:").unwrap_or(4 << 30);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let left = memory_groups(&groups)
        .into_iter()
        .filter_map(|(directory, files)| left_in_group(&directory, files));
    let allotted = allotted_memory(|name| std::env::var(name).ok());
    left.chain(allotted).fold(available, u64::min)
}

/// How the files of a memory cgroup are called, which the two versions of cgroups do not agree on.
#[derive(Clone, Copy)]
struct GroupFiles {
    limit: &'static str,
    used: &'static str,
    /// In `memory.stat`, what files take that are in memory, and go from it when it is needed.
    cached: [&'static str; 2],
}

/// Of version 1, …
const FIRST: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cached: ["total_active_file ", "total_inactive_file "],
};
/// … and of version 2.
const SECOND: GroupFiles = GroupFiles {
    limit: "memory.max",
    used: "memory.current",
    cached: ["active_file ", "inactive_file "],
};

/// What is left under the limit of a memory cgroup; `None` if it has none.
fn left_in_group(directory: &Path, files: GroupFiles) -> Option<u64> {
    let text = |file: &str| fs::read_to_string(directory.join(file)).ok();
    let number = |file: &str| text(file)?.trim().parse::<u64>().ok();
    let stat = text("memory.stat").unwrap_or_default();
    let cached = files.cached.iter().filter_map(|name| told(&stat, name)?.parse::<u64>().ok());
    let used = number(files.used).unwrap_or(0).saturating_sub(cached.sum());
    Some(number(files.limit)?.saturating_sub(used))
}

/// The directories of the memory cgroups of a process, itself and all above, and how their files are
/// called, given `/proc/self/cgroup`.
fn memory_groups(groups: &str) -> Vec<(PathBuf, GroupFiles)> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, files) = match controllers {
            "" => ("/sys/fs/cgroup", SECOND),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", FIRST)
            }
            _ => continue,
        };
        // Within a container the path may lead out of what is visible; the root is visible always.
        found.extend(
            Path::new(path.trim_start_matches('/'))
                .ancestors()
                .map(|at| (Path::new(root).join(at), files)),
        );
    }
    found
}

/// What Slurm gives to the tasks of a job on a node.
fn allotted_memory(variable: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let mebibytes = |name| {
        variable(name)?.trim().parse::<u64>().ok().filter(|&count| count > 0)?.checked_mul(1 << 20)
    };
    mebibytes("SLURM_MEM_PER_NODE").or_else(|| {
        mebibytes("SLURM_MEM_PER_CPU")?.checked_mul(allotted_threads(&variable)? as u64)
    })
}

/// The budget for anonymous memory when none is given: six tenths of what is available.
pub fn default_memory() -> Size {
    Size(available_memory() / 10 * 6)
}

/// A time, written like `300` (seconds), `5min` or `1h 30min`.
///
/// # Errors
/// If the text is none of these; the message shows how to write one.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).or_else(|_| {
        let no_time = |error| format!("'{text}' is not a time ({error}); write 300 or 5min");
        humantime::parse_duration(text).map_err(no_time)
    })
}

/// A number of bytes, written like `512MiB` or `14GiB` (`14G` means the same; a plain number means
/// bytes).
// The crate `bytesize` reads `14G` as 14 · 10^9 bytes, and what is too large as the largest number
// there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// A [`Size`] of at least `LEAST` bytes, so that who forgets a unit is told.
///
/// # Errors
/// If the text is no size, or a smaller one; the message shows how to write one.
pub fn parse_size_from<const LEAST: u64>(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    match size.0 >= LEAST {
        true => Ok(size),
        false => Err(format!("{size} is too small; say the unit, as in 64MiB")),
    }
}

/// No budget is smaller: so many bytes hold nothing.
pub const LEAST_BUDGET: u64 = 1 << 10;

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
        let number: u64 = digits
            .trim()
            .parse()
            .map_err(|_| format!("'{text}' is not a size; write 512MiB or 14GiB"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_systems_are_believed() {
        let variables = |pairs: &'static [(&str, &str)]| {
            move |name: &str| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            }
        };
        assert_eq!(allotted_threads(variables(&[])), None);
        assert_eq!(
            allotted_threads(variables(&[
                ("SLURM_CPUS_ON_NODE", "64"),
                ("SLURM_CPUS_PER_TASK", "8")
            ])),
            Some(8)
        );
        assert_eq!(
            allotted_threads(variables(&[("SLURM_CPUS_PER_TASK", "many"), ("PBS_NCPUS", "3")])),
            Some(3)
        );
        assert_eq!(
            allotted_memory(variables(&[("SLURM_MEM_PER_NODE", "2000")])),
            Some(2000 << 20)
        );
        assert_eq!(
            allotted_memory(variables(&[
                ("SLURM_MEM_PER_CPU", "500"),
                ("SLURM_CPUS_PER_TASK", "4")
            ])),
            Some(2000 << 20)
        );
        assert_eq!(allotted_memory(variables(&[("SLURM_MEM_PER_NODE", "0")])), None, "no limit");
    }

    #[test]
    fn cgroups_are_looked_for_up_to_the_root() {
        let directories = |text: &str| -> Vec<String> {
            memory_groups(text)
                .iter()
                .map(|(path, ..)| path.to_str().unwrap().trim_end_matches('/').to_owned())
                .collect()
        };
        assert_eq!(
            directories("0::/a/b\n"),
            ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]
        );
        assert_eq!(directories("0::/\n"), ["/sys/fs/cgroup"]);
        assert_eq!(
            directories("5:cpu,cpuacct:/x\n4:memory:/job:1\n1:name=systemd:/y"),
            ["/sys/fs/cgroup/memory/job:1", "/sys/fs/cgroup/memory"]
        );
        assert_eq!(directories("nonsense\n"), [""; 0]);
        assert!(available_memory() > 0 && threads() > 0);
    }

    /// Whoever has read many files before has no less memory for that.
    #[test]
    fn files_in_memory_are_not_memory_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        let left = |files| left_in_group(directory.path(), files);
        assert_eq!(left(SECOND), None);
        write("memory.max", "max\n");
        write("memory.current", "900\n");
        assert_eq!(left(SECOND), None, "there is no limit");
        write("memory.max", "1000\n");
        assert_eq!(left(SECOND), Some(100));
        write("memory.stat", "anon 200\nfile 650\ninactive_file 600\nactive_file 40\n");
        assert_eq!((left(SECOND), left(FIRST)), (Some(740), None));
        write("memory.limit_in_bytes", "1000\n");
        write("memory.usage_in_bytes", "1000\n");
        write("memory.stat", "inactive_file 1\ntotal_inactive_file 600\ntotal_active_file 900\n");
        assert_eq!(left(FIRST), Some(1000));
    }

    #[test]
    fn times() {
        assert_eq!(parse_time("300"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_time("5min"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_time("1h 30s"), Ok(Duration::from_secs(3630)));
        for bad in ["", "-1", "1.5", "5 apples", "s"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }

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
