//! What the census computes about each graph, behind one interface.
//!
//! A [`Game`] gives every graph H an *outcome*: who wins every position on H. It says how outcomes
//! stand in records, what they add to the sums of a shard, and by which [`Method`] they come
//! about:
//!
//! * [`Retrograde`]: the outcome of H is a fold over the edges uw of H, each step of which reads
//!   the record of H − uw. Shards read those with one edge less, and any record can be derived
//!   again from its predecessors, found by nauty.
//! * [`GraphByGraph`]: the outcome of H follows from H alone. Shards read nothing.
//!
//! What blocks, stores, caches and links need to know of a game is a [`Layout`]: its number and
//! the lengths of its records, with the class of graphs that the census is about. What tables,
//! reports and commands say of it is in its [`About`]. Neither is a type parameter. The game is
//! chosen once, at the edge, as a [`GameName`] (by `--game`, or by what a store says), and
//! [`play!`](crate::play) turns the name into the type, so that the kernel is compiled for each
//! game separately and asks nobody which game it plays.
//!
//! The laws that hold between the functions of a game are the generic tests in `laws.rs`, which
//! every game passes.

pub mod edge_geography;
#[cfg(test)]
mod laws;
mod positions;
pub mod trail_trap;

use std::{fmt, ops::RangeInclusive, str::FromStr};

pub use edge_geography::EdgeGeography;
use serde::Serialize;
pub use trail_trap::TrailTrap;

use crate::{
    class::Class,
    graph::{Graph, MAX_ORDER, VertexSet, all_vertices},
};

/// A game has at most this many named sums; statistics have room for so many. Stored statistics
/// have this length, so another number makes every store unreadable.
pub const SUMS: usize = 3;

/// What keeps and carries records needs to know of a census: of which game and class of graphs
/// they are, and how long.
///
/// The last bit of a record tells whether its graph has the listed verdict, whatever the game.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The number of the game: below 256. Frozen, as it is part of [`Layout::number`].
    pub game: u16,
    /// The class of the graphs.
    pub class: Class,
    /// Whether shards read those with one edge less.
    pub reads_predecessors: bool,
    bits: [u16; MAX_ORDER + 1],
}

impl Layout {
    /// The layout of a game whose records of order n have `bits[n]` bits, on all graphs.
    pub const fn new(game: u16, reads_predecessors: bool, bits: [u16; MAX_ORDER + 1]) -> Self {
        Layout { game, class: Class::All, reads_predecessors, bits }
    }

    /// The same on the graphs of a class.
    pub const fn on(self, class: Class) -> Self {
        Layout { class, ..self }
    }

    /// The number of game and class in stores, blocks and handshakes; on all graphs that of the
    /// game. What has another number is refused.
    pub const fn number(&self) -> u16 {
        (self.class.number() as u16) << 8 | self.game
    }

    /// Number of bits of a record of order `n`, at least one.
    #[inline(always)]
    pub fn record_bits(&self, n: usize) -> usize {
        self.bits[n].into()
    }

    /// Bytes of a record of order `n`.
    #[inline(always)]
    pub fn record_bytes(&self, n: usize) -> usize {
        self.record_bits(n).div_ceil(8)
    }

    /// Whether the graph of this record of order `n` has the listed verdict.
    #[inline(always)]
    pub fn is_listed(&self, n: usize, record: &[u8]) -> bool {
        let last = self.record_bits(n) - 1;
        record[last / 8] >> (last % 8) & 1 == 1
    }

    /// Whether the bits of this record of order `n` that mean nothing are zero, as they are in
    /// every record that a game encodes: equal outcomes have equal bytes.
    pub fn is_tidy(&self, n: usize, record: &[u8]) -> bool {
        let left_over = (self.record_bytes(n) * 8 - self.record_bits(n)) as u32;
        record.last().is_none_or(|byte| byte.leading_zeros() >= left_over)
    }
}

