//! The journal: a second copy of the records, in a file that RocksDB knows nothing of.
//!
//! Every write of records goes to the database first, and then, under the same number, to the end
//! of this file. So the journal is never ahead of a sound database: if it is, the database has
//! lost what it had made durable. And if parts of the database are damaged, the records are still
//! here. An entry also says what stood in the manifest, the file in which the database keeps which
//! files it has: cut short, it makes a sound database of fewer files, and RocksDB reads some
//! damaged ones for ever. The journal is not waited for at every write: a loss of power may cost
//! its last entries, and the next start writes it anew, as it does whenever the journal is not
//! what the database holds.
//!
//! An entry is
//!
//! | bytes | meaning (integers little-endian) |
//! |---|---|
//! | 4 | magic `TTJL` |
//! | 4 | bytes of the text |
//! | text | [`JournalEntry`], encoded by [`codec`] |
//! | 16 | the first half of the BLAKE3 hash of everything before |
//!
//! and can be found without those before it.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use trailtrap_shared::protocol::codec;
use trailtrap_worker::process::replace::{self, Replacement};

use super::files::manifest_in;

/// A record under its key; `None` if it is removed.
pub(super) type Change = (Vec<u8>, Option<Vec<u8>>);
/// Records under their keys: themselves, or what is kept of them.
pub(super) type Records<V = Vec<u8>> = BTreeMap<Vec<u8>, V>;

/// What tells records apart, in a few bytes: a store has a quarter of a million of them, of
/// kilobytes. Two that differ have the same one with probability 2⁻¹²⁸.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trace {
    length: u32,
    /// A record that is short enough, filled up with zeros; otherwise the first half of its BLAKE3
    /// hash.
    bytes: [u8; CHECKSUM_BYTES],
}

impl Trace {
    /// That of a record.
    pub fn of(record: &[u8]) -> Self {
        let mut bytes = [0; CHECKSUM_BYTES];
        match record.len() <= CHECKSUM_BYTES {
            true => bytes[..record.len()].copy_from_slice(record),
            false => bytes.copy_from_slice(&blake3::hash(record).as_bytes()[..CHECKSUM_BYTES]),
        }
        Trace { length: record.len() as u32, bytes }
    }

    /// The record, if it is short.
    pub fn record(&self) -> Option<&[u8]> {
        self.bytes.get(..self.length as usize)
    }
}

pub(super) const NAME: &str = "JOURNAL";
const MAGIC: &[u8; 4] = b"TTJL";
const HEAD_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 16;
/// Changes of more bytes than this are divided into several entries.
const ENTRY_BYTES: usize = 1 << 20;
/// An entry has a record more than that; and a record of so many bytes is not read again.
const MOST_ENTRY_BYTES: usize = 64 << 20;
/// A journal with so many bytes, and several times those of the records, is written anew when the
/// store is opened.
const SLACK_BYTES: u64 = 4 << 20;
/// So many bytes of a journal are read at a time.
const PIECE_BYTES: usize = 1 << 20;

#[derive(Serialize, Deserialize)]
struct JournalEntry {
    /// The number of the last write that is complete with this entry.
    written: u64,
    manifest: ManifestState,
    changes: Vec<Change>,
}

/// What stands in a manifest. With every start a database gets another one, which has a larger
/// number, and grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ManifestState {
    number: u64,
    bytes: u64,
    checksum: [u8; CHECKSUM_BYTES],
}

impl ManifestState {
    /// That of the database in this directory; zeros if it cannot be read.
    pub fn of(directory: &Path) -> Self {
        Followed::new(directory).read()
    }

    /// Whether the manifest of the database in this directory is this one, or has grown from it,
    /// or is a later one.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn is_in(&self, directory: &Path) -> io::Result<bool> {
        let (number, path) = manifest_in(directory)?.unwrap_or_default();
        if number != self.number || number == 0 {
            return Ok(number >= self.number);
        }
        let mut begin = Followed::new(directory);
        begin.manifest.number = number;
        match File::open(&path) {
            Ok(file) => begin.take_in(file.take(self.bytes))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(begin.manifest == *self)
    }
}

