//! Lists of the graphs that P1 wins: graph6, in nauty's canonical labels, sorted, the same bytes
//! every time.

use std::{
    fmt,
    io::Write,
    path::Path,
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
};

use flate2::{Compression, GzBuilder};
use rayon::prelude::*;
use trailtrap_census::read::{Watcher, archive::Archive};
use trailtrap_shared::{
    graph::{Code, Graph, MAX_ORDER, NARROW_ORDER, graph6, invariants, nauty, pairs},
    plan::Shard,
};

use crate::{ExportError, choice::choices, formats::TableFormat};

/// Bytes that the edges of a graph take: of one of order 16, or of one of order 20.
const NARROW_BYTES: usize = pairs(NARROW_ORDER).div_ceil(8);
const WIDE_BYTES: usize = NARROW_BYTES + (pairs(MAX_ORDER) - pairs(NARROW_ORDER)).div_ceil(8);
// The second part of a code begins with a byte.
const _: () = assert!(pairs(NARROW_ORDER) == 8 * NARROW_BYTES);

/// A graph as a number: its graph6 bits, the first one highest. Sorts as the graph6 texts of one
/// order do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Key<BYTES> {
    fn of(graph: &Graph) -> Self {
        // The code has the first bit lowest.
        let code = graph.code();
        let [first, beyond] =
            [code.narrow(), code.beyond()].map(|bits| bits.reverse_bits().to_be_bytes());
        let mut bytes = first[..NARROW_BYTES].iter().chain(&beyond);
        Key(std::array::from_fn(|_| bytes.next().copied().unwrap_or(0)))
    }

    fn code(self) -> Code {
        let bits = |bytes: &[u8]| {
            let mut word = [0; 16];
            word[..bytes.len()].copy_from_slice(bytes);
            u128::from_be_bytes(word).reverse_bits()
        };
        let (first, beyond) = self.0.split_at(NARROW_BYTES);
        Code::new(bits(first), bits(beyond))
    }
}

/// Sorted keys of graphs of one order, no longer than they have to be.
enum Keys {
    Narrow(Vec<Key<NARROW_BYTES>>),
    Wide(Vec<Key<WIDE_BYTES>>),
}

impl Keys {
    fn len(&self) -> usize {
        match self {
            Keys::Narrow(keys) => keys.len(),
            Keys::Wide(keys) => keys.len(),
        }
    }

    fn codes(&self) -> impl Iterator<Item = Code> + '_ {
        let (narrow, wide): (&[_], &[_]) = match self {
            Keys::Narrow(keys) => (keys, &[]),
            Keys::Wide(keys) => (&[], keys),
        };
        narrow.iter().map(|key| key.code()).chain(wide.iter().map(|key| key.code()))
    }
}

/// A number or a range of numbers, both ends included: `7`, `3..5`, `..5`, `3..`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    least: u64,
    most: u64,
}

impl Range {
    fn contains(&self, number: u64) -> bool {
        (self.least..=self.most).contains(&number)
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a range; write 7, 3..5, ..5 or 3..");
        let end = |text: &str, open: u64| {
            if text.is_empty() { Ok(open) } else { text.parse().map_err(|_| wrong()) }
        };
        let range = match text.split_once("..") {
            None => {
                let number = text.parse().map_err(|_| wrong())?;
                Range { least: number, most: number }
            }
            Some((least, most)) => {
                Range { least: end(least, 0)?, most: end(most.trim_start_matches('='), u64::MAX)? }
            }
        };
        if range.least > range.most {
            Err(format!("the range '{text}' is empty"))
        } else {
            Ok(range)
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.least, self.most) {
            (least, most) if least == most => write!(f, "{least}"),
            (least, u64::MAX) => write!(f, "{least}.."),
            (least, most) => write!(f, "{least}..{most}"),
        }
    }
}

choices! {
    /// Yes or no.
    pub enum YesNo {
        Yes = "yes": "",
        No = "no": "",
    }
}

