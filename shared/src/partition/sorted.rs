//! Slots in increasing order, as the blocks of keys and of wins hold them.
//!
//! Two forms are read. *Plain*, of blocks of format 1: [`slot_bytes`] bytes for each slot. *Dense*,
//! of blocks of format 2, written wherever it is shorter: the code of Elias (1974) and Fano (1971),
//! which takes at most two bits more for each slot than the average difference between neighbours
//! has. The bits that say the bucket are left out. Of the others the h *high* ones, where 2^h is
//! the number of slots, rounded up to a power of two (or h is all of them, if these are fewer), are
//! told by differences, and the *low* ones as they are:
//!
//! | bits | meaning |
//! |---|---|
//! | count + 2^h - 1, then zeros up to a multiple of 64 | bit v + i is set if v is what the high bits of the i-th slot say |
//! | count × number of low bits, then zeros up to a multiple of 8 | the low bits of each slot |

use super::slot::{mask, read_word, slot_bits, slot_bytes};

/// So many bits can be read from a word of 8 bytes in whichever bit of its first byte they begin.
const MOST_LOW_BITS: u32 = 57;

/// How the slots of a block are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Each in so many bytes.
    Plain { slot_bytes: usize },
    /// Low bits, and differences of high ones.
    Dense { high_bits: u32, low_bits: u32 },
}

impl Form {
    /// Of graphs of order `n`.
    pub(super) fn plain(n: usize) -> Self {
        Form::Plain { slot_bytes: slot_bytes(n) }
    }

    /// The shorter one for `count` slots of order `n` in one of 2^`bucket_bits` buckets.
    pub(super) fn shorter(n: usize, bucket_bits: u8, count: u64) -> Self {
        let bits = slot_bits(n) as u32 - u32::from(bucket_bits);
        let high_bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).min(bits);
        let dense = Form::Dense { high_bits, low_bits: bits - high_bits };
        let plain = Self::plain(n);
        match bits - high_bits <= MOST_LOW_BITS && dense.bytes(count) < plain.bytes(count) {
            true => dense,
            false => plain,
        }
    }

    /// Bytes of so many slots, in whatever header these numbers stand.
    pub(super) fn bytes(self, count: u64) -> u128 {
        let slots = u128::from(count);
        match self {
            Form::Plain { slot_bytes } => slots * slot_bytes as u128,
            Form::Dense { high_bits, low_bits } => {
                8 * words(high_bits, count) + (slots * u128::from(low_bits)).div_ceil(8)
            }
        }
    }

    /// Writes slots of one bucket, in increasing order, after the bytes that are there.
    pub(super) fn write(self, slots: impl ExactSizeIterator<Item = u64>, to: &mut Vec<u8>) {
        match self {
            Form::Plain { slot_bytes } => {
                slots.for_each(|slot| to.extend_from_slice(&slot.to_le_bytes()[..slot_bytes]));
            }
            Form::Dense { high_bits, low_bits } => {
                let (start, count) = (to.len(), slots.len() as u64);
                let end = start + self.bytes(count) as usize;
                // The last low bits too are written as a word.
                to.resize(end + 8, 0);
                let (marks, lows) = to[start..].split_at_mut(8 * words(high_bits, count) as usize);
                for (i, slot) in slots.enumerate() {
                    let mark = (slot >> low_bits & mask(high_bits as usize)) as usize + i;
                    marks[mark / 8] |= 1 << (mark % 8);
                    let (at, shift) = place_of_low(i, low_bits);
                    let low = (slot & mask(low_bits as usize)) << shift;
                    let word = read_word(lows, at) | low;
                    lows[at..at + 8].copy_from_slice(&word.to_le_bytes());
                }
                to.truncate(end);
            }
        }
    }
}

/// Bytes that the slots of `count` graphs of order `n`, in one of 2^`bucket_bits` buckets, take in
/// a block.
pub fn sorted_slots_bytes(n: usize, bucket_bits: u8, count: u64) -> u64 {
    Form::shorter(n, bucket_bits, count).bytes(count) as u64
}

/// Bits that tell the high bits of so many slots.
fn mark_bits(high_bits: u32, count: u64) -> u128 {
    u128::from(count) + (1 << high_bits) - 1
}

/// Words of 64 bits that hold them.
fn words(high_bits: u32, count: u64) -> u128 {
    mark_bits(high_bits, count).div_ceil(64)
}

