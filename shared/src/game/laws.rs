//! What holds for every game, whatever its rules. Each game of the program is put through all of
//! it, and so is a game that is solved graph by graph.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{
    EdgeGeography, Game, GameName, Method, SUMS, Search, Told, TrailTrap,
    edge_geography::searched::SearchedEdgeGeography,
};
use crate::{
    count::{digest::Digest, statistics::Statistics},
    graph::{Code, Graph, MAX_ORDER, NARROW_ORDER, all_vertices, nauty},
};

/// A permutation of `n` vertices from a number.
fn permutation(n: usize, mut seed: u64) -> [u8; MAX_ORDER] {
    let mut label: [u8; MAX_ORDER] = std::array::from_fn(|v| v as u8);
    for v in (1..n).rev() {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        label.swap(v, (seed >> 33) as usize % (v + 1));
    }
    label
}

/// The outcome of a graph by the method of its game, from the graphs with one edge less in an
/// arbitrary labelling of each, read from records as the kernel reads them.
fn by_method<G: Game>(
    graph: &Graph,
    known: &mut HashMap<(usize, Code), G::Outcome>,
) -> G::Outcome {
    let n = graph.order();
    if let Some(outcome) = known.get(&(n, graph.code())) {
        return *outcome;
    }
    let mut outcome = G::Outcome::default();
    if G::Method::READS_PREDECESSORS {
        for (u, w) in graph.edges() {
            let rest = graph.without_edge(u, w);
            let label = permutation(n, rest.code().narrow() as u64);
            let there = by_method::<G>(&rest.relabelled(&label), known);
            let record = G::record(n, &there);
            let mut answer = G::Method::ask(n, &record, label[u].into(), label[w].into());
            for set in &mut answer.sets {
                *set = (0..n).fold(0, |back, v| back | (*set >> label[v] & 1) << v);
            }
            G::Method::fold(n, &mut outcome, u, w, &answer);
        }
    }
    G::Method::finish(graph, &mut outcome, &mut Default::default());
    known.insert((n, graph.code()), outcome);
    outcome
}

/// The laws about one graph and one other labelling of it.
fn check<G: Game>(graph: &Graph, seed: u64, known: &mut HashMap<(usize, Code), G::Outcome>) {
    let (n, about, layout) = (graph.order(), &G::ABOUT, G::LAYOUT);
    let outcome = by_method::<G>(graph, known);
    let label = permutation(n, seed);
    let image = graph.relabelled(&label);

    // The outcome of the image is the image of the outcome, in records too.
    let of_image = by_method::<G>(&image, known);
    assert_eq!(G::relabelled(n, &outcome, &label), of_image, "{graph:?}");
    let [record, record_of_image] = [&outcome, &of_image].map(|outcome| G::record(n, outcome));
    let decoded = G::decode(n, &record);
    assert_eq!(G::record(n, &G::relabelled(n, &decoded, &label)), record_of_image, "{graph:?}");

    let mut written = vec![0xff; layout.record_bytes(n)];
    G::encode_relabelled(n, &outcome, &label, &mut written);
    assert_eq!(written, record_of_image, "{graph:?}");

    // Records keep what they hold, overwrite what was there, and are tidy.
    assert_eq!(G::record(n, &decoded), record);
    let mut overwritten = vec![0xff; layout.record_bytes(n)];
    G::encode(n, &outcome, &mut overwritten);
    assert_eq!(overwritten, record);
    assert!(layout.is_tidy(n, &record));
    assert!(layout.record_bits(n) >= 1);

    // What is told by records is so, and sums do not depend on labels.
    let automorphisms = nauty::label(graph).automorphisms;
    let tally = G::tally(graph, automorphisms, &outcome);
    assert_eq!(G::tally(&image, automorphisms, &of_image), tally, "{graph:?}");
    assert_eq!(layout.is_listed(n, &record), tally.listed, "{graph:?}");
    let decoded = G::tally(graph, automorphisms, &decoded);
    assert_eq!(decoded.listed, tally.listed);
    for (i, sum) in about.sums.iter().enumerate() {
        if sum.told != Told::ByOutcome {
            assert_eq!(decoded.sums[i], tally.sums[i], "{} of {graph:?}", sum.key);
            continue;
        }
        // The graphs with one edge less tell it.
        assert_eq!(about.told_by_outcome(), Some(i));
        let mut told = 0;
        for (u, w) in graph.edges() {
            let rest = graph.without_edge(u, w);
            let pairs = G::pairs_ahead(&rest, &by_method::<G>(&rest, known));
            told += (pairs[u] >> w & 1) + (pairs[w] >> u & 1);
        }
        assert_eq!(told, tally.sums[i], "{} of {graph:?}", sum.key);
    }
    let pairs = G::pairs_ahead(graph, &outcome);
    for v in 0..MAX_ORDER {
        let not_joined =
            if v < n { all_vertices(n) & !graph.neighbours(v) & !(1 << v) } else { 0 };
        let told = if about.told_by_outcome().is_some() { not_joined } else { 0 };
        assert_eq!(pairs[v] & !told, 0, "{graph:?}");
        assert!(pairs[v] == 0 || G::may_tell_ahead(n, &record), "{graph:?}");
    }
    let mut statistics = Statistics::default();
    statistics.add(graph, automorphisms, &tally);
    assert!(statistics.is_possible(about, n, graph.size()), "{graph:?}: {statistics:?}");
    assert!(statistics.is_consistent(about));

    // Derived again, it is the same.
    let derived = G::Method::derive(graph, |rest| {
        Ok::<_, std::convert::Infallible>(by_method::<G>(rest, known))
    });
    let Ok(derived) = derived;
    assert_eq!(derived, outcome, "{graph:?}");

    // Forward search agrees, and what is told about positions has the names it should.
    let solution = G::Search::new(usize::MAX).solve(graph).expect("there is no limit");
    assert_eq!(solution.is_listed(), tally.listed, "{graph:?}");
    if let Some(theorem) = about.theorem.as_ref().filter(|found| found.class.contains(graph)) {
        assert_eq!((theorem.is_listed)(graph), tally.listed, "{graph:?}");
    }
    assert_eq!(G::positions(n, &outcome).len(), about.position_keys.len());

    // The public digest is that of the class.
    let digest = |graph: &Graph, outcome: &G::Outcome| {
        let mut digest = Digest::default();
        digest.add::<G>(graph, outcome);
        digest
    };
    assert_eq!(digest(graph, &outcome), digest(&image, &of_image), "{graph:?}");
}

