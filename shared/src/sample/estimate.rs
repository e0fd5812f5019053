//! What a sample tells: proportions with intervals, and how many graphs to draw where.

use std::collections::BTreeMap;

/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;
/// Proportions that are seen go in steps, of one graph more or less, and the normal distribution
/// does not: an interval reaches further by this part of a step. With half a step, which is usual,
/// that of one graph holds 94.5 % only, and with none 79 %; with this those of one stratum hold
/// 95 %, however many graphs there are.
const CONTINUITY: f64 = 0.53;
/// Strata with fewer graphs are taken together: of so few it is not seen how much a stratum varies,
/// as often all come out alike.
const FEW: f64 = 4.0;

/// What is known of the graphs with some number of edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observed {
    /// All of them were counted: this is the proportion.
    Exact(f64),
    /// So many were drawn.
    Sampled {
        /// Graphs drawn.
        samples: u64,
        /// Those of them that P1 wins, or as many as are to be expected.
        wins: f64,
    },
}

/// A proportion between two bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The proportion.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Observed {
    /// The proportion that was seen; a half, if nothing was.
    fn proportion(self) -> f64 {
        match self {
            Observed::Exact(proportion) => proportion,
            Observed::Sampled { samples: 0, .. } => 0.5,
            Observed::Sampled { samples, wins } => wins / samples as f64,
        }
    }
}

/// The proportion in a union of strata, each with its weight. The weights need not add up to 1;
/// `None` if they are all zero.
///
/// The interval is that of the score test (A. Martín Andrés, M. Álvarez Hernández, I. Herranz
/// Tejedor, Inferences about a linear combination of proportions, Stat. Methods Med. Res. 20,
/// 2011), which for one stratum is Wilson's, corrected for continuity: it holds each value θ that
/// is no more than 1.96 standard errors and 0.53 of a step away from the estimate, where the
/// standard error is that of the likeliest proportions of the strata of which the whole is θ, and a
/// step is what one graph more adds where it adds most. What could have been missed in strata
/// without a single P1-win is on the upper side, but only in those where it is likeliest. Of
/// several strata those with fewer than four graphs are taken together, if their steps are alike,
/// and the others count as if of one graph less: few graphs seem to vary less than they do.
///
/// It is meant to hold the exact value with a probability of 95 % or more, whatever the proportions
/// are, if numbers of graphs do not depend on what was seen (those that [`allot`] says do). That is
/// found so wherever it was tried (see the tests), not proved for any strata.
pub fn combined(strata: impl IntoIterator<Item = (f64, Observed)>) -> Option<Estimate> {
    let strata: Vec<(f64, Observed)> = strata.into_iter().collect();
    let weight: f64 = strata.iter().map(|(share, _)| share).sum();
    if weight <= 0.0 {
        return None;
    }
    // The estimate; what is exact of it; and what could be in strata of which nothing is known.
    let (mut value, mut known, mut unknown) = (0.0, 0.0, 0.0);
    let mut drawn = Vec::new();
    for (share, observed) in strata {
        let share = share / weight;
        if share < f64::MIN_POSITIVE {
            // It says nothing, and steps cannot be told of it.
            continue;
        }
        value += share * observed.proportion();
        match observed {
            Observed::Exact(p) => known += share * p,
            Observed::Sampled { samples: 0, .. } => unknown += share,
            Observed::Sampled { samples, wins } => drawn.push(Seen {
                share,
                samples: samples as f64,
                wins,
                losses: (samples as f64 - wins).max(0.0),
            }),
        }
    }
    let drawn = gathered(drawn);
    let others: Vec<Seen> = drawn.iter().map(|&stratum| stratum.complement()).collect();
    let all: f64 = drawn.iter().map(|stratum| stratum.share).sum();
    // Shares may add up to a little more than 1.
    let (value, known) = (value.min(1.0), known.min(1.0));
    Some(Estimate {
        value,
        low: (known + (all - upper_end(&others)).max(0.0)).min(value),
        high: (known + upper_end(&drawn) + unknown).min(1.0).max(value),
    })
}

/// A stratum of which graphs were drawn: its share of the whole, and what was seen.
#[derive(Clone, Copy)]
struct Seen {
    share: f64,
    samples: f64,
    wins: f64,
    losses: f64,
}

impl Seen {
    /// What the stratum adds to the estimate.
    fn estimate(&self) -> f64 {
        self.share * (self.wins / self.samples)
    }

