//! What a sample will cost, from some graphs that are decided for real.
//!
//! A calibration decides the pilot of a large run with a few numbers of edges, from the largest
//! endgame that it may load and from two smaller ones: numbers of positions say by which factors
//! the cost grows with the edges of a graph and falls with those of the endgame, and the time says
//! what a position takes. What was not decided is extrapolated by these factors ([`Cost`]), and
//! marked. Then samples are allotted as a run allots them, with the calibration for its pilot.

use std::collections::BTreeMap;

use rayon::ThreadPool;
use rustix::time::ClockId;
use serde::Serialize;
use trailtrap_shared::{
    game::trail_trap::decide::{Decided, Decider, Endgame, MOST_GRAPHS},
    graph::{pairs, polya::graphs_by_size},
    labelling::batch::Kernel,
    sample::{
        draw::{Drawer, Stratum},
        estimate::{Observed, Pilot, allot, combined},
        model::Model,
        strata::{Drawn, Ways, pilots},
    },
};
use trailtrap_worker::process::limits::Size;

use super::{MAX_SAMPLES, cost::Cost, endgame::Known, error::SampleError, load, strata::Strata};
use crate::machine::core_seconds;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The order.
    pub order: usize,
    /// The order of the graphs that are decided to calibrate: the same, or, where there is no
    /// endgame of it or searches do not go so far, a smaller one, from which all is extrapolated.
    pub tried: usize,
    /// The model.
    pub model: Model,
    /// Which graphs are drawn.
    pub seed: u64,
    /// How many graphs.
    pub goal: Goal,
    /// The least and the largest number of edges that are not left out; `None`: those of which a
    /// graph takes minutes at most.
    pub sizes: Option<[usize; 2]>,
    /// Edges of the endgame's graphs.
    pub endgame_size: Option<usize>,
    /// The share of the graphs that is decided twice.
    pub recheck: f64,
    /// Threads of each node.
    pub threads: usize,
    /// Nodes that share the work, each with the endgame in its memory.
    pub nodes: usize,
    /// About the seconds of a core that graphs are decided for.
    pub seconds: f64,
    /// The most bytes of an endgame that the calibration loads.
    pub memory: u64,
}

/// How many graphs are drawn.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// So many.
    Samples(u64),
    /// As many as it takes for an interval whose half has this width, where 1 is all.
    Width(f64),
}

/// Graphs with one number of edges that were decided.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Measured {
    /// Graphs.
    pub graphs: u64,
    /// Those that P1 wins.
    pub p1_wins: u64,
    /// Positions visited.
    pub nodes: u64,
}

impl Measured {
    fn add(&mut self, other: Measured) {
        self.graphs += other.graphs;
        self.p1_wins += other.p1_wins;
        self.nodes += other.nodes;
    }
}

/// What was decided from one endgame.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// The order of the graphs.
    pub order: usize,
    /// Edges of the endgame's graphs, if there was one.
    pub endgame_size: Option<usize>,
    /// Seconds of a core to load it.
    pub loading: f64,
    /// Seconds of a core to decide the graphs.
    pub deciding: f64,
    /// By number of edges.
    pub by_size: BTreeMap<usize, Measured>,
    /// The same by what the graphs were drawn from, each with its share of those with so many
    /// edges.
    #[serde(skip)]
    by_stratum: BTreeMap<Stratum, (f64, Measured)>,
}

/// What a calibration says.
#[derive(Clone, Debug, Serialize)]
pub struct Calibration {
    /// From the largest endgame first, then from smaller ones, then others.
    pub trials: Vec<Trial>,
    /// What graphs cost by that.
    pub cost: Cost,
    /// Seconds of a core for a position.
    pub position: f64,
    /// Whether that was measured: if no graph was decided, or none needed a search, there is
    /// nothing to measure.
    pub position_measured: bool,
    /// Seconds of a core to load a graph of an endgame.
    pub loading: f64,
    /// Whether that was measured: of few graphs there is nothing to measure.
    pub loading_measured: bool,
    /// Numbers of edges between which `cost.growth` was measured.
    pub growth_measured: Option<[usize; 2]>,
    /// Edges of endgames between which `cost.decline` was measured.
    pub decline_measured: Option<[usize; 2]>,
    /// Orders between which `cost.by_order` was measured.
    pub by_order_measured: Option<[usize; 2]>,
}

