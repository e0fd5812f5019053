//! The search of one graph, as a state machine: it runs until it needs a record of the endgame,
//! and goes on when that is there, so that a thread can run many at once.
//!
//! Alpha–beta over positions (H; a, b), whose values are only won and lost: the first reply that
//! wins ends a node. What matters is the order of moves.

use super::{
    MAX_DECIDED_ORDER,
    order::{self, Score, Token},
};
use crate::{
    game::trail_trap::forward::edge_at,
    graph::{Graph, NARROW_ORDER, VertexSet, pairs, vertices},
};

const N: usize = MAX_DECIDED_ORDER;

/// What a search asks of the record of its graph of unused edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Whether the player to move wins: W(H; a, b).
    Mover {
        /// The token of the player to move.
        a: usize,
        /// The other token.
        b: usize,
    },
    /// Whether P2 beats P1's token at v: R(H; v).
    Refuted {
        /// Where the token of P1 is.
        v: usize,
    },
    /// Whether P1 wins H.
    Verdict,
}

/// How far a search has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It waits for an answer.
    Asks(Question),
    /// Whether P1 wins.
    Done(bool),
}

/// A position in work.
#[derive(Clone, Copy)]
struct Frame {
    a: u8,
    b: u8,
    /// Number of moves that are left to try, the first of them `next`.
    count: u8,
    next: u8,
    moves: [u8; N],
}

/// What is known of a position before it is searched.
enum Entered {
    Known(bool),
    Leaf,
    Open,
}

/// A search.
pub(super) struct Search {
    n: usize,
    rows: [VertexSet; N],
    /// The degrees in the graph of unused edges.
    degrees: [u8; N],
    /// Number of unused edges.
    left: usize,
    /// Where records are.
    floor: Option<usize>,
    /// The edges that are used, pair by pair.
    used: u128,
    /// First moves of P1, the one in work being the one before `first_next`.
    firsts: Vec<(u8, u8)>,
    first_next: usize,
    /// All edges of the graph, in both directions: replies, in the order in which they are tried.
    replies: Vec<(u8, u8)>,
    reply_next: usize,
    scored: Vec<(Score, u8, u8)>,
    /// How often replies have succeeded, and failed.
    tried: [[[u8; 2]; N]; N],
    frames: Vec<Frame>,
    killers: Killers,
    known: Known,
    /// Positions visited.
    pub(super) nodes: u64,
    /// Records asked for.
    pub(super) leaves: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Begins,
    Whole,
    First,
    Within,
}

/// Moves that have refuted, by number of edges and tokens.
struct Killers {
    by_token: Vec<[u8; N]>,
    by_tokens: Vec<[[u8; N]; N]>,
}

const NO_VERTEX: u8 = u8::MAX;

/// Positions that were decided: the last one at each place.
struct Known {
    /// Bits of a set of edges, which decide what places positions have.
    edge_bits: usize,
    entries: Vec<u128>,
    /// Tells the positions of this graph from those of earlier ones.
    generation: u64,
}

/// log2 of the positions that each search remembers.
const KNOWN_BITS: u32 = 12;

impl Known {
    /// Up to order 12 the same: numbers of nodes follow from places.
    fn edge_bits(order: usize) -> usize {
        pairs(order.max(12))
    }

    /// Forgets everything, for a graph of this order.
    fn begin(&mut self, order: usize) {
        self.generation += 1;
        let edge_bits = Self::edge_bits(order);
        if self.edge_bits != edge_bits {
            self.edge_bits = edge_bits;
            self.entries.fill(0);
        }
    }

    /// 66 bits of edges, or 78 at order 13, twice 4 of tokens, the rest for the generation and, on
    /// top, the value.
    fn tag(&self, used: u128, a: usize, b: usize) -> u128 {
        let tokens = (a as u128 | (b as u128) << 4) << self.edge_bits;
        used | tokens | u128::from(self.generation) << (self.edge_bits + 8)
    }

