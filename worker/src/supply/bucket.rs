//! Depots in object stores that speak S3, by `object_store`.

use std::{error::Error as _, fmt, io, iter::successors, sync::Arc, time::Duration};

use bytes::Bytes;
use object_store::{
    BackoffConfig, ClientConfigKey, Error, ObjectStore, ObjectStoreExt, ObjectStoreScheme,
    RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    client::HttpError,
    path::Path,
    prefix::PrefixStore,
};
use url::Url;

use super::kept::is_mark;

/// A single request may take so long, a large block on a slow line included.
const REQUEST: Duration = Duration::from_secs(120);
/// After so long no attempt is made to repeat one.
const RETRIES: Duration = Duration::from_secs(15);

/// A bucket, or what has a certain prefix in it.
pub(super) struct Bucket(PrefixStore<Arc<dyn ObjectStore>>);

impl fmt::Debug for Bucket {
    /// Without what it was made from, credentials among them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bucket")
    }
}

impl Bucket {
    /// The bucket `s3://BUCKET/PREFIX`, with credentials, region and endpoint from the
    /// environment; `None` if that is no such address.
    pub(super) fn open(place: &str) -> io::Result<Option<Self>> {
        let Some(url) = Url::parse(place).ok().filter(|url| url.scheme() == "s3") else {
            return Ok(None);
        };
        let Ok((_, prefix)) = ObjectStoreScheme::parse(&url) else { return Ok(None) };
        // The provider that gRPC uses too. Installing it fails if it is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let backoff =
            BackoffConfig { max_backoff: Duration::from_secs(3), ..BackoffConfig::default() };
        let retry = RetryConfig { backoff, max_retries: 4, retry_timeout: RETRIES };
        let timeout = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
        let bucket = AmazonS3Builder::from_env()
            .with_url(place)
            .with_config(timeout, format!("{} seconds", REQUEST.as_secs()))
            // Not every store removes several objects at a time.
            .with_config(AmazonS3ConfigKey::DisableBulkDelete, "true")
            .with_retry(retry)
            .build()
            .map_err(cause)?;
        Ok(Some(Bucket::of(Arc::new(bucket), prefix)))
    }

    /// What has this prefix in a store.
    fn of(store: Arc<dyn ObjectStore>, prefix: Path) -> Self {
        Bucket(PrefixStore::new(store, prefix))
    }

    /// One in the memory of this process, with nothing in it.
    #[cfg(test)]
    pub(super) fn in_memory() -> Self {
        Bucket::of(Arc::new(object_store::memory::InMemory::new()), "census".into())
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
    pub(super) async fn put(&self, name: &str, bytes: Arc<Vec<u8>>) -> io::Result<()> {
        let bytes = Bytes::from_owner(Shared(bytes));
        self.0.put(&Path::from(name), bytes.into()).await.map(|_| ()).map_err(cause)
    }

    /// The length of the object with that name.
    pub(super) async fn length(&self, name: &str) -> io::Result<u64> {
        self.0.head(&Path::from(name)).await.map(|object| object.size).map_err(cause)
    }

    /// Removes the object with that name. Most stores do not say whether it was there.
    pub(super) async fn remove(&self, name: &str) -> io::Result<()> {
        self.0.delete(&Path::from(name)).await.map_err(cause)
    }

    /// The names of the marks.
    pub(super) async fn marks(&self) -> io::Result<Vec<String>> {
        let found = self.0.list_with_delimiter(None).await.map_err(cause)?;
        let names = found.objects.iter().filter_map(|object| object.location.filename());
        Ok(names.filter(|name| is_mark(name)).map(str::to_owned).collect())
    }
}

/// What an object is to have, without a copy.
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// What went wrong, without what a server has to say about it: that may repeat what it was sent,
/// tokens included.
fn cause(error: Error) -> io::Error {
    let text = error.to_string();
    match (&error, status(&text)) {
        (Error::NotFound { .. }, _) | (_, Some(404)) => {
            io::Error::new(io::ErrorKind::NotFound, "there is no such place")
        }
        (Error::PermissionDenied { .. } | Error::Unauthenticated { .. }, _)
        | (_, Some(401 | 403)) => io::Error::other(
            "access is denied; are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the like right?",
        ),
        (_, status) => {
            // Whoever answered was busy, or nobody did.
            let may_pass = status.map_or_else(
                || {
                    successors(error.source(), |&error| error.source())
                        .any(|of| of.is::<HttpError>())
                },
                |status| matches!(status, 408 | 429 | 500..),
            );
            let kind = if may_pass { io::ErrorKind::TimedOut } else { io::ErrorKind::Other };
            let text = text.split('<').next().unwrap_or_default().trim_end_matches([' ', ':']);
            io::Error::new(kind, text.to_owned())
        }
    }
}

/// The status with which a server has refused something: only the text of an error says it.
fn status(text: &str) -> Option<u16> {
    let (_, status) = text.split_once("status code: ")?;
    status.get(..3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A bucket of a server that gives this answer to whatever it is asked, or closes the
    /// connection if there is none.
    fn bucket(answer: Option<&'static str>) -> Bucket {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(status) = answer else { continue };
                let _ = stream.read(&mut [0; 4096]).await;
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        let store = AmazonS3Builder::new()
            .with_bucket_name("depot")
            .with_access_key_id("someone")
            .with_secret_access_key("something")
            .with_endpoint(format!("http://{address}"))
            .with_allow_http(true)
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() });
        let _ = rustls::crypto::ring::default_provider().install_default();
        Bucket::of(Arc::new(store.build().unwrap()), "census".into())
    }

    /// What may pass is told from what does not, and from what is not there.
    #[tokio::test]
    async fn refusals_are_told_apart() {
        use io::ErrorKind::{NotFound, Other, TimedOut};
        for (answer, kind) in [
            (Some("404 Not Found"), NotFound),
            (Some("403 Forbidden"), Other),
            (Some("400 Bad Request"), Other),
            (Some("503 Slow Down"), TimedOut),
            (None, TimedOut),
        ] {
            let bucket = bucket(answer);
            let bytes = Arc::new(b"bytes".to_vec());
            let answers = [
                bucket.get("00/x", 5).await.map(drop),
                bucket.put("00/x", bytes).await,
                bucket.remove("00/x").await,
                bucket.marks().await.map(drop),
            ];
            for refused in answers {
                assert_eq!(refused.unwrap_err().kind(), kind, "{answer:?}");
            }
        }
    }
}