    /// What one graph more of those that were drawn would add, if P1 won it.
    fn step(&self) -> f64 {
        self.share / self.samples
    }

    /// What the stratum adds if the whole is larger than the estimate, by as much as the Lagrange
    /// multiplier `pull` ≥ 0 says: share · p for the likeliest p, of which
    /// samples · p − wins = pull · share · p (1 − p).
    fn pulled(&self, pull: f64) -> f64 {
        let Seen { share, samples, wins, .. } = *self;
        let pulled = pull * share;
        let rest = samples - pulled;
        let root = (rest * rest + 4.0 * pulled * wins).sqrt();
        // Two forms of the same root: neither is a difference of what is nearly equal.
        let p = match rest > 0.0 {
            true => 2.0 * wins / (rest + root),
            false if pulled > 0.0 => (root - rest) / (2.0 * pulled),
            false => 0.0,
        };
        share * p.min(1.0)
    }

    /// The same with so many graphs, of which P1 wins the same part.
    fn with_samples(self, samples: f64) -> Self {
        let part = samples / self.samples;
        Seen { samples, wins: self.wins * part, losses: self.losses * part, ..self }
    }

    /// The same with wins for losses.
    fn complement(self) -> Self {
        Seen { wins: self.losses, losses: self.wins, ..self }
    }
}

/// Several strata so that the variance of their estimate is not taken to be less than it is. The
/// likeliest proportions follow what was drawn, so of n graphs they say 1/n too little, on average:
/// each stratum counts as if of one graph less.
///
/// Those with fewer than [`FEW`] graphs become one stratum for each octave of their steps. If w is
/// the share of one of them, n its graphs and p its proportion, their variance is Σ w² p (1 − p)/n,
/// which is W θ (1 − θ) max w/n at most, where W is the share of all of them and θ the proportion
/// in that (the function is concave). So it is no more than that of one stratum of W · min n/w
/// graphs.
fn gathered(strata: Vec<Seen>) -> Vec<Seen> {
    if strata.len() < 2 {
        return strata;
    }
    let (few, many): (Vec<Seen>, Vec<Seen>) =
        strata.into_iter().partition(|stratum| stratum.samples < FEW);
    let largest = few.iter().map(Seen::step).fold(0.0, f64::max);
    let mut by_octave: BTreeMap<u64, Vec<Seen>> = BTreeMap::new();
    for stratum in few {
        // The exponent of the quotient.
        let octave = (largest / stratum.step()).to_bits() >> (f64::MANTISSA_DIGITS - 1);
        by_octave.entry(octave).or_default().push(stratum);
    }
    let many = many.into_iter().map(|stratum| stratum.with_samples(stratum.samples - 1.0));
    many.chain(by_octave.into_values().map(|few| together(&few))).collect()
}

/// Strata as one, whose variance is no less than theirs.
fn together(strata: &[Seen]) -> Seen {
    let sum = |of: fn(&Seen) -> f64| strata.iter().map(of).sum::<f64>();
    let (share, wins) = (sum(|stratum| stratum.share), sum(Seen::estimate));
    let step = strata.iter().map(Seen::step).fold(0.0, f64::max);
    let losses = (share - wins).max(0.0);
    Seen { share, samples: share / step, wins: wins / step, losses: losses / step }
}

/// The upper end of the interval for what strata add together.
///
/// Added up over the strata, the equation of [`Seen::pulled`] says that the distance D from the
/// estimate is `pull` times the variance. So D exceeds k, the part of a step, by [`Z`] standard
/// errors where `pull` (D − k)² / D is Z². That grows with `pull`, as D does.
fn upper_end(strata: &[Seen]) -> f64 {
    let estimate: f64 = strata.iter().map(Seen::estimate).sum();
    let step = strata.iter().map(Seen::step).fold(0.0, f64::max);
    let at = |pull: f64| strata.iter().map(|stratum| stratum.pulled(pull)).sum::<f64>();
    let is_beyond = |pull: f64| {
        let distance = at(pull) - estimate;
        let more = distance - CONTINUITY * step;
        more > 0.0 && pull * more * more > Z * Z * distance
    };
    let (mut within, mut beyond) = (0.0, 1.0);
    while !is_beyond(beyond) {
        (within, beyond) = (beyond, beyond * 2.0);
        if !beyond.is_finite() {
            // P1 has won them all, or all but that part of a step, as far as shares are no smaller
            // than numbers can be.
            return strata.iter().map(|stratum| stratum.share).sum();
        }
    }
    loop {
        let middle = f64::midpoint(within, beyond);
        if middle <= within || middle >= beyond {
            return at(beyond).max(estimate);
        }
        if is_beyond(middle) { beyond = middle } else { within = middle }
    }
}

