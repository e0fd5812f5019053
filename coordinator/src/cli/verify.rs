//! `trailtrap verify`.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::Args;
use trailtrap_census::store::directory::{DATA_VARIABLE, USUAL_DATA};
use trailtrap_shared::game::GameName;

use super::run::parse_order;
use crate::verify::{Drawing, Verification};

/// Checks a finished order, an exported list of P1-win graphs, or a bundle.
///
/// Of an order, each level does what the levels below it do, and more:
///
///   1 records   every unit is recorded exactly once; Pólya counts, the mass formula and known
///               sequences hold; seconds
///   2 blocks    every block is there, undamaged or mended, with as many entries as its record
///               says; where all blocks of a unit were kept, with the content that was recorded;
///               as long as reading the data
///   3 digests   statistics and public digests follow from the stored graphs and outcomes; each
///               graph is canonical and stands once; about two microseconds for each graph
///   4 samples   graphs drawn at random agree with one step of the recurrence, taken with nauty
///               from the outcomes of their predecessors, and (up to 20 edges) with forward
///               search, which knows no recurrence; all graphs of which a theorem tells the
///               winner do too (Trail Trap on forests, edge geography on bipartite graphs);
///               minutes
///   5 shards    shards drawn at random, generated and solved again, have the same statistics and
///               digests; minutes
///   6 all       level 4's step for every graph, and level 5 for every shard; longer than the
///               census
///
/// How many first moves win is no part of a graph's stored outcomes, nor of the digests: up to
/// level 2 these numbers are only compared with bounds and with their sums. From level 3 on those
/// of each degree sequence are compared with what the stored outcomes of graphs with one edge less
/// tell of them; level 5 counts them again graph by graph in the shards that it draws, level 6 in
/// all. That outcomes are right, and not only counted right, is checked of graphs drawn at random
/// at level 4, of shards drawn at random at level 5, and of everything at level 6.
///
/// Of a list (graph6, plain or gzip): each graph is in nauty's canonical labels, lines are sorted by
/// bytes (`LC_ALL=C sort`) and none stands twice, all graphs are of one order; forward search finds
/// P1-wins among those drawn at random from the graphs with at most 20 edges; and if the order is
/// finished in the data directory, they are all P1-wins of it. Whether a list that has only some of
/// these should have more, it does not say: that is something that could not be checked. So are
/// graphs with more edges that no census knows, and a list without graphs. Of a bundle: checksums;
/// tables, sequences and shard files (CSV, JSON, Markdown, LaTeX, b-files, Parquet) against Pólya
/// counting, the mass formula (of a class of graphs: published counts, connected graphs against all
/// of them, and the mass formula where degrees tell the class), and each other; and from level 2 on
/// its lists, against the tables and shard files.
/// A bundle holds no outcomes: its digests, and its sums over positions and first moves, are only
/// compared with each other. Levels above 2 add nothing there.
///
/// Of an order of which not all was kept (`--keep`), checks that need what was not kept are named
/// and left out. So are checks that the system does not let be made, for want of permission,
/// descriptors, memory, room, or a sound disk: they say nothing about the results.
///
/// Exit code 0: nothing wrong; 1: something is, and standard output says what, or nothing could be
/// checked at all, and standard error says why; 75: nothing wrong was found, but not everything
/// could be checked now.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct VerifyCommand {
    /// An order, a list, or the directory of a bundle [default: all finished orders]
    #[arg(value_name = "N|LIST|BUNDLE")]
    what: Option<OsString>,
    /// The data directory, in use or not
    #[arg(long, value_name = "DIR", default_value = USUAL_DATA, env = DATA_VARIABLE)]
    data: PathBuf,
    /// The game that a list is about [default: that of the data directory, or trail-trap]; orders
    /// and bundles say themselves
    #[arg(long, value_name = "GAME")]
    game: Option<GameName>,
    #[command(flatten)]
    drawing: DrawingArguments,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How much is checked.
#[derive(Args)]
struct DrawingArguments {
    /// How thoroughly, 1 to 6
    #[arg(long, value_name = "LEVEL", default_value_t = 3,
          value_parser = clap::value_parser!(u8).range(1..=6))]
    level: u8,
    /// How many graphs level 4 draws (all, if there are no more), ten at a time from one degree
    /// sequence, and shards level 5: some more than once where there are few; how many graphs of a
    /// list are searched forward
    #[arg(long, value_name = "COUNT", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..))]
    sample: u64,
    /// What the drawing starts from; equal seeds draw equally
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

impl VerifyCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let DrawingArguments { level, sample, seed } = self.drawing;
        let what = self.what.map(|what| {
            let order = parse_order(&what.to_string_lossy());
            (what, order)
        });
        let drawing = Drawing { level, sample, seed };
        Verification { what, game: self.game, data: self.data, drawing, json: self.json }.run()
    }
}
