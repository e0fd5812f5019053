//! Checks a bundle: that nothing was altered, and that its files say the same as theory and as
//! each other.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use trailtrap_census::{read::archive::ShardSummary, records::OrderResult, trust::checks};
use trailtrap_export::{
    bundle::{ALL_TABLES, TABLE_FORMATS, all_tables, table_file},
    choice::Choice as _,
    documents,
    formats::{self, TableFormat},
    manifest::{BUNDLE_FORMAT, Done, Manifest, OrderEntry},
    sequences::{self, Sequence},
    shards,
    table::{SHARE_DIGITS, Table, decimal},
    tables::{self, TableKind},
};
use trailtrap_shared::{
    class::Class,
    count::{
        statistics::{Breakdown, Cell, Counts, Statistics, Structure, Sums, TOO_LARGE, Weighing},
        summary::Summary,
    },
    game::{About, GameName},
    graph::{factorial, graph6, pairs},
    labelling::MAX_PLAIN_ORDER,
    plan::{Plan, PlanOptions},
};
use trailtrap_worker::process::open;
use walkdir::WalkDir;

use super::list::{CheckedList, Wins};

/// A bundle, as `trailtrap export bundle` makes it.
pub struct Bundle {
    root: PathBuf,
    game: GameName,
    manifest: Manifest,
}

/// One row of `tables/sizes.csv`, from which the other tables by order and size follow.
struct Row<'a> {
    about: &'a About,
    cells: BTreeMap<String, String>,
}

/// What stands in a column of a row.
fn cell<T: FromStr>(row: &BTreeMap<String, String>, name: &str) -> anyhow::Result<T> {
    let text = row.get(name).with_context(|| format!("there is no column {name}"))?;
    text.parse().ok().with_context(|| format!("{name} is '{text}'"))
}

impl Row<'_> {
    fn cell<T: FromStr>(&self, name: &str) -> anyhow::Result<T> {
        cell(&self.cells, name)
    }

    fn count(&self, name: &str) -> anyhow::Result<u128> {
        possible(name, self.cell(name)?)
    }

    fn counts(&self, prefix: &str) -> anyhow::Result<Counts> {
        let stem = self.about.verdicts[0].stem;
        Ok(Counts {
            graphs: self.count(&format!("{prefix}graphs"))?,
            listed: self.count(&format!("{prefix}{stem}_wins"))?,
        })
    }

    fn weighing(&self, prefix: &str) -> anyhow::Result<Weighing> {
        let mut sums = Sums::default();
        for (sum, name) in sums.0.iter_mut().zip(self.about.sums) {
            *sum = self.count(&format!("{prefix}{}", name.key))?;
        }
        Ok(Weighing {
            all: self.counts(prefix)?,
            connected: self.counts(&format!("{prefix}connected_"))?,
            sums,
        })
    }

    /// Order and size.
    fn place(&self) -> anyhow::Result<(usize, usize)> {
        Ok((self.cell("order")?, self.cell("size")?))
    }

    /// What is not about properties of graphs; an error if these counts are impossible.
    fn statistics(&self) -> anyhow::Result<Statistics> {
        let (order, size) = self.place()?;
        let [classes, labelled] = [self.weighing("")?, self.weighing("labelled_")?];
        let statistics = Statistics { classes, labelled, ..Statistics::default() };
        let possible = statistics.is_possible(self.about, order, size);
        ensure!(possible, "order {order}, {size} edges: counts that are impossible together");
        Ok(statistics)
    }
}

/// A table of a bundle as text: rows of cells by column name.
type TextRows = Vec<BTreeMap<String, String>>;

