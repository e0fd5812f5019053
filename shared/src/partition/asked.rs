//! What is asked for of a bucket of which most is not.

use super::slot::{mask, slot_bits};

/// So many bits are there at least for each slot that is asked for, so that of the other slots of the
/// bucket one in so many at most, on average, is taken for one that is.
const BITS_FOR_EACH: usize = 16;

/// Slots of one bucket that are asked for: all of them and few others are [`Asked::may_have`]. Slots
/// are scrambled, so that their highest bits alone tell most of them apart.
pub struct Asked {
    /// A bit for each of the equal ranges of the slots of the bucket.
    bits: Vec<u64>,
    /// The number of lowest bits of a slot that do not say its range.
    low_bits: u32,
    /// Those that do, without those of the bucket.
    range_mask: u64,
}

impl Asked {
    /// Such a part of the slots that are not asked for, at most, is taken for some that are, on average.
    pub const TAKEN_FOR_ASKED: f64 = 1.0 / BITS_FOR_EACH as f64;

    /// Of a bucket of order `n`, one of 2^`bucket_bits`, of which about `many` slots will be asked
    /// for.
    pub fn new(n: usize, bucket_bits: u8, many: usize) -> Self {
        let bits = slot_bits(n) as u32 - u32::from(bucket_bits);
        let range_bits = (many.saturating_mul(BITS_FOR_EACH).max(1).ilog2() + 1).min(bits);
        Asked {
            bits: vec![0; (1usize << range_bits).div_ceil(64)],
            low_bits: bits - range_bits,
            range_mask: mask(range_bits as usize),
        }
    }

    /// Asks for a slot of the bucket.
    #[inline(always)]
    pub fn ask(&mut self, slot: u64) {
        let range = self.range(slot);
        self.bits[range / 64] |= 1 << (range % 64);
    }

    /// Whether this slot of the bucket is asked for, or one in its range.
    #[inline(always)]
    pub fn may_have(&self, slot: u64) -> bool {
        let range = self.range(slot);
        self.bits[range / 64] >> (range % 64) & 1 == 1
    }

    #[inline(always)]
    fn range(&self, slot: u64) -> usize {
        (slot >> self.low_bits & self.range_mask) as usize
    }

    /// Those of the slots of a bucket, each with its place among them.
    pub(super) fn among(&self, mut slots: impl ExactSizeIterator<Item = u64>) -> Vec<(u64, u32)> {
        // Memory that is not written takes none.
        let mut kept = Vec::with_capacity(slots.len());
        let (mut some, mut place) = ([(0, 0); TOGETHER], 0);
        while slots.len() > 0 {
            // Where any may be left out as well as kept, the processor would guess wrong.
            let mut count = 0;
            for slot in slots.by_ref().take(TOGETHER) {
                some[count] = (slot, place);
                count += usize::from(self.may_have(slot));
                place += 1;
            }
            kept.extend_from_slice(&some[..count]);
        }
        kept
    }
}

/// So many slots are gone through at a time.
const TOGETHER: usize = 64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::partition::most_bucket_bits;

    proptest! {
        /// What is asked for is never left out, whatever bits say the bucket.
        #[test]
        fn nothing_that_is_asked_for_is_left_out(
            n in 1usize..=20,
            bucket_bits: u8,
            bucket: u64,
            slots in proptest::collection::btree_set(any::<u64>(), 1..300),
            many in 0usize..300,
        ) {
            let bucket_bits = bucket_bits % (most_bucket_bits(n) + 1);
            let free = slot_bits(n) - bucket_bits as usize;
            let base = (bucket & mask(bucket_bits.into())).checked_shl(free as u32).unwrap_or(0);
            let slots: BTreeSet<u64> =
                slots.into_iter().map(|slot| base | slot & mask(free)).collect();
            let mut asked = Asked::new(n, bucket_bits, many);
            let (one_in_two, others): (Vec<_>, Vec<_>) =
                (0..).zip(slots.iter().copied()).partition(|(i, _)| i % 2 == 0);
            one_in_two.iter().for_each(|&(_, slot)| asked.ask(slot));
            let kept = asked.among(slots.iter().copied().collect::<Vec<_>>().into_iter());
            for (i, slot) in one_in_two {
                prop_assert!(kept.contains(&(slot, i)));
            }
            for (i, slot) in others {
                prop_assert_eq!(kept.contains(&(slot, i)), asked.may_have(slot));
            }
        }
    }

    /// Of scattered slots few are kept that nobody asked for.
    #[test]
    fn most_of_what_is_not_asked_for_is_left_out() {
        const MANY: u64 = 10_000;
        // As if at random.
        let slot = |i: u64| {
            let mixed = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) & mask(slot_bits(11))
        };
        let mut asked = Asked::new(11, 0, MANY as usize);
        (0..MANY).for_each(|i| asked.ask(slot(i)));
        let kept = (MANY..2 * MANY).filter(|&i| asked.may_have(slot(i))).count();
        assert!((1..MANY as usize / BITS_FOR_EACH).contains(&kept), "{kept}");
    }
}
