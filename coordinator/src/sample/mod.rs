//! Samples: random graphs decided one by one, with a census for the endgame.
//!
//! Strata are the graphs with one number of edges and, where many are drawn, one number of vertices
//! of odd degree, which tells much of who wins ([`strata`]). A pilot of a few graphs in each says
//! where the variance is and what a graph costs; the other graphs are allotted by that, which
//! follows from the verdicts of the pilot alone. Where there is only one isomorphism class, one
//! graph tells all.
//! All graphs of a stratum are numbered, and ranges of numbers are *units*: each is a file of
//! verdicts, written when it is complete. So a run can be stopped at any time, and the files are
//! the same however that happens; and several processes can share it, each with units of its own
//! ([`Claims`]).

mod claims;
mod cost;
pub mod endgame;
mod error;
mod parameters;
pub mod plan;
mod report;
mod strata;
mod verdicts;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::atomic::AtomicU64,
    time::Duration,
};

use rayon::ThreadPool;
use trailtrap_shared::{
    game::trail_trap::decide::Endgame,
    sample::{
        draw::{Drawer, Stratum, Stream},
        estimate::{Pilot, allot},
        model::Model,
        strata::{Drawn, Ways, pilots},
    },
};
use trailtrap_worker::process::{
    limits::{self, Size},
    log, open,
    replace::{self as replacement, Replacement},
};
use walkdir::WalkDir;

use self::{
    claims::Claims,
    cost::Cost,
    endgame::{ExactCounts, Known},
    error::{at, nothing},
    parameters::PARAMETERS,
    report::{Report, SizeRow},
    strata::Strata,
    verdicts::{How, Solver, Unit, UnitWork, Verdict},
};
pub use self::{
    error::SampleError,
    parameters::{FORMAT, Parameters},
};
use crate::terminal::watched;

/// Begins a run in a directory, unless another process does.
fn begin(directory: &Path, parameters: &Parameters) -> Result<(), SampleError> {
    let path = directory.join(PARAMETERS);
    match check_free(directory) {
        // What was found there has been made since by another process.
        Err(_) if path.exists() => return Ok(()),
        checked => checked?,
    }
    let text = serde_json::to_string_pretty(parameters).unwrap_or_default() + "\n";
    match Replacement::of(&path).unless_there().write(text.as_bytes()) {
        // By another process, which may also have removed what seemed to be left unfinished.
        Err(_) if path.exists() => Ok(()),
        written => at(&path, written),
    }
}

/// Makes sure that there is nothing in a directory but parameters that are being written: what else a
/// run makes comes after them, and who made it would not be known.
fn check_free(directory: &Path) -> Result<(), SampleError> {
    let is_new = |name: &OsString| name.as_encoded_bytes().starts_with(PARAMETERS.as_bytes());
    for entry in at(directory, fs::read_dir(directory))? {
        let name = at(directory, entry)?.file_name();
        if [claims::CLAIMS, VERDICTS, RECHECKS, CHECKSUMS].iter().any(|own| name == *own) {
            return Err(SampleError::Lacking(directory.to_owned()));
        }
        if !is_new(&name) {
            return Err(SampleError::Foreign(directory.to_owned()));
        }
    }
    Ok(())
}

/// A run in its directory.
pub struct Run<'a> {
    parameters: Parameters,
    known: Option<&'a Known>,
    directory: PathBuf,
    pool: &'a ThreadPool,
    drawer: Drawer,
    strata: Strata,
    /// What graphs are drawn from.
    drawn: Vec<Drawn>,
    claims: Claims,
}

/// It is no advice to leave out more than this share of all graphs.
const ALMOST_ALL: f64 = 0.9;

/// Makes sure that no graph of a model takes hours, where people have not said which they want.
///
/// # Errors
/// Some do; how to leave them out. Or there are no such graphs.
pub fn check_patience(
    order: usize,
    model: Model,
    endgame_size: Option<usize>,
) -> Result<(), SampleError> {
    let cost = Cost::BY_EXPERIENCE;
    let strata = Strata::new(order, model, |_| false)?;
    let most = strata.most();
    let Some(practical) = cost.practical(order, most, endgame_size) else { return Ok(()) };
    let left_out = strata.within([0, practical]).left_out();
    Err(SampleError::TooLong {
        order,
        most,
        seconds: cost.of(order, most, endgame_size),
        practical: (left_out <= ALMOST_ALL).then_some((practical, left_out)),
        has_endgame: endgame_size.is_some(),
    })
}

