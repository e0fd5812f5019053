//! `trailtrap export`: finished orders as tables, sequences, lists, plots and bundles for others
//! to read.
//!
//! Whatever is exported follows from the data directory and the program alone: the same bytes
//! every time.

pub mod archive;
pub mod bundle;
pub mod chart;
pub mod documents;
pub mod formats;
pub mod graphs;
pub mod latex;
pub mod output;
pub mod picture;
pub mod plots;
pub mod sequences;
pub mod shards;
pub mod sheet;
pub mod table;
pub mod tables;

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use trailtrap_census::{
    read::finished::{DataFlag, FinishedError},
    store::StoreError,
};
use trailtrap_shared::graph::degree::DegreeSequence;
use trailtrap_worker::process::{limits::Size, log};

use self::{
    archive::{Archive, Status},
    graphs::{Filter, GraphList},
    output::Output,
    picture::{Picture, PictureFormat},
    sequences::Sequence,
    table::Table,
    tables::{Kind, Orders},
};
use crate::run::parse_order;

/// Why something cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Finished(#[from] FinishedError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "order {order} is not begun here; `trailtrap census {order}{data}` does it, or says why \
         it cannot"
    )]
    NotBegun { order: usize, data: DataFlag },
    #[error(
        "order {order} is not exported, as this is open:\n{alarm}\nLook into it, then `trailtrap \
         alarms --settle {number} --because REASON{data}`"
    )]
    OpenAlarm { order: usize, number: u32, alarm: String, data: DataFlag },
    #[error(
        "order {order} is marked as done, but units of the shard {sequence} are missing: the \
         store is damaged"
    )]
    MissingUnits { order: usize, sequence: DegreeSequence },
    #[error("the shard {sequence} lists slot {slot:#x}, which is no graph: the store is damaged")]
    NoGraph { sequence: DegreeSequence, slot: u64 },
    #[error("cannot write {path}; choose another place for it, or make room there")]
    Target { path: PathBuf, source: io::Error },
    #[error("cannot write to standard output")]
    Write(#[from] io::Error),
    #[error("{0} exists already; name a new directory for the bundle, or move the old one away")]
    Exists(PathBuf),
    #[error(
        "the format of {0} is not told by its name: end it in .svg, .pdf or .png, or say --format"
    )]
    PictureFormat(PathBuf),
    #[error(
        "order {order} {status}, and a list in graph6 has no room for such a note: let the name \
         of {path} say `unfinished`"
    )]
    Unmarked { order: usize, status: Status, path: PathBuf },
    #[error("a number of column {column} takes more than 64 bits")]
    TooLarge { column: String },
    #[error("cannot make a Parquet file")]
    Parquet(#[from] parquet::errors::ParquetError),
}

/// Writes results of finished orders for others to read: tables, sequences, lists, plots, bundles.
///
/// Everything is exact and reproducible byte for byte from the data directory, which is only read
/// and may be in use. Orders that are not finished are refused, and so are those about which an
/// alarm is open. A finished order has passed its checks (numbers of graphs against Pólya
/// counting, the mass formula): no result is recorded before. Tables, shards and lists can be had
/// of such an order with --unfinished, and say that they are; a bundle never.
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
        default_value = "trailtrap-data",
        env = "TRAILTRAP_DATA"
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
/// CSV and JSON have all columns, under names that do not change, and exact integers next to every
/// share; columns that begin with labelled_ count labelled graphs, that is classes with weights
/// n!/|Aut|, which is G(n, 1/2). JSON says what each column means. LaTeX (booktabs, siunitx) and
/// Markdown have fewer columns, and percentages.
#[derive(Args)]
struct TableCommand {
    #[arg(value_enum, value_name = "TABLE")]
    kind: Kind,
    /// The order; without it, all finished orders. `orders` has a row for each order up to N
    #[arg(value_name = "N", value_parser = parse_order)]
    order: Option<usize>,
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value = "markdown")]
    format: Format,
    /// Also take an order in work, as far as its units are recorded, or one about which an alarm
    /// is open: captions say so, and CSV and JSON have one more column, `status`, which is
    /// `finished`, `unfinished` or `disputed`
    #[arg(long)]
    unfinished: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For \input; needs booktabs, siunitx, and for long tables longtable
    Latex,
    /// A document of its own
    LatexDocument,
    Csv,
    Json,
    Markdown,
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
    /// columns, `status`, which is `finished` or `unfinished`, and `parts_recorded`
    #[arg(long)]
    unfinished: bool,
    #[command(flatten)]
    output: Output,
}

/// A sequence as a b-file, the form in which the OEIS takes it.
#[derive(Args)]
struct BfileCommand {
    #[arg(value_enum, value_name = "SEQUENCE")]
    sequence: Sequence,
    /// The last order [default: the last finished one]
    #[arg(value_name = "N", value_parser = parse_order)]
    order: Option<usize>,
    /// Terms by order and number of edges: a triangle, read by rows
    #[arg(long)]
    by_size: bool,
    /// Index of the first term, which is that of order 1
    #[arg(long, value_name = "INDEX", default_value_t = 1, allow_negative_numbers = true)]
    offset: i64,
    #[command(flatten)]
    output: Output,
}