/// A manifest as far as it was read: manifests only grow, and no byte is read twice.
struct Followed {
    directory: PathBuf,
    manifest: ManifestState,
    hasher: blake3::Hasher,
}

impl Followed {
    fn new(directory: &Path) -> Self {
        Followed {
            directory: directory.to_owned(),
            manifest: ManifestState::default(),
            hasher: blake3::Hasher::new(),
        }
    }

    /// What stands in the manifest that is in use now; zeros if it cannot be read.
    fn read(&mut self) -> ManifestState {
        let found = manifest_in(&self.directory).ok().flatten();
        let (number, path) = found.unwrap_or_default();
        if number != self.manifest.number {
            *self = Self::new(&self.directory);
            self.manifest.number = number;
        }
        let grown = File::open(path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.manifest.bytes))?;
            self.take_in(file)
        });
        if number == 0 || grown.is_err() {
            *self = Self::new(&self.directory);
        }
        self.manifest
    }

    /// Goes on with these bytes.
    fn take_in(&mut self, mut bytes: impl Read) -> io::Result<()> {
        let mut text = Vec::new();
        self.manifest.bytes += bytes.read_to_end(&mut text)? as u64;
        let hash = self.hasher.update(&text).finalize();
        self.manifest.checksum.copy_from_slice(&hash.as_bytes()[..CHECKSUM_BYTES]);
        Ok(())
    }
}

/// The journal of a store that is open for writing.
pub(super) struct Journal {
    directory: PathBuf,
    file: File,
    /// Where the next entry goes.
    end: u64,
    /// What the last entry says.
    written: u64,
    manifest: ManifestState,
    /// The manifest that is in use.
    followed: Followed,
}

/// When the database is closed, its manifest has grown once more.
impl Drop for Journal {
    fn drop(&mut self) {
        if let Err(error) = self.note() {
            tracing::debug!(%error, "the manifest is not in the journal");
        }
    }
}

/// What a journal says.
pub(super) struct JournalContents<V = Vec<u8>> {
    /// The records, as the last entry leaves them.
    pub records: Records<V>,
    /// The number of the last write.
    pub written: u64,
    /// What stood in the manifest then.
    pub manifest: ManifestState,
    /// Whether there is nothing but sound entries.
    pub is_whole: bool,
    bytes: u64,
}

impl<V> Default for JournalContents<V> {
    fn default() -> Self {
        let manifest = ManifestState::default();
        JournalContents {
            records: Records::new(),
            written: 0,
            manifest,
            is_whole: false,
            bytes: 0,
        }
    }
}

impl Journal {
    /// Goes on with a journal that says what it should: these records, and the number of the last
    /// write. Otherwise it begins a new one, for which `all` has the records themselves.
    ///
    /// # Errors
    ///
    /// It cannot be written, or the records cannot be read.
    pub fn of(
        directory: &Path,
        told: &JournalContents<Trace>,
        records: &Records<Trace>,
        written: u64,
        all: impl Iterator<Item = io::Result<(Vec<u8>, Vec<u8>)>>,
    ) -> io::Result<Journal> {
        let path = directory.join(NAME);
        // What an earlier run left that was killed while it wrote one anew.
        let _ = replace::sweep(&path);
        let live: u64 =
            records.iter().map(|(key, trace)| key.len() as u64 + u64::from(trace.length)).sum();
        let is_long = told.bytes > SLACK_BYTES + 4 * live;
        let is_right = told.is_whole && told.written == written && told.records == *records;
        let (end, manifest) = match is_right && !is_long {
            true => (told.bytes, told.manifest),
            false => {
                let (mut end, manifest) = (0, ManifestState::of(directory));
                let all = all.map(|record| record.map(|(key, value)| (key, Some(value))));
                Replacement::of(&path).fill(|out| {
                    end = write_entries(out, written, written, manifest, all)?;
                    io::Result::Ok(())
                })?;
                (end, manifest)
            }
        };
        let file = File::options().write(true).open(&path)?;
        // What an attempt that failed has left behind it.
        file.set_len(end)?;
        let followed = Followed::new(directory);
        let mut journal =
            Journal { directory: directory.to_owned(), file, end, written, manifest, followed };
        journal.note()?;
        Ok(journal)
    }

