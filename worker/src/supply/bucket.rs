//! Depots in object stores that speak S3, by `object_store`.

use std::{io, time::Duration};

use object_store::{
    BackoffConfig, ClientConfigKey, Error, ObjectStoreExt, ObjectStoreScheme, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey},
    path::Path,
    prefix::PrefixStore,
};
use url::Url;

/// A single request may take so long, with all attempts to repeat it.
const REQUEST: Duration = Duration::from_secs(15);

/// A bucket, or what has a certain prefix in it.
pub(super) struct Bucket(PrefixStore<AmazonS3>);

impl Bucket {
    /// The bucket `s3://BUCKET/PREFIX`, with credentials, region and endpoint from the
    /// environment; `None` if that is no such address.
    pub(super) fn open(place: &str) -> io::Result<Option<Self>> {
        let Ok(url) = Url::parse(place) else { return Ok(None) };
        let Ok((_, prefix)) = ObjectStoreScheme::parse(&url) else { return Ok(None) };
        // The provider that gRPC uses too. Installing it fails if it is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let backoff =
            BackoffConfig { max_backoff: Duration::from_secs(3), ..BackoffConfig::default() };
        let retry = RetryConfig { backoff, max_retries: 4, retry_timeout: REQUEST };
        let timeout = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
        let bucket = AmazonS3Builder::from_env()
            .with_url(place)
            .with_config(timeout, format!("{} seconds", REQUEST.as_secs()))
            .with_retry(retry)
            .build()
            .map_err(cause)?;
        Ok(Some(Bucket(PrefixStore::new(bucket, prefix))))
    }

    /// The object with that name, or `None` if it has another length.
    pub(super) async fn get(&self, name: &str, length: u64) -> io::Result<Option<Vec<u8>>> {
        let found = self.0.get(&Path::from(name)).await.map_err(cause)?;
        match found.meta.size == length {
            true => Ok(Some(found.bytes().await.map_err(cause)?.into())),
            false => Ok(None),
        }
    }

    /// Puts an object, which replaces any of that name as a whole.
    pub(super) async fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.0.put(&Path::from(name), bytes.into()).await.map(|_| ()).map_err(cause)
    }
}

/// What went wrong, without what a server has to say about it: that may repeat what it was sent,
/// tokens included.
fn cause(error: Error) -> io::Error {
    match error {
        Error::NotFound { .. } => {
            io::Error::new(io::ErrorKind::NotFound, "there is no such place")
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => io::Error::other(
            "access is denied; are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the like right?",
        ),
        other => {
            let text = other.to_string();
            let text = text.split('<').next().unwrap_or_default().trim_end_matches([' ', ':']);
            io::Error::other(text.to_owned())
        }
    }
}