/// The byte in which the low bits of the i-th slot begin, and the bit in it.
#[inline(always)]
fn place_of_low(i: usize, low_bits: u32) -> (usize, usize) {
    let bit = i * low_bits as usize;
    (bit / 8, bit % 8)
}

/// The slots of a block, in increasing order.
#[derive(Clone, Copy, Debug)]
pub struct Slots<'a> {
    form: Form,
    /// The slots, and at least 8 bytes after them.
    bytes: &'a [u8],
    /// What the bits of a slot that say the bucket add to it.
    base: u64,
    /// The place of the next slot, and the end.
    next: usize,
    count: usize,
    /// Of dense slots: so many words of high bits, so many of which are read, and what is left of
    /// the last of these.
    words: usize,
    read: usize,
    word: u64,
}

impl<'a> Slots<'a> {
    /// Those of a bucket that begin these bytes, which 8 others follow.
    pub(super) fn new(form: Form, bucket: u32, count: usize, bytes: &'a [u8]) -> Self {
        let (base, words) = match form {
            Form::Plain { .. } => (0, 0),
            Form::Dense { high_bits, low_bits } => (
                u64::from(bucket) << (high_bits + low_bits),
                words(high_bits, count as u64) as usize,
            ),
        };
        Slots { form, bytes, base, next: 0, count, words, read: 0, word: 0 }
    }

    /// Whether they can be read: of dense ones, that there are as many as it says. Of what can be
    /// read nothing is said, but that dense slots are of the bucket, and that bits that mean
    /// nothing are zeros, so that the same slots are the same bytes.
    pub(super) fn can_be_read(&self) -> bool {
        let Form::Dense { high_bits, low_bits } = self.form else { return true };
        let word = |i: usize| read_word(self.bytes, 8 * i);
        let marks: usize = (0..self.words).map(|i| word(i).count_ones() as usize).sum();
        let beyond = mark_bits(high_bits, self.count as u64) % 64;
        let (last, used) = place_of_low(self.count, low_bits);
        marks == self.count
            && (beyond == 0 || word(self.words - 1) >> beyond == 0)
            && (used == 0 || self.bytes[8 * self.words + last] >> used == 0)
    }
}

impl Slots<'_> {
    /// Whether slots that can be read increase. Takes a nanosecond or two for each.
    pub(super) fn increase(&self) -> bool {
        match self.form {
            Form::Plain { .. } => self.is_sorted_by(|one, other| one < other),
            // High bits do not decrease, and marks side by side are those of equal ones.
            Form::Dense { low_bits, .. } => {
                let low = |i: usize| {
                    let (at, shift) = place_of_low(i, low_bits);
                    read_word(self.bytes, 8 * self.words + at) >> shift & mask(low_bits as usize)
                };
                let (mut increase, mut before, mut last) = (true, 0, 0);
                for word in (0..self.words).map(|i| read_word(self.bytes, 8 * i)) {
                    let mut equal = word & (word << 1 | last);
                    while equal != 0 {
                        let bit = equal & equal.wrapping_neg();
                        // How many marks come before it.
                        let i = before + (word & (bit - 1)).count_ones() as usize;
                        increase &= low(i - 1) < low(i);
                        equal &= equal - 1;
                    }
                    before += word.count_ones() as usize;
                    last = word >> 63;
                }
                increase
            }
        }
    }

    /// The last one, if there is any, of slots that can be read.
    pub(super) fn end(&self) -> Option<u64> {
        let next = self.count.checked_sub(1)?;
        // Of dense ones the last mark is its own.
        let word = |i: usize| read_word(self.bytes, 8 * i);
        let read = (0..self.words).rfind(|&i| word(i) != 0).map_or(0, |i| i + 1);
        let word = read.checked_sub(1).map_or(0, |i| 1 << word(i).ilog2());
        Slots { next, read, word, ..*self }.next()
    }
}

