//! Samples: random graphs decided one by one, with a census for the endgame.
//!
//! The numbers of edges are the strata. A pilot of a few graphs in each says where the variance
//! is and what a graph costs; the other graphs are allotted by that, which follows from the
//! verdicts of the pilot alone. All graphs of a stratum are numbered, and ranges of numbers are
//! *units*: each is a file of verdicts, written when it is complete. So a run can be stopped at
//! any time, and the files are the same however that happens.

pub mod endgame;
pub mod report;
mod verdicts;

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::atomic::AtomicU64,
};

use rayon::ThreadPool;
use serde::{Deserialize, Serialize};
use trailtrap_shared::{
    game::trail_trap::decide::{Endgame, METHOD},
    graph::pairs,
    sample::{
        draw::{Drawer, Stream},
        estimate::{Pilot, allot},
        model::Model,
    },
};
use trailtrap_worker::process::{limits, limits::Size, log, open, replace::Replacement};

use self::{
    endgame::{Known, LoadError},
    report::{Report, Stratum},
    verdicts::{How, Solver, Unit, UnitWork, Verdict},
};
use crate::terminal::watched;

/// What is sampled, and how. Verdicts and nodes follow from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Version of the files of a run.
    pub format: u32,
    /// Version of the search.
    pub method: u32,
    /// The order.
    pub order: usize,
    /// The model, as it is written.
    pub model: String,
    /// Graphs to draw.
    pub samples: u64,
    /// The seed.
    pub seed: u64,
    /// The least and the largest number of edges that are not left out.
    pub sizes: [usize; 2],
    /// Edges of the endgame's graphs: up to these all is exact.
    pub endgame_size: Option<usize>,
    /// The public digest of the endgame's records.
    pub endgame_digest: Option<String>,
    /// The share of verdicts that is found again in another way.
    pub recheck: f64,
}

/// Version of the files of a run.
pub const FORMAT: u32 = 1;

/// Why there is no estimate.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// No endgame.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The endgame does not fit.
    #[error(
        "the endgame of {size} edges takes {needed}, and {available} are available; \
         `--endgame-size {}` takes less memory and more time", .size - 1
    )]
    Memory {
        /// Edges of its graphs.
        size: usize,
        /// Bytes that it takes.
        needed: Size,
        /// Bytes that there are.
        available: Size,
    },
    /// The model has no such graphs.
    #[error("no graph of order {order} has {size} edges: the most are {}", pairs(*.order))]
    NoGraphs {
        /// The order.
        order: usize,
        /// Edges.
        size: usize,
    },
    /// Too few samples.
    #[error(
        "{samples} samples do not suffice for {strata} numbers of edges: draw more, or bound them by --sizes"
    )]
    TooFew {
        /// Graphs to draw.
        samples: u64,
        /// Numbers of edges.
        strata: usize,
    },
    /// Some graphs would take too long.
    #[error(
        "a graph of order {order} with {most} edges takes some 10^{magnitude} hours{}; \
         `--sizes ..{practical}` leaves out those that take more than minutes, {left_out:.2e} of \
         all (or name the numbers of edges to try them all the same)",
        if *has_endgame { "" } else { " without an endgame" }
    )]
    TooLong {
        /// The order.
        order: usize,
        /// The most edges of a graph that may be drawn.
        most: usize,
        /// About the logarithm of the hours that it takes.
        magnitude: i64,
        /// The most edges of a graph that takes minutes.
        practical: usize,
        /// The weight of the graphs that have more.
        left_out: f64,
        /// Whether there is an endgame.
        has_endgame: bool,
    },
    /// The directory has another run.
    #[error(
        "{} holds a sample with other parameters ({what}); give another --output, or remove it",
        path.display()
    )]
    Other {
        /// The directory.
        path: PathBuf,
        /// What differs.
        what: String,
    },
    /// Another process works on it.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// A file cannot be read or written.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of verdicts holds something else.
    #[error("{} is damaged (line {line}); remove it, and the same command goes on", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// A search came to no verdict.
    #[error("{0}")]
    Search(String),
    /// Two methods disagree.
    #[error(
        "CONTRADICTION: the search says that {first} wins {graph6}, with {how} it says {second}; \
         nothing is estimated. Please report this graph"
    )]
    Contradiction {
        /// The graph.
        graph6: String,
        /// The winner that was found first.
        first: &'static str,
        /// The other one.
        second: &'static str,
        /// The other way.
        how: String,
    },
}

/// Opens a file, or whatever is done, with its name in the error.
fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, SampleError> {
    result.map_err(|source| SampleError::File { path: path.to_owned(), source })
}

