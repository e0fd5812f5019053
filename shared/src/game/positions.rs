//! What forward searches remember of positions.

use std::collections::HashMap;

use crate::graph::{Code, pairs};

/// A value for each of many positions: the edges that are unused, and where the tokens are. Takes
/// about 20 to 40 bytes for each position on graphs of order at most 16, else twice as many.
pub(super) struct PositionTable<V> {
    narrow: HashMap<u128, V, foldhash::fast::RandomState>,
    wide: HashMap<[u128; 2], V, foldhash::fast::RandomState>,
}

impl<V> Default for PositionTable<V> {
    fn default() -> Self {
        PositionTable { narrow: HashMap::default(), wide: HashMap::default() }
    }
}

impl<V: Copy> PositionTable<V> {
    /// Forgets all positions.
    pub(super) fn clear(&mut self) {
        self.narrow.clear();
        self.wide.clear();
    }

    /// Number of positions.
    pub(super) fn len(&self) -> usize {
        self.narrow.len() + self.wide.len()
    }

    /// The value of a position.
    pub(super) fn get(&self, unused: Code, tokens: [usize; 2]) -> Option<V> {
        match narrow(unused, tokens) {
            Some(key) => self.narrow.get(&key).copied(),
            None => self.wide.get(&wide(unused, tokens)).copied(),
        }
    }

    /// Remembers the value of a position.
    pub(super) fn insert(&mut self, unused: Code, tokens: [usize; 2], value: V) {
        match narrow(unused, tokens) {
            Some(key) => self.narrow.insert(key, value),
            None => self.wide.insert(wide(unused, tokens), value),
        };
    }
}

/// Up to order 16: 120 bits for the edges, and 4 for each token.
fn narrow(unused: Code, [a, b]: [usize; 2]) -> Option<u128> {
    let edge_bits = pairs(16);
    let fits = unused.beyond() == 0 && a < 16 && b < 16;
    fits.then(|| unused.narrow() | (a as u128) << edge_bits | (b as u128) << (edge_bits + 4))
}

/// The 70 bits of more edges leave room for the tokens.
fn wide(unused: Code, [a, b]: [usize; 2]) -> [u128; 2] {
    [unused.narrow(), unused.beyond() | (a as u128) << 112 | (b as u128) << 120]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Graph, MAX_ORDER};

    #[test]
    fn positions_are_told_apart() {
        let mut table = PositionTable::default();
        let mut expected = Vec::new();
        for n in [3, 15, 16, 17, MAX_ORDER] {
            for code in [Code::default(), Graph::from_edges(n, [(0, n - 1)]).code()] {
                for tokens in [[0, 0], [0, n - 1], [n - 1, 0], [n - 1, n - 2]] {
                    if table.get(code, tokens).is_none() {
                        table.insert(code, tokens, expected.len());
                        expected.push((code, tokens));
                    }
                }
            }
        }
        assert_eq!(table.len(), expected.len());
        for (value, (code, tokens)) in expected.into_iter().enumerate() {
            assert_eq!(table.get(code, tokens), Some(value));
        }
        table.clear();
        assert_eq!(table.len(), 0);
    }
}