/// Graphs of a run, at most. All verdicts are in memory at its end: some 100 bytes each.
pub const MAX_SAMPLES: u64 = 100_000_000;
/// Graphs of a unit, at most.
const UNIT: u64 = 32;

impl<'a> Run<'a> {
    /// Begins a run, takes one up again, or takes part in one. What this process claims is left to
    /// it for the time of a lease after it has ended without notice.
    ///
    /// # Errors
    /// The parameters fit no graphs, or not the directory.
    pub fn open(
        parameters: Parameters,
        known: Option<&'a Known>,
        directory: &Path,
        lease: Duration,
        pool: &'a ThreadPool,
    ) -> Result<Self, SampleError> {
        let Parameters { order, model, samples, sizes, .. } = parameters;
        let strata = Strata::new(order, model, |size| exact(&parameters, known, size).is_some())?;
        let strata = strata.within(sizes);
        strata.check(model, samples)?;
        let path = directory.join(PARAMETERS);
        if !path.exists() {
            if let (false, Some(known), Some(size)) =
                (strata.sampled.is_empty(), known, parameters.endgame_size)
            {
                known.check_outcomes(size)?;
            }
            at(directory, open::make_directory(directory))?;
            begin(directory, &parameters)?;
        }
        // Of several that begin at once one has written them.
        let text = at(&path, open::read(&path, 1 << 16))?;
        let found = serde_json::from_slice(&text);
        let found: Parameters = found.map_err(|source| SampleError::Unknown { path, source })?;
        let what = parameters.differences(&found);
        if !what.is_empty() {
            // Its census may have gone further since then.
            let asked = parameters.endgame_size;
            let (endgame_size, endgame_digest) =
                (found.endgame_size, found.endgame_digest.clone());
            let with_its = Parameters { endgame_size, endgame_digest, ..parameters };
            let is_endgame = asked.is_some() && with_its.differences(&found).is_empty();
            let endgame_size = endgame_size.filter(|_| is_endgame && endgame_size != asked);
            return Err(SampleError::Other { path: directory.to_owned(), what, endgame_size });
        }
        let claims = Claims::new(directory, lease)?;
        let drawer = Drawer::new(order, model.kind());
        let drawn = Ways::new(&drawer, strata.sizes()).of(samples).to_vec();
        let directory = directory.to_owned();
        Ok(Run { parameters, known, directory, pool, drawer, strata, drawn, claims })
    }

    /// Decides what has not been decided yet, and tells what all of it says. This share of the
    /// verdicts is found again in another way.
    ///
    /// # Errors
    /// Something cannot be decided, read or written; or two methods disagree.
    pub fn estimate(&self, recheck: f64) -> Result<Report, SampleError> {
        let Parameters { model, .. } = self.parameters;
        let (verdicts, rechecked) = self.sampled(recheck)?;
        let shares = &self.strata.shares;
        let possible = (0..shares.len()).filter(|&size| shares[size] > 0.0);
        let strata = possible.map(|size| {
            let share = shares[size];
            let of_size = self.drawn.iter().zip(&verdicts);
            let of_size: Vec<(&Drawn, &[Verdict])> = of_size
                .filter(|(drawn, _)| drawn.stratum.size == size)
                .map(|(drawn, verdicts)| (drawn, &verdicts[..]))
                .collect();
            match exact(&self.parameters, self.known, size) {
                Some(counts) => SizeRow::exact(size, share, model, &counts),
                None if of_size.is_empty() => SizeRow::left_out(size, share),
                None => SizeRow::sampled(size, share, &of_size),
            }
        });
        let report = Report::new(&self.parameters, strata.collect(), &verdicts, rechecked);
        report.ok_or_else(|| nothing(model, shares))
    }

