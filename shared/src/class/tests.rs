use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::graph::{factorial, nauty};

/// All graphs up to isomorphism of orders 1 to 7.
fn small() -> Vec<Graph> {
    nauty::enumerate(7).concat()
}

#[test]
fn a_class_has_the_graphs_that_it_is_defined_by() {
    for graph in small() {
        for class in Class::every() {
            let expected = class.contains_by_definition(&graph);
            assert_eq!(class.contains(&graph), expected, "{class}: {graph:?}");
        }
    }
}

/// What the census rests on: predecessors, and parents, are of the class too, and the plan has
/// their shards. And the generator keeps what is of the class.
#[test]
fn classes_are_closed() {
    for graph in small() {
        let n = graph.order();
        for class in Class::every() {
            if !class.contains(&graph) {
                continue;
            }
            assert!(class.may_have(&DegreeSequence::of(&graph)), "{class}: {graph:?}");
            for (u, w) in graph.edges() {
                assert!(class.contains(&graph.without_edge(u, w)), "{class}: {graph:?}");
            }
            assert!(
                (0..n).all(|v| class.contains(&graph.without_vertex(v))),
                "{class}: {graph:?}"
            );
        }
    }
}

#[test]
fn what_is_admitted_is_of_the_class() {
    for graph in nauty::enumerate(5).concat() {
        for class in Class::every().filter(|class| !class.is_by_degrees()) {
            for neighbours in 0..1 << graph.order() {
                let extended = graph.with_vertex(neighbours);
                let expected = class.contains(&extended);
                // Whoever asks has a graph of the class.
                if class.contains(&graph) {
                    assert_eq!(
                        class.admits(&graph, neighbours),
                        expected,
                        "{class}: {extended:?}"
                    );
                }
            }
        }
    }
}

/// No sequence that a plan has leads to one that it lacks.
#[test]
fn plans_are_closed() {
    for n in 1..=9 {
        for sequence in DegreeSequence::all(n) {
            for class in Class::every().filter(|class| class.may_have(&sequence)) {
                let leads_on =
                    |deletion: &crate::graph::degree::Deletion| class.may_have(&deletion.sequence);
                assert!(sequence.deletions().iter().all(leads_on), "{class}: {sequence}");
            }
        }
    }
}

#[test]
fn as_many_are_known() {
    let orders = nauty::enumerate(7);
    for class in Class::every() {
        for sequence in class.known() {
            for (graphs, order) in orders.iter().zip(1..) {
                let found = graphs.iter().filter(|graph| class.contains_by_definition(graph));
                let weight = |graph: &Graph| match sequence.labelled {
                    true => u128::from(factorial(order) / nauty::label(graph).automorphisms),
                    false => 1,
                };
                let found: u128 = found.map(weight).sum();
                assert_eq!(Some(found), sequence.count(order), "{}, {order}", sequence.what);
            }
            assert!(sequence.count(12).is_some(), "{}", sequence.what);
            assert_eq!(sequence.count(21), None);
            assert_eq!(sequence.count(0), None);
        }
    }
}

/// Orders beyond 12, where all graphs of a class have numbers.
#[test]
fn classes_end_with_the_last_order_that_has_keys() {
    let largest = |name: &str| name.parse::<Class>().unwrap().largest_order();
    assert_eq!(largest("all"), 13);
    for (name, order) in [
        ("max-degree:3", 16),
        ("max-degree:4", 13),
        ("max-degree:5", 12),
        ("planar", 12),
        ("triangle-free", 13),
        ("bipartite", 13),
        ("forest", 20),
        ("linear-forest", 20),
        ("outerplanar", 14),
    ] {
        assert_eq!(largest(name), order, "{name}");
    }
    assert!(Class::every().all(|class| (12..=20).contains(&class.largest_order())));
}

/// What bounds the sequences that a plan looks through leaves out none that the class has.
#[test]
fn bounds_hold_for_all_graphs_of_a_class() {
    for graph in nauty::enumerate(7).concat() {
        let n = graph.order();
        for class in Class::every().filter(|class| class.contains(&graph)) {
            let most = (0..n).map(|v| graph.degree(v)).max().unwrap_or(0);
            assert!(most <= class.most_degree(n), "{class}: {graph:?}");
            assert!(graph.size() <= class.most_edges(n), "{class}: {graph:?}");
        }
    }
    for n in 1..=9 {
        for class in Class::every() {
            let within = DegreeSequence::within(n, class.most_degree(n), class.most_edges(n));
            let mut all = DegreeSequence::all(n);
            let may_have = |sequence: &DegreeSequence| class.may_have(sequence);
            all.retain(may_have);
            let within: Vec<_> = within.into_iter().filter(may_have).collect();
            assert_eq!(within, all, "{class}, {n}");
        }
    }
}

/// Numbers stand in stores and blocks: these are frozen.
#[test]
fn classes_have_names_and_numbers_of_their_own() {
    let numbers: HashSet<u8> = Class::every().map(Class::number).collect();
    assert_eq!(numbers.len(), Class::every().count());
    for class in Class::every() {
        assert_eq!(class.to_string().parse(), Ok(class));
        assert_eq!(Class::of_number(class.number()), Some(class));
    }
    assert_eq!(Class::of_number(0x1b), None);
    assert_eq!("girth:4".parse(), Ok(Class::Girth(4)));
    let frozen = [
        ("all", 0),
        ("max-degree:3", 0x13),
        ("triangle-free", 0x24),
        ("girth:6", 0x26),
        ("square-free", 0x30),
        ("bipartite", 0x31),
        ("planar", 0x32),
        ("outerplanar", 0x33),
        ("forest", 0x34),
        ("linear-forest", 0x35),
    ];
    for (name, number) in frozen {
        assert_eq!(name.parse().map(Class::number), Ok(number));
    }
    for name in ["", "max-degree", "max-degree:0", "max-degree:11", "girth:3", "girth:13", "tree"]
    {
        let error = name.parse::<Class>().unwrap_err().to_string();
        assert!(error.contains("linear-forest") && error.contains("max-degree:D"), "{error}");
    }
}

proptest! {
    /// Graphs of larger orders, near the number of edges where it changes whether they are planar:
    /// one that is has at most 3n − 6, and remains planar when edges are divided, or when it hangs
    /// on another by a vertex.
    #[test]
    fn large_graphs_are_planar_by_definition_too(code in any::<u32>(), rare in any::<u32>()) {
        // About a third of the 28 pairs are joined.
        let code = code & rare | code & 0x0249_2492;
        let graph = Graph::from_code(8, u128::from(code));
        prop_assert_eq!(
            Class::Planar.contains(&graph),
            Class::Planar.contains_by_definition(&graph)
        );
    }

    #[test]
    fn divided_and_joined_graphs_are_planar_as_before(code in 0u32..1 << 21, at in 0usize..7) {
        let graph = Graph::from_code(7, u128::from(code));
        let is_planar = Class::Planar.contains(&graph);
        // Up to five edges divided.
        let mut divided = graph;
        for (u, w) in graph.edges().take(5) {
            divided = divided.without_edge(u, w).with_vertex(1 << u | 1 << w);
        }
        prop_assert_eq!(Class::Planar.contains(&divided), is_planar);
        // Another copy that has one vertex in common.
        let mut twice = graph;
        (0..6).for_each(|_| twice = twice.with_vertex(0));
        let image = |v: usize| if v == at { at } else if v < at { 7 + v } else { 6 + v };
        graph.edges().for_each(|(u, w)| twice.add_edge(image(u), image(w)));
        prop_assert_eq!(Class::Planar.contains(&twice), is_planar);
    }
}
