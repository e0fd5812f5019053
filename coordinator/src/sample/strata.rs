//! What is known of each number of edges.

use trailtrap_shared::{graph::pairs, sample::model::Model};

use super::error::{SampleError, nothing};

/// Numbers of edges.
#[derive(Clone)]
pub struct Strata {
    /// The share of the graphs that have 0, 1, … edges.
    pub shares: Vec<f64>,
    /// Those of which all graphs are known.
    pub exact: Vec<usize>,
    /// Those of which graphs are drawn.
    pub sampled: Vec<usize>,
}

impl Strata {
    /// The numbers of edges that graphs are drawn of, each with its share.
    pub fn sizes(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.sampled.iter().map(|&size| (size, self.shares[size]))
    }

    /// Those of a model: all that are not known are to be drawn from.
    ///
    /// # Errors
    /// The model has no such graphs.
    pub fn new(
        order: usize,
        model: Model,
        is_exact: impl Fn(usize) -> bool,
    ) -> Result<Self, SampleError> {
        if let Model::Gnm(size) = model
            && size > pairs(order)
        {
            return Err(SampleError::NoGraphs { order, size });
        }
        let shares = model.shares(order);
        let all = (0..shares.len()).filter(|&size| shares[size] > 0.0);
        let (exact, sampled) = all.partition(|&size| is_exact(size));
        Ok(Strata { shares, exact, sampled })
    }

    /// The same, with fewer or more edges left out.
    pub fn within(mut self, [least, most]: [usize; 2]) -> Self {
        self.sampled.retain(|size| (least..=most).contains(size));
        self
    }

    /// Makes sure that there is something to tell of a model, and a sample at least for each number
    /// of edges that graphs are drawn of.
    ///
    /// # Errors
    /// All graphs are left out, or there are too few samples.
    pub fn check(&self, model: Model, samples: u64) -> Result<(), SampleError> {
        if self.exact.is_empty() && self.sampled.is_empty() {
            return Err(nothing(model, &self.shares));
        }
        match self.sampled.len() {
            strata if samples < strata as u64 => Err(SampleError::TooFew { samples, strata }),
            _ => Ok(()),
        }
    }

    /// The most edges of a graph.
    pub fn most(&self) -> usize {
        self.shares.iter().rposition(|&share| share > 0.0).unwrap_or(0)
    }

    /// The share of the graphs of which nothing is known.
    pub fn left_out(&self) -> f64 {
        let is_known = |size: &usize| self.exact.contains(size) || self.sampled.contains(size);
        let sizes = (0..self.shares.len()).filter(|size| !is_known(size));
        // Of nothing, `sum` is -0.
        sizes.map(|size| self.shares[size]).fold(0.0, |sum, share| sum + share)
    }
}
