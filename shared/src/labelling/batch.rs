//! Labellings 32 graphs at a time, one graph a lane: that of the census, with the same keys as
//! [`super::hashed`], and the [`reference`] labelling.
//!
//! The refinement of all lanes goes on until every lane is discrete or none changes. Lanes whose
//! equal colours are all mutual twins are finished by numbering the twins; the few others are left
//! to a search, see [`super::forest`]; beyond order 16, where sets do not fit the lanes, all are.

use std::{marker::PhantomData, str::FromStr};

pub use super::lanes::{LANES, Lane};

use super::{
    Alike, Colours, Leaf, MAX_PLAIN_ORDER, Undecided, key_bits,
    lanes::{Instructions, Lanes, Operation},
    rounds::{Exact, Hashed, Refinement},
    short_key,
};
use crate::graph::{
    AdjacencyRows, MAX_ORDER, NARROW_ORDER, NarrowRows, VertexSet, all_vertices, narrowed, pairs,
};

/// After this many rounds a lane that still changes is left to the search tree, where nodes are
/// gathered anew: few random graphs take more, and one such lane would hold up the others.
const MAX_ROUNDS: usize = 3;

/// The instruction set the kernels run on. All give the same results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// No more than what every processor of the target has.
    Portable,
    /// AVX2 of x86-64.
    Avx2,
    /// AVX-512 F and BW of x86-64.
    Avx512,
}

impl Kernel {
    /// Every kernel, slowest first.
    pub const ALL: [Kernel; 3] = [Kernel::Portable, Kernel::Avx2, Kernel::Avx512];

    /// Whether this machine has the instructions.
    pub fn is_available(self) -> bool {
        self.instructions().is_some()
    }

    fn instructions(self) -> Option<Instructions> {
        match self {
            Kernel::Portable => Some(Instructions::Portable),
            Kernel::Avx2 => Instructions::avx2(),
            Kernel::Avx512 => Instructions::avx512(),
        }
    }

    /// The fastest kernel of this machine.
    pub fn best() -> Self {
        Self::ALL
            .into_iter()
            .rev()
            .find(|kernel| kernel.is_available())
            .unwrap_or(Kernel::Portable)
    }

    /// What the command line and the wire call it.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Portable => "portable",
            Kernel::Avx2 => "avx2",
            Kernel::Avx512 => "avx512",
        }
    }
}

/// `auto` or the name of a kernel that this machine has.
impl FromStr for Kernel {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "auto" {
            return Ok(Self::best());
        }
        let kernel =
            Self::ALL.into_iter().find(|kernel| kernel.name() == name).ok_or_else(|| {
                format!("unknown kernel '{name}'; choose auto, portable, avx2 or avx512")
            })?;
        kernel.is_available().then_some(kernel).ok_or_else(|| {
            format!("this machine has no {name} instructions; choose auto or portable")
        })
    }
}

/// Up to 32 graphs of one order to be labelled together, and then their labels. Reused from batch
/// to batch. Graphs are given one by one ([`Batch::set`]), or all together ([`Batch::set_rows`], and
/// [`Batch::set_colours`] and [`Batch::set_colour`]), but not in both ways at a time.
pub struct Batch {
    order: usize,
    instructions: Instructions,
    /// Whether this is the reference labelling.
    exact: bool,
    /// Adjacency sets: `rows[v]` holds that of vertex v of every lane.
    rows: [Lane; NARROW_ORDER],
    /// Before labelling the colours to start from, then those that refinement comes to, afterwards
    /// the canonical labels.
    labels: [Lane; NARROW_ORDER],
    /// What is known of the colours to start from.
    alike: Alike,
    /// 1 << label.
    one_hot: [Lane; NARROW_ORDER],
    /// How many twins of v with an equal colour come before v.
    earlier_twins: [Lane; NARROW_ORDER],
    /// Lanes whose colours came out all different.
    discrete: u32,
    /// Lanes whose colours would not change any more.
    stable: u32,
    /// The codes of the relabelled graphs, 16 bits a word.
    codes: [Lane; CODE_WORDS],
    /// The graphs that [`Batch::set`] was given, lane by lane, and the colours to start from, …
    given_rows: [NarrowRows; LANES],
    given_colours: [NarrowRows; LANES],
    /// … if it was given any that are not in the lanes yet.
    is_given: bool,
    /// The graphs beyond order 16, which are in no lanes and stay undecided.
    wide: Vec<Undecided>,
}