    /// Without the generation: a search is to find the same places free whatever came before it.
    fn place(&self, tag: u128) -> usize {
        let high = (tag >> 64) as u64 & ((1 << (self.edge_bits + 8 - 64)) - 1);
        let folded = (tag as u64) ^ high.rotate_left(40);
        (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - KNOWN_BITS)) as usize
    }

    fn get(&self, used: u128, a: usize, b: usize) -> Option<bool> {
        let tag = self.tag(used, a, b);
        let entry = self.entries[self.place(tag)];
        (entry << 1 == tag << 1).then_some(entry >> 127 == 1)
    }

    fn put(&mut self, used: u128, a: usize, b: usize, value: bool) {
        let tag = self.tag(used, a, b);
        let place = self.place(tag);
        self.entries[place] = tag | u128::from(value) << 127;
    }
}

/// Pairs of vertices as single bits.
static PAIRS: [[u128; NARROW_ORDER]; N] = {
    let mut bits = [[0; NARROW_ORDER]; N];
    let mut j = 1;
    while j < N {
        let mut i = 0;
        while i < j {
            bits[i][j] = 1 << (pairs(j) + i);
            bits[j][i] = bits[i][j];
            i += 1;
        }
        j += 1;
    }
    bits
};

impl Search {
    pub(super) fn new() -> Self {
        Search {
            n: 0,
            rows: [0; N],
            degrees: [0; N],
            left: 0,
            floor: None,
            used: 0,
            firsts: Vec::new(),
            first_next: 0,
            replies: Vec::new(),
            reply_next: 0,
            scored: Vec::new(),
            tried: [[[0; 2]; N]; N],
            frames: Vec::new(),
            killers: Killers { by_token: Vec::new(), by_tokens: Vec::new() },
            known: Known {
                edge_bits: Known::edge_bits(0),
                entries: vec![0; 1 << KNOWN_BITS],
                generation: 0,
            },
            nodes: 0,
            leaves: 0,
            state: State::Begins,
        }
    }

    /// Takes up a graph of order at most 13. Positions with `floor` unused edges are asked for,
    /// if the graph does not begin below.
    pub(super) fn begin(&mut self, graph: &Graph, floor: Option<usize>) {
        let size = graph.size();
        self.n = graph.order();
        self.rows.copy_from_slice(&graph.rows()[..N]);
        self.degrees = self.rows.map(|row| row.count_ones() as u8);
        self.left = size;
        self.floor = floor.filter(|&floor| floor <= size);
        self.used = 0;
        self.firsts.clear();
        self.replies.clear();
        let mut by_degree: Vec<usize> = (0..self.n).collect();
        by_degree.sort_by_key(|&v| std::cmp::Reverse(graph.degree(v)));
        for &u in &by_degree {
            for &v in &by_degree {
                if graph.has_edge(u, v) {
                    self.replies.push((u as u8, v as u8));
                    // With at most one edge left at v, P2 takes that one, or any other if there
                    // is none, and P1 is stuck.
                    if graph.degree(v) >= 3 || size == 1 {
                        self.firsts.push((u as u8, v as u8));
                    }
                }
            }
        }
        self.first_next = 0;
        self.tried = [[[0; 2]; N]; N];
        self.frames.clear();
        self.killers.by_token.clear();
        self.killers.by_token.resize(size + 1, [NO_VERTEX; N]);
        self.killers.by_tokens.clear();
        self.killers.by_tokens.resize(size + 1, [[NO_VERTEX; N]; N]);
        self.known.begin(self.n);
        self.nodes = 0;
        self.leaves = 0;
        self.state = State::Begins;
    }

    /// The unused edges.
    #[inline(always)]
    pub(super) fn rows(&self) -> &[VertexSet; N] {
        &self.rows
    }

    /// The degrees in them.
    #[inline(always)]
    pub(super) fn degrees(&self) -> &[u8; N] {
        &self.degrees
    }

    /// Uses an edge.
    #[inline(always)]
    fn take(&mut self, u: usize, w: usize) {
        self.flip(u, w);
        self.degrees[u] -= 1;
        self.degrees[w] -= 1;
        self.left -= 1;
    }

