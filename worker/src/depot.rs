//! A depot: blocks in a directory that all workers share, or in an object store that speaks S3.
//!
//! A block is an object with its checksum as its name, and whoever reads it checks it against the name that the coordinator gave; so
//! nobody who can write to a depot can falsify anything. Blocks never change and are put as a whole, any number of times. A
//! depot may lack any block: what it does not have comes from the coordinator.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use object_store::{
    BackoffConfig, Error, ObjectStore, ObjectStoreExt, ObjectStoreScheme, RetryConfig, aws::AmazonS3Builder,
    local::LocalFileSystem, path::Path, prefix::PrefixStore,
};
use tokio::runtime::Handle;
use trailtrap_shared::{
    game::TrailTrap,
    partition::{Block, BlockError, BlockName, Checksum},
};
use url::Url;

use crate::supply::Rest;

/// Why a depot is of no use.
#[derive(Debug, thiserror::Error)]
pub enum DepotError {
    #[error("'{0}' is no depot: give a directory that all workers share, or s3://BUCKET/PREFIX")]
    Place(String),
    // Without the place, which shows them.
    #[error(
        "the address of a depot must not hold credentials: put them into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )]
    Credentials,
    #[error("cannot use the depot {place}: {why}")]
    Unusable { place: String, why: String },
    /// It may be another time.
    #[error("the depot {place} cannot be reached: {why}")]
    Away { place: String, why: String },
}

/// A depot. Its methods block, and must not be called from within the runtime.
pub struct Depot {
    runtime: Handle,
    store: Arc<dyn ObjectStore>,
    /// For people.
    place: String,
    /// After a failure, so that a depot that is out of reach costs little.
    rest: Rest,
}

/// Objects that are put or got at a time.
const TOGETHER: usize = 16;

/// What whoever finds a depot should know. Writing it shows that blocks can be.
const NOTE: (&str, &str) = (
    "README.txt",
    "Blocks of a census of the game Trail Trap, under their checksums. All of this can be deleted at any time, and should \
     be when the census is done: what is missing is fetched from the coordinator.\n",
);

impl Depot {
    /// The depot in a directory, given as path or `file:` URL, or in `s3://BUCKET/PREFIX`, with credentials, region and endpoint from
    /// the environment (`AWS_ACCESS_KEY_ID` …). Tries it.
    pub fn open(runtime: Handle, place: &str) -> Result<Self, DepotError> {
        let store = store(place)?;
        let depot = Depot { runtime, store, place: place.to_owned(), rest: Rest::default() };
        let (name, text) = NOTE;
        let tried = depot.runtime.block_on(depot.store.put(&Path::from(name), text.as_bytes().into()));
        match tried {
            Ok(_) => Ok(depot),
            Err(error @ Error::Generic { store: "S3", .. }) => {
                Err(DepotError::Away { place: place.to_owned(), why: cause(&error) })
            }
            Err(error) => Err(unusable(place, &error)),
        }
    }

    /// Those of the blocks that are here and sound, in any order.
    pub fn get(&self, names: &[BlockName]) -> Vec<Block> {
        if self.rest.lasts() {
            return Vec::new();
        }
        let read = |name: &BlockName| {
            let name = *name;
            async move { (name, self.read(&name).await) }
        };
        let read = stream::iter(names.iter().map(read)).buffer_unordered(TOGETHER).collect::<Vec<_>>();
        let mut blocks = Vec::with_capacity(names.len());
        for (name, read) in self.runtime.block_on(read) {
            match read {
                Ok(bytes) => match bytes.and_then(|bytes| Block::parse_named::<TrailTrap>(bytes, &name)) {
                    Ok(block) => blocks.push(block),
                    Err(error) => {
                        let (depot, block) = (&self.place, path(&name.checksum));
                        tracing::warn!(depot, %block, %error, "a block in the depot is damaged; it is fetched again");
                    }
                },
                Err(Error::NotFound { .. }) => {}
                Err(error) => self.fail(&error),
            }
        }
        blocks
    }

