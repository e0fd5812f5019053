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
use tokio::time::timeout;
use url::Url;

/// A single request may take so long, a large block on a slow line included.
const REQUEST: Duration = Duration::from_secs(120);
/// After so long no attempt is made to repeat one.
const RETRIES: Duration = Duration::from_secs(15);
/// What moves no block is not waited for longer than this, with all attempts.
const ANSWER: Duration = Duration::from_secs(20);

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
        let bucket = configured(AmazonS3Builder::from_env().with_url(place)).with_retry(retry);
        Ok(Some(Bucket::of(Arc::new(bucket.build().map_err(cause)?), prefix)))
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
        soon(self.0.head(&Path::from(name))).await.map(|object| object.size)
    }

    /// Removes the object with that name. Most stores do not say whether it was there.
    pub(super) async fn remove(&self, name: &str) -> io::Result<()> {
        soon(self.0.delete(&Path::from(name))).await
    }

    /// The names of the objects beside the blocks: those without a slash.
    pub(super) async fn names(&self) -> io::Result<Vec<String>> {
        let found = match soon(self.0.list_with_delimiter(None)).await {
            // Of lists a missing bucket is told by the text alone.
            Err(error) if status(&error.to_string()) == Some(404) => Err(no_such_place()),
            found => found,
        }?;
        let names = found.objects.iter().filter_map(|object| object.location.filename());
        Ok(names.map(str::to_owned).collect())
    }
}

/// What every bucket is to have.
fn configured(bucket: AmazonS3Builder) -> AmazonS3Builder {
    let timeout = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
    bucket
        .with_config(timeout, format!("{} seconds", REQUEST.as_secs()))
        // Not every store removes several objects at a time.
        .with_config(AmazonS3ConfigKey::DisableBulkDelete, "true")
}

/// What comes of something that is answered soon, or not at all.
async fn soon<T>(asked: impl Future<Output = object_store::Result<T>>) -> io::Result<T> {
    match timeout(ANSWER, asked).await {
        Ok(answer) => answer.map_err(cause),
        Err(late) => Err(io::Error::new(io::ErrorKind::TimedOut, late)),
    }
}

/// What an object is to have, without a copy.
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn no_such_place() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "there is no such place")
}

/// What went wrong, without what a server has to say about it but for its code: that may repeat
/// what it was sent, tokens included.
fn cause(error: Error) -> io::Error {
    let text = error.to_string();
    match (&error, status(&text)) {
        (Error::NotFound { .. }, _) => no_such_place(),
        (Error::PermissionDenied { .. } | Error::Unauthenticated { .. }, _)
        | (_, Some(401 | 403)) => io::Error::other(
            "access is denied; are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the like right?",
        ),
        (_, status) => {
            let code = code(&text);
            // Whoever answered was busy, or nobody did.
            let may_pass = status.map_or_else(
                || {
                    successors(error.source(), |&error| error.source())
                        .any(|of| of.is::<HttpError>())
                },
                |status| matches!(status, 408 | 429 | 500..) || code == Some("RequestTimeout"),
            );
            let kind = if may_pass { io::ErrorKind::TimedOut } else { io::ErrorKind::Other };
            // Behind the status, or where there is none a tag, comes what a server says.
            let said = match text.find(STATUS).map(|at| at + STATUS.len()) {
                Some(status) => text[status..].find([':', '<']).map(|end| status + end),
                None => text.find('<'),
            };
            let said = text[..said.unwrap_or(text.len())].trim_end_matches([' ', ':']);
            let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
            io::Error::new(kind, format!("{said}{code}"))
        }
    }
}

/// What stands before a status.
const STATUS: &str = "status code: ";

/// The status with which a server has refused something: only the text of an error says it.
fn status(text: &str) -> Option<u16> {
    let (_, status) = text.split_once(STATUS)?;
    status.get(..3)?.parse().ok()
}

/// The code that a server has given with it.
fn code(text: &str) -> Option<&str> {
    let (_, code) = text.split_once("<Code>")?;
    let (code, _) = code.split_once("</Code>")?;
    code.bytes().all(|byte| byte.is_ascii_alphanumeric()).then_some(code)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A bucket of a server that gives this answer to whatever it is asked, a status and a body, or
    /// closes the connection if there is none.
    fn bucket(answer: Option<[&'static str; 2]>) -> Bucket {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some([status, body]) = answer else { continue };
                let _ = stream.read(&mut [0; 4096]).await;
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        let store = configured(AmazonS3Builder::new())
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
        const DENIED: &str = "<Error><Code>AccessDenied</Code><Token>hunter2</Token></Error>";
        const LATE: &str = "<Error><Code>RequestTimeout</Code><Token>hunter2</Token></Error>";
        for (answer, kind) in [
            (Some(["404 Not Found", ""]), NotFound),
            (Some(["403 Forbidden", DENIED]), Other),
            (Some(["400 Bad Request", "hunter2"]), Other),
            (Some(["400 Bad Request", LATE]), TimedOut),
            (Some(["503 Slow Down", "hunter2"]), TimedOut),
            (None, TimedOut),
        ] {
            let bucket = bucket(answer);
            let bytes = Arc::new(b"bytes".to_vec());
            let mut answers = vec![
                bucket.get("00/x", 5).await.map(drop),
                bucket.put("00/x", bytes).await,
                bucket.remove("00/x").await,
                bucket.names().await.map(drop),
            ];
            // Without a body there is no code.
            if answer.is_none_or(|[_, body]| body != LATE) {
                answers.push(bucket.length("00/x").await.map(drop));
            }
            for refused in answers {
                let error = refused.unwrap_err();
                assert_eq!(error.kind(), kind, "{answer:?}: {error}");
                assert!(!error.to_string().contains("hunter2"), "{error}");
            }
        }
    }
}
