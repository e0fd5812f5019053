//! `trailtrap plan sample`: what a sample costs, before it is drawn.

use std::{path::Path, process::ExitCode};

use anyhow::ensure;
use clap::Args;
use trailtrap_census::read::status::duration;
use trailtrap_shared::{game::trail_trap::decide::MAX_DECIDED_ORDER, graph::pairs};
use trailtrap_worker::process::limits::{self, Size};

use super::{
    report::{core_hours, line},
    sample::Drawn,
};
use crate::{
    sample::{
        MAX_SAMPLES, SampleError,
        endgame::{Known, LoadError},
        plan::{Forecast, Goal, Question, forecast},
    },
    terminal,
};

/// Tells what `trailtrap sample` will cost: seconds for each number of edges, time, memory, and
/// which interval to expect; or how many samples it takes for an interval that is wanted.
///
/// A calibration decides some graphs for real, those of the pilot of a large run: with several
/// numbers of edges, from the largest endgame that --memory allows and from two smaller ones. What
/// was not decided is extrapolated by the factors that these show, and marked. Samples are allotted
/// as a run allots them, with the graphs of the calibration for a pilot. Without --sizes, numbers of
/// edges whose graphs take hours are left out.
///
///   trailtrap plan sample --order 12 --model labelled --endgame endgame --width 0.15
///
/// What order 14 costs is extrapolated from order 13 or 12, whose census --endgame names, and so is
/// what order 13 costs if it names one of order 12; --endgame-size may then be larger than that.
#[derive(Args)]
pub struct PlanSampleCommand {
    #[command(flatten)]
    drawn: Drawn,
    /// How many graphs to draw
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=MAX_SAMPLES),
          required_unless_present = "width", conflicts_with = "width")]
    samples: Option<u64>,
    /// As many as it takes for a 95 % interval that is expected to have this half-width, in
    /// percentage points, such as 0.15
    #[arg(long, value_name = "POINTS", value_parser = parse_points)]
    width: Option<f64>,
    /// Which graphs the calibration decides
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// So many nodes share the work, each with the endgame in its memory
    #[arg(long, value_name = "NODES", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    nodes: u16,
    /// About the seconds of a core to decide graphs for; with more of them less is extrapolated
    #[arg(long, value_name = "SECONDS", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    calibrate: u32,
    /// The most memory of an endgame that is loaded for the calibration; larger ones are
    /// extrapolated
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: Size,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The largest order that costs are extrapolated to.
const LARGEST_ORDER: usize = 14;

/// Endgames of this order do for larger ones, if there are none of these.
const ORDER_THAT_WILL_DO: usize = 12;

/// The census in a directory of the largest order that will do, of those that searches know.
fn open(data: &Path, order: usize) -> Result<Known, LoadError> {
    let known = Known::open(data, order.min(MAX_DECIDED_ORDER));
    if order <= ORDER_THAT_WILL_DO {
        return known;
    }
    known.or_else(|error| Known::open(data, ORDER_THAT_WILL_DO).map_err(|_| error))
}

/// Percentage points, as a share.
fn parse_points(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(points) if 0.0 < points && points < 100.0 => Ok(points / 100.0),
        _ => Err(format!("'{text}' is no number of percentage points: write 0.15")),
    }
}

