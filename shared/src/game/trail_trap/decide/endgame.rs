//! The records of all graphs of one order with one number of edges, in one table in memory: what
//! a search ends in.
//!
//! A graph is known by the code of its canonical form, scrambled by a bijection. The upper bits of
//! that number are its place in a directory, the lower ones stand before its record; so an entry
//! of order 12 takes 25 bytes, and a look-up is one step into the directory and one to the
//! entries there, one or two.
//!
//! A table is filled by many threads at once. It falls into pieces, ranges of places; what a
//! thread has is sorted by piece, and each piece is locked while that of it goes in, so that
//! steps within the table are short.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use super::MAX_DECIDED_ORDER;
use crate::{
    game::{Game, TrailTrap},
    graph::pairs,
    partition::prefetch,
};

/// Odd, and its upper bits depend on all of those below: multiplying with it scrambles.
const SCRAMBLE: u128 = 0x2d35_8dcc_aa6c_78a5_9e37_79b9_7f4a_7c15;

/// As many graphs as an endgame has room for: the entries of its directory number them.
pub const MOST_GRAPHS: u64 = u32::MAX as u64;

/// What is wrong with graphs that were to make an endgame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndgameError {
    /// Searches are not compiled for this order.
    #[error("there are no endgames of order {0}: 1 to {MAX_DECIDED_ORDER} can be done")]
    Order(usize),
    /// More than the entries of a directory can number.
    #[error("{0} graphs are too many for an endgame: it has room for {MOST_GRAPHS}")]
    TooMany(usize),
    /// A graph was not counted before it was put in.
    #[error("more graphs have come than were counted")]
    Uncounted,
    /// Not as many graphs were counted, or put in, as there are.
    #[error("there are {graphs} graphs, and {found} have come")]
    Number {
        /// Graphs that there are.
        graphs: usize,
        /// Graphs that have come.
        found: usize,
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
        // What is left fits a word of 8 bytes.
        Shape::with_directory(order, graphs, pairs(order).saturating_sub(56))
    }

    /// With a place in the directory for about every graph, and 2^`least` places at least.
    fn with_directory(order: usize, graphs: usize, least: usize) -> Self {
        let bits = pairs(order);
        let directory_bits = (graphs.max(1).ilog2() as usize).max(least).min(bits);
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
    /// Graphs that were put in.
    put: AtomicUsize,
}

/// A table to count graphs in, or to put them in, on any number of threads.
pub struct Pieces<'a> {
    shape: Shape,
    /// Bits of a place below the number of its piece.
    shift: usize,
    pieces: Vec<Mutex<Piece<'a>>>,
    put: &'a AtomicUsize,
}

/// Some neighbouring places of a table, and their entries.
struct Piece<'a> {
    /// How many graphs belong to each place; while they are put in, the number of the entry
    /// behind the last free one.
    counters: &'a mut [u32],
    /// The number of the first entry.
    first: usize,
    /// Empty while graphs are counted.
    entries: &'a mut [u8],
}

/// log2 of the pieces of a table, at most. At order 12 with 20 edges a piece has a megabyte of
/// counters and ten of entries.
const PIECE_BITS: usize = 8;

impl EndgameBuilder {
    /// For `graphs` graphs of order `order` with `size` edges.
    ///
    /// # Errors
    /// No searches are compiled for this order, or there are more than [`MOST_GRAPHS`].
    pub fn new(order: usize, size: usize, graphs: usize) -> Result<Self, EndgameError> {
        if !(1..=MAX_DECIDED_ORDER).contains(&order) {
            return Err(EndgameError::Order(order));
        }
        if graphs as u64 > MOST_GRAPHS {
            return Err(EndgameError::TooMany(graphs));
        }
        let shape = Shape::new(order, graphs);
        let directory = vec![0; shape.places() + 1];
        let endgame = Endgame { shape, size, directory, entries: Vec::new() };
        Ok(EndgameBuilder { endgame, graphs, put: AtomicUsize::new(0) })
    }