impl YesNo {
    fn admits(choice: Option<Self>, fact: impl FnOnce() -> bool) -> bool {
        choice.is_none_or(|choice| (choice == YesNo::Yes) == fact())
    }
}

/// Which graphs are wanted; all of these have to hold. Ranges include both ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Number of edges
    pub edges: Option<Range>,
    /// Minimum degree
    pub min_degree: Option<Range>,
    /// Maximum degree
    pub max_degree: Option<Range>,
    /// Regular graphs, or (`no`) the others
    pub regular: Option<YesNo>,
    /// Connected graphs, or the others
    pub connected: Option<YesNo>,
    /// 2-connected graphs, or the others
    pub biconnected: Option<YesNo>,
    /// Bipartite graphs, or the others
    pub bipartite: Option<YesNo>,
    /// Girth, the length of a shortest cycle; 0 stands for forests
    pub girth: Option<Range>,
    /// Order of the automorphism group
    pub automorphisms: Option<Range>,
}

impl Filter {
    /// Whether graphs of this shard can pass.
    fn admits_shard(&self, shard: &Shard) -> bool {
        let (least, most) = (shard.sequence.degree(0), shard.sequence.maximum());
        let within = |range: &Option<Range>, number: usize| {
            range.is_none_or(|range| range.contains(number as u64))
        };
        within(&self.edges, shard.size)
            && within(&self.min_degree, least)
            && within(&self.max_degree, most)
            && YesNo::admits(self.regular, || least == most)
    }

    /// Whether a graph of an admitted shard passes, as far as can be told without its group.
    fn admits_graph(&self, graph: &Graph) -> bool {
        YesNo::admits(self.connected, || graph.is_connected())
            && YesNo::admits(self.biconnected, || invariants::connectivity(graph) == 2)
            && YesNo::admits(self.bipartite, || invariants::is_bipartite(graph))
            && self.girth.is_none_or(|range| range.contains(invariants::girth(graph).into()))
    }

    fn admits_group(&self, automorphisms: u64) -> bool {
        self.automorphisms.is_none_or(|range| range.contains(automorphisms))
    }
}

/// The P1-win graphs of an order that pass a filter, in nauty's canonical labels, sorted as
/// `LC_ALL=C sort` sorts their graph6 lines. 15 bytes a graph, beyond order 16 24.
pub struct GraphList {
    order: usize,
    is_filtered: bool,
    keys: Keys,
}

impl GraphList {
    /// Reads them from an archive.
    ///
    /// # Errors
    /// If the archive does not have the order, its blocks cannot be read, or nobody wants them any
    /// more.
    pub fn read(
        archive: &Archive,
        order: usize,
        filter: &Filter,
        watcher: &dyn Watcher,
    ) -> Result<Self, ExportError> {
        let keys = match order <= NARROW_ORDER {
            true => Keys::Narrow(Self::read_keys(archive, order, filter, watcher)?),
            false => Keys::Wide(Self::read_keys(archive, order, filter, watcher)?),
        };
        Ok(GraphList { order, is_filtered: *filter != Filter::default(), keys })
    }

    fn read_keys<const BYTES: usize>(
        archive: &Archive,
        order: usize,
        filter: &Filter,
        watcher: &dyn Watcher,
    ) -> Result<Vec<Key<BYTES>>, ExportError> {
        let plan = archive.plan(order)?;
        let mut parts = archive.parts(&plan)?;
        parts.retain(|(shard, _)| filter.admits_shard(shard));
        let graphs_in = |shard: &Shard| shard.estimate.div_ceil(shard.parts.into());
        let done = AtomicU64::new(0);
        let total = parts.iter().map(|(shard, _)| graphs_in(shard)).sum();
        let mut keys: Vec<Key<BYTES>> = watcher.during("graphs", total, &done, || {
            let found: Result<Vec<Vec<Key<BYTES>>>, ExportError> = parts
                .par_iter()
                .map(|&(shard, part)| {
                    if watcher.wants_no_more() {
                        return Err(ExportError::Stopped);
                    }
                    let label = |graph: &Graph| {
                        let found = nauty::label(graph);
                        filter.admits_group(found.automorphisms).then(|| Key::of(&found.canonical))
                    };
                    let graphs = archive.listed(shard, part)?;
                    let keys = graphs
                        .par_iter()
                        .filter(|graph| filter.admits_graph(graph))
                        .filter_map(label)
                        .collect();
                    done.fetch_add(graphs_in(shard), Ordering::Relaxed);
                    Ok(keys)
                })
                .collect();
            found.map(|lists| lists.concat())
        })?;
        keys.par_sort_unstable();
        Ok(keys)
    }

