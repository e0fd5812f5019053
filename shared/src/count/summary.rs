//! Statistics and public digest of a set of graphs, together.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::{digest::Digest, statistics::Statistics};

/// What a census says of a set of graphs of one order. Summaries of disjoint sets add up. Its
/// bytes are those of the statistics, then those of the digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// What was counted.
    pub statistics: Statistics,
    /// The public digest of all records.
    pub digest: Digest,
}

impl Summary {
    /// Adds what is known of another, disjoint set.
    pub fn add(&mut self, statistics: &Statistics, digest: Digest) {
        self.statistics += statistics;
        self.digest += digest;
    }
}

impl AddAssign<&Summary> for Summary {
    fn add_assign(&mut self, other: &Summary) {
        self.add(&other.statistics, other.digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::codec;

    /// Stores of earlier versions hold the two as a pair, the digest as its 32 bytes.
    #[test]
    fn bytes_are_those_of_the_pair() {
        let bytes = std::array::from_fn(|i| i as u8);
        let summary = Summary { digest: Digest::from_le_bytes(bytes), ..Summary::default() };
        let pair = codec::encode(&(Statistics::default(), bytes));
        assert_eq!(codec::encode(&summary), pair);
        assert_eq!(codec::decode::<Summary>(&pair).unwrap(), summary);
    }
}
