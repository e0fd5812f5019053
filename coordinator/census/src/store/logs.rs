//! The logs of the database, read without RocksDB: it follows some damaged ones for ever, and gives
//! all of them up for the sake of one. Its manifest is a file of the same format.
//!
//! A log consists of blocks of 32 KiB, the last of which may be shorter. Records are written one
//! after the other, each as one fragment, or as several if it does not fit into a block. What is
//! left of a block that no head fits into is padding. A fragment is
//!
//! | bytes | meaning (integers little-endian) |
//! |---|---|
//! | 4 | CRC-32C of kind and text, rotated and with a number added |
//! | 2 | bytes of the text |
//! | 1 | kind: 1 whole; 2 first, 3 middle, 4 last one of a record |
//! | text | a write, see RocksDB's `WriteBatch`; in a manifest, an edit |
//!
//! Other kinds are of logs with options that no store has. Among them are those of logs that are
//! recycled: where one of these comes after another kind, RocksDB reads the same fragment again and
//! again. Zeros are what a file system has kept of a write that was not durable.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use super::{
    StoreError,
    files::{manifest_in, numbered},
};

const BLOCK_BYTES: usize = 32 << 10;
const HEAD_BYTES: usize = 7;

/// Kinds of fragments, and what is no fragment.
const PADDING: u8 = 0;
const WHOLE: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

/// What stands in a block where a fragment should.
struct Fragment<'b> {
    /// Where it begins in the block.
    at: usize,
    kind: u8,
    checksum: u32,
    /// `None` if it is padding, or longer than what there is of the block.
    text: Option<&'b [u8]>,
    /// Whether it is longer than a whole block has room for.
    is_too_long: bool,
}

impl<'b> Fragment<'b> {
    /// Its text, if nothing of it is damaged.
    fn sound(&self) -> Option<&'b [u8]> {
        self.text.filter(|text| checksum(self.kind, text) == self.checksum)
    }
}

/// Whether it is of a kind that no store has.
fn is_foreign(fragment: &Fragment) -> bool {
    fragment.kind > LAST
}

/// Whether something of it has changed, and is not only missing.
fn is_damaged(fragment: &Fragment) -> bool {
    let is_unsound = fragment.text.is_some() && fragment.sound().is_none();
    is_foreign(fragment) || fragment.is_too_long || is_unsound
}

/// The fragments of a block, one after the other as far as their lengths say.
fn fragments(block: &[u8]) -> impl Iterator<Item = Fragment<'_>> {
    let mut rest = block;
    std::iter::from_fn(move || {
        let at = block.len() - rest.len();
        let (head, texts) = rest.split_first_chunk::<HEAD_BYTES>()?;
        let [c0, c1, c2, c3, l0, l1, kind] = *head;
        let checksum = u32::from_le_bytes([c0, c1, c2, c3]);
        let length = usize::from(u16::from_le_bytes([l0, l1]));
        let split = texts.split_at_checked(length);
        let is_too_long = split.is_none() && block.len() == BLOCK_BYTES;
        let split = split.filter(|_| (kind, length) != (PADDING, 0));
        rest = split.map_or(&[], |(_, others)| others);
        Some(Fragment { at, kind, checksum, text: split.map(|(text, _)| text), is_too_long })
    })
}

/// The blocks of a log, and where they begin.
fn blocks(mut log: impl Read) -> impl Iterator<Item = io::Result<(u64, Vec<u8>)>> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let (at, mut block) = (next?, Vec::with_capacity(BLOCK_BYTES));
        let read = log.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut block);
        // What a writer adds meanwhile to a block that is not full does not begin one.
        let is_full = read.is_ok() && block.len() == BLOCK_BYTES;
        next = is_full.then_some(at + BLOCK_BYTES as u64);
        Some(read.map(|_| (at, block)))
    })
}

/// Looks for what RocksDB may read for ever, in all logs and in the manifest of the database in this
/// directory: before it does. A log may end in the middle of what was being written.
///
/// # Errors
///
/// [`StoreError::Log`] if there is such a thing; or a log cannot be read.
pub(super) fn check(directory: &Path) -> Result<(), StoreError> {
    look_for(directory, is_foreign)
}

/// Looks for all damage in them but what is missing.
///
/// # Errors
///
/// [`StoreError::Log`] if something is damaged; or a log cannot be read.
pub(super) fn check_texts(directory: &Path) -> Result<(), StoreError> {
    look_for(directory, is_damaged)
}

fn look_for(directory: &Path, is_it: fn(&Fragment) -> bool) -> Result<(), StoreError> {
    let logs = unless_gone(numbered(directory, "log"))?.unwrap_or_default();
    let manifest = manifest_in(directory)?.map(|(_, path)| path);
    for path in logs.into_values().chain(manifest) {
        // Whoever writes removes logs.
        let found = unless_gone(File::open(&path).and_then(|log| place_of(log, is_it)));
        let found = found.map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        if let Some(at) = found.flatten() {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Err(StoreError::Log { file, at });
        }
    }
    Ok(())
}