/// What is said of one number of edges.
#[derive(Clone, Debug, Serialize)]
pub struct StratumPlan {
    /// The number of edges.
    pub size: usize,
    /// The share of the graphs that have it.
    pub share: f64,
    /// What is known of its cost: `exact` (there is nothing to draw), `measured` or
    /// `extrapolated`.
    pub status: &'static str,
    /// The proportion of P1-wins that is reckoned with: by the census, or by the graphs decided
    /// with this number of edges or the nearest of the same parity.
    pub proportion: f64,
    /// Graphs to draw.
    pub samples: u64,
    /// Positions of a graph.
    pub nodes: f64,
    /// Seconds of a core for a graph.
    pub seconds: f64,
    /// Seconds of a core for all of them, without rechecks.
    pub core_seconds: f64,
}

/// The same samples from another endgame.
#[derive(Clone, Debug, Serialize)]
pub struct EndgamePlan {
    /// Edges of its graphs.
    pub size: usize,
    /// Its graphs.
    pub graphs: u64,
    /// Bytes of memory that it takes.
    pub bytes: u64,
    /// Seconds of a core to load it.
    pub loading: f64,
    /// Seconds of a core to decide the samples, without rechecks.
    pub core_seconds: f64,
    /// Seconds until the run is done.
    pub wall_seconds: f64,
}

/// What a sample will cost.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// The order.
    pub order: usize,
    /// The model.
    pub model: String,
    /// The seed.
    pub seed: u64,
    /// Edges of the endgame's graphs.
    pub endgame_size: Option<usize>,
    /// Bytes of memory that the endgame takes.
    pub endgame_bytes: Option<u64>,
    /// Threads of each node.
    pub threads: usize,
    /// Nodes.
    pub nodes: usize,
    /// What it follows from.
    pub calibration: Calibration,
    /// The least and the largest number of edges that are not left out.
    pub sizes: [usize; 2],
    /// Graphs to draw.
    pub samples: u64,
    /// Half of the 95 % interval to expect for all that is not left out.
    pub half_width: f64,
    /// The share of the graphs that is left out, of which nothing will be known.
    pub left_out: f64,
    /// Seconds of a core to decide the samples.
    pub core_seconds: f64,
    /// Seconds of a core to decide some of them again.
    pub recheck_core_seconds: f64,
    /// Seconds of a core of each node to load endgames.
    pub loading_core_seconds: f64,
    /// Seconds until all is done.
    pub wall_seconds: f64,
    /// By number of edges.
    pub strata: Vec<StratumPlan>,
    /// From other endgames.
    pub endgames: Vec<EndgamePlan>,
}

/// Graphs that are decided with each number of edges: half of what a thread has in work.
const GRAPHS: u64 = 64;
/// Numbers of edges, the largest ones decided, by which growth is measured.
const GROWTH_SIZES: usize = 8;
/// Seconds of a core for a position, by experience.
const POSITION: f64 = 1.5e-7;
/// Seconds of a core to load a graph of an endgame, by experience.
const LOADING: f64 = 5e-7;
/// Of fewer graphs, what loading them takes says nothing of what a graph takes.
const LEAST_LOADED: u64 = 1 << 20;
/// An endgame of fewer edges is not worth telling of.
const LEAST_ENDGAME: usize = 10;

