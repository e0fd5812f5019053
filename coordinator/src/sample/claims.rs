//! How several processes share a run: each says which units it has in work.
//!
//! A process has a file of its own, which it writes anew again and again, with another number each
//! time; and for each unit that it has in work it makes a file that names it. Whoever finds such a
//! file leaves the unit alone, unless the process that is named is known to have ended, or has not
//! written for the length of a lease, by the clock of who looks. No clocks are compared, and no
//! locks are used, only files that are created if they are not there; so the file system may be
//! that of a cluster. Claims save work, and no more: a unit that two processes decide has the same
//! verdicts in both, and its file is moved into place as a whole.

use std::{
    collections::HashMap,
    fs::{self, File, Permissions},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use trailtrap_worker::process::open;

use super::error::{SampleError, at};

/// What this process claims of a run, and what it has seen of others. Dropped, it gives back all.
pub struct Claims {
    directory: PathBuf,
    /// [`machine`].
    machine: String,
    /// What this process is called in claims.
    name: String,
    lease: Duration,
    /// What others have written last, and since when that is so.
    seen: Mutex<HashMap<PathBuf, (Vec<u8>, Instant)>>,
    stop: Arc<(Mutex<bool>, Condvar)>,
    pulse: Option<JoinHandle<()>>,
}

/// Where claims are, in the directory of a run.
pub(super) const CLAIMS: &str = "claims";
/// Where processes are, in that directory.
const PROCESSES: &str = "processes";
/// A process writes so often in the time of a lease, at least.
const PULSES: u32 = 6;
/// Who waits for others looks again after this time, or sooner.
const LOOK: Duration = Duration::from_secs(2);

impl Claims {
    /// Begins to take part in the run in a directory; claims of this process last so long after
    /// its end, if it ends without notice.
    ///
    /// # Errors
    /// Files cannot be made there.
    pub fn new(run: &Path, lease: Duration) -> Result<Self, SampleError> {
        let directory = run.join(CLAIMS);
        let processes = directory.join(PROCESSES);
        at(&processes, fs::create_dir_all(&processes))?;
        let mut file = tempfile::Builder::new();
        // Others read it, as far as the umask lets them.
        let machine = machine();
        let prefix = format!("{machine}.{}.", std::process::id());
        let file = file.prefix(&prefix).permissions(Permissions::from_mode(0o666));
        let file = file.tempfile_in(&processes);
        let (_, path) = at(&processes, file.and_then(|file| Ok(file.keep()?)))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let pulse = {
            let (stop, path) = (stop.clone(), path.clone());
            move || {
                let mut stopped = stop.0.lock();
                for number in 0u64.. {
                    // Where this cannot be written, others take over, and verdicts cannot be
                    // written either, which is said there.
                    let _ = fs::write(&path, format!("{number}\n"));
                    if *stopped {
                        break;
                    }
                    stop.1.wait_for(&mut stopped, pause(lease));
                }
                let _ = fs::remove_file(&path);
            }
        };
        let pulse = Some(std::thread::spawn(pulse));
        let seen = Mutex::new(HashMap::new());
        let name = name.unwrap_or_default();
        Ok(Claims { directory, machine, name, lease, seen, stop, pulse })
    }

    /// Claims what is to be at this place in the directory of the run; whether nobody else has.
    ///
    /// # Errors
    /// The claim cannot be written or read.
    pub fn take(&self, place: &Path) -> Result<bool, SampleError> {
        let path = self.directory.join(place);
        if let Some(parent) = path.parent() {
            at(parent, fs::create_dir_all(parent))?;
        }
        loop {
            match File::create_new(&path) {
                Ok(mut file) => {
                    at(&path, file.write_all(self.name.as_bytes()))?;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(SampleError::File { path, source }),
            }
            if self.is_held(&path)? {
                return Ok(false);
            }
            match fs::remove_file(&path) {
                // Somebody else was faster. If both come to have it, both do the same.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => at(&path, removed)?,
            }
        }
    }

    /// Whether a claim is that of a process that is still at work.
    fn is_held(&self, claim: &Path) -> Result<bool, SampleError> {
        let Some(holder) = contents(claim)? else { return Ok(false) };
        let holder = String::from_utf8_lossy(&holder).into_owned();
        if self.has_ended(&holder) {
            return Ok(false);
        }
        // Who has not written its name yet is known by the claim itself.
        let sign = match holder.as_str() {
            "" => claim.to_owned(),
            holder => self.directory.join(PROCESSES).join(holder),
        };
        let Some(written) = contents(&sign)? else { return Ok(false) };
        let mut seen = self.seen.lock();
        let now = Instant::now();
        let last = seen.entry(sign).or_insert_with(|| (written.clone(), now));
        if last.0 != written {
            *last = (written, now);
        }
        Ok(now.duration_since(last.1) < self.lease)
    }

    /// Gives a claim back.
    pub fn give_back(&self, place: &Path) {
        // If it stays, others wait for the length of a lease.
        let _ = fs::remove_file(self.directory.join(place));
    }

    /// How long to wait until something may have changed.
    pub fn pause(&self) -> Duration {
        pause(self.lease)
    }

    /// How many processes take part, this one among them, as far as is known; those that were
    /// killed on other machines may count.
    pub fn processes(&self) -> usize {
        let names = fs::read_dir(self.directory.join(PROCESSES)).into_iter().flatten().flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| !self.has_ended(name)).count().max(1)
    }

    /// Whether a process of this name ran on this machine, and does not any more.
    fn has_ended(&self, name: &str) -> bool {
        let mut words = name.split('.');
        let is_here = !self.machine.is_empty() && words.next() == Some(&self.machine);
        let id = words.next().and_then(|id| id.parse::<u32>().ok());
        is_here && id.is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists())
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
        if let Some(pulse) = self.pulse.take() {
            let _ = pulse.join();
        }
    }
}

/// How long a process waits before it writes, or looks, again.
fn pause(lease: Duration) -> Duration {
    (lease / PULSES).min(LOOK)
}

/// What tells this machine, since it was started, and its processes that see each other from
/// others; nothing where that is not known.
fn machine() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    // Containers of one machine may not see each other's processes: `pid:[4026531836]`.
    let seen = fs::read_link("/proc/self/ns/pid");
    let number =
        |seen: PathBuf| seen.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    match (id, seen.map(number)) {
        (Ok(id), Ok::<String, _>(seen)) => format!("{}-{seen}", id.trim()),
        _ => String::new(),
    }
}

/// What is in a small file, if it is there.
fn contents(path: &Path) -> Result<Option<Vec<u8>>, SampleError> {
    match open::read(path, 1 << 10) {
        // On a network file system, a file that goes while it is read is stale.
        Err(error)
            if [io::ErrorKind::NotFound, io::ErrorKind::StaleNetworkFileHandle]
                .contains(&error.kind()) =>
        {
            Ok(None)
        }
        read => at(path, read).map(Some),
    }
}