    /// The verdicts of all graphs that are drawn, by stratum, and how many of them were rechecked.
    fn sampled(&self, recheck: f64) -> Result<(Vec<Vec<Verdict>>, u64), SampleError> {
        let samples = self.parameters.samples;
        if self.drawn.is_empty() {
            return Ok((Vec::new(), 0));
        }
        let first = pilots(&self.drawn, samples);
        let pilot: Vec<Unit> = (self.drawn.iter().zip(&first))
            .flat_map(|(drawn, &first)| units(drawn.stratum, 0, first))
            .collect();
        let mut main = Main { run: self, endgame: None };
        // Before anything is known of the cost, it is taken to grow as usual.
        let by_experience =
            |unit: &Unit| Cost::BY_EXPERIENCE.growth.powi(unit.stratum.size as i32);
        main.decide(&pilot, "pilot", &by_experience)?;
        let mut verdicts = Vec::new();
        let mut pilots = Vec::new();
        for (drawn, &first) in self.drawn.iter().zip(&first) {
            let found = self.read(VERDICTS, units(drawn.stratum, 0, first))?;
            pilots.push(Pilot {
                weight: if drawn.classes == 1 { 0.0 } else { drawn.share },
                samples: first,
                wins: found.iter().filter(|verdict| verdict.p1_wins).count() as u64,
                nodes: found.iter().map(|verdict| verdict.nodes).sum(),
            });
            verdicts.push(found);
        }
        let totals = allot(&pilots, samples);
        let rest = |i: usize| units(self.drawn[i].stratum, first[i], totals[i]);
        let main_units: Vec<Unit> = (0..totals.len()).flat_map(rest).collect();
        let cost = |unit: &Unit| {
            let place = self.place_of(unit.stratum);
            place.map_or(1.0, |i| pilots[i].nodes as f64 / pilots[i].samples as f64)
        };
        main.decide(&main_units, "sample", &cost)?;
        drop(main);
        for (i, verdicts) in verdicts.iter_mut().enumerate() {
            verdicts.extend(self.read(VERDICTS, rest(i))?);
        }
        sweep(&self.directory, VERDICTS)?;
        let all: Vec<Unit> = pilot.into_iter().chain(main_units).collect();
        let rechecked = self.recheck(recheck, &all, &cost, &verdicts)?;
        Ok((verdicts, rechecked))
    }

    /// The place of a stratum among those that graphs are drawn from.
    fn place_of(&self, stratum: Stratum) -> Option<usize> {
        self.drawn.iter().position(|drawn| drawn.stratum == stratum)
    }