/// Evaluates an expression that is compiled for each order that there are lanes for.
macro_rules! by_order {
    ($order:expr, $n:ident => $value:expr) => {
        by_order!($order, $n => $value, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
    };
    ($order:expr, $n:ident => $value:expr, $($order_is:literal)*) => {
        match $order {
            $($order_is => {
                const $n: usize = $order_is;
                $value
            })*
            _ => unreachable!("there are no lanes beyond order 16"),
        }
    };
}

/// Words of a code of the largest order that there are lanes for.
const CODE_WORDS: usize = pairs(NARROW_ORDER).div_ceil(16);

const ZERO: Lane = Lane([0; LANES]);

/// Words of packed labels.
pub const LABEL_WORDS: usize = NARROW_ORDER.div_ceil(LABELS_IN_WORD);
const LABELS_IN_WORD: usize = 4;
const LABEL_BITS: u32 = 16 / LABELS_IN_WORD as u32;

/// The labels of all lanes, four bits each: those of vertices 4k to 4k + 3 in word k, the first in
/// the lowest bits.
#[derive(Clone)]
pub struct PackedLabels([Lane; LABEL_WORDS]);

/// Zeros.
impl Default for PackedLabels {
    fn default() -> Self {
        PackedLabels([ZERO; LABEL_WORDS])
    }
}

impl PackedLabels {
    /// The words of a lane.
    #[inline(always)]
    pub fn words(&self, lane: usize) -> [u16; LABEL_WORDS] {
        std::array::from_fn(|k| self.0[k].0[lane])
    }

    /// Puts the words of a lane.
    #[inline(always)]
    pub fn put(&mut self, lane: usize, words: [u16; LABEL_WORDS]) {
        for k in 0..LABEL_WORDS {
            self.0[k].0[lane] = words[k];
        }
    }

    /// The words of one graph, of order at most 16.
    pub fn words_of(label: &[u8; MAX_ORDER]) -> [u16; LABEL_WORDS] {
        let mut words = [0; LABEL_WORDS];
        for (v, &label) in label[..NARROW_ORDER].iter().enumerate() {
            let bit = LABEL_BITS * (v % LABELS_IN_WORD) as u32;
            words[v / LABELS_IN_WORD] |= u16::from(label) << bit;
        }
        words
    }
}

impl Batch {
    /// A batch for graphs of order 1 ≤ n ≤ 20, labelled as the census does. Beyond order 16 all
    /// lanes stay undecided.
    ///
    /// # Panics
    /// If the order is out of range or the machine lacks the kernel's instructions.
    pub fn new(n: usize, kernel: Kernel) -> Box<Self> {
        Self::with(n, kernel, false)
    }

    /// A batch for graphs of order 1 ≤ n ≤ 20 in their reference labelling. Panics like
    /// [`Batch::new`].
    pub fn exact(n: usize, kernel: Kernel) -> Box<Self> {
        Self::with(n, kernel, true)
    }

    fn with(n: usize, kernel: Kernel, exact: bool) -> Box<Self> {
        assert!((1..=MAX_ORDER).contains(&n), "no batches of order {n}");
        let Some(instructions) = kernel.instructions() else {
            panic!("this machine has no {} instructions", kernel.name());
        };
        Box::new(Batch {
            order: n,
            instructions,
            exact,
            rows: [ZERO; NARROW_ORDER],
            labels: [ZERO; NARROW_ORDER],
            alike: [0; NARROW_ORDER],
            one_hot: [ZERO; NARROW_ORDER],
            earlier_twins: [ZERO; NARROW_ORDER],
            discrete: 0,
            stable: 0,
            codes: [ZERO; CODE_WORDS],
            given_rows: [[0; NARROW_ORDER]; LANES],
            given_colours: [[0; NARROW_ORDER]; LANES],
            is_given: false,
            wide: vec![Undecided::default(); if n > NARROW_ORDER { LANES } else { 0 }],
        })
    }

    /// Puts a graph into a lane, and the colours to start from: for each vertex the number of
    /// vertices of smaller degree.
    #[inline(always)]
    pub fn set(&mut self, lane: usize, rows: &AdjacencyRows, colours: &Colours) {
        if self.order > NARROW_ORDER {
            (self.wide[lane].rows, self.wide[lane].colours) = (*rows, *colours);
            return;
        }
        self.given_rows[lane] = narrowed(rows);
        self.given_colours[lane].copy_from_slice(&colours[..NARROW_ORDER]);
        self.is_given = true;
    }

    /// Puts a graph into every lane, for orders up to 16: the rows of the i-th into lane i.
    #[inline(always)]
    pub fn set_rows(&mut self, graphs: &[NarrowRows; LANES]) {
        debug_assert!(!self.is_given);
        let lanes = &mut self.rows[..self.order];
        self.instructions.run(Transpose { lanes, rows: graphs });
    }

    /// Puts the same initial colours into every lane, for orders up to 16.
    #[inline(always)]
    pub fn set_colours(&mut self, colours: &Colours) {
        debug_assert!(!self.is_given);
        for (lanes, &colour) in self.labels[..self.order].iter_mut().zip(colours) {
            lanes.0.fill(colour);
        }
    }

    /// Says what is known of the initial colours of all lanes, from now on: what cannot be alike is
    /// not compared. At first nothing is known.
    #[inline(always)]
    pub fn set_alike(&mut self, alike: &Alike) {
        self.alike = *alike;
    }

    /// Says that of some lanes no more is known than this.
    pub fn weaken_alike(&mut self, alike: &Alike) {
        for (known, less) in self.alike.iter_mut().zip(alike) {
            *known = (*known).min(*less);
        }
    }

    /// Changes the initial colour of vertex `v` of lane `lane`, for orders up to 16.
    #[inline(always)]
    pub fn set_colour(&mut self, lane: usize, v: usize, colour: u16) {
        self.labels[v].0[lane] = colour;
    }

    /// The order of the graphs.
    pub fn order(&self) -> usize {
        self.order
    }

    /// Whether this is the reference labelling.
    pub(super) fn is_exact(&self) -> bool {
        self.exact
    }

    /// Labels those of the first `count` lanes whose colours decide their labels; the result has a
    /// bit for each of these. The others are [`Batch::undecided`].
    pub fn label(&mut self, count: usize) -> u32 {
        if self.order > NARROW_ORDER {
            return 0;
        }
        if std::mem::take(&mut self.is_given) {
            // Many at a time take less time than number by number.
            for (lanes, rows) in
                [(&mut self.rows, &self.given_rows), (&mut self.labels, &self.given_colours)]
            {
                self.instructions.run(Transpose { lanes: &mut lanes[..self.order], rows });
            }
        }
        self.label_all() & first_lanes(count)
    }

    /// A lane that [`Batch::label`] has not labelled, for a search.
    pub fn undecided(&self, lane: usize) -> Undecided {
        if self.order > NARROW_ORDER {
            return self.wide[lane];
        }
        let mut undecided = Undecided {
            rows: [0; MAX_ORDER],
            colours: [0; MAX_ORDER],
            stable: self.stable >> lane & 1 == 1,
        };
        for v in 0..self.order {
            undecided.rows[v] = self.rows[v].0[lane].into();
            undecided.colours[v] = self.labels[v].0[lane] - self.earlier_twins[v].0[lane];
        }
        undecided
    }

    /// The labels of all lanes in few words, for orders up to 16.
    pub fn packed_labels(&self) -> PackedLabels {
        self.instructions.run(Pack { batch: self })
    }

    /// Takes over the labels of all lanes; in each, 0, …, n − 1 in some order, or zeros where
    /// there is no graph.
    pub fn put_packed_labels(&mut self, packed: &PackedLabels) {
        self.instructions.run(Unpack { batch: self, packed })
    }

    /// The [`crate::graph::Graph::code`] of the relabelled graph, of a labelled lane.
    #[inline(always)]
    pub fn code(&self, lane: usize) -> u128 {
        let words = pairs(self.order).div_ceil(16);
        self.codes[..words]
            .iter()
            .rev()
            .fold(0, |code, word| code << 16 | u128::from(word.0[lane]))
    }

    /// The short key of a labelled lane. Up to order 12 it is the code without the last row.
    #[inline(always)]
    pub fn key(&self, lane: usize) -> u64 {
        if self.order > MAX_PLAIN_ORDER {
            return short_key(self.order, self.code(lane).into());
        }
        self.plain_key(lane)
    }

    /// The short keys of all lanes; of those that are not among `labelled`, any numbers.
    #[inline(always)]
    pub fn keys(&self, labelled: u32) -> [u64; LANES] {
        let mut keys = [0; LANES];
        if self.order > MAX_PLAIN_ORDER {
            lanes_of(labelled).for_each(|lane| keys[lane] = self.key(lane));
        } else {
            (0..LANES).for_each(|lane| keys[lane] = self.plain_key(lane));
        }
        keys
    }

    /// The short key up to order 12.
    #[inline(always)]
    fn plain_key(&self, lane: usize) -> u64 {
        let words = self.codes[..4].iter().rev();
        let code = words.fold(0, |code, word| code << 16 | u64::from(word.0[lane]));
        code & ((1 << key_bits(self.order)) - 1)
    }

    /// The label of vertex `v` in a labelled lane.
    #[inline(always)]
    pub fn label_of(&self, lane: usize, v: usize) -> usize {
        self.labels[v].0[lane] as usize
    }

    /// The labels of a labelled lane; zeros from the order on.
    pub fn labels_of(&self, lane: usize) -> [u8; MAX_ORDER] {
        std::array::from_fn(|v| if v < self.order { self.labels[v].0[lane] as u8 } else { 0 })
    }

    /// The leaf that a labelled lane is, without the orbit.
    pub fn leaf(&self, lane: usize) -> Leaf {
        Leaf {
            code: self.code(lane).into(),
            label: self.labels_of(lane),
            automorphisms: self.automorphisms(lane),
            last_orbit: 0,
        }
    }

    /// |Aut| of a labelled lane.
    pub fn automorphisms(&self, lane: usize) -> u64 {
        if self.discrete >> lane & 1 == 1 {
            return 1;
        }
        (0..self.order).map(|v| u64::from(self.earlier_twins[v].0[lane]) + 1).product()
    }

    /// The orbit of the vertex with the last label, of a labelled lane.
    pub fn last_orbit(&self, lane: usize) -> VertexSet {
        let labels = || self.labels[..self.order].iter().map(|labels| labels.0[lane]);
        let last = labels()
            .position(|label| usize::from(label) + 1 == self.order)
            .expect("a permutation");
        if self.discrete >> lane & 1 == 1 {
            return 1 << last;
        }
        let first_label = self.order as u16 - 1 - self.earlier_twins[last].0[lane];
        labels()
            .enumerate()
            .fold(0, |set, (v, label)| set | VertexSet::from(label >= first_label) << v)
    }

    /// Whether the last vertex of a labelled lane is in the orbit of the vertex with the last label:
    /// of twins the last one has the last of their labels.
    #[inline(always)]
    pub fn is_last(&self, lane: usize) -> bool {
        self.label_of(lane, self.order - 1) + 1 == self.order
    }

    /// Pulls two sets of labels back to vertices, in every lane: v is in a result if its label is
    /// in the set. Like all that is asked of labelled lanes, for orders up to 16 only.
    pub fn pull_back(&self, sets: &[Lane; 2]) -> [Lane; 2] {
        by_order!(self.order, N => self.instructions.run(PullBack::<N> { batch: self, sets }))
    }

    /// Refines and labels all lanes; the result has a bit for each lane that is labelled now.
    fn label_all(&mut self) -> u32 {
        by_order!(self.order, N => self.label_order::<N>())
    }

    fn label_order<const N: usize>(&mut self) -> u32 {
        if self.exact {
            self.refine_by::<Exact, N>()
        } else {
            self.refine_by::<Hashed, N>()
        }
        self.instructions.run(Finish::<N> { batch: self })
    }

    fn refine_by<R: Refinement, const N: usize>(&mut self) {
        self.instructions.run(Refine::<R, N> { batch: self, refinement: PhantomData })
    }

    // Plain loops throughout, as in [`super::rounds`].

    /// Refines the colours in `labels`.
    #[inline(always)]
    fn refine_with<L: Lanes, R: Refinement, const N: usize>(&mut self, token: L::Token) {
        (self.discrete, self.stable) = (0, 0);
        for part in 0..L::PARTS {
            let [discrete, stable] = self.refine_part::<L, R, N>(token, part);
            self.discrete |= discrete << (part * L::COUNT);
            self.stable |= stable << (part * L::COUNT);
        }
    }

    /// The same of a part of the lanes: which of these came out discrete, and which stable.
    #[inline(always)]
    fn refine_part<L: Lanes, R: Refinement, const N: usize>(
        &mut self,
        token: L::Token,
        part: usize,
    ) -> [u32; 2] {
        let zero = L::splat(token, 0);
        let mut colours = [zero; N];
        for v in 0..N {
            colours[v] = L::load(token, &self.labels[v], part);
        }
        let (mut discrete, mut stable) = (0, 0);
        for _ in 0..MAX_ROUNDS {
            let ranks = R::round::<L, N>(token, &self.rows, &self.alike, part, &colours);
            // Ranks add up to 0 + 1 + … + (N − 1) exactly when they are all different.
            let mut sum = zero;
            let mut same = zero.equals(zero);
            for v in 0..N {
                sum = sum.add(ranks[v]);
                same = L::both(same, ranks[v].equals(colours[v]));
            }
            discrete = L::bits(sum.equals(L::splat(token, pairs(N) as u16)));
            stable = L::bits(same);
            colours = ranks;
            if discrete | stable == first_lanes(L::COUNT) {
                break;
            }
        }
        for v in 0..N {
            colours[v].store(&mut self.labels[v], part);
        }
        [discrete, stable]
    }

    /// Numbers the twins, and relabels; the result has a bit for each lane that is labelled now.
    /// The same for both refinements, and so compiled once for both.
    #[inline(always)]
    fn finish_with<L: Lanes, const N: usize>(&mut self, token: L::Token) -> u32 {
        let mut solved = 0;
        for part in 0..L::PARTS {
            solved |= self.finish_part::<L, N>(token, part) << (part * L::COUNT);
        }
        solved
    }

    #[inline(always)]
    fn finish_part<L: Lanes, const N: usize>(&mut self, token: L::Token, part: usize) -> u32 {
        let zero = L::splat(token, 0);
        let one = L::splat(token, 1);
        let mut colours = [zero; N];
        for v in 0..N {
            colours[v] = L::load(token, &self.labels[v], part);
        }
        let all = first_lanes(L::COUNT);
        let mut solved = self.discrete >> (part * L::COUNT) & all;
        if solved != all {
            let mut earlier = [zero; N];
            for w in 1..N {
                for v in (0..w).rev() {
                    if v < usize::from(self.alike[w]) {
                        break;
                    }
                    let apart = L::splat(token, !(1 << v | 1 << w));
                    let differ = L::load(token, &self.rows[v], part)
                        .xor(L::load(token, &self.rows[w], part))
                        .meets(apart);
                    let twins = L::both(colours[v].equals(colours[w]), L::not(differ));
                    earlier[w] = earlier[w].add_where(twins, one);
                }
            }
            let mut sum = zero;
            for v in 0..N {
                earlier[v].store(&mut self.earlier_twins[v], part);
                colours[v] = colours[v].add(earlier[v]);
                sum = sum.add(colours[v]);
            }
            solved = L::bits(sum.equals(L::splat(token, pairs(N) as u16)));
        }
        let mut one_hot = [zero; N];
        for v in 0..N {
            one_hot[v] = colours[v].one_hot();
        }
        let mut image = [zero; N];
        for w in 1..N {
            for v in 0..w {
                let joined = L::load(token, &self.rows[v], part).meets(L::splat(token, 1 << w));
                image[v] = image[v].add_where(joined, one_hot[w]);
                image[w] = image[w].add_where(joined, one_hot[v]);
            }
        }
        // The code, 16 bits a word: the labels below j among the neighbours of label j, for each
        // j.
        let mut code = [zero; CODE_WORDS];
        let words = pairs(N).div_ceil(16);
        for j in 1..N {
            // A vertex has one of the labels of those that may be alike.
            let label = L::splat(token, j as u16);
            let mut row = zero;
            for v in 0..N {
                if v > j && usize::from(self.alike[v]) > j {
                    break;
                }
                if v >= usize::from(self.alike[j]) {
                    row = row.add_where(colours[v].equals(label), image[v]);
                }
            }
            row = row.and(L::splat(token, all_vertices(j) as u16));
            let (word, bit) = (pairs(j) / 16, pairs(j) % 16);
            code[word] = code[word].or(row.shl(bit as u32));
            if bit + j > 16 {
                code[word + 1] = code[word + 1].or(row.shr(16 - bit as u32));
            }
        }
        for v in 0..N {
            colours[v].store(&mut self.labels[v], part);
            one_hot[v].store(&mut self.one_hot[v], part);
        }
        for k in 0..words {
            code[k].store(&mut self.codes[k], part);
        }
        solved
    }
}

/// [`Batch::pull_back`].
struct PullBack<'a, const N: usize> {
    batch: &'a Batch,
    sets: &'a [Lane; 2],
}

