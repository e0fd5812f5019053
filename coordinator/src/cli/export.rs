//! `trailtrap export`: finished orders for others to read.

use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args, Subcommand};
use trailtrap_census::{
    read::{Watcher, archive::Archive},
    store::directory::{DATA_VARIABLE, USUAL_DATA},
};
use trailtrap_export::{
    ExportError, bundle,
    formats::{TableFormat, render},
    graphs::{Filter, GraphList, Range, YesNo, is_gzip, says_other_format},
    manifest::Program,
    output::{check_place, write_file},
    picture::{Picture, PictureFormat},
    plots,
    sequences::{self, Sequence},
    shards, sheet,
    tables::{self, Orders, TableKind},
};
use trailtrap_shared::{
    class::Class,
    game::GameName,
    graph::{MAX_ORDER, nauty},
};
use trailtrap_worker::process::{limits::Size, log};

use super::{
    choices::choices,
    run::{EXIT_STOPPED, parse_order, stopping},
};
use crate::terminal::{StoppableTerminal, Terminal};

/// The option that all exports to one file have.
#[derive(Args, Clone, Debug)]
struct OutputFile {
    /// Write this file, which appears when it is complete; `-` or nothing: standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl OutputFile {
    /// The file; `None` for standard output.
    fn path(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }

    /// Looks whether it can be written, before what goes there takes its time.
    fn check(&self) -> Result<(), ExportError> {
        self.path().map_or(Ok(()), check_place)
    }

    /// Writes what `fill` writes. A reader of standard output that wants no more is no error.
    fn write(
        &self,
        fill: impl FnOnce(&mut dyn Write) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let Some(path) = self.path() else {
            let mut out = BufWriter::new(io::stdout().lock());
            return match fill(&mut out).and_then(|()| Ok(out.flush()?)) {
                Err(ExportError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    Ok(())
                }
                other => other,
            };
        };
        write_file(path, fill)
    }
}

/// Which graphs are wanted; all of these have to hold. Ranges include both ends.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Filters (ranges: 7, 3..5, ..5, 3..)")]
struct FilterArguments {
    /// Number of edges
    #[arg(long, value_name = "RANGE")]
    edges: Option<Range>,
    /// Minimum degree
    #[arg(long, value_name = "RANGE")]
    min_degree: Option<Range>,
    /// Maximum degree
    #[arg(long, value_name = "RANGE")]
    max_degree: Option<Range>,
    /// Regular graphs, or (`no`) the others
    #[arg(long, value_name = "yes|no", value_parser = choices::<YesNo>(),
          hide_possible_values = true, num_args = 0..=1,
          require_equals = true,
          default_missing_value = "yes")]
    regular: Option<YesNo>,
    /// Connected graphs, or the others
    #[arg(long, value_name = "yes|no", value_parser = choices::<YesNo>(),
          hide_possible_values = true, num_args = 0..=1,
          require_equals = true,
          default_missing_value = "yes")]
    connected: Option<YesNo>,
    /// 2-connected graphs, or the others
    #[arg(long, value_name = "yes|no", value_parser = choices::<YesNo>(),
          hide_possible_values = true, num_args = 0..=1,
          require_equals = true,
          default_missing_value = "yes")]
    biconnected: Option<YesNo>,
    /// Bipartite graphs, or the others
    #[arg(long, value_name = "yes|no", value_parser = choices::<YesNo>(),
          hide_possible_values = true, num_args = 0..=1,
          require_equals = true,
          default_missing_value = "yes")]
    bipartite: Option<YesNo>,
    /// Girth, the length of a shortest cycle; 0 stands for forests
    #[arg(long, value_name = "RANGE")]
    girth: Option<Range>,
    /// Order of the automorphism group
    #[arg(long, value_name = "RANGE")]
    automorphisms: Option<Range>,
}