    /// Finds a share of the verdicts again in another way; how many.
    fn recheck(
        &self,
        share: f64,
        units: &[Unit],
        cost: &dyn Fn(&Unit) -> f64,
        verdicts: &[Vec<Verdict>],
    ) -> Result<u64, SampleError> {
        let Parameters { order, seed, endgame_size, .. } = self.parameters;
        let is_drawn = |stratum: Stratum, index: u64| {
            let names = [seed, order as u64].into_iter().chain(stratum.names());
            Stream::new(names.chain([index, RECHECKED])).happens(share)
        };
        let work: Vec<UnitWork> = units
            .iter()
            .map(|&unit| UnitWork {
                unit,
                indices: (unit.from..unit.to).filter(|&i| is_drawn(unit.stratum, i)).collect(),
            })
            .filter(|work| !work.indices.is_empty())
            .collect();
        // Which graphs a file is about depends on the share.
        let kind = format!("{RECHECKS}/{share:?}");
        let missing = self.missing(&kind, &work);
        let other = self
            .known
            .zip(endgame_size)
            .and_then(|(known, size)| Some((known, Known::other_size(Some(known), size)?)));
        let words = match other {
            Some((_, size)) => format!("an endgame of {size} edges and other labels"),
            None => "plain forward search".to_owned(),
        };
        if !missing.is_empty() {
            let endgame = other.map(|(known, size)| load(known, size, self.pool)).transpose()?;
            let how = match &endgame {
                Some(endgame) => How::Relabelled(endgame),
                None => How::plain(self.pool.current_num_threads()),
            };
            self.solve(&kind, missing, how, "recheck", cost)?;
        }
        sweep(&self.directory, &kind)?;
        let mut rechecked = 0;
        for UnitWork { unit, indices } in work {
            let stratum = self.place_of(unit.stratum);
            let found = self.read_unit(&kind, &unit, &indices)?;
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

    /// Those that have no file yet.
    fn missing(&self, kind: &str, work: &[UnitWork]) -> Vec<UnitWork> {
        let is_missing = |work: &&UnitWork| !work.unit.files(&self.directory, kind).text.exists();
        work.iter().filter(is_missing).cloned().collect()
    }

    /// Decides graphs until there are files of all of them, of which others may write some.
    fn solve(
        &self,
        kind: &str,
        mut work: Vec<UnitWork>,
        how: How,
        what: &str,
        cost: &dyn Fn(&Unit) -> f64,
    ) -> Result<(), SampleError> {
        // What takes longest first, so that no thread is left with it.
        work.sort_by_key(|work| (std::cmp::Reverse(work.unit.stratum), work.unit.from));
        let least = work.iter().map(|work| cost(&work.unit)).fold(f64::MAX, f64::min).max(1.0);
        let cost = |unit: &Unit| (cost(unit) / least).clamp(1.0, 1e12) as u64;
        loop {
            let costs: Vec<u64> = work.iter().map(|work| cost(&work.unit)).collect();
            let total =
                work.iter().zip(&costs).map(|(w, cost)| w.indices.len() as u64 * cost).sum();
            let done = AtomicU64::new(0);
            let solver = Solver {
                drawer: &self.drawer,
                seed: self.parameters.seed,
                directory: &self.directory,
                kind,
                work: &work,
                costs: &costs,
                how,
                claims: &self.claims,
            };
            watched(what, total, &done, || solver.run(self.pool, &done))?;
            work = self.missing(kind, &work);
            if work.is_empty() {
                return Ok(());
            }
            // Others have them in work, until they are done, or until the others are gone.
            std::thread::sleep(self.claims.pause());
        }
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
        let files = unit.files(&self.directory, kind);
        files.read(unit.stratum, indices, &self.drawer, self.parameters.seed)
    }
}

/// Where verdicts are in the directory of a run.
const VERDICTS: &str = "verdicts";
/// Where those of rechecks are, in a directory for each share.
const RECHECKS: &str = "rechecks";
/// Where checksums of both are.
const CHECKSUMS: &str = "checksums";
/// Tells the random numbers that choose what is rechecked from those of graphs.
const RECHECKED: u64 = 0x7265_6368_6563_6b00;

/// The ranges into which the graphs of a stratum from one number to another are split.
fn units(stratum: Stratum, from: u64, to: u64) -> impl Iterator<Item = Unit> {
    let starts = (from..to).step_by(UNIT as usize);
    starts.map(move |start| Unit { stratum, from: start, to: (start + UNIT).min(to) })
}

/// Loads an endgame on all threads, if it fits into the memory that is available.
fn load(known: &Known, size: usize, pool: &ThreadPool) -> Result<Endgame, SampleError> {
    known.check_outcomes(size)?;
    let bytes = |size: usize| known.bytes_to_load(size, pool.current_num_threads());
    let (needed, available) = (bytes(size), limits::available_memory());
    if needed > available {
        let fits = |&size: &usize| bytes(size) <= available;
        let smaller = (0..size).rev().filter(fits).find(|&size| known.has_outcomes(size));
        let (needed, available) = (Size(needed), Size(available));
        return Err(SampleError::Memory { size, smaller, needed, available });
    }
    log::say(&format!(
        "trailtrap: loading the graphs of order {} with {size} edges: {}",
        known.order(),
        Size(known.bytes(size))
    ));
    let done = AtomicU64::new(0);
    let load = || pool.install(|| known.load(size, &done));
    Ok(watched("endgame", known.work(size), &done, load)?)
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
        let missing = self.run.missing(VERDICTS, &work);
        if missing.is_empty() {
            return Ok(());
        }
        let size = self.run.parameters.endgame_size;
        if let (None, Some(known), Some(size)) = (&self.endgame, self.run.known, size) {
            self.endgame = Some(load(known, size, self.run.pool)?);
        }
        let how = How::Search(self.endgame.as_ref());
        self.run.solve(VERDICTS, missing, how, what, cost)
    }
}

/// What a census has counted, as far as the endgame of a run goes.
fn exact(parameters: &Parameters, known: Option<&Known>, size: usize) -> Option<ExactCounts> {
    known.filter(|_| parameters.endgame_size >= Some(size))?.exact(size)
}

/// Removes files that processes that were killed have left unfinished, where all of this kind are
/// there by now.
fn sweep(directory: &Path, kind: &str) -> Result<(), SampleError> {
    at(directory, replacement::sweep(&directory.join(PARAMETERS)))?;
    for kind in [Path::new(kind), &Path::new(CHECKSUMS).join(kind)] {
        let entries = WalkDir::new(directory.join(kind)).into_iter().filter_map(Result::ok);
        for entry in entries.filter(|entry| entry.file_type().is_file()) {
            if replacement::is_unfinished(entry.path()) {
                // Whoever wrote it may have done so meanwhile.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
    Ok(())
}
