//! What holds for all of the census.

use std::{error::Error, io, path::PathBuf, sync::atomic::AtomicU64, time::Duration};

use trailtrap_shared::{
    count::summary::Summary,
    game::{GameName, Layout},
    graph::degree::DegreeSequence,
    partition::{Block, BlockError, BlockId, BucketTable, Section},
    plan::{PlanOptions, Unit},
};

use crate::{
    core::Fault,
    driver::CensusError,
    read::{archive::ArchiveError, finished::FinishedError, status::LookError},
    records::{Author, Delivery, OrderRecord, delivery},
    store::{Store, StoreError, directory::DirectoryError, salvage::salvage},
    trust::trial::TrialError,
    watch::Watcher,
};

/// Keys, outcomes and wins of a unit of so many graphs that blobs are made of the first two, and that
/// none goes into a log. These have two versions each, by these numbers; no graph is listed.
pub(crate) fn blocks(
    layout: Layout,
    sequence: DegreeSequence,
    keys: u64,
    outcomes: u8,
) -> Vec<Block> {
    let slots: Vec<u64> = (0..8000).map(|i| 2 * i + keys).collect();
    let record = |i: usize, record: &mut [u8]| {
        record.fill(0);
        record[..2].copy_from_slice(&(i as u16).to_le_bytes());
        record[2] = outcomes;
    };
    let table = BucketTable::new(layout, sequence, 0, 0, slots.into_iter(), record);
    table.to_blocks(0).into_iter().collect()
}

/// What Ann delivers of a unit: these blocks, and no counts.
pub(crate) fn solved_by_ann(unit: Unit, sequence: DegreeSequence, blocks: Vec<Block>) -> Delivery {
    let ann = Author::new("Ann", "portable");
    delivery(unit, sequence, blocks, Summary::default(), Duration::ZERO, ann)
}

/// The texts of an error and of what caused it, as programs print them by `{:#}`.
fn chain(error: &dyn Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    texts.extend(error.source().into_iter().flat_map(chain));
    texts
}

/// An error has its cause in its text or behind it, not both; people read it once.
#[test]
fn an_error_shows_its_cause_once() {
    let io = || io::Error::other("the disk is on fire");
    let sequence = DegreeSequence::new([1, 1]);
    let block = || StoreError::Block {
        id: BlockId { sequence, part: 0, bucket_bits: 0, bucket: 0, section: Section::Keys },
        source: BlockError::Checksum,
    };
    let path = PathBuf::from("here");
    let errors: [(Box<dyn Error>, &str); 9] = [
        (Box::new(StoreError::Io(io())), "fire"),
        (Box::new(block()), "checksum"),
        (Box::new(DirectoryError::Io { path: path.clone(), source: io() }), "fire"),
        (
            Box::new(LookError::from(DirectoryError::Io { path: path.clone(), source: io() })),
            "fire",
        ),
        (Box::new(FinishedError::Open { data: path, source: block() }), "checksum"),
        (Box::new(ArchiveError::from(FinishedError::from(block()))), "checksum"),
        (Box::new(CensusError::from(block())), "checksum"),
        (Box::new(CensusError::from(Fault::Contradiction(Box::new(io())))), "fire"),
        (
            Box::new(TrialError::Read(CensusError::from(getrandom::Error::UNSUPPORTED))),
            "supported",
        ),
    ];
    for (error, cause) in errors {
        let texts = chain(&*error);
        assert!(texts.join(": ").contains(cause), "{texts:?} does not say why");
        for (i, text) in texts.iter().enumerate() {
            let is_told = |above: &String| above.contains(text.as_str());
            assert!(!texts[..i].iter().any(is_told), "{texts:?} says something twice");
        }
    }
}

/// Hears all, and shows nothing.
pub(crate) struct Silent;

impl Watcher for Silent {
    fn say(&self, _: &str) {}

    fn watched(&self, _: &str, _: u64, _: &AtomicU64, work: &mut dyn FnMut()) {
        work();
    }
}

/// A store of a rehearsal is refused however it is opened, whatever was written into it, and none
/// is made where something is already.
#[test]
fn a_store_of_a_rehearsal_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (path, new) = (directory.path().join("store"), directory.path().join("new"));
    let store = Store::of_rehearsal(&path, GameName::TrailTrap).unwrap();
    let is_refused = || {
        let refused = [
            Store::open(&path, None, None).err(),
            Store::open(&path, Some(GameName::TrailTrap), None).err(),
            Store::open_read_only(&path).err(),
            salvage(&path, &new, false, &Silent).err(),
        ];
        for error in refused {
            let error = error.expect("it is refused");
            assert!(matches!(error, StoreError::Rehearsal), "{error}");
        }
        assert!(!new.exists());
    };
    // What gives other stores a later format.
    let record = OrderRecord {
        options: PlanOptions::default(),
        plan_fingerprint: 1,
        result: Some(Vec::new()),
        outcomes_kept: false,
        max_size: Some(3),
        graphs_dropped: true,
        withdrawn: false,
    };
    store.put_order(7, &record).unwrap();
    drop(store);
    is_refused();
    assert!(Store::of_rehearsal(&path, GameName::TrailTrap).is_err());
    is_refused();
}
