//! The tables of finished orders: what is in the rows, and what the columns mean.

use std::collections::BTreeMap;

use trailtrap_census::read::{
    OrderResult, Watcher,
    archive::{Archive, Completeness, ShardSummary},
};
use trailtrap_shared::{
    class::Class,
    count::{
        statistics::{Breakdown, Cell, Counts, Structure},
        summary::Summary,
    },
    game::{About, SumName, VerdictName},
    graph::degree::DegreeSequence,
};

pub use crate::columns::TableKind;
use crate::{
    ExportError,
    columns::{
        cell, column, minimum_degree_column, odd_degrees_column, order_column, size_column, sizes,
        stem, vertices,
    },
    examined, parity,
    table::{Column, Table, Value},
};

/// The orders that a table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orders {
    /// A single order, which has to be in the archive.
    One(usize),
    /// All up to this one, or all that are finished; their number is a column.
    UpTo(Option<usize>),
}

/// The table of this kind and these orders. Where some of them may not be complete, it says which
/// are. What looks at every graph leaves out orders whose graphs are not there, if none is named,
/// and `watcher` hears of it.
///
/// # Errors
/// If the archive does not have the orders, or cannot be read.
pub fn build(
    archive: &Archive,
    kind: TableKind,
    orders: Orders,
    watcher: &dyn Watcher,
) -> Result<Table, ExportError> {
    let (mut results, order) = match orders {
        Orders::One(order) => (vec![archive.order(order)?], Some(order)),
        Orders::UpTo(last) => (archive.orders(last)?, None),
    };
    if kind.looks_at_graphs() && order.is_none() {
        results.truncate(examined::LAST_ORDER);
    }
    let tells_statuses = |results: &[OrderResult]| {
        archive.admits_unfinished() || !results.iter().all(OrderResult::is_complete)
    };
    let mut statuses = BTreeMap::new();
    if tells_statuses(&results) {
        for result in &mut results {
            statuses.insert(result.order, archive.status(result.order)?);
            // A census at work may have done more of it since it was read.
            *result = archive.order(result.order)?;
        }
    }
    let (about, class) = (archive.game().about(), archive.class());
    let mut table = match kind {
        TableKind::Conditions => {
            examined::table_of_conditions(archive, &mut results, order, watcher)?
        }
        kind if kind.looks_at_graphs() => {
            let rows = examined::rows(archive, kind, &mut results, order, watcher)?;
            breakdown(about, class, kind, order, rows)
        }
        TableKind::Orders => by_order(about, class, &results),
        TableKind::Sizes => by_size(about, class, &results, order),
        TableKind::Density => density(about, class, &results, order),
        kind if kind.is_by_degrees() => {
            let mut rows = Vec::new();
            for result in &results {
                let mut shards = archive.shards(result.order)?;
                leave_empty_out(class, &mut shards);
                rows.extend(by_degrees(kind, result.order, &shards));
            }
            breakdown(about, class, kind, order, rows)
        }
        _ => {
            let rows = results.iter().flat_map(|result| {
                let mut structure = result.total().statistics.structure;
                by_structure(kind, result.order, cells(kind, &mut structure))
            });
            breakdown(about, class, kind, order, rows.collect())
        }
    };
    if tells_statuses(&results) {
        // Some may have been left out, as their graphs are not there.
        statuses.retain(|&order, _| results.iter().any(|result| result.order == order));
        mark(&mut table, &statuses);
    }
    Ok(of_class(table, class))
}

/// Leaves those shards out that have no graphs of the class: not every degree sequence that may
/// have some does.
pub fn leave_empty_out(class: Class, shards: &mut Vec<ShardSummary>) {
    if class != Class::All {
        shards.retain(|shard| shard.statistics.classes.all.graphs > 0);
    }
}

/// The table with a column for programs that says which graphs the rows are about, if it is a class
/// of them.
pub fn of_class(mut table: Table, class: Class) -> Table {
    if class != Class::All {
        table.columns.push(column("class", None, "the class of graphs that all counts are about"));
        let name = || Value::Text(class.to_string());
        table.rows.iter_mut().chain(&mut table.total).for_each(|row| row.push(name()));
    }
    table
}

