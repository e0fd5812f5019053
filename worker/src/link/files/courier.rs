//! The courier: puts tasks out, and delivers the results that come back.

use std::{
    collections::HashSet,
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use trailtrap_shared::{
    partition::Block,
    protocol::{
        messages::{self, Wanted},
        wire,
    },
};

use super::{
    directory::{
        COURIER, FINISHED, HEARTBEAT, OfflineError, PAUSE, Patience, REFUSALS, SILENCE, THE_END,
        Watch, at, damaged, left_files, make_room, reading, unusable, write,
    },
    format::{unpack_result, write_checked},
};
use crate::{
    cache::Fetch,
    kernel::SourceError,
    link::{Grant, Lease, Link, LinkError, RunEnd, Unsolved, abandon, grpc::GrpcLink},
    process::{open, replace::Replacement},
};

/// The pause after a lease that came to nothing, since the next one may fail for the same reason.
const CAUTION: Duration = Duration::from_secs(1);

/// Makes a directory that of this courier, for as long as the file that is returned is held, and
/// removes what earlier couriers have left there.
///
/// # Errors
/// If the directory cannot be used, another courier uses it, or it has files of others.
fn claim(directory: &Path) -> Result<File, OfflineError> {
    open::make_directory(directory).map_err(unusable(directory))?;
    let place = directory.join(COURIER);
    let end = directory.join(FINISHED);
    let is_known = || place.try_exists().map_err(at(&place));
    // Nothing is made where others have files of such names.
    let is_foreign = !is_known()? && (!left_files(directory)?.is_empty() || end.exists());
    // Another courier may have begun meanwhile.
    if is_foreign && !is_known()? {
        return Err(OfflineError::Foreign(directory.to_owned()));
    }
    let lock = open::lock_file(&place).map_err(at(&place))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OfflineError::InUse(directory.to_owned())),
        Err(TryLockError::Error(error)) => tracing::warn!(
            "{} cannot be locked ({error}): see to it that no other courier uses it",
            directory.display()
        ),
    }
    // The leases of an earlier courier have ended or will expire: its files are of no use.
    left_files(directory)?.iter().for_each(|path| drop(fs::remove_file(path)));
    make_room(&end).map_err(at(&end))?;
    let _ = fs::remove_file(end);
    Ok(lock)
}

/// Carries leases to a directory, and their results back, until everything is done or
/// `patience.stop` is cancelled. Up to `slots` tasks lie there at a time. A file lock keeps a
/// second courier out of the directory.
///
/// # Errors
/// If the coordinator or the directory stays out of reach, or another courier uses the directory.
pub fn carry(
    link: &GrpcLink,
    directory: &Path,
    slots: usize,
    patience: &Patience,
) -> Result<RunEnd, LinkError> {
    let _lock = claim(directory)?;
    let finished = AtomicBool::new(false);
    // The numbers of the leases that have files. A lease of another census, whose coordinator has
    // taken the place of the one before, may have the number of one that is not settled yet.
    let numbers = Mutex::new(HashSet::new());
    let slot = || -> Result<(), LinkError> {
        while !patience.stop.is_cancelled() {
            // A task is one file, which is carried as a whole.
            match link.lease(0)? {
                Grant::Finished => {
                    finished.store(true, Ordering::Relaxed);
                    patience.stop.cancel();
                }
                Grant::Wait => {}
                Grant::Work(lease) if numbers.lock().insert(lease.number) => {
                    let carried = carry_lease(link, directory, &lease, patience);
                    numbers.lock().remove(&lease.number);
                    carried?;
                }
                Grant::Work(lease) => {
                    link.give_back(&lease, Unsolved::Leaving("another task has its number"));
                    std::thread::sleep(CAUTION);
                }
            }
        }
        Ok(())
    };
    let slot = || slot().or_else(|error| abandon(&patience.stop, error));
    let place = directory.join(COURIER);
    std::thread::scope(|scope| {
        let (work, working) = channel::<()>();
        scope.spawn(move || {
            let _ = open::touch(&place);
            while working.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
                let _ = open::touch(&place);
            }
        });
        let slots: Vec<_> = (0..slots).map(|_| scope.spawn(slot)).collect();
        let done = slots.into_iter().try_for_each(|slot| slot.join().expect("slots do not panic"));
        drop(work);
        done
    })?;
    if !finished.load(Ordering::Relaxed) {
        return Ok(RunEnd::Stopped);
    }
    // All is delivered, and who is asked to stop now leaves no less behind.
    let briefly = Patience { lasts: REFUSALS, stop: CancellationToken::new() };
    briefly.persist(|| write(&directory.join(FINISHED), THE_END))?;
    Ok(RunEnd::Finished)
}

/// Carries one lease. Whatever happens to its files, the coordinator hears of it, and the courier
/// goes on; only if it has lost the coordinator or the directory it does not.
fn carry_lease(
    link: &GrpcLink,
    directory: &Path,
    lease: &Lease,
    patience: &Patience,
) -> Result<(), LinkError> {
    let path = |extension: &str| directory.join(format!("{}.{extension}", lease.number));
    // What was set aside is left to people. This would be of another census, whose coordinator was
    // here before: its leases had the same numbers.
    let _ = fs::remove_file(path("damaged"));
    let carried = put_out(link, &path("task"), lease, patience)
        .and_then(|()| deliver_result(link, path, lease, patience));
    for extension in ["task", "taken", "result"] {
        let _ = fs::remove_file(path(extension));
    }
    match carried {
        Ok(true) => Ok(()),
        Ok(false) => {
            link.give_back(lease, Unsolved::Leaving("the courier was asked to stop"));
            Ok(())
        }
        Err(LinkError::Refused(why)) => {
            tracing::warn!(lease = lease.number, why, "a task has come to nothing");
            link.give_back(lease, Unsolved::Failed(&why));
            std::thread::sleep(CAUTION);
            Ok(())
        }
        Err(LinkError::Lost(why)) => {
            link.give_back(lease, Unsolved::Leaving(&why));
            Err(LinkError::Lost(why))
        }
    }
}