impl From<&FilterArguments> for Filter {
    fn from(arguments: &FilterArguments) -> Self {
        Filter {
            edges: arguments.edges,
            min_degree: arguments.min_degree,
            max_degree: arguments.max_degree,
            regular: arguments.regular,
            connected: arguments.connected,
            biconnected: arguments.biconnected,
            bipartite: arguments.bipartite,
            girth: arguments.girth,
            automorphisms: arguments.automorphisms,
        }
    }
}

/// Writes results of finished orders for others to read: tables, sequences, lists, plots, bundles.
///
/// Everything is exact and reproducible byte for byte from the data directory, which is only read
/// and may be in use. Orders that are not finished are refused, and so are those about which an
/// alarm is open. A finished order has passed its checks (numbers of graphs against Pólya
/// counting, the mass formula; of a class of graphs, against graphs with one edge less where
/// degrees do not tell the class, and connected graphs against all): no result is recorded before.
/// Tables, shards and lists can be had of such an order with --unfinished, and say that they are; a
/// bundle never.
#[derive(Args)]
#[command(after_help = "Examples:
  trailtrap export table orders --format latex -o orders.tex
  trailtrap export table sizes 10 --format csv
  trailtrap export bfile labelled-p1-wins
  trailtrap export graphs 10 --regular --connected | nauty-countg --d
  trailtrap export graphs 10 -o trailtrap.n10.p1.g6.gz
  trailtrap export plot sizes 10 -o sizes.pdf
  trailtrap export drawing 6 --connected -o sheet.svg
  trailtrap export bundle trailtrap-results")]
pub struct ExportCommand {
    #[command(subcommand)]
    what: What,
    /// The data directory, in use or not
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        default_value = USUAL_DATA,
        env = DATA_VARIABLE
    )]
    data: PathBuf,
}

#[derive(Subcommand)]
enum What {
    Table(TableCommand),
    Shards(ShardsCommand),
    Bfile(BfileCommand),
    Graphs(GraphsCommand),
    Plot(PlotCommand),
    Drawing(DrawingCommand),
    Bundle(BundleCommand),
}

/// A table: for LaTeX, for people, or for programs.
///
/// CSV, JSON and Parquet have all columns, under names that do not change, and exact integers next
/// to every share; columns that begin with labelled_ count labelled graphs, that is classes with
/// weights n!/|Aut|, which is G(n, 1/2). JSON says what each column means. LaTeX (booktabs,
/// siunitx) and Markdown have fewer columns, and percentages.
#[derive(Args)]
struct TableCommand {
    #[arg(value_name = "TABLE", value_parser = choices::<TableKind>())]
    kind: TableKind,
    /// The order; without it, all finished orders, but for tables that look at every graph those
    /// whose graphs were kept. `orders` has a row for each order up to N
    #[arg(value_name = "N", value_parser = parse_order)]
    order: Option<usize>,
    /// [default: as the name of the file ends (.tex, .csv, .json, .parquet, .md, .txt); markdown
    /// if it has no end, and for standard output]
    #[arg(long, short, value_name = "FORMAT", value_parser = choices::<TableFormat>())]
    format: Option<TableFormat>,
    /// Also take an order in work, as far as its units are recorded, or one about which an alarm
    /// is open: captions say so, and CSV, JSON and Parquet have one more column, `status`, which is
    /// `finished`, `unfinished`, `withdrawn` while units of it or below are to be solved again, or
    /// `disputed` (of an order that was done up to a number of edges, `limited`, with that number
    /// in a column `max_size`, whatever is asked for). Tables that look at every graph
    /// (`involutions`, `play-length`, `conditions`) need a finished order
    #[arg(long)]
    unfinished: bool,
    #[command(flatten)]
    output: OutputFile,
}

/// The statistics of every degree sequence of an order, as Parquet.
///
/// One row for each degree sequence: counts, sums, public digest, time, workers. As CSV, with
/// fewer columns: `export table degrees`.
#[derive(Args)]
struct ShardsCommand {
    /// The order
    #[arg(value_name = "N", value_parser = parse_order)]
    order: usize,
    /// Take an order in work as well, as far as its units are recorded; there are two more
    /// columns, `parts_recorded`, and `status`, as tables have it (of an order that was done up to
    /// a number of edges, always, and `max_size`)
    #[arg(long)]
    unfinished: bool,
    #[command(flatten)]
    output: OutputFile,
}