    /// Gives an edge back.
    #[inline(always)]
    fn give_back(&mut self, u: usize, w: usize) {
        self.flip(u, w);
        self.degrees[u] += 1;
        self.degrees[w] += 1;
        self.left += 1;
    }

    #[inline(always)]
    fn flip(&mut self, u: usize, w: usize) {
        self.rows[u] ^= 1 << w;
        self.rows[w] ^= 1 << u;
        self.used ^= PAIRS[u][w];
    }

    /// The tokens at `v` and `to`, in this order, after the other player has moved from `from` to
    /// `to`.
    #[inline(always)]
    fn tokens(&self, v: usize, from: usize, to: usize) -> [Token; 2] {
        let met = edge_at(from, v, to);
        let row = self.rows[v] & !met;
        let degree = self.degrees[v] - u8::from(met != 0);
        let moved =
            Token { at: to, row: self.rows[to] & !(1 << from), degree: self.degrees[to] - 1 };
        [Token { at: v, row, degree }, moved]
    }

    /// Goes on until there is something to be asked, or the end. `answer` is that to the last
    /// question; of no meaning before the first.
    pub(super) fn advance(&mut self, answer: bool) -> Step {
        let mut value = answer;
        match self.state {
            State::Begins if self.floor == Some(self.left) => {
                self.state = State::Whole;
                self.nodes += 1;
                return Step::Asks(Question::Verdict);
            }
            State::Whole => return Step::Done(answer),
            State::Begins => {
                self.state = State::Within;
                match self.next_first() {
                    Some(step) => return step,
                    None => value = true,
                }
            }
            State::First => {
                // The answer was R: whether the first move is refuted.
                let (u, v) = self.firsts[self.first_next - 1];
                self.give_back(u as usize, v as usize);
                if !answer {
                    return Step::Done(true);
                }
                match self.next_first() {
                    Some(step) => return step,
                    None => value = true,
                }
            }
            State::Within => {}
        }
        loop {
            // `value` is that of the position just left behind; at the beginning of the replies
            // to a first move it is true, and there is nothing to be taken back.
            let Some(frame) = self.frames.last() else {
                match self.after_reply(value) {
                    Ok(known) => value = known,
                    Err(step) => return step,
                }
                continue;
            };
            let (a, b) = (frame.a as usize, frame.b as usize);
            if frame.next > 0 {
                let w = frame.moves[frame.next as usize - 1];
                self.give_back(a, w as usize);
                if !value {
                    self.killers.by_token[self.left][a] = w;
                    self.killers.by_tokens[self.left][a][b] = w;
                    self.leave(true);
                    value = true;
                    continue;
                }
            }
            let frame = self.frames.last_mut().expect("a frame");
            if frame.next == frame.count {
                self.leave(false);
                value = false;
                continue;
            }
            let w = frame.moves[frame.next as usize] as usize;
            frame.next += 1;
            self.take(a, w);
            match self.enter(b, w) {
                Entered::Known(known) => value = known,
                Entered::Open => {}
                Entered::Leaf => return Step::Asks(Question::Mover { a: b, b: w }),
            }
        }
    }

    /// Leaves the last position, whose value is known.
    fn leave(&mut self, value: bool) {
        let Frame { a, b, .. } = self.frames.pop().expect("a frame");
        self.known.put(self.used, a as usize, b as usize, value);
    }