/// Adds a column for programs that says which rows are about orders that are not complete, and for
/// people a sentence.
fn mark(table: &mut Table, statuses: &BTreeMap<usize, Completeness>) {
    let meaning = "finished; limited: graphs with more edges were left out; unfinished: units of \
                   the order are missing, counts are lower bounds, nothing was checked; \
                   withdrawn: units that it follows from are to be solved again; or disputed: an \
                   alarm is open, or what it doubts has not been solved again";
    table.columns.push(column("status", None, meaning));
    let limited = statuses.values().any(|status| status.max_size.is_some());
    if limited {
        let meaning = "graphs with more edges than this are left out; nothing if none are";
        table.columns.push(column("max_size", None, meaning));
    }
    for row in &mut table.rows {
        let order = match row[0] {
            Value::Number(order) => order as usize,
            _ => unreachable!("rows begin with their orders"),
        };
        let status = statuses[&order];
        row.push(Value::Text(status.word().to_owned()));
        if limited {
            let max_size = status.max_size;
            row.push(max_size.map_or(Value::Nothing, |m| Value::Number(m as u64)));
        }
    }
    if let Some(total) = &mut table.total {
        total.resize(table.columns.len(), Value::Text(String::new()));
    }
    for (order, status) in statuses.iter().filter(|(_, status)| !status.is_complete()) {
        table.caption += &format!(" Order {order} {status}.");
    }
}

/// A column, and where its value comes from.
type Field<T> = (Column, Box<dyn Fn(&T) -> Value>);

fn class(number: u128) -> Value {
    // Isomorphism classes of order 12 need 38 bits, their positions 46.
    u64::try_from(number).map_or(Value::Large(number), Value::Number)
}

/// The columns about one kind of graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TablePart {
    Graphs,
    Listed,
    Others,
    ListedShare,
    OthersShare,
}

impl TablePart {
    const ALL: [TablePart; 5] = [
        TablePart::Graphs,
        TablePart::Listed,
        TablePart::Others,
        TablePart::ListedShare,
        TablePart::OthersShare,
    ];

    /// Name, heading and meaning.
    fn words(self, about: &About, prefix: &str, graphs: &str) -> (String, &'static str, String) {
        let [listed, other] = &about.verdicts;
        let wins = |verdict: &VerdictName| {
            let meaning = format!("{graphs} {}", verdict.clause);
            (format!("{}_wins", verdict.stem), verdict.heading, meaning)
        };
        let share = |verdict: &VerdictName| {
            let meaning = format!("{prefix}{}_wins / {prefix}graphs", verdict.stem);
            (format!("{}_share", verdict.stem), verdict.share_heading, meaning)
        };
        match self {
            TablePart::Graphs => ("graphs".to_owned(), "graphs", graphs.to_owned()),
            TablePart::Listed => wins(listed),
            TablePart::Others => wins(other),
            TablePart::ListedShare => share(listed),
            TablePart::OthersShare => share(other),
        }
    }

    fn value(self, counts: &Counts, number: fn(u128) -> Value) -> Value {
        let share = |part| Value::Share { part, whole: counts.graphs };
        match self {
            TablePart::Graphs => number(counts.graphs),
            TablePart::Listed => number(counts.listed),
            TablePart::Others => number(counts.others()),
            TablePart::ListedShare => share(counts.listed),
            TablePart::OthersShare => share(counts.others()),
        }
    }
}

/// The columns about one kind of graphs. Those in `shown` are for people too.
fn counts<T: 'static>(
    about: &About,
    (prefix, group, graphs): (&'static str, &'static str, &'static str),
    shown: &[TablePart],
    number: fn(u128) -> Value,
    pick: fn(&T) -> &Counts,
) -> Vec<Field<T>> {
    let field = |part: TablePart| -> Field<T> {
        let (name, heading, meaning) = part.words(about, prefix, graphs);
        let heading = shown.contains(&part).then_some(heading);
        let column = Column { group, ..column(format!("{prefix}{name}"), heading, meaning) };
        (column, Box::new(move |what| part.value(pick(what), number)))
    };
    TablePart::ALL.into_iter().map(field).collect()
}