/// What there is to say about a game.
#[derive(Debug)]
pub struct About {
    /// The name on the command line.
    pub name: &'static str,
    /// The name in captions.
    pub title: &'static str,
    /// Where the game is defined.
    pub reference: &'static str,
    /// The rules, the verdicts and their source in Markdown, for those who are handed results.
    pub rules: &'static str,
    /// The same source as an entry of a CITATION.cff.
    pub citation: &'static str,
    /// The identifier of the source, if it has one.
    pub identifier: Option<&'static str>,
    /// Decides some graphs without any outcomes.
    pub theorem: Option<Theorem>,
    /// Prefix of every record that is hashed into the public digest: game and version of its
    /// records. Frozen with the digests that are published under it.
    pub digest_tag: &'static str,
    /// The verdicts on a graph. Graphs of the first are listed: their slots have blocks of their
    /// own. There are no other verdicts.
    pub verdicts: [VerdictName; 2],
    /// The sums that statistics hold, at most [`SUMS`].
    pub sums: &'static [SumName],
    /// Names of what [`Game::positions`] tells.
    pub position_keys: &'static [&'static str],
    /// No more than one graph in so many is expected to be listed, of all graphs of an order from 8
    /// on; of graphs with few edges there may be more.
    pub listed_one_in: u64,
    /// Counts that others have published, to compare with.
    pub known: &'static [KnownCounts],
}

/// A theorem that tells the verdict on all graphs of a class.
#[derive(Debug)]
pub struct Theorem {
    /// The class.
    pub class: Class,
    /// Where it is from.
    pub source: &'static str,
    /// Whether a graph of the class has the listed verdict. Knows nothing of the recurrence.
    pub is_listed: fn(&Graph) -> bool,
}

/// How a verdict is called.
#[derive(Debug)]
pub struct VerdictName {
    /// What names of columns and keys begin with: `p1` in `p1_wins` and `p1_share`.
    pub stem: &'static str,
    /// In answers.
    pub winner: &'static str,
    /// Over columns of counts …
    pub heading: &'static str,
    /// … and of shares in percent.
    pub share_heading: &'static str,
    /// As a clause after "graphs".
    pub clause: &'static str,
}

/// The verdicts of games that are won by the first player or by the second, of which the graphs
/// that the first player wins are listed.
pub const FIRST_OR_SECOND: [VerdictName; 2] = [
    VerdictName {
        stem: "p1",
        winner: "P1",
        heading: "P1-win",
        share_heading: "P1-win, %",
        clause: "that the first player wins",
    },
    VerdictName {
        stem: "p2",
        winner: "P2",
        heading: "P2-win",
        share_heading: "P2-win, %",
        clause: "that the second player wins",
    },
];

/// A sum over graphs that does not depend on any labelling.
#[derive(Debug)]
pub struct SumName {
    /// In columns and keys.
    pub key: &'static str,
    /// In answers about one graph.
    pub symbol: &'static str,
    /// Over columns for people; `None` leaves the sum out of what is made for them.
    pub heading: Option<&'static str>,
    /// What is added up.
    pub meaning: &'static str,
    /// The same, as the files of shards put it.
    pub meaning_in_shards: &'static str,
    /// What one has to know of a graph to know its share in the sum.
    pub told: Told,
    /// Between which numbers the sum lies: further apart for larger orders and sizes.
    pub bounds: fn(&Scope) -> RangeInclusive<u128>,
}

/// What tells the share of one graph in a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The record, with the graph and its group.
    ByRecord,
    /// Only the computation of the outcome: records do not keep it. A game has at most one such
    /// sum, and over all graphs of a shard it follows from [`Game::pairs_ahead`].
    ByOutcome,
}

/// What the bounds of a sum depend on.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// The number of vertices of all graphs.
    pub order: u128,
    /// All graphs have at most this many edges.
    pub size: u128,
    /// Number of graphs, or their weight.
    pub graphs: u128,
    /// Of those of the listed verdict.
    pub listed: u128,
}

/// Counts of connected graphs of the second verdict, from an order on, and who published them.
#[derive(Debug)]
pub struct KnownCounts {
    /// What is counted, and where that is to be read.
    pub what: &'static str,
    /// The order of the first count.
    pub first_order: usize,
    /// The counts of this order and those that follow.
    pub counts: &'static [u128],
}

/// What a look-up of H − uw tells, in the labels of H − uw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PredecessorAnswer {
    /// Two sets of labels; they come back to [`Retrograde::fold`] as sets of vertices of H.
    pub sets: [VertexSet; 2],
    /// What else the game wants to know; passed on unchanged.
    pub flags: u16,
}

/// What one graph adds to the sums of its shard. Independent of the labelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Whether it has the listed verdict.
    pub listed: bool,
    /// Its share in each of the game's sums; zero for sums that the game does not have.
    pub sums: [u32; SUMS],
}