    /// Notes what stands in the manifest, if that is something else.
    fn note(&mut self) -> io::Result<()> {
        match self.followed.read() == self.manifest {
            true => Ok(()),
            false => self.push(self.written, &[]),
        }
    }

    /// Adds what a write has changed.
    ///
    /// # Errors
    ///
    /// It cannot be written, or an earlier write is missing in it: then it stays behind, which the
    /// next start mends.
    pub fn add(&mut self, written: u64, changes: &[Change]) -> io::Result<()> {
        if written != self.written + 1 {
            return Err(io::Error::other("an earlier write could not be noted"));
        }
        self.push(written, changes)
    }

    fn push(&mut self, written: u64, changes: &[Change]) -> io::Result<()> {
        let manifest = self.followed.read();
        let mut bytes = Vec::new();
        let changes = changes.iter().cloned().map(Ok);
        write_entries(&mut bytes, self.written, written, manifest, changes)?;
        let write = |file: &File| file.write_all_at(&bytes, self.end);
        if write(&self.file).is_err() {
            // Perhaps only what was opened long ago is stale.
            self.file = File::options().write(true).open(self.directory.join(NAME))?;
            write(&self.file)?;
        }
        self.end += bytes.len() as u64;
        (self.written, self.manifest) = (written, manifest);
        Ok(())
    }
}

/// Reads the journal of a store, and keeps of each record what `keep` makes of it; one that is not
/// there says nothing. Holds no more than a piece and an entry besides, or what seems to be one.
///
/// # Errors
///
/// It cannot be read.
pub(super) fn read<V>(
    directory: &Path,
    keep: impl Fn(Vec<u8>) -> V,
) -> io::Result<JournalContents<V>> {
    let file = match File::open(directory.join(NAME)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(JournalContents::default());
        }
        Err(error) => return Err(error),
    };
    let mut told = JournalContents::default();
    let found = each_entry(file, PIECE_BYTES, |JournalEntry { written, manifest, changes }| {
        told.written = told.written.max(written);
        told.manifest = manifest;
        for (key, value) in changes {
            match value {
                Some(value) => drop(told.records.insert(key, keep(value))),
                None => drop(told.records.remove(&key)),
            }
        }
    })?;
    Ok(JournalContents { is_whole: found.is_whole, bytes: found.bytes, ..told })
}

/// Writes the entries of one write, and returns how many bytes they have.
fn write_entries(
    out: &mut dyn Write,
    before: u64,
    written: u64,
    manifest: ManifestState,
    changes: impl Iterator<Item = io::Result<Change>>,
) -> io::Result<u64> {
    let (mut some, mut length, mut bytes) = (Vec::new(), 0, 0);
    for change in changes {
        let (key, value) = change?;
        length += key.len() + value.as_ref().map_or(0, Vec::len);
        some.push((key, value));
        if length > ENTRY_BYTES {
            // The write is complete with its last entry.
            let changes = std::mem::take(&mut some);
            bytes += write_entry(out, JournalEntry { written: before, manifest, changes })?;
            length = 0;
        }
    }
    Ok(bytes + write_entry(out, JournalEntry { written, manifest, changes: some })?)
}

