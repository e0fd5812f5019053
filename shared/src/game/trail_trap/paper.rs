//! What the paper proves and computes, held against forward search, which knows nothing of it; and,
//! where that takes too long, against the recurrence, or what a census has counted by it.

use std::collections::{HashMap, HashSet};

use super::{
    ForwardSearch,
    conditions::{self, CONDITIONS},
    tests::derived,
};
use crate::{
    game::{Move, Search, Solution},
    graph::{
        Graph, VertexSet, all_vertices, component,
        families::{beside, complete, complete_bipartite, grid, path, prism},
        graph6, nauty, pairs, vertices,
    },
    labelling::hashed,
};

fn search() -> ForwardSearch {
    ForwardSearch::new(50_000_000)
}

fn p1_wins(graph: &Graph) -> bool {
    matches!(search().solve(graph).unwrap(), Solution::P1 { .. })
}

fn first_moves(graph: &Graph) -> Vec<Move> {
    graph.edges().flat_map(|(u, v)| [(u, v), (v, u)]).collect()
}

/// The first moves that win.
fn winning_first_moves(graph: &Graph) -> Vec<Move> {
    let mut search = search();
    let mut wins = |&(u, v): &Move| search.answer(&graph.without_edge(u, v), v).unwrap().is_none();
    first_moves(graph).into_iter().filter(|opening| wins(opening)).collect()
}

/// ℓ(H; v): the edges of a longest trail from a vertex.
fn longest_trail(graph: &Graph, from: usize) -> usize {
    let ways = vertices(graph.neighbours(from));
    ways.map(|to| 1 + longest_trail(&graph.without_edge(from, to), to)).max().unwrap_or(0)
}

/// All graphs of orders up to `n`.
fn graphs(n: usize) -> impl Iterator<Item = Graph> {
    nauty::enumerate(n).into_iter().flatten()
}

/// The vertex sets of the components that have an edge.
fn components(graph: &Graph) -> Vec<VertexSet> {
    let of = |v| component(graph.rows(), v);
    let is_first = |&v: &usize| graph.degree(v) > 0 && of(v) & all_vertices(v) == 0;
    (0..graph.order()).filter(is_first).map(of).collect()
}

/// The edges within a set of vertices, on all vertices.
fn within(graph: &Graph, set: VertexSet) -> Graph {
    Graph::from_edges(graph.order(), graph.edges().filter(|&(u, _)| set >> u & 1 == 1))
}

fn named(text: &str) -> Graph {
    graph6::decode(text.as_bytes()).unwrap()
}

/// All trees of order `n`, from those with a leaf less.
fn trees(n: usize) -> Vec<Graph> {
    let mut trees = vec![Graph::edgeless(1)];
    for _ in 1..n {
        let mut met = HashSet::new();
        let larger =
            trees.iter().flat_map(|tree| (0..tree.order()).map(|v| tree.with_vertex(1 << v)));
        trees = larger
            .filter(|tree| met.insert(tree.relabelled(&hashed::label(tree).label)))
            .collect();
    }
    trees
}

#[test]
fn table_1() {
    let listed = "CF C~ DCw DQw DTw D]w ECR_ ECRw ECqg ECZG ECYW ECZo ECZW ECfw ECzo ECvo EC~o \
                  EC~w EEr_ EErw EEiW EEhW EEjw EEno EQj_ EQjw EQyw EUZ_ EUZO E~~w";
    assert!(listed.split_whitespace().map(named).all(|graph| p1_wins(&graph)));
    let mut counts = [[0; 2]; 7];
    for graph in graphs(6).filter(Graph::is_connected) {
        counts[graph.order()][usize::from(p1_wins(&graph))] += 1;
    }
    assert_eq!(counts[3..], [[2, 0], [4, 2], [17, 4], [88, 24]]);
}