    /// Comes to (H; a, b), of which the rules for two moves do not tell the value. If that is to
    /// be searched, its moves are put in order.
    #[inline(always)]
    fn enter(&mut self, a: usize, b: usize) -> Entered {
        self.nodes += 1;
        if self.floor == Some(self.left) {
            self.leaves += 1;
            return Entered::Leaf;
        }
        let mut frame = Frame { a: a as u8, b: b as u8, count: 0, next: 0, moves: [0; N] };
        let mut scores: [Score; N] = [0; N];
        let by_token = self.killers.by_token[self.left][a];
        let by_tokens = self.killers.by_tokens[self.left][a][b];
        let above_leaves = self.floor == Some(self.left - 1);
        for w in vertices(self.rows[a]) {
            // The position after the move: b is to move, and the token of the other is at w.
            let [first, second] = self.tokens(b, a, w);
            let known = match rule(first, second) {
                None if !above_leaves => self.known.get(self.used ^ PAIRS[a][w], b, w),
                known => known,
            };
            match known {
                Some(false) => return Entered::Known(true),
                Some(true) => continue,
                None => {}
            }
            let mut score = order::mover_wins(first, second);
            score -= if by_token == w as u8 { order::KILLER } else { 0 };
            score -= if by_tokens == w as u8 { order::KILLER } else { 0 };
            let mut at = frame.count as usize;
            while at > 0 && scores[at - 1] > score {
                scores[at] = scores[at - 1];
                frame.moves[at] = frame.moves[at - 1];
                at -= 1;
            }
            scores[at] = score;
            frame.moves[at] = w as u8;
            frame.count += 1;
        }
        if frame.count == 0 {
            return Entered::Known(false);
        }
        self.frames.push(frame);
        Entered::Open
    }

    /// Takes up the next first move; ends if there is none. `None` if its replies are to be tried.
    fn next_first(&mut self) -> Option<Step> {
        let Some(&(u, v)) = self.firsts.get(self.first_next) else {
            return Some(Step::Done(false));
        };
        let (u, v) = (u as usize, v as usize);
        self.first_next += 1;
        self.take(u, v);
        self.nodes += 1;
        self.reply_next = 0;
        if self.floor == Some(self.left) {
            self.state = State::First;
            return Some(Step::Asks(Question::Refuted { v }));
        }
        self.scored.clear();
        for &(x, y) in &self.replies {
            let (from, to) = (x as usize, y as usize);
            if self.rows[from] >> to & 1 == 0 {
                continue;
            }
            let [first, second] = self.tokens(v, from, to);
            let [succeeded, failed] = self.tried[from][to];
            let score = order::mover_wins(first, second)
                - order::success(succeeded, failed)
                - if to == v { order::AT_FIRST } else { 0 };
            // What is decided at once comes first, or never.
            match rule(first, second) {
                Some(false) => self.scored.push((Score::MIN, x, y)),
                Some(true) => {}
                None => self.scored.push((score, x, y)),
            }
        }
        // A stable sort: equal scores stay in the order of degrees.
        self.scored.sort_by_key(|&(score, _, _)| score);
        None
    }

    /// Goes on after a reply, whose value is that of the position it has led to: `Ok` with the
    /// value of a position that has been entered since, or what is to be asked.
    fn after_reply(&mut self, value: bool) -> Result<bool, Step> {
        let (u, v) = self.firsts[self.first_next - 1];
        if self.reply_next > 0 {
            let (_, x, y) = self.scored[self.reply_next - 1];
            self.give_back(x as usize, y as usize);
            let tried = &mut self.tried[x as usize][y as usize][usize::from(value)];
            *tried = tried.saturating_add(1);
        }
        let refuted = self.reply_next > 0 && !value;
        if !refuted && let Some(&(score, x, y)) = self.scored.get(self.reply_next) {
            self.reply_next += 1;
            self.take(x as usize, y as usize);
            if score == Score::MIN {
                return Ok(false);
            }
            let (v, y) = (v as usize, y as usize);
            if self.floor != Some(self.left)
                && let Some(known) = self.known.get(self.used, v, y)
            {
                return Ok(known);
            }
            return match self.enter(v, y) {
                Entered::Known(known) => Ok(known),
                Entered::Open => Ok(true),
                Entered::Leaf => Err(Step::Asks(Question::Mover { a: v, b: y })),
            };
        }
        self.give_back(u as usize, v as usize);
        if !refuted {
            return Err(Step::Done(true));
        }
        match self.next_first() {
            Some(step) => Err(step),
            None => Ok(true),
        }
    }
}

/// Whether the player to move, with token `a`, wins, as far as two moves tell.
#[inline(always)]
fn rule(a: Token, b: Token) -> Option<bool> {
    if a.degree == 0 {
        Some(false)
    } else if b.degree == 0 || b.degree == 1 && (a.at == b.at || b.row == 1 << a.at) {
        Some(true)
    } else {
        None
    }
}
