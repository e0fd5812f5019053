//! The place of a graph within its partition: a scrambled key, and the bucket that it falls into.

use crate::{
    graph::{Graph, degree::DegreeSequence},
    labelling::{Labelling, MAX_PLAIN_ORDER, graph_of_key, hashed, key_bits, number},
};

/// 2^64 divided by the golden ratio, and odd, so that multiplying with it is a bijection. Frozen:
/// with another number every slot changes, and with it the order of entries in all blocks.
const SCRAMBLE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Bits of a slot of order `n`, and of a short key.
#[inline]
pub const fn slot_bits(n: usize) -> usize {
    if n <= MAX_PLAIN_ORDER { key_bits(n) } else { number::NUMBER_BITS }
}

/// By so many bits of their slots graphs may be put into buckets. Beyond order 12 there are no
/// buckets: requests to them would not have room for slot and labels.
pub const fn most_bucket_bits(n: usize) -> u8 {
    match n {
        0..=MAX_PLAIN_ORDER if key_bits(n) < 24 => key_bits(n) as u8,
        0..=MAX_PLAIN_ORDER => 24,
        _ => 0,
    }
}

/// The slot of a short key of order `n`: a bijection of the numbers of [`slot_bits`] bits.
#[inline]
pub fn slot_of_key(n: usize, key: u64) -> u64 {
    let bits = slot_bits(n);
    (key ^ (key >> bits.div_ceil(2).max(1))).wrapping_mul(SCRAMBLE) & mask(bits)
}

/// Where a graph stands, by the labelling of stored data: its own slot in the
/// partition of its degree sequence.
pub fn slot_of(graph: &Graph) -> u64 {
    slot_of_labelled(graph, &hashed::label(graph))
}

/// The same for a graph whose labelling by [`hashed`] is known.
pub fn slot_of_labelled(graph: &Graph, labelling: &Labelling) -> u64 {
    slot_of_key(graph.order(), labelling.short_key(graph))
}

/// Where the graphs stand that have one edge of this one less: for each edge, the partition of a
/// degree sequence, and the slot in it.
pub fn places_without_an_edge(graph: &Graph) -> impl Iterator<Item = (DegreeSequence, u64)> {
    graph.edges().map(|(u, w)| {
        let rest = graph.without_edge(u, w);
        (DegreeSequence::of(&rest), slot_of(&rest))
    })
}

/// The inverse of [`slot_of_key`].
#[inline]
pub fn key_of_slot(n: usize, slot: u64) -> u64 {
    let bits = slot_bits(n);
    let product = slot.wrapping_mul(inverse(SCRAMBLE)) & mask(bits);
    // Shifting by at least half the width, the step undoes itself.
    product ^ (product >> bits.div_ceil(2).max(1))
}

/// The graph, in canonical labels, at this slot of the partition of `sequence`; `None` if there is
/// none.
pub fn graph_of_slot(sequence: &DegreeSequence, slot: u64) -> Option<Graph> {
    let key = key_of_slot(sequence.order(), slot);
    match sequence.order() <= MAX_PLAIN_ORDER {
        true => graph_of_key(u128::from(key), sequence.bytes()),
        false => number::graph_of_number(key, sequence),
    }
}

#[inline]
pub(super) const fn mask(bits: usize) -> u64 {
    if bits == 0 { 0 } else { u64::MAX >> (64 - bits) }
}

/// The 8 bytes from this one on.
#[inline(always)]
pub(super) fn read_word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
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

/// Bytes of a slot of order `n` in tables and, where slots are plain, in blocks.
pub fn slot_bytes(n: usize) -> usize {
    slot_bits(n).div_ceil(8)
}

/// The bucket of a slot when there are 2^`bucket_bits` buckets.
#[inline(always)]
pub fn bucket_of_slot(n: usize, slot: u64, bucket_bits: u8) -> usize {
    (slot >> (slot_bits(n) - bucket_bits as usize)) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slots_are_scrambled_keys(n in 1usize..=20, key: u64) {
            let key = key & mask(slot_bits(n));
            prop_assert_eq!(key_of_slot(n, slot_of_key(n, key)), key);
            prop_assert!(slot_of_key(n, key) <= mask(slot_bits(n)));
        }
    }
}