/// Decides some graphs, and says what a sample will cost. `known` is a census of the order that is
/// tried.
///
/// # Errors
/// As those of a run with these parameters; or no number of samples will do.
pub fn forecast(
    question: &Question,
    known: Option<&Known>,
    pool: &ThreadPool,
) -> Result<Forecast, SampleError> {
    let &Question { order, model, endgame_size, recheck, threads, nodes, .. } = question;
    let classes = graphs_by_size(order);
    let strata = Strata::new(order, model, |size| endgame_size >= Some(size))?;
    let most_samples = match question.goal {
        Goal::Samples(samples) => samples,
        Goal::Width(_) => MAX_SAMPLES,
    };
    // What is refused for what it asks is refused before anything is decided.
    if let Some(sizes) = question.sizes {
        strata.clone().within(sizes).check(model, most_samples)?;
    }
    let calibration = calibrate(question, known, pool)?;
    let cost = calibration.cost;
    let most = strata.most();
    // What all graphs take is told if none takes little.
    let least = strata.shares.iter().position(|&share| share > 0.0);
    let practical = cost.practical(order, most, endgame_size).filter(|&size| Some(size) >= least);
    let [least, most] = question.sizes.unwrap_or([0, practical.unwrap_or(most)]);
    let strata = strata.within([least, most]);
    strata.check(model, most_samples)?;
    let drawer = Drawer::new(order, model.kind());
    let ways = Ways::new(&drawer, strata.sizes());
    let outlook = Outlook { question, known, calibration: &calibration, strata, ways };
    let samples = match question.goal {
        Goal::Samples(samples) => samples,
        Goal::Width(width) => outlook.samples_for(width)?,
    };
    let (totals, half_width) = outlook.allotted(samples);
    let strata = outlook.rows(samples, &totals);
    let core_seconds = total(strata.iter().map(|stratum| stratum.core_seconds));
    let other = endgame_size.and_then(|size| Known::other_size(known, size));
    let again = match other {
        Some(_) if other == endgame_size => 1.0,
        Some(_) => cost.decline.powi(2),
        // Plain forward search takes longer than the search without an endgame.
        None => PLAIN,
    };
    let recheck_core_seconds = recheck * again * core_seconds;
    let graphs = |size: Option<usize>| size.map_or(0, |size| classes[size]) as f64;
    let both = graphs(endgame_size) + if recheck > 0.0 { graphs(other) } else { 0.0 };
    let loading_core_seconds = calibration.loading * both;
    // A graph is decided by one thread.
    let wall = |deciding: f64, longest: f64, loading: f64| {
        longest.max(deciding / (threads * nodes) as f64) + loading / threads as f64
    };
    let longest = strata.iter().map(|stratum| stratum.seconds).fold(0.0, f64::max);
    let endgames = (LEAST_ENDGAME..pairs(order) / 2)
        .take_while(|&size| endgame_size.is_some() && classes[size] <= MOST_GRAPHS)
        .map(|size| (size, endgame_bytes(order, classes[size])))
        .map(|(size, bytes)| {
            let seconds = |stratum: &StratumPlan| {
                let [other, this] = [Some(size), endgame_size]
                    .map(|endgame| cost.of(order, stratum.size, endgame));
                stratum.seconds * other / this
            };
            let drawn = || strata.iter().filter(|stratum| stratum.size > size);
            let core_seconds = total(drawn().map(|s| s.samples as f64 * seconds(s)));
            let longest = drawn().map(seconds).fold(0.0, f64::max);
            let loading = calibration.loading * classes[size] as f64;
            EndgamePlan {
                size,
                graphs: classes[size],
                bytes,
                loading,
                core_seconds,
                wall_seconds: wall(core_seconds, longest, loading),
            }
        })
        .collect();
    let left_out = outlook.strata.left_out();
    Ok(Forecast {
        order,
        model: model.to_string(),
        seed: question.seed,
        endgame_size,
        endgame_bytes: endgame_size.map(|size| endgame_bytes(order, classes[size])),
        threads,
        nodes,
        sizes: [least, most.min(pairs(order))],
        samples: totals.iter().sum(),
        half_width,
        left_out,
        core_seconds,
        recheck_core_seconds,
        loading_core_seconds,
        wall_seconds: wall(core_seconds + recheck_core_seconds, longest, loading_core_seconds),
        strata,
        endgames,
        calibration,
    })
}

