//! Files of directories that others can write too, or read: opened without waiting for anybody,
//! and without being led elsewhere by a symbolic link.

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions},
    io::{self, Read},
    os::{
        fd::AsRawFd,
        unix::fs::{OpenOptionsExt, PermissionsExt},
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, utimensat},
    io::Errno,
};

use super::replace;

fn quietly(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32)
}

/// Whether there is no room on a disk, or none that its user may have.
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether the disk cannot read what lies in some place of it.
pub fn is_bad_place(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::IO)
}

/// Opens a regular file to read it. Pipes, devices, directories and links are refused: reading
/// them may take for ever.
///
/// # Errors
/// What the system says; [`io::ErrorKind::InvalidInput`] if it is no regular file.
pub fn regular(path: &Path) -> io::Result<(File, Metadata)> {
    let file = quietly(File::options().read(true)).open(path).map_err(|error| {
        match Errno::from_io_error(&error) {
            // A link, or a socket.
            Some(Errno::LOOP | Errno::NXIO) => irregular(),
            _ => error,
        }
    })?;
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((file, metadata)) } else { Err(irregular()) }
}

fn irregular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")
}

/// Whether it is the system that refuses, for want of permission, descriptors, memory, room, or a
/// sound disk: of the file itself that says nothing.
pub fn is_of_the_system(error: &io::Error) -> bool {
    let refusals = [
        Errno::ACCESS,
        Errno::PERM,
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::IO,
        Errno::STALE,
    ];
    error.kind() == io::ErrorKind::OutOfMemory
        || Errno::from_io_error(error).is_some_and(|error| refusals.contains(&error))
}

/// Whether there is something at this place, or may be: the system does not let it be looked for.
pub fn may_be_there(path: &Path) -> bool {
    match path.try_exists() {
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
        Ok(is_there) => is_there,
    }
}

/// The content of a regular file, if it has no more bytes than `most`.
///
/// # Errors
/// Those of [`regular`]; [`io::ErrorKind::FileTooLarge`] if it has more.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, metadata) = regular(path)?;
    read_on(&file, metadata.len(), most)
}

