//! What the files of tasks and results hold: messages, each after its length, and their checksums.

use std::{
    fs::File,
    io::{self, BufReader, Read, Write},
    ops::Range,
    path::Path,
};

use prost::{Message, decode_length_delimiter, encode_length_delimiter};
use trailtrap_shared::{
    partition::{CHECKSUM_BYTES, Checksum},
    protocol::wire,
};

use super::directory::{OfflineError, damaged, reading};
use crate::link::Lease;

/// The length of a message takes no more bytes.
const MAX_PREFIX: usize = 10;

/// Writes a message after its length, followed by its checksum.
pub(super) fn write_checked(message: &impl Message, out: &mut dyn Write) -> io::Result<()> {
    let bytes = message.encode_to_vec();
    let mut length = Vec::with_capacity(MAX_PREFIX);
    encode_length_delimiter(bytes.len(), &mut length)?;
    out.write_all(&length)?;
    out.write_all(&bytes)?;
    out.write_all(&Checksum::of_bytes(&bytes).0)
}

/// The bytes of the messages of a result.
pub(super) fn pack_result(messages: impl IntoIterator<Item = wire::CompleteRequest>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        bytes.extend(message.encode_length_delimited_to_vec());
    }
    let checksum = Checksum::of_bytes(&bytes);
    bytes.extend(checksum.0);
    bytes
}

/// The messages of a result; `None` if another courier has put out the task that it is of. Leases of
/// another census may have the same numbers.
pub(super) fn unpack_result(
    path: &Path,
    bytes: &[u8],
    lease: &Lease,
) -> Result<Option<Vec<wire::CompleteRequest>>, OfflineError> {
    use wire::complete_request::Part;
    let mut bytes = checked(bytes).map_err(|what| damaged(path, what))?;
    let mut messages: Vec<wire::CompleteRequest> = Vec::new();
    while let Some(message) = next(path, &mut bytes)? {
        messages.push(message);
    }
    let Some(Part::Start(start)) = messages.first().and_then(|message| message.part.as_ref())
    else {
        return Err(damaged(path, "it does not say of which task it is"));
    };
    match (start.worker, start.lease) {
        (worker, number) if (worker, number) == (lease.worker, lease.number) => Ok(Some(messages)),
        (0, _) => Err(damaged(path, "it is of a worker of an older version")),
        (_, number) if number != lease.number => Err(damaged(path, "it belongs to another task")),
        _ => Ok(None),
    }
}

/// A file of messages, each after its length, read one by one.
pub(super) struct Messages<'a> {
    path: &'a Path,
    file: BufReader<&'a File>,
    /// Where the next one begins.
    place: u64,
    /// The bytes of the file.
    end: u64,
}

impl<'a> Messages<'a> {
    /// Those of a file of so many bytes, from its beginning on.
    pub(super) fn of(path: &'a Path, file: &'a File, bytes: u64) -> Self {
        Messages { path, file: BufReader::new(file), place: 0, end: bytes }
    }

    /// Where the next one begins.
    pub(super) fn place(&self) -> u64 {
        self.place
    }

    /// The next message, of this many bytes at most, and its place, with its checksum and without its
    /// length; `None` at the end of the file.
    pub(super) fn next<M: Message + Default>(
        &mut self,
        most: u64,
    ) -> Result<Option<(M, Range<u64>)>, OfflineError> {
        let left = self.end - self.place;
        if left == 0 {
            return Ok(None);
        }
        let mut prefix = Vec::new();
        for byte in (&mut self.file).bytes().take(MAX_PREFIX.min(left as usize)) {
            prefix.push(byte.map_err(reading(self.path))?);
            if prefix.last().is_some_and(|byte| byte & 0x80 == 0) {
                break;
            }
        }
        let length =
            decode_length_delimiter(&prefix[..]).map_err(|error| damaged(self.path, error))?;
        let start = self.place + prefix.len() as u64;
        let length = length as u64;
        if length > most || length + CHECKSUM_BYTES as u64 > self.end - start {
            let what = format!("a message of {length} bytes is not all there");
            return Err(damaged(self.path, what));
        }
        let mut bytes = vec![0; length as usize + CHECKSUM_BYTES];
        self.file.read_exact(&mut bytes).map_err(reading(self.path))?;
        self.place = start + bytes.len() as u64;
        let message = decode_checked(&bytes).map_err(|what| damaged(self.path, what))?;
        Ok(Some((message, start..self.place)))
    }
}

/// What comes before a checksum, if it is sound.
fn checked(bytes: &[u8]) -> Result<&[u8], String> {
    let parts = bytes.split_last_chunk::<CHECKSUM_BYTES>();
    let sound = parts.filter(|(bytes, sum)| Checksum::of_bytes(bytes).0 == **sum);
    let other = || "its checksum is missing or another one".to_owned();
    sound.map(|(bytes, _)| bytes).ok_or_else(other)
}

/// A message that is followed by its checksum.
pub(super) fn decode_checked<M: Message + Default>(bytes: &[u8]) -> Result<M, String> {
    M::decode(checked(bytes)?).map_err(|error| error.to_string())
}

/// The next message of `bytes`; `None` at their end.
fn next<M: Message + Default>(path: &Path, bytes: &mut &[u8]) -> Result<Option<M>, OfflineError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    M::decode_length_delimited(bytes).map(Some).map_err(|error| damaged(path, error))
}
