//! `trailtrap verify`: checks a finished order, a list of graphs, or a bundle again, as thoroughly
//! as asked.

mod bundle;
mod list;
mod order;

use std::{
    error::Error,
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Instant,
};

use anyhow::{Context, bail};
use serde::Serialize;
use trailtrap_census::{
    read::{
        archive::{Archive, ArchiveError},
        finished::{self, FinishedError, FinishedOrder, open_store, told_of_withdrawn},
        status::duration,
    },
    records::alarm::Alarm,
    store::{
        Store, StoreError,
        directory::{DataFlag, USUAL_DATA},
    },
};
use trailtrap_export::{
    ExportError,
    bundle::sha256_of,
    graphs::{self, Filter, says_other_format},
};

use trailtrap_shared::{class::Class, game::GameName, graph::MAX_ORDER, play};
use trailtrap_worker::process::{log, open};

pub use self::list::{text_of, unpacked};

use self::{
    bundle::Bundle,
    list::{CheckedList, Compared},
    order::Verifier,
};
use crate::terminal::{self, Terminal};

/// What is to be checked, and how.
pub struct Verification {
    /// What the command line names, and the order that it is, or why it is none; all finished
    /// orders if it names nothing.
    pub what: Option<(OsString, Result<usize, String>)>,
    /// The game of a list, if it is named.
    pub game: Option<GameName>,
    /// The data directory.
    pub data: PathBuf,
    /// How much of it is checked.
    pub drawing: Drawing,
    /// Whether to print one JSON object.
    pub json: bool,
}

/// Nothing was found wrong, but not everything could be checked now.
const EXIT_UNCHECKED: u8 = 75;

/// A forward search of a graph gives up after so many positions.
const MOST_POSITIONS: usize = 20_000_000;
/// Graphs with more edges are not searched forward: that takes 0.4 · 2^m positions.
const LARGEST_FORWARD_SIZE: usize = 20;

/// How much is checked.
#[derive(Clone, Copy)]
pub struct Drawing {
    /// Checks of this level and of lower ones are run.
    pub level: u8,
    /// How many graphs, or shards, are drawn.
    pub sample: u64,
    /// What the drawing starts from; equal seeds draw equally.
    pub seed: u64,
}

/// One check: its level, what it is called, and what it does; the text says what it went over.
type Check<'a> = (u8, &'static str, &'a dyn Fn() -> anyhow::Result<String>);

/// What came out of one check. Without anything in the last three, it found all right.
#[derive(Debug, Serialize)]
struct Finding {
    /// What was checked.
    subject: String,
    check: &'static str,
    /// What was compared, and how much of it.
    scope: String,
    seconds: f64,
    /// What is wrong, if anything.
    failure: Option<String>,
    /// What it would have needed and was not kept.
    not_kept: Option<String>,
    /// Why the system did not let it be made: nothing is known then.
    unchecked: Option<String>,
}

/// What a check says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Right,
    Wrong,
    /// It needs what was not kept.
    NotKept,
    /// The system did not let it be made.
    Unchecked,
}

impl State {
    /// What an error says of what was being checked.
    fn of(error: &anyhow::Error) -> Self {
        let causes = || error.chain();
        if causes().any(is_of_the_system) {
            State::Unchecked
        } else if causes().filter_map(<dyn Error>::downcast_ref).any(|error| {
            matches!(error, FinishedError::NotKept(_) | FinishedError::GraphsNotKept(_))
        }) {
            State::NotKept
        } else {
            State::Wrong
        }
    }

    fn word(self) -> &'static str {
        match self {
            State::Right => "right",
            State::Wrong => "WRONG",
            State::NotKept => "not kept",
            State::Unchecked => "UNCHECKED",
        }
    }
}

/// Nothing wrong was found, but not what there was to find either.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct CannotSay(String);