const ALL: (&str, &str, &str) = ("", "unlabelled", "graphs, that is isomorphism classes,");
const CONNECTED: (&str, &str, &str) = ("connected_", "connected", "connected graphs");
const LABELLED: (&str, &str, &str) =
    ("labelled_", "labelled", "labelled graphs (weights n!/|Aut|)");
const LABELLED_CONNECTED: (&str, &str, &str) =
    ("labelled_connected_", "labelled, connected", "connected labelled graphs (weights n!/|Aut|)");

/// Everything that is known about a set of graphs of one order; with `paper`, people see the
/// columns of the paper's Table 1.
fn full_fields(about: &'static About, paper: bool) -> Vec<Field<Summary>> {
    const PAPER: &[TablePart] =
        &[TablePart::Graphs, TablePart::Listed, TablePart::Others, TablePart::OthersShare];
    const OTHERS: &[TablePart] =
        &[TablePart::Graphs, TablePart::Listed, TablePart::Others, TablePart::ListedShare];
    let [connected, all, labelled] = match paper {
        true => [PAPER, PAPER, &[TablePart::Listed, TablePart::OthersShare]],
        false => [&[], OTHERS, &[TablePart::Graphs, TablePart::Listed, TablePart::ListedShare]],
    };
    let mut fields: Vec<Field<Summary>> =
        counts(about, CONNECTED, connected, class, |f| &f.statistics.classes.connected);
    fields.extend(counts(about, ALL, all, class, |f: &Summary| &f.statistics.classes.all));
    fields.extend(counts(about, LABELLED, labelled, Value::Large, |f: &Summary| {
        &f.statistics.labelled.all
    }));
    fields.extend(counts(about, LABELLED_CONNECTED, &[], Value::Large, |f: &Summary| {
        &f.statistics.labelled.connected
    }));
    for (i, SumName { key, heading, meaning, .. }) in about.sums.iter().enumerate() {
        let column = column(*key, *heading, *meaning);
        fields.push((column, Box::new(move |f| class(f.statistics.classes.sums.0[i]))));
    }
    for (i, SumName { key, .. }) in about.sums.iter().enumerate() {
        let meaning = format!("{key} over labelled graphs");
        let column = column(format!("labelled_{key}"), None, meaning);
        fields.push((column, Box::new(move |f| Value::Large(f.statistics.labelled.sums.0[i]))));
    }
    let digest = column("digest", None, "public digest, version 1, of all records");
    fields.push((digest, Box::new(|f| Value::Text(f.digest.to_string()))));
    fields
}

/// The columns of breakdowns.
fn brief_fields(about: &About) -> Vec<Field<Cell>> {
    const SHOWN: &[TablePart] =
        &[TablePart::Graphs, TablePart::Listed, TablePart::Others, TablePart::ListedShare];
    const LABELLED_SHOWN: &[TablePart] =
        &[TablePart::Graphs, TablePart::Listed, TablePart::ListedShare];
    let all = counts(about, ALL, SHOWN, class, |cell: &Cell| &cell.classes);
    let labelled =
        counts(about, LABELLED, LABELLED_SHOWN, Value::Large, |cell: &Cell| &cell.labelled);
    all.into_iter().chain(labelled).collect()
}

/// Puts a table together from the columns that tell rows apart, their values, and what the others
/// are made from.
fn assemble<T>(
    (name, caption): (String, String),
    keys: Vec<Column>,
    fields: Vec<Field<T>>,
    rows: Vec<(Vec<Value>, T)>,
    total: Option<T>,
) -> Table {
    let values = |what: &T| fields.iter().map(|(_, value)| value(what)).collect::<Vec<_>>();
    let total = total.map(|total| {
        // The word stands in the first column that is shown.
        let first = keys.iter().position(|key| key.heading.is_some());
        let blanks = (0..keys.len())
            .map(|i| Value::Text(if Some(i) == first { "total" } else { "" }.to_owned()));
        blanks.chain(values(&total)).collect()
    });
    let rows = rows
        .into_iter()
        .map(|(key, what)| key.into_iter().chain(values(&what)).collect())
        .collect();
    let columns =
        keys.into_iter().chain(fields.iter().map(|(column, _)| column.clone())).collect();
    Table { name, caption, columns, rows, total }
}