impl Iterator for Slots<'_> {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        if self.next == self.count {
            return None;
        }
        let slot = match self.form {
            Form::Plain { slot_bytes } => {
                read_word(self.bytes, self.next * slot_bytes) & mask(8 * slot_bytes)
            }
            Form::Dense { low_bits, .. } => {
                while self.word == 0 {
                    self.word = read_word(self.bytes, 8 * self.read);
                    self.read += 1;
                }
                let mark = 64 * (self.read - 1) + self.word.trailing_zeros() as usize;
                self.word &= self.word - 1;
                let high = (mark - self.next) as u64;
                let (at, shift) = place_of_low(self.next, low_bits);
                let low = read_word(self.bytes, 8 * self.words + at) >> shift;
                self.base | high << low_bits | low & mask(low_bits as usize)
            }
        };
        self.next += 1;
        Some(slot)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count - self.next, Some(self.count - self.next))
    }
}

impl ExactSizeIterator for Slots<'_> {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::partition::most_bucket_bits;

    /// Order, bucket bits, bucket, and slots of this bucket: scattered, or close together.
    fn buckets() -> impl Strategy<Value = (usize, u8, u32, Vec<u64>)> {
        (1usize..=20, any::<u8>(), any::<u64>(), any::<u64>(), 0u32..64).prop_flat_map(
            |(n, bits, bucket, from, spread)| {
                let bucket_bits = bits % (most_bucket_bits(n) + 1);
                let free = slot_bits(n) - bucket_bits as usize;
                let bucket = bucket & mask(bucket_bits.into());
                let base = bucket << free;
                let near = move |by: u64| base | (from & mask(free)).wrapping_add(by) & mask(free);
                let offsets = proptest::collection::btree_set(0..=u64::MAX >> spread, 0..300);
                offsets.prop_map(move |offsets| {
                    let slots: BTreeSet<u64> = offsets.into_iter().map(near).collect();
                    (n, bucket_bits, bucket as u32, slots.into_iter().collect())
                })
            },
        )
    }

    proptest! {
        /// Both forms give back what was written.
        #[test]
        fn slots_come_back((n, bucket_bits, bucket, slots) in buckets()) {
            let count = slots.len() as u64;
            for form in [Form::plain(n), Form::shorter(n, bucket_bits, count)] {
                let mut bytes = vec![0xff; 5];
                form.write(slots.iter().copied(), &mut bytes);
                prop_assert_eq!(bytes.len() as u128, 5 + form.bytes(count));
                bytes.extend([0xff; 8]);
                let read = Slots::new(form, bucket, slots.len(), &bytes[5..]);
                prop_assert!(read.can_be_read() && read.increase());
                prop_assert_eq!(read.end(), slots.last().copied());
                prop_assert_eq!(read.len(), slots.len());
                prop_assert!(read.eq(slots.iter().copied()));
            }
        }

        /// Whatever bytes are said to be dense slots, they can be told to be none, or are the bytes
        /// that their slots are written as.
        #[test]
        fn other_bytes_are_not_read_or_are_the_same(
            (n, bucket_bits, bucket, slots) in buckets(),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), 0u32..8), 0..4),
        ) {
            let form = Form::shorter(n, bucket_bits, slots.len() as u64);
            let mut bytes = Vec::new();
            form.write(slots.iter().copied(), &mut bytes);
            let length = bytes.len();
            if length > 0 && form != Form::plain(n) {
                changes.iter().for_each(|(at, bit)| bytes[at.index(length)] ^= 1 << bit);
                bytes.extend([0; 8]);
                let read = Slots::new(form, bucket, slots.len(), &bytes);
                if read.can_be_read() {
                    let found: Vec<u64> = read.collect();
                    prop_assert_eq!(read.increase(), found.is_sorted_by(|one, other| one < other));
                    prop_assert_eq!(read.end(), found.last().copied());
                    let mut again = Vec::new();
                    form.write(read, &mut again);
                    prop_assert_eq!(&again, &bytes[..length]);
                }
            }
        }
    }

    /// No number in a header makes a length overflow, and what is written of a million slots is
    /// about half of what it was.
    #[test]
    fn dense_slots_are_short() {
        for n in 1..=20 {
            for count in [0, 1, u64::MAX] {
                assert!(Form::shorter(n, 0, count).bytes(count) <= u128::from(count) * 8);
            }
        }
        assert_eq!(Form::plain(11).bytes(1 << 20), 6 << 20);
        // 25 low bits, and two of the high ones.
        assert_eq!(sorted_slots_bytes(11, 0, 1 << 20), (27 << 20) / 8);
        assert_eq!(sorted_slots_bytes(11, 4, 1 << 20), (23 << 20) / 8);
    }
}
