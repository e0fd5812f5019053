//! The labellings induce nauty's classes and group orders: on every graph of order ≤ 7, and on
//! relabellings of random and of highly symmetric graphs up to order 20.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{batch, *};
use crate::graph::{Graph, NARROW_ORDER, degree::DegreeSequence, factorial, narrowed, nauty};

/// A labelling and what it is called in failure messages.
type Named = (&'static str, fn(&Graph) -> Labelling);

const LABELLINGS: [Named; 4] = [
    ("reference", reference::label),
    ("hashed", hashed::label),
    // Hashes cut to two bits and to none: collisions everywhere, and still the right classes.
    ("hashed to 2 bits", hashed::label_with::<3>),
    ("unhashed", hashed::label_with::<0>),
];

/// The graph with its vertices in order of degree.
pub(super) fn by_degree(graph: &Graph) -> Graph {
    let mut vertices: Vec<usize> = (0..graph.order()).collect();
    vertices.sort_by_key(|&v| graph.degree(v));
    let mut label = [0; MAX_ORDER];
    (0..).zip(vertices).for_each(|(place, v)| label[v] = place);
    graph.relabelled(&label)
}

fn permutation(n: usize, mut seed: u64) -> [u8; MAX_ORDER] {
    let mut label: [u8; MAX_ORDER] = std::array::from_fn(|v| v as u8);
    for v in (1..n).rev() {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        label.swap(v, (seed >> 33) as usize % (v + 1));
    }
    label
}

/// The labelling is a permutation by degree whose key describes the graph, and its group is
/// nauty's.
fn check_one((name, label): Named, graph: &Graph) -> Labelling {
    let found = label(graph);
    let nauty = nauty::label(graph);
    let image = graph.relabelled(&found.label);
    let sequence = DegreeSequence::of(graph);
    assert!(
        (0..graph.order()).all(|v| image.degree(v) == sequence.degree(v)),
        "{name}: {graph:?} not by degree"
    );
    check_key(&found, &image);
    assert_eq!(found.automorphisms, nauty.automorphisms, "{name}: |Aut| of {graph:?}");
    let last = (0..graph.order()).find(|&v| found.label[v] as usize == graph.order() - 1).unwrap();
    assert_eq!(
        found.last_orbit, nauty.orbits[last],
        "{name}: orbit of the last vertex of {graph:?}"
    );
    found
}

/// The key of a labelling is that of the graph in its labels, and leads back to it.
fn check_key(labelling: &Labelling, image: &Graph) {
    let n = image.order();
    (0..n - 1).for_each(|j| assert_eq!(labelling.key.column(j), image.code().column(j)));
    assert_eq!(labelling.key.column(n - 1), 0);
    if n <= NARROW_ORDER {
        let degrees = DegreeSequence::of(image);
        assert_eq!(graph_of_key(labelling.key.narrow(), degrees.bytes()), Some(*image));
    }
}

/// On all graphs up to order 7, and on graphs with large groups that refinement cannot split.
#[test]
fn first_vertices_of_orbits_are_those_of_nauty() {
    let pairs = (2..=6).map(|k| Graph::from_edges(2 * k, (0..k).map(|i| (2 * i, 2 * i + 1))));
    let cycles = (2..=4).map(|k| {
        let cycle = (0..3 * k).map(|i| (i, i / 3 * 3 + (i + 1) % 3));
        Graph::from_edges(3 * k, cycle)
    });
    let hexagon_and_triangles = Graph::from_edges(
        12,
        (0..6)
            .map(|i| (i, (i + 1) % 6))
            .chain((0..6).map(|i| (6 + i, 6 + i / 3 * 3 + (i + 1) % 3))),
    );
    let small = nauty::enumerate(7).into_iter().flatten();
    for graph in small.chain(pairs).chain(cycles).chain([hexagon_and_triangles]) {
        let orbits = nauty::label(&graph).orbits;
        let firsts = (0..graph.order())
            .filter(|&v| orbits[v].trailing_zeros() as usize == v)
            .fold(0, |set, v| set | 1 << v);
        assert_eq!(hashed::first_of_orbits(&graph), firsts, "{graph:?}");
    }
}

#[test]
fn classes_and_groups_of_all_graphs_up_to_order_7() {
    for (n, graphs) in
        nauty::enumerate(7).into_iter().enumerate().map(|(i, graphs)| (i + 1, graphs))
    {
        for labelling in LABELLINGS {
            let mut classes = HashMap::new();
            for (index, graph) in graphs.iter().enumerate() {
                let key = check_one(labelling, graph).key;
                let other = classes.insert((DegreeSequence::of(graph), key), index);
                assert_eq!(other, None, "{}: two classes of order {n} share a key", labelling.0);
                for seed in 0..3 {
                    let moved = graph.relabelled(&permutation(n, seed + 5 * index as u64));
                    assert_eq!(
                        check_one(labelling, &moved).key,
                        key,
                        "{}: {graph:?} and {moved:?}",
                        labelling.0
                    );
                }
            }
        }
    }
}

#[test]
fn every_labelled_graph_of_order_5_falls_into_its_class() {
    for (name, label) in LABELLINGS {
        let mut sizes: HashMap<_, (u64, u64)> = HashMap::new();
        for code in 0..1u128 << pairs(5) {
            let graph = Graph::from_code(5, code);
            let labelling = label(&graph);
            sizes
                .entry((DegreeSequence::of(&graph), labelling.key))
                .or_insert((0, labelling.automorphisms))
                .0 += 1;
        }
        assert_eq!(sizes.len(), 34, "{name}");
        assert!(
            sizes.values().all(|(count, automorphisms)| count * automorphisms == factorial(5)),
            "{name}"
        );
    }
}

/// Graphs with much symmetry or much regularity: where labellings go wrong.
fn hard_graphs() -> Vec<(&'static str, Graph)> {
    let cayley = |n: usize, steps: &[usize]| {
        Graph::from_edges(
            n,
            (0..n)
                .flat_map(|v| steps.iter().map(move |s| (v, (v + s) % n)))
                .filter(|(u, w)| u != w),
        )
    };
    let copies = |k: usize, part: &Graph| {
        let n = part.order();
        Graph::from_edges(
            k * n,
            (0..k).flat_map(|c| part.edges().map(move |(u, w)| (c * n + u, c * n + w))),
        )
    };
    let grid = |x: usize| (x / 4, x % 4);
    let rook = Graph::from_edges(
        16,
        (0..16)
            .flat_map(|a| (0..a).map(move |b| (a, b)))
            .filter(|&(a, b)| grid(a).0 == grid(b).0 || grid(a).1 == grid(b).1),
    );
    let shrikhande_steps = [(0, 1), (0, 3), (1, 0), (3, 0), (1, 1), (3, 3)];
    let shrikhande = Graph::from_edges(
        16,
        (0..16).flat_map(|a| (0..a).map(move |b| (a, b))).filter(|&(a, b)| {
            let (p, q) = (grid(a), grid(b));
            shrikhande_steps.contains(&((p.0 + 4 - q.0) % 4, (p.1 + 4 - q.1) % 4))
        }),
    );
    let cube = |d: u32, extra: usize| {
        Graph::from_edges(
            1 << d,
            (0..1usize << d)
                .flat_map(move |a| (0..a).map(move |b| (a, b)))
                .filter(move |(a, b)| (a ^ b).is_power_of_two() || extra != 0 && (a ^ b) == extra),
        )
    };
    let petersen = Graph::from_edges(
        10,
        (0..5).flat_map(|v| [(v, (v + 1) % 5), (v, v + 5), (v + 5, (v + 2) % 5 + 5)]),
    );
    let complete = |n: usize| Graph::from_code(n, u128::MAX);
    let mut graphs = vec![
        ("4×4 rook, srg(16,6,2,2)", rook),
        ("Shrikhande, srg(16,6,2,2)", shrikhande),
        ("Clebsch, srg(16,5,0,2)", cube(4, 15)),
        ("4-cube", cube(4, 0)),
        ("3-cube", cube(3, 0)),
        ("Petersen, srg(10,3,0,1)", petersen),
        ("Paley 13", cayley(13, &[1, 3, 4])),
        ("circulant 16(1,4)", cayley(16, &[1, 4])),
        ("Möbius–Kantor ladder 14", cayley(14, &[1, 7])),
        ("cycle 16", cayley(16, &[1])),
        ("5 triangles", copies(5, &complete(3))),
        ("4 K4", copies(4, &complete(4))),
        ("6 K2", copies(6, &complete(2))),
        ("2 Petersen-like 8-cycles with chords", copies(2, &cayley(8, &[1, 4]))),
        ("3 five-cycles", copies(3, &cayley(5, &[1]))),
        ("two 3-paths four times", copies(4, &Graph::from_edges(4, [(0, 1), (1, 2), (2, 3)]))),
        ("K16", complete(16)),
        ("edgeless 16", Graph::edgeless(16)),
        ("K(5,5)", Graph::from_edges(10, (0..5).flat_map(|u| (5..10).map(move |w| (u, w))))),
        (
            "K(4,4,4,4)",
            Graph::from_edges(
                16,
                (0..16).flat_map(|u| (0..u).map(move |w| (u, w))).filter(|(u, w)| u / 4 != w / 4),
            ),
        ),
    ];
    // A Cai–Fürer–Immerman pair over K4 with one vertex a gadget half: parity-twisted and
    // untwisted double covers of K4 …
    for twisted in [false, true] {
        let cover = Graph::from_edges(
            8,
            complete(4).edges().flat_map(|(u, w)| {
                let cross = usize::from(twisted && (u, w) == (0, 1));
                [(2 * u, 2 * w + cross), (2 * u + 1, 2 * w + 1 - cross)]
            }),
        );
        graphs
            .push((if twisted { "twisted cover of K4" } else { "untwisted cover of K4" }, cover));
    }
    // … and the CFI graphs over the triangle, 6 gadget vertices and 6 edge vertices.
    for twisted in [false, true] {
        // Base vertex i has edges to i + 1 and i + 2; gadget vertices are the even subsets, {} and
        // both.
        let end = |edge: usize, value: usize| 6 + 2 * edge + value;
        let gadgets = (0..3).flat_map(|i| {
            (0..2).flat_map(move |s| {
                let twist = usize::from(twisted && i == 0);
                [(2 * i + s, end(i, s)), (2 * i + s, end((i + 2) % 3, s ^ twist))]
            })
        });
        graphs.push((
            if twisted { "CFI over a triangle, twisted" } else { "CFI over a triangle" },
            Graph::from_edges(12, gadgets),
        ));
    }
    graphs
}

#[test]
fn symmetric_graphs_agree_with_nauty_under_relabelling() {
    let graphs = hard_graphs();
    for labelling in LABELLINGS {
        // Without any hashing the tree of a regular graph of order 16 is the whole symmetric
        // group.
        let largest = if labelling.0 == "unhashed" { 8 } else { 16 };
        let mut keys: HashMap<_, Vec<Graph>> = HashMap::new();
        for (index, (_, graph)) in
            graphs.iter().enumerate().filter(|(_, (_, graph))| graph.order() <= largest)
        {
            let key = check_one(labelling, graph).key;
            for seed in 0..5 {
                let moved =
                    graph.relabelled(&permutation(graph.order(), seed * 77 + index as u64));
                assert_eq!(
                    check_one(labelling, &moved).key,
                    key,
                    "{}: {}",
                    labelling.0,
                    graphs[index].0
                );
            }
            keys.entry((DegreeSequence::of(graph), key))
                .or_default()
                .push(nauty::label(graph).canonical);
        }
        for same in keys.values() {
            assert!(
                same.iter().all(|canonical| canonical == &same[0]),
                "{}: different graphs, one key",
                labelling.0
            );
        }
    }
}

/// Labels `graphs` (all of one order) in batches, what these leave over in forests, and compares
/// every labelling with the one found alone.
fn check_batches(kernel: batch::Kernel, graphs: &[Graph]) {
    let n = graphs[0].order();
    for is_told in [false, true] {
        let name = kernel.name();
        check_batch(|| batch::Batch::new(n, kernel), hashed::label, name, is_told, graphs);
        check_batch(|| batch::Batch::exact(n, kernel), reference::label, name, is_told, graphs);
    }
}

fn check_batch(
    new: impl Fn() -> Box<batch::Batch>,
    label_one: fn(&Graph) -> Labelling,
    name: &str,
    is_told: bool,
    graphs: &[Graph],
) {
    let n = graphs[0].order();
    let (mut batch, mut forest) = (new(), forest::Forest::with_orbits(new()));
    for (number, chunk) in graphs.chunks(batch::LANES).enumerate() {
        let graph_by_graph = number % 2 == 0 || n > NARROW_ORDER;
        let usual = degree_colours(n, chunk[0].rows());
        if !graph_by_graph {
            let rows =
                |lane: usize| chunk.get(lane).map_or([0; _], |graph| narrowed(graph.rows()));
            batch.set_rows(&std::array::from_fn(rows));
            batch.set_colours(&usual);
        }
        for (lane, graph) in chunk.iter().enumerate() {
            let colours = degree_colours(n, graph.rows());
            if graph_by_graph {
                batch.set(lane, graph.rows(), &colours);
                continue;
            }
            for v in (0..n).filter(|&v| colours[v] != usual[v]) {
                batch.set_colour(lane, v, colours[v]);
            }
        }
        // All that can be known of their colours.
        let all_colours: Vec<Colours> =
            chunk.iter().map(|graph| degree_colours(n, graph.rows())).collect();
        let bound = |v: usize, of: fn(u16, u16) -> u16| {
            all_colours.iter().map(|colours| colours[v]).reduce(of).expect("a chunk has graphs")
        };
        let lowest: Vec<u16> = (0..n).map(|v| bound(v, u16::min)).collect();
        let highest: Vec<u16> = (0..n).map(|v| bound(v, u16::max)).collect();
        batch.set_alike(&if is_told { alike(&lowest, &highest) } else { [0; _] });
        let decided = batch.label(chunk.len());
        if n > NARROW_ORDER {
            assert_eq!(decided, 0);
            (0..).zip(chunk).for_each(|(lane, graph)| forest.push(batch.undecided(lane), graph));
            continue;
        }
        let some_set = batch::Lane(std::array::from_fn(|lane| {
            0x5a5a_u16.rotate_left(lane as u32) & all_vertices(n) as u16
        }));
        let other_set = batch::Lane(some_set.0.map(|set| !set & all_vertices(n) as u16));
        let sets = [some_set, other_set];
        let pulled = batch.pull_back(&sets);
        let packed = batch.packed_labels();
        let mut taken_over = new();
        taken_over.put_packed_labels(&packed);
        let pulled_too = taken_over.pull_back(&sets);
        let keys = batch.keys(decided);
        for (lane, graph) in chunk.iter().enumerate() {
            if decided >> lane & 1 == 0 {
                forest.push(batch.undecided(lane), graph);
                continue;
            }
            assert_eq!(
                batch.key(lane),
                label_one(graph).short_key(graph),
                "{name}: key of {graph:?}"
            );
            assert_eq!(keys[lane], batch.key(lane), "{name}: keys of {graph:?}");
            for (set, pulled) in sets.iter().zip(&pulled) {
                assert_eq!(
                    u32::from(pulled.0[lane]),
                    batch::pull_back_one(&batch, lane, set.0[lane].into()),
                    "{name}: {graph:?}"
                );
            }
            let label = batch.labels_of(lane);
            assert_eq!(
                packed.words(lane),
                batch::PackedLabels::words_of(&label),
                "{name}: {graph:?}"
            );
            assert_eq!(taken_over.labels_of(lane), label, "{name}: {graph:?}");
            for (pulled_too, pulled) in pulled_too.iter().zip(&pulled) {
                assert_eq!(pulled_too.0[lane], pulled.0[lane], "{name}: {graph:?}");
            }
            let last_orbit = batch.last_orbit(lane);
            assert_eq!(batch.is_last(lane), last_orbit >> (n - 1) & 1 == 1, "{name}: {graph:?}");
            let leaf = Leaf { last_orbit, ..batch.leaf(lane) };
            check_leaf(&leaf, graph, label_one, name);
        }
    }
    for (graph, leaf) in forest.search() {
        check_leaf(leaf, graph, label_one, name);
    }
}

fn check_leaf(leaf: &Leaf, graph: &Graph, label_one: fn(&Graph) -> Labelling, name: &str) {
    let n = graph.order();
    let alone = label_one(graph);
    let label = std::array::from_fn(|v| if v < n { leaf.label[v] } else { 0 });
    let last = (0..n).find(|&v| usize::from(label[v]) == n - 1).expect("a permutation");
    assert_eq!(leaf.key(n), alone.short_key(graph), "{name}: key of {graph:?}");
    assert_eq!(leaf.code, graph.relabelled(&label).code(), "{name}: code of {graph:?}");
    assert_eq!(
        (leaf.automorphisms, leaf.last_orbit),
        (alone.automorphisms, nauty::label(graph).orbits[last]),
        "{name}: symmetry of {graph:?}"
    );
    check_key(&alone, &graph.relabelled(&label));
}

proptest! {
    /// Whatever colours there are within the bounds, those before the first that may be alike are
    /// smaller than all from the vertex on, and that one may be as large as one of these.
    #[test]
    fn what_cannot_be_alike_is_smaller(
        bounds in prop::collection::vec((0u16..16, 0u16..4), 1..=NARROW_ORDER),
        choice: u16,
    ) {
        let lowest: Vec<u16> = bounds.iter().map(|&(lowest, _)| lowest).collect();
        let highest: Vec<u16> = bounds.iter().map(|&(lowest, more)| lowest + more).collect();
        let colour = |v: usize| if choice >> v & 1 == 1 { highest[v] } else { lowest[v] };
        let found = alike(&lowest, &highest);
        for w in 0..bounds.len() {
            let first = usize::from(found[w]);
            prop_assert!(first <= w);
            let least = (w..bounds.len()).map(colour).min().expect("w is one of them");
            prop_assert!((0..first).all(|v| colour(v) < least));
            let lowest = lowest[w..].iter().min().expect("w is one of them");
            prop_assert!(first == w || highest[first] >= *lowest);
        }
    }
}

#[test]
fn batches_label_like_one_at_a_time() {
    for kernel in batch::Kernel::ALL.into_iter().filter(|kernel| kernel.is_available()) {
        for mut graphs in nauty::enumerate(7) {
            check_batches(kernel, &graphs);
            // Of few degree sequences at a time, so that much is known of their colours.
            graphs = graphs.iter().map(by_degree).collect();
            graphs.sort_by_key(DegreeSequence::of);
            check_batches(kernel, &graphs);
        }
        for (_, graph) in hard_graphs() {
            check_batches(kernel, &[graph]);
        }
    }
}

/// Forests that are their own images in many ways, under several labels each.
#[test]
fn symmetric_forests_agree_with_nauty() {
    let copies = |k: usize, part: &[(usize, usize)], n: usize| {
        let order = part.len() + 1;
        let edges =
            (0..k).flat_map(|c| part.iter().map(move |&(u, w)| (c * order + u, c * order + w)));
        Graph::from_edges(n, edges)
    };
    let star = |leaves: usize| -> Vec<(usize, usize)> { (1..=leaves).map(|v| (0, v)).collect() };
    let path = |n: usize| -> Vec<(usize, usize)> { (1..n).map(|v| (v - 1, v)).collect() };
    for graph in [
        copies(10, &path(2), 20),
        copies(5, &path(4), 20),
        copies(6, &path(3), 20),
        copies(2, &star(9), 20),
        copies(4, &star(4), 20),
        copies(1, &star(19), 20),
        copies(1, &star(16), 17),
        copies(1, &path(20), 20),
        Graph::edgeless(20),
    ] {
        for labelling in &LABELLINGS[..2] {
            let found = check_one(*labelling, &graph);
            for seed in 0..20 {
                let moved = graph.relabelled(&permutation(graph.order(), seed));
                assert_eq!(check_one(*labelling, &moved).key, found.key, "{graph:?}");
            }
        }
        let orbits = nauty::label(&graph).orbits;
        let is_first = |&v: &usize| orbits[v].trailing_zeros() as usize == v;
        let firsts = (0..graph.order()).filter(is_first).fold(0, |set, v| set | 1 << v);
        assert_eq!(hashed::first_of_orbits(&graph), firsts, "{graph:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_graphs_agree_with_nauty(
        n in 1..=MAX_ORDER,
        dense: [u128; 2],
        thin: [u128; 2],
        seed: u64,
    ) {
        // Random, sparse and dense graphs: one, the meet and the join of two random codes.
        let together = |f: fn(u128, u128) -> u128| [0, 1].map(|i| f(dense[i], thin[i]));
        for [first, beyond] in [dense, together(|a, b| a & b), together(|a, b| a | b)] {
            let graph = Graph::from_code(n, Code::new(first, beyond));
            let moved = graph.relabelled(&permutation(n, seed));
            for labelling in &LABELLINGS[..2] {
                prop_assert_eq!(
                    check_one(*labelling, &graph).key,
                    check_one(*labelling, &moved).key
                );
            }
        }
    }

    /// Also with hashes that keep together what is not alike.
    #[test]
    fn random_forests_agree_with_nauty(
        n in 1..=MAX_ORDER,
        parents: [u8; MAX_ORDER],
        seed: u64,
        is_cut: bool,
    ) {
        let edges = (1..n).map(|v| (usize::from(parents[v]) / 2 % v, v));
        let kept = edges.filter(|&(_, v)| !is_cut || parents[v] % 2 == 0);
        let graph = Graph::from_edges(n, kept);
        let moved = graph.relabelled(&permutation(n, seed));
        let count = if n <= 10 { LABELLINGS.len() } else { 2 };
        for labelling in &LABELLINGS[..count] {
            prop_assert_eq!(check_one(*labelling, &graph).key, check_one(*labelling, &moved).key);
        }
    }

    #[test]
    fn random_batches(
        n in 8..=MAX_ORDER,
        codes in proptest::collection::vec(any::<[u128; 2]>(), 40),
    ) {
        let graph = |&[first, beyond]: &[u128; 2]| Graph::from_code(n, Code::new(first, beyond));
        let graphs: Vec<Graph> = codes.iter().map(graph).collect();
        // Each from the one before, with the same degrees.
        let mut of_a_shard = vec![by_degree(&graphs[0])];
        for [choice, _] in &codes[1..] {
            of_a_shard.push(switched(&of_a_shard[of_a_shard.len() - 1], *choice));
        }
        for kernel in batch::Kernel::ALL.into_iter().filter(|kernel| kernel.is_available()) {
            check_batches(kernel, &graphs);
            check_batches(kernel, &of_a_shard);
        }
    }
}

/// The graph with two edges ab and cd replaced by ac and bd, if it has such edges among those that
/// are tried and not these: every degree stays.
fn switched(graph: &Graph, choice: u128) -> Graph {
    let mut edges: Vec<(usize, usize)> = graph.edges().collect();
    for shift in (0..120).step_by(20) {
        let [i, j] = [choice >> shift, choice >> (shift + 10)].map(|bits| bits as usize & 0x3ff);
        let (i, j) = (i % edges.len().max(1), j % edges.len().max(1));
        let Some((&(a, b), &(c, d))) = edges.get(i).zip(edges.get(j)) else { break };
        let is_joined = |v: usize, w: usize| v == w || graph.neighbours(v) >> w & 1 == 1;
        if !is_joined(a, c) && !is_joined(b, d) && a != d && b != c {
            (edges[i], edges[j]) = ((a, c), (b, d));
            break;
        }
    }
    Graph::from_edges(graph.order(), edges)
}