impl Bundle {
    /// Opens a bundle.
    pub fn open(root: &Path) -> anyhow::Result<Self> {
        let path = root.join("manifest.json");
        let text =
            open::read(&path, MOST_BYTES).with_context(|| match path.symlink_metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    format!("{} has no manifest.json: it is no bundle", root.display())
                }
                _ => path.display().to_string(),
            })?;
        let manifest = Manifest::from_json(&text).with_context(|| path.display().to_string())?;
        let orders = manifest.orders.iter().map(|entry| entry.order);
        let most = match manifest.class {
            Class::All => MAX_PLAIN_ORDER,
            class => class.largest_order(),
        };
        ensure!(
            orders.eq(1..=manifest.orders.len().clamp(1, most)),
            "{}: its orders are not 1, 2, …, at most {most}",
            path.display()
        );
        let number = manifest.formats.game;
        let game = GameName::of_number(number).with_context(|| {
            format!("it is about game number {number}, which this program does not know")
        })?;
        Ok(Bundle { root: root.to_owned(), game, manifest })
    }

    fn about(&self) -> &'static About {
        self.game.about()
    }

    fn class(&self) -> Class {
        self.manifest.class
    }

    /// The orders of the bundle.
    pub fn orders(&self) -> impl Iterator<Item = usize> {
        self.manifest.orders.iter().map(|entry| entry.order)
    }

    /// Every file listed in `SHA256SUMS` is there, unaltered, and there is no other. Only a bundle
    /// that passes may be looked into: the other checks read what may have come from anywhere.
    pub fn checksums(&self) -> anyhow::Result<String> {
        // What is found inside, by looking, is what may be read; what a file says is not.
        let mut present = files_below(&self.root)?;
        ensure!(present.remove(SUMS), "there is no {SUMS}");
        let listed = self.listed()?;
        for (name, sum) in &listed {
            ensure!(
                present.remove(name),
                "{name}, which {SUMS} lists, is not a file of the bundle"
            );
            let found = sha256_of(&self.root.join(name)).with_context(|| name.clone())?;
            ensure!(found == *sum, "{name} was altered: its SHA-256 is {found}");
        }
        if let Some(extra) = present.first() {
            bail!("{extra} is not listed in {SUMS}");
        }
        Ok(format!("{} files", listed.len() + 1))
    }

    /// The files that `SHA256SUMS` lists, and their checksums.
    fn listed(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let bytes = open::read(&self.root.join(SUMS), MOST_BYTES).context(SUMS)?;
        let text = String::from_utf8(bytes).context(SUMS)?;
        let mut listed = BTreeMap::new();
        for line in text.lines() {
            let (sum, name) = line
                .split_once("  ")
                .with_context(|| format!("{SUMS}: '{line}' is no checksum"))?;
            ensure!(
                listed.insert(name.to_owned(), sum.to_owned()).is_none(),
                "{SUMS} lists {name} twice"
            );
        }
        Ok(listed)
    }

    /// Where a file is that the manifest names.
    fn named(&self, name: &str) -> anyhow::Result<PathBuf> {
        ensure!(
            self.listed()?.contains_key(name),
            "manifest.json names {name}, which is not listed in {SUMS}"
        );
        Ok(self.root.join(name))
    }

    /// The results by order and size, from `tables/sizes.csv`. Theory knows how many graphs there
    /// are; of a class, how many of them are connected.
    fn results(&self) -> anyhow::Result<Vec<OrderResult>> {
        let name = "tables/sizes.csv";
        let rows = self.csv(name)?;
        let rows: Vec<Row> =
            rows.into_iter().map(|cells| Row { about: self.about(), cells }).collect();
        let places: Vec<(usize, usize)> =
            rows.iter().map(Row::place).collect::<Result<_, _>>().context(name)?;
        // Of a class there is a row for each number of edges that a graph of it has.
        let rows_of = |order: usize| match self.class() {
            Class::All => pairs(order) + 1,
            class => {
                let found = places.iter().filter(|place| place.0 == order).count();
                found.clamp(1, class.most_edges(order) + 1)
            }
        };
        let expected =
            self.orders().flat_map(|order| (0..rows_of(order)).map(move |size| (order, size)));
        ensure!(places.iter().copied().eq(expected), "{name}: rows are missing, or out of order");
        let mut results: Vec<OrderResult> =
            self.orders().map(|order| OrderResult { order, by_size: Vec::new() }).collect();
        for (row, (order, _)) in rows.iter().zip(places) {
            let statistics = row.statistics().context(name)?;
            let digest = row.cell("digest").context(name)?;
            results[order - 1].by_size.push(Summary { statistics, digest });
        }
        for result in &mut results {
            result.by_size.resize(pairs(result.order) + 1, Summary::default());
            let by_size = result.by_size.iter().map(|summary| &summary.statistics);
            checks::check_order(self.class(), result.order, by_size).context(name)?;
            if self.class() != Class::All {
                let sum = result.total().statistics;
                checks::check_known(self.about(), self.class(), result.order, &sum)
                    .context(name)?;
            }
        }
        for last in 1..=results.len() {
            checks::check_connected(self.class(), &results[..last]).context(name)?;
        }
        Ok(results)
    }

    /// The tables that a bundle of this format has. There may be no other, as nobody would look
    /// into it.
    fn kinds(&self) -> anyhow::Result<Vec<TableKind>> {
        let (listed, format) = (self.listed()?, self.manifest.bundle_format);
        let mut kinds = Vec::new();
        for &kind in TableKind::ALL {
            let name = format!("tables/{}.csv", kind.name());
            if kind.since_bundle_format().is_some_and(|first| first <= format) {
                kinds.push(kind);
            } else {
                ensure!(!listed.contains_key(&name), "{name} is none of bundle format {format}");
            }
        }
        Ok(kinds)
    }

    /// Where files are that say something of orders, there is none that nobody looks into.
    fn names(&self) -> anyhow::Result<()> {
        let of_table =
            |kind: TableKind| TABLE_FORMATS.map(|(_, extension)| table_file(kind, extension));
        let of_sequence = |sequence: &Sequence| {
            [false, true].map(|by_size| format!("bfiles/{}", sequence.file_name(by_size)))
        };
        let of_order = |entry: &OrderEntry| {
            [Some(entry.shard_file.clone()), entry.p1_win_list.file.clone()].into_iter().flatten()
        };
        let known: HashSet<String> = self
            .kinds()?
            .into_iter()
            .flat_map(of_table)
            .chain(Sequence::ALL.iter().flat_map(of_sequence))
            .chain(self.manifest.orders.iter().flat_map(of_order))
            .chain([ALL_TABLES.to_owned()])
            .collect();
        let says_something = |name: &str| {
            ["tables/", "bfiles/", "shards/", "graphs/"]
                .iter()
                .any(|directory| name.starts_with(directory))
        };
        for name in self.listed()?.into_keys().filter(|name| says_something(name)) {
            ensure!(
                known.contains(&name),
                "{name} is no file of such a bundle: nobody looks into it"
            );
        }
        Ok(())
    }

    /// Whether words that this program writes into a bundle are those of this one: in bundles of
    /// before they may have been others.
    fn is_of_this_format(&self) -> bool {
        self.manifest.bundle_format == BUNDLE_FORMAT
    }

    /// The manifest names the game and the class that the files are about.
    fn subject(&self) -> anyhow::Result<()> {
        let Manifest { title, game, .. } = &self.manifest;
        let about = self.about();
        let right =
            *title == documents::title(about, self.class()) && *game == documents::game(about);
        ensure!(
            right || !self.is_of_this_format(),
            "manifest.json names '{title}' and '{game}', and its files are about something else"
        );
        Ok(())
    }

    /// The table by size agrees with Pólya counting and the mass formula; or, of a class, with what
    /// others have counted, and its connected graphs with all of its graphs. The one by order, the
    /// manifest, and the b-files follow from it; the others add up to it, and say what is possible;
    /// and JSON, Markdown and LaTeX say what CSV says.
    pub fn tables(&self) -> anyhow::Result<String> {
        self.names()?;
        let results = self.results()?;
        for (entry, result) in self.manifest.orders.iter().zip(&results) {
            let Summary { statistics: sum, digest } = result.total();
            ensure!(
                (entry.graphs.into(), entry.p1_wins.into(), entry.digest)
                    == (sum.classes.all.graphs, sum.classes.all.listed, digest),
                "order {}: manifest.json and tables/sizes.csv differ",
                entry.order
            );
        }
        let (about, class) = (self.about(), self.class());
        let by_order = tables::by_order(about, class, &results);
        self.holds(TableKind::Orders, &by_order)?;
        self.shows(&by_order)?;
        self.holds(TableKind::Sizes, &tables::by_size(about, class, &results, None))?;
        if self.kinds()?.contains(&TableKind::Density) {
            self.holds(TableKind::Density, &tables::density(about, class, &results, None))?;
        }
        let mut count = 0;
        let mut sums: Vec<Statistics> =
            results.iter().map(|result| result.total().statistics).collect();
        for kind in self.kinds()? {
            let rows = self.rows(kind.name())?;
            self.adds_up(kind.name(), &rows, &results)?;
            self.json_agrees(kind.name(), &rows)?;
            if kind.is_by_structure() {
                self.holds(kind, &self.by_structure(kind, &rows, &mut sums)?)?;
            }
            count += 1;
        }
        for (order, sum) in (1..).zip(&sums) {
            self.structure(order, sum).with_context(|| format!("tables of order {order}"))?;
        }
        let all = all_tables(self.kinds()?);
        ensure!(
            self.text(ALL_TABLES)? == all,
            "{ALL_TABLES} is not the document that has all tables"
        );
        for sequence in Sequence::ALL {
            for by_size in [false, true] {
                let name = format!("bfiles/{}", sequence.file_name(by_size));
                let text = self.text(&name)?;
                let expected = sequences::b_file(about, class, *sequence, by_size, 1, &results);
                // Of bundles of before words may have changed since.
                let counts = |line: &&str| self.is_of_this_format() || !line.starts_with('#');
                let same = text.lines().filter(counts).eq(expected.lines().filter(counts));
                ensure!(same, "{name} is not what follows from tables/sizes.csv");
                count += 1;
            }
        }
        self.subject()?;
        Ok(format!("{} orders; {count} tables and sequences", results.len()))
    }

    /// The shard files: every degree sequence with its mass, or, of a class that degrees do not
    /// tell, no more than that; adding up to the tables by size, by degrees, and, as far as they
    /// tell, by structure.
    pub fn shards(&self) -> anyhow::Result<String> {
        let results = self.results()?;
        let mut count = 0;
        let kinds = self.kinds()?.into_iter().filter(|kind| kind.is_by_degrees());
        let mut by_degrees: Vec<(TableKind, Vec<_>)> =
            kinds.map(|kind| (kind, Vec::new())).collect();
        let mut structure = Vec::new();
        for (entry, result) in self.manifest.orders.iter().zip(&results) {
            let (mut shards, sums) = self.shards_of_order(entry, result)?;
            count += shards.len();
            tables::leave_empty_out(self.class(), &mut shards);
            for (kind, rows) in &mut by_degrees {
                rows.extend(tables::by_degrees(*kind, entry.order, &shards));
            }
            structure.push((entry, sums.total().statistics.structure));
        }
        for (kind, rows) in by_degrees {
            self.holds(kind, &tables::breakdown(self.about(), self.class(), kind, None, rows))?;
        }
        for (entry, Structure { bipartite, connectivity, .. }) in structure {
            self.has_cell(TableKind::Bipartite, entry, &bipartite, 1)?;
            self.has_cell(TableKind::Connectivity, entry, &connectivity, 2)?;
        }
        Ok(format!("{count} degree sequences"))
    }

    /// What the shard file of an order says of each degree sequence, and what that adds up to by
    /// size, which has to be this result.
    fn shards_of_order(
        &self,
        entry: &OrderEntry,
        result: &OrderResult,
    ) -> anyhow::Result<(Vec<ShardSummary>, OrderResult)> {
        let (n, name) = (entry.order, &entry.shard_file);
        let layout = self.game.layout().on(self.class());
        let plan = Plan::new(layout, n, PlanOptions::default());
        let (file, _) = open::regular(&self.named(name)?).with_context(|| name.clone())?;
        let sequences: Vec<_> = plan.shards.iter().map(|shard| shard.sequence).collect();
        let shards: Vec<ShardSummary> = shards::read(self.about(), self.class(), file, &sequences)
            .with_context(|| name.clone())?;
        let mut by_size = vec![Summary::default(); pairs(n) + 1];
        for (shard, planned) in shards.iter().zip(&plan.shards) {
            let mass = shard.statistics.labelled.all.graphs;
            let (is_possible, not) = match self.class().is_by_degrees() {
                true => (mass == planned.mass, "not"),
                false => (mass <= planned.mass, "more than"),
            };
            ensure!(
                is_possible,
                "{name}: {} has mass {mass}, {not} {}",
                planned.sequence,
                planned.mass
            );
            ensure!(
                fits_together(self.about(), shard),
                "{name}: {}: counts that are impossible together",
                planned.sequence
            );
            by_size[planned.size].add(&shard.statistics, shard.digest);
        }
        for (size, (found, expected)) in by_size.iter().zip(&result.by_size).enumerate() {
            // Not the whole structure follows from degrees.
            let of = |summary: &Summary| {
                let Summary { statistics, digest } = summary;
                (statistics.classes, statistics.labelled, *digest)
            };
            let same = of(found) == of(expected);
            ensure!(same, "{name}: shards with {size} edges do not add up to tables/sizes.csv");
        }
        let (found, said) = (Done::of(&shards), entry.done());
        ensure!(
            found == said && found.replication() == entry.trust.replication,
            "{name}: order {n} was done as {found:?}; manifest.json says {said:?}, and {} \
             computations of each graph",
            entry.trust.replication
        );
        Ok((shards, OrderResult { order: n, by_size }))
    }

    /// A table by structure has, of the graphs of an order with this key, the counts that its shard
    /// file adds up to.
    fn has_cell(
        &self,
        kind: TableKind,
        entry: &OrderEntry,
        cells: &Breakdown,
        key: u64,
    ) -> anyhow::Result<()> {
        let (rows, key_column) = (self.rows(kind.name())?, kind.name());
        let complete = rows.iter().all(|row| row.contains_key(key_column));
        ensure!(complete, "tables/{key_column}.csv has no column {key_column}");
        let is = |row: &BTreeMap<String, String>, column: &str, value: u64| {
            row.get(column).is_some_and(|text| *text == value.to_string())
        };
        let of_order = |row: &&BTreeMap<String, String>| is(row, "order", entry.order as u64);
        let found = rows.iter().filter(of_order).find(|row| is(row, key_column, key));
        let found = found.map_or(Ok([0; 4]), counts)?;
        let Cell { classes, labelled } = cells.get(&key).copied().unwrap_or_default();
        ensure!(
            found == [classes.graphs, classes.listed, labelled.graphs, labelled.listed],
            "tables/{key_column}.csv and {} differ",
            entry.shard_file
        );
        Ok(())
    }

    /// The lists of P1-win graphs: each graph canonical, distinct and of the class, as many of each
    /// size as the tables say, and of each degree sequence as the shard files say, all and connected,
    /// unlabelled and labelled; some searched forward.
    pub fn lists(&self, sample: usize, seed: u64) -> anyhow::Result<String> {
        let results = self.results()?;
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
                let bytes = entry.p1_wins.saturating_mul(graph6::encoded_len(n) as u64 + 1);
                ensure!(
                    entry.p1_win_list.bytes == bytes,
                    "order {n}: the list has {} bytes by manifest.json, and would have {bytes}",
                    entry.p1_win_list.bytes
                );
                described += 1;
                continue;
            };
            ensure!(named.insert(name), "two orders name the list {name}");
            let list = CheckedList::read(&self.named(name)?, self.class(), sample, seed)?;
            ensure!(
                list.graphs() == 0 || list.order == n,
                "{name} has graphs of order {}",
                list.order
            );
            ensure!(
                (list.graphs(), list.bytes, &list.sha256)
                    == (entry.p1_wins.into(), entry.p1_win_list.bytes, &entry.p1_win_list.sha256),
                "{name} has {} graphs, {} bytes, SHA-256 {}; the manifest says otherwise",
                list.graphs(),
                list.bytes,
                list.sha256
            );
            for (size, (found, Summary { statistics, .. })) in
                list.by_size.iter().zip(&results[n - 1].by_size).enumerate()
            {
                let expected = Wins::of(statistics);
                ensure!(
                    *found == expected,
                    "{name}: {found:?} of {size} edges, tables/sizes.csv has {expected:?}"
                );
            }
            for shard in self.shards_of_order(entry, &results[n - 1])?.0 {
                let found = list.by_degrees.get(&shard.sequence).copied().unwrap_or_default();
                let expected = Wins::of(&shard.statistics);
                ensure!(
                    found == expected,
                    "{name}: {found:?} with degrees {}, {} has {expected:?}",
                    shard.sequence,
                    entry.shard_file
                );
            }
            searched += list.search(self.game)?;
            graphs += list.graphs();
        }
        Ok(format!(
            "{graphs} graphs, {searched} of them searched forward; {described} lists are only \
             described"
        ))
    }

    /// The rows of a CSV file.
    fn csv(&self, name: &str) -> anyhow::Result<TextRows> {
        let read = || -> anyhow::Result<TextRows> {
            let (file, _) = open::regular(&self.root.join(name))?;
            let rows: Result<TextRows, csv::Error> =
                csv::Reader::from_reader(file).into_deserialize().collect();
            // Its own error does not tell what the system said.
            rows.map_err(|error| match (error.to_string(), error.into_kind()) {
                (_, csv::ErrorKind::Io(error)) => error.into(),
                (text, _) => anyhow::Error::msg(text),
            })
        };
        read().with_context(|| name.to_owned())
    }

    fn rows(&self, table: &str) -> anyhow::Result<TextRows> {
        let name = format!("tables/{table}.csv");
        let rows = self.csv(&name)?;
        let complete = |row: &BTreeMap<String, String>| {
            COUNTS.iter().chain(&["order"]).all(|name| row.contains_key(*name))
        };
        ensure!(rows.iter().all(complete), "{name}: columns are missing");
        let class = (self.class() != Class::All).then(|| self.class().to_string());
        let of_class = rows.iter().all(|row| row.get("class") == class.as_ref());
        ensure!(of_class, "{name} is about another class of graphs than manifest.json says");
        Ok(rows)
    }

    /// That what tables say of an order by properties of graphs is possible together, and agrees
    /// with what others have counted.
    fn structure(&self, order: usize, sum: &Statistics) -> anyhow::Result<()> {
        ensure!(
            sum.is_consistent(self.about()),
            "they do not add up to all graphs, and those by connectivity to connected ones"
        );
        let Structure { bipartite, connectivity, automorphisms, .. } = &sum.structure;
        let last = |cells: &Breakdown| cells.keys().last().copied().unwrap_or(0);
        ensure!(last(bipartite) <= 1 && last(connectivity) <= 2, "there is no such property");
        // Each class is counted n!/|Aut| times.
        for (group, Cell { classes, labelled }) in automorphisms {
            for (name, once, weighed) in [
                ("graphs", classes.graphs, labelled.graphs),
                ("wins", classes.listed, labelled.listed),
            ] {
                let all = once.checked_mul(factorial(order).into());
                ensure!(
                    all.is_some() && weighed.checked_mul((*group).into()) == all,
                    "{once} {name} with |Aut| {group} are not {weighed} labelled ones"
                );
            }
        }
        checks::check_known(self.about(), self.class(), order, sum)?;
        Ok(())
    }

    /// A table by something that neither degrees nor numbers of edges tell, from its CSV file: how
    /// its numbers are written follows from them. What it says goes into the sums of orders.
    fn by_structure(
        &self,
        kind: TableKind,
        rows: &TextRows,
        sums: &mut [Statistics],
    ) -> anyhow::Result<Table> {
        let mut orders: BTreeMap<usize, Breakdown> = BTreeMap::new();
        for (number, row) in rows.iter().enumerate() {
            let context = || format!("tables/{}.csv, row {}", kind.name(), number + 1);
            let [graphs, listed, labelled_graphs, labelled_listed] =
                counts(row).with_context(context)?;
            let order = cell(row, "order").with_context(context)?;
            let key = cell(row, kind.name()).with_context(context)?;
            let cell = Cell {
                classes: Counts { graphs, listed },
                labelled: Counts { graphs: labelled_graphs, listed: labelled_listed },
            };
            let earlier = orders.entry(order).or_default().insert(key, cell);
            ensure!(earlier.is_none(), "{}: there is another row like it", context());
        }
        let rows =
            orders.iter().flat_map(|(&order, cells)| tables::by_structure(kind, order, cells));
        let table = tables::breakdown(self.about(), self.class(), kind, None, rows.collect());
        for (order, cells) in orders {
            *tables::cells(kind, &mut sums[order - 1].structure) = cells;
        }
        Ok(table)
    }

    /// The CSV file of a table has these rows, in the columns that the table has, and its other files
    /// say the same.
    fn holds(&self, kind: TableKind, table: &Table) -> anyhow::Result<()> {
        let table = &tables::of_class(table.clone(), self.class());
        let rows = self.rows(kind.name())?;
        ensure!(
            rows.len() == table.rows.len(),
            "tables/{}.csv: {} rows, not {}",
            kind.name(),
            rows.len(),
            table.rows.len()
        );
        for (number, (found, expected)) in rows.iter().zip(&table.rows).enumerate() {
            for (column, value) in table.columns.iter().zip(expected) {
                let (found, expected) = (found.get(&column.name), value.plain());
                ensure!(
                    found == Some(&expected),
                    "tables/{}.csv: {} in row {} is {}, which should be {expected}",
                    kind.name(),
                    column.name,
                    number + 1,
                    found.map_or("missing", |text| text)
                );
            }
        }
        self.is_written(kind, table)
    }

    /// The files of a table are those that are made of it, line by line.
    fn is_written(&self, kind: TableKind, table: &Table) -> anyhow::Result<()> {
        for (format, extension) in TABLE_FORMATS {
            let lines_of = match format {
                TableFormat::Markdown | TableFormat::Latex => folded,
                _ => |text: &str| text.split('\n').map(str::to_owned).collect(),
            };
            let name = table_file(kind, extension);
            let expected = lines_of(&String::from_utf8(formats::render(table, format)?)?);
            let found = lines_of(&self.text(&name)?);
            let differs = |at: &usize| found.get(*at) != expected.get(*at);
            if let Some(at) = (0..found.len().max(expected.len())).find(differs) {
                let line = |lines: &[String]| match lines.get(at) {
                    Some(line) => format!("'{line}'"),
                    None => "nothing".to_owned(),
                };
                let what = match format {
                    TableFormat::Csv => name,
                    _ => format!("{name} and tables/{}.csv differ", kind.name()),
                };
                bail!(
                    "{what}: in line {} there is {} where {} should be",
                    at + 1,
                    line(&found),
                    line(&expected)
                );
            }
        }
        Ok(())
    }

    /// The rows of the JSON file of a table say what its CSV file says, which is held against shard
    /// files only where these are read.
    fn json_agrees(&self, table: &str, rows: &TextRows) -> anyhow::Result<()> {
        #[derive(Deserialize)]
        struct Json {
            rows: Vec<BTreeMap<String, serde_json::Value>>,
        }
        let name = format!("tables/{table}.json");
        let json: Json = serde_json::from_str(&self.text(&name)?).with_context(|| name.clone())?;
        let same = |cell: &serde_json::Value, text: &String| match cell {
            serde_json::Value::Null => text.is_empty(),
            serde_json::Value::String(cell) => cell == text,
            // Shares lose their last zeros.
            serde_json::Value::Number(cell) if cell.is_f64() => cell.as_f64() == text.parse().ok(),
            serde_json::Value::Number(cell) => text.parse().ok().as_ref() == Some(cell),
            _ => false,
        };
        let same_row =
            |(cells, texts): (&BTreeMap<String, serde_json::Value>, &BTreeMap<String, String>)| {
                cells.keys().eq(texts.keys())
                    && cells.values().zip(texts.values()).all(|(cell, text)| same(cell, text))
            };
        let agrees = json.rows.len() == rows.len() && json.rows.iter().zip(rows).all(same_row);
        ensure!(agrees, "{name} and tables/{table}.csv differ");
        Ok(())
    }

    /// The first table of `README.md` is the one by order, with its caption and nothing behind it;
    /// and those of lists and of trust, without a row more, are what the manifest says.
    fn shows(&self, by_order: &Table) -> anyhow::Result<()> {
        let [found, expected] =
            [self.text("README.md")?, formats::markdown(by_order)].map(|text| folded(&text));
        let first_row = |lines: &[String]| lines.iter().position(|line| line.starts_with('|'));
        let [begin, before] = [&found, &expected].map(|lines| first_row(lines));
        let shown = begin.zip(before).and_then(|(begin, before)| {
            found.get(begin.checked_sub(before)?..)?.get(..expected.len())
        });
        ensure!(
            shown == Some(&expected),
            "the first table of README.md is not that of tables/orders.csv"
        );
        let orders = &self.manifest.orders;
        for (what, table) in [
            ("lists of P1-win graphs", documents::lists(orders)),
            ("second computations and records derived again", documents::trust(orders)),
        ] {
            let table = folded(&table);
            ensure!(
                found.windows(table.len()).any(|lines| lines == table),
                "README.md: the table of {what} is not what manifest.json says"
            );
        }
        Ok(())
    }

    /// What stands in a file.
    fn text(&self, name: &str) -> anyhow::Result<String> {
        fs::read_to_string(self.root.join(name)).with_context(|| name.to_owned())
    }

    /// Wins add up to graphs and to shares in each row, and rows to orders.
    fn adds_up(
        &self,
        table: &str,
        rows: &TextRows,
        results: &[OrderResult],
    ) -> anyhow::Result<()> {
        let mut sums = vec![[0u128; 4]; results.len()];
        for (number, row) in rows.iter().enumerate() {
            let context = || format!("tables/{table}.csv, row {}", number + 1);
            let counts = counts(row).with_context(context)?;
            for (prefix, [graphs, p1_wins]) in
                [("", [counts[0], counts[1]]), ("labelled_", [counts[2], counts[3]])]
            {
                let p2_wins = graphs.checked_sub(p1_wins).with_context(context)?;
                let expected = [
                    ("p2_wins", p2_wins.to_string()),
                    ("p1_share", decimal(p1_wins, graphs, SHARE_DIGITS).unwrap_or_default()),
                    ("p2_share", decimal(p2_wins, graphs, SHARE_DIGITS).unwrap_or_default()),
                ];
                for (name, expected) in expected {
                    let right = row.get(&format!("{prefix}{name}")) == Some(&expected);
                    ensure!(
                        right,
                        "{}: {prefix}{name} is not what follows from {prefix}graphs and \
                         {prefix}p1_wins",
                        context()
                    );
                }
            }
            let order = row.get("order").and_then(|text| text.parse::<usize>().ok());
            let sum = order.and_then(|order| sums.get_mut(order.checked_sub(1)?));
            let sum =
                sum.with_context(|| format!("{}: its order is not one of the bundle", context()))?;
            for (sum, count) in sum.iter_mut().zip(counts) {
                *sum = sum.checked_add(count).with_context(context)?;
            }
        }
        for (result, found) in results.iter().zip(sums) {
            let Statistics { classes, labelled, .. } = result.total().statistics;
            let expected =
                [classes.all.graphs, classes.all.listed, labelled.all.graphs, labelled.all.listed];
            ensure!(
                found == expected,
                "tables/{table}.csv: order {} adds up to {found:?} graphs and P1-wins, \
                 unlabelled and labelled, not {expected:?}",
                result.order
            );
        }
        Ok(())
    }
}

