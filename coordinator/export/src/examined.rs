//! Tables for which every graph of an order is looked at: by involutions (a plot, too), by length
//! of play, and how many graphs each condition of the paper explains.
//!
//! What is found of a graph has to agree with who wins it by the census.

use std::collections::BTreeMap;

use rayon::prelude::*;
use trailtrap_census::read::{
    OrderResult, Watcher,
    archive::{Archive, ArchiveError},
    finished::FinishedError,
};
use trailtrap_shared::{
    class::Class,
    count::statistics::{Cell, Counts},
    game::{
        GameName,
        trail_trap::{
            conditions::{self, CONDITIONS},
            length::{Lasting, Level},
        },
    },
    graph::{Graph, factorial, graph6, involution::involutions},
    labelling::hashed,
};

use crate::{
    ExportError,
    columns::{TableKind, cell, column, order_column, parity_column, parity_of, stem, vertices},
    parity,
    table::{Column, Table, Value},
};

/// The last order whose graphs are looked at one by one.
pub const LAST_ORDER: usize = 9;

/// A graph of the census, and what it counts for.
struct Known {
    graph: Graph,
    p1_wins: bool,
    cell: Cell,
}

/// The rows of the table of this kind and these orders, but not of [`TableKind::Conditions`]. If
/// no order is `named`, those whose graphs are not there are left out of rows and results, and
/// `watcher` hears which these are.
///
/// # Errors
/// If an order has too many graphs; if those of the order that is named, or of all orders, are not
/// there; if the census is of another game; or if what is found of a graph, or of all of them,
/// contradicts the census.
pub fn rows(
    archive: &Archive,
    kind: TableKind,
    results: &mut Vec<OrderResult>,
    named: Option<usize>,
    watcher: &dyn Watcher,
) -> Result<Vec<(Vec<Value>, Cell)>, ExportError> {
    each(archive, results, named, watcher, |order, graphs| {
        let n = number(&order);
        let cells = match kind {
            TableKind::PlayLength => by_length(order, graphs)?,
            TableKind::Involutions => by_involutions(graphs)?,
            _ => unreachable!("other tables look at no graph, or are not of rows"),
        };
        let row = |(keys, cell): ([usize; 3], Cell)| {
            let parity = parity_of(keys[0]);
            let key = match kind {
                TableKind::PlayLength => keys[1..].iter().map(number).collect(),
                _ => {
                    let yes = Value::Named(keys[2] as i64, ["no", "yes"][keys[2]].into());
                    vec![number(&keys[1]), yes]
                }
            };
            ([vec![n.clone(), parity], key].concat(), cell)
        };
        Ok(cells.into_iter().map(row).collect())
    })
}

/// The rows of a plot by the size of the largest support of an involution, of orders as in
/// [`rows`] if none is named.
///
/// # Errors
/// As [`rows`].
pub fn by_support(
    archive: &Archive,
    results: &mut Vec<OrderResult>,
    watcher: &dyn Watcher,
) -> Result<Vec<parity::Row>, ExportError> {
    each(archive, results, None, watcher, |order, graphs| {
        let cells = by_involutions(graphs)?.into_iter();
        let cells = cells.map(|([parity, support, _], cell)| (parity, support, cell));
        Ok(parity::apart(order, cells))
    })
}

/// The table of conditions, of orders as in [`rows`].
///
/// # Errors
/// As [`rows`].
pub fn table_of_conditions(
    archive: &Archive,
    results: &mut Vec<OrderResult>,
    named: Option<usize>,
    watcher: &dyn Watcher,
) -> Result<Table, ExportError> {
    let explained = each(archive, results, named, watcher, by_condition)?;
    Ok(conditions_table(archive.class(), named, explained))
}

/// What `look` finds in all graphs of each order; of which orders, [`rows`] says.
fn each<T>(
    archive: &Archive,
    results: &mut Vec<OrderResult>,
    named: Option<usize>,
    watcher: &dyn Watcher,
    look: impl Fn(usize, &[Known]) -> Result<Vec<T>, ExportError>,
) -> Result<Vec<T>, ExportError> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for result in results.iter() {
        match graphs(archive, result) {
            Ok(graphs) => found.extend(look(result.order, &graphs)?),
            Err(error) if named.is_none() && says_missing(&error) => {
                missing.push((result.order, error));
            }
            Err(error) => return Err(error),
        }
    }
    results.retain(|result| missing.iter().all(|(order, _)| *order != result.order));
    let orders: Vec<String> = missing.iter().map(|(order, _)| order.to_string()).collect();
    match missing.pop() {
        Some((_, error)) if results.is_empty() => return Err(error),
        Some(_) => watcher.say(&format!(
            "trailtrap: this leaves out orders whose graphs were not kept (`--keep`), or that are \
             not finished: {}",
            orders.join(", ")
        )),
        None => {}
    }
    Ok(found)
}

