//! The directory of a courier: what lies there, what can be wrong with it, and for how long that is
//! borne with.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use backon::{BlockingRetryable, ExponentialBuilder};
use tokio_util::sync::CancellationToken;

use crate::{
    link::LinkError,
    process::{
        log, open,
        replace::{self, Replacement},
    },
};

/// How often files are looked for.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause before something is tried again.
const MOST_PAUSE: Duration = Duration::from_secs(2);
/// What the system refuses to read is tried again for so long.
pub(super) const REFUSALS: Duration = Duration::from_secs(5);
/// A task that was taken, and that its taker has not touched for so long, is put out again, as is
/// one whose files have been gone for so long.
pub(super) const SILENCE: Duration = Duration::from_secs(120);
/// So often whoever is at work shows that, by touching a file.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(20);
/// A directory that is in the way of a file gets this added to its name.
const IN_THE_WAY: &str = ".aside";
/// The name of the file that the courier has locked, and touches as long as it is at work.
pub(super) const COURIER: &str = "courier";
/// The name of the file that the courier leaves when there will be no more tasks, and what it says.
pub(super) const FINISHED: &str = "finished";
pub(super) const THE_END: &[u8] = b"trailtrap: the census is done; there are no more tasks\n";

/// Why files are of no use.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// A file or directory cannot be read or written.
    #[error("cannot use {path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why it cannot be used.
        source: io::Error,
    },
    /// Something else is there.
    #[error(
        "{0} is no directory, or one that it should lie in is none; --courier takes an empty or \
         new directory, and --offline that of a courier"
    )]
    NoDirectory(PathBuf),
    /// Another courier uses the directory.
    #[error("{0} is in use by another courier")]
    InUse(PathBuf),
    /// There are files in the directory, and none of them is that of a courier.
    #[error(
        "{0} holds files that have the names of tasks, or of their end, and no courier has used it; \
         choose an empty or new directory for --courier"
    )]
    Foreign(PathBuf),
    /// A file holds something else than it should.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A worker has renamed a task to `NUMBER.damaged`.
    #[error(
        "a worker could not use its task, and has set it aside as {0}; the worker's log says why"
    )]
    SetAside(PathBuf),
    /// The plan of a task differs from this program's.
    #[error(transparent)]
    Differ(LinkError),
}

impl OfflineError {
    /// Whether the file is gone, because another worker was quicker.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, OfflineError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl From<OfflineError> for LinkError {
    fn from(error: OfflineError) -> Self {
        match error {
            OfflineError::Differ(error) => error,
            OfflineError::Io { .. } => LinkError::Lost(log::explained(&error.into())),
            _ => LinkError::refused(error),
        }
    }
}

pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> OfflineError {
    move |source| OfflineError::Io { path: path.to_owned(), source }
}

/// Why a directory is of no use: something else that is there stays so, unlike what the system
/// refuses.
pub(super) fn unusable(directory: &Path) -> impl FnOnce(io::Error) -> OfflineError {
    move |source| match source.kind() {
        io::ErrorKind::NotADirectory => OfflineError::NoDirectory(directory.to_owned()),
        _ => at(directory)(source),
    }
}

/// Why a file could not be read: it is not what it should be, unless it is missing, or it is the
/// system that refuses.
pub(super) fn reading(path: &Path) -> impl FnOnce(io::Error) -> OfflineError {
    move |source| {
        let is_missing = source.kind() == io::ErrorKind::NotFound;
        match is_missing || open::is_of_the_system(&source) {
            true => at(path)(source),
            false => damaged(path, source),
        }
    }
}

/// That a file holds something else than it should.
pub(super) fn damaged(path: &Path, what: impl ToString) -> OfflineError {
    OfflineError::Damaged { path: path.to_owned(), what: what.to_string() }
}

/// Writes a file that nobody sees before it is complete. Others may write it too.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), OfflineError> {
    make_room(path).and_then(|()| Replacement::of(path).write(bytes)).map_err(at(path))
}

/// Renames a directory that stands where a file should be; all else can be replaced.
pub(super) fn make_room(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            let mut aside = path.as_os_str().to_owned();
            aside.push(IN_THE_WAY);
            fs::rename(path, aside)
        }
        _ => Ok(()),
    }
}

/// Tells whether somebody is still at work, from the changes of a file that is touched meanwhile,
/// and the clock of this process alone.
#[derive(Default)]
pub(super) struct Watch {
    /// What the file was like when it was last seen changed, and when that was.
    pub(super) seen: Option<(SystemTime, Instant)>,
}