impl<const N: usize> Operation for PullBack<'_, N> {
    type Output = [Lane; 2];

    #[inline(always)]
    fn run<L: Lanes>(self, token: L::Token) -> [Lane; 2] {
        let mut pulled = [ZERO; 2];
        for part in 0..L::PARTS {
            let [a, b] = self.sets;
            let (a, b) = (L::load(token, a, part), L::load(token, b, part));
            let (mut of_a, mut of_b) = (L::splat(token, 0), L::splat(token, 0));
            for v in 0..N {
                let (label, vertex) =
                    (L::load(token, &self.batch.one_hot[v], part), L::splat(token, 1 << v));
                of_a = of_a.add_where(a.meets(label), vertex);
                of_b = of_b.add_where(b.meets(label), vertex);
            }
            of_a.store(&mut pulled[0], part);
            of_b.store(&mut pulled[1], part);
        }
        pulled
    }
}

/// [`Batch::packed_labels`].
struct Pack<'a> {
    batch: &'a Batch,
}

impl Operation for Pack<'_> {
    type Output = PackedLabels;

    #[inline(always)]
    fn run<L: Lanes>(self, token: L::Token) -> PackedLabels {
        let mut packed = PackedLabels::default();
        for (labels, word) in
            self.batch.labels[..self.batch.order].chunks(LABELS_IN_WORD).zip(&mut packed.0)
        {
            for part in 0..L::PARTS {
                let mut sum = L::splat(token, 0);
                for labels in labels.iter().rev() {
                    sum = sum.shl(LABEL_BITS).or(L::load(token, labels, part));
                }
                sum.store(word, part);
            }
        }
        packed
    }
}

