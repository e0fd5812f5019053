//! Units of a sample: ranges of graphs, decided by all threads, and their files.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use rayon::ThreadPool;
use sha2::{Digest as _, Sha256};
use trailtrap_shared::{
    game::{
        Search, Solution,
        trail_trap::{
            ForwardSearch,
            decide::{Decided, Decider, Endgame},
        },
    },
    graph::{Graph, MAX_ORDER, graph6},
    labelling::batch::Kernel,
    sample::draw::{Drawer, Stratum},
};
use trailtrap_worker::process::{limits, open, replace::Replacement};

use super::{
    CHECKSUMS,
    claims::Claims,
    error::{Damage, SampleError, at},
};

/// A range of the graphs of a stratum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Of which stratum.
    pub stratum: Stratum,
    /// The first graph.
    pub from: u64,
    /// The one after the last.
    pub to: u64,
}

impl Unit {
    /// Its files of this kind in the directory of a run. In order of names, files are in the order
    /// of strata and numbers.
    pub fn files(&self, run: &Path, kind: &str) -> Files {
        let place = self.place(kind);
        Files { text: run.join(&place), checksum: run.join(CHECKSUMS).join(place) }
    }

    /// Where its verdicts of this kind are, in the directory of a run, and claims of it among the
    /// claims.
    fn place(&self, kind: &str) -> PathBuf {
        let Unit { stratum: Stratum { size, odd }, from, to } = self;
        let odd = odd.map_or_else(String::new, |odd| format!("-odd{odd:02}"));
        Path::new(kind).join(format!("m{size:02}{odd}")).join(format!("{from:010}-{to:010}.txt"))
    }
}

/// The files of a unit.
pub struct Files {
    /// The verdicts. While there is none, the unit is not done.
    pub text: PathBuf,
    /// The SHA-256 of that file.
    checksum: PathBuf,
}

/// What is to be done of a unit.
#[derive(Clone, Debug)]
pub struct UnitWork {
    pub unit: Unit,
    /// The graphs to decide.
    pub indices: Vec<u64>,
}

/// Who wins a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The number of the graph within its stratum.
    pub index: u64,
    /// The graph.
    pub graph6: String,
    /// Whether P1 wins.
    pub p1_wins: bool,
    /// Positions visited.
    pub nodes: u64,
}

impl Verdict {
    /// The winner.
    pub fn winner(&self) -> &'static str {
        if self.p1_wins { "P1" } else { "P2" }
    }

    /// A line of a file, with its end.
    pub fn line(&self) -> String {
        let Verdict { index, graph6, nodes, .. } = self;
        format!("{index} {graph6} {} {nodes}\n", self.winner())
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut word = || words.next();
        let verdict = Verdict {
            index: word()?.parse().ok()?,
            graph6: word()?.to_owned(),
            p1_wins: match word()? {
                "P1" => true,
                "P2" => false,
                _ => return None,
            },
            nodes: word()?.parse().ok()?,
        };
        (format!("{line}\n") == verdict.line()).then_some(verdict)
    }
}

impl Files {
    /// The verdicts: about these graphs, as they are drawn, and as they were written.
    pub fn read(
        &self,
        stratum: Stratum,
        indices: &[u64],
        drawer: &Drawer,
        seed: u64,
    ) -> Result<Vec<Verdict>, SampleError> {
        let damaged = |what| SampleError::Damaged { path: self.text.clone(), what };
        let bytes = at(&self.text, open::read(&self.text, 1 << 20))?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        let mut verdicts = Vec::new();
        for (number, &index) in (1..).zip(indices) {
            let graph6 = graph6::encode(&drawer.draw(seed, stratum, index));
            let verdict = lines
                .next()
                .and_then(Verdict::parse)
                .filter(|verdict| verdict.index == index && verdict.graph6 == graph6);
            verdicts.push(verdict.ok_or_else(|| damaged(Damage::Line(number)))?);
        }
        if lines.next().is_some() {
            return Err(damaged(Damage::Line(indices.len() + 1)));
        }
        match open::read(&self.checksum, 1 << 10) {
            Ok(found) if found == checksum(&bytes).as_bytes() => Ok(verdicts),
            _ => Err(damaged(Damage::Checksum)),
        }
    }

    /// Writes them, the checksum first.
    fn write<'v>(&self, verdicts: impl Iterator<Item = &'v Verdict>) -> Result<(), SampleError> {
        let text: String = verdicts.map(Verdict::line).collect();
        for (path, text) in [(&self.checksum, checksum(text.as_bytes())), (&self.text, text)] {
            if let Some(parent) = path.parent() {
                at(parent, fs::create_dir_all(parent))?;
            }
            replace(path, text.as_bytes())?;
        }
        Ok(())
    }
}

/// Writes a file that several processes may write, all of them the same.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), SampleError> {
    match Replacement::of(path).write(bytes) {
        // Another process was faster, and has removed what seemed to be left unfinished.
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.exists() => Ok(()),
        written => at(path, written),
    }
}

/// A line with the checksum of a file.
fn checksum(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes)) + "\n"
}

/// How graphs are decided.
#[derive(Clone, Copy)]
pub enum How<'a> {
    /// By the search, with an endgame if there is one.
    Search(Option<&'a Endgame>),
    /// By the search with this endgame, of graphs with their vertices in reverse.
    Relabelled(&'a Endgame),
    /// By playing the game, without the search or its endgames. On each thread so many positions
    /// may be remembered.
    Plain(usize),
}

impl How<'_> {
    /// Plain forward search on so many threads, as far as memory goes.
    pub fn plain(threads: usize) -> Self {
        let share = limits::available_memory() / threads.max(1) as u64;
        How::Plain(usize::try_from(share / PLAIN_BYTES).unwrap_or(0).min(PLAIN_POSITIONS))
    }
}