/// The table by order.
pub fn by_order(about: &'static About, class: Class, results: &[OrderResult]) -> Table {
    let rows =
        results.iter().map(|result| (vec![Value::Number(result.order as u64)], result.total()));
    let caption = format!(
        "{} on all {} with n vertices: how many the first (P1) and the second player (P2) win; \
         {}.",
        about.title,
        class.title(),
        match class {
            Class::All => "labelled graphs are those of G(n, 1/2)",
            _ => "in labelled counts each of them counts n!/|Aut| times",
        }
    );
    assemble(
        (stem(TableKind::Orders, class, None), caption),
        vec![order_column(true)],
        full_fields(about, true),
        rows.collect(),
        None,
    )
}

/// The table by number of edges.
pub fn by_size(
    about: &'static About,
    class: Class,
    results: &[OrderResult],
    order: Option<usize>,
) -> Table {
    let rows = results.iter().flat_map(|result| {
        sizes(class, result).iter().enumerate().map(|(size, row)| {
            (vec![Value::Number(result.order as u64), Value::Number(size as u64)], row.clone())
        })
    });
    let caption = format!(
        "{} on all {} with {} vertices, by number m of edges.",
        about.title,
        class.title(),
        vertices(order)
    );
    let sum = order.and(results.first()).map(OrderResult::total);
    let keys = vec![order_column(order.is_none()), size_column()];
    assemble(
        (stem(TableKind::Sizes, class, order), caption),
        keys,
        full_fields(about, false),
        rows.collect(),
        sum,
    )
}

/// A table of counts by something else than order and size. The keys of the rows begin with their
/// orders.
pub fn breakdown(
    about: &About,
    class: Class,
    kind: TableKind,
    order: Option<usize>,
    rows: Vec<(Vec<Value>, Cell)>,
) -> Table {
    let (keys, by) = match kind {
        TableKind::Degrees => (
            vec![
                size_column(),
                column(
                    "degrees",
                    Some("degrees"),
                    "degree sequence, highest degree first, separated by spaces",
                ),
            ],
            "by degree sequence",
        ),
        TableKind::MinimumDegree => (vec![minimum_degree_column()], "by minimum degree"),
        TableKind::MaximumDegree => (
            vec![column("maximum_degree", Some("maximum degree"), "maximum degree")],
            "by maximum degree",
        ),
        TableKind::Regularity => (
            vec![column(
                "regularity",
                Some("regular"),
                "k if all degrees are k, -1 if they differ",
            )],
            "regular ones by degree",
        ),
        TableKind::Girth => (
            vec![column("girth", Some("girth"), "length of a shortest cycle, 0 if there is none")],
            "by girth",
        ),
        TableKind::Bipartite => (
            vec![column("bipartite", Some("bipartite"), "1 if bipartite, 0 if not")],
            "bipartite or not",
        ),
        TableKind::Connectivity => (
            vec![column(
                "connectivity",
                Some("connectivity"),
                "0 disconnected, 1 connected but not 2-connected, 2 2-connected",
            )],
            "by connectivity",
        ),
        TableKind::Automorphisms => (
            vec![column("automorphisms", Some("|Aut|"), "order of the automorphism group")],
            "by order of the automorphism group",
        ),
        TableKind::Density => {
            (parity::keys(kind), "by density, odd and even numbers m of edges apart")
        }
        TableKind::MinimumDegreeParity => {
            (parity::keys(kind), "by minimum degree, odd and even numbers m of edges apart")
        }
        TableKind::OddDegrees => (
            parity::keys(kind),
            "by number of vertices of odd degree, odd and even numbers m of edges apart",
        ),
        TableKind::OddDegreesBySize => (
            vec![size_column(), odd_degrees_column()],
            "by number m of edges and number of vertices of odd degree",
        ),
        TableKind::Involutions => (
            examined::keys(kind),
            "by the most vertices that an involutive automorphism moves, and whether one fixes no \
             edge",
        ),
        TableKind::PlayLength => (
            examined::keys(kind),
            "by edges of a longest trail and number of moves under best play",
        ),
        TableKind::Orders | TableKind::Sizes | TableKind::Conditions => {
            unreachable!("these have tables of their own")
        }
    };
    let (title, graphs) = (about.title, class.title());
    let caption = format!("{title} on all {graphs} with {} vertices, {by}.", vertices(order));
    let total = order.map(|_| {
        rows.iter().fold(Cell::default(), |mut sum, (_, cell)| {
            sum += *cell;
            sum
        })
    });
    let keys = std::iter::once(order_column(order.is_none())).chain(keys).collect();
    assemble((stem(kind, class, order), caption), keys, brief_fields(about), rows, total)
}

