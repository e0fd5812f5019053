//! What the census computes about each graph, behind one small interface: a value that follows
//! from the values of all graphs with one edge less. Generator, shards, leases, store and tables
//! know games only through [`Game`].

pub mod trail_trap;

pub use trail_trap::{Outcome, TrailTrap};

use crate::graph::VertexSet;

/// What a look-up of H − uw tells, in the labels of H − uw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Two sets of labels; they come back to [`Game::fold`] as sets of vertices of H.
    pub sets: [VertexSet; 2],
    /// What else the game wants to know; passed on unchanged.
    pub flags: u16,
}

/// What one graph adds to the sums of its shard. Independent of the labelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Whether the first player wins.
    pub p1_wins: bool,
    /// Rooted positions (H; a, b) that the player to move wins: Σ|W|.
    pub won_positions: u32,
    /// Vertices v for which the second player wins after P1's first move ended in v: |R|.
    pub refuted_ends: u32,
    /// First moves u → v that win for P1.
    pub winning_first_moves: u32,
}

/// A game whose value on a graph H is a fold over the edges uw of H, each step reading the value
/// of H − uw.
pub trait Game: Copy + Send + Sync + 'static {
    /// Names the recurrence and the layout of its records in stores and on the wire.
    const ID: u16;

    /// The value of a graph, in some labelling of it. `Default` is the value of an edgeless graph,
    /// where the fold starts.
    type Outcome: Copy + Default + PartialEq + std::fmt::Debug + Send + Sync;

    /// Number of bits of a record of order `n`.
    fn record_bits(n: usize) -> usize;

    /// Writes the record of order `n`; `record` has [`record_bytes`] bytes, all of which are
    /// overwritten.
    fn encode(n: usize, outcome: &Self::Outcome, record: &mut [u8]);

    /// The image of an outcome when vertex v becomes `label[v]`.
    fn relabelled(n: usize, outcome: &Self::Outcome, label: &[u8]) -> Self::Outcome;

    /// Reads from the record of H − uw what the fold over uw needs, u and w having these labels
    /// there.
    fn ask(n: usize, record: &[u8], u: usize, w: usize) -> Answer;

    /// Folds the edge uw of H: `answer` is that of [`Game::ask`] with its sets pulled back to
    /// vertices of H.
    fn fold(n: usize, outcome: &mut Self::Outcome, u: usize, w: usize, answer: &Answer);

    /// What the finished fold of a graph of order `n` adds to the sums.
    fn tally(n: usize, outcome: &Self::Outcome) -> Tally;

    /// Whether the first player wins, read from a record.
    fn p1_wins(n: usize, record: &[u8]) -> bool;
}

/// Bytes of a record of order `n`.
pub fn record_bytes<G: Game>(n: usize) -> usize {
    G::record_bits(n).div_ceil(8)
}