/// Whether the graphs of an order are not there, without anything being wrong.
fn says_missing(error: &ExportError) -> bool {
    matches!(
        error,
        ExportError::Archive(ArchiveError::Finished(
            FinishedError::GraphsNotKept(_) | FinishedError::NotFinished { .. }
        ))
    )
}

/// The columns of such a table that tell its rows apart, but for the order.
pub fn keys(kind: TableKind) -> Vec<Column> {
    let keys = match kind {
        TableKind::PlayLength => [
            column("longest_trail", Some("longest trail"), "edges of a longest trail"),
            column(
                "play_length",
                Some("moves"),
                "moves of both players if the winner ends as soon, and the loser as late as \
                 possible",
            ),
        ],
        _ => [
            column(
                "largest_support",
                Some("moved"),
                "the most vertices that an involutive automorphism moves; 0 if there is none",
            ),
            column(
                "fixes_no_edge",
                Some("no edge fixed"),
                "1 if an involutive automorphism maps no edge to itself, 0 if none does",
            ),
        ],
    };
    std::iter::once(parity_column()).chain(keys).collect()
}

fn number(number: &usize) -> Value {
    Value::Number(*number as u64)
}

/// All graphs of an order, after they were seen to add up to its result.
fn graphs(archive: &Archive, result: &OrderResult) -> Result<Vec<Known>, ExportError> {
    let game = archive.game();
    if game != GameName::TrailTrap {
        return Err(ExportError::OtherGame { game: game.about().title });
    }
    let order = result.order;
    if order > LAST_ORDER {
        return Err(ExportError::ManyGraphs { order, last: LAST_ORDER });
    }
    let known = |(graph, p1_wins): (Graph, bool)| {
        let weight = u128::from(factorial(order) / hashed::label(&graph).automorphisms);
        let counts =
            |weight: u128| Counts { graphs: weight, listed: if p1_wins { weight } else { 0 } };
        let cell = Cell { classes: counts(1), labelled: counts(weight) };
        Known { graph, p1_wins, cell }
    };
    let graphs: Vec<Known> = archive.verdicts(order)?.into_par_iter().map(known).collect();
    let sum = graphs.iter().fold(Cell::default(), |mut sum, known| {
        sum += known.cell;
        sum
    });
    match sum == cell(&result.total().statistics) {
        true => Ok(graphs),
        false => Err(ExportError::Sums { order }),
    }
}

/// That a graph is won by another player than something says.
fn contradiction(known: &Known, says: &str) -> ExportError {
    let winner = if known.p1_wins { "P1" } else { "P2" };
    let graph6 = graph6::encode(&known.graph);
    ExportError::Contradiction { graph6, winner, says: says.to_owned() }
}

/// What stands for several conditions says.
const ANY: &str = "one or more of the conditions under which this player wins";

/// Cells by parity of the number of edges and two more numbers.
type Cells = BTreeMap<[usize; 3], Cell>;

fn by_involutions(graphs: &[Known]) -> Result<Cells, ExportError> {
    let found: Vec<_> = graphs.par_iter().map(|known| involutions(&known.graph)).collect();
    let mut cells = Cells::new();
    for (known, found) in graphs.iter().zip(found) {
        if found.fixes_no_edge && known.p1_wins {
            return Err(contradiction(known, "Proposition 3 of the paper"));
        }
        let key =
            [known.graph.size() % 2, found.largest_support, usize::from(found.fixes_no_edge)];
        *cells.entry(key).or_default() += known.cell;
    }
    Ok(cells)
}

fn by_length(order: usize, graphs: &[Known]) -> Result<Cells, ExportError> {
    let mut by_size: BTreeMap<usize, Vec<&Known>> = BTreeMap::new();
    for known in graphs {
        by_size.entry(known.graph.size()).or_default().push(known);
    }
    let (mut level, mut cells) = (Level::edgeless(order), Cells::new());
    for (size, graphs) in by_size {
        let told = match size {
            0 => vec![Lasting { moves: 0, longest_trail: 0 }],
            _ => {
                let above: Vec<Graph> = graphs.iter().map(|known| known.graph).collect();
                let (next, told) = level.next(&above).map_err(|_| ExportError::Sums { order })?;
                level = next;
                told
            }
        };
        for (known, Lasting { moves, longest_trail }) in graphs.into_iter().zip(told) {
            if (moves % 2 == 1) != known.p1_wins {
                return Err(contradiction(known, "the length of play under best play"));
            }
            let key = [size % 2, longest_trail.into(), moves.into()];
            *cells.entry(key).or_default() += known.cell;
        }
    }
    Ok(cells)
}