/// A game.
pub trait Game: Copy + fmt::Debug + Send + Sync + 'static {
    /// Whose records these are, and how long they are.
    const LAYOUT: Layout;

    /// What there is to say about the game.
    const ABOUT: About;

    /// The value of a graph, in some labelling of it. `Default` is the value of an edgeless graph,
    /// where the fold of a retrograde game starts.
    type Outcome: Copy + Default + PartialEq + fmt::Debug + Send + Sync;

    /// The same game, with outcomes that take less room, on graphs of order at most
    /// [`NARROW_ORDER`](crate::graph::NARROW_ORDER).
    type Narrow: Game;

    /// How outcomes come about: [`ByEdges`] or [`ByGraphs`].
    type Method: Method<Self>;

    /// Plays the game by its rules.
    type Search: Search;

    /// Writes the record of order `n`; `record` has the bytes that the layout says, all of which
    /// are overwritten. The last bit is set if the graph has the listed verdict.
    fn encode(n: usize, outcome: &Self::Outcome, record: &mut [u8]);

    /// Writes the record of what [`Game::relabelled`] returns.
    fn encode_relabelled(n: usize, outcome: &Self::Outcome, label: &[u8], record: &mut [u8]) {
        Self::encode(n, &Self::relabelled(n, outcome, label), record);
    }

    /// Reads a record back, apart from what records do not keep.
    fn decode(n: usize, record: &[u8]) -> Self::Outcome;

    /// The image of an outcome when vertex v becomes `label[v]`.
    fn relabelled(n: usize, outcome: &Self::Outcome, label: &[u8]) -> Self::Outcome;

    /// What a graph with so many automorphisms adds to the sums, by its finished outcome in the
    /// same labels.
    fn tally(graph: &Graph, automorphisms: u64, outcome: &Self::Outcome) -> Tally;

    /// For each vertex v the vertices u, not joined to v, such that the pair (v, u) adds one to
    /// the sum that is [`Told::ByOutcome`] of the graph that has the edge uv more. So that sum
    /// follows from the records of the graphs with one edge less, each taken by itself.
    ///
    /// Games without such a sum have no such pairs.
    fn pairs_ahead(_graph: &Graph, _outcome: &Self::Outcome) -> [VertexSet; MAX_ORDER] {
        [0; MAX_ORDER]
    }

    /// Whether [`Game::pairs_ahead`] may have a pair, by a look at the record of order `n` alone:
    /// most graphs have none, and need not be read.
    fn may_tell_ahead(_n: usize, _record: &[u8]) -> bool {
        false
    }

    /// The outcome of every position, for people and programs, under the keys that
    /// [`About::position_keys`] says.
    fn positions(n: usize, outcome: &Self::Outcome) -> Vec<Positions>;

    /// A record of order `n` as bytes.
    fn record(n: usize, outcome: &Self::Outcome) -> Vec<u8> {
        let mut record = vec![0; Self::LAYOUT.record_bytes(n)];
        Self::encode(n, outcome, &mut record);
        record
    }
}

/// How the outcomes of a game come about. Games choose between [`ByEdges`] and [`ByGraphs`].
pub trait Method<G: Game> {
    /// Whether the record of H − uw is looked up for every edge uw of H.
    const READS_PREDECESSORS: bool;

    /// Room for [`Method::finish`] to work in.
    type Scratch: Default + Send;

    /// Reads from the record of H − uw what the fold over uw needs, u and w having these labels
    /// there.
    fn ask(n: usize, record: &[u8], u: usize, w: usize) -> PredecessorAnswer;

    /// Folds the edge uw of H: `answer` is that of [`Method::ask`] with its sets pulled back to
    /// vertices of H.
    fn fold(n: usize, outcome: &mut G::Outcome, u: usize, w: usize, answer: &PredecessorAnswer);

    /// Makes the outcome of a graph complete, once all its edges are folded.
    fn finish(graph: &Graph, outcome: &mut G::Outcome, scratch: &mut Self::Scratch);

    /// The outcome again, without anything of the above: of a retrograde game from the outcomes of
    /// the graphs with one edge less, which `find` knows. It is given such a graph and answers in
    /// the labels of that graph.
    ///
    /// # Errors
    /// Those of `find`.
    fn derive<E>(
        graph: &Graph,
        find: impl FnMut(&Graph) -> Result<G::Outcome, E>,
    ) -> Result<G::Outcome, E>;
}

/// A game whose outcome on H is a fold over the edges uw of H that reads the records of H − uw.
pub trait Retrograde: Game {
    /// As [`Method::ask`].
    fn ask(n: usize, record: &[u8], u: usize, w: usize) -> PredecessorAnswer;