impl PlanSampleCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.drawn.check_sizes()?;
        let Drawn { order, model, endgame, endgame_size, sizes, recheck, threads } = self.drawn;
        ensure!(
            order <= LARGEST_ORDER,
            "the cost of order {order} is not extrapolated: {LARGEST_ORDER} is the largest order"
        );
        let known = endgame.as_ref().map(|data| open(data, order)).transpose()?;
        let tried = known.as_ref().map_or(order.min(MAX_DECIDED_ORDER), Known::order);
        if let Some(size) = endgame_size.filter(|&size| size > pairs(order)) {
            return Err(SampleError::NoGraphs { order, size }.into());
        }
        let size_of = |known: &Known| match endgame_size {
            // Of larger orders there is none, and any can be asked about.
            Some(size) if order > tried => Ok(size),
            _ => known.endgame_size(endgame_size),
        };
        let endgame_size = known.as_ref().map(size_of).transpose()?;
        let threads = threads.map_or_else(limits::threads, usize::from);
        let goal = self.width.map(Goal::Width).or(self.samples.map(Goal::Samples));
        let question = Question {
            order,
            tried,
            model,
            seed: self.seed,
            goal: goal.unwrap_or(Goal::Samples(1)),
            sizes,
            endgame_size,
            recheck,
            threads,
            nodes: usize::from(self.nodes),
            seconds: f64::from(self.calibrate),
            memory: self.memory.0.min(limits::available_memory()),
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(limits::threads()).build()?;
        let found = forecast(&question, known.as_ref(), &pool)?;
        terminal::print_as(self.json, &found, || to_text(&found))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn to_text(found: &Forecast) -> String {
    [
        decided_graphs(found),
        cost_of_a_graph(found),
        cost_of_all(found),
        by_size(found),
        other_endgames(found),
    ]
    .concat()
}

/// Seconds of a core for a position or a graph.
fn time(seconds: f64) -> String {
    match seconds {
        0.0..1e-3 => format!("{:.1} µs", seconds * 1e6),
        1e-3..1.0 => format!("{:.1} ms", seconds * 1e3),
        1.0..100.0 => format!("{seconds:.1} s"),
        _ => duration(seconds),
    }
}

/// A share, in percentage points.
fn points(share: f64) -> String {
    format!("{:.3}", 100.0 * share)
}

/// The graphs of the calibration.
fn decided_graphs(found: &Forecast) -> String {
    let endgame = |size: Option<usize>| size.map_or("none".to_owned(), |size| size.to_string());
    let mut text = "measured: graphs that were decided, on one thread\n".to_owned();
    text += "  order  endgame  edges  graphs  P1-win  positions each  time each\n";
    for trial in &found.calibration.trials {
        let nodes: u64 = trial.by_size.values().map(|measured| measured.nodes).sum();
        let position = trial.deciding / nodes.max(1) as f64;
        // The last ones say most, and take most of the time.
        for (size, measured) in trial.by_size.iter().rev().take(4).rev() {
            let each = measured.nodes as f64 / measured.graphs as f64;
            text += &format!(
                "  {:>5}  {:>7}  {size:>5}  {:>6}  {:>6}  {each:>14.3e}  {:>9}\n",
                trial.order,
                endgame(trial.endgame_size),
                measured.graphs,
                measured.p1_wins,
                time(each * position)
            );
        }
    }
    text
}

/// What a graph costs by that, and how much of it is by experience.
fn cost_of_a_graph(found: &Forecast) -> String {
    let between = |what: Option<[usize; 2]>, of: &str| match what {
        Some([from, to]) => format!("measured between {from} and {to} {of}"),
        None => "by experience, not measured".to_owned(),
    };
    let calibration = &found.calibration;
    let cost = &calibration.cost;
    let times = |factor: f64, how: String| format!("× {factor:.2}, {how}");
    let nanoseconds = |seconds: f64, is_measured| {
        let how = if is_measured { "measured" } else { "by experience" };
        format!("{:.0} ns, {how}", seconds * 1e9)
    };
    let position = nanoseconds(calibration.position, calibration.position_measured);
    let mut text = line("a position", position);
    text +=
        &line("an edge more", times(cost.growth, between(calibration.growth_measured, "edges")));
    if found.endgame_size.is_some() {
        let how = between(calibration.decline_measured, "edges");
        text += &line("an edge of the endgame", format!("÷ {:.2}, {how}", cost.decline));
        let loading = nanoseconds(calibration.loading, calibration.loading_measured);
        text += &line("loading a graph of it", loading);
    }
    if found.order > cost.order {
        let how = between(calibration.by_order_measured, "vertices, without an endgame");
        text += &line("a vertex more", times(cost.by_order, how));
    }
    text
}

/// What the sample costs.
fn cost_of_all(found: &Forecast) -> String {
    let cost = &found.calibration.cost;
    let mut text = format!(
        "\norder {}, {}, {}, on {} node{} of {} threads\n",
        found.order,
        found.model,
        match found.endgame_size {
            Some(size) => format!("endgame of {size} edges"),
            None => "without an endgame".to_owned(),
        },
        found.nodes,
        if found.nodes == 1 { "" } else { "s" },
        found.threads
    );
    if found.order > cost.order {
        text += &format!(
            "  everything below is extrapolated from order {}, P1-wins are taken to be as \
             frequent\n  as there, and the endgame to be there\n",
            cost.order
        );
    }
    text += &line("samples", found.samples.to_string());
    text += &line("95 % interval", format!("± {} percentage points", points(found.half_width)));
    if found.left_out > 0.0 {
        let ([least, most], left_out) = (found.sizes, points(found.left_out));
        let by = format!("{left_out} % of the graphs, by --sizes {least}..{most}");
        text += &line("left out", by);
    }
    text += &line("deciding", core_hours(found.core_seconds));
    text += &line("deciding again", core_hours(found.recheck_core_seconds));
    if let Some(bytes) = found.endgame_bytes {
        text += &line("memory of the endgame", Size(bytes).to_string());
        let loading = format!("{} on each node", core_hours(found.loading_core_seconds));
        text += &line("loading endgames", loading);
    }
    text += &line("wall time", duration(found.wall_seconds));
    text
}

/// A table of all numbers of edges.
fn by_size(found: &Forecast) -> String {
    let mut text =
        "\n  edges  % of graphs  % P1-win  samples  time each  core-hours  known\n".to_owned();
    for stratum in &found.strata {
        text += &format!(
            "  {:>5}  {:>11}  {:>8.1}  {:>7}  {:>9}  {:>10.4}  {}\n",
            stratum.size,
            points(stratum.share),
            100.0 * stratum.proportion,
            stratum.samples,
            if stratum.samples == 0 { "-".to_owned() } else { time(stratum.seconds) },
            stratum.core_seconds / 3600.0,
            stratum.status
        );
    }
    text
}

/// A table of what the same samples cost from other endgames, if there are any.
fn other_endgames(found: &Forecast) -> String {
    if found.endgames.is_empty() {
        return String::new();
    }
    let mut text =
        "\nthe same samples from other endgames, without deciding any again; extrapolated\n"
            .to_owned();
    text += "  edges  graphs     memory      loading     deciding           wall time\n";
    for endgame in &found.endgames {
        text += &format!(
            "  {:>5}  {:<9.2e}  {:<10}  {:<10}  {:<17}  {}\n",
            endgame.size,
            endgame.graphs as f64,
            Size(endgame.bytes).to_string(),
            duration(endgame.loading),
            core_hours(endgame.core_seconds),
            duration(endgame.wall_seconds)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentage_points() {
        assert_eq!(parse_points("0.5"), Ok(0.005));
        assert!(["", "0", "-1", "100", "nan", "x"].iter().all(|text| parse_points(text).is_err()));
    }
}