/// Where the first such fragment of a log begins. What comes after one that is not sound, in the
/// same block, is not looked at: there may be no heads there, and RocksDB leaves it out.
fn place_of(log: impl Read, is_it: fn(&Fragment) -> bool) -> io::Result<Option<u64>> {
    for block in blocks(log) {
        let (at, block) = block?;
        for fragment in fragments(&block) {
            if is_it(&fragment) {
                return Ok(Some(at + fragment.at as u64));
            }
            if fragment.sound().is_none() {
                break;
            }
        }
    }
    Ok(None)
}

/// Hands the records of a log out of which nothing is damaged, in order. A damaged length hides what
/// comes after it in its block; no other damage hides a record that has all of its fragments.
///
/// # Errors
///
/// It cannot be read, or `take` fails.
pub(super) fn each_record(
    log: impl Read,
    mut take: impl FnMut(&[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    // The fragments of a record of which there is more to come.
    let mut begun: Option<Vec<u8>> = None;
    for block in blocks(log) {
        for fragment in fragments(&block?.1) {
            let before = begun.take();
            match (fragment.kind, fragment.sound(), before) {
                (WHOLE, Some(text), _) => take(text)?,
                (FIRST, Some(text), _) => begun = Some(text.to_vec()),
                (MIDDLE, Some(text), Some(mut record)) => {
                    record.extend_from_slice(text);
                    begun = Some(record);
                }
                (LAST, Some(text), Some(mut record)) => {
                    record.extend_from_slice(text);
                    take(&record)?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// What was read, or nothing if it is not there.
fn unless_gone<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// The checksum of a fragment, as its head has it.
fn checksum(kind: u8, text: &[u8]) -> u32 {
    let sum = crc32c::crc32c_append(crc32c::crc32c(&[kind]), text);
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;
    use crate::store::Store;

    /// A log of these records, as RocksDB writes it.
    fn log_of(records: &[Vec<u8>]) -> Vec<u8> {
        let mut log = Vec::new();
        for record in records {
            let (mut rest, mut is_first) = (&record[..], true);
            loop {
                let left = BLOCK_BYTES - log.len() % BLOCK_BYTES;
                if left < HEAD_BYTES {
                    log.resize(log.len() + left, 0);
                    continue;
                }
                let (text, others) = rest.split_at(rest.len().min(left - HEAD_BYTES));
                let kind = match (is_first, others.is_empty()) {
                    (true, true) => WHOLE,
                    (true, false) => FIRST,
                    (false, false) => MIDDLE,
                    (false, true) => LAST,
                };
                log.extend_from_slice(&checksum(kind, text).to_le_bytes());
                log.extend_from_slice(&(text.len() as u16).to_le_bytes());
                log.push(kind);
                log.extend_from_slice(text);
                (rest, is_first) = (others, false);
                if rest.is_empty() {
                    break;
                }
            }
        }
        log
    }

    fn records_in(log: &[u8]) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        let take = |record: &[u8]| {
            records.push(record.to_vec());
            Ok(())
        };
        each_record(log, take).unwrap();
        records
    }

    /// Whether all of them are among the others, in the same order.
    fn are_among(some: &[Vec<u8>], all: &[Vec<u8>]) -> bool {
        let mut all = all.iter();
        some.iter().all(|record| all.any(|other| other == record))
    }

    proptest! {
        /// Whatever a byte is changed to, what is read was written, and nothing of another block
        /// is lost. Wherever a log ends, nothing is wrong with it.
        #[test]
        fn of_a_damaged_log_what_is_sound_is_read(
            lengths in prop::collection::vec(prop_oneof![0usize..200, 0usize..90_000], 1..40),
            at: prop::sample::Index,
            noise in 1u8..,
        ) {
            let numbered = |(i, length): (usize, usize)| vec![i as u8; length];
            let records: Vec<Vec<u8>> = lengths.into_iter().enumerate().map(numbered).collect();
            let log = log_of(&records);
            prop_assert_eq!(&records_in(&log), &records);
            prop_assert_eq!(place_of(&log[..], is_damaged).unwrap(), None);

            let at = at.index(log.len());
            let cut = &log[..at];
            prop_assert!(records.starts_with(&records_in(cut)));
            prop_assert_eq!(place_of(cut, is_damaged).unwrap(), None);

            let mut damaged = log.clone();
            damaged[at] ^= noise;
            let found = records_in(&damaged);
            prop_assert!(are_among(&found, &records));
            let is_elsewhere = |end: usize, record: &[u8]| {
                let fragments = record.len().div_ceil(BLOCK_BYTES - HEAD_BYTES) + 1;
                let start = end.saturating_sub(record.len() + fragments * HEAD_BYTES);
                end / BLOCK_BYTES < at / BLOCK_BYTES || start / BLOCK_BYTES > at / BLOCK_BYTES
            };
            for (i, record) in records.iter().enumerate() {
                let end = log_of(&records[..=i]).len();
                if is_elsewhere(end, record) {
                    prop_assert!(found.contains(record), "record {} of {} bytes", i, record.len());
                }
            }
            // What stands behind a damaged head is not taken for heads.
            if let Some(place) = place_of(&damaged[..], is_foreign).unwrap() {
                prop_assert_eq!(place as usize + HEAD_BYTES - 1, at);
            }
        }

        /// Any bytes are read to their end.
        #[test]
        fn any_bytes_are_a_log(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert!(records_in(&bytes).len() <= bytes.len() / HEAD_BYTES);
            place_of(&bytes[..], is_damaged).unwrap();
        }
    }

    /// A store with a log of thirty writes of five kilobytes, and without a journal, which would tell
    /// them too. Returns the log, and what stands in it.
    pub fn store_with_log(path: &Path) -> (PathBuf, Vec<u8>) {
        let store = Store::open(path, None, None).unwrap();
        (0..30u8).for_each(|number| store.put(&[b'x', number], &vec![number; 5000]).unwrap());
        drop(store);
        std::fs::remove_file(path.join("JOURNAL")).unwrap();
        let (_, log) = numbered(path, "log").unwrap().pop_last().unwrap();
        let bytes = std::fs::read(&log).unwrap();
        assert!(bytes.len() > 4 * BLOCK_BYTES);
        (log, bytes)
    }

    /// What RocksDB has written is read, to the last write. A log of which a process that was killed
    /// has written a part, or for which room was made, is no damage.
    #[test]
    fn logs_of_rocksdb_are_accepted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let (log, bytes) = store_with_log(&path);
        check_texts(&path).unwrap();
        let records = records_in(&bytes);
        let has = |number: u8| {
            let text = vec![number; 5000];
            records.iter().any(|record| record.windows(text.len()).any(|part| part == text))
        };
        assert!((0..30).all(has));
        for end in (0..bytes.len()).rev().step_by(997) {
            assert!(records.starts_with(&records_in(&bytes[..end])));
            std::fs::write(&log, &bytes[..end]).unwrap();
            check_texts(&path).unwrap();
        }
        let zeros = [&bytes[..], &[0; 3 * BLOCK_BYTES]].concat();
        assert_eq!(records_in(&zeros), records);
        std::fs::write(&log, zeros).unwrap();
        check_texts(&path).unwrap();
        drop(Store::open(&path, None, None).unwrap());
    }

    /// A length that no block has room for, and a kind that has become that of padding, are damage.
    #[test]
    fn what_is_no_end_of_a_log_is_damage() {
        let log = log_of(&[vec![1; 100], vec![2; 100], vec![3; BLOCK_BYTES]]);
        let second = HEAD_BYTES + 100;
        for (byte, value) in [(4, 0xff), (5, 0xff), (6, PADDING)] {
            let mut damaged = log.clone();
            damaged[second + byte] = value;
            assert_eq!(place_of(&damaged[..], is_damaged).unwrap(), Some(second as u64));
            assert_eq!(place_of(&damaged[..], is_foreign).unwrap(), None);
        }
    }

    /// Of a flipped bit in the kind of a fragment RocksDB would read the same fragment for ever,
    /// in a log and in the manifest: it is not asked to, and what helps is said.
    #[test]
    fn foreign_kinds_are_found_before_rocksdb_reads_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let (log, bytes) = store_with_log(&path);
        let manifest = manifest_in(&path).unwrap().unwrap().1;
        let edits = std::fs::read(&manifest).unwrap();
        for (file, bytes) in [(log, bytes), (manifest, edits)] {
            let block = &bytes[..bytes.len().min(BLOCK_BYTES)];
            let places: Vec<usize> = fragments(block).map(|fragment| fragment.at).collect();
            assert!(places.len() > 2);
            for kind in [5, 6, 7, 8, 11, 131, u8::MAX] {
                let mut damaged = bytes.clone();
                damaged[places[2] + HEAD_BYTES - 1] = kind;
                std::fs::write(&file, damaged).unwrap();
                for opened in [Store::open_read_only(&path), Store::open(&path, None, None)] {
                    let error = opened.err().expect("it is damaged");
                    assert!(
                        matches!(&error, StoreError::Log { at, .. } if *at == places[2] as u64),
                        "{kind}: {error}"
                    );
                    assert!(error.to_string().contains("trailtrap salvage"), "{error}");
                }
            }
            std::fs::write(&file, bytes).unwrap();
        }
        drop(Store::open(&path, None, None).unwrap());
    }
}