    /// As [`Method::fold`]. Edges may come in any order.
    fn fold(n: usize, outcome: &mut Self::Outcome, u: usize, w: usize, answer: &PredecessorAnswer);

    /// As [`Method::finish`].
    #[inline(always)]
    fn finish(_graph: &Graph, _outcome: &mut Self::Outcome) {}

    /// One step of the recurrence, taken again as [`Method::derive`] says, and written from the
    /// rules: without the labelling, the look-up or the fold of the kernel.
    ///
    /// # Errors
    /// Those of `find`.
    fn derive<E>(
        graph: &Graph,
        find: impl FnMut(&Graph) -> Result<Self::Outcome, E>,
    ) -> Result<Self::Outcome, E>;
}

/// The method of retrograde games.
pub struct ByEdges;

impl<G: Retrograde> Method<G> for ByEdges {
    const READS_PREDECESSORS: bool = true;

    type Scratch = ();

    #[inline(always)]
    fn ask(n: usize, record: &[u8], u: usize, w: usize) -> PredecessorAnswer {
        G::ask(n, record, u, w)
    }

    #[inline(always)]
    fn fold(n: usize, outcome: &mut G::Outcome, u: usize, w: usize, answer: &PredecessorAnswer) {
        G::fold(n, outcome, u, w, answer);
    }

    #[inline(always)]
    fn finish(graph: &Graph, outcome: &mut G::Outcome, (): &mut ()) {
        G::finish(graph, outcome);
    }

    fn derive<E>(
        graph: &Graph,
        find: impl FnMut(&Graph) -> Result<G::Outcome, E>,
    ) -> Result<G::Outcome, E> {
        G::derive(graph, find)
    }
}

/// A game that is solved on each graph by itself.
pub trait GraphByGraph: Game {
    /// Room to work in, kept from one graph to the next.
    type Scratch: Default + Send;

    /// The outcome of a graph.
    fn solve(graph: &Graph, scratch: &mut Self::Scratch) -> Self::Outcome;

    /// The outcome of a graph, found in another way.
    fn solve_again(graph: &Graph) -> Self::Outcome;
}

/// The method of games that are solved graph by graph.
pub struct ByGraphs;

impl<G: GraphByGraph> Method<G> for ByGraphs {
    const READS_PREDECESSORS: bool = false;

    type Scratch = G::Scratch;

    fn ask(_n: usize, _record: &[u8], _u: usize, _w: usize) -> PredecessorAnswer {
        PredecessorAnswer::default()
    }

    fn fold(
        _n: usize,
        _outcome: &mut G::Outcome,
        _u: usize,
        _w: usize,
        _answer: &PredecessorAnswer,
    ) {
    }

    fn finish(graph: &Graph, outcome: &mut G::Outcome, scratch: &mut G::Scratch) {
        *outcome = G::solve(graph, scratch);
    }

    fn derive<E>(
        graph: &Graph,
        _find: impl FnMut(&Graph) -> Result<G::Outcome, E>,
    ) -> Result<G::Outcome, E> {
        Ok(G::solve_again(graph))
    }
}

/// Outcomes of positions on one graph, in the labels of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Positions {
    /// A set of vertices, and what is true of them.
    Whole {
        /// What is said before the vertices are named.
        says: &'static str,
        /// The vertices.
        set: VertexSet,
    },
    /// For each vertex a set of vertices, and what is true of them.
    Each {
        /// What is said before the vertex is named, and after it.
        says: [&'static str; 2],
        /// The set of each vertex.
        sets: Vec<VertexSet>,
    },
}

/// An edge and a direction: a token is moved from the first vertex to the second.
pub type Move = (usize, usize);

/// What the first player begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum FirstMove {
    /// A move.
    Along(Move),
    /// To put the token on a vertex.
    At(usize),
}

impl FirstMove {
    /// Where the token is put.
    pub fn start(&self) -> usize {
        match *self {
            FirstMove::Along((start, _)) | FirstMove::At(start) => start,
        }
    }
}

impl fmt::Display for FirstMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FirstMove::Along((from, to)) => write!(f, "{from}→{to}"),
            FirstMove::At(vertex) => write!(f, "a start at {vertex}"),
        }
    }
}

