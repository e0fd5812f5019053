use std::collections::HashMap;

use super::*;
use crate::{
    game::{
        Game, Retrograde, Search as _, Solution, TrailTrap,
        trail_trap::{ForwardSearch, Outcome},
    },
    graph::{Code, MAX_ORDER, nauty, pairs},
    sample::draw::{Drawer, Kind, Stratum},
};

/// The endgames of an order, one for each number of edges, and who wins each graph.
pub(crate) struct Layers {
    pub(crate) endgames: Vec<Endgame>,
    pub(crate) graphs: Vec<(Graph, bool)>,
}

/// Made by the definition of the recurrence, one graph at a time.
pub(crate) fn layers(n: usize) -> Layers {
    let mut graphs = nauty::enumerate(n).pop().unwrap();
    graphs.sort_by_key(Graph::size);
    let mut outcomes: HashMap<Code, Outcome> = HashMap::new();
    let mut layers = Layers { endgames: Vec::new(), graphs: Vec::new() };
    for size in 0..=pairs(n) {
        let here: Vec<Graph> = graphs.iter().filter(|g| g.size() == size).copied().collect();
        let mut found = Vec::new();
        for graph in &here {
            let outcome = TrailTrap::derive(graph, |smaller| {
                let label = crate::labelling::hashed::label(smaller).label;
                let mut inverse = [0; MAX_ORDER];
                (0..n).for_each(|v| inverse[label[v] as usize] = v as u8);
                let canonical = smaller.relabelled(&label).code();
                let outcome = outcomes.get(&canonical).ok_or(())?;
                Ok::<_, ()>(TrailTrap::relabelled(n, outcome, &inverse))
            });
            let outcome = outcome.unwrap();
            let label = crate::labelling::hashed::label(graph).label;
            let code = graph.relabelled(&label).code();
            let outcome = TrailTrap::relabelled(n, &outcome, &label);
            layers.graphs.push((*graph, outcome.first_moves > 0));
            outcomes.insert(code, outcome);
            found.push((code, TrailTrap::record(n, &outcome)));
        }
        let (codes, records): (Vec<Code>, Vec<_>) = found.into_iter().unzip();
        let codes: Vec<u128> = codes.into_iter().map(Code::narrow).collect();
        let mut builder = EndgameBuilder::new(n, size, here.len()).unwrap();
        builder.counting().count(&codes);
        builder.filling().unwrap().put(&codes, |i| &records[i]).unwrap();
        layers.endgames.push(builder.finish().unwrap());
    }
    layers
}

fn decide(endgame: Option<&Endgame>, graphs: &[Graph]) -> Vec<Decided> {
    let mut found = vec![None; graphs.len()];
    let mut coming = (0..).zip(graphs.iter().copied());
    let mut decider = Decider::new(endgame, Kernel::best());
    decider
        .run(&mut || coming.next(), &mut |i, decided| found[i as usize] = Some(decided))
        .unwrap();
    found.into_iter().map(|decided| decided.expect("each graph is decided")).collect()
}

#[test]
fn every_small_graph_from_every_endgame() {
    for n in 1..=6 {
        let layers = layers(n);
        let graphs: Vec<Graph> = layers.graphs.iter().map(|(graph, _)| *graph).collect();
        for endgame in layers.endgames.iter().map(Some).chain([None]) {
            for (decided, (graph, p1_wins)) in decide(endgame, &graphs).iter().zip(&layers.graphs)
            {
                let size = endgame.map(Endgame::size);
                assert_eq!(decided.p1_wins, *p1_wins, "{graph:?} with {size:?}");
            }
        }
    }
}

/// Order 7, and the labels do not matter.
#[test]
fn larger_graphs_from_some_endgames() {
    let layers = layers(7);
    let reversed = std::array::from_fn(|v| if v < 7 { 6 - v as u8 } else { 0 });
    for size in [8, 11] {
        let endgame = &layers.endgames[size];
        assert_eq!((endgame.order(), endgame.size()), (7, size));
        for label in [std::array::from_fn(|v| v as u8), reversed] {
            let graphs: Vec<Graph> = layers
                .graphs
                .iter()
                .filter(|(graph, _)| graph.size() >= size)
                .map(|(graph, _)| graph.relabelled(&label))
                .collect();
            let known = layers.graphs.iter().filter(|(graph, _)| graph.size() >= size);
            for (decided, (graph, p1_wins)) in decide(Some(endgame), &graphs).iter().zip(known) {
                assert_eq!(decided.p1_wins, *p1_wins, "{graph:?} with {size}");
            }
        }
    }
}

/// Which searches run beside it, or ran before, makes no difference to a search.
#[test]
fn nodes_follow_from_the_graph() {
    let layers = layers(7);
    let endgame = Some(&layers.endgames[6]);
    let graphs: Vec<Graph> = layers.graphs.iter().map(|(graph, _)| *graph).collect();
    let together = decide(endgame, &graphs);
    for (graph, expected) in graphs.iter().zip(&together).rev().step_by(29).take(20) {
        assert_eq!(decide(endgame, &[*graph, *graph]), [*expected; 2]);
    }
}

/// One order after the other on the same thread, among them 13, which has more edges to remember.
#[test]
fn orders_up_to_13_are_decided_as_by_forward_search() {
    let draw = |(n, size), index| {
        let stratum = Stratum { size, odd: None };
        Drawer::new(n, Kind::Labelled).draw(13, stratum, index)
    };
    let graphs: Vec<Graph> = [(13, 12), (8, 12), (13, 14), (12, 13)]
        .into_iter()
        .cycle()
        .zip(0..80)
        .map(|(of, index)| draw(of, index))
        .collect();
    let found = decide(None, &graphs);
    assert!(found.iter().any(|decided| decided.p1_wins));
    for (graph, decided) in graphs.iter().zip(found) {
        let expected = ForwardSearch::new(usize::MAX).solve(graph);
        let p1_wins = matches!(expected, Ok(Solution::P1 { .. }));
        assert_eq!(decided.p1_wins, p1_wins, "{graph:?}");
    }
}

#[test]
fn endgames_that_are_not_complete_are_refused() {
    let builder = |graphs| EndgameBuilder::new(5, 4, graphs).unwrap();
    let record = [0; 4];
    let number = |graphs, found| Some(EndgameError::Number { graphs, found });
    assert_eq!(builder(1).finish().err(), number(1, 0));
    let mut uncounted = builder(1);
    assert_eq!(uncounted.counting().put(&[1], |_| &record), Err(EndgameError::Uncounted));
    assert_eq!(uncounted.filling().err(), number(1, 0));
    let mut counted = builder(1);
    counted.counting().count(&[1]);
    assert_eq!(counted.filling().unwrap().put(&[], |_| &record), Ok(()));
    assert_eq!(counted.finish().err(), number(1, 0));
    let mut too_many = builder(1);
    too_many.counting().count(&[1, 2]);
    assert_eq!(too_many.filling().err(), number(1, 2));
    let mut wrong = builder(1);
    wrong.counting().count(&[1]);
    wrong.filling().unwrap().put(&[1], |_| &record).unwrap();
    let endgame = wrong.finish().unwrap();
    let graph = Graph::from_code(5, (1 << 10) - 1);
    let mut decider = Decider::new(Some(&endgame), Kernel::best());
    let mut coming = [(0, graph)].into_iter();
    let error = decider.run(&mut || coming.next(), &mut |_, _| ()).unwrap_err();
    assert_eq!(error.size, 4);
    assert!(EndgameBuilder::new(13, 1, 1).is_ok() && EndgameBuilder::new(14, 1, 1).is_err());
}