/// A run in its directory.
pub struct Run<'a> {
    parameters: Parameters,
    model: Model,
    known: Option<&'a Known>,
    directory: PathBuf,
    pool: &'a ThreadPool,
    drawer: Drawer,
    /// Keeps others out.
    _lock: File,
}

/// Seconds of a core that a graph takes, by experience: so many for one edge more than the
/// endgame, …
const FIRST_SECONDS: f64 = 2.5e-6;
/// … and this factor for each further one.
const GROWTH: f64 = 2.4;
/// A graph that takes longer is not drawn unless people insist.
const PATIENCE_SECONDS: f64 = 600.0;

/// Makes sure that no graph of a model takes hours, where people have not said which they want.
///
/// # Errors
/// Some do; how to leave them out.
pub fn check_patience(
    order: usize,
    model: Model,
    endgame_size: Option<usize>,
) -> Result<(), SampleError> {
    let shares = model.shares(order);
    let above = |size: usize| size.saturating_sub(endgame_size.unwrap_or(0)) as f64;
    let seconds = |size: usize| FIRST_SECONDS * GROWTH.powf(above(size));
    let most = shares.iter().rposition(|&share| share > 0.0).unwrap_or(0);
    if seconds(most) <= PATIENCE_SECONDS {
        return Ok(());
    }
    let practical = (0..most).rfind(|&size| seconds(size) <= PATIENCE_SECONDS).unwrap_or(0);
    Err(SampleError::TooLong {
        order,
        most,
        magnitude: (seconds(most) / 3600.0).log10().round() as i64,
        practical,
        left_out: shares[practical + 1..].iter().sum(),
        has_endgame: endgame_size.is_some(),
    })
}

/// Graphs of a unit, at most.
const UNIT: u64 = 32;
/// Graphs of a pilot, at most.
const PILOT: u64 = 64;

impl<'a> Run<'a> {
    /// Begins a run, or takes one up again.
    ///
    /// # Errors
    /// The parameters fit no graphs, or not the directory.
    pub fn open(
        parameters: Parameters,
        model: Model,
        known: Option<&'a Known>,
        directory: &Path,
        pool: &'a ThreadPool,
    ) -> Result<Self, SampleError> {
        let order = parameters.order;
        if let Model::Gnm(size) = model
            && size > pairs(order)
        {
            return Err(SampleError::NoGraphs { order, size });
        }
        at(directory, fs::create_dir_all(directory))?;
        let path = directory.join("LOCK");
        let lock = at(&path, open::lock_file(&path))?;
        lock.try_lock().map_err(|_| SampleError::InUse(directory.to_owned()))?;
        let path = directory.join("parameters.json");
        let text = serde_json::to_string_pretty(&parameters).unwrap_or_default() + "\n";
        if path.exists() {
            let found = at(&path, open::read(&path, 1 << 16))?;
            if found != text.as_bytes() {
                let found = String::from_utf8_lossy(&found).into_owned();
                let other = found.lines().find(|line| !text.lines().any(|own| own == *line));
                let what = other.unwrap_or("they are incomplete").trim().trim_end_matches(',');
                let what = format!("there {what}");
                return Err(SampleError::Other { path: directory.to_owned(), what });
            }
        } else {
            at(&path, Replacement::of(&path).write(text.as_bytes()))?;
        }
        let drawer = Drawer::new(order, model.kind());
        let directory = directory.to_owned();
        Ok(Run { parameters, model, known, directory, pool, drawer, _lock: lock })
    }

    /// Decides what has not been decided yet, and tells what all of it says.
    ///
    /// # Errors
    /// Something cannot be decided, read or written; or two methods disagree.
    pub fn estimate(&self) -> Result<Report, SampleError> {
        let shares = self.model.shares(self.parameters.order);
        let [least, most] = self.parameters.sizes;
        let exact = |size: usize| {
            let known = self.known.filter(|_| self.parameters.endgame_size >= Some(size));
            known.and_then(|known| known.exact(size))
        };
        let sampled: Vec<usize> = (least..=most.min(shares.len() - 1))
            .filter(|&size| shares[size] > 0.0 && exact(size).is_none())
            .collect();
        let (verdicts, rechecked) = self.sampled(&sampled, &shares)?;
        let strata = (0..shares.len()).filter(|&size| shares[size] > 0.0).map(|size| {
            let of_size = sampled.iter().position(|&other| other == size);
            match (exact(size), of_size) {
                (Some(counts), _) => Stratum::exact(size, shares[size], self.model, &counts),
                (None, Some(i)) => Stratum::sampled(size, shares[size], &verdicts[i]),
                (None, None) => Stratum::left_out(size, shares[size]),
            }
        });
        Ok(Report::new(&self.parameters, strata.collect(), &verdicts, rechecked))
    }