/// Whether a check could not be made: as a rule since the system refuses, for want of permission,
/// descriptors, memory, room, or a sound disk.
fn is_of_the_system(cause: &(dyn Error + 'static)) -> bool {
    let of_finished = |error: &FinishedError| match error {
        FinishedError::Store(error) | FinishedError::Open { source: error, .. } => {
            error.is_of_the_system()
        }
        FinishedError::Directory(_) => true,
        // What is disputed says nothing of a list that is compared with it.
        FinishedError::OpenAlarm { .. } | FinishedError::Doubted { .. } => true,
        _ => false,
    };
    let of_archive = |error: &ArchiveError| match error {
        ArchiveError::Finished(error) => of_finished(error),
        _ => false,
    };
    // It stands for its cause, which is none of its own sources.
    let of_export = |error: &ExportError| match error {
        ExportError::Archive(error) => of_archive(error),
        _ => false,
    };
    cause.is::<CannotSay>()
        || cause.downcast_ref().is_some_and(StoreError::is_of_the_system)
        || cause.downcast_ref().is_some_and(|error: &Arc<StoreError>| error.is_of_the_system())
        || cause.downcast_ref().is_some_and(of_finished)
        || cause.downcast_ref().is_some_and(of_archive)
        || cause.downcast_ref().is_some_and(of_export)
        || cause.downcast_ref().is_some_and(open::is_of_the_system)
}

/// What came out of all checks so far.
struct Findings {
    level: u8,
    /// Tell each as it comes.
    aloud: bool,
    list: Vec<Finding>,
}

impl Findings {
    /// Runs the checks that belong to the level asked for. An error is one of standard output.
    fn run(&mut self, subject: &str, checks: &[Check]) -> anyhow::Result<()> {
        for (_, check, run) in checks.iter().filter(|(level, ..)| *level <= self.level) {
            let start = Instant::now();
            let (state, text) = match run() {
                Ok(scope) => (State::Right, scope),
                Err(error) => (State::of(&error), log::explained(&error)),
            };
            let seconds = start.elapsed().as_secs_f64();
            if self.aloud {
                let took = match state {
                    State::Right => format!(" ({})", duration(seconds)),
                    _ => String::new(),
                };
                terminal::print(&format!(
                    "{subject}: {}   {check}: {text}{took}\n",
                    state.word()
                ))?;
            }
            let only = |wanted| (state == wanted).then(|| text.clone());
            self.list.push(Finding {
                subject: subject.to_owned(),
                check,
                scope: only(State::Right).unwrap_or_default(),
                seconds,
                failure: only(State::Wrong),
                not_kept: only(State::NotKept),
                unchecked: only(State::Unchecked),
            });
        }
        Ok(())
    }
}

/// No result is withdrawn, and nothing was found wrong beyond the last finished order that nobody has
/// looked into.
fn beyond(store: &Store, last: usize) -> anyhow::Result<String> {
    if let Some(told) = told_of_withdrawn(store)? {
        bail!("{told}");
    }
    let is_open = |alarm: &Alarm| alarm.is_open_about(MAX_ORDER) && !alarm.is_open_about(last);
    match store.alarms()?.iter().find(|(_, alarm)| is_open(alarm)) {
        Some((number, alarm)) => bail!("{}", alarm.line(*number)),
        None => Ok(format!("all that is after order {last}")),
    }
}

impl Verification {
    /// Checks it, and says what is wrong.
    ///
    /// # Errors
    /// If nothing can be checked, or the findings cannot be printed. A failed check is no error:
    /// the exit code tells it.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut findings =
            Findings { level: self.drawing.level, aloud: !self.json, list: Vec::new() };
        match &self.what {
            None => self.check_orders(None, &mut findings)?,
            Some((_, Ok(order))) => self.check_orders(Some(*order), &mut findings)?,
            Some((what, Err(why))) => {
                let (path, shown) = (Path::new(what), what.to_string_lossy());
                if path.is_dir() {
                    self.check_bundle(&Bundle::open(path)?, &shown, &mut findings)?;
                } else if open::may_be_there(path) {
                    if says_other_format(path) {
                        bail!(
                            "'{shown}' is no list of graphs in graph6, by its name; of a bundle, \
                             name the directory"
                        );
                    }
                    self.check_list(path, &shown, &mut findings)?;
                } else {
                    bail!("'{shown}' is no order ({why}) and there is no such file");
                }
            }
        }
        let count = |is_so: fn(&Finding) -> bool| {
            findings.list.iter().filter(|&finding| is_so(finding)).count()
        };
        let failures = count(|finding| finding.failure.is_some());
        let unchecked = count(|finding| finding.unchecked.is_some());
        let not_kept = count(|finding| finding.not_kept.is_some());
        let checks = findings.list.len();
        let text = if self.json {
            serde_json::json!({
                "findings": findings.list,
                "failures": failures,
                "unchecked": unchecked,
                "not_kept": not_kept,
            })
            .to_string()
        } else {
            let mut text = match failures {
                0 => "nothing wrong".to_owned(),
                _ => format!("{failures} of {checks} checks failed: do not trust these results"),
            };
            if unchecked > 0 {
                text += &format!("; {unchecked} of {checks} checks could not be made now");
            }
            if not_kept > 0 {
                text +=
                    &format!("; {not_kept} of {checks} checks need what was not kept (`--keep`)");
            }
            text
        };
        terminal::print(&(text + "\n"))?;
        Ok(match (failures, unchecked) {
            (0, 0) => ExitCode::SUCCESS,
            (0, _) => ExitCode::from(EXIT_UNCHECKED),
            _ => ExitCode::FAILURE,
        })
    }

    fn check_orders(&self, order: Option<usize>, findings: &mut Findings) -> anyhow::Result<()> {
        let store = open_store(&self.data)?;
        let directory = || format!("data directory {}", self.data.display());
        let orders = match order {
            Some(order) => vec![order],
            None => finished::results(&store)
                .with_context(directory)?
                .iter()
                .map(|result| result.order)
                .collect(),
        };
        if orders.is_empty() {
            bail!(
                "no order is finished in {}; `trailtrap census N{}` does one",
                self.data.display(),
                DataFlag::of(&store)
            );
        }
        let last = orders.iter().max().copied().unwrap_or(0);
        for order in orders {
            let finished = FinishedOrder::open(&store, order).with_context(directory)?;
            play!(store.game(), order, G => {
                Verifier::<G>::new(finished, self.drawing).run(findings)?;
            });
        }
        match order {
            Some(_) => Ok(()),
            None => findings.run(
                "what is not finished",
                &[(1, "nothing withdrawn, no alarms", &|| beyond(&store, last))],
            ),
        }
    }

    fn check_bundle(
        &self,
        bundle: &Bundle,
        name: &str,
        findings: &mut Findings,
    ) -> anyhow::Result<()> {
        let Drawing { sample, seed, .. } = self.drawing;
        let orders: Vec<String> = bundle.orders().map(|order| order.to_string()).collect();
        let subject = format!("{name} (orders {})", orders.join(", "));
        let checksums = || bundle.checksums().context("no file was looked into");
        findings.run(&subject, &[(1, "checksums", &checksums)])?;
        // Altered files may be anything, and those that could not be looked at too; it takes intent to
        // make one that passes.
        let is_closed =
            |finding: &Finding| finding.failure.is_some() || finding.unchecked.is_some();
        if findings.list.iter().any(is_closed) {
            return Ok(());
        }
        let checks: [Check; 3] = [
            (1, "tables", &|| bundle.tables()),
            (1, "shards", &|| bundle.shards()),
            (2, "lists", &|| bundle.lists(sample as usize, seed)),
        ];
        findings.run(&subject, &checks)
    }

    fn check_list(&self, path: &Path, name: &str, findings: &mut Findings) -> anyhow::Result<()> {
        let Drawing { sample, seed, .. } = self.drawing;
        let store = self.store()?;
        let of_store = store.as_ref().map(|store| store.game());
        let game = self.game.or(of_store).unwrap_or_default();
        let check = || {
            let list = CheckedList::read(path, Class::All, sample as usize, seed)?;
            if list.graphs() == 0 {
                let why = "the list is empty: there is nothing to check".to_owned();
                return Err(CannotSay(why).into());
            }
            let searched = list.search(game)?;
            let compared = self.compare(path, store.as_ref(), &list)?;
            Ok(format!(
                "{} graphs of order {}, {searched} of them searched forward; {compared}",
                list.graphs(),
                list.order
            ))
        };
        findings.run(name, &[(1, "canonical, distinct, P1-wins", &check)])
    }

    /// The store of the data directory that a list is compared with; `None` if there is no census,
    /// or one of another game, where one would be that was not told where to be.
    fn store(&self) -> anyhow::Result<Option<Arc<Store>>> {
        let is_told = self.data != Path::new(USUAL_DATA);
        let store = match open_store(&self.data) {
            Err(FinishedError::NoCensus(_)) if !is_told => return Ok(None),
            store => store?,
        };
        let found = store.game();
        match self.game.filter(|&game| game != found) {
            None => Ok(Some(store)),
            Some(_) if !is_told => Ok(None),
            Some(game) => bail!(
                "the census in {} is of the game {found}, and the list would be checked by the \
                 rules of {game}: leave out --game, or name a census of that game by --data",
                self.data.display()
            ),
        }
    }

    /// Compares a list with the census, if there is one of its order.
    fn compare(
        &self,
        path: &Path,
        store: Option<&Arc<Store>>,
        list: &CheckedList,
    ) -> anyhow::Result<String> {
        let finished = match store.map(|store| FinishedOrder::open_undisputed(store, list.order)) {
            None | Some(Err(FinishedError::NotFinished { .. })) => {
                let said = "whether some are missing cannot be said without a census of that order \
                            (--data)";
                return Ok(unless_untold(list.too_large(), said.to_owned())?);
            }
            Some(finished) => finished?,
        };
        let stored = graphs::GraphList::read(
            &Archive::open(&self.data, true)?,
            list.order,
            &Filter::default(),
            &Terminal,
        )?;
        let class = finished.plan.layout.class;
        let of_class = match class {
            Class::All => String::new(),
            class => format!(" of the class {class}"),
        };
        let max_size = finished.plan.max_size;
        let few = match finished.plan.is_complete() {
            true => String::new(),
            false => format!(" with at most {max_size} edges"),
        };
        let all = format!("they are those of the census{of_class}{few}, and none is missing");
        if sha256_of(&stored)? == list.sha256 {
            return Ok(all);
        }
        let Some(compared) = list.check_among(path, &stored, class, max_size)? else {
            return Err(CannotSay("the list cannot be read a second time".to_owned()).into());
        };
        let Compared { found: comparable, untold } = compared;
        let missing = stored.len() as u128 - comparable;
        if missing > 0 {
            let why = format!(
                "{comparable} of them are P1-wins of the census{of_class}{few}, and {missing} \
                 others of it are not listed: whether they should be, the list does not say"
            );
            return Err(CannotSay(why).into());
        }
        if comparable == list.graphs() {
            // Written otherwise than by `export`.
            return Ok(all);
        }
        let said = format!(
            "those{of_class}{few} are as many as in the census, which goes no further: whether \
             others are missing cannot be said"
        );
        Ok(unless_untold(untold, said)?)
    }
}

/// What is said of a list, unless so many of its graphs are neither known to a census nor small enough
/// to be searched forward: who wins these is not checked.
fn unless_untold(untold: u128, said: String) -> Result<String, CannotSay> {
    match untold {
        0 => Ok(said),
        _ => Err(CannotSay(format!(
            "{said}; {untold} of the graphs have more than {LARGEST_FORWARD_SIZE} edges, too many to \
             be searched forward, and no census (--data) tells who wins them"
        ))),
    }
}