fn check_small_graphs<G: Game>() {
    assert_eq!(G::LAYOUT.reads_predecessors, G::Method::READS_PREDECESSORS);
    let mut known = HashMap::new();
    for (seed, graph) in nauty::enumerate(5).iter().flatten().enumerate() {
        check::<G>(graph, seed as u64, &mut known);
    }
}

#[test]
fn every_game_obeys_on_every_graph_up_to_order_5() {
    check_small_graphs::<TrailTrap>();
    check_small_graphs::<EdgeGeography>();
    check_small_graphs::<SearchedEdgeGeography>();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// On graphs of larger orders, thinned out, since all subgraphs are solved.
    #[test]
    fn every_game_obeys_on_random_graphs(n in 6usize..=9, code: u128, thin: u128, seed: u64) {
        let mut graph = Graph::from_code(n, code & thin);
        while graph.size() > 10 {
            let (u, w) = graph.edges().nth(seed as usize % graph.size()).unwrap();
            graph = graph.without_edge(u, w);
        }
        check::<TrailTrap>(&graph, seed, &mut HashMap::new());
        check::<<TrailTrap as Game>::Narrow>(&graph, seed, &mut HashMap::new());
        check::<EdgeGeography>(&graph, seed, &mut HashMap::new());
        check::<SearchedEdgeGeography>(&graph, seed, &mut HashMap::new());
    }

    /// Any bytes of a record's length decode, as they may come from anywhere.
    #[test]
    fn any_bytes_decode(n in 1..=MAX_ORDER, bytes: [[u8; 27]; 2]) {
        let bytes = bytes.concat();
        fn check<G: Game>(n: usize, bytes: &[u8]) {
            let record = &bytes[..G::LAYOUT.record_bytes(n)];
            let outcome = G::decode(n, record);
            assert_eq!(G::decode(n, &G::record(n, &outcome)), outcome);
            G::LAYOUT.is_listed(n, record);
        }
        check::<TrailTrap>(n, &bytes);
        if n <= NARROW_ORDER {
            check::<<TrailTrap as Game>::Narrow>(n, &bytes);
        }
        check::<EdgeGeography>(n, &bytes);
    }
}

/// Two games never share a number, a name or a digest tag, and no tag begins another.
#[test]
fn games_are_told_apart() {
    for (i, a) in GameName::ALL.into_iter().enumerate() {
        assert_eq!(a.to_string().parse(), Ok(a));
        assert_eq!(GameName::of_number(a.layout().game), Some(a));
        assert!(a.about().sums.len() <= SUMS);
        for b in GameName::ALL.into_iter().skip(i + 1) {
            assert_ne!(a.layout().game, b.layout().game);
            let [tag, other] = [a, b].map(|game| game.about().digest_tag);
            assert!(!tag.starts_with(other) && !other.starts_with(tag));
        }
    }
    assert_eq!(TrailTrap::ABOUT.digest_tag, "TT1");
    assert!("chess".parse::<GameName>().is_err());
    assert_eq!(GameName::of_number(0), None);
}