impl Watch {
    /// Whether nothing has changed for longer than this, if this is when the file was last modified.
    pub(super) fn is_silent(
        &mut self,
        modified: Option<SystemTime>,
        now: Instant,
        silence: Duration,
    ) -> bool {
        match (modified, self.seen) {
            (Some(modified), Some((before, since))) if modified == before => {
                now.saturating_duration_since(since) > silence
            }
            (modified, _) => {
                self.seen = modified.map(|modified| (modified, now));
                false
            }
        }
    }
}

/// How long an operation on files is repeated that fails, for instance because a disk is full or a
/// directory is not there yet.
#[derive(Clone, Debug)]
pub struct Patience {
    /// It is not repeated after so long.
    pub lasts: Duration,
    /// It is not repeated once this is cancelled.
    pub stop: CancellationToken,
}

impl Patience {
    pub(super) fn persist<T>(
        &self,
        attempt: impl FnMut() -> Result<T, OfflineError>,
    ) -> Result<T, LinkError> {
        Ok(self.try_again(attempt)?)
    }

    /// Reads something, unless it is missing; for some seconds, if it is the system that refuses:
    /// that may pass.
    pub(super) fn read<T>(
        &self,
        mut read: impl FnMut() -> Result<T, OfflineError>,
    ) -> Result<Option<T>, OfflineError> {
        let briefly = Patience { lasts: REFUSALS, stop: self.stop.clone() };
        briefly.try_again(|| match read() {
            Err(error) if error.is_missing() => Ok(None),
            read => read.map(Some),
        })
    }

    fn try_again<T>(
        &self,
        attempt: impl FnMut() -> Result<T, OfflineError>,
    ) -> Result<T, OfflineError> {
        let start = Instant::now();
        let mut warned = false;
        // What a task holds is fetched again with each attempt to write it.
        let pauses = ExponentialBuilder::new().with_min_delay(PAUSE).with_max_delay(MOST_PAUSE);
        let pauses = pauses.without_max_times();
        attempt
            .retry(pauses)
            .sleep(std::thread::sleep)
            .when(|error| {
                matches!(error, OfflineError::Io { .. })
                    && start.elapsed() < self.lasts
                    && !self.stop.is_cancelled()
            })
            .notify(|error, _| {
                if !std::mem::replace(&mut warned, true) {
                    tracing::warn!(%error, "trying again");
                }
            })
            .call()
    }
}

/// The files of a directory with this extension whose names begin with a number, by number.
pub(super) fn files(directory: &Path, extension: &str) -> Result<Vec<PathBuf>, OfflineError> {
    let mut found: Vec<(u64, PathBuf)> = fs::read_dir(directory)
        .map_err(unusable(directory))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .filter_map(|path| {
            Some((path.file_name()?.to_str()?.split('.').next()?.parse().ok()?, path))
        })
        .collect();
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// What has the names of tasks and results, in whatever state.
pub(super) fn left_files(directory: &Path) -> Result<Vec<PathBuf>, OfflineError> {
    let mut left = Vec::new();
    for extension in ["task", "taken", "result", "damaged", replace::EXTENSION] {
        left.extend(files(directory, extension)?);
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the clocks of the machines say.
    #[test]
    fn a_task_is_silent_when_nothing_changes_on_the_own_clock() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let now = SystemTime::now();
        let (past, future) = (SystemTime::UNIX_EPOCH, now + Duration::from_secs(3600));
        let mut watch = Watch::default();
        for (second, modified, silent) in [
            (0, None, false),
            (1000, Some(past), false),
            (1120, Some(past), false),
            (1121, Some(past), true),
            (1121, Some(future), false),
            (1241, Some(future), false),
            (1242, Some(future), true),
            // It goes on, on a clock that was set back.
            (1243, Some(now), false),
            (1300, None, false),
            (1400, Some(now), false),
            (1520, Some(now), false),
            (1521, Some(now), true),
        ] {
            assert_eq!(watch.is_silent(modified, at(second), SILENCE), silent, "{second}");
        }
    }

    /// Whoever is asked to stop while the system refuses waits no longer.
    #[test]
    fn what_there_was_no_time_to_read_is_not_damaged() {
        let stop = CancellationToken::new();
        stop.cancel();
        let patience = Patience { lasts: Duration::MAX, stop };
        let path = Path::new("5.taken");
        let refused = || Err(at(path)(io::Error::from(io::ErrorKind::StaleNetworkFileHandle)));
        let read = patience.read::<()>(refused);
        assert!(matches!(read, Err(OfflineError::Io { .. })), "{read:?}");
    }
}