/// All together; of nothing, `sum` is -0.
fn total(seconds: impl Iterator<Item = f64>) -> f64 {
    seconds.fold(0.0, |total, seconds| total + seconds)
}

/// How much longer plain forward search takes, which remembers less and orders worse.
const PLAIN: f64 = 10.0;

fn endgame_bytes(order: usize, graphs: u64) -> u64 {
    Endgame::bytes(order, graphs as usize) as u64
}

/// What is known before a run.
struct Outlook<'a> {
    question: &'a Question,
    known: Option<&'a Known>,
    calibration: &'a Calibration,
    strata: Strata,
    ways: Ways,
}

impl Outlook<'_> {
    /// What was decided of exactly these graphs, from exactly this endgame.
    fn measured(&self, size: usize) -> Option<&Measured> {
        let Question { order, endgame_size, .. } = *self.question;
        let main = self.calibration.trials.first()?;
        let is_this = main.order == order && main.endgame_size == endgame_size;
        main.by_size.get(&size).filter(|_| is_this)
    }

    /// Seconds of a core for a graph.
    fn seconds(&self, size: usize) -> f64 {
        let Question { order, endgame_size, .. } = *self.question;
        let Calibration { cost, position, .. } = self.calibration;
        match self.measured(size) {
            Some(measured) => measured.nodes as f64 / measured.graphs as f64 * position,
            None => cost.of(order, size, endgame_size),
        }
    }

    /// The proportion of P1-wins with a number of edges up to which the census goes, or will go.
    fn counted(&self, size: usize) -> f64 {
        let known = self.known.filter(|_| self.question.order == self.question.tried);
        match known.and_then(|known| known.exact(size)) {
            Some(counts) => counts.proportion(self.question.model),
            None => self.proportion(Stratum { size, odd: None }),
        }
    }

    /// The proportion of P1-wins to reckon with: by the graphs that were decided of the stratum, or
    /// of those with the nearest numbers of edges, of the same parity if there are any, and with as
    /// many vertices of odd degree.
    fn proportion(&self, stratum: Stratum) -> f64 {
        let Question { order, tried, .. } = *self.question;
        // Of another order, vertices of odd degree do not say the same.
        let is_alike =
            |other: &Stratum| order != tried || stratum.odd.is_none() || other.odd == stratum.odd;
        // From other endgames come the same graphs.
        let mut decided: BTreeMap<Stratum, (f64, Measured)> = BTreeMap::new();
        for trial in self.calibration.trials.iter().filter(|trial| trial.order == tried) {
            for (other, found) in trial.by_stratum.iter().filter(|(other, _)| is_alike(other)) {
                decided.entry(*other).or_insert(*found);
            }
        }
        // Shares, graphs, and shares that P1 wins, by number of edges.
        let mut sizes: BTreeMap<(bool, usize, usize), (f64, u64, f64)> = BTreeMap::new();
        for (other, (share, found)) in decided {
            let is_other = other.size % 2 != stratum.size % 2;
            let place = (is_other, other.size.abs_diff(stratum.size), other.size);
            let (shares, graphs, won) = sizes.entry(place).or_default();
            *shares += share;
            *graphs += found.graphs;
            *won += share * found.p1_wins as f64 / found.graphs as f64;
        }
        let (mut graphs, mut wins) = (0, 0.0);
        let first = sizes.keys().next().copied();
        let Some((is_first_other, nearest, _)) = first else { return 0.5 };
        let enough = if nearest == 0 { 1 } else { GRAPHS };
        for ((is_other, ..), (shares, of_size, won)) in &sizes {
            if graphs < enough && *is_other == is_first_other {
                graphs += of_size;
                wins += *of_size as f64 * won / shares;
            }
        }
        (wins + 0.5) / (graphs + 1) as f64
    }

    /// How so many graphs are allotted, stratum by stratum, and half of the interval to expect.
    fn allotted(&self, samples: u64) -> (Vec<u64>, f64) {
        let Strata { shares, exact, .. } = &self.strata;
        let drawn = self.ways.of(samples);
        let pilot = |(one, first): (&Drawn, u64)| {
            let each = self.seconds(one.stratum.size) / self.calibration.position;
            Pilot {
                weight: if one.classes == 1 { 0.0 } else { one.share },
                samples: first,
                wins: (self.proportion(one.stratum) * first as f64).round() as u64,
                nodes: (each * first as f64) as u64,
            }
        };
        let pilots: Vec<Pilot> = drawn.iter().zip(pilots(drawn, samples)).map(pilot).collect();
        let totals = allot(&pilots, samples);
        let expected = drawn.iter().zip(&totals).map(|(one, &samples)| {
            let p = self.proportion(one.stratum);
            let observed = match one.classes {
                1 => Observed::Exact(p.round()),
                _ => Observed::Sampled { samples, wins: p * samples as f64 },
            };
            (one.share, observed)
        });
        let counted =
            exact.iter().map(|&size| (shares[size], Observed::Exact(self.counted(size))));
        let expected = combined(counted.chain(expected));
        let half_width = expected.map_or(0.0, |expected| (expected.high - expected.low) / 2.0);
        (totals, half_width)
    }

    /// About the fewest graphs for which such an interval is to be expected: its width does not
    /// fall with every graph more, nor where strata are split.
    fn samples_for(&self, width: f64) -> Result<u64, SampleError> {
        let suffice = |samples: u64| self.allotted(samples).1 <= width;
        let (mut least, mut most) = (self.strata.sampled.len() as u64, MAX_SAMPLES);
        if suffice(least) {
            return Ok(least);
        }
        if !suffice(most) {
            return Err(SampleError::Width { samples: most });
        }
        // `least` does not suffice, `most` does.
        while most - least > 1 {
            let middle = least.midpoint(most);
            if suffice(middle) { most = middle } else { least = middle }
        }
        Ok(most)
    }

    /// By number of edges; `totals` has the graphs of each stratum, of so many that were asked for.
    fn rows(&self, samples: u64, totals: &[u64]) -> Vec<StratumPlan> {
        let Strata { shares, exact, sampled, .. } = &self.strata;
        let position = self.calibration.position;
        let exact = exact.iter().map(|&size| StratumPlan {
            size,
            share: shares[size],
            status: "exact",
            proportion: self.counted(size),
            samples: 0,
            nodes: 0.0,
            seconds: 0.0,
            core_seconds: 0.0,
        });
        let drawn = self.ways.of(samples);
        let sampled = sampled.iter().map(|&size| {
            let of_size = drawn.iter().zip(totals).filter(|(one, _)| one.stratum.size == size);
            let (mut samples, mut proportion) = (0, 0.0);
            for (one, &total) in of_size {
                samples += total;
                proportion += one.share / shares[size] * self.proportion(one.stratum);
            }
            let seconds = self.seconds(size);
            let is_measured = self.measured(size).is_some();
            StratumPlan {
                size,
                share: shares[size],
                status: if is_measured { "measured" } else { "extrapolated" },
                proportion,
                samples,
                nodes: seconds / position,
                seconds,
                core_seconds: samples as f64 * seconds,
            }
        });
        let mut rows: Vec<StratumPlan> = exact.chain(sampled).collect();
        rows.sort_by_key(|row| row.size);
        rows
    }
}