/// What one condition, or any of those about one winner, explains of an order.
struct Explained {
    order: usize,
    /// Name, title, and meaning.
    words: [&'static str; 3],
    p1_wins: bool,
    /// Graphs that it holds for, and all that this player wins.
    graphs: [Cell; 2],
}

fn by_condition(order: usize, graphs: &[Known]) -> Result<Vec<Explained>, ExportError> {
    let found: Vec<_> =
        graphs.par_iter().map(|known| conditions::that_hold(&known.graph)).collect();
    let mut sums = [Cell::default(); CONDITIONS.len()];
    // Of P2 and of P1: those that some condition explains, and all.
    let mut wins = [[Cell::default(); 2]; 2];
    for (known, hold) in graphs.iter().zip(&found) {
        for (i, condition) in CONDITIONS.iter().enumerate().filter(|&(i, _)| hold[i]) {
            if condition.p1_wins != known.p1_wins {
                return Err(contradiction(known, condition.meaning));
            }
            sums[i] += known.cell;
        }
        let [some, all] = &mut wins[usize::from(known.p1_wins)];
        *all += known.cell;
        if hold.contains(&true) {
            *some += known.cell;
        }
    }
    let row = |words, p1_wins, holds| {
        let [_, all] = wins[usize::from(p1_wins)];
        Explained { order, words, p1_wins, graphs: [holds, all] }
    };
    let each = CONDITIONS.iter().zip(sums);
    let each = each.map(|(one, sum)| row([one.name, one.title, one.meaning], one.p1_wins, sum));
    let any = [false, true]
        .map(|p1_wins| row(["any", "any of these", ANY], p1_wins, wins[usize::from(p1_wins)][0]));
    Ok(each.chain(any).collect())
}

fn conditions_table(class: Class, order: Option<usize>, rows: Vec<Explained>) -> Table {
    let group = |group, one: Column| Column { group, ..one };
    let columns = vec![
        order_column(order.is_none()),
        column("winner", Some("wins"), "the player who wins where the condition holds, 1 or 2"),
        column("condition", None, "name of the condition; any stands for one or more of them"),
        column("title", Some("condition"), "what it is, and where it stands in the paper"),
        column("meaning", None, "what it says"),
        group("unlabelled", column("graphs", Some("graphs"), "graphs for which it holds")),
        column("wins", None, "all graphs that this player wins"),
        group("unlabelled", column("share", Some("% of wins"), "graphs / wins")),
        column("labelled_graphs", None, "labelled graphs (weights n!/|Aut|) for which it holds"),
        column("labelled_wins", None, "all labelled graphs that this player wins"),
        group(
            "labelled",
            column("labelled_share", Some("% of wins"), "labelled_graphs / labelled_wins"),
        ),
    ];
    let cells = |row: Explained| {
        let [holds, all] = row.graphs;
        let [classes, labelled] = [
            [holds.classes.graphs, all.classes.graphs],
            [holds.labelled.graphs, all.labelled.graphs],
        ];
        let winner = if row.p1_wins { 1 } else { 2 };
        let share = |[part, whole]: [u128; 2]| Value::Share { part, whole };
        vec![
            number(&row.order),
            Value::Named(winner, format!("P{winner}").into()),
            Value::Text(row.words[0].to_owned()),
            Value::Text(row.words[1].to_owned()),
            Value::Text(row.words[2].to_owned()),
            number(&(classes[0] as usize)),
            number(&(classes[1] as usize)),
            share(classes),
            Value::Large(labelled[0]),
            Value::Large(labelled[1]),
            share(labelled),
        ]
    };
    let of = vertices(order);
    Table {
        name: stem(TableKind::Conditions, class, order),
        caption: format!(
            "Trail Trap on all {} with {of} vertices: how many wins of each player a sufficient \
             condition of the paper explains, vertices without edges aside.",
            class.title()
        ),
        columns,
        rows: rows.into_iter().map(cells).collect(),
        total: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of order 3, which P2 wins, after a census that says otherwise.
    fn wrong() -> Vec<Known> {
        let graphs = [&[][..], &[(0, 1)], &[(0, 1), (1, 2)]];
        let known = |edges: &&[(usize, usize)]| {
            let graph = Graph::from_edges(3, edges.iter().copied());
            Known { graph, p1_wins: graph.size() > 0, cell: Cell::default() }
        };
        graphs.iter().map(known).collect()
    }

    #[test]
    fn a_winner_that_a_theorem_or_play_contradicts_is_an_error() {
        let errors = [
            by_involutions(&wrong()).err(),
            by_length(3, &wrong()).err(),
            by_condition(3, &wrong()).err(),
        ];
        for error in errors {
            let error = error.unwrap().to_string();
            assert!(error.starts_with("CONTRADICTION: the census says that P1 wins B"), "{error}");
        }
        let sound = &wrong()[..2];
        assert!(by_involutions(sound).is_ok() && by_condition(3, sound).is_ok());
        assert!(by_length(3, sound).is_ok());
        // Play needs all graphs with one edge less.
        assert!(matches!(by_length(3, &wrong()[2..]), Err(ExportError::Sums { order: 3 })));
    }
}