/// A sequence as a b-file, the form in which the OEIS takes it.
#[derive(Args)]
struct BfileCommand {
    #[arg(value_name = "SEQUENCE", value_parser = choices::<Sequence>())]
    sequence: Sequence,
    /// The last order [default: the last before which none is done up to a number of edges only]
    #[arg(value_name = "N", value_parser = parse_order)]
    order: Option<usize>,
    /// Terms by order and number of edges: a triangle, read by rows
    #[arg(long)]
    by_size: bool,
    /// Index of the first term, which is that of order 1
    #[arg(long, value_name = "INDEX", default_value_t = 1, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i64).range(-1_000_000_000..=1_000_000_000))]
    offset: i64,
    #[command(flatten)]
    output: OutputFile,
}

/// The graphs of an order that the first player wins, or some of them, in graph6.
///
/// One a line, in the canonical labels of nauty (those of `nauty-labelg`), sorted by bytes. A file
/// whose name ends in .gz is compressed, reproducibly. Takes thirty to fifty bytes of memory for each
/// graph of the list.
#[derive(Args)]
struct GraphsCommand {
    /// The order
    #[arg(value_name = "N", value_parser = parse_order)]
    order: usize,
    /// Take an order in work as well, as far as its units are recorded; the name of the file has
    /// to say `unfinished`, as graph6 has no room for a note (of an order that was done up to some
    /// number of edges, `limited`)
    #[arg(long)]
    unfinished: bool,
    #[command(flatten)]
    output: OutputFile,
    #[command(flatten)]
    filter: FilterArguments,
}

/// A plot, one column of print wide (8.6 cm).
///
/// Text is drawn as outlines, so that no reader needs the font.
#[derive(Args)]
struct PlotCommand {
    #[arg(value_name = "PLOT", value_parser = choices::<plots::PlotKind>())]
    kind: plots::PlotKind,
    /// The order, or the last one for plots over all orders [default: the last finished one; for
    /// `orders`, `minimum-degree`, `odd-degrees` and `involutions` the last before which none is
    /// done up to a number of edges only, for `involutions` 9 at most]
    #[arg(value_name = "N", value_parser = parse_order)]
    order: Option<usize>,
    #[command(flatten)]
    output: PictureOutput,
}

/// Drawings of P1-win graphs of an order, with a winning first move as an arrow.
///
/// Graphs with the largest automorphism groups come first. Winning moves are found by forward
/// search, for graphs of up to some 22 edges.
#[derive(Args)]
struct DrawingCommand {
    /// The order
    #[arg(value_name = "N", value_parser = parse_order)]
    order: usize,
    /// Draw no more graphs than this, 200 at most
    #[arg(long, value_name = "GRAPHS", default_value_t = 20,
          value_parser = clap::value_parser!(u16).range(1..=200))]
    most: u16,
    #[command(flatten)]
    output: PictureOutput,
    #[command(flatten)]
    filter: FilterArguments,
}

#[derive(Args)]
struct PictureOutput {
    /// Format [default: what the name of the file ends in; svg for standard output]
    #[arg(long, short, value_name = "FORMAT", value_parser = choices::<PictureFormat>())]
    format: Option<PictureFormat>,
    #[command(flatten)]
    output: OutputFile,
}

/// What there is about all complete orders in one new directory, to publish and cite.
///
/// Tables, sequences, lists, plots, and digests, with README, manifest, SHA256SUMS, CITATION.cff
/// and .zenodo.json; but for the tables `degrees` and `odd-degrees-by-size`, which follow from the
/// shard files, and those and the plot that look at every graph. Made twice from the same data by
/// the same program, it is the same bytes.
#[derive(Args)]
struct BundleCommand {
    /// The directory to make
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Orders up to this one [default: all complete ones]
    #[arg(long, value_name = "N", value_parser = parse_order)]
    order: Option<usize>,
    /// Leave out lists of P1-win graphs that take more than this as text; their digests and sizes
    /// are given
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    list_size: Size,
}

