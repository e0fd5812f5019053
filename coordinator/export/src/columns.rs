//! What tables have in common: the kinds there are, what they are called, and the columns, cells and
//! numbers of edges that several of them have.

use trailtrap_census::read::OrderResult;
use trailtrap_shared::{
    class::Class,
    count::{
        statistics::{Cell, Statistics},
        summary::Summary,
    },
    graph::pairs,
};

use crate::{
    choice::{Choice as _, choices},
    table::{Column, Value},
};

choices! {
    /// The tables there are.
    pub enum TableKind {
        Orders = "orders": "One row for each order: the paper's Table 1, continued",
        Sizes = "sizes": "By number of edges",
        Degrees = "degrees": "By degree sequence",
        MinimumDegree = "minimum-degree": "By minimum degree",
        MaximumDegree = "maximum-degree": "By maximum degree",
        Regularity = "regularity": "Regular graphs by degree, and the others",
        Girth = "girth": "By girth",
        Bipartite = "bipartite": "Bipartite graphs, and the others",
        Connectivity = "connectivity": "Disconnected, connected, 2-connected graphs",
        Automorphisms = "automorphisms": "By order of the automorphism group",
        Density = "density": "By density m / C(n, 2), odd and even numbers m of edges apart",
        MinimumDegreeParity = "minimum-degree-parity":
            "By minimum degree, odd and even numbers of edges apart",
        OddDegrees = "odd-degrees":
            "By number of vertices of odd degree, odd and even numbers of edges apart",
        OddDegreesBySize = "odd-degrees-by-size":
            "By number of edges and number of vertices of odd degree",
        Involutions = "involutions":
            "By involutive automorphisms, which Proposition 3 is about (orders up to 9)",
        PlayLength = "play-length":
            "By longest trail and length of play under best play (orders up to 9)",
        Conditions = "conditions":
            "How many wins each sufficient condition of the paper explains (orders up to 9)",
    }
}

impl TableKind {
    /// The first format of bundles that have it; none has what takes a look at every graph.
    pub fn since_bundle_format(self) -> Option<u32> {
        match self {
            kind if kind.looks_at_graphs() => None,
            // The same is in the shard files, with more.
            TableKind::Degrees | TableKind::OddDegreesBySize => None,
            TableKind::Density | TableKind::MinimumDegreeParity | TableKind::OddDegrees => Some(2),
            _ => Some(1),
        }
    }

    /// Whether every graph is looked at, which takes that they were kept.
    pub fn looks_at_graphs(self) -> bool {
        matches!(self, TableKind::Involutions | TableKind::PlayLength | TableKind::Conditions)
    }

    /// Whether it is about something of each graph that a census counts, and that neither its
    /// degrees nor its number of edges tell.
    pub fn is_by_structure(self) -> bool {
        matches!(
            self,
            TableKind::Girth
                | TableKind::Bipartite
                | TableKind::Connectivity
                | TableKind::Automorphisms
        )
    }

    /// Whether it follows from the counts of every degree sequence.
    pub fn is_by_degrees(self) -> bool {
        matches!(
            self,
            TableKind::Degrees
                | TableKind::MinimumDegree
                | TableKind::MaximumDegree
                | TableKind::Regularity
                | TableKind::MinimumDegreeParity
                | TableKind::OddDegrees
                | TableKind::OddDegreesBySize
        )
    }
}

/// A column that belongs to no group.
pub(crate) fn column(
    name: impl Into<String>,
    heading: Option<&'static str>,
    meaning: impl Into<String>,
) -> Column {
    Column { name: name.into(), heading, group: "", meaning: meaning.into() }
}

/// The number of vertices, for people if there are several orders.
pub(crate) fn order_column(shown: bool) -> Column {
    column("order", shown.then_some("n"), "number of vertices")
}

/// Whether the number of edges is odd.
pub(crate) fn parity_column() -> Column {
    column("size_parity", Some("m"), "number of edges modulo 2")
}

/// What stands in this column.
pub(crate) fn parity_of(size: usize) -> Value {
    Value::Named((size % 2) as i64, ["even", "odd"][size % 2].into())
}

/// The smallest degree.
pub(crate) fn minimum_degree_column() -> Column {
    column("minimum_degree", Some("minimum degree"), "minimum degree")
}

/// How many degrees are odd.
pub(crate) fn odd_degrees_column() -> Column {
    column("odd_degrees", Some("odd degrees"), "number of vertices of odd degree")
}

/// What there is for each number of edges: of a class, up to the largest that one of its graphs
/// has.
pub(crate) fn sizes(class: Class, result: &OrderResult) -> &[Summary] {
    let has_graphs = |row: &Summary| row.statistics.classes.all.graphs > 0;
    let rows = match class {
        Class::All => result.by_size.len(),
        _ => result.by_size.iter().rposition(has_graphs).map_or(0, |last| last + 1),
    };
    &result.by_size[..rows]
}

/// The largest number of edges that a picture of an order has room for: of a class, the largest
/// that one of its graphs has.
pub(crate) fn last_size(class: Class, result: &OrderResult) -> usize {
    match class {
        Class::All => pairs(result.order),
        _ => sizes(class, result).len().saturating_sub(1),
    }
}

/// The number of edges.
pub(crate) fn size_column() -> Column {
    column("size", Some("m"), "number of edges")
}

/// The number of vertices in a caption: n, if there are several orders.
pub(crate) fn vertices(order: Option<usize>) -> String {
    order.map_or_else(|| "n".to_owned(), |order| order.to_string())
}

/// What a table is called, and its file.
pub(crate) fn stem(kind: TableKind, class: Class, order: Option<usize>) -> String {
    let class = match class {
        Class::All => String::new(),
        class => format!("-{}", class.file_stem()),
    };
    let order = order.map_or_else(String::new, |order| format!("-n{order:02}"));
    format!("{}{class}{order}", kind.name())
}

/// What all graphs of these statistics add up to.
pub fn cell(statistics: &Statistics) -> Cell {
    Cell { classes: statistics.classes.all, labelled: statistics.labelled.all }
}
