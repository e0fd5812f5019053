//! Checks what was exported: lists of P1-win graphs, and bundles.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs::File,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use flate2::read::GzDecoder;
use rayon::prelude::*;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use trailtrap_shared::{
    graph::{Graph, factorial, pairs},
    graph6, nauty, polya,
};
use trailtrap_worker::forward::{ForwardSearch, Solution};

use super::random::Random;

/// Lines are checked in parallel, this many at a time.
const LINES: usize = 1 << 16;

/// What a list of P1-win graphs holds.
pub struct GraphList {
    pub order: usize,
    /// Graphs, and labelled graphs, by number of edges.
    pub by_size: Vec<(u128, u128)>,
    /// Of the text, not compressed.
    pub bytes: u64,
    pub sha256: String,
    /// Graphs drawn at random, to be searched forward.
    drawn: Vec<Graph>,
}

impl GraphList {
    /// Reads a list, gzip or plain: each graph canonical (in nauty's labels), the lines strictly increasing and so distinct.
    pub fn read(path: &Path, sample: usize, seed: u64, largest_size: usize) -> anyhow::Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let mut reader = BufReader::new(file);
        let gzip = reader.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let text: Box<dyn Read> = if gzip { Box::new(GzDecoder::new(reader)) } else { Box::new(reader) };
        Self::parse(BufReader::with_capacity(1 << 20, text), sample, seed, largest_size)
            .with_context(|| format!("{}", path.display()))
    }

    fn parse(mut text: impl BufRead, sample: usize, seed: u64, largest_size: usize) -> anyhow::Result<Self> {
        let mut list = GraphList { order: 0, by_size: Vec::new(), bytes: 0, sha256: String::new(), drawn: Vec::new() };
        let mut sha256 = Sha256::new();
        let mut random = Random(seed);
        let (mut number, mut candidates) = (0, 0);
        let mut last: Vec<u8> = Vec::new();
        loop {
            let mut lines: Vec<Vec<u8>> = Vec::new();
            while lines.len() < LINES {
                let mut line = Vec::new();
                if text.read_until(b'\n', &mut line).context("cannot read on: the list is damaged or cut short")? == 0 {
                    break;
                }
                sha256.update(&line);
                list.bytes += line.len() as u64;
                ensure!(
                    line.pop() == Some(b'\n'),
                    "line {}: no line break: the list is cut short",
                    number + lines.len() + 1
                );
                lines.push(line);
            }
            if lines.is_empty() {
                break;
            }
            let check = |line: &Vec<u8>| -> Result<(Graph, u64), String> {
                let graph = graph6::decode(line).map_err(|error| error.to_string())?;
                let labelling = nauty::label(&graph);
                if labelling.canonical != graph {
                    return Err("not in nauty's canonical labels".to_owned());
                }
                Ok((graph, labelling.automorphisms))
            };
            let checked: Vec<Result<(Graph, u64), String>> = lines.par_iter().map(check).collect();
            for (line, checked) in lines.into_iter().zip(checked) {
                number += 1;
                let (graph, automorphisms) = checked.map_err(|why| anyhow::anyhow!("line {number}: {why}"))?;
                ensure!(
                    number == 1 || last < line,
                    "line {number}: not greater than the line before: not sorted, or a graph stands twice"
                );
                last = line;
                if number == 1 {
                    list.order = graph.order();
                    list.by_size = vec![(0, 0); pairs(list.order) + 1];
                }
                ensure!(graph.order() == list.order, "line {number}: order {}, not {}", graph.order(), list.order);
                let (classes, labelled) = &mut list.by_size[graph.size()];
                *classes += 1;
                *labelled += u128::from(factorial(list.order) / automorphisms);
                if graph.size() <= largest_size {
                    // Reservoir sampling (Vitter 1985): each candidate stays with equal probability.
                    candidates += 1;
                    if list.drawn.len() < sample {
                        list.drawn.push(graph);
                    } else if let Some(place) = list.drawn.get_mut((random.next() % candidates) as usize) {
                        *place = graph;
                    }
                }
            }
        }
        list.sha256 = hex::encode(sha256.finalize());
        Ok(list)
    }

    /// Number of graphs.
    pub fn graphs(&self) -> u128 {
        self.by_size.iter().map(|(classes, _)| classes).sum()
    }

    /// Searches the graphs drawn forward: P1 has to win them all. Gives their number.
    pub fn search(&self) -> anyhow::Result<usize> {
        self.drawn.par_iter().with_max_len(1).try_for_each(|graph| {
            let won = matches!(ForwardSearch::new(20_000_000).solve(graph)?, Solution::P1 { .. });
            ensure!(won, "{graph:?} is listed, but forward search says that P2 wins");
            Ok(())
        })?;
        Ok(self.drawn.len())
    }
}