    /// The table, to count graphs in.
    pub fn counting(&mut self) -> Pieces<'_> {
        self.pieces(0)
    }

    /// The table, to put those graphs in that were counted.
    ///
    /// # Errors
    /// Not as many were counted as there are.
    pub fn filling(&mut self) -> Result<Pieces<'_>, EndgameError> {
        let Endgame { shape, directory, entries, .. } = &mut self.endgame;
        let mut sum = 0usize;
        for count in directory.iter_mut() {
            sum += *count as usize;
            // What is too large for this is not the number of all graphs either.
            *count = sum as u32;
        }
        if sum != self.graphs {
            return Err(EndgameError::Number { graphs: self.graphs, found: sum });
        }
        *entries = vec![0; sum * shape.stride + SLACK];
        let stride = shape.stride;
        Ok(self.pieces(stride))
    }

    /// The table in pieces, with so many bytes for each entry.
    fn pieces(&mut self, stride: usize) -> Pieces<'_> {
        let Endgame { shape, directory, entries, .. } = &mut self.endgame;
        let shift = shape.places().ilog2().saturating_sub(PIECE_BITS as u32) as usize;
        let (mut first, mut rest) = (0, &mut entries[..]);
        let mut pieces = Vec::new();
        // Place i has counter i + 1, so that its entries will begin there when all are put in.
        for counters in directory[1..].chunks_mut(1 << shift) {
            let end = counters.last().map_or(first, |&end| end as usize);
            let bytes = stride * end.saturating_sub(first);
            let (entries, others) = rest.split_at_mut_checked(bytes).unwrap_or_default();
            pieces.push(Mutex::new(Piece { counters, first, entries }));
            (first, rest) = (end, others);
        }
        Pieces { shape: *shape, shift, pieces, put: &self.put }
    }

    /// The endgame, if all graphs are in it.
    ///
    /// # Errors
    /// Some are missing.
    pub fn finish(mut self) -> Result<Endgame, EndgameError> {
        let found = self.put.into_inner();
        if found != self.graphs || self.endgame.entries.is_empty() {
            return Err(EndgameError::Number { graphs: self.graphs, found });
        }
        // Each place i now begins at `directory[i + 1]`.
        self.endgame.directory.remove(0);
        self.endgame.directory.push(self.graphs as u32);
        Ok(self.endgame)
    }
}

impl Pieces<'_> {
    /// Counts graphs by the codes of their canonical forms.
    pub fn count(&self, codes: &[u128]) {
        self.each(codes, |piece, place, _, _| {
            let counter = &mut piece.counters[place];
            *counter = counter.saturating_add(1);
            Ok(())
        })
        .unwrap_or_default();
    }

    /// Puts in graphs that were counted: `record` has that of the i-th.
    ///
    /// # Errors
    /// One of them was not counted.
    pub fn put<'r>(
        &self,
        codes: &[u128],
        record: impl Fn(usize) -> &'r [u8],
    ) -> Result<(), EndgameError> {
        let Shape { rest_bytes, stride, .. } = self.shape;
        self.each(codes, |piece, place, rest, i| {
            // Filled from the end of each place: its counter goes down to where it begins.
            let end = &mut piece.counters[place];
            let free = (*end as usize).checked_sub(piece.first + 1);
            let free = free.ok_or(EndgameError::Uncounted)?;
            let entry = piece.entries.get_mut(free * stride..(free + 1) * stride);
            let entry = entry.ok_or(EndgameError::Uncounted)?;
            *end -= 1;
            entry[..rest_bytes].copy_from_slice(&rest.to_le_bytes()[..rest_bytes]);
            entry[rest_bytes..].copy_from_slice(&record(i)[..stride - rest_bytes]);
            Ok(())
        })?;
        self.put.fetch_add(codes.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Does something with each graph, piece by piece: given are its place in the piece, the rest
    /// of its code, and its number among `codes`.
    fn each(
        &self,
        codes: &[u128],
        mut act: impl FnMut(&mut Piece, usize, u64, usize) -> Result<(), EndgameError>,
    ) -> Result<(), EndgameError> {
        let (shape, count) = (self.shape, self.pieces.len());
        let piece_of = |scrambled: u128| shape.place(scrambled) >> self.shift;
        let mut ends = vec![0; count + 1];
        for &code in codes {
            ends[piece_of(shape.scrambled(code)) + 1] += 1;
        }
        (0..count).for_each(|piece| ends[piece + 1] += ends[piece]);
        // Where those of a piece begin; in the end, where they end.
        let mut sorted = vec![(0, 0); codes.len()];
        for (i, &code) in codes.iter().enumerate() {
            let scrambled = shape.scrambled(code);
            let end = &mut ends[piece_of(scrambled)];
            sorted[*end] = (scrambled, i);
            *end += 1;
        }
        // Threads begin with different pieces, so that they do not wait for each other.
        let first = codes.first().map_or(0, |&code| piece_of(shape.scrambled(code)));
        for piece in (first..count).chain(0..first) {
            let begin = if piece == 0 { 0 } else { ends[piece - 1] };
            let mut locked = self.pieces[piece].lock().unwrap_or_else(PoisonError::into_inner);
            for &(scrambled, i) in &sorted[begin..ends[piece]] {
                let place = shape.place(scrambled) & ((1 << self.shift) - 1);
                act(&mut locked, place, shape.rest(scrambled), i)?;
            }
        }
        Ok(())
    }
}

impl Endgame {
    /// Bytes of memory that the endgame of so many graphs takes, or would take if endgames had words
    /// that are longer, beyond order 13.
    pub fn bytes(order: usize, graphs: usize) -> usize {
        let shape = match order <= MAX_DECIDED_ORDER {
            true => Shape::new(order, graphs),
            false => Shape::with_directory(order, graphs, 0),
        };
        shape.bytes(graphs)
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