/// [`Batch::put_packed_labels`].
struct Unpack<'a> {
    batch: &'a mut Batch,
    packed: &'a PackedLabels,
}

impl Operation for Unpack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, token: L::Token) {
        let mask = L::splat(token, (1 << LABEL_BITS) - 1);
        let order = self.batch.order;
        let labels = self.batch.labels[..order].chunks_mut(LABELS_IN_WORD);
        let one_hot = self.batch.one_hot[..order].chunks_mut(LABELS_IN_WORD);
        for ((labels, one_hot), word) in labels.zip(one_hot).zip(&self.packed.0) {
            for part in 0..L::PARTS {
                let mut word = L::load(token, word, part);
                for (labels, one_hot) in labels.iter_mut().zip(&mut *one_hot) {
                    let label = word.and(mask);
                    label.store(labels, part);
                    label.one_hot().store(one_hot, part);
                    word = word.shr(LABEL_BITS);
                }
            }
        }
    }
}

/// [`Batch::refine_with`].
struct Refine<'a, R, const N: usize> {
    batch: &'a mut Batch,
    refinement: PhantomData<R>,
}

impl<R: Refinement, const N: usize> Operation for Refine<'_, R, N> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, token: L::Token) {
        self.batch.refine_with::<L, R, N>(token)
    }
}