impl ExportCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let opened = Archive::open(&self.data, self.what.admits_unfinished());
        let archive = opened.map_err(ExportError::from)?;
        if let Some(withdrawn) = archive.told_of_withdrawn().map_err(ExportError::from)? {
            log::say(&format!("trailtrap: {withdrawn}"));
        }
        let done = match &self.what {
            What::Table(command) => command.run(&archive),
            What::Shards(command) => command.run(&archive),
            What::Bfile(command) => command.run(&archive),
            What::Graphs(command) => command.run(&archive),
            What::Plot(command) => command.run(&archive),
            What::Drawing(command) => command.run(&archive),
            What::Bundle(command) => {
                // Only one that notices a signal takes away what it has written until then.
                let (_runtime, stop) = stopping()?;
                command.run(&archive, &StoppableTerminal(stop))
            }
        };
        match done {
            Err(error @ ExportError::Stopped) => {
                log::say(&format!("trailtrap: {error}"));
                Ok(ExitCode::from(EXIT_STOPPED))
            }
            // These do not say where.
            Err(error @ ExportError::Archive(_)) => {
                Err(error).with_context(|| format!("data directory {}", self.data.display()))
            }
            other => Ok(other.map(|()| ExitCode::SUCCESS)?),
        }
    }
}

/// Says where what is about all graphs of an order, which goes up to order `most`, ends before that,
/// if nobody has said where it should.
fn say_limit(archive: &Archive, last: Option<usize>, most: usize) -> Result<(), ExportError> {
    if last.is_none()
        && let Some(first) = archive.orders(None)?.iter().find(|result| !result.is_complete())
        && first.order <= most
    {
        let (order, max_size) = (first.order, first.max_size());
        log::say(&format!(
            "trailtrap: this goes up to order {}, as order {order} is done up to {max_size} edges \
             only",
            order - 1
        ));
    }
    Ok(())
}

impl What {
    fn admits_unfinished(&self) -> bool {
        match self {
            What::Table(TableCommand { unfinished, .. })
            | What::Shards(ShardsCommand { unfinished, .. })
            | What::Graphs(GraphsCommand { unfinished, .. }) => *unfinished,
            What::Bfile(_) | What::Plot(_) | What::Drawing(_) | What::Bundle(_) => false,
        }
    }
}

impl TableCommand {
    fn run(&self, archive: &Archive) -> Result<(), ExportError> {
        let orders = match (self.kind, self.order) {
            (TableKind::Orders, last) => Orders::UpTo(last),
            (_, Some(order)) => Orders::One(order),
            (_, None) => Orders::UpTo(None),
        };
        let format = match (self.format, self.output.path()) {
            (Some(format), _) => format,
            (None, Some(path)) if path.extension().is_some() => {
                TableFormat::of(path).ok_or_else(|| ExportError::TableFormat(path.to_owned()))?
            }
            (None, _) => TableFormat::Markdown,
        };
        self.output.check()?;
        let bytes = render(&tables::build(archive, self.kind, orders, &Terminal)?, format)?;
        self.output.write(|out| Ok(out.write_all(&bytes)?))
    }
}

impl ShardsCommand {
    fn run(&self, archive: &Archive) -> Result<(), ExportError> {
        let is_other = |path: &&Path| {
            TableFormat::of(path).is_some_and(|named| named != TableFormat::Parquet)
        };
        if let Some(path) = self.output.path().filter(is_other) {
            return Err(ExportError::ShardsFormat(path.to_owned()));
        }
        let status = archive.status(self.order)?;
        let is_told = self.unfinished || !status.is_complete();
        let status = is_told.then_some(status);
        self.output.check()?;
        let bytes = shards::parquet(
            archive.game().about(),
            archive.class(),
            &archive.shards(self.order)?,
            status,
        )?;
        self.output.write(|out| Ok(out.write_all(&bytes)?))
    }
}