/// P1 wins if and only if there is a component, and a first move that wins there and begins a trail
/// longer than any of the other components.
#[test]
fn proposition_1_is_about_several_components() {
    let mut parted = 0;
    for graph in graphs(6).filter(|graph| graph.size() <= 12) {
        let parts: Vec<Graph> =
            components(&graph).into_iter().map(|set| within(&graph, set)).collect();
        let longest: Vec<usize> = parts
            .iter()
            .map(|part| (0..part.order()).map(|v| longest_trail(part, v)).max().unwrap_or(0))
            .collect();
        let wins = (0..parts.len()).any(|here| {
            winning_first_moves(&parts[here]).into_iter().any(|(u, v)| {
                let long = 1 + longest_trail(&parts[here].without_edge(u, v), v);
                (0..parts.len()).all(|there| there == here || longest[there] < long)
            })
        });
        assert_eq!(wins, p1_wins(&graph), "{graph:?}");
        parted += usize::from(parts.len() > 1);
    }
    assert_eq!(parted, 17);
    // Of the second of these graphs P1 wins the component that has the longer trails.
    let spider = named("DCw");
    assert!(p1_wins(&spider) && p1_wins(&beside(&spider, &path(2))));
    assert!(!p1_wins(&beside(&spider, &path(3))));
    assert!(
        p1_wins(&beside(&named("DQw"), &path(3))) && !p1_wins(&beside(&named("DQw"), &path(4)))
    );
}

/// A winning first move leads to a vertex of degree three or more, unless there is a single edge.
#[test]
fn proposition_2_is_about_degrees() {
    for graph in graphs(6).filter(|graph| graph.size() >= 2) {
        for (u, v) in winning_first_moves(&graph) {
            assert!(graph.degree(v) >= 3, "{graph:?}: {u}→{v}");
        }
    }
}

/// All bijections of some vertices that are their own inverses, with the images of the others.
fn involutions(n: usize, known: VertexSet, image: &mut Vec<usize>, found: &mut Vec<Vec<usize>>) {
    let rest = all_vertices(n) & !known;
    let Some(v) = vertices(rest).next() else { return found.push(image.clone()) };
    for w in vertices(rest) {
        (image[v], image[w]) = (w, v);
        involutions(n, known | 1 << v | 1 << w, image, found);
    }
}

/// If an involution of the unused edges maps none of them to itself, and one token to the other,
/// then who has just moved wins. Proposition 3 is the same of the empty board, where P2 wins.
#[test]
fn propositions_3_and_6_are_about_involutions() {
    let mut hits = 0;
    for graph in graphs(6) {
        let n = graph.order();
        let mut found = Vec::new();
        involutions(n, 0, &mut vec![0; n], &mut found);
        let mut search = search();
        for image in found {
            let keeps = graph.edges().all(|(u, w)| {
                let mapped = [image[u], image[w]];
                graph.has_edge(mapped[0], mapped[1]) && mapped != [u, w] && mapped != [w, u]
            });
            if keeps {
                hits += usize::from(graph.size() > 0);
                assert!(!p1_wins(&graph), "{graph:?}: {image:?}");
                for (a, &b) in image.iter().enumerate() {
                    assert!(!search.mover_wins(&graph, a, b).unwrap(), "{graph:?}: {image:?}");
                }
            }
        }
    }
    assert!(hits > 40, "{hits}");
}

#[test]
fn complete_graphs_and_small_ones() {
    // Proposition 4, and those that the paper computed.
    let complete = (2..=7).map(|n| p1_wins(&complete(n)));
    assert_eq!(complete.collect::<Vec<_>>(), [true, false, true, false, true, true]);
    assert_eq!(winning_first_moves(&named("C~")).len(), 12);
    // Up to order 4 there are two graphs with two edges or more that P1 wins.
    let won = graphs(4).filter(|graph| graph.size() >= 2 && p1_wins(graph)).count();
    assert_eq!((won, p1_wins(&named("CF")), p1_wins(&named("C~"))), (2, true, true));
}