/// Decides some graphs from some endgames.
fn calibrate(
    question: &Question,
    known: Option<&Known>,
    pool: &ThreadPool,
) -> Result<Calibration, SampleError> {
    let order = question.tried;
    let mut trials = Vec::new();
    let mut loaded = (0.0, 0);
    match known.zip(question.endgame_size) {
        None => trials.push(trial(question, order, None, None)?),
        Some((known, size)) => {
            let wanted = size.min(known.max_size());
            let bytes = |size: usize| known.bytes_to_load(size, pool.current_num_threads());
            let fits = |size: &usize| bytes(*size) <= question.memory;
            let is_kept = |size: &usize| known.has_outcomes(*size);
            let Some(largest) = (0..=wanted).rev().find(|size| fits(size) && is_kept(size)) else {
                let size = (0..wanted).find(is_kept).unwrap_or(wanted);
                known.check_outcomes(size)?;
                let [needed, allowed] = [bytes(size), question.memory].map(Size);
                return Err(SampleError::Allowed { size, needed, allowed });
            };
            let mut top = None;
            for size in (largest.saturating_sub(2)..=largest).rev().filter(is_kept) {
                let begin = core_seconds(ClockId::ProcessCPUTime);
                let endgame = load(known, size, pool)?;
                let loading = core_seconds(ClockId::ProcessCPUTime) - begin;
                loaded = (loaded.0 + loading, loaded.1 + graphs_by_size(order)[size]);
                let mut trial = trial(question, order, Some(&endgame), top)?;
                trial.loading = loading;
                // From smaller endgames graphs with two edges fewer will do.
                top = top.or_else(|| trial.by_size.keys().last()?.checked_sub(2));
                trials.push(trial);
            }
        }
    }
    let mut calibration = fitted(trials);
    // Of few graphs it says what the directory takes.
    calibration.loading_measured = loaded.1 >= LEAST_LOADED;
    calibration.loading = match calibration.loading_measured {
        true => loaded.0 / loaded.1 as f64,
        false => LOADING,
    };
    if question.order > order {
        let orders = [order - 2, order];
        let [small, large] = orders.map(|order| trial(question, order, None, Some(SPARSE_SIZE)));
        let (small, large) = (small?, large?);
        let nodes = |trial: &Trial| -> f64 {
            let is_in = |of: &Trial, size: &usize| of.by_size.contains_key(size);
            let sizes = trial.by_size.iter();
            let both = sizes.filter(|(size, _)| is_in(&small, size) && is_in(&large, size));
            both.map(|(_, found)| found.nodes as f64).sum()
        };
        calibration.cost.by_order = (nodes(&large) / nodes(&small)).sqrt();
        calibration.by_order_measured = Some(orders);
        calibration.trials.extend([small, large]);
    }
    Ok(calibration)
}

