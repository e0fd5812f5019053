//! `trailtrap sample`: estimates from random graphs, each decided exactly.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{anyhow, ensure};
use clap::Args;
use trailtrap_export::{
    formats::TableFormat,
    output::{check_place, write_file},
    picture::PictureFormat,
};
use trailtrap_shared::{
    game::trail_trap::decide::{MAX_DECIDED_ORDER, METHOD},
    graph::pairs,
    sample::model::Model,
};
use trailtrap_worker::process::limits;

use super::{
    choices::choices,
    coordinator::parse_term,
    run::{parse_order, parse_share},
};
use crate::{
    sample::{FORMAT, MAX_SAMPLES, Parameters, Run, SampleError, check_patience, endgame::Known},
    terminal,
};

/// Estimates how many graphs P1 wins where a census is out of reach: draws random graphs, decides
/// each of them exactly, and prints proportions with 95 % intervals.
///
/// A graph is decided by a search from the empty board down to positions with as few unused edges
/// as a census has done, which says who wins them. Each edge more of the graph makes that 2.4
/// times as long; each edge more of the census almost halves it. So first
///
///   trailtrap census 12 --max-size 18 --data endgame
///
/// and then
///
///   trailtrap sample --order 12 --model gnm:31 --samples 1000 --seed 1 --endgame endgame
///
/// Graphs are drawn from strata: by number of edges and, where there are 32 samples for each on
/// average, by number of vertices of odd degree, which tells much of who wins. What the census has
/// is exact, and the other samples go where they tell most for their cost, by a pilot of up to
/// some 64 graphs with each number of edges. With many edges a graph may take hours: bound them by
/// --sizes, and the estimate says what weight is left out.
///
/// Every verdict is kept (number, graph6, winner, positions visited) in the directory of the run,
/// by stratum. Stop the command as you like: it goes on from the verdicts that are there,
/// and the same parameters give the same files and the same digest, `cat DIR/verdicts/*/* |
/// sha256sum`, on any machine and with any number of threads. Verdicts are written by 32, when all
/// of them are found, and with an endgame each thread works on 128 graphs at once; so stopping
/// loses the work on some hundreds of graphs for each thread.
///
/// Several processes can share a run, on nodes that see its directory: each is the same command,
/// takes units that nobody else has, and waits in the end for what others still have in work; then
/// each prints the same. Any of them may be killed, started again, or come later. What one has in
/// work that is killed on another machine is left alone for the time of --lease.
#[derive(Args)]
pub struct SampleCommand {
    #[command(flatten)]
    drawn: Drawn,
    /// How many graphs to draw
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=MAX_SAMPLES))]
    samples: u64,
    /// Which graphs to draw: the same seed draws the same. As labelled, gnm and gnp draw alike,
    /// estimates of several of them with one seed do not confirm each other
    #[arg(long, value_name = "S")]
    seed: u64,
    /// Where the run is kept; it goes on from there
    #[arg(long, value_name = "DIR", default_value = "trailtrap-sample")]
    output: PathBuf,
    /// How long processes on other machines leave to this one what it has claimed, and this one to
    /// them, when there is no sign of life any more; such as 60 (seconds) or 5min
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = parse_term)]
    lease: Duration,
    /// The format of the table
    #[arg(long, short, value_name = "FORMAT", default_value = "markdown",
          value_parser = choices::<TableFormat>())]
    format: TableFormat,
    /// Print CSV, as with `--format csv`
    #[arg(long, conflicts_with = "format")]
    csv: bool,
    /// Print one JSON object instead of the table, with all that is known of the sample
    #[arg(long, conflicts_with_all = ["format", "csv"])]
    json: bool,
    /// Also draw the proportions, with their intervals; the name ends in .svg, .pdf or .png
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// What is drawn, and how it is decided.
#[derive(Args)]
pub struct Drawn {
    /// The order of the graphs, up to 13 (of 14 `plan sample` extrapolates the cost)
    #[arg(long, value_name = "N", value_parser = parse_order)]
    pub order: usize,
    /// gnm:M (labelled graphs with M edges), gnp or gnp:P (each edge with probability 1/2, or P),
    /// labelled (all labelled graphs alike), unlabelled (all isomorphism classes alike)
    #[arg(long, value_name = "MODEL")]
    pub model: Model,
    /// The data directory of a census of this order, whole or up to a number of edges; without one
    /// every game is searched to its end
    #[arg(long, value_name = "DIR")]
    pub endgame: Option<PathBuf>,
    /// Use the census only up to so many edges [default: as far as it is done]
    #[arg(long, value_name = "EDGES", requires = "endgame")]
    pub endgame_size: Option<usize>,
    /// Leave out graphs with fewer or more edges, unless they are exact [default: all, if none of
    /// them takes more than minutes]
    #[arg(long, value_name = "A..B", value_parser = parse_sizes)]
    pub sizes: Option<[usize; 2]>,
    /// Decide this share of the graphs again: with other labels and an endgame of two edges fewer
    /// (or the same one, if the census has kept no other); without an endgame, by plain forward
    /// search. If the winner is another one, nothing is printed, and the exit code is 1. A run may
    /// go on with another share
    #[arg(long, value_name = "SHARE", default_value = "0.02", value_parser = parse_share)]
    pub recheck: f64,
    /// Threads [default: the processors this process may use]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

impl Drawn {
    /// Whether a graph of the order can have as many edges as are asked for.
    ///
    /// # Errors
    /// [`SampleError::NoGraphs`].
    pub fn check_sizes(&self) -> Result<(), SampleError> {
        match (self.sizes, self.order) {
            (Some([size, _]), order) if size > pairs(order) => {
                Err(SampleError::NoGraphs { order, size })
            }
            _ => Ok(()),
        }
    }
}

/// `A..B`, both included; either may be missing.
fn parse_sizes(text: &str) -> Result<[usize; 2], String> {
    let error = || format!("'{text}' is no range of numbers of edges: write 21..37, 21.. or ..37");
    let (least, most) = text.split_once("..").ok_or_else(error)?;
    let number = |text: &str, other: usize| match text {
        "" => Ok(other),
        _ => text.parse().map_err(|_| error()),
    };
    let sizes = [number(least, 0)?, number(most, usize::MAX)?];
    if sizes[0] <= sizes[1] { Ok(sizes) } else { Err(error()) }
}

impl SampleCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.drawn.check_sizes()?;
        let Drawn { order, model, endgame, endgame_size, sizes, recheck, threads } = self.drawn;
        let plot = self.plot.as_deref().map(|path| match PictureFormat::of(path) {
            Some(format) => Ok((path, format)),
            None => Err(anyhow!(
                "the format of {} is not told by its name: end it in .svg, .pdf or .png",
                path.display()
            )),
        });
        let plot = plot.transpose()?;
        if let Some((path, _)) = plot {
            check_place(path)?;
        }
        ensure!(
            order <= MAX_DECIDED_ORDER,
            "graphs of order {order} cannot be sampled: {MAX_DECIDED_ORDER} is the largest order \
             that there are endgames of"
        );
        let known = endgame.as_ref().map(|data| Known::open(data, order)).transpose()?;
        let size_of = |known: &Known| known.endgame_size(endgame_size);
        let endgame_size = known.as_ref().map(size_of).transpose()?;
        if sizes.is_none() {
            check_patience(order, model, endgame_size)?;
        }
        let exact = known.as_ref().zip(endgame_size);
        let [least, most] = sizes.unwrap_or([0, usize::MAX]);
        let parameters = Parameters {
            format: FORMAT,
            method: METHOD,
            order,
            model,
            samples: self.samples,
            seed: self.seed,
            sizes: [least, most.min(pairs(order))],
            endgame_size,
            endgame_digest: exact
                .and_then(|(known, size)| Some(known.exact(size)?.digest.to_string())),
        };
        let threads = threads.map_or_else(limits::threads, usize::from);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        let run = Run::open(parameters, known.as_ref(), &self.output, self.lease, &pool)?;
        let report = run.estimate(recheck)?;
        terminal::print(&match (self.json, self.csv) {
            (true, _) => report.to_json().into_bytes(),
            (false, true) => report.render(TableFormat::Csv)?,
            (false, false) => report.render(self.format)?,
        })?;
        if let Some((path, format)) = plot {
            let bytes = report.plot().render(format);
            write_file(path, |out| Ok(out.write_all(&bytes)?))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_sizes() {
        assert_eq!(parse_sizes("21..37"), Ok([21, 37]));
        assert_eq!(parse_sizes("21.."), Ok([21, usize::MAX]));
        assert_eq!(parse_sizes("..37"), Ok([0, 37]));
        assert!(["", "5", "7..6", "a..b"].iter().all(|text| parse_sizes(text).is_err()));
    }
}
