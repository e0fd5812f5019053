//! The records of all graphs of one order with one number of edges, in one table in memory: what
//! a search ends in.
//!
//! A graph is known by the code of its canonical form, scrambled by a bijection. The upper bits of
//! that number are its place in a directory, the lower ones stand before its record; so an entry
//! of order 12 takes 25 bytes, and a look-up is one step into the directory and one to the
//! entries there, one or two.

use crate::{
    game::{Game, TrailTrap},
    graph::pairs,
    labelling::MAX_BATCH_ORDER,
    partition::prefetch,
};

/// Odd, and its upper bits depend on all of those below: multiplying with it scrambles.
const SCRAMBLE: u128 = 0x2d35_8dcc_aa6c_78a5_9e37_79b9_7f4a_7c15;

/// What is wrong with graphs that were to make an endgame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndgameError {
    /// Batches are not compiled for this order.
    #[error("there are no endgames of order {0}: 1 to {MAX_BATCH_ORDER} can be done")]
    Order(usize),
    /// More than the entries of a directory can number.
    #[error("{0} graphs are too many for an endgame: it has room for {max}", max = u32::MAX)]
    TooMany(usize),
    /// A graph was not counted before it was put in.
    #[error("more graphs have come than were counted")]
    Uncounted,
    /// A graph was counted and not put in.
    #[error("{missing} of {graphs} graphs that were counted have not come")]
    Missing {
        /// Graphs that were counted.
        graphs: usize,
        /// Graphs that have not come.
        missing: usize,
    },
}

/// A graph that an endgame lacks, though it has the right order and number of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the endgame lacks a graph with {size} edges (canonical code {code:#x}): what it was made of \
     is not complete"
)]
pub struct MissingGraph {
    /// Number of edges of the graphs in the endgame.
    pub size: usize,
    /// The code of the graph in canonical labels.
    pub code: u128,
}

/// Where entries are.
#[derive(Clone, Copy, Debug)]
struct Shape {
    order: usize,
    /// Bits of a code.
    bits: usize,
    /// Bits below the place in the directory.
    rest_bits: usize,
    /// Bytes of these.
    rest_bytes: usize,
    /// Bytes of an entry: these, then the record.
    stride: usize,
}

impl Shape {
    fn new(order: usize, graphs: usize) -> Self {
        let bits = pairs(order);
        // What is left fits a word of 8 bytes.
        let directory_bits =
            (graphs.max(1).ilog2() as usize).max(bits.saturating_sub(56)).min(bits);
        let rest_bits = bits - directory_bits;
        let rest_bytes = rest_bits.div_ceil(8);
        let stride = rest_bytes + TrailTrap::LAYOUT.record_bytes(order);
        Shape { order, bits, rest_bits, rest_bytes, stride }
    }

    fn places(&self) -> usize {
        1 << (self.bits - self.rest_bits)
    }

    #[inline(always)]
    fn scrambled(&self, code: u128) -> u128 {
        let mask = (1u128 << self.bits) - 1;
        (code ^ code >> self.bits.div_ceil(2).max(1)).wrapping_mul(SCRAMBLE) & mask
    }

    #[inline(always)]
    fn place(&self, scrambled: u128) -> usize {
        (scrambled >> self.rest_bits) as usize
    }

    #[inline(always)]
    fn rest(&self, scrambled: u128) -> u64 {
        scrambled as u64 & rest_mask(self.rest_bits)
    }

    /// Bytes of a table of so many graphs.
    fn bytes(&self, graphs: usize) -> usize {
        graphs * self.stride + SLACK + 4 * (self.places() + 1)
    }
}

/// The lowest bits, at most 56.
const fn rest_mask(bits: usize) -> u64 {
    (1 << bits) - 1
}

/// Rests are read in words of 8 bytes, which may reach this far past the last entry.
const SLACK: usize = 8;

/// The records of all graphs of one order with one number of edges.
pub struct Endgame {
    shape: Shape,
    size: usize,
    /// The entries of place i begin at number `directory[i]` and end before `directory[i + 1]`.
    directory: Vec<u32>,
    entries: Vec<u8>,
}

/// An endgame in the making: all graphs are counted first, then put in, in any order.
pub struct EndgameBuilder {
    endgame: Endgame,
    graphs: usize,
    counted: usize,
    put: usize,
}