/// The most edges of graphs whose cost is compared between orders.
const SPARSE_SIZE: usize = 24;

/// Decides the first graphs with some numbers of edges on one thread: as far as it should take the
/// time that was asked for, by experience, and no more than `top` edges.
fn trial(
    question: &Question,
    order: usize,
    endgame: Option<&Endgame>,
    top: Option<usize>,
) -> Result<Trial, SampleError> {
    let endgame_size = endgame.map(Endgame::size);
    let classes = graphs_by_size(order);
    // Half of the time for the largest endgame, the rest for the others.
    let mut left = question.seconds / 2.0;
    let seconds = |size| GRAPHS as f64 * Cost::BY_EXPERIENCE.of(order, size, endgame_size);
    let least = endgame_size.map_or(1, |size| size + 1);
    let sizes: Vec<usize> = (least..=top.unwrap_or(usize::MAX).min(pairs(order)))
        .filter(|&size| classes[size] > 1)
        .take_while(|&size| {
            left -= seconds(size);
            left >= 0.0 || size == least
        })
        .collect();
    let drawer = Drawer::new(order, question.model.kind());
    let ways = Ways::new(&drawer, sizes.iter().map(|&size| (size, 1.0)));
    // The pilot of a large run; what takes longest first, as there.
    let drawn = ways.of(u64::MAX);
    let first = pilots(drawn, u64::MAX);
    let mut coming = (drawn.iter().enumerate().zip(first).rev())
        .flat_map(|((number, one), first)| (0..first).map(move |i| (number, one.stratum, i)));
    let mut by_stratum: BTreeMap<Stratum, (f64, Measured)> = BTreeMap::new();
    let begin = core_seconds(ClockId::ThreadCPUTime);
    Decider::new(endgame, Kernel::best())
        .run(
            &mut || {
                let (number, stratum, index) = coming.next()?;
                Some((number as u64, drawer.draw(question.seed, stratum, index)))
            },
            &mut |number, Decided { p1_wins, nodes, .. }| {
                let Drawn { stratum, share, .. } = drawn[number as usize];
                let found = by_stratum.entry(stratum).or_insert((share, Measured::default()));
                found.1.add(Measured { graphs: 1, p1_wins: p1_wins.into(), nodes });
            },
        )
        .map_err(|error| SampleError::Search(format!("{error}; see `trailtrap verify`")))?;
    let deciding = core_seconds(ClockId::ThreadCPUTime) - begin;
    let mut by_size: BTreeMap<usize, Measured> = BTreeMap::new();
    for (stratum, (_, measured)) in &by_stratum {
        by_size.entry(stratum.size).or_default().add(*measured);
    }
    Ok(Trial { order, endgame_size, loading: 0.0, deciding, by_size, by_stratum })
}