fn write_entry(out: &mut dyn Write, entry: JournalEntry) -> io::Result<u64> {
    let text = codec::encode(&entry);
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&text);
    let checksum = blake3::hash(&bytes);
    bytes.extend_from_slice(&checksum.as_bytes()[..CHECKSUM_BYTES]);
    out.write_all(&bytes)?;
    Ok(bytes.len() as u64)
}

/// What a journal is made of.
struct Found {
    bytes: u64,
    /// Whether there is nothing but sound entries.
    is_whole: bool,
}

/// Reads so many bytes at a time, and hands each sound entry out, in order.
fn each_entry(
    journal: impl Read,
    piece_bytes: usize,
    mut take: impl FnMut(JournalEntry),
) -> io::Result<Found> {
    let mut window = Window { journal, piece_bytes, bytes: Vec::new(), at: 0, read: 0 };
    let mut is_whole = true;
    loop {
        let head = window.next(HEAD_BYTES)?;
        if head.is_empty() {
            return Ok(Found { bytes: window.read, is_whole });
        }
        let sound = match entry_length(head) {
            Some(length) => entry_in(window.next(length)?).map(|entry| (entry, length)),
            None => None,
        };
        match sound {
            Some((entry, length)) => {
                take(entry);
                window.at += length;
            }
            None => {
                is_whole = false;
                window.at += 1;
                window.find(MAGIC)?;
            }
        }
    }
}

/// What is being looked at of a journal.
struct Window<R> {
    journal: R,
    piece_bytes: usize,
    bytes: Vec<u8>,
    /// Where in these the next entry begins.
    at: usize,
    /// Bytes that have been read of the journal.
    read: u64,
}

impl<R: Read> Window<R> {
    /// The next bytes, so many or as many as there are.
    fn next(&mut self, wanted: usize) -> io::Result<&[u8]> {
        while self.bytes.len() - self.at < wanted {
            self.bytes.drain(..std::mem::take(&mut self.at));
            let piece = wanted.max(self.piece_bytes) as u64;
            let read = self.journal.by_ref().take(piece).read_to_end(&mut self.bytes)?;
            self.read += read as u64;
            if read == 0 {
                break;
            }
        }
        let rest = &self.bytes[self.at..];
        Ok(&rest[..wanted.min(rest.len())])
    }

    /// Goes on to where these bytes stand, or to the end.
    fn find(&mut self, wanted: &[u8]) -> io::Result<()> {
        while self.next(wanted.len())?.len() == wanted.len() {
            let rest = &self.bytes[self.at..];
            match rest.windows(wanted.len()).position(|window| window == wanted) {
                Some(position) => {
                    self.at += position;
                    return Ok(());
                }
                None => self.at = self.bytes.len() + 1 - wanted.len(),
            }
        }
        self.at = self.bytes.len();
        Ok(())
    }
}

/// How long an entry is that begins with these bytes.
fn entry_length(head: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(*head.strip_prefix(MAGIC)?.first_chunk()?) as usize;
    (length <= MOST_ENTRY_BYTES).then_some(HEAD_BYTES + length + CHECKSUM_BYTES)
}