/// The graphs of an order that the first player wins, or some of them, in graph6.
///
/// One a line, in the canonical labels of nauty (those of `nauty-labelg`), sorted by bytes. A file
/// whose name ends in .gz is compressed, reproducibly. Takes about twenty bytes of memory for each
/// graph of the list.
#[derive(Args)]
struct GraphsCommand {
    /// The order
    #[arg(value_name = "N", value_parser = parse_order)]
    order: usize,
    /// Take an order in work as well, as far as its units are recorded; the name of the file has
    /// to say `unfinished`, as graph6 has no room for a note
    #[arg(long)]
    unfinished: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    filter: Filter,
}

/// A plot, one column of print wide (8.6 cm).
///
/// Text is drawn as outlines, so that no reader needs the font.
#[derive(Args)]
struct PlotCommand {
    #[arg(value_enum, value_name = "PLOT")]
    kind: plots::Kind,
    /// The order, or the last one for plots over all orders [default: the last finished one]
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
    /// Draw no more graphs than this
    #[arg(long, value_name = "GRAPHS", default_value_t = 20,
          value_parser = clap::value_parser!(u16).range(1..=200))]
    most: u16,
    #[command(flatten)]
    output: PictureOutput,
    #[command(flatten)]
    filter: Filter,
}

#[derive(Args)]
struct PictureOutput {
    /// Format [default: what the name of the file ends in; svg for standard output]
    #[arg(long, short, value_enum, value_name = "FORMAT")]
    format: Option<PictureFormat>,
    #[command(flatten)]
    output: Output,
}

/// Everything about all finished orders in one new directory, to publish and cite.
///
/// Tables, sequences, lists, plots, and digests, with README, manifest, SHA256SUMS, CITATION.cff
/// and .zenodo.json. Made twice from the same data by the same program, it is the same bytes.
#[derive(Args)]
struct BundleCommand {
    /// The directory to make
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Orders up to this one [default: all finished ones]
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
        let archive = Archive::open(&self.data, self.what.admits_unfinished())?;
        let done = match &self.what {
            What::Table(command) => command.run(&archive),
            What::Shards(command) => command.run(&archive),
            What::Bfile(command) => command.run(&archive),
            What::Graphs(command) => command.run(&archive),
            What::Plot(command) => command.run(&archive),
            What::Drawing(command) => command.run(&archive),
            What::Bundle(command) => command.run(&archive),
        };
        match done {
            // These do not say where.
            Err(
                error @ (ExportError::Finished(_)
                | ExportError::Store(_)
                | ExportError::NotBegun { .. }
                | ExportError::OpenAlarm { .. }
                | ExportError::MissingUnits { .. }
                | ExportError::NoGraph { .. }),
            ) => Err(error).with_context(|| format!("data directory {}", self.data.display())),
            other => Ok(other.map(|()| ExitCode::SUCCESS)?),
        }
    }
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
            (Kind::Orders, last) => Orders::UpTo(last),
            (_, Some(order)) => Orders::One(order),
            (_, None) => Orders::UpTo(None),
        };
        let text = render(&tables::build(archive, self.kind, orders)?, self.format);
        self.output.write(|out| Ok(out.write_all(text.as_bytes())?))
    }
}

fn render(table: &Table, format: Format) -> String {
    match format {
        Format::Latex => latex::fragment(table),
        Format::LatexDocument => latex::document(&latex::fragment(table)),
        Format::Csv => formats::csv(table),
        Format::Json => formats::json(table),
        Format::Markdown => formats::markdown(table),
    }
}

impl ShardsCommand {
    fn run(&self, archive: &Archive) -> Result<(), ExportError> {
        let status = self.unfinished.then(|| archive.status(self.order)).transpose()?;
        let bytes = shards::parquet(&archive.shards(self.order)?, status)?;
        self.output.write(|out| Ok(out.write_all(&bytes)?))
    }
}

impl BfileCommand {
    fn run(&self, archive: &Archive) -> Result<(), ExportError> {
        let results = archive.orders(self.order)?;
        let text = sequences::b_file(self.sequence, self.by_size, self.offset, &results);
        self.output.write(|out| Ok(out.write_all(text.as_bytes())?))
    }
}

impl GraphsCommand {
    fn run(&self, archive: &Archive) -> Result<(), ExportError> {
        let (order, status) = (self.order, archive.status(self.order)?);
        if status != Status::Finished {
            let says_so = |path: &&Path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().contains("unfinished"))
            };
            if let Some(path) = self.output.path().filter(|path| !says_so(path)) {
                return Err(ExportError::Unmarked { order, status, path: path.to_owned() });
            }
            log::say(&format!(
                "trailtrap: order {order} {status}; graphs may be missing from this list"
            ));
        }
        let list = GraphList::read(archive, order, &self.filter)?;
        self.output.write(|out| match self.output.path().is_some_and(is_gzip) {
            true => list.write_gzip(out),
            false => list.write(out),
        })
    }
}

impl PlotCommand {
    fn run(&self, archive: &Archive) -> Result<(), ExportError> {
        self.output.write(|| plots::plot(archive, self.kind, self.order))
    }
}

impl DrawingCommand {
    fn run(&self, archive: &Archive) -> Result<(), ExportError> {
        self.output.write(|| {
            let list = GraphList::read(archive, self.order, &self.filter)?;
            Ok(sheet::sheet(&list, self.order, self.most.into()))
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
        let bytes = draw()?.render(format);
        self.output.write(|out| Ok(out.write_all(&bytes)?))
    }
}

impl BundleCommand {
    fn run(&self, archive: &Archive) -> Result<(), ExportError> {
        bundle::bundle(archive, &self.directory, self.order, self.list_size.0)
    }
}

fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}
