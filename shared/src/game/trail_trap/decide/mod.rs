//! Who wins a given graph, decided by a search that ends in stored outcomes.
//!
//! The game is played from the empty board down to positions whose unused graph has as many edges
//! as the graphs of an [`Endgame`], where the records say who wins; without one, to the end. A
//! [`Decider`] runs many searches at once on one thread: positions that they ask for are labelled
//! in batches, and the look-ups of one batch are on their way while the next ones are searched.
//! The cost grows about 2.4-fold with each edge of the graph, and falls to little more than half
//! with each edge of the endgame. (Forward search without all that, for a check, is in
//! [`super::ForwardSearch`].)

mod endgame;
mod order;
mod search;

use std::collections::VecDeque;

pub use endgame::{Endgame, EndgameBuilder, EndgameError, MOST_GRAPHS, MissingGraph, Pieces};
use search::{Question, Search, Step};

use crate::{
    graph::{Graph, MAX_ORDER, NARROW_ORDER},
    labelling::{
        batch::{Batch, Kernel, LANES, first_lanes, lanes_of},
        forest::Forest,
    },
};

/// Changes whenever searches would visit other positions, or as many in another order: numbers of
/// nodes of different methods do not compare.
pub const METHOD: u32 = 1;

/// The largest order of graphs that are decided.
pub const MAX_DECIDED_ORDER: usize = 13;

/// What came out of one search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Whether P1 wins.
    pub p1_wins: bool,
    /// Positions that were visited: they follow from the graph, its labels, and the size of the
    /// endgame.
    pub nodes: u64,
    /// How many of them were looked up.
    pub leaves: u64,
}

/// Searches that a decider runs at once, if there is an endgame: three batches on their way, and
/// graphs that wait for a search of their labels.
const SEARCHES: usize = 4 * LANES;

/// Decides graphs of one order, many at once, on one thread.
pub struct Decider<'a> {
    endgame: Option<&'a Endgame>,
    searches: Vec<Search>,
    pipeline: Option<Pipeline>,
}

/// A question on its way.
#[derive(Clone, Copy)]
struct Asked {
    search: usize,
    question: Question,
}

/// Up to 32 questions in one of the stages: being gathered, labelled with their directory entries
/// on the way, or located with their records on the way.
struct Stage {
    batch: Box<Batch>,
    asked: Vec<Asked>,
    /// Lanes that have a code.
    labelled: u32,
    codes: [u128; LANES],
    places: [u32; LANES],
}

struct Pipeline {
    gathering: Stage,
    labelled: Stage,
    located: Stage,
    /// Questions whose labels need a search wait for each other.
    forest: Forest<Asked>,
}

impl<'a> Decider<'a> {
    /// A decider of graphs of the order of `endgame`; without one, of any order up to 13.
    pub fn new(endgame: Option<&'a Endgame>, kernel: Kernel) -> Self {
        let pipeline = endgame.map(|endgame| {
            let batch = || Batch::new(endgame.order(), kernel);
            let stage = || Stage {
                batch: batch(),
                asked: Vec::with_capacity(LANES),
                labelled: 0,
                codes: [0; LANES],
                places: [0; LANES],
            };
            Pipeline {
                gathering: stage(),
                labelled: stage(),
                located: stage(),
                forest: Forest::new(batch()),
            }
        });
        let count = if endgame.is_some() { SEARCHES } else { 1 };
        Decider { endgame, searches: (0..count).map(|_| Search::new()).collect(), pipeline }
    }

    /// The same with no more than so many searches at once, and one at least: where there are few
    /// graphs for many threads, no thread should take more than its share.
    #[must_use]
    pub fn at_most(mut self, searches: usize) -> Self {
        self.searches.truncate(searches.max(1));
        self
    }

    /// Decides graphs as they come from `next`, each with a number that it is known by, until there
    /// are no more. Hands each over to `decided` when it is.
    ///
    /// # Errors
    /// The endgame is not complete.
    ///
    /// # Panics
    /// If a graph has another order than the endgame, or one beyond 13.
    pub fn run(
        &mut self,
        next: &mut dyn FnMut() -> Option<(u64, Graph)>,
        decided: &mut dyn FnMut(u64, Decided),
    ) -> Result<(), MissingGraph> {
        let floor = self.endgame.map(Endgame::size);
        let order = self.endgame.map(Endgame::order);
        let mut known_by: Vec<Option<u64>> = vec![None; self.searches.len()];
        // Searches that can go on, with the answers that they have got.
        let mut ready: VecDeque<(usize, bool)> =
            (0..self.searches.len()).map(|i| (i, false)).collect();
        let mut under_way = 0;
        loop {
            while let Some((i, answer)) = ready.pop_front() {
                let search = &mut self.searches[i];
                let mut answer = answer;
                let question = loop {
                    if known_by[i].is_none() {
                        let Some((tag, graph)) = next() else { break None };
                        let n = graph.order();
                        assert!(
                            n <= MAX_DECIDED_ORDER && order.is_none_or(|order| order == n),
                            "a graph of order {n}"
                        );
                        known_by[i] = Some(tag);
                        search.begin(&graph, floor);
                    }
                    match search.advance(answer) {
                        Step::Asks(question) => break Some(question),
                        Step::Done(p1_wins) => {
                            if let Some(tag) = known_by[i].take() {
                                decided(
                                    tag,
                                    Decided {
                                        p1_wins,
                                        nodes: search.nodes,
                                        leaves: search.leaves,
                                    },
                                );
                            }
                            answer = false;
                        }
                    }
                };
                let (Some(question), Some(pipeline)) = (question, &mut self.pipeline) else {
                    continue;
                };
                under_way += 1;
                pipeline.gathering.gather(search, Asked { search: i, question });
                if pipeline.gathering.asked.len() == LANES {
                    break;
                }
            }
            let (Some(pipeline), Some(endgame)) = (&mut self.pipeline, self.endgame) else {
                return Ok(());
            };
            if under_way == 0 {
                return Ok(());
            }
            let before = ready.len();
            pipeline.advance(endgame, |search, answer| ready.push_back((search, answer)))?;
            under_way -= ready.len() - before;
        }
    }
}

