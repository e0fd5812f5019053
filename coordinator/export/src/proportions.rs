//! Proportions of P1-wins in pictures: the axis that they are read off, and their colours.

use trailtrap_shared::count::statistics::Counts;

use crate::{
    chart::{Axis, Scale},
    picture::Colour,
};

/// The proportion of graphs with the listed verdict, if there are any graphs.
pub(crate) fn share(counts: &Counts) -> Option<f64> {
    (counts.graphs > 0).then(|| counts.listed as f64 / counts.graphs as f64)
}

pub(crate) const PROPORTION: &str = "proportion of P1-wins";

/// A logarithmic axis down to the power of ten below the least positive proportion.
pub(crate) fn proportions(of: impl Iterator<Item = f64>) -> Axis {
    let least = of.filter(|&share| share > 0.0).fold(0.5, f64::min);
    Axis {
        label: PROPORTION.to_owned(),
        from: 10f64.powf((least.log10() - 1e-9).floor()),
        to: 1.0,
        scale: Scale::Logarithmic,
    }
}

/// The same with room for 0 below that.
pub fn proportions_with_zero(of: impl Iterator<Item = f64>) -> Axis {
    let positive = proportions(of);
    Axis { from: positive.from / 2.5, scale: Scale::LogarithmicWithZero, ..positive }
}

/// Dark to light, as in viridis.
pub(crate) fn colour_of(place: f64) -> Colour {
    const STOPS: [Colour; 5] = [
        Colour(68, 1, 84),
        Colour(59, 82, 139),
        Colour(33, 145, 140),
        Colour(94, 201, 98),
        Colour(253, 231, 37),
    ];
    let along = place.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let i = (along as usize).min(STOPS.len() - 2);
    let mix = |a: u8, b: u8| {
        (f64::from(a) + (along - i as f64) * (f64::from(b) - f64::from(a))).round() as u8
    };
    let (Colour(r, g, b), Colour(r2, g2, b2)) = (STOPS[i], STOPS[i + 1]);
    Colour(mix(r, r2), mix(g, g2), mix(b, b2))
}
