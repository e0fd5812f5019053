//! Plain structures as bytes, with a format version in front. The only user of bincode, so that a
//! successor can take its place here.

use serde::{Serialize, de::DeserializeOwned};

/// Version of the byte format. Another number makes everything unreadable that stores and bundles
/// keep in this format.
const VERSION: u8 = 1;

/// Why bytes could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// There are no bytes at all.
    #[error("no bytes")]
    Empty,
    /// The bytes are of another version of the format.
    #[error("structures of format {found}, this program reads format {VERSION}")]
    Version {
        /// The version in the first byte.
        found: u8,
    },
    /// The bytes are no structure of the type.
    #[error("malformed structure: {0}")]
    Malformed(#[from] bincode::error::DecodeError),
    /// The structure ends before the bytes do.
    #[error("{0} bytes left over after the structure")]
    TrailingBytes(usize),
    /// [`encode`] makes other bytes of the structure, for instance because a map repeats a key.
    #[error("a structure written otherwise than this program writes it")]
    Unusual,
}

/// Fixed-width little-endian integers, and no more than 64 MiB claimed by any length.
fn config() -> impl bincode::config::Config {
    bincode::config::standard()
        .with_little_endian()
        .with_fixed_int_encoding()
        .with_limit::<{ 64 << 20 }>()
}

/// The bytes of a structure.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bincode::serde::encode_into_std_write(value, &mut bytes, config())
        .expect("plain structures encode into memory");
    bytes
}

/// Reads a structure. The bytes must be those that [`encode`] makes of it, so that a map, for
/// instance, names each key once, in order; this costs encoding the structure again.
///
/// # Errors
/// [`CodecError`] if the bytes are of another version, malformed, too many, or not what [`encode`]
/// makes of the structure.
pub fn decode<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (&version, body) = bytes.split_first().ok_or(CodecError::Empty)?;
    if version != VERSION {
        return Err(CodecError::Version { found: version });
    }
    let (value, used): (T, usize) = bincode::serde::decode_from_slice(body, config())?;
    match body.len() - used {
        0 if encode(&value) == bytes => Ok(value),
        0 => Err(CodecError::Unusual),
        left => Err(CodecError::TrailingBytes(left)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn round_trip(value: (u128, String, Vec<u32>, Option<i64>)) {
            prop_assert_eq!(
                decode::<(u128, String, Vec<u32>, Option<i64>)>(&encode(&value)).unwrap(),
                value
            );
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode::<(u128, String, Vec<u32>)>(&bytes);
        }
    }

    #[test]
    fn a_map_that_names_a_key_twice_is_refused() {
        let twice = encode(&vec![(1u8, 7u8), (1, 8)]);
        assert_eq!(decode::<Vec<(u8, u8)>>(&twice).unwrap(), [(1, 7), (1, 8)]);
        assert!(matches!(decode::<BTreeMap<u8, u8>>(&twice), Err(CodecError::Unusual)));
    }

    #[test]
    fn other_versions_and_left_over_bytes_are_refused() {
        let mut bytes = encode(&7u32);
        bytes.push(0);
        assert!(matches!(decode::<u32>(&bytes), Err(CodecError::TrailingBytes(1))));
        bytes[0] = 9;
        assert!(matches!(decode::<u32>(&bytes), Err(CodecError::Version { found: 9 })));
    }
}
