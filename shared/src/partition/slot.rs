//! The place of a graph within its partition: a scrambled key, and the bucket that it falls into.

use crate::{
    graph::{Graph, degree::DegreeSequence},
    labelling::{graph_of_key, hashed, key_bits},
};

/// 2^64 divided by the golden ratio, and odd, so that multiplying with it is a bijection. Frozen:
/// with another number every slot changes, and with it the order of entries in all blocks.
const SCRAMBLE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The slot of a key of order `n` ≤ 12: a bijection of the numbers below 2^C(n−1,2).
#[inline]
pub fn slot_of_key(n: usize, key: u64) -> u64 {
    let bits = key_bits(n);
    (key ^ (key >> bits.div_ceil(2).max(1))).wrapping_mul(SCRAMBLE) & mask(bits)
}

/// Where a graph of order ≤ 12 stands, by the labelling of stored data: its own slot in the
/// partition of its degree sequence.
pub fn slot_of(graph: &Graph) -> u64 {
    slot_of_key(graph.order(), hashed::label(graph).key as u64)
}

/// The inverse of [`slot_of_key`].
#[inline]
pub fn key_of_slot(n: usize, slot: u64) -> u64 {
    let bits = key_bits(n);
    let product = slot.wrapping_mul(inverse(SCRAMBLE)) & mask(bits);
    // Shifting by at least half the width, the step undoes itself.
    product ^ (product >> bits.div_ceil(2).max(1))
}

/// The graph, in canonical labels, at this slot of the partition of `sequence`; `None` if there is
/// none.
pub fn graph_of_slot(sequence: &DegreeSequence, slot: u64) -> Option<Graph> {
    graph_of_key(u128::from(key_of_slot(sequence.order(), slot)), sequence.bytes())
}

#[inline]
pub(super) const fn mask(bits: usize) -> u64 {
    if bits == 0 { 0 } else { u64::MAX >> (64 - bits) }
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut bits = 3;
    while bits < 64 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
}

/// Bytes of a slot of order `n`.
pub fn slot_bytes(n: usize) -> usize {
    key_bits(n).div_ceil(8)
}

/// The bucket of a slot when there are 2^`bucket_bits` buckets.
#[inline(always)]
pub fn bucket_of_slot(n: usize, slot: u64, bucket_bits: u8) -> usize {
    (slot >> (key_bits(n) - bucket_bits as usize)) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slots_are_scrambled_keys(n in 1usize..=12, key: u64) {
            let key = key & mask(key_bits(n));
            prop_assert_eq!(key_of_slot(n, slot_of_key(n, key)), key);
            prop_assert!(slot_of_key(n, key) <= mask(key_bits(n)));
        }
    }
}