/// Reads a file of so many bytes on to its end, unless there are more than `most`.
///
/// # Errors
/// What the system says; [`io::ErrorKind::FileTooLarge`] if there are more.
pub fn read_on(file: &File, length: u64, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length.min(most) as usize);
    if length <= most {
        // It may grow meanwhile.
        file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    }
    if length > most || bytes.len() as u64 > most {
        let what = format!("it has more bytes than it should, which is at most {most}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// Opens a file that is to be locked, made if need be. Whoever can open a file can lock it, so
/// only those who may write it may read it.
///
/// # Errors
/// If it cannot be opened.
pub fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let file = quietly(options.create(true).truncate(false).read(true).write(true)).open(path)?;
    only_for_writers(&file)?;
    Ok(file)
}

/// Lets nobody read a file who may not write it. Who does not own it leaves it as it is.
///
/// # Errors
/// What the system says of the permissions that it has.
fn only_for_writers(file: &File) -> io::Result<()> {
    if let Some(changed) = without_readers(&file.metadata()?) {
        let _ = file.set_permissions(changed);
    }
    Ok(())
}

/// The same for a file that this process has locked, which it does not open: whoever closes a file
/// gives up all locks of the kind of `fcntl` that its process has on it.
///
/// # Errors
/// What the system says of the permissions that it has; [`io::ErrorKind::InvalidInput`] if it is no
/// regular file.
pub fn locked_only_for_writers(path: &Path) -> io::Result<()> {
    let place =
        rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let place = File::from(place);
    let metadata = place.metadata()?;
    if !metadata.is_file() {
        return Err(irregular());
    }
    if let Some(changed) = without_readers(&metadata) {
        let _ = fs::set_permissions(format!("/proc/self/fd/{}", place.as_raw_fd()), changed);
    }
    Ok(())
}

/// The permissions of a file without those to read it of whoever may not write it, if that makes a
/// difference.
fn without_readers(metadata: &Metadata) -> Option<Permissions> {
    let mode = metadata.permissions().mode() & 0o777;
    let writers = mode & 0o222;
    let changed = writers | writers << 1;
    (changed != mode).then(|| Permissions::from_mode(changed))
}

/// Makes a directory, and those that it is to lie in, if they are not there. What it makes outlasts
/// a loss of power.
///
/// # Errors
/// What the system says; [`io::ErrorKind::NotADirectory`] if something else has its name, and
/// [`io::ErrorKind::NotFound`] if that is a link to what is not there, or is away.
pub fn make_directory(path: &Path) -> io::Result<()> {
    let is_missing = |path: &&Path| matches!(path.try_exists(), Ok(false));
    let made: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    fs::create_dir_all(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists if made.iter().any(|path| path.is_symlink()) => {
            io::ErrorKind::NotFound.into()
        }
        io::ErrorKind::AlreadyExists => io::ErrorKind::NotADirectory.into(),
        _ => error,
    })?;
    made.into_iter().try_for_each(|path| {
        match replace::sync_directory(replace::directory_of(path)) {
            // Who may only write to a directory cannot open it to sync it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        }
    })
}

/// Has a file modified now, on the clock of its file system; others see by the change that
/// somebody works on it.
///
/// # Errors
/// What the system says.
pub fn touch(path: &Path) -> io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn make_fifo(path: &Path) {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    #[test]
    fn what_is_in_the_way_of_a_directory_is_said_to_be_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for _ in 0..2 {
            make_directory(&path("new/one")).unwrap();
        }
        fs::write(path("file"), "").unwrap();
        // Of a file system that is away there may be a link.
        symlink(path("away"), path("link")).unwrap();
        for (name, kind) in [
            ("file", io::ErrorKind::NotADirectory),
            ("file/in", io::ErrorKind::NotADirectory),
            ("link", io::ErrorKind::NotFound),
            ("link/in", io::ErrorKind::NotFound),
        ] {
            let error = make_directory(&path(name)).unwrap_err();
            assert_eq!(error.kind(), kind, "{name}: {error}");
        }
        fs::create_dir(path("away")).unwrap();
        make_directory(&path("link/in")).unwrap();
    }

    #[test]
    fn only_regular_files_of_a_sensible_size_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("file"), "content").unwrap();
        assert_eq!(read(&path("file"), 7).unwrap(), b"content");
        assert_eq!(read(&path("file"), 6).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        // A file that says that it is short.
        assert_eq!(
            read(Path::new("/proc/self/maps"), 6).unwrap_err().to_string(),
            read(&path("file"), 6).unwrap_err().to_string()
        );
        make_fifo(&path("pipe"));
        symlink(path("file"), path("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        for name in ["pipe", "link", "socket", ".", "/dev/zero"] {
            let error = read(&path(name), 100).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}: {error}");
            assert_eq!(error.to_string(), "it is no regular file", "{name}");
        }
        assert_eq!(read(&path("none"), 100).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_is_touched_changes_and_pipes_are_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        File::options().append(true).open(&file).unwrap().set_modified(long_ago).unwrap();
        touch(&file).unwrap();
        assert_ne!(fs::metadata(&file).unwrap().modified().unwrap(), long_ago);
        let pipe = directory.path().join("pipe");
        make_fifo(&pipe);
        touch(&pipe).unwrap();
        assert!(lock_file(&pipe).is_ok(), "it is opened for reading and writing at once");
    }

    #[test]
    fn who_may_not_write_a_lock_cannot_open_it() {
        let directory = tempfile::tempdir().unwrap();
        let lock = directory.path().join("LOCK");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for (before, after) in [(0o644, 0o600), (0o664, 0o660), (0o640, 0o600), (0o666, 0o666)] {
            fs::write(&lock, "1\n").unwrap();
            fs::set_permissions(&lock, Permissions::from_mode(before)).unwrap();
            lock_file(&lock).unwrap();
            assert_eq!(mode(&lock), after);
            fs::remove_file(&lock).unwrap();
            lock_file(&lock).unwrap();
            let mode = mode(&lock);
            assert_eq!(mode & 0o444, (mode & 0o222) << 1);
            fs::remove_file(&lock).unwrap();
        }
        symlink(directory.path().join("elsewhere"), &lock).unwrap();
        assert!(lock_file(&lock).is_err() && !directory.path().join("elsewhere").exists());
    }
}
