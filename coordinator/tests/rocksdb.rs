//! The RocksDB that the programs are linked with, however it was built, does what the store relies
//! on: blob files, LZ4, and checksums, with the processor's instruction where `scripts/rocksdb`
//! has built it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rocksdb::{DB, DBCompressionType, ErrorKind, Options};

/// Compresses well; larger than what goes into a blob file.
const LARGE: usize = 1 << 18;

fn open(path: &Path) -> DB {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_enable_blob_files(true);
    options.set_min_blob_size(4 << 10);
    options.set_blob_compression_type(DBCompressionType::Lz4);
    options.set_compression_type(DBCompressionType::Lz4);
    DB::open(&options, path).expect("a database opens")
}

fn files(path: &Path, extension: &str) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(path).expect("a directory").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

fn value(seed: u8) -> Vec<u8> {
    (0..LARGE).map(|i| (i / 1000) as u8 ^ seed).collect()
}

fn filled(path: &Path) {
    let db = open(path);
    db.put(b"large", value(1)).expect("a write");
    for i in 0..1000u32 {
        db.put(i.to_be_bytes(), b"small small small small small").expect("a write");
    }
    db.flush().expect("a flush");
    // This one stays in the log.
    db.put(b"logged", value(2)).expect("a write");
}

#[test]
fn values_come_back_from_blob_files_tables_and_logs() {
    let directory = tempfile::tempdir().expect("a directory");
    filled(directory.path());
    let blobs = files(directory.path(), "blob");
    assert_eq!(blobs.len(), 1, "large values lie in blob files");
    let length = fs::metadata(&blobs[0]).expect("a blob file").len();
    assert!(length < LARGE as u64 / 4, "a blob that LZ4 should shrink takes {length} bytes");
    let db = open(directory.path());
    assert_eq!(db.get(b"large").expect("a read"), Some(value(1)));
    assert_eq!(db.get(b"logged").expect("a read"), Some(value(2)));
    for i in 0..1000u32 {
        let small = db.get(i.to_be_bytes()).expect("a read");
        assert_eq!(small.as_deref(), Some(&b"small small small small small"[..]));
    }
}

#[test]
fn checksums_find_a_flipped_bit_in_a_blob() {
    let directory = tempfile::tempdir().expect("a directory");
    filled(directory.path());
    let blob = files(directory.path(), "blob").remove(0);
    let mut bytes = fs::read(&blob).expect("a blob file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&blob, bytes).expect("a write");
    let error = open(directory.path()).get(b"large").expect_err("damage is noticed");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

#[test]
fn the_library_says_what_it_was_built_with() {
    let directory = tempfile::tempdir().expect("a directory");
    filled(directory.path());
    let log = fs::read_to_string(directory.path().join("LOG")).expect("a log");
    assert!(log.contains("kLZ4Compression supported: 1"), "no LZ4:\n{log}");
    // The crate's own build script compiles without the instruction, unless it is told of a newer
    // processor.
    let by_script = option_env!("ROCKSDB_LIB_DIR").is_some();
    if by_script && cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        assert!(log.contains("Fast CRC32 supported: Supported on"), "checksums are slow:\n{log}");
    }
}
