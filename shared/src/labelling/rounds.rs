//! One round of colour refinement, in lanes: the refinements of [`super::hashed`] and of
//! [`super::reference`].

use super::{
    Alike, hashed,
    lanes::{Lane, Lanes},
};
use crate::graph::NARROW_ORDER;

/// How colours are refined.
pub(super) trait Refinement {
    /// The colours of a part of the lanes after one more round. In each lane vertices have colours
    /// as `alike` says.
    fn round<L: Lanes, const N: usize>(
        token: L::Token,
        rows: &[Lane; NARROW_ORDER],
        alike: &Alike,
        part: usize,
        colours: &[L; N],
    ) -> [L; N];
}

// Plain loops throughout: what is called in a closure is not inlined, as closures are compiled
// without the instruction set.

/// The refinement of [`hashed`].
pub(super) struct Hashed;

impl Refinement for Hashed {
    #[inline(always)]
    fn round<L: Lanes, const N: usize>(
        token: L::Token,
        rows: &[Lane; NARROW_ORDER],
        alike: &Alike,
        part: usize,
        colours: &[L; N],
    ) -> [L; N] {
        let [a, b, c] = hashed::SCRAMBLE;
        let (a, b, c) = (L::splat(token, a), L::splat(token, b), L::splat(token, c));
        let mut scrambled = [L::splat(token, 0); N];
        for v in 0..N {
            let x = colours[v].mul(a).add(b);
            scrambled[v] = x.xor(x.shr(7)).mul(c);
        }
        let mut words = [L::splat(token, 0); N];
        for w in 1..N {
            for v in 0..w {
                let joined = L::load(token, &rows[v], part).meets(L::splat(token, 1 << w));
                words[v] = words[v].add_where(joined, scrambled[w]);
                words[w] = words[w].add_where(joined, scrambled[v]);
            }
        }
        // Old colour, then hashed neighbourhood; with the top bit flipped words compare as signed
        // numbers.
        for v in 0..N {
            words[v] = colours[v].shl(12).or(words[v].shr(4)).xor(L::splat(token, 1 << 15));
        }
        let one = L::splat(token, 1);
        let mut ranks = [L::splat(token, 0); N];
        for w in 1..N {
            ranks[w] = L::splat(token, alike[w].into());
            for v in (0..w).rev() {
                if v < usize::from(alike[w]) {
                    break;
                }
                ranks[w] = ranks[w].add_where(words[v].signed_less(words[w]), one);
                ranks[v] = ranks[v].add_where(words[w].signed_less(words[v]), one);
            }
        }
        ranks
    }
}

/// The refinement of [`super::reference`].
pub(super) struct Exact;

/// Words of four digits, one for each colour.
const WORDS: usize = NARROW_ORDER.div_ceil(4);

impl Refinement for Exact {
    #[inline(always)]
    fn round<L: Lanes, const N: usize>(
        token: L::Token,
        rows: &[Lane; NARROW_ORDER],
        alike: &Alike,
        part: usize,
        colours: &[L; N],
    ) -> [L; N] {
        // The signatures' hexadecimal digits, four to a lane: words[k] holds those of colours 4k
        // to 4k + 3. Only as many words are looked at as there are colours for.
        let count = N.div_ceil(4);
        let mut digits = [[L::splat(token, 0); N]; WORDS];
        for v in 0..N {
            for colour in 0..N {
                let word = &mut digits[colour / 4][v];
                *word = word.add_where(
                    colours[v].equals(L::splat(token, colour as u16)),
                    L::splat(token, 1 << (4 * (colour % 4))),
                );
            }
        }
        // With their top bits flipped words compare as signed numbers.
        let mut words = [[L::splat(token, 1 << 15); N]; WORDS];
        for w in 1..N {
            for v in 0..w {
                let joined = L::load(token, &rows[v], part).meets(L::splat(token, 1 << w));
                for k in 0..count {
                    words[k][v] = words[k][v].add_where(joined, digits[k][w]);
                    words[k][w] = words[k][w].add_where(joined, digits[k][v]);
                }
            }
        }
        let one = L::splat(token, 1);
        let mut ranks = [L::splat(token, 0); N];
        for w in 1..N {
            ranks[w] = L::splat(token, alike[w].into());
            for v in (0..w).rev() {
                if v < usize::from(alike[w]) {
                    break;
                }
                // Compared by colour, then by signature from the highest digit down.
                let mut less = words[0][v].signed_less(words[0][w]);
                let mut equal = words[0][v].equals(words[0][w]);
                for k in 1..count {
                    let same = words[k][v].equals(words[k][w]);
                    less = L::either(words[k][v].signed_less(words[k][w]), L::both(same, less));
                    equal = L::both(same, equal);
                }
                let same = colours[v].equals(colours[w]);
                less = L::either(colours[v].signed_less(colours[w]), L::both(same, less));
                equal = L::both(same, equal);
                ranks[w] = ranks[w].add_where(less, one);
                ranks[v] = ranks[v].add_where(L::not(L::either(less, equal)), one);
            }
        }
        ranks
    }
}