/// What trials of one order say, the first of them from the largest endgame.
fn fitted(trials: Vec<Trial>) -> Calibration {
    let main = &trials[0];
    let nodes_of = |trial: &Trial, size: &usize| {
        trial.by_size.get(size).map(|found| found.nodes as f64 / found.graphs as f64)
    };
    let all: f64 = main.by_size.values().map(|found| found.nodes as f64).sum();
    let position_measured = all > 0.0 && main.deciding > 0.0;
    let position = if position_measured { main.deciding / all } else { POSITION };
    let mut cost = Cost::BY_EXPERIENCE;
    if main.endgame_size.is_some() {
        cost.least_endgame = 0;
    }
    // A line through the logarithms, by least squares.
    let mut sizes: Vec<usize> =
        main.by_size.keys().copied().filter(|_| position_measured).collect();
    sizes.drain(..sizes.len().saturating_sub(GROWTH_SIZES));
    let points: Vec<(f64, f64)> = sizes
        .iter()
        .filter_map(|size| Some((*size as f64, nodes_of(main, size)?.max(1.0).ln())))
        .collect();
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count.max(1.0);
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let growth_measured = (spread > 0.0).then(|| [sizes[0], sizes[sizes.len() - 1]]);
    if spread > 0.0 {
        let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / spread;
        cost.growth = slope.exp();
    }
    let mut decline_measured = None;
    if let (Some(largest), Some(last)) = (main.endgame_size, trials.last())
        && let Some(smaller) = last.endgame_size.filter(|&smaller| smaller < largest)
    {
        let shared: Vec<usize> =
            sizes.iter().copied().filter(|size| last.by_size.contains_key(size)).collect();
        let sum = |trial: &Trial| -> f64 {
            shared.iter().filter_map(|size| nodes_of(trial, size)).sum()
        };
        let [from_last, from_main] = [last, main].map(sum);
        if from_last > 0.0 && from_main > 0.0 {
            cost.decline = (from_last / from_main).powf(1.0 / (largest - smaller) as f64);
            decline_measured = Some([smaller, largest]);
        }
    }
    // The formula says what was measured, in the middle of it.
    if position_measured {
        (cost.order, cost.seconds) = (main.order, 1.0);
        let formula =
            |size: f64| cost.of(main.order, 0, main.endgame_size) * cost.growth.powf(size);
        cost.seconds = y.exp() * position / formula(x);
    }
    Calibration {
        cost,
        position,
        position_measured,
        loading: 0.0,
        loading_measured: false,
        growth_measured,
        decline_measured,
        by_order_measured: None,
        trials,
    }
}