impl Pipeline {
    /// Moves every batch one stage on, and hands over answers.
    fn advance(
        &mut self,
        endgame: &Endgame,
        mut answer: impl FnMut(usize, bool),
    ) -> Result<(), MissingGraph> {
        self.located.look_up(endgame, &mut answer)?;
        self.labelled.locate(endgame);
        self.gathering.label(endgame, &mut self.forest);
        std::mem::swap(&mut self.located, &mut self.labelled);
        std::mem::swap(&mut self.labelled, &mut self.gathering);
        // A search that waits for others may be the last one.
        let is_idle = self.labelled.labelled | self.located.labelled == 0;
        if !self.forest.is_full() && !is_idle {
            return Ok(());
        }
        let n = endgame.order();
        for (asked, leaf) in self.forest.search() {
            let code = leaf.code.narrow();
            let record = endgame.record(code, endgame.locate(code))?;
            let label = |v: usize| leaf.label[v] as usize;
            answer(asked.search, asked.question.answer(n, record, label));
        }
        Ok(())
    }
}

impl Stage {
    #[inline(always)]
    fn gather(&mut self, search: &Search, asked: Asked) {
        let (lane, n) = (self.asked.len(), self.batch.order());
        let (rows, degrees) = (search.rows(), search.degrees());
        // Vertices of each degree, a byte each: prefix sums are the colours.
        let mut counts = [0u8; NARROW_ORDER];
        for &degree in &degrees[..n] {
            counts[degree as usize % NARROW_ORDER] += 1;
        }
        let smaller = u128::from_le_bytes(counts)
            .wrapping_mul(u128::from_le_bytes([1; NARROW_ORDER]))
            .wrapping_shl(8)
            .to_le_bytes();
        let (mut all_rows, mut colours) = ([0; MAX_ORDER], [0; MAX_ORDER]);
        all_rows[..n].copy_from_slice(&rows[..n]);
        for v in 0..n {
            colours[v] = smaller[degrees[v] as usize % NARROW_ORDER].into();
        }
        self.batch.set(lane, &all_rows, &colours);
        self.asked.push(asked);
    }

    /// Labels what was gathered, and asks for the directory entries.
    fn label(&mut self, endgame: &Endgame, forest: &mut Forest<Asked>) {
        let count = self.asked.len();
        self.labelled = if count == 0 { 0 } else { self.batch.label(count) };
        for lane in lanes_of(first_lanes(count) & !self.labelled) {
            forest.push(self.batch.undecided(lane), self.asked[lane]);
        }
        for lane in lanes_of(self.labelled) {
            self.codes[lane] = self.batch.code(lane);
            endgame.prefetch(self.codes[lane]);
        }
    }

    /// Finds out where the records are, and asks for them.
    fn locate(&mut self, endgame: &Endgame) {
        for lane in lanes_of(self.labelled) {
            self.places[lane] = endgame.locate(self.codes[lane]);
        }
    }

    /// Reads the records, and makes room for other questions.
    fn look_up(
        &mut self,
        endgame: &Endgame,
        answer: &mut impl FnMut(usize, bool),
    ) -> Result<(), MissingGraph> {
        for lane in lanes_of(self.labelled) {
            let record = endgame.record(self.codes[lane], self.places[lane])?;
            let Asked { search, question } = self.asked[lane];
            let label = |v: usize| self.batch.label_of(lane, v);
            answer(search, question.answer(endgame.order(), record, label));
        }
        self.labelled = 0;
        self.asked.clear();
        Ok(())
    }
}

impl Question {
    /// What a record says, under the labels of its graph.
    #[inline(always)]
    fn answer(self, n: usize, record: &[u8], label: impl Fn(usize) -> usize) -> bool {
        let bit = match self {
            Question::Mover { a, b } => label(b) * n + label(a),
            Question::Refuted { v } => n * n + label(v),
            Question::Verdict => n * n + n,
        };
        record[bit / 8] >> (bit % 8) & 1 == 1
    }
}

#[cfg(test)]
pub(crate) mod tests;