/// Those two files that are read before it is known what they are have no more bytes.
const MOST_BYTES: u64 = 16 << 20;
/// The list of all other files, with their checksums.
const SUMS: &str = "SHA256SUMS";
/// The columns of counts that all tables have.
const COUNTS: [&str; 4] = ["graphs", "p1_wins", "labelled_graphs", "labelled_p1_wins"];

/// The lines of a text with tables for people, which are as wide as the widest cell. The bars of
/// `|Aut|` were not always escaped.
fn folded(text: &str) -> Vec<String> {
    let fold = |line: &str| {
        let line = line.replace("\\|Aut\\|", "|Aut|");
        let mut last = None;
        // Of several blanks or dashes in a row one is left.
        let mut is_more = |c: char| last.replace(c) == Some(c) && " -".contains(c);
        line.chars().filter(|&c| !is_more(c)).collect()
    };
    text.split('\n').map(fold).collect()
}

fn counts(row: &BTreeMap<String, String>) -> anyhow::Result<[u128; 4]> {
    let mut counts = [0; 4];
    for (count, name) in counts.iter_mut().zip(COUNTS) {
        *count = possible(name, cell(row, name)?)?;
    }
    Ok(counts)
}

/// A count, if it is no larger than any can be: sums of hostile numbers may not overflow.
fn possible(name: &str, count: u128) -> anyhow::Result<u128> {
    ensure!(count < TOO_LARGE, "{name} is {count}, which is too many");
    Ok(count)
}

