//! The labelling of the census, 32 graphs at a time: the same keys as [`super::hashed`], one graph a lane.
//!
//! The refinement of all lanes goes on until every lane is discrete or none changes. Lanes whose equal colours are all
//! mutual twins are finished by numbering the twins; the few others go through the search tree one by one.

use std::str::FromStr;

#[cfg(target_arch = "x86_64")]
use super::lanes::{Avx2, Avx512};
pub use super::lanes::{LANES, Lane};
use super::{
    Labelling,
    forest::{Leaf, Undecided},
    hashed,
    lanes::{Lanes, Portable},
};
use crate::graph::{Graph, MAX_ORDER, VertexSet, all_vertices, pairs};

/// Largest order that batches are compiled for, and so the largest order of a census: keys have C(11, 2) = 55 bits.
pub const MAX_BATCH_ORDER: usize = 12;

/// After this many rounds a lane that still changes is left to the search tree. Random graphs take two or three.
const MAX_ROUNDS: usize = 6;

/// The instruction set the kernels run on. All give the same results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    Portable,
    Avx2,
    Avx512,
}

impl Kernel {
    /// Every kernel, slowest first.
    pub const ALL: [Kernel; 3] = [Kernel::Portable, Kernel::Avx2, Kernel::Avx512];

    /// Whether this machine has the instructions.
    pub fn is_available(self) -> bool {
        match self {
            Kernel::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw"),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The fastest kernel of this machine.
    pub fn best() -> Self {
        Self::ALL.into_iter().rev().find(|kernel| kernel.is_available()).unwrap_or(Kernel::Portable)
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
        let kernel = Self::ALL
            .into_iter()
            .find(|kernel| kernel.name() == name)
            .ok_or_else(|| format!("unknown kernel '{name}'; choose auto, portable, avx2 or avx512"))?;
        kernel
            .is_available()
            .then_some(kernel)
            .ok_or_else(|| format!("this machine has no {name} instructions; choose auto or portable"))
    }
}

/// Up to 32 graphs of one order to be labelled together, and then their labels. Reused from batch to batch.
pub struct Batch {
    order: usize,
    kernel: Kernel,
    /// Adjacency sets: `rows[v]` holds that of vertex v of every lane.
    rows: [Lane; MAX_BATCH_ORDER],
    /// Before labelling the colours to start from, afterwards the canonical labels.
    labels: [Lane; MAX_BATCH_ORDER],
    /// 1 << label.
    one_hot: [Lane; MAX_BATCH_ORDER],
    /// `image[v]` is the set of the labels of v's neighbours.
    image: [Lane; MAX_BATCH_ORDER],
    /// How many twins of v with an equal colour come before v.
    earlier_twins: [Lane; MAX_BATCH_ORDER],
    /// Lanes whose colours came out all different.
    discrete: u32,
    /// Lanes whose colours would not change any more.
    stable: u32,
    /// Labellings of the lanes that took a search tree.
    searched: Vec<(usize, Labelling)>,
    /// The keys of the lanes.
    keys: [u64; LANES],
}

const ZERO: Lane = Lane([0; LANES]);

impl Batch {
    /// A batch for graphs of order 1 ≤ n ≤ 12.
    ///
    /// # Panics
    /// If the order is out of range or the machine lacks the kernel's instructions.
    pub fn new(n: usize, kernel: Kernel) -> Box<Self> {
        assert!((1..=MAX_BATCH_ORDER).contains(&n), "no batches of order {n}");
        assert!(kernel.is_available(), "this machine has no {} instructions", kernel.name());
        Box::new(Batch {
            order: n,
            kernel,
            rows: [ZERO; MAX_BATCH_ORDER],
            labels: [ZERO; MAX_BATCH_ORDER],
            one_hot: [ZERO; MAX_BATCH_ORDER],
            image: [ZERO; MAX_BATCH_ORDER],
            earlier_twins: [ZERO; MAX_BATCH_ORDER],
            discrete: 0,
            stable: 0,
            searched: Vec::new(),
            keys: [0; LANES],
        })
    }

    /// Puts vertex `v` of lane `lane`: its neighbours, and its initial colour, the number of vertices of smaller degree.
    #[inline(always)]
    pub fn set(&mut self, lane: usize, v: usize, neighbours: VertexSet, colour: u16) {
        self.rows[v].0[lane] = neighbours;
        self.labels[v].0[lane] = colour;
    }

    /// The order of the graphs.
    pub fn order(&self) -> usize {
        self.order
    }

    /// Labels the first `count` lanes.
    pub fn label(&mut self, count: usize) {
        let decided = self.label_decided(count);
        self.searched.clear();
        for lane in (0..count).filter(|lane| decided >> lane & 1 == 0) {
            self.search(lane);
        }
    }

    /// Labels those of the first `count` lanes whose colours decide their labels; the result has a bit for each of these.
    /// The others are [`Batch::undecided`].
    pub fn label_decided(&mut self, count: usize) -> u32 {
        let decided = self.refine();
        for lane in (0..count).filter(|lane| decided >> lane & 1 == 1) {
            self.keys[lane] = self.key_of_image(lane);
        }
        decided
    }

    /// A lane that [`Batch::label_decided`] has not labelled, for a search.
    pub fn undecided(&self, lane: usize) -> Undecided {
        let mut undecided =
            Undecided { rows: [0; MAX_ORDER], colours: [0; MAX_ORDER], stable: self.stable >> lane & 1 == 1 };
        for v in 0..self.order {
            undecided.rows[v] = self.rows[v].0[lane];
            undecided.colours[v] = self.labels[v].0[lane] - self.earlier_twins[v].0[lane];
        }
        undecided
    }

    /// Takes over the labelling of a lane that was found elsewhere.
    pub fn put(&mut self, lane: usize, leaf: &Leaf) {
        self.keys[lane] = leaf.key;
        for v in 0..self.order {
            self.labels[v].0[lane] = u16::from(leaf.label[v]);
            self.one_hot[v].0[lane] = 1 << leaf.label[v];
        }
    }

    /// The key of a labelled lane.
    #[inline(always)]
    pub fn key(&self, lane: usize) -> u64 {
        self.keys[lane]
    }

    /// The label of vertex `v` in a labelled lane.
    #[inline(always)]
    pub fn label_of(&self, lane: usize, v: usize) -> usize {
        self.labels[v].0[lane] as usize
    }

    /// |Aut| and the orbit of the vertex with the last label, of a labelled lane.
    pub fn symmetry(&self, lane: usize) -> (u64, VertexSet) {
        let labelled = |label: u16| (0..self.order).find(|&v| self.labels[v].0[lane] == label).expect("a permutation");
        if self.discrete >> lane & 1 == 1 {
            return (1, 1 << labelled(self.order as u16 - 1));
        }
        if let Some((_, labelling)) = self.searched.iter().find(|(searched, _)| *searched == lane) {
            return (labelling.automorphisms, labelling.last_orbit);
        }
        let automorphisms = (0..self.order).map(|v| u64::from(self.earlier_twins[v].0[lane]) + 1).product();
        let last = labelled(self.order as u16 - 1);
        let first_label = self.labels[last].0[lane] - self.earlier_twins[last].0[lane];
        let orbit = (0..self.order).filter(|&v| self.labels[v].0[lane] >= first_label).fold(0, |set, v| set | 1 << v);
        (automorphisms, orbit)
    }

    /// Pulls a set of labels back to vertices, in every lane: v is in the result if its label is in `set`.
    pub fn pull_back(&self, set: &Lane) -> Lane {
        #[cfg(target_arch = "x86_64")]
        match self.kernel {
            Kernel::Portable => self.pull_back_with::<Portable>(set),
            // SAFETY: `new` checked that the machine has the instructions.
            Kernel::Avx2 => unsafe { self.pull_back_avx2(set) },
            Kernel::Avx512 => unsafe { self.pull_back_avx512(set) },
        }
        #[cfg(not(target_arch = "x86_64"))]
        self.pull_back_with::<Portable>(set)
    }

    #[inline(always)]
    fn pull_back_with<L: Lanes>(&self, set: &Lane) -> Lane {
        let labels = L::load(set);
        let mut pulled = L::splat(0);
        for v in 0..self.order {
            pulled = pulled.add_where(labels.meets(L::load(&self.one_hot[v])), L::splat(1 << v));
        }
        let mut lane = ZERO;
        pulled.store(&mut lane);
        lane
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn pull_back_avx512(&self, set: &Lane) -> Lane {
        self.pull_back_with::<Avx512>(set)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn pull_back_avx2(&self, set: &Lane) -> Lane {
        self.pull_back_with::<Avx2>(set)
    }

    /// Reads the key of a lane off its relabelled adjacency sets.
    #[inline(always)]
    fn key_of_image(&self, lane: usize) -> u64 {
        let mut rows = [0u16; MAX_ORDER];
        for v in 0..self.order {
            rows[self.labels[v].0[lane] as usize & 15] = self.image[v].0[lane];
        }
        let mut key = 0;
        for j in 1..self.order.saturating_sub(1) {
            key |= u64::from(rows[j] & all_vertices(j)) << pairs(j);
        }
        key
    }

    #[cold]
    fn search(&mut self, lane: usize) {
        let rows = std::array::from_fn(|v| if v < self.order { self.rows[v].0[lane] } else { 0 });
        let labelling = hashed::label(&Graph::from_rows(self.order, rows));
        let label = std::array::from_fn(|v| labelling.label[v]);
        self.put(lane, &Leaf { key: labelling.key as u64, label });
        self.searched.push((lane, labelling));
    }

    /// Refines all lanes; the result has a bit for each lane that is labelled now.
    fn refine(&mut self) -> u32 {
        macro_rules! by_order {
            ($($n:literal)*) => {
                match self.order {
                    $($n => self.refine_order::<$n>(),)*
                    _ => unreachable!("checked by new"),
                }
            };
        }
        by_order!(1 2 3 4 5 6 7 8 9 10 11 12)
    }

    fn refine_order<const N: usize>(&mut self) -> u32 {
        #[cfg(target_arch = "x86_64")]
        match self.kernel {
            Kernel::Portable => self.refine_with::<Portable, N>(),
            // SAFETY: `new` checked that the machine has the instructions.
            Kernel::Avx2 => unsafe { self.refine_avx2::<N>() },
            Kernel::Avx512 => unsafe { self.refine_avx512::<N>() },
        }
        #[cfg(not(target_arch = "x86_64"))]
        self.refine_with::<Portable, N>()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn refine_avx512<const N: usize>(&mut self) -> u32 {
        self.refine_with::<Avx512, N>()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn refine_avx2<const N: usize>(&mut self) -> u32 {
        self.refine_with::<Avx2, N>()
    }

    #[inline(always)]
    fn refine_with<L: Lanes, const N: usize>(&mut self) -> u32 {
        let zero = L::splat(0);
        let one = L::splat(1);
        // Plain loops throughout: what is called in a closure is not inlined, as closures are compiled without the
        // instruction set.
        let mut colours = [zero; N];
        for v in 0..N {
            colours[v] = L::load(&self.labels[v]);
        }
        let mut discrete = 0;
        self.stable = 0;
        for _ in 0..MAX_ROUNDS {
            let ranks = ranks(&words::<L, N>(&self.rows, &colours));
            // Ranks add up to 0 + 1 + … + (N − 1) exactly when they are all different.
            let mut sum = zero;
            for v in 0..N {
                sum = sum.add(ranks[v]);
            }
            discrete = L::bits(sum.equals(L::splat(pairs(N) as u16)));
            self.stable = !0;
            for v in 0..N {
                self.stable &= L::bits(ranks[v].equals(colours[v]));
            }
            colours = ranks;
            if discrete | self.stable == !0 {
                break;
            }
        }
        self.discrete = discrete;
        let mut solved = discrete;
        if discrete != !0 {
            let mut earlier = [zero; N];
            for w in 1..N {
                for v in 0..w {
                    let apart = L::splat(!(1 << v | 1 << w));
                    let differ = L::load(&self.rows[v]).xor(L::load(&self.rows[w])).meets(apart);
                    let twins = L::both(colours[v].equals(colours[w]), L::not(differ));
                    earlier[w] = earlier[w].add_where(twins, one);
                }
            }
            let mut sum = zero;
            for v in 0..N {
                earlier[v].store(&mut self.earlier_twins[v]);
                colours[v] = colours[v].add(earlier[v]);
                sum = sum.add(colours[v]);
            }
            solved = L::bits(sum.equals(L::splat(pairs(N) as u16)));
        }
        let mut one_hot = [zero; N];
        for v in 0..N {
            one_hot[v] = colours[v].one_hot();
        }
        let mut image = [zero; N];
        for w in 1..N {
            for v in 0..w {
                let joined = L::load(&self.rows[v]).meets(L::splat(1 << w));
                image[v] = image[v].add_where(joined, one_hot[w]);
                image[w] = image[w].add_where(joined, one_hot[v]);
            }
        }
        for v in 0..N {
            colours[v].store(&mut self.labels[v]);
            one_hot[v].store(&mut self.one_hot[v]);
            image[v].store(&mut self.image[v]);
        }
        solved
    }
}

/// The word of each vertex: old colour, then hashed neighbourhood, as in [`hashed`]. The top bit is flipped, so that
/// words compare as signed numbers.
#[inline(always)]
fn words<L: Lanes, const N: usize>(rows: &[Lane; MAX_BATCH_ORDER], colours: &[L; N]) -> [L; N] {
    let [a, b, c] = hashed::SCRAMBLE;
    let (a, b, c) = (L::splat(a), L::splat(b), L::splat(c));
    let mut scrambled = [L::splat(0); N];
    for v in 0..N {
        let x = colours[v].mul(a).add(b);
        scrambled[v] = x.xor(x.shr::<7>()).mul(c);
    }
    let mut sums = [L::splat(0); N];
    for w in 1..N {
        for v in 0..w {
            let joined = L::load(&rows[v]).meets(L::splat(1 << w));
            sums[v] = sums[v].add_where(joined, scrambled[w]);
            sums[w] = sums[w].add_where(joined, scrambled[v]);
        }
    }
    let flip = L::splat(1 << 15);
    for v in 0..N {
        sums[v] = colours[v].shl::<12>().or(sums[v].shr::<4>()).xor(flip);
    }
    sums
}

/// For each word the number of smaller ones.
#[inline(always)]
fn ranks<L: Lanes, const N: usize>(words: &[L; N]) -> [L; N] {
    let one = L::splat(1);
    let mut ranks = [L::splat(0); N];
    for w in 1..N {
        for v in 0..w {
            ranks[w] = ranks[w].add_where(words[v].signed_less(words[w]), one);
            ranks[v] = ranks[v].add_where(words[w].signed_less(words[v]), one);
        }
    }
    ranks
}

/// The vertices of a lane's graph that `label_of` sends into `set`; the scalar twin of [`Batch::pull_back`].
#[cfg(test)]
pub(super) fn pull_back_one(batch: &Batch, lane: usize, set: VertexSet) -> VertexSet {
    (0..batch.order).filter(|&v| set >> batch.label_of(lane, v) & 1 == 1).fold(0, |s, v| s | 1 << v)
}