/// The table by density.
pub fn density(
    about: &About,
    class: Class,
    results: &[OrderResult],
    order: Option<usize>,
) -> Table {
    let kind = TableKind::Density;
    breakdown(about, class, kind, order, parity::cells(kind, &parity::by_density(results)))
}

/// The rows of a table by something that the degree sequence tells.
pub fn by_degrees(
    kind: TableKind,
    order: usize,
    shards: &[ShardSummary],
) -> Vec<(Vec<Value>, Cell)> {
    let n = Value::Number(order as u64);
    if kind == TableKind::Degrees {
        let row = |sequence: &DegreeSequence| {
            vec![
                n.clone(),
                Value::Number(sequence.size() as u64),
                Value::Text(degrees_text(sequence)),
            ]
        };
        return shards
            .iter()
            .map(|shard| (row(&shard.sequence), cell(&shard.statistics)))
            .collect();
    }
    if matches!(kind, TableKind::MinimumDegreeParity | TableKind::OddDegrees) {
        return parity::cells(kind, &parity::by_degrees(kind, order, shards));
    }
    if kind == TableKind::OddDegreesBySize {
        let number = |number: usize| Value::Number(number as u64);
        let cells = parity::by_size_and_odd_degrees(shards).into_iter();
        return cells
            .map(|((size, odd), cell)| (vec![n.clone(), number(size), number(odd)], cell))
            .collect();
    }
    let mut rows: BTreeMap<i64, Cell> = BTreeMap::new();
    for shard in shards {
        let (least, most) = (shard.sequence.degree(0) as i64, shard.sequence.maximum() as i64);
        let key = match kind {
            TableKind::MinimumDegree => least,
            TableKind::MaximumDegree => most,
            _ if least == most => most,
            _ => -1,
        };
        *rows.entry(key).or_default() += cell(&shard.statistics);
    }
    let named = |key: i64| match key {
        -1 => Value::Named(-1, "no".into()),
        key if kind == TableKind::Regularity => Value::Named(key, format!("{key}-regular").into()),
        key => Value::Number(key as u64),
    };
    rows.into_iter().map(|(key, cell)| (vec![n.clone(), named(key)], cell)).collect()
}

/// The degrees, highest first, separated by spaces.
pub fn degrees_text(sequence: &DegreeSequence) -> String {
    sequence.bytes().iter().rev().map(u8::to_string).collect::<Vec<_>>().join(" ")
}

/// The counts that a table by something else than degrees shows.
pub fn cells(kind: TableKind, structure: &mut Structure) -> &mut Breakdown {
    match kind {
        TableKind::Girth => &mut structure.girth,
        TableKind::Bipartite => &mut structure.bipartite,
        TableKind::Connectivity => &mut structure.connectivity,
        _ => &mut structure.automorphisms,
    }
}

/// The rows of a table by something else than degrees: by girth, whether a graph is bipartite,
/// connectivity, or order of the automorphism group.
pub fn by_structure(kind: TableKind, order: usize, cells: &Breakdown) -> Vec<(Vec<Value>, Cell)> {
    let name = |key: u64| match (kind, key) {
        (TableKind::Girth, 0) => Some("forest"),
        (TableKind::Bipartite, 0) => Some("no"),
        (TableKind::Bipartite, _) => Some("yes"),
        (TableKind::Connectivity, 0) => Some("disconnected"),
        (TableKind::Connectivity, 1) => Some("connected, not 2-connected"),
        (TableKind::Connectivity, _) => Some("2-connected"),
        _ => None,
    };
    let value = |key: u64| match (name(key), kind) {
        (Some(name), _) => Value::Named(key as i64, name.into()),
        (None, TableKind::Girth) => Value::Named(key as i64, key.to_string().into()),
        (None, _) => Value::Number(key),
    };
    cells
        .iter()
        .map(|(&key, cell)| (vec![Value::Number(order as u64), value(key)], *cell))
        .collect()
}