/// The last row of each order in the published table: the paper computed K_n up to n = 9. Those of
/// orders 10 and 11 are new.
#[test]
fn published_counts_have_the_complete_graphs_of_the_paper() {
    let table = include_str!("../../../../results/why/odd-degrees-by-size.csv");
    let rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let number = |cell: &str| cell.parse::<usize>().unwrap();
    // Order, size, number of odd degrees, graphs, P1-wins.
    let complete = rows.filter(|row| number(row[1]) == pairs(number(row[0])));
    let won: Vec<_> = complete.map(|row| (row[3].to_owned(), row[4].to_owned())).collect();
    let expected = [0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 1].map(|won| ("1".to_owned(), won.to_string()));
    assert_eq!(won, expected);
}

#[test]
fn theorem_5_is_about_complete_bipartite_graphs() {
    // Where p = 1 the theorem says nothing.
    for (p, q) in [(1, 1), (1, 3), (3, 5), (3, 7)] {
        assert!(p1_wins(&complete_bipartite(p, q)), "K({p},{q})");
    }
    for (p, q) in [(1, 2), (1, 4), (1, 5), (1, 7), (2, 3), (2, 5), (3, 3), (3, 4), (4, 4), (4, 5)]
    {
        assert!(!p1_wins(&complete_bipartite(p, q)), "K({p},{q})");
    }
    // The proof for a side of three has P1 start there, anywhere.
    let wins = winning_first_moves(&complete_bipartite(3, 5));
    assert!(wins.len() == 15 && wins.iter().all(|&(u, _)| u < 3), "{wins:?}");
}

/// Larger ones by the recurrence, as they have few subgraphs up to isomorphism, and forward search
/// would take much memory. The paper has K(3,q) up to q = 11, and K(5,5), by computer.
#[test]
fn larger_complete_bipartite_graphs() {
    fn winning(p: usize, q: usize) -> u16 {
        derived(&complete_bipartite(p, q), &mut HashMap::new()).first_moves
    }
    assert_eq!(winning(3, 5), 15);
    for q in [7, 9, 11] {
        assert!(winning(3, q) > 0, "K(3,{q})");
    }
    for (p, q) in [(2, 9), (3, 8), (4, 6), (5, 5)] {
        assert_eq!(winning(p, q), 0, "K({p},{q})");
    }
}

#[test]
fn ladders_grids_and_prisms() {
    // Proposition 7: ladders of odd length from 5 on, by the middle rung and nothing else.
    for n in [5, 7, 9] {
        let rung = (n / 2, n + n / 2);
        let wins = winning_first_moves(&grid(2, n));
        assert!(wins.len() == 2 && wins.contains(&rung), "ladder of length {n}: {wins:?}");
    }
    // Rotation by half a turn, where the parities are equal; and small grids where they are not.
    let alike = [(2, 2), (2, 4), (3, 3), (2, 6), (3, 5), (2, 8), (4, 4), (2, 10)];
    for (m, n) in alike.into_iter().chain([(2, 3), (3, 4), (3, 6), (4, 5)]) {
        assert!(!p1_wins(&grid(m, n)), "{m} × {n} grid");
    }
    // Proposition 8.
    for n in [3, 4, 5, 6, 7, 8, 9] {
        assert!(!p1_wins(&prism(n)), "prism over C{n}");
    }
}

/// A first move u→v loses if P2 can move x→y such that the tokens are in different components, and
/// P2 has no shorter a trail.
#[test]
fn lemma_10_parts_the_players() {
    let mut hits = 0;
    for graph in graphs(6).filter(|graph| graph.size() <= 12) {
        let wins = winning_first_moves(&graph);
        for (u, v) in first_moves(&graph) {
            let rest = graph.without_edge(u, v);
            let parts = first_moves(&rest).into_iter().any(|(x, y)| {
                let rest = rest.without_edge(x, y);
                component(rest.rows(), v) >> y & 1 == 0
                    && longest_trail(&rest, y) >= longest_trail(&rest, v)
            });
            hits += usize::from(parts);
            assert!(!(parts && wins.contains(&(u, v))), "{graph:?}: {u}→{v}");
        }
    }
    assert!(hits > 500, "{hits}");
}