    /// The verdicts of all graphs drawn with these numbers of edges, and how many were rechecked.
    fn sampled(
        &self,
        sizes: &[usize],
        shares: &[f64],
    ) -> Result<(Vec<Vec<Verdict>>, u64), SampleError> {
        let (samples, strata) = (self.parameters.samples, sizes.len());
        if strata == 0 {
            return Ok((Vec::new(), 0));
        }
        let first = (samples / (4 * strata as u64)).clamp(1, PILOT);
        if samples < strata as u64 {
            return Err(SampleError::TooFew { samples, strata });
        }
        let pilot: Vec<Unit> = sizes.iter().flat_map(|&size| units(size, 0, first)).collect();
        let mut main = Main { run: self, endgame: None };
        // Before anything is known of the cost, it is taken to grow as usual.
        main.decide(&pilot, "pilot", &|unit| GROWTH.powi(unit.size as i32))?;
        let mut verdicts = Vec::new();
        let mut pilots = Vec::new();
        for &size in sizes {
            let found = self.read(VERDICTS, units(size, 0, first))?;
            pilots.push(Pilot {
                weight: shares[size],
                samples: first,
                wins: found.iter().filter(|verdict| verdict.p1_wins).count() as u64,
                nodes: found.iter().map(|verdict| verdict.nodes).sum(),
            });
            verdicts.push(found);
        }
        let totals = allot(&pilots, samples);
        let rest: Vec<Unit> = sizes
            .iter()
            .zip(&totals)
            .flat_map(|(&size, &total)| units(size, first, total))
            .collect();
        let cost = |unit: &Unit| {
            let place = sizes.iter().position(|&size| size == unit.size);
            place.map_or(1.0, |i| pilots[i].nodes as f64 / first as f64)
        };
        main.decide(&rest, "sample", &cost)?;
        drop(main);
        for (i, &size) in sizes.iter().enumerate() {
            verdicts[i].extend(self.read(VERDICTS, units(size, first, totals[i]))?);
        }
        let all: Vec<Unit> = pilot.into_iter().chain(rest).collect();
        let rechecked = self.recheck(&all, &cost, sizes, &verdicts)?;
        Ok((verdicts, rechecked))
    }

    /// Finds a share of the verdicts again in another way; how many.
    fn recheck(
        &self,
        units: &[Unit],
        cost: &dyn Fn(&Unit) -> f64,
        sizes: &[usize],
        verdicts: &[Vec<Verdict>],
    ) -> Result<u64, SampleError> {
        let Parameters { order, seed, endgame_size, recheck, .. } = self.parameters;
        let is_drawn = |size: usize, index: u64| {
            let names = [seed, order as u64, size as u64, index, RECHECKED];
            Stream::new(&names).happens(recheck)
        };
        let work: Vec<UnitWork> = units
            .iter()
            .map(|&unit| UnitWork {
                unit,
                indices: (unit.from..unit.to).filter(|&i| is_drawn(unit.size, i)).collect(),
            })
            .filter(|work| !work.indices.is_empty())
            .collect();
        let mut missing = self.missing(RECHECKS, &work);
        let smaller = endgame_size.and_then(|size| size.checked_sub(2));
        let words = match smaller {
            Some(size) => format!("an endgame of {size} edges and other labels"),
            None => "plain forward search".to_owned(),
        };
        if !missing.is_empty() {
            let endgame = match (smaller, self.known) {
                (Some(size), Some(known)) => Some(self.load(known, size)?),
                _ => None,
            };
            let how = match &endgame {
                Some(endgame) => How::Relabelled(endgame),
                None => How::Plain,
            };
            self.solve(RECHECKS, &mut missing, how, "recheck", cost)?;
        }
        let mut rechecked = 0;
        for UnitWork { unit, indices } in work {
            let stratum = sizes.iter().position(|&size| size == unit.size);
            let found = self.read_unit(RECHECKS, &unit, &indices)?;
            for verdict in found {
                rechecked += 1;
                let first = stratum.and_then(|i| verdicts[i].get(verdict.index as usize));
                if let Some(first) = first.filter(|first| first.p1_wins != verdict.p1_wins) {
                    return Err(SampleError::Contradiction {
                        graph6: verdict.graph6,
                        first: first.winner(),
                        second: if first.p1_wins { "P2" } else { "P1" },
                        how: words,
                    });
                }
            }
        }
        Ok(rechecked)
    }

