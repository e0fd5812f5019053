//! The recurrence of the census: a graph is combined from the graphs with one edge less.
//!
//! After both first moves a position is (H; a, b): H the unused edges, a the token of the player
//! to move, b the other.
//!
//! * W(H; a, b), the player to move wins: ∃ w ∈ N(a): ¬ W(H − aw; b, w).
//! * R(H; v), P2, still to place a token, beats P1's token at v: ∃ xy ∈ E: ¬ W(H − xy; v, y) ∨ ¬
//!   W(H − xy; v, x).
//! * P1 wins G: ∃ uv ∈ E: ¬ R(G − uv; v) ∨ ¬ R(G − uv; u).

use crate::game::{Answer, Game, Tally};
use crate::graph::{MAX_ORDER, VertexSet, all_vertices, map_sets, transpose};

/// The game of the census.
#[derive(Clone, Copy, Debug)]
pub struct TrailTrap;

/// Who wins every position on one graph H.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// `wins[a]` is { b : W(H; a, b) }.
    pub wins: [VertexSet; MAX_ORDER],
    /// { v : R(H; v) }.
    pub refuted: VertexSet,
    /// Number of first moves that win for P1; P1 wins H if there is one.
    pub first_moves: u16,
}

/// A record holds, bit by bit from the lowest: for y = 0, …, n − 1 the column { a : W(H; a, y) }
/// of n bits, the set { v : R(H; v) } of n bits, and one bit that is set if P1 wins. Left-over
/// bits of the last byte are zero.
impl Game for TrailTrap {
    const ID: u16 = 1;

    type Outcome = Outcome;

    fn record_bits(n: usize) -> usize {
        n * n + n + 1
    }

    fn encode(n: usize, outcome: &Outcome, record: &mut [u8]) {
        let columns = transpose(n, &outcome.wins);
        let mut words = [0u64; (MAX_ORDER * MAX_ORDER + MAX_ORDER + 1).div_ceil(64)];
        for y in 0..n {
            put_bits(&mut words, y * n, columns[y]);
        }
        put_bits(&mut words, n * n, outcome.refuted);
        put_bits(&mut words, n * n + n, u16::from(outcome.first_moves > 0));
        for (bytes, word) in record.chunks_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
        }
    }

    fn relabelled(n: usize, outcome: &Outcome, label: &[u8]) -> Outcome {
        let wins = map_sets(n, &outcome.wins, label);
        let mut relabelled = Outcome::default();
        for a in 0..n {
            relabelled.wins[label[a] as usize] = wins[a];
            relabelled.refuted |= (outcome.refuted >> a & 1) << label[a];
        }
        relabelled.first_moves = outcome.first_moves;
        relabelled
    }

    #[inline(always)]
    fn ask(n: usize, record: &[u8], u: usize, w: usize) -> Answer {
        let refuted = bits(record, n * n, n);
        Answer {
            sets: [bits(record, u * n, n), bits(record, w * n, n)],
            flags: refuted >> u & 1 | (refuted >> w & 1) << 1,
        }
    }

    #[inline(always)]
    fn fold(n: usize, outcome: &mut Outcome, u: usize, w: usize, answer: &Answer) {
        // In H − uw the opponent, to move from b, loses against a token at u, or at w.
        let [lost_against_u, lost_against_w] = answer.sets.map(|column| !column & all_vertices(n));
        outcome.wins[u] |= lost_against_w;
        outcome.wins[w] |= lost_against_u;
        outcome.refuted |= lost_against_u | lost_against_w;
        outcome.first_moves += 2 - answer.flags.count_ones() as u16;
    }

    fn tally(n: usize, outcome: &Outcome) -> Tally {
        Tally {
            p1_wins: outcome.first_moves > 0,
            won_positions: outcome.wins[..n].iter().map(|row| row.count_ones()).sum(),
            refuted_ends: outcome.refuted.count_ones(),
            winning_first_moves: u32::from(outcome.first_moves),
        }
    }

    fn p1_wins(n: usize, record: &[u8]) -> bool {
        bits(record, n * n + n, 1) == 1
    }
}

impl TrailTrap {
    /// The numbers of rooted positions won by the player to move, and of ends of the first move
    /// that P2 beats, read from a record.
    pub fn sums(n: usize, record: &[u8]) -> (u32, u32) {
        (
            (0..n).map(|y| bits(record, y * n, n).count_ones()).sum(),
            bits(record, n * n, n).count_ones(),
        )
    }

    /// Reads a record back, apart from the number of winning first moves, of which it tells only
    /// whether it is zero.
    pub fn decode(n: usize, record: &[u8]) -> Outcome {
        let columns = std::array::from_fn(|y| if y < n { bits(record, y * n, n) } else { 0 });
        Outcome {
            wins: transpose(n, &columns),
            refuted: bits(record, n * n, n),
            first_moves: u16::from(Self::p1_wins(n, record)),
        }
    }
}

/// The `count` ≤ 16 bits from bit `start` on. A record of order n ≤ 12 has at least three bytes
/// where it is read, or ends.
#[inline(always)]
fn bits(record: &[u8], start: usize, count: usize) -> u16 {
    let byte = start / 8;
    let word = match record.get(byte..byte + 4) {
        Some(four) => u32::from_le_bytes(four.try_into().expect("four bytes")),
        None => record[byte..].iter().rev().fold(0, |word, &b| word << 8 | u32::from(b)),
    };
    (word >> (start % 8)) as u16 & all_vertices(count)
}

#[inline(always)]
fn put_bits(words: &mut [u64], start: usize, value: u16) {
    let (word, bit) = (start / 64, start % 64);
    words[word] |= u64::from(value) << bit;
    if bit > 48 {
        words[word + 1] |= u64::from(value) >> (64 - bit);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::game::record_bytes;

    proptest! {
        #[test]
        fn records_keep_outcomes(
            n in 1usize..=16,
            wins: [u16; 16],
            refuted: u16,
            first_moves in 0u16..2,
        ) {
            let mut outcome =
                Outcome { refuted: refuted & all_vertices(n), first_moves, ..Outcome::default() };
            (0..n).for_each(|a| outcome.wins[a] = wins[a] & all_vertices(n));
            let mut record = vec![0xff; record_bytes::<TrailTrap>(n)];
            TrailTrap::encode(n, &outcome, &mut record);
            prop_assert_eq!(TrailTrap::decode(n, &record), outcome);
            prop_assert_eq!(TrailTrap::p1_wins(n, &record), first_moves == 1);
            let Tally { won_positions, refuted_ends, .. } = TrailTrap::tally(n, &outcome);
            prop_assert_eq!(TrailTrap::sums(n, &record), (won_positions, refuted_ends));
            for (u, w) in [(0, n - 1), (n / 2, n / 3)] {
                let answer = TrailTrap::ask(n, &record, u, w);
                let column =
                    |y: usize| (0..n).fold(0, |set, a| set | (outcome.wins[a] >> y & 1) << a);
                prop_assert_eq!(answer.sets, [column(u), column(w)]);
                prop_assert_eq!(
                    answer.flags,
                    outcome.refuted >> u & 1 | (outcome.refuted >> w & 1) << 1
                );
            }
        }
    }
}