/// [`Batch::finish_with`].
struct Finish<'a, const N: usize> {
    batch: &'a mut Batch,
}

impl<const N: usize> Operation for Finish<'_, N> {
    type Output = u32;

    #[inline(always)]
    fn run<L: Lanes>(self, token: L::Token) -> u32 {
        self.batch.finish_with::<L, N>(token)
    }
}

/// Puts 16 numbers for each lane, one after the other, into these lanes; of the last ones no more
/// than there are lanes for.
struct Transpose<'a> {
    lanes: &'a mut [Lane],
    rows: &'a [NarrowRows; LANES],
}

impl Operation for Transpose<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, token: L::Token) {
        for (half, lanes) in self.lanes.chunks_mut(8).enumerate() {
            for part in 0..L::PARTS {
                let columns = L::columns(token, self.rows, part, half);
                // A loop of so many steps is unrolled, so that columns stay in registers.
                for j in 0..8 {
                    if let Some(lane) = lanes.get_mut(j) {
                        columns[j].store(lane, part);
                    }
                }
            }
        }
    }
}

/// A mask of the first `count` ≤ 32 lanes.
#[inline(always)]
pub fn first_lanes(count: usize) -> u32 {
    ((1u64 << count) - 1) as u32
}

/// The lanes of a mask in increasing order.
#[inline(always)]
pub fn lanes_of(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let lane = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            lane
        })
    })
}

/// The vertices of a lane's graph that `label_of` sends into `set`; the scalar twin of
/// [`Batch::pull_back`].
#[cfg(test)]
pub(super) fn pull_back_one(batch: &Batch, lane: usize, set: VertexSet) -> VertexSet {
    (0..batch.order)
        .filter(|&v| set >> batch.label_of(lane, v) & 1 == 1)
        .fold(0, |s, v| s | 1 << v)
}