/// What a first round has shown of a stratum.
#[derive(Clone, Copy, Debug)]
pub struct Pilot {
    /// The share of the stratum; 0 if further graphs would tell nothing.
    pub weight: f64,
    /// Graphs that were drawn.
    pub samples: u64,
    /// Those of them that P1 wins.
    pub wins: u64,
    /// Positions that were visited to decide them.
    pub nodes: u64,
}

/// How many graphs to draw in each stratum, `total` in all, those of the pilots included: by
/// Neyman's rule for unequal costs, in proportion to W σ/√c. As a few graphs do not tell σ when
/// they all come out alike, it is that of (wins + 1)/(samples + 2), which never is 0. Follows from
/// the arguments alone.
///
/// Pilots count in the estimate that they have steered. Where P1 wins less than half, a pilot with
/// many wins brings more graphs, among which its wins count for less; one with few wins stays as
/// it is. So the estimate is a little low on average, in a stratum of n graphs by about
/// (1 − 2p)/2n. With what is known of orders 9 to 11 that comes to a third of a standard error at
/// most, and intervals hold the exact value as often as they should all the same. If P1 won a tenth
/// in each of hundreds of strata it would be more than a standard error, and they would not.
pub fn allot(pilots: &[Pilot], total: u64) -> Vec<u64> {
    let mut allotted: Vec<u64> = pilots.iter().map(|pilot| pilot.samples).collect();
    let wanted: Vec<f64> = pilots.iter().map(wanted).collect();
    // Strata whose pilots are more than their share stay as they are; the others share the rest.
    let mut open: Vec<usize> = (0..pilots.len()).collect();
    loop {
        let kept: u64 =
            (0..pilots.len()).filter(|i| !open.contains(i)).map(|i| pilots[i].samples).sum();
        let rest = total.saturating_sub(kept) as f64;
        let sum: f64 = open.iter().map(|&i| wanted[i]).sum();
        let share = |i: usize| if sum > 0.0 { rest * wanted[i] / sum } else { 0.0 };
        let still: Vec<usize> =
            open.iter().copied().filter(|&i| share(i) > pilots[i].samples as f64).collect();
        if still.len() < open.len() {
            open = still;
            continue;
        }
        // Rounded down; what is left over goes to those that lose most by that.
        let mut left = rest as u64;
        for &i in &open {
            allotted[i] = share(i) as u64;
            left = left.saturating_sub(allotted[i]);
        }
        let mut by_loss = open.clone();
        by_loss.sort_by(|&i, &j| {
            (share(j) - share(j).floor()).total_cmp(&(share(i) - share(i).floor()))
        });
        by_loss.iter().take(left as usize).for_each(|&i| allotted[i] += 1);
        return allotted;
    }
}