/// Waits for the result of a task that is put out, and delivers it; false if asked to stop when
/// there is none.
fn deliver_result(
    link: &GrpcLink,
    path: impl Fn(&str) -> PathBuf,
    lease: &Lease,
    patience: &Patience,
) -> Result<bool, LinkError> {
    let [task, taken, result, aside] = ["task", "taken", "result", "damaged"].map(path);
    let most = lease.plan.most_bytes(&lease.units);
    let mut watch = Watch::default();
    loop {
        let is_last = patience.stop.is_cancelled();
        let read = || open::read(&result, most).map_err(reading(&result));
        // What the system does not let be read for so long is of no use, unless there was no time.
        let read = patience.read(read).map_err(|error| match error {
            OfflineError::Io { source, .. } if !patience.stop.is_cancelled() => {
                damaged(&result, source)
            }
            other => other,
        });
        if let Some(bytes) = read? {
            if let Some(messages) = unpack_result(&result, &bytes, lease)? {
                link.deliver(lease, messages)?;
                return Ok(true);
            }
            let place = result.display();
            tracing::warn!("{place} is of a task of another courier, and is removed");
            let _ = fs::remove_file(&result);
        }
        if is_last {
            return Ok(false);
        }
        if aside.exists() {
            return Err(OfflineError::SetAside(aside).into());
        }
        link.check(lease)?;
        if watch.is_silent(last_sign(&task, &taken), Instant::now(), SILENCE) {
            watch = Watch::default();
            tracing::warn!(
                lease = lease.number,
                "nothing was heard of a task that was taken, or is gone; it is put out again"
            );
            if fs::rename(&taken, &task).is_err() {
                put_out(link, &task, lease, patience)?;
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// When somebody has last shown that a task which is not waiting is in work. One that nobody has is
/// gone, or was carried elsewhere: of it there is never a sign.
fn last_sign(task: &Path, taken: &Path) -> Option<SystemTime> {
    match fs::symlink_metadata(taken).and_then(|file| file.modified()) {
        Ok(modified) => Some(modified),
        // What the system refuses to tell says nothing.
        Err(_) if task.try_exists().unwrap_or(true) => None,
        Err(error) => (error.kind() == io::ErrorKind::NotFound).then_some(SystemTime::UNIX_EPOCH),
    }
}

/// Why a task was not written.
#[derive(Debug, thiserror::Error)]
enum PackError {
    #[error("cannot write a task")]
    Io(#[from] io::Error),
    #[error("cannot fetch what a unit reads: {0}")]
    Source(SourceError),
}

/// Writes the task of a lease.
fn put_out(
    link: &GrpcLink,
    path: &Path,
    lease: &Lease,
    patience: &Patience,
) -> Result<(), LinkError> {
    let packed = patience.persist(|| {
        make_room(path).map_err(at(path))?;
        match Replacement::of(path).fill(|out| pack(link, lease, out)) {
            Ok(()) => Ok(Ok(())),
            Err(PackError::Io(error)) => Err(at(path)(error)),
            Err(PackError::Source(error)) => Ok(Err(error)),
        }
    })?;
    packed.map_err(|error| {
        error.downcast().map_or_else(|error| LinkError::Refused(error.to_string()), |error| *error)
    })
}

/// Writes the lease, and all that its units read.
fn pack(link: &GrpcLink, lease: &Lease, out: &mut dyn Write) -> Result<(), PackError> {
    let plan = &lease.plan;
    let grant = messages::grant(lease.number, plan, &lease.units, lease.edition);
    write_checked(&wire::Grant { worker: lease.worker, ..grant }, out)?;
    let mut seen = HashSet::new();
    let mut add = |wanted: Wanted| -> Result<(), PackError> {
        if seen.insert(wanted) {
            let blocks = link.fetch(&[wanted]).map_err(PackError::Source)?.concat();
            let blocks = blocks.into_iter().map(Block::into_bytes).collect();
            let input = wire::Input { request: Some(messages::request(0, &wanted, &[])), blocks };
            write_checked(&input, out)?;
        }
        Ok(())
    };
    for unit in &lease.units {
        let shard = plan.shard_of(*unit);
        shard
            .sequence
            .parents()
            .iter()
            .try_for_each(|parent| add(Wanted::Parents(parent.sequence)))?;
        for &predecessor in &shard.predecessors {
            let predecessor = &plan.shards[predecessor as usize];
            let mut buckets = predecessor.buckets();
            buckets.try_for_each(|bucket| add(Wanted::Bucket(predecessor.sequence, bucket)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that waits to be taken may wait for ever; one that is gone may not.
    #[test]
    fn a_task_that_is_gone_gives_no_sign() {
        let directory = tempfile::tempdir().unwrap();
        let [task, taken] = ["5.task", "5.taken"].map(|name| directory.path().join(name));
        let sign = || last_sign(&task, &taken);
        assert_eq!(sign(), Some(SystemTime::UNIX_EPOCH));
        fs::write(&task, "").unwrap();
        assert_eq!(sign(), None);
        fs::rename(&task, &taken).unwrap();
        assert!(sign() > Some(SystemTime::UNIX_EPOCH));
        fs::remove_file(&taken).unwrap();
        let (mut watch, now) = (Watch::default(), Instant::now());
        assert!(!watch.is_silent(sign(), now, SILENCE));
        assert!(watch.is_silent(sign(), now + SILENCE + PAUSE, SILENCE));
    }
}
