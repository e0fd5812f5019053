//! A part of an object store in which a census keeps its blocks.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, OnceLock, mpsc},
};

use tokio::runtime::{Builder, Runtime};
use trailtrap_shared::partition::{Block, BlockName};

use super::{MARK_TEXT, Mark, no_other};
use crate::supply::{bucket::Bucket, files::object_name};

/// The part of an object store in which a census keeps its blocks. Methods block the calling thread,
/// whatever it is.
#[derive(Debug)]
pub struct KeptBucket {
    place: PathBuf,
    mark: Mark,
    /// Once it was asked for.
    bucket: OnceLock<Arc<Bucket>>,
}

/// What asks the object stores. It is never dropped, which may not be done everywhere.
static RUNTIME: LazyLock<io::Result<Runtime>> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_all().build());

impl KeptBucket {
    /// That of a census, which need not be there now.
    pub(super) fn at(address: &str, mark: Mark) -> Self {
        KeptBucket { place: address.into(), mark, bucket: OnceLock::new() }
    }

    /// Begins to keep blocks there: marks it, for good.
    ///
    /// # Errors
    /// If it cannot be reached or written, or is that of another census.
    pub(super) fn begin(address: &str, mark: Mark) -> io::Result<Self> {
        let depot = Self::at(address, mark);
        depot.look_for_others()?;
        depot.put_mark()?;
        Ok(depot)
    }

    /// Whether there is no mark of another census.
    pub(super) fn look_for_others(&self) -> io::Result<()> {
        let mark = self.mark;
        self.ask(move |bucket| async move { no_other(mark, bucket.names().await?) })
    }

    fn put_mark(&self) -> io::Result<()> {
        let (name, text) = (self.mark.file_name(), Arc::new(MARK_TEXT.as_bytes().to_vec()));
        self.ask(|bucket| async move { bucket.put(&name, text).await })?;
        // Another may have begun at the same moment: then each gives way.
        self.look_for_others().inspect_err(|_| {
            let name = self.mark.file_name();
            let _ = self.ask(|bucket| async move { bucket.remove(&name).await });
        })
    }

    /// The address.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// The number of the census.
    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    /// As [`super::KeptDepot::check`].
    pub(super) fn check(&self) -> io::Result<()> {
        let name = self.mark.file_name();
        self.ask(|bucket| async move { bucket.length(&name).await.map(drop) })
    }

    /// As [`super::KeptDepot::take`].
    pub(super) fn take(&mut self) -> io::Result<()> {
        self.check()?;
        let depot = self.place.display();
        tracing::warn!(
            "the depot {depot} cannot be locked: see to it that no copy of the data directory is at \
             work as well"
        );
        Ok(())
    }

    /// As [`super::KeptDepot::read`].
    pub(super) fn read(&self, name: &BlockName) -> io::Result<Option<Vec<u8>>> {
        let get = || {
            let (object, length) = (object_name(&name.checksum), name.length);
            match self.ask(move |bucket| async move { bucket.get(&object, length).await }) {
                Ok(bytes) => Ok(Some(bytes.unwrap_or_default())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        };
        match get()? {
            // For a moment it may have been another that answered.
            None => self.check().and_then(|()| get()),
            found => Ok(found),
        }
    }

    /// As [`super::KeptDepot::may_read`].
    pub(super) fn may_read(&self, name: &BlockName) -> io::Result<bool> {
        let object = object_name(&name.checksum);
        match self.ask(|bucket| async move { bucket.length(&object).await }) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.check().map(|()| false),
            length => length.map(|length| length == name.length),
        }
    }

    /// As [`super::KeptDepot::write`].
    pub(super) fn write(&self, block: &Block) -> io::Result<()> {
        let (object, bytes) = (object_name(&block.name().checksum), block.shared_bytes());
        self.ask(|bucket| async move { bucket.put(&object, bytes).await })
    }

    /// As [`super::KeptDepot::remove`].
    pub(super) fn remove(&self, name: &BlockName) -> io::Result<()> {
        let object = object_name(&name.checksum);
        match self.ask(|bucket| async move { bucket.remove(&object).await }) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.check(),
            removed => removed,
        }
    }

    fn bucket(&self) -> io::Result<Arc<Bucket>> {
        if let Some(bucket) = self.bucket.get() {
            return Ok(bucket.clone());
        }
        let bucket = Bucket::open(&self.place.to_string_lossy())?;
        let bucket = bucket.ok_or_else(|| io::Error::other("it is no object store that is known"));
        bucket.map(|bucket| self.bucket.get_or_init(|| Arc::new(bucket)).clone())
    }

    /// Waits for what is asked of the bucket.
    fn ask<T, F>(&self, what: impl FnOnce(Arc<Bucket>) -> F) -> io::Result<T>
    where
        T: Send + 'static,
        F: Future<Output = io::Result<T>> + Send + 'static,
    {
        let asked = what(self.bucket()?);
        let runtime = RUNTIME.as_ref().map_err(|error| io::Error::other(error.to_string()))?;
        let (answer, answered) = mpsc::sync_channel(1);
        // Threads of another runtime may not block on this one, but they may wait for a channel.
        runtime.spawn(async move {
            let _ = answer.send(asked.await);
        });
        answered.recv().map_err(io::Error::other)?
    }
}

#[cfg(all(test, feature = "s3"))]
mod tests {
    use super::*;
    use crate::supply::kept::some_block;

    #[test]
    fn a_bucket_keeps_the_blocks_of_one_census() {
        let bucket = Arc::new(Bucket::in_memory());
        let depot = |mark| KeptBucket {
            place: "s3://depot/census".into(),
            mark: Mark(mark),
            bucket: OnceLock::from(bucket.clone()),
        };
        let away = |result: io::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::NotFound);
        };
        let (mut kept, block) = (depot(7), some_block());
        let name = block.name();
        away(kept.check());
        away(kept.take());
        away(kept.read(&name).map(drop));
        for _ in 0..2 {
            kept.look_for_others().unwrap();
            kept.put_mark().unwrap();
        }
        kept.take().unwrap();
        assert_eq!(kept.read(&name).unwrap(), None);
        assert!(!kept.may_read(&name).unwrap());
        kept.write(&block).unwrap();
        assert_eq!(kept.read(&name).unwrap().as_deref(), Some(block.bytes()));
        assert!(kept.may_read(&name).unwrap());
        let longer = BlockName { length: name.length + 1, ..name };
        assert_eq!(kept.read(&longer).unwrap(), Some(Vec::new()));
        assert!(!kept.may_read(&longer).unwrap());
        let other = depot(8);
        for refused in [other.look_for_others(), other.put_mark()] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("another census"), "{refused}");
        }
        away(other.check());
        kept.check().unwrap();
        kept.remove(&name).unwrap();
        kept.remove(&name).unwrap();
        assert_eq!(kept.read(&name).unwrap(), None);
    }

    /// Threads of a runtime, which may not block on another one, may ask.
    #[tokio::test]
    async fn it_is_asked_from_anywhere() {
        let bucket = OnceLock::from(Arc::new(Bucket::in_memory()));
        let kept = KeptBucket { place: "s3://depot/census".into(), mark: Mark(7), bucket };
        kept.put_mark().unwrap();
        kept.check().unwrap();
    }
}