    /// Number of graphs.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether some were not wanted.
    pub fn is_filtered(&self) -> bool {
        self.is_filtered
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The graphs, in order.
    pub fn graphs(&self) -> impl Iterator<Item = Graph> + '_ {
        self.keys.codes().map(|code| Graph::from_code(self.order, code))
    }

    /// Bytes of the list as text.
    pub fn bytes(&self) -> u64 {
        (self.len() * (graph6::encoded_len(self.order) + 1)) as u64
    }

    /// One graph6 line for each graph.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> Result<(), ExportError> {
        let mut lines = Vec::with_capacity(1 << 16);
        for code in self.keys.codes() {
            graph6::encode_code(self.order, code, &mut lines);
            lines.push(b'\n');
            if lines.len() > (1 << 16) - 64 {
                out.write_all(&lines)?;
                lines.clear();
            }
        }
        Ok(out.write_all(&lines)?)
    }

    /// The same, compressed; without name and time, as `gzip -n` does it.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write_gzip(&self, out: &mut dyn Write) -> Result<(), ExportError> {
        let mut gzip = GzBuilder::new().mtime(0).write(out, Compression::best());
        self.write(&mut gzip)?;
        gzip.finish()?;
        Ok(())
    }
}

/// Whether a name, without the end of what is compressed, is not one for graph6. Plain text may be
/// anything.
pub fn says_other_format(path: &Path) -> bool {
    let name = if is_gzip(path) { path.with_extension("") } else { path.to_owned() };
    let is = |end: &str| name.extension().is_some_and(|own| own.eq_ignore_ascii_case(end));
    let is_table = TableFormat::of(&name).is_some() && !is("txt");
    // Other ways to compress than by gzip are none that this program knows.
    let others = ["s6", "sparse6", "d6", "dot", "bz2", "xz", "zst", "zip"];
    is_table || others.into_iter().any(is)
}

/// Whether a name is one of what is compressed.
pub fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Keys keep the graph, and sort as lines do.
        #[test]
        fn keys_are_graph6_bits(n in 1..=MAX_ORDER, a: [u128; 2], b: [u128; 2]) {
            let [a, b] = [a, b].map(|[first, beyond]| {
                Graph::from_code(n, Code::new(first, beyond))
            });
            let as_lines = graph6::encode(&a).cmp(&graph6::encode(&b));
            prop_assert_eq!(Key::<WIDE_BYTES>::of(&a).code(), a.code());
            prop_assert_eq!(Key::<WIDE_BYTES>::of(&a).cmp(&Key::of(&b)), as_lines);
            if n <= NARROW_ORDER {
                prop_assert_eq!(Key::<NARROW_BYTES>::of(&a).code(), a.code());
                prop_assert_eq!(Key::<NARROW_BYTES>::of(&a).cmp(&Key::of(&b)), as_lines);
            }
        }
    }

    #[test]
    fn ranges() {
        let parse = |text: &str| text.parse::<Range>();
        assert_eq!(parse("7"), Ok(Range { least: 7, most: 7 }));
        assert_eq!(parse("3..5"), Ok(Range { least: 3, most: 5 }));
        assert_eq!(parse("..5"), Ok(Range { least: 0, most: 5 }));
        assert_eq!(parse("3..").map(|range| range.to_string()), Ok("3..".to_owned()));
        for bad in ["", "x", "5..3", "1,2", "-1", "3...5"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
