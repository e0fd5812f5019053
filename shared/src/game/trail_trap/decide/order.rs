//! In which order moves are tried. All scores are integers, so that searches come out the same on
//! all machines.

use crate::graph::VertexSet;

/// Hundredths of a logit. What has a smaller score is tried first.
pub(super) type Score = i32;

/// What a killer move gains, each time that it is one.
pub(super) const KILLER: Score = 70;
/// What a reply gains that ends at P1's token.
pub(super) const AT_FIRST: Score = 200;

/// How likely the player to move wins with a token of this degree against one of that degree, from
/// degree 1 on; by whether the tokens are apart, joined, or on one vertex. Counted in the graphs
/// of order 12 with 17 edges.
static WINS: [[[i16; 6]; 6]; 3] = [
    [
        [64, -30, -76, -96, -94, -99],
        [158, 54, 2, -16, -7, -22],
        [213, 96, 42, 30, 36, 27],
        [257, 124, 60, 41, 35, 33],
        [273, 125, 64, 40, 40, 13],
        [301, 138, 64, 44, 21, 0],
    ],
    [
        [-900, -832, -200, -140, -107, -107],
        [900, 56, 0, -20, -14, -13],
        [900, 112, 55, 33, 35, 28],
        [900, 110, 63, 50, 54, 42],
        [900, 94, 50, 45, 48, 32],
        [900, 96, 58, 48, 52, 25],
    ],
    [[900; 6], [197; 6], [143; 6], [111; 6], [107; 6], [99; 6]],
];

/// A token, to weigh a position.
#[derive(Clone, Copy)]
pub(super) struct Token {
    /// Where it is.
    pub(super) at: usize,
    /// The neighbours there.
    pub(super) row: VertexSet,
    /// How many these are.
    pub(super) degree: u8,
}

/// How likely the player to move wins with token `a` against token `b`. Neither is stuck.
#[inline(always)]
pub(super) fn mover_wins(a: Token, b: Token) -> Score {
    let place = if a.at == b.at { 2 } else { (a.row >> b.at & 1) as usize };
    let degree = |token: Token| token.degree.clamp(1, 6) as usize - 1;
    WINS[place][degree(a)][degree(b)].into()
}

/// What a reply gains that has succeeded and failed so often.
pub(super) fn success(succeeded: u8, failed: u8) -> Score {
    let odds = (f64::from(succeeded) + 0.7) / (f64::from(failed) + 1.3);
    (300.0 * odds.ln()).round() as Score
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logarithms may differ in their last bits between systems, and numbers of nodes may not: no
    /// score is so near to the middle between two integers.
    #[test]
    fn scores_do_not_hang_on_the_last_bits_of_a_logarithm() {
        for (succeeded, failed) in (0..=u8::MAX).flat_map(|s| (0..=u8::MAX).map(move |f| (s, f))) {
            let odds = (f64::from(succeeded) + 0.7) / (f64::from(failed) + 1.3);
            let exact = 300.0 * odds.ln();
            assert!((exact.fract().abs() - 0.5).abs() > 1e-9, "{succeeded} {failed}");
            assert_eq!(f64::from(success(succeeded, failed)), exact.round());
        }
    }
}