    async fn read(&self, name: &BlockName) -> Result<Result<Vec<u8>, BlockError>, Error> {
        let found = self.store.get(&path(&name.checksum)).await?;
        // Not to be read if it is of any other size.
        match found.meta.size == name.length {
            true => Ok(Ok(found.bytes().await?.into())),
            false => Ok(Err(BlockError::Name)),
        }
    }

    /// Puts blocks here, as far as that is possible. The bytes that were put.
    pub fn put<'a>(&self, blocks: impl Iterator<Item = &'a Block>) -> u64 {
        if self.rest.lasts() {
            return 0;
        }
        let put = |block: &'a Block| {
            let BlockName { checksum, length } = block.name();
            async move {
                let payload = block.bytes().to_vec().into();
                self.store.put(&path(&checksum), payload).await.map(|_| length)
            }
        };
        let put = stream::iter(blocks.map(put)).buffer_unordered(TOGETHER).collect::<Vec<_>>();
        let put = self.runtime.block_on(put);
        put.into_iter()
            .map(|put| {
                put.unwrap_or_else(|error| {
                    self.fail(&error);
                    0
                })
            })
            .sum()
    }

    fn fail(&self, error: &Error) {
        if self.rest.begin() {
            tracing::warn!(depot = self.place, cause = cause(error), "the depot fails; left alone for now");
        }
    }
}

fn path(checksum: &Checksum) -> Path {
    let name = checksum.to_string();
    Path::from_iter([&name[..2], &name])
}

fn store(place: &str) -> Result<Arc<dyn ObjectStore>, DepotError> {
    let unknown = || DepotError::Place(place.to_owned());
    let unusable = |error: Error| unusable(place, &error);
    let directory =
        |path: &std::path::Path| Ok(Arc::new(LocalFileSystem::new_with_prefix(path).map_err(unusable)?) as _);
    if !place.contains("://") {
        return directory(place.as_ref());
    }
    let url = Url::parse(place).map_err(|_| unknown())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(DepotError::Credentials);
    }
    match ObjectStoreScheme::parse(&url).map_err(|_| unknown())? {
        (ObjectStoreScheme::Local, _) => directory(&url.to_file_path().map_err(|()| unknown())?),
        (ObjectStoreScheme::AmazonS3, prefix) => {
            // The one that everything else here uses; it may be installed already.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let backoff = BackoffConfig { max_backoff: Duration::from_secs(3), ..BackoffConfig::default() };
            let retry = RetryConfig { backoff, max_retries: 4, retry_timeout: Duration::from_secs(20) };
            let bucket = AmazonS3Builder::from_env().with_url(place).with_retry(retry).build().map_err(unusable)?;
            Ok(Arc::new(PrefixStore::new(bucket, prefix)))
        }
        _ => Err(unknown()),
    }
}

fn unusable(place: &str, error: &Error) -> DepotError {
    DepotError::Unusable { place: place.to_owned(), why: cause(error) }
}

/// What went wrong, without what a server has to say about it: that may repeat what it was sent, tokens included.
fn cause(error: &Error) -> String {
    match error {
        Error::NotFound { .. } => "there is no such place".to_owned(),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            "access is denied; are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the like right?".to_owned()
        }
        other => {
            let text = other.to_string();
            text.split('<').next().unwrap_or_default().trim_end_matches([' ', ':']).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_are_no_depots_are_named() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let open = |place: &str| Depot::open(runtime.handle().clone(), place).err().unwrap().to_string();
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        let missing = missing.to_str().unwrap();
        for place in [missing.to_owned(), format!("file://{missing}")] {
            assert!(open(&place).starts_with(&format!("cannot use the depot {place}: ")), "{}", open(&place));
        }
        for place in ["gs://bucket/x", "s3://", "http://host/x", "://", "file://host/x"] {
            assert!(open(place).contains(&format!("'{place}' is no depot")), "{}", open(place));
        }
        let secret = open("s3://key:hunter2@bucket/x");
        assert!(secret.contains("AWS_SECRET_ACCESS_KEY") && !secret.contains("hunter2"), "{secret}");
    }
}
