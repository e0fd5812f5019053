//! What graphs are drawn from, and how many of each stratum come first.

use super::draw::{Drawer, Kind, Stratum};
use crate::{game::trail_trap::decide::MAX_DECIDED_ORDER, graph::polya::graphs_by_size};

/// A stratum that graphs are drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Drawn {
    /// Which graphs.
    pub stratum: Stratum,
    /// Their share of all graphs.
    pub share: f64,
    /// Isomorphism classes.
    pub classes: u128,
}

/// Numbers of edges are split by numbers of vertices of odd degree where so many graphs are to be
/// drawn for each stratum on average.
const SPLIT: u64 = 32;
/// Graphs of the pilot with one number of edges, at most, but for rounding.
const PILOT: u64 = 64;

/// The two ways to draw graphs with some numbers of edges.
pub struct Ways {
    /// A stratum for each number of edges.
    whole: Vec<Drawn>,
    /// One for each number of vertices of odd degree, too.
    split: Vec<Drawn>,
}

impl Ways {
    /// Of graphs with these numbers of edges, each with its share.
    pub fn new(drawer: &Drawer, sizes: impl Iterator<Item = (usize, f64)>) -> Self {
        let n = drawer.order();
        let classes = graphs_by_size(n);
        let whole: Vec<Drawn> = sizes
            .map(|(size, share)| Drawn {
                stratum: Stratum { size, odd: None },
                share,
                classes: classes[size].into(),
            })
            .collect();
        // No graph of a larger order is drawn; it is only reckoned with.
        if whole.is_empty() || n > MAX_DECIDED_ORDER {
            return Ways { split: whole.clone(), whole };
        }
        let counts = drawer.by_odd_degrees();
        let classes = match drawer.kind() {
            Kind::Labelled => Drawer::new(n, Kind::Unlabelled).by_odd_degrees(),
            Kind::Unlabelled => counts.clone(),
        };
        let labellings: u128 = (1..=n as u128).product();
        let split =
            whole.iter().flat_map(|&Drawn { stratum: Stratum { size, .. }, share, .. }| {
                let (counts, classes) = (&counts[size], &classes[size]);
                let all: u128 = counts.iter().sum();
                let present = (0..counts.len()).filter(|&k| counts[k] > 0);
                present.map(move |k| Drawn {
                    stratum: Stratum { size, odd: Some(2 * k) },
                    share: share * (counts[k] as f64 / all as f64),
                    classes: classes[k] / labellings,
                })
            });
        Ways { split: split.collect(), whole }
    }

    /// What so many graphs are drawn from, by number of edges.
    pub fn of(&self, samples: u64) -> &[Drawn] {
        if samples / SPLIT >= self.split.len() as u64 { &self.split } else { &self.whole }
    }
}

/// Graphs of the pilot of each stratum, of so many in all. Each number of edges gets a quarter of
/// what it would get if all got the same, and its strata divide that by the square roots of their
/// shares: a rare kind of graphs gets more than its share, as nothing is known of it either.
pub fn pilots(drawn: &[Drawn], samples: u64) -> Vec<u64> {
    let mut sizes: Vec<usize> = drawn.iter().map(|drawn| drawn.stratum.size).collect();
    sizes.dedup();
    let of_size = (samples / (4 * sizes.len().max(1) as u64)).clamp(1, PILOT);
    let pilot = |one: &Drawn| {
        let alike = drawn.iter().filter(|other| other.stratum.size == one.stratum.size);
        let all: f64 = alike.map(|other| other.share.sqrt()).sum();
        // Of one class there is one graph to decide.
        let most = if one.classes == 1 { 1 } else { PILOT };
        ((of_size as f64 * one.share.sqrt() / all).round() as u64).clamp(1, most)
    };
    drawn.iter().map(pilot).collect()
}