/// A bundle, as `trailtrap export bundle` makes it.
pub struct Bundle {
    root: PathBuf,
    manifest: Manifest,
}

#[derive(Deserialize)]
struct Manifest {
    bundle_format: u32,
    orders: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    order: usize,
    graphs: u128,
    p1_wins: u128,
    digest: String,
    p1_win_list: ListEntry,
}

#[derive(Deserialize)]
struct ListEntry {
    graphs: u128,
    bytes: u64,
    sha256: String,
    file: Option<String>,
}

/// One row of `tables/orders.csv` or `tables/sizes.csv`.
#[derive(Deserialize)]
struct Row {
    order: usize,
    size: Option<usize>,
    graphs: u128,
    p1_wins: u128,
    p2_wins: u128,
    connected_graphs: u128,
    connected_p1_wins: u128,
    connected_p2_wins: u128,
    labelled_graphs: u128,
    labelled_p1_wins: u128,
    labelled_p2_wins: u128,
    labelled_connected_graphs: u128,
    digest: String,
}

/// A column of counts that adds up over sizes.
type Column = (&'static str, fn(&Row) -> u128);

impl Bundle {
    /// Opens a bundle.
    pub fn open(root: &Path) -> anyhow::Result<Self> {
        let path = root.join("manifest.json");
        let text = std::fs::read(&path)
            .with_context(|| format!("{} has no manifest.json: it is no bundle", root.display()))?;
        let manifest: Manifest = serde_json::from_slice(&text).with_context(|| format!("{}", path.display()))?;
        ensure!(manifest.bundle_format == 1, "bundle format {}; this program reads 1", manifest.bundle_format);
        Ok(Bundle { root: root.to_owned(), manifest })
    }

    /// The orders of the bundle.
    pub fn orders(&self) -> impl Iterator<Item = usize> {
        self.manifest.orders.iter().map(|entry| entry.order)
    }

    /// Every file listed in `SHA256SUMS` is there, unaltered, and there is no other.
    pub fn checksums(&self) -> anyhow::Result<String> {
        let sums = std::fs::read_to_string(self.root.join("SHA256SUMS")).context("SHA256SUMS")?;
        let mut listed = BTreeSet::from(["SHA256SUMS".to_owned()]);
        for line in sums.lines() {
            let (sum, name) = line.split_once("  ").with_context(|| format!("SHA256SUMS: '{line}' is no checksum"))?;
            let inside = Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)));
            ensure!(inside, "SHA256SUMS: '{name}' is not a file of the bundle");
            let found = sha256_of(&self.root.join(name)).with_context(|| format!("{name}, listed in SHA256SUMS"))?;
            ensure!(found == sum, "{name} was altered: its SHA-256 is {found}");
            ensure!(listed.insert(name.to_owned()), "SHA256SUMS lists {name} twice");
        }
        let mut present = BTreeSet::new();
        files_below(&self.root, "", &mut present)?;
        if let Some(extra) = present.difference(&listed).next() {
            bail!("{extra} is not listed in SHA256SUMS");
        }
        Ok(format!("{} files", listed.len()))
    }

    /// The tables by order and by size agree with Pólya counting, with the mass formula, with each other, and with the manifest.
    pub fn tables(&self) -> anyhow::Result<String> {
        let orders = self.rows("orders")?;
        let sizes = self.rows("sizes")?;
        ensure!(
            orders.len() == self.manifest.orders.len(),
            "tables/orders.csv has {} rows for {} orders",
            orders.len(),
            self.manifest.orders.len()
        );
        for (entry, row) in self.manifest.orders.iter().zip(&orders) {
            let n = entry.order;
            ensure!(row.order == n, "tables/orders.csv: a row of order {} where {n} is expected", row.order);
            ensure!(
                (row.graphs, row.p1_wins, &row.digest) == (entry.graphs, entry.p1_wins, &entry.digest),
                "order {n}: manifest.json and tables/orders.csv differ"
            );
            ensure!((1..=12).contains(&n), "order {n} is out of range");
            let of_order: Vec<&Row> = sizes.iter().filter(|row| row.order == n).collect();
            let classes = polya::unlabelled(n).pop().context("orders start at 1")?;
            let labelled = polya::labelled(n).pop().context("orders start at 1")?;
            ensure!(of_order.len() == pairs(n) + 1, "order {n}: tables/sizes.csv has {} sizes", of_order.len());
            for (size, row) in of_order.iter().enumerate() {
                ensure!(row.size == Some(size), "order {n}: tables/sizes.csv has size {:?} for {size}", row.size);
                let comparisons = [
                    ("graphs", row.graphs, &classes.all[size]),
                    ("connected_graphs", row.connected_graphs, &classes.connected[size]),
                    ("labelled_graphs", row.labelled_graphs, &labelled.all[size]),
                    ("labelled_connected_graphs", row.labelled_connected_graphs, &labelled.connected[size]),
                ];
                for (column, found, expected) in comparisons {
                    let right = found.to_string() == expected.to_string();
                    ensure!(right, "order {n}, {size} edges: {column} is {found}, theory says {expected}");
                }
            }
            for row in of_order.iter().copied().chain([row]) {
                let adds_up = row.p1_wins.checked_add(row.p2_wins) == Some(row.graphs)
                    && row.connected_p1_wins.checked_add(row.connected_p2_wins) == Some(row.connected_graphs)
                    && row.labelled_p1_wins.checked_add(row.labelled_p2_wins) == Some(row.labelled_graphs);
                ensure!(adds_up, "order {n}, size {:?}: wins do not add up to graphs", row.size);
            }
            let columns: [Column; 6] = [
                ("graphs", |row| row.graphs),
                ("p1_wins", |row| row.p1_wins),
                ("connected_graphs", |row| row.connected_graphs),
                ("connected_p1_wins", |row| row.connected_p1_wins),
                ("labelled_graphs", |row| row.labelled_graphs),
                ("labelled_p1_wins", |row| row.labelled_p1_wins),
            ];
            for (column, value) in columns {
                let sum: u128 = of_order.iter().map(|row| value(row)).sum();
                ensure!(sum == value(row), "order {n}: {column} by size add up to {sum}, not {}", value(row));
            }
        }
        Ok(format!("{} orders, {} sizes", orders.len(), sizes.len()))
    }

    /// The lists of P1-win graphs: each graph canonical and distinct, as many of each size as the tables say, unlabelled and
    /// labelled; some searched forward.
    pub fn lists(&self, sample: usize, seed: u64, largest_size: usize) -> anyhow::Result<String> {
        let mut counts: BTreeMap<(usize, usize), (u128, u128)> = BTreeMap::new();
        for row in self.rows("sizes")? {
            counts.insert((row.order, row.size.unwrap_or(0)), (row.p1_wins, row.labelled_p1_wins));
        }
        let (mut graphs, mut searched, mut described) = (0, 0, 0);
        let mut named = HashSet::new();
        for entry in &self.manifest.orders {
            let n = entry.order;
            ensure!(
                entry.p1_win_list.graphs == entry.p1_wins,
                "order {n}: the list has {} graphs, P1 wins {}",
                entry.p1_win_list.graphs,
                entry.p1_wins
            );
            let Some(name) = &entry.p1_win_list.file else {
                described += 1;
                continue;
            };
            ensure!(named.insert(name), "two orders name the list {name}");
            let list = GraphList::read(&self.root.join(name), sample, seed, largest_size)?;
            ensure!(list.graphs() == 0 || list.order == n, "{name} has graphs of order {}", list.order);
            ensure!(
                (list.graphs(), list.bytes, &list.sha256)
                    == (entry.p1_wins, entry.p1_win_list.bytes, &entry.p1_win_list.sha256),
                "{name} has {} graphs, {} bytes, SHA-256 {}; the manifest says otherwise",
                list.graphs(),
                list.bytes,
                list.sha256
            );
            for (size, found) in list.by_size.iter().enumerate() {
                let expected = counts.get(&(n, size)).copied().unwrap_or_default();
                ensure!(
                    *found == expected,
                    "{name}: {found:?} graphs (unlabelled, labelled) of {size} edges, tables/sizes.csv has {expected:?}"
                );
            }
            searched += list.search()?;
            graphs += list.graphs();
        }
        Ok(format!("{graphs} graphs, {searched} of them searched forward; {described} lists are only described"))
    }

    fn rows(&self, table: &str) -> anyhow::Result<Vec<Row>> {
        let name = format!("tables/{table}.csv");
        let mut reader = csv::Reader::from_path(self.root.join(&name)).with_context(|| name.clone())?;
        reader.deserialize().collect::<Result<_, _>>().with_context(|| name)
    }
}

fn sha256_of(path: &Path) -> std::io::Result<String> {
    let (mut sha256, mut file) = (Sha256::new(), BufReader::with_capacity(1 << 20, File::open(path)?));
    loop {
        let bytes = file.fill_buf()?;
        if bytes.is_empty() {
            return Ok(hex::encode(sha256.finalize()));
        }
        sha256.update(bytes);
        let count = bytes.len();
        file.consume(count);
    }
}

fn files_below(root: &Path, prefix: &str, found: &mut BTreeSet<String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(root.join(prefix)).with_context(|| format!("cannot read {}", root.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        match entry.file_type()?.is_dir() {
            true => files_below(root, &path, found)?,
            false => drop(found.insert(path)),
        }
    }
    Ok(())
}