/// Positions that plain forward search may remember, at most, …
const PLAIN_POSITIONS: usize = 20_000_000;
/// … and bytes that one takes.
const PLAIN_BYTES: u64 = 50;

/// Decides the graphs of units.
pub struct Solver<'a> {
    pub drawer: &'a Drawer,
    pub seed: u64,
    pub directory: &'a Path,
    /// What of a run it is.
    pub kind: &'a str,
    pub work: &'a [UnitWork],
    /// What a graph of each unit adds to the progress.
    pub costs: &'a [u64],
    pub how: How<'a>,
    /// What this process claims for itself.
    pub claims: &'a Claims,
}

/// What threads share.
struct Shared {
    /// The unit, and the place in it, that is next.
    next: (usize, usize),
    error: Option<SampleError>,
}

impl Solver<'_> {
    /// Decides all that no other process has in work, on all threads of a pool, and writes a file
    /// for each unit that is complete.
    pub fn run(&self, pool: &ThreadPool, done: &AtomicU64) -> Result<(), SampleError> {
        let shared = Mutex::new(Shared { next: (0, 0), error: None });
        let found: Vec<Mutex<Vec<Option<Verdict>>>> =
            self.work.iter().map(|work| Mutex::new(vec![None; work.indices.len()])).collect();
        let place = || {
            let mut shared = shared.lock();
            loop {
                let (u, i) = shared.next;
                let work = self.work.get(u).filter(|_| shared.error.is_none())?;
                let is_ours = i > 0
                    || self.begins(work.unit).unwrap_or_else(|error| {
                        shared.error = Some(error);
                        false
                    });
                if is_ours {
                    shared.next = if i + 1 < work.indices.len() { (u, i + 1) } else { (u + 1, 0) };
                    return Some((u, i, work));
                }
                shared.next = (u + 1, 0);
                done.fetch_add(work.indices.len() as u64 * self.costs[u], Ordering::Relaxed);
            }
        };
        let next = || {
            let (u, i, work) = place()?;
            let graph = self.drawer.draw(self.seed, work.unit.stratum, work.indices[i]);
            Some(((u as u64) << 32 | i as u64, graph))
        };
        let fail = |error: SampleError| {
            shared.lock().error.get_or_insert(error);
        };
        let decided = |tag: u64, decided: Decided| {
            let (u, i) = ((tag >> 32) as usize, (tag & 0xffff_ffff) as usize);
            let work = &self.work[u];
            let graph = self.drawer.draw(self.seed, work.unit.stratum, work.indices[i]);
            let mut found = found[u].lock();
            found[i] = Some(Verdict {
                index: work.indices[i],
                graph6: graph6::encode(&graph),
                p1_wins: decided.p1_wins,
                nodes: decided.nodes,
            });
            done.fetch_add(self.costs[u], Ordering::Relaxed);
            if found.iter().all(Option::is_some) {
                let files = work.unit.files(self.directory, self.kind);
                files.write(found.iter().flatten()).unwrap_or_else(fail);
                self.claims.give_back(&work.unit.place(self.kind));
            }
        };
        // No thread takes more than its share of few graphs.
        let graphs: usize = self.work.iter().map(|work| work.indices.len()).sum();
        let share = graphs.div_ceil(pool.current_num_threads() * self.claims.processes());
        pool.broadcast(|_| self.work_off(share, &next, &decided).unwrap_or_else(fail));
        shared.into_inner().error.map_or(Ok(()), Err)
    }

    /// Claims a unit; whether it is left to this process to do.
    fn begins(&self, unit: Unit) -> Result<bool, SampleError> {
        let place = unit.place(self.kind);
        if !self.claims.take(&place)? {
            return Ok(false);
        }
        let is_done = unit.files(self.directory, self.kind).text.exists();
        if is_done {
            self.claims.give_back(&place);
        }
        Ok(!is_done)
    }

    /// Decides graphs, so many at once at most.
    fn work_off(
        &self,
        share: usize,
        next: &dyn Fn() -> Option<(u64, Graph)>,
        decided: &dyn Fn(u64, Decided),
    ) -> Result<(), SampleError> {
        let (endgame, is_relabelled) = match self.how {
            How::Search(endgame) => (endgame, false),
            How::Relabelled(endgame) => (Some(endgame), true),
            How::Plain(positions) => {
                let mut search = ForwardSearch::new(positions);
                while let Some((tag, graph)) = next() {
                    let solution = search.solve(&graph).map_err(|error| {
                        let (text, size) = (graph6::encode(&graph), graph.size());
                        SampleError::Search(format!(
                            "plain forward search, the other way to decide {text}, gives up: \
                             {error} (size {size}); `--recheck 0` does without"
                        ))
                    })?;
                    let p1_wins = matches!(solution, Solution::P1 { .. });
                    decided(tag, Decided { p1_wins, nodes: 0, leaves: 0 });
                }
                return Ok(());
            }
        };
        let relabelled = |(tag, graph): (u64, Graph)| {
            let n = graph.order();
            let reverse: [u8; MAX_ORDER] =
                std::array::from_fn(|v| if v < n { (n - 1 - v) as u8 } else { 0 });
            (tag, if is_relabelled { graph.relabelled(&reverse) } else { graph })
        };
        let mut decider = Decider::new(endgame, Kernel::best()).at_most(share);
        decider
            .run(&mut || next().map(relabelled), &mut |tag, found| decided(tag, found))
            .map_err(|error| SampleError::Search(format!("{error}; see `trailtrap verify`")))
    }
}