    fn load(&self, known: &Known, size: usize) -> Result<Endgame, SampleError> {
        let needed = known.bytes(size);
        let available = limits::available_memory();
        if needed > available {
            let (needed, available) = (Size(needed), Size(available));
            return Err(SampleError::Memory { size, needed, available });
        }
        let order = self.parameters.order;
        log::say(&format!(
            "trailtrap: loading the graphs of order {order} with {size} edges: {}",
            Size(needed)
        ));
        let done = AtomicU64::new(0);
        let load = || self.pool.install(|| known.load(size, &done));
        Ok(watched("endgame", known.work(size), &done, load)?)
    }

    /// Those that have no file yet.
    fn missing(&self, kind: &str, work: &[UnitWork]) -> Vec<UnitWork> {
        let is_missing = |work: &&UnitWork| !work.unit.path(&self.directory.join(kind)).exists();
        work.iter().filter(is_missing).cloned().collect()
    }

    fn solve(
        &self,
        kind: &str,
        work: &mut [UnitWork],
        how: How,
        what: &str,
        cost: &dyn Fn(&Unit) -> f64,
    ) -> Result<(), SampleError> {
        // What takes longest first, so that no thread is left with it.
        work.sort_by_key(|work| (std::cmp::Reverse(work.unit.size), work.unit.from));
        let least = work.iter().map(|work| cost(&work.unit)).fold(f64::MAX, f64::min).max(1.0);
        let cost = |unit: &Unit| (cost(unit) / least).clamp(1.0, 1e12) as u64;
        let costs: Vec<u64> = work.iter().map(|work| cost(&work.unit)).collect();
        let total = work.iter().zip(&costs).map(|(w, cost)| w.indices.len() as u64 * cost).sum();
        let done = AtomicU64::new(0);
        let directory = self.directory.join(kind);
        let solver = Solver {
            drawer: &self.drawer,
            seed: self.parameters.seed,
            directory: &directory,
            work,
            costs: &costs,
            how,
        };
        watched(what, total, &done, || solver.run(self.pool, &done))
    }

    /// The verdicts of units, which are all there.
    fn read(
        &self,
        kind: &str,
        units: impl Iterator<Item = Unit>,
    ) -> Result<Vec<Verdict>, SampleError> {
        let mut verdicts = Vec::new();
        for unit in units {
            let indices: Vec<u64> = (unit.from..unit.to).collect();
            verdicts.extend(self.read_unit(kind, &unit, &indices)?);
        }
        Ok(verdicts)
    }

    fn read_unit(
        &self,
        kind: &str,
        unit: &Unit,
        indices: &[u64],
    ) -> Result<Vec<Verdict>, SampleError> {
        let path = unit.path(&self.directory.join(kind));
        verdicts::read(&path, unit.size, indices, &self.drawer, self.parameters.seed)
    }
}

const VERDICTS: &str = "verdicts";
const RECHECKS: &str = "rechecks";
/// Tells the random numbers that choose what is rechecked from those of graphs.
const RECHECKED: u64 = 0x7265_6368_6563_6b00;

/// The ranges into which the graphs of a stratum from one number to another are split.
fn units(size: usize, from: u64, to: u64) -> impl Iterator<Item = Unit> {
    let starts = (from..to).step_by(UNIT as usize);
    starts.map(move |start| Unit { size, from: start, to: (start + UNIT).min(to) })
}

/// The main search, whose endgame is loaded when it is needed.
struct Main<'a, 'b> {
    run: &'b Run<'a>,
    endgame: Option<Endgame>,
}

impl Main<'_, '_> {
    fn decide(
        &mut self,
        units: &[Unit],
        what: &str,
        cost: &dyn Fn(&Unit) -> f64,
    ) -> Result<(), SampleError> {
        let all = |&unit: &Unit| UnitWork { unit, indices: (unit.from..unit.to).collect() };
        let work: Vec<UnitWork> = units.iter().map(all).collect();
        let mut missing = self.run.missing(VERDICTS, &work);
        if missing.is_empty() {
            return Ok(());
        }
        let size = self.run.parameters.endgame_size;
        if let (None, Some(known), Some(size)) = (&self.endgame, self.run.known, size) {
            self.endgame = Some(self.run.load(known, size)?);
        }
        let how = How::Search(self.endgame.as_ref());
        self.run.solve(VERDICTS, &mut missing, how, what, cost)
    }
}

/// The version of the search, for parameters.
pub fn method() -> u32 {
    METHOD
}
