//! What holds for all of the census.

use std::{error::Error, io, path::PathBuf};

use trailtrap_shared::{
    graph::degree::DegreeSequence,
    partition::{BlockError, BlockId, Section},
};

use crate::{
    core::Fault,
    driver::CensusError,
    read::{archive::ArchiveError, finished::FinishedError, status::LookError},
    store::{StoreError, directory::DirectoryError},
    trust::trial::TrialError,
};

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
        (Box::new(StoreError::Make(io())), "fire"),
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