/// Whether what is said of a degree sequence is possible together: no part of its graphs is more than
/// the whole, nor are more parts of the work confirmed than there are.
fn fits_together(about: &About, shard: &ShardSummary) -> bool {
    let others = |counts: &Counts| counts.graphs.checked_sub(counts.listed);
    let is_part = |part: &Counts, whole: &Counts| {
        let others = others(part).zip(others(whole));
        part.listed <= whole.listed && others.is_some_and(|(part, whole)| part <= whole)
    };
    let Statistics { classes, labelled, structure } = &shard.statistics;
    let of = |cells: &Breakdown, key: u64| cells.get(&key).copied().unwrap_or_default();
    let [bipartite, biconnected] = [of(&structure.bipartite, 1), of(&structure.connectivity, 2)];
    let (order, size) = (shard.sequence.order(), shard.sequence.size());
    shard.statistics.is_possible(about, order, size)
        && is_part(&bipartite.classes, &classes.all)
        && is_part(&bipartite.labelled, &labelled.all)
        && is_part(&biconnected.classes, &classes.connected)
        && is_part(&biconnected.labelled, &labelled.connected)
        && shard.parts_confirmed <= shard.parts
}

fn sha256_of(path: &Path) -> std::io::Result<String> {
    let (mut sha256, mut file) =
        (Sha256::new(), BufReader::with_capacity(1 << 20, open::regular(path)?.0));
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

/// The names of all files, which have to be regular ones: what lies elsewhere, or never ends, is
/// no part of a bundle.
fn files_below(root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in WalkDir::new(root).min_depth(1) {
        let entry = entry.map_err(std::io::Error::from);
        let entry = entry.with_context(|| format!("cannot read {}", root.display()))?;
        if !entry.file_type().is_dir() {
            let path = entry.path().strip_prefix(root)?.to_string_lossy().into_owned();
            ensure!(entry.file_type().is_file(), "{path} is no regular file");
            found.insert(path);
        }
    }
    Ok(found)
}