impl BfileCommand {
    fn run(&self, archive: &Archive) -> Result<(), ExportError> {
        say_limit(archive, self.order, MAX_ORDER)?;
        let results = archive.complete_orders(self.order)?;
        let text = sequences::b_file(
            archive.game().about(),
            archive.class(),
            self.sequence,
            self.by_size,
            self.offset,
            &results,
        );
        self.output.write(|out| Ok(out.write_all(text.as_bytes())?))
    }
}

impl GraphsCommand {
    fn run(&self, archive: &Archive) -> Result<(), ExportError> {
        if let Some(path) = self.output.path().filter(|path| says_other_format(path)) {
            return Err(ExportError::GraphsFormat(path.to_owned()));
        }
        let (order, status) = (self.order, archive.status(self.order)?);
        let says = |path: &Path, what: &str| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| name.contains(what))
        };
        if archive.game() != GameName::default() {
            log::say(&format!("trailtrap: these are graphs that P1 wins in {}", archive.game()));
        }
        let class = archive.class();
        if class != Class::All {
            let silent = self.output.path().filter(|path| !says(path, &class.file_stem()));
            if let Some(path) = silent {
                return Err(ExportError::Unnamed { class, path: path.to_owned() });
            }
            log::say(&format!("trailtrap: these are {} only", class.title()));
        }
        if !status.is_complete() {
            let silent = self.output.path().filter(|path| !says(path, status.mark()));
            if let Some(path) = silent {
                return Err(ExportError::Unmarked { order, status, path: path.to_owned() });
            }
            log::say(&format!(
                "trailtrap: order {order} {status}; graphs may be missing from this list"
            ));
        }
        self.output.check()?;
        let list = GraphList::read(archive, order, &Filter::from(&self.filter), &Terminal)?;
        self.output.write(|out| match self.output.path().is_some_and(is_gzip) {
            true => list.write_gzip(out),
            false => list.write(out),
        })
    }
}

impl PlotCommand {
    fn run(&self, archive: &Archive) -> Result<(), ExportError> {
        if self.kind.is_of_complete_orders() {
            say_limit(archive, self.order, self.kind.last_order())?;
        }
        self.output.write(|| plots::plot(archive, self.kind, self.order, &Terminal))
    }
}

impl DrawingCommand {
    fn run(&self, archive: &Archive) -> Result<(), ExportError> {
        self.output.write(|| {
            let list =
                GraphList::read(archive, self.order, &Filter::from(&self.filter), &Terminal)?;
            let order = (self.order, archive.status(self.order)?.max_size);
            sheet::sheet(archive.game(), archive.class(), &list, order, self.most.into())
        })
    }
}

impl PictureOutput {
    fn write(
        &self,
        draw: impl FnOnce() -> Result<Picture, ExportError>,
    ) -> Result<(), ExportError> {
        let format = match (self.format, self.output.path()) {
            (Some(format), _) => format,
            (None, None) => PictureFormat::Svg,
            (None, Some(path)) => PictureFormat::of(path)
                .ok_or_else(|| ExportError::PictureFormat(path.to_owned()))?,
        };
        self.output.check()?;
        let bytes = draw()?.render(format);
        self.output.write(|out| Ok(out.write_all(&bytes)?))
    }
}

impl BundleCommand {
    fn run(&self, archive: &Archive, watcher: &dyn Watcher) -> Result<(), ExportError> {
        let program = Program {
            name: "trailtrap".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("TRAILTRAP_COMMIT").to_owned(),
            compiler: env!("TRAILTRAP_COMPILER").to_owned(),
            nauty: nauty::version(),
        };
        let (directory, last) = (&self.directory, self.order);
        say_limit(archive, last, MAX_ORDER)?;
        bundle::bundle(archive, directory, last, self.list_size.0, program, watcher)
    }
}
