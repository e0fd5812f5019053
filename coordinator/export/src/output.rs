//! Files that appear complete or not at all.

use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use trailtrap_worker::process::replace::{Replacement, directory_of};

use crate::ExportError;

/// Looks whether a file can be made where [`write_file`] would make it, before what is to be in it
/// takes its time.
///
/// # Errors
/// [`ExportError::Target`] if it cannot.
pub fn check_place(path: &Path) -> Result<(), ExportError> {
    let target = |source| ExportError::Target { path: path.to_owned(), source };
    match is_appended_to(path) {
        true if path.is_dir() => Err(target(io::ErrorKind::IsADirectory.into())),
        true => Ok(()),
        // It has no name, so that nothing is left of it whatever happens.
        false => tempfile::tempfile_in(directory_of(&led_to(path))).map(drop).map_err(target),
    }
}

/// Writes a file beside its place, or that to which a link leads, and moves it there when it is
/// complete and on disk. A device or a pipe is written to as it is, and so is what is open already,
/// such as `/dev/stdout`, from its end on.
///
/// # Errors
/// Those of `fill`, and [`ExportError::Target`] if the file cannot be written or moved. What was
/// at its place stays there then.
pub fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let target = |source| ExportError::Target { path: path.to_owned(), source };
    // What is written has its own errors; only those of the file itself are the target's.
    let placed = |error| match error {
        ExportError::Write(source) => target(source),
        other => other,
    };
    if is_appended_to(path) {
        let file = std::fs::File::options().append(true).open(path);
        let mut out = BufWriter::new(file.map_err(target)?);
        return fill(&mut out).and_then(|()| Ok(out.flush()?)).map_err(placed);
    }
    Replacement::of(&led_to(path)).fill(fill).map_err(placed)
}

/// Whether it is a device, a pipe, or open already.
fn is_appended_to(path: &Path) -> bool {
    path.exists() && (is_open(path) || !path.is_file())
}

/// The place of a file: that to which links lead, also if nothing is there yet.
fn led_to(path: &Path) -> PathBuf {
    let mut place = path.to_owned();
    // No system follows more.
    for _ in 0..40 {
        let Ok(to) = place.read_link() else { break };
        place = directory_of(&place).join(to);
    }
    place
}

/// Whether it is the name of a file that this process has open: `/proc/self/fd/1`, or what leads
/// there, such as `/dev/stdout` and `/dev/fd/1`.
fn is_open(path: &Path) -> bool {
    let is_descriptor = |path: &Path| {
        let directory = path.parent().and_then(|directory| directory.canonicalize().ok());
        directory.is_some_and(|directory| directory.starts_with("/proc"))
    };
    is_descriptor(path) || path.read_link().is_ok_and(|to| is_descriptor(&to))
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        os::{fd::AsRawFd, unix::fs::symlink},
    };

    use super::*;

    /// The link stays, as `/dev/stdout` has to; and what others have written to that stays, too.
    #[test]
    fn what_a_link_leads_to_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let [link, file] = ["link", "file"].map(|name| directory.path().join(name));
        symlink("other", &link).unwrap();
        symlink("file", directory.path().join("other")).unwrap();
        write_file(&link, |out| Ok(out.write_all(b"more than that")?)).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "more than that");
        write_file(&link, |out| Ok(out.write_all(b"text")?)).unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
        let open = std::fs::File::options().append(true).open(&file).unwrap();
        let descriptor = format!("/proc/self/fd/{}", open.as_raw_fd());
        write_file(Path::new(&descriptor), |out| Ok(out.write_all(b", and more")?)).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "text, and more");
    }

    /// A link counts as that to which it leads.
    #[test]
    fn a_place_is_looked_at_before() {
        let directory = tempfile::tempdir().unwrap();
        let [link, file] = ["link", "file"].map(|name| directory.path().join(name));
        check_place(&file).unwrap();
        check_place(Path::new("/dev/null")).unwrap();
        symlink("none/file", &link).unwrap();
        for path in [&link, &file.join("below"), directory.path()] {
            std::fs::write(&file, "old").unwrap();
            let message = anyhow::Error::from(check_place(path).unwrap_err()).to_string();
            assert!(message.contains(path.to_str().unwrap()), "{message}");
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left");
        assert_eq!(std::fs::read(&file).unwrap(), b"old");
    }

    #[test]
    fn a_file_that_cannot_be_completed_leaves_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table.csv");
        write_file(&path, |out| Ok(out.write_all(b"old")?)).unwrap();
        let failed = write_file(&path, |out| {
            out.write_all(b"half of the new")?;
            Err(io::Error::other("the disk is full").into())
        });
        let message = format!("{:#}", anyhow::Error::from(failed.unwrap_err()));
        assert!(message.contains("table.csv") && message.contains("disk is full"), "{message}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(
            std::fs::read_dir(directory.path()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
    }
}