/// The entry that these bytes are, if it is sound.
fn entry_in(bytes: &[u8]) -> Option<JournalEntry> {
    if entry_length(bytes)? != bytes.len() {
        return None;
    }
    let (entry, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    if blake3::hash(entry).as_bytes()[..CHECKSUM_BYTES] != *checksum {
        return None;
    }
    codec::decode(&entry[HEAD_BYTES..]).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(key: u8, value: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (vec![key], value.to_vec())
    }

    fn change(key: u8, value: &[u8]) -> Change {
        (vec![key], Some(value.to_vec()))
    }

    /// A journal of these records, taken up or begun.
    fn begun(
        directory: &Path,
        told: JournalContents<Trace>,
        records: &Records,
        written: u64,
    ) -> Journal {
        let traces = records.iter().map(|(key, value)| (key.clone(), Trace::of(value))).collect();
        let all = records.iter().map(|(key, value)| Ok((key.clone(), value.clone())));
        Journal::of(directory, &told, &traces, written, all).unwrap()
    }

    fn whole(directory: &Path) -> JournalContents {
        read(directory, |record| record).unwrap()
    }

    fn traced(directory: &Path) -> JournalContents<Trace> {
        read(directory, |record| Trace::of(&record)).unwrap()
    }

    /// A journal of four writes: the second adds an alarm's worth of bytes, the third removes.
    fn filled(directory: &Path) -> Journal {
        let mut journal = begun(directory, JournalContents::default(), &Records::new(), 0);
        journal.add(1, &[change(1, b"one"), change(2, b"two")]).unwrap();
        journal.add(2, &[change(3, &[7; ENTRY_BYTES]), change(4, &[8; ENTRY_BYTES])]).unwrap();
        journal.add(3, &[(vec![3], None), change(2, b"second")]).unwrap();
        journal.add(4, &[change(5, b"five")]).unwrap();
        journal
    }

    #[test]
    fn a_journal_says_what_was_written_last() {
        let directory = tempfile::tempdir().unwrap();
        filled(directory.path());
        let told = whole(directory.path());
        let expected = Records::from([
            record(1, b"one"),
            record(2, b"second"),
            record(4, &[8; ENTRY_BYTES]),
            record(5, b"five"),
        ]);
        assert_eq!(told.records, expected);
        assert!(told.is_whole);
        assert_eq!(told.written, 4);
        // It is taken up as it is, or written anew if it is not what it should be.
        let length = told.bytes;
        let told = traced(directory.path());
        assert_eq!(begun(directory.path(), told, &expected, 4).end, length);
        let told = traced(directory.path());
        let mut other = expected.clone();
        other.insert(vec![5], b"FIVE".to_vec());
        begun(directory.path(), told, &other, 4);
        assert_eq!(whole(directory.path()).records, other);
        let told = traced(directory.path());
        let journal = begun(directory.path(), told, &Records::new(), 9);
        assert!(journal.end < 100);
        assert_eq!(whole(directory.path()).written, 9);
    }

    /// Whoever reads it would take what it says for the state after the last write.
    #[test]
    fn a_write_that_is_missing_is_missed() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = filled(directory.path());
        journal.add(6, &[change(6, b"six")]).unwrap_err();
        assert_eq!(whole(directory.path()).written, 4);
        journal.add(5, &[change(5, b"fifth")]).unwrap();
        journal.add(6, &[change(6, b"six")]).unwrap();
        assert_eq!(whole(directory.path()).written, 6);
    }

    #[test]
    fn a_manifest_is_followed_while_it_grows_and_until_there_is_another() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let put = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
        let mut followed = Followed::new(directory.path());
        assert_eq!(followed.read(), ManifestState::default());
        assert!(ManifestState::default().is_in(directory.path()).unwrap());
        let mut seen = Vec::new();
        for (number, text) in [(5, "one"), (5, "one, two"), (5, "one, two"), (6, "three")] {
            put(&format!("MANIFEST-{number:06}"), text);
            put("CURRENT", &format!("MANIFEST-{number:06}\n"));
            let manifest = followed.read();
            assert_eq!(manifest, ManifestState::of(directory.path()));
            assert_eq!((manifest.number, manifest.bytes), (number, text.len() as u64));
            seen.push(manifest);
            assert!(seen.iter().all(|manifest| manifest.is_in(directory.path()).unwrap()));
        }
        for changed in ["thr", "threw"] {
            put("MANIFEST-000006", changed);
            assert!(!seen[3].is_in(directory.path()).unwrap(), "{changed}");
        }
        std::fs::remove_file(path("MANIFEST-000006")).unwrap();
        assert!(!seen[3].is_in(directory.path()).unwrap());
    }

    #[test]
    fn what_is_damaged_costs_no_other_entry() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        filled(directory.path());
        let sound = std::fs::read(&path).unwrap();
        let spoilt = |at: usize| {
            let mut bytes = sound.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            whole(directory.path())
        };
        // The first entry, of no records, takes 73 bytes.
        for at in [73, 79, 90, 130] {
            let told = spoilt(at);
            assert!(!told.is_whole);
            assert_eq!(told.written, 4);
            let keys: Vec<u8> = told.records.keys().map(|key| key[0]).collect();
            assert_eq!(keys, [2, 4, 5], "damaged at {at}");
        }
        let told = spoilt(sound.len() - 1);
        assert_eq!((told.is_whole, told.written), (false, 3));
        std::fs::write(&path, &sound[..sound.len() - 1]).unwrap();
        assert_eq!(whole(directory.path()).written, 3);
        std::fs::write(&path, []).unwrap();
        assert_eq!(whole(directory.path()).written, 0);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(whole(directory.path()).written, 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for bytes in [&bytes, &[MAGIC, &bytes[..]].concat()] {
                let found = each_entry(&bytes[..], PIECE_BYTES, |_| ()).unwrap();
                prop_assert_eq!(found.bytes, bytes.len() as u64);
                prop_assert!(!found.is_whole || bytes.is_empty());
            }
        }

        /// Whatever is wrong with a journal, and however it is cut into pieces, the same entries
        /// are found.
        #[test]
        fn pieces_make_no_difference(
            values in proptest::collection::vec("(TTJ|TTJL|T|J){0,6}", 1..5),
            changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..3),
            added in proptest::collection::vec((any::<usize>(), "(TTJ|TTJL|TTJLaa)"), 0..3),
            kept in any::<usize>(),
            piece_bytes in 1..17usize,
        ) {
            let mut bytes = Vec::new();
            for (value, written) in values.iter().zip(1..) {
                let manifest = ManifestState::default();
                let changes = std::iter::once(Ok(change(written as u8, value.as_bytes())));
                write_entries(&mut bytes, written - 1, written, manifest, changes).unwrap();
            }
            for (at, value) in changes {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            for (at, text) in added {
                let at = at % bytes.len();
                bytes.splice(at..at, text.into_bytes());
            }
            // Mostly all of it.
            bytes.truncate((kept % (2 * bytes.len())).max(1));
            let found = |piece_bytes| {
                let mut entries = Vec::new();
                let take = |entry: JournalEntry| entries.push((entry.written, entry.changes));
                let found = each_entry(&bytes[..], piece_bytes, take).unwrap();
                (entries, found.bytes, found.is_whole)
            };
            // What an entry would be at each place, and the first place after it.
            let (mut at, mut expected, mut is_whole) = (0, Vec::new(), true);
            while at < bytes.len() {
                let length = entry_length(&bytes[at..]).unwrap_or(usize::MAX);
                let rest = at.checked_add(length).and_then(|end| bytes.get(at..end));
                match rest.and_then(entry_in) {
                    Some(entry) => {
                        expected.push((entry.written, entry.changes));
                        at += length;
                    }
                    None => (at, is_whole) = (at + 1, false),
                }
            }
            let expected = (expected, bytes.len() as u64, is_whole);
            prop_assert_eq!(&found(piece_bytes), &expected);
            prop_assert_eq!(&found(PIECE_BYTES), &expected);
        }

        /// Short records are kept as they are, others as a hash: what differs stays different.
        #[test]
        fn traces_tell_records_apart(
            one in proptest::collection::vec(0..2u8, 0..20),
            other in proptest::collection::vec(0..2u8, 0..20),
        ) {
            let [first, second] = [&one, &other].map(|record| Trace::of(record));
            prop_assert_eq!(one == other, first == second);
            prop_assert_eq!(first.record(), (one.len() <= CHECKSUM_BYTES).then_some(&one[..]));
        }
    }
}