impl EndgameBuilder {
    /// For `graphs` graphs of order `order` with `size` edges.
    ///
    /// # Errors
    /// No batches are compiled for this order, or there are more than 2^32 − 1 graphs.
    pub fn new(order: usize, size: usize, graphs: usize) -> Result<Self, EndgameError> {
        if !(1..=MAX_BATCH_ORDER).contains(&order) {
            return Err(EndgameError::Order(order));
        }
        if graphs > u32::MAX as usize {
            return Err(EndgameError::TooMany(graphs));
        }
        let shape = Shape::new(order, graphs);
        let directory = vec![0; shape.places() + 1];
        let endgame = Endgame { shape, size, directory, entries: Vec::new() };
        Ok(EndgameBuilder { endgame, graphs, counted: 0, put: 0 })
    }

    /// Counts a graph by the code of its canonical form.
    pub fn count(&mut self, code: u128) {
        let shape = self.endgame.shape;
        self.endgame.directory[shape.place(shape.scrambled(code)) + 1] += 1;
        self.counted += 1;
    }

    /// Puts in a graph that was counted, with its record.
    ///
    /// # Errors
    /// It was not counted.
    pub fn put(&mut self, code: u128, record: &[u8]) -> Result<(), EndgameError> {
        let Endgame { shape, directory, entries, .. } = &mut self.endgame;
        if entries.is_empty() {
            let mut sum = 0;
            for count in directory.iter_mut() {
                sum += *count;
                *count = sum;
            }
            *entries = vec![0; self.counted * shape.stride + SLACK];
        }
        let scrambled = shape.scrambled(code);
        // Filled from the end of each place: its entry of the directory goes down to its begin.
        let place = &mut directory[shape.place(scrambled) + 1];
        let free = place.checked_sub(1).ok_or(EndgameError::Uncounted)? as usize;
        *place = free as u32;
        self.put += 1;
        let entry = entries.get_mut(free * shape.stride..(free + 1) * shape.stride);
        let entry = entry.ok_or(EndgameError::Uncounted)?;
        entry[..shape.rest_bytes]
            .copy_from_slice(&shape.rest(scrambled).to_le_bytes()[..shape.rest_bytes]);
        let bytes = shape.stride - shape.rest_bytes;
        entry[shape.rest_bytes..].copy_from_slice(&record[..bytes]);
        Ok(())
    }

    /// The endgame, if all graphs are in it.
    ///
    /// # Errors
    /// Some are missing.
    pub fn finish(mut self) -> Result<Endgame, EndgameError> {
        if self.put != self.graphs || self.counted != self.graphs {
            let missing = self.graphs.saturating_sub(self.put.min(self.counted));
            return Err(EndgameError::Missing { graphs: self.graphs, missing });
        }
        // Each place i now begins at `directory[i + 1]`.
        self.endgame.directory.remove(0);
        self.endgame.directory.push(self.graphs as u32);
        Ok(self.endgame)
    }
}

impl Endgame {
    /// Bytes of memory that the endgame of so many graphs of order `order` ≤ 12 takes.
    pub fn bytes(order: usize, graphs: usize) -> usize {
        Shape::new(order, graphs).bytes(graphs)
    }

    /// The order of the graphs.
    pub fn order(&self) -> usize {
        self.shape.order
    }

    /// Their number of edges.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Starts loading the directory entry of a graph into the processor's cache, for a later
    /// [`Endgame::locate`].
    #[inline(always)]
    pub fn prefetch(&self, code: u128) {
        prefetch(&self.directory, self.shape.place(self.shape.scrambled(code)));
    }

    /// The number of the first entry that can be that of a graph. Starts loading that entry into
    /// the processor's cache, for a later [`Endgame::record`].
    #[inline(always)]
    pub fn locate(&self, code: u128) -> u32 {
        let first = self.directory[self.shape.place(self.shape.scrambled(code))];
        prefetch(&self.entries, first as usize * self.shape.stride);
        prefetch(&self.entries, first as usize * self.shape.stride + self.shape.stride - 1);
        first
    }

    /// The record of a graph; `first` is what [`Endgame::locate`] returned for it.
    ///
    /// # Errors
    /// The graph is not there.
    #[inline(always)]
    pub fn record(&self, code: u128, first: u32) -> Result<&[u8], MissingGraph> {
        let Shape { rest_bits, rest_bytes, stride, .. } = self.shape;
        let scrambled = self.shape.scrambled(code);
        let rest = self.shape.rest(scrambled);
        let last = self.directory[self.shape.place(scrambled) + 1] as usize;
        for entry in first as usize..last {
            let at = entry * stride;
            let word = self.entries[at..at + 8].try_into().expect("eight bytes");
            if u64::from_le_bytes(word) & rest_mask(rest_bits) == rest {
                return Ok(&self.entries[at + rest_bytes..at + stride]);
            }
        }
        Err(MissingGraph { size: self.size, code })
    }
}