fn wanted(pilot: &Pilot) -> f64 {
    let p = (pilot.wins + 1) as f64 / (pilot.samples + 2) as f64;
    let cost = pilot.nodes.max(1) as f64 / pilot.samples.max(1) as f64;
    pilot.weight * (p * (1.0 - p) / cost).sqrt()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::{
        game::trail_trap::decide::tests::layers,
        graph::pairs,
        labelling::hashed,
        sample::{
            draw::{Drawer, Stratum, Stream},
            model::Model,
            strata::{Drawn, pilots},
        },
    };

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 5e-5
    }

    /// The proportion of `wins` among `samples`, with Wilson's interval for it (E. B. Wilson,
    /// Probable inference, J. Amer. Statist. Assoc. 22, 1927), corrected for continuity (method 4 of
    /// R. G. Newcombe, Two-sided confidence intervals for the single proportion, Stat. Med. 17,
    /// 1998, but for the part of a step). Without samples nothing is known.
    fn wilson(samples: u64, wins: f64) -> Estimate {
        if samples == 0 {
            return Estimate { value: 0.5, low: 0.0, high: 1.0 };
        }
        let (n, p) = (samples as f64, wins / samples as f64);
        let end = |p: f64, side: f64| {
            let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
            (p + Z * Z / (2.0 * n) + side * half) / (1.0 + Z * Z / n)
        };
        let (below, above) = (p - CONTINUITY / n, p + CONTINUITY / n);
        Estimate {
            value: p,
            low: if below <= 0.0 { 0.0 } else { end(below, -1.0).max(0.0) },
            high: if above >= 1.0 { 1.0 } else { end(above, 1.0).min(1.0) },
        }
    }

    #[test]
    fn wilson_is_that_of_the_books() {
        // E. B. Wilson's formula by hand, of what is a part of a step away from 10 of 100, and from
        // none of 20.
        let some = wilson(100, 10.0);
        assert!(close(some.low, 0.0514) && close(some.high, 0.1807), "{some:?}");
        let none = wilson(20, 0.0);
        assert!(none.low == 0.0 && close(none.high, 0.2027), "{none:?}");
        assert_eq!(wilson(0, 0.0).high, 1.0);
    }

    /// How likely it is that of so many graphs P1 wins so many, each with probability `p`.
    fn likelihood(samples: u64, wins: u64, p: f64) -> f64 {
        let ways: f64 = (0..wins).map(|i| (samples - i) as f64 / (i + 1) as f64).product();
        ways * p.powi(wins as i32) * (1.0 - p).powi((samples - wins) as i32)
    }

    /// The least probability, over many proportions of the strata, that the interval holds the
    /// whole if so many graphs are drawn of each stratum of these shares: from all that can be
    /// seen, and how likely it is.
    fn least_coverage<const K: usize>(strata: [(f64, u64); K], proportions: &[[f64; K]]) -> f64 {
        let mut seen: Vec<([u64; K], Estimate)> = Vec::new();
        let outcomes: u64 = strata.iter().map(|(_, samples)| samples + 1).product();
        for outcome in 0..outcomes {
            let mut rest = outcome;
            let wins = strata.map(|(_, samples)| {
                let wins = rest % (samples + 1);
                rest /= samples + 1;
                wins
            });
            let observed = |i: usize| {
                let (share, samples) = strata[i];
                (share, Observed::Sampled { samples, wins: wins[i] as f64 })
            };
            seen.push((wins, combined((0..K).map(observed)).unwrap()));
        }
        let coverage = |proportions: &[f64; K]| {
            let whole: f64 = (0..K).map(|i| strata[i].0 * proportions[i]).sum();
            let held = seen
                .iter()
                .filter(|(_, found)| (found.low - 1e-12..=found.high + 1e-12).contains(&whole));
            held.map(|(wins, _)| {
                let likely = |i: usize| likelihood(strata[i].1, wins[i], proportions[i]);
                (0..K).map(likely).product::<f64>()
            })
            .sum::<f64>()
        };
        let found: Vec<f64> = proportions.iter().map(coverage).collect();
        assert!(found.iter().all(|held| held.is_finite()));
        found.into_iter().fold(1.0, f64::min)
    }

    /// Reckoned exactly, and where it is least: for proportions just beyond the ends of intervals.
    #[test]
    fn the_interval_of_one_stratum_holds_as_often_as_it_says() {
        for samples in [1, 2, 3, 5, 8, 12, 20, 40, 100, 400] {
            let ends = (0..=samples).flat_map(|wins| {
                let Estimate { low, high, .. } = wilson(samples, wins as f64);
                [low - 1e-9, low + 1e-9, high - 1e-9, high + 1e-9].map(|p| [p])
            });
            let ends: Vec<[f64; 1]> = ends.filter(|[p]| (0.0..=1.0).contains(p)).collect();
            assert!(ends.len() > 2, "{samples}");
            let least = least_coverage([(1.0, samples)], &ends);
            assert!(least >= 0.95, "{samples}: {least}");
        }
    }

    /// The same for few graphs of several strata, among whose proportions are small ones.
    #[test]
    fn intervals_of_strata_with_few_graphs_hold_as_often_as_they_say() {
        let some = [0.0, 0.001, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0];
        let pairs: Vec<[f64; 2]> = some.iter().flat_map(|&p| some.map(|q| [p, q])).collect();
        for (share, samples) in
            [(0.5, [1, 1]), (0.9, [30, 1]), (0.5, [20, 1]), (0.97, [1, 30]), (0.7, [2, 4])]
        {
            let least = least_coverage([(share, samples[0]), (1.0 - share, samples[1])], &pairs);
            assert!(least >= 0.95, "{share} {samples:?}: {least}");
        }
        let triples: Vec<[f64; 3]> =
            pairs.iter().flat_map(|&[p, q]| some.map(|r| [p, q, r])).collect();
        for ([one, other], samples) in [
            ([0.5, 0.3], [1, 1, 1]),
            ([0.5, 0.3], [1, 2, 3]),
            ([0.34, 0.33], [2, 2, 2]),
            ([0.8, 0.15], [4, 2, 1]),
            ([0.1, 0.2], [1, 3, 5]),
        ] {
            let shares = [one, other, 1.0 - one - other];
            let least = least_coverage(std::array::from_fn(|i| (shares[i], samples[i])), &triples);
            assert!(least >= 0.95, "{shares:?} {samples:?}: {least}");
        }
    }

    /// Wilson's interval is the score interval of one stratum, however few graphs were drawn.
    #[test]
    fn one_stratum_has_the_interval_of_wilson() {
        let some =
            [(1, 0.0), (1, 1.0), (7, 3.0), (20, 0.0), (20, 20.0), (5000, 1.0), (5000, 700.0)];
        for (samples, wins) in some {
            let alone = wilson(samples, wins);
            let whole = combined([(0.3, Observed::Sampled { samples, wins })]).unwrap();
            let pairs = [(whole.low, alone.low), (whole.high, alone.high)];
            assert!(pairs.iter().all(|(a, b)| (a - b).abs() < 1e-12), "{whole:?} {alone:?}");
        }
    }

    /// At both ends of the interval of two strata the estimate is as many standard errors away, and
    /// a part of a step, as it should be: those of the likeliest proportions, which are found here
    /// by trying them.
    #[test]
    fn ends_are_z_standard_errors_away() {
        let cases = [[(0.9, 40, 0), (0.1, 30, 12)], [(0.5, 15, 0), (0.5, 60, 0)]];
        let more = [[(0.7, 9, 9), (0.3, 50, 1)], [(0.2, 5, 2), (0.8, 100, 97)]];
        let few = [[(0.6, 2, 1), (0.4, 30, 4)], [(0.3, 3, 0), (0.7, 3, 2)]];
        for strata in cases.into_iter().chain(more).chain(few) {
            let observed = |(share, samples, wins): (f64, u64, u64)| {
                (share, Observed::Sampled { samples, wins: wins as f64 })
            };
            let found = combined(strata.map(observed)).unwrap();
            for end in [found.low, found.high] {
                if end == found.value {
                    // Nothing was seen that would leave room on this side.
                    assert!(end == 0.0 || end == 1.0);
                    continue;
                }
                // Those with four graphs and more count as if of one less.
                let counted = |(share, samples, wins): (f64, u64, u64)| {
                    let graphs = if samples < 4 { samples as f64 } else { samples as f64 - 1.0 };
                    (share, graphs, wins as f64 * graphs / samples as f64)
                };
                let [(w, n, x), (v, m, y)] = strata.map(counted);
                let other = |p: f64| (end - w * p) / v;
                let term = |k: f64, p: f64| if k <= 0.0 { 0.0 } else { k * p.ln() };
                let likelihood = |p: f64| {
                    let q = other(p);
                    term(x, p) + term(n - x, 1.0 - p) + term(y, q) + term(m - y, 1.0 - q)
                };
                // The likelihood has one maximum on the line of this sum.
                let (mut low, mut high) = (((end - v) / w).max(0.0), (end / w).min(1.0));
                for _ in 0..200 {
                    let third = (high - low) / 3.0;
                    if likelihood(low + third) < likelihood(high - third) {
                        low += third;
                    } else {
                        high -= third;
                    }
                }
                let (p, q) = (low, other(low));
                let variance = w * w * p * (1.0 - p) / n + v * v * q * (1.0 - q) / m;
                let step = (w / n).max(v / m);
                let distance = ((end - found.value).abs() - 0.53 * step) / variance.sqrt();
                assert!((distance - Z).abs() < 1e-4, "{strata:?} {found:?}: {distance}");
            }
        }
    }

    /// As many graphs without a P1-win say the same whether they are in one stratum or in ten, but
    /// for one of each; or all the same where there are few.
    #[test]
    fn nothing_seen_in_many_strata_is_nothing_seen_in_one() {
        let none = |samples| Observed::Sampled { samples, wins: 0.0 };
        for (samples, counted) in [(40, 390), (3, 30), (1, 10)] {
            let ten = combined([(0.1, none(samples)); 10]).unwrap();
            assert!((ten.high - wilson(counted, 0.0).high).abs() < 1e-12, "{ten:?}");
            assert_eq!((ten.value, ten.low), (0.0, 0.0));
        }
        // Of a stratum without graphs nothing is known.
        let half = combined([(0.5, none(0)), (0.5, Observed::Exact(0.0))]).unwrap();
        assert_eq!(half, Estimate { value: 0.25, low: 0.0, high: 0.5 });
    }

    #[test]
    fn one_stratum_is_itself_and_exact_ones_add_nothing() {
        let sampled = Observed::Sampled { samples: 5000, wins: 700.0 };
        let whole = combined([(0.3, sampled)]).unwrap();
        let alone = wilson(5000, 700.0);
        assert!(close(whole.low, alone.low) && close(whole.high, alone.high));
        let half = combined([(0.5, sampled), (0.5, Observed::Exact(0.0))]).unwrap();
        assert!(close(half.high, alone.high / 2.0) && close(half.value, 0.07));
        // What could have been missed shows on the upper side.
        let none = combined([(0.5, Observed::Sampled { samples: 20, wins: 0.0 }), (0.5, sampled)]);
        assert!(none.unwrap().high > 0.07 + 0.5 * 0.9 * wilson(20, 0.0).high);
        assert_eq!(combined([]), None);
    }

    /// Only the proportions of shares count, however small they are.
    #[test]
    fn small_shares_have_intervals_too() {
        let sampled = Observed::Sampled { samples: 20, wins: 0.0 };
        let [small, large] = [1e-200, 1.0].map(|share| combined([(share, sampled)]).unwrap());
        assert_eq!(small, large);
        let nothing = Observed::Sampled { samples: 1, wins: 1.0 };
        for share in [0.0, 5e-324] {
            assert_eq!(combined([(1.0, sampled), (share, nothing)]), Some(large));
        }
        assert!(small.high > 0.1, "{small:?}");
    }

    #[test]
    fn samples_go_where_the_variance_is() {
        let pilot = |weight, wins, nodes| Pilot { weight, samples: 10, wins, nodes };
        let allotted = allot(&[pilot(0.5, 5, 100), pilot(0.5, 5, 400), pilot(0.0, 0, 1)], 310);
        assert_eq!(allotted, [200, 100, 10]);
        // No σ is 0, and what is allotted adds up.
        let allotted = allot(&[pilot(0.7, 0, 100), pilot(0.3, 10, 100)], 1000);
        assert_eq!(allotted.iter().sum::<u64>(), 1000);
        assert!(allotted[1] > 100);
        assert_eq!(allot(&[pilot(1.0, 3, 7)], 5), [10]);
    }

    /// Many strata of few graphs each, all of the same proportion: with one graph each reckoned
    /// exactly, by how many of them P1 wins; with more, or of shares that fall from one to the
    /// next, in a thousand trials, of which 929 are three standard deviations fewer than 95 %.
    #[test]
    fn intervals_of_many_strata_hold_as_often_as_they_say() {
        let some: [f64; 11] = [0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9, 0.97];
        for count in [6, 8, 13, 20, 40, 78] {
            let found: Vec<Estimate> = (0..=count)
                .map(|won| {
                    let wins = (0..count).map(|i| if i < won { 1.0 } else { 0.0 });
                    let one = |wins| (1.0, Observed::Sampled { samples: 1, wins });
                    combined(wins.map(one)).unwrap()
                })
                .collect();
            for p in some {
                let held = (0..=count).zip(&found).filter(|(_, e)| e.low <= p && p <= e.high);
                let held: f64 = held.map(|(won, _)| likelihood(count, won, p)).sum();
                assert!(held >= 0.95, "{count} {p}: {held}");
            }
        }
        for (count, samples, fall) in [
            (40, 2, 1.0),
            (40, 4, 1.0),
            (40, 8, 1.0),
            (40, 16, 1.0),
            (100, 16, 1.0),
            (40, 1, 0.8),
            (40, 3, 0.9),
            (40, 5, 0.9),
        ] {
            for p in [0.05, 0.3, 0.5] {
                let holds = |run: &u64| {
                    let mut stream = Stream::new([*run, count, samples]);
                    let mut wins = || (0..samples).filter(|_| stream.happens(p)).count() as f64;
                    let share = |i: u64| f64::powi(fall, i as i32);
                    let one = |i: u64| (share(i), Observed::Sampled { samples, wins: wins() });
                    let Estimate { low, high, .. } = combined((0..count).map(one)).unwrap();
                    low <= p && p <= high
                };
                let covering = (0..1000).filter(holds).count();
                assert!(covering >= 929, "{count} {samples} {p}: {covering}");
            }
        }
    }

    /// Of 300 intervals for order 7, each from 12 graphs of every number of edges from 8 on, 95 %
    /// hold the exact value: at least 274 do, which is three standard deviations fewer.
    #[test]
    fn intervals_cover_the_exact_value() {
        let n = 7;
        let mut known: HashMap<crate::graph::Code, bool> = HashMap::new();
        let code =
            |graph: &crate::graph::Graph| graph.relabelled(&hashed::label(graph).label).code();
        let graphs = layers(n).graphs;
        known.extend(graphs.iter().map(|(graph, p1_wins)| (code(graph), *p1_wins)));
        for model in [Model::Labelled, Model::Unlabelled] {
            let shares = model.shares(n);
            let mut exact = vec![[0.0; 2]; pairs(n) + 1];
            for (graph, p1_wins) in &graphs {
                let weight = match model {
                    Model::Unlabelled => 1.0,
                    _ => 1.0 / hashed::label(graph).automorphisms as f64,
                };
                exact[graph.size()][0] += weight;
                exact[graph.size()][1] += if *p1_wins { weight } else { 0.0 };
            }
            let truth: f64 =
                shares.iter().zip(&exact).map(|(share, [all, won])| share * won / all).sum();
            let drawer = Drawer::new(n, model.kind());
            let covers = |seed: u64| {
                let observed = |size: usize| match size {
                    0..8 => Observed::Exact(exact[size][1] / exact[size][0]),
                    _ => {
                        let wins = (0..12)
                            .filter(|&i| {
                                known[&code(&drawer.draw(seed, Stratum { size, odd: None }, i))]
                            })
                            .count();
                        Observed::Sampled { samples: 12, wins: wins as f64 }
                    }
                };
                let strata = shares.iter().enumerate().map(|(m, &share)| (share, observed(m)));
                let Estimate { low, high, .. } = combined(strata).unwrap();
                low <= truth && truth <= high
            };
            let covering = (0..300).filter(|&seed| covers(seed)).count();
            assert!(covering >= 274, "{model}: {covering} of 300");
        }
    }

    /// The whole way of a run: pilots, what is allotted by them, and both together for the
    /// estimate. The strata are those of finished orders, of which no more than 30 % of the edges
    /// are taken to be counted: numbers of edges, of which 1000 graphs are drawn, or one or two for
    /// each; or of vertices of odd degree, too, with 32 graphs for each stratum, on average. Of
    /// 1000 intervals 95 % hold the exact value, of odd, even and all: at least 929 do, which is
    /// three standard deviations fewer; and with many graphs the estimate is not far off on
    /// average.
    #[test]
    fn intervals_of_allotted_samples_cover_the_exact_value() {
        const RUNS: u64 = 1000;
        /// By number of edges: a share, and what was observed of it.
        type Observations = Vec<(usize, (f64, Observed))>;
        let table = include_str!("../../../results/why/odd-degrees-by-size.csv");
        let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let columns = rows.next().unwrap();
        let rows: Vec<Vec<&str>> = rows.collect();
        let number = |row: &[&str], name: &str| -> f64 {
            row[columns.iter().position(|column| *column == name).unwrap()].parse().unwrap()
        };
        for (n, is_split) in (9..=11).flat_map(|n| [(n, false), (n, true)]) {
            for (model, all, won) in [
                (Model::Unlabelled, "graphs", "p1_wins"),
                (Model::Labelled, "labelled_graphs", "labelled_p1_wins"),
            ] {
                // Graphs, and P1-wins, by stratum; the last two sizes have one class each.
                let mut counts: BTreeMap<(usize, usize), [f64; 2]> = BTreeMap::new();
                for row in rows.iter().filter(|row| number(row, "order") == n as f64) {
                    let odd = if is_split { number(row, "odd_degrees") as usize } else { 0 };
                    let sums = counts.entry((number(row, "size") as usize, odd)).or_default();
                    sums[0] += number(row, all);
                    sums[1] += number(row, won);
                }
                let whole: f64 = counts.values().map(|[all, _]| all).sum();
                let known = pairs(n) * 3 / 10;
                let is_drawn = |size: usize| known < size && size < pairs(n) - 1;
                let exact = counts.iter().filter(|((size, _), _)| !is_drawn(*size));
                let exact: Observations = exact
                    .map(|(&(size, _), [all, won])| {
                        (size, (all / whole, Observed::Exact(won / all)))
                    })
                    .collect();
                let drawn: Vec<(Drawn, f64)> = counts
                    .iter()
                    .filter(|((size, _), _)| is_drawn(*size))
                    .map(|(&(size, odd), [all, won])| {
                        let stratum = Stratum { size, odd: is_split.then_some(odd) };
                        // None is taken for a single class.
                        (Drawn { stratum, share: all / whole, classes: 2 }, won / all)
                    })
                    .collect();
                let strata: Vec<Drawn> = drawn.iter().map(|(drawn, _)| *drawn).collect();
                let observed = |run: u64, total: u64| {
                    let first = pilots(&strata, total);
                    let mut streams: Vec<Stream> =
                        (0..drawn.len() as u64).map(|i| Stream::new([run, n as u64, i])).collect();
                    let mut wins = |i: usize, draws: u64| {
                        (0..draws).filter(|_| streams[i].happens(drawn[i].1)).count() as u64
                    };
                    let pilots: Vec<Pilot> = (0..drawn.len())
                        .map(|i| {
                            let Drawn { stratum, share, .. } = strata[i];
                            let each = 2.4f64.powi((stratum.size - known) as i32);
                            Pilot {
                                weight: share,
                                samples: first[i],
                                wins: wins(i, first[i]),
                                nodes: (first[i] as f64 * each) as u64,
                            }
                        })
                        .collect();
                    let totals = allot(&pilots, total);
                    let mut observed = exact.clone();
                    for (i, &samples) in totals.iter().enumerate() {
                        let wins = (pilots[i].wins + wins(i, samples - first[i])) as f64;
                        let Drawn { stratum, share, .. } = strata[i];
                        observed
                            .push((stratum.size, (share, Observed::Sampled { samples, wins })));
                    }
                    observed
                };
                let each = drawn.len() as u64;
                let totals = if is_split { vec![32 * each] } else { vec![each, 2 * each, 1000] };
                for total in totals {
                    let runs: Vec<Observations> =
                        (0..RUNS).map(|run| observed(run, total)).collect();
                    for (name, parities) in [("odd", &[1][..]), ("even", &[0]), ("all", &[0, 1])] {
                        let is_in = |size: usize| parities.contains(&(size % 2));
                        let sums = counts.iter().filter(|((size, _), _)| is_in(*size));
                        let [all, won] = sums.fold([0.0; 2], |[all, won], (_, counts)| {
                            [all + counts[0], won + counts[1]]
                        });
                        let truth = won / all;
                        let of_run = |run: &Observations| {
                            combined(run.iter().filter(|(size, _)| is_in(*size)).map(|one| one.1))
                        };
                        let found: Vec<Estimate> = runs.iter().filter_map(of_run).collect();
                        let holds = |e: &&Estimate| e.low <= truth && truth <= e.high;
                        let covering = found.iter().filter(holds).count();
                        let mean = |of: &dyn Fn(&Estimate) -> f64| {
                            found.iter().map(of).sum::<f64>() / RUNS as f64
                        };
                        let error = mean(&|e| (e.value - truth).powi(2)).sqrt();
                        let bias = mean(&|e| e.value - truth) / error;
                        let half = mean(&|e| (e.high - e.low) / 2.0);
                        println!(
                            "order {n}, {model}, {name}, {total} graphs of {each} strata: \
                             {covering} of {RUNS} intervals hold the exact value, half their \
                             length {half:.5}, standard error {error:.5}, bias {bias:.2}"
                        );
                        assert!(covering >= 929, "{n} {model} {total} {name}: {covering}");
                        if total >= 1000 {
                            assert!((-0.3..0.1).contains(&bias), "{n} {model} {name}: {bias}");
                        }
                    }
                }
            }
        }
    }
}
