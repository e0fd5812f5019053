//! What it costs to decide a graph, on average: one formula for all questions.

use serde::Serialize;

/// Seconds of a core that a graph takes, by its edges, by those of the endgame, and by the order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// The order that the cost of others is told from.
    pub order: usize,
    /// What is left of it without any edges, on either side; a number for the formula.
    pub seconds: f64,
    /// Each edge of the graph multiplies by this.
    pub growth: f64,
    /// Each edge of the endgame's graphs divides by this.
    pub decline: f64,
    /// Each vertex beyond `order` multiplies by this, with as many edges.
    pub by_order: f64,
    /// No endgame is as good as one of so many edges; smaller ones are not worse.
    pub least_endgame: usize,
}

/// A graph that takes longer is not drawn unless people insist.
const PATIENCE_SECONDS: f64 = 600.0;

impl Cost {
    /// What orders 11 and 12 have shown on one core or another.
    pub const BY_EXPERIENCE: Cost = Cost {
        order: 12,
        seconds: 2.3e-8,
        growth: 2.4,
        decline: 1.8,
        by_order: 0.75,
        least_endgame: 13,
    };

    /// Seconds of a core for a graph of this order with so many edges.
    pub fn of(&self, order: usize, size: usize, endgame_size: Option<usize>) -> f64 {
        let endgame = endgame_size.unwrap_or(0).max(self.least_endgame);
        let vertices = order as f64 - self.order as f64;
        let by_order = self.by_order.powf(vertices);
        self.seconds * by_order * self.growth.powi(size as i32) / self.decline.powi(endgame as i32)
    }

    /// The most edges below `most` of graphs that take minutes and not hours; `None` if those with
    /// `most` edges do too.
    pub fn practical(
        &self,
        order: usize,
        most: usize,
        endgame_size: Option<usize>,
    ) -> Option<usize> {
        let is_practical = |size: usize| self.of(order, size, endgame_size) <= PATIENCE_SECONDS;
        (!is_practical(most)).then(|| (0..most).rfind(|&size| is_practical(size)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was measured is what the formula says, but for a factor of two.
    #[test]
    fn experience_is_that_of_the_tables() {
        let measured = [
            (12, 28, None, 0.48),
            (12, 31, Some(20), 0.12),
            (12, 33, Some(20), 0.64),
            (11, 27, Some(14), 0.15),
        ];
        for (order, size, endgame, seconds) in measured {
            let found = Cost::BY_EXPERIENCE.of(order, size, endgame);
            assert!((0.5..2.0).contains(&(found / seconds)), "{order} {size}: {found}");
        }
        assert_eq!(Cost::BY_EXPERIENCE.practical(12, 33, Some(20)), None);
        let practical = Cost::BY_EXPERIENCE.practical(12, 66, Some(20)).unwrap();
        assert!((38..43).contains(&practical), "{practical}");
    }
}