/// Lemmas 9, 11 and 12 say where a winning first move of a tree ends and starts, and Theorem 13 what
/// the tree is like around it. Trees with one edge are another matter. And what conditions say of
/// trees, among them the remark after the theorem, is true.
#[test]
fn winning_first_moves_of_trees() {
    let (mut won, mut won_by_the_remark) = (Vec::new(), 0);
    for n in 3..=12 {
        let mut here = 0;
        for tree in trees(n) {
            let (centres, radius) = conditions::centres(&tree, all_vertices(n));
            let wins = winning_first_moves(&tree);
            here += usize::from(!wins.is_empty());
            let hold = conditions::that_hold(&tree);
            for (condition, _) in CONDITIONS.iter().zip(hold).filter(|(_, holds)| *holds) {
                let (name, p1_wins) = (condition.name, condition.p1_wins);
                assert_eq!(p1_wins, !wins.is_empty(), "{name}: {tree:?}");
                won_by_the_remark += usize::from(n >= 8 && name == "tree-long-paths");
            }
            for (u, v) in wins {
                assert!(centres.contains(&v) && tree.degree(v) == 3, "{tree:?}: {u}→{v}");
                let is_between = centres.len() == 2;
                if is_between {
                    assert!(centres.contains(&u) && tree.degree(u) == 2, "{tree:?}: {u}→{v}");
                }
                let cut = tree.without_edge(u, v);
                let [of_u, of_v] = [u, v].map(|vertex| component(cut.rows(), vertex));
                let far = |set| vertices(set).map(|w| conditions::eccentricity(&cut, w));
                let diameter = |set| far(set).max().unwrap_or(0);
                // (i) and (ii) of the theorem where there is one centre, (iii) and (iv) where there
                // are two.
                let most = if is_between { radius - 1 } else { radius };
                assert!(diameter(of_u) <= most, "{tree:?}: {u}→{v}");
                assert_eq!(conditions::centres(&cut, of_v).0, [v], "{tree:?}: {u}→{v}");
            }
        }
        won.push(here);
    }
    assert_eq!(won[..8], [0, 1, 1, 1, 2, 5, 9, 22]);
    // Paths of 7, 9 and 11 vertices with a leaf at the middle are some of them.
    assert!(won_by_the_remark >= 3, "{won_by_the_remark}");
}

/// The reduction of Theorem 19 at its smallest: a cubic graph on n vertices, a vertex more at one of
/// them, and a path of 2n + 3 vertices whose middle is joined to the new one. P2 wins, as the graph
/// has a trail of n + 1 edges from there.
#[test]
fn theorem_19_begins_with_four_vertices() {
    let (n, cubic) = (4, complete(4));
    assert_eq!(longest_trail(&cubic, 0), n + 1);
    let pendant = cubic.with_vertex(1);
    let mut board = beside(&pendant, &path(2 * n + 3));
    let middle = n + 1 + n + 1;
    board.add_edge(n, middle);
    assert_eq!((board.order(), board.size()), (16, 18));
    assert!(!p1_wins(&board));
    // With a path longer by two at each end the graph has no trail that is long enough.
    let mut board = beside(&pendant, &path(2 * n + 7));
    board.add_edge(n, middle + 2);
    assert!(p1_wins(&board));
}

/// Of the connected cubic graphs up to order 8 P1 wins two, the larger one by one edge alone.
#[test]
fn cubic_graphs() {
    let cubic = graphs(8).filter(|graph| (0..graph.order()).all(|v| graph.degree(v) == 3));
    let cubic: Vec<Graph> = cubic.filter(Graph::is_connected).collect();
    assert_eq!(cubic.len(), 1 + 2 + 5);
    let won: Vec<&Graph> = cubic.iter().filter(|graph| p1_wins(graph)).collect();
    assert_eq!(won.iter().map(|graph| graph.order()).collect::<Vec<_>>(), [4, 8]);
    let mut wins = winning_first_moves(&named("GCZJd_"));
    wins.sort_unstable();
    assert_eq!(wins, [(2, 6), (6, 2)]);
}