/// Who wins a graph, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Solution {
    /// The first player wins, for example with this opening.
    P1 {
        /// What to begin with.
        opening: FirstMove,
    },
    /// The second player wins: for each opening an answer that does. No openings: the first player
    /// cannot begin.
    P2 {
        /// Openings and answers to them.
        answers: Vec<(FirstMove, Move)>,
    },
}

impl Solution {
    /// Whether this is the listed verdict of [`FIRST_OR_SECOND`].
    pub fn is_listed(&self) -> bool {
        matches!(self, Solution::P1 { .. })
    }
}

/// A search met more positions than it may remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("forward search gave up after {0} positions")]
pub struct TooManyPositions(pub usize);

/// Forward search for one given graph: who wins, and how. It plays a game by its rules, knows
/// nothing of outcomes or records, and so is an independent check of a census.
pub trait Search: Send {
    /// A search that gives up after `limit` positions; each takes about 40 bytes, of a graph
    /// with more than 16 vertices twice that.
    fn new(limit: usize) -> Self;

    /// Solves a graph.
    ///
    /// # Errors
    /// When there are more positions than the limit.
    fn solve(&mut self, graph: &Graph) -> Result<Solution, TooManyPositions>;
}

/// The games of this program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GameName {
    /// [`TrailTrap`]
    #[default]
    TrailTrap,
    /// [`EdgeGeography`]
    EdgeGeography,
}

/// Does something for the type of a game of which one has the name: in
/// `play!(name, G => work::<G>())` the type `G` is that game, and in `play!(name, order, G =>
/// work::<G>())` the one that takes least room on graphs of this order.
#[macro_export]
macro_rules! play {
    ($name:expr, $order:expr, $G:ident => $work:expr) => {
        $crate::play!($name, Wide => {
            if $order <= $crate::graph::NARROW_ORDER {
                type $G = <Wide as $crate::game::Game>::Narrow;
                $work
            } else {
                type $G = Wide;
                $work
            }
        })
    };
    ($name:expr, $G:ident => $work:expr) => {
        match $name {
            $crate::game::GameName::TrailTrap => {
                type $G = $crate::game::TrailTrap;
                $work
            }
            $crate::game::GameName::EdgeGeography => {
                type $G = $crate::game::EdgeGeography;
                $work
            }
        }
    };
}

impl About {
    /// The place of the sum that records do not keep, if the game has one.
    pub fn told_by_outcome(&self) -> Option<usize> {
        self.sums.iter().position(|name| name.told == Told::ByOutcome)
    }
}

impl GameName {
    /// All of them.
    pub const ALL: [GameName; 2] = [GameName::TrailTrap, GameName::EdgeGeography];

    /// The game of this number.
    pub fn of_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|game| game.layout().game == number)
    }

    /// The game and the class that have this number in stores, blocks and handshakes.
    pub fn on_class_of_number(number: u16) -> Option<(Self, Class)> {
        let [game, class] = number.to_le_bytes();
        Some((Self::of_number(game.into())?, Class::of_number(class)?))
    }

    /// Whose records these are, and how long they are.
    pub fn layout(self) -> Layout {
        play!(self, G => G::LAYOUT)
    }

    /// What there is to say about the game.
    pub fn about(self) -> &'static About {
        play!(self, G => &G::ABOUT)
    }
}

/// The name on the command line.
impl fmt::Display for GameName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.about().name)
    }
}

/// A name that no game has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no game of this program: there are trail-trap and edge-geography")]
pub struct UnknownGame(String);

impl FromStr for GameName {
    type Err = UnknownGame;

    fn from_str(text: &str) -> Result<Self, UnknownGame> {
        let named = Self::ALL.into_iter().find(|game| game.about().name == text);
        named.ok_or_else(|| UnknownGame(text.to_owned()))
    }
}

/// The `count` ≤ 20 bits from bit `start` on. Short records, which hold these bits but not the
/// whole word that they are in, are read byte by byte.
#[inline(always)]
fn bits(record: &[u8], start: usize, count: usize) -> VertexSet {
    let byte = start / 8;
    let word = match record.get(byte..byte + 4) {
        Some(four) => u32::from_le_bytes(four.try_into().expect("four bytes")),
        None => last_word(record, byte),
    };
    word >> (start % 8) & all_vertices(count)
}

/// The bytes from this one to the last, of which there are fewer than four. Not inlined, since where
/// most records are read, in tables, more bytes follow.
#[inline(never)]
fn last_word(record: &[u8], byte: usize) -> u32 {
    record[byte..].iter().rev().fold(0, |word, &b| word << 8 | u32::from(b))
}
