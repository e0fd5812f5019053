//! `trailtrap lookup`: what a finished census says about given graphs.

use std::{collections::HashMap, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::Args;
use lru::LruCache;
use rayon::prelude::*;
use serde::{Serialize, Serializer, ser::SerializeMap};
use trailtrap_census::{
    read::finished::{FinishedError, FinishedOrder, open_store},
    store::{
        Store,
        directory::{DATA_VARIABLE, DataFlag, USUAL_DATA},
    },
};
use trailtrap_shared::{
    class::Class,
    game::{About, Game, Positions, SumName, Told},
    graph::{Graph, MAX_ORDER, VertexSet, degree::DegreeSequence, graph6, vertices},
    labelling::hashed,
    partition::{BucketTable, bucket_of_slot, slot_of_labelled},
    plan::Goal,
    play,
};
use trailtrap_worker::process::{
    limits::{Size, parse_size_from},
    log,
};

use crate::cli::{
    answers::{Answered, GraphAnswer, Questions},
    input::Line,
    preflight,
};

/// Looks up who wins on given graphs, in the store of a finished census.
///
/// Graphs are read in graph6, one a line, and may have any labelling. Each answer has the verdict,
/// |Aut|, and what the graph adds to the sums of the game. For Trail Trap these are the number of
/// rooted positions (H; a, b) that the player to move wins (Σ|W|), and the number of ends of P1's
/// first move that P2 beats (|R|); for edge geography the number of vertices from which the player
/// to move wins (|U|), of their orbits, and of all orbits. A graph that cannot be looked up is
/// named on standard error, the others get their answers, and the exit code is 1.
#[derive(Args)]
pub struct LookupCommand {
    #[command(flatten)]
    questions: Questions,
    /// The data directory, in use or not
    #[arg(long, value_name = "DIR", default_value = USUAL_DATA, env = DATA_VARIABLE)]
    data: PathBuf,
    /// Add the outcome of every rooted position, in the labels of the graph as given: for Trail
    /// Trap for each vertex a of the player to move the opponent's vertices b for which that
    /// player wins, and the vertices v that P2 beats; for edge geography the vertices from which
    /// the player to move wins
    #[arg(long)]
    positions: bool,
    /// Look up so many graphs together, sorted by shard; 1 answers each graph at once, more makes
    /// large orders quicker
    #[arg(long, value_name = "GRAPHS", default_value_t = 1 << 18,
          value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    batch: u64,
    /// Keep partitions that were read up to this size
    #[arg(long, value_name = "SIZE", default_value = "1GiB",
          value_parser = parse_size_from::<{ 1 << 20 }>)]
    memory: Size,
}

/// What the census says about a graph.
#[derive(Serialize)]
struct FoundGraph {
    /// As given.
    graph6: String,
    order: usize,
    size: usize,
    winner: &'static str,
    automorphisms: u64,
    /// What the graph adds to the sums of the game, as far as its record tells.
    #[serde(flatten, serialize_with = "as_map")]
    sums: Vec<(&'static SumName, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    positions: Option<Outcomes>,
}

fn as_map<S: Serializer>(
    sums: &[(&'static SumName, u32)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(sums.iter().map(|(name, sum)| (name.key, sum)))
}

/// The outcome of every position, under the keys of the game.
struct Outcomes(Vec<(&'static str, Positions)>);

impl Serialize for Outcomes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, positions) in &self.0 {
            match positions {
                Positions::Whole { set, .. } => map.serialize_entry(key, &members(*set))?,
                Positions::Each { sets, .. } => {
                    let sets: Vec<Vec<usize>> = sets.iter().map(|&set| members(set)).collect();
                    map.serialize_entry(key, &sets)?;
                }
            }
        }
        map.end()
    }
}

/// The sums of which the record of a graph, with the graph, tells.
fn told_sums(about: &'static About) -> impl Iterator<Item = (usize, &'static SumName)> {
    about.sums.iter().enumerate().filter(|(_, sum)| sum.told != Told::ByOutcome)
}

fn members(set: VertexSet) -> Vec<usize> {
    vertices(set).collect()
}

/// A graph on its way to its record.
struct Query {
    graph: Graph,
    sequence: DegreeSequence,
    label: [u8; MAX_ORDER],
    automorphisms: u64,
    slot: u64,
}

impl Query {
    /// The graph of a line, or why no census of this class has it.
    fn of(line: &Line, class: Class, largest_order: usize) -> Result<Self, String> {
        let graph = graph6::decode(&line.text).map_err(|error| error.to_string())?;
        let n = graph.order();
        if !(1..=largest_order).contains(&n) {
            return Err(format!(
                "no census of this class has graphs of order {n}; `trailtrap solve` may do"
            ));
        }
        // Before it is labelled, which takes long for some graphs that no census has.
        if !class.contains(&graph) {
            return Err(format!(
                "this is a census of the class {class}, and the graph does not belong to it; \
                 `trailtrap solve` searches single graphs"
            ));
        }
        let labelling = hashed::label(&graph);
        Ok(Query {
            graph,
            sequence: DegreeSequence::of(&graph),
            label: labelling.label,
            automorphisms: labelling.automorphisms,
            slot: slot_of_labelled(&graph, &labelling),
        })
    }
}

impl LookupCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut session = Session {
            store: open_store(&self.data)?,
            orders: HashMap::new(),
            tables: LruCache::unbounded(),
            held: 0,
            command: &self,
        };
        let about = session.store.game().about();
        let mut header = vec!["graph6", "order", "size", "winner", "automorphisms"];
        header.extend(told_sums(about).map(|(_, sum)| sum.key));
        if self.positions {
            header.extend(about.position_keys);
        }
        self.questions.answer("lookup", &header, self.batch as usize, |lines| {
            session
                .look_up(lines)
                .with_context(|| format!("data directory {}", self.data.display()))
        })
    }
}

impl GraphAnswer for FoundGraph {
    fn text(&self) -> String {
        let FoundGraph { graph6, winner, automorphisms, sums, .. } = self;
        let mut text = format!("{graph6} {winner} |Aut| {automorphisms}");
        sums.iter().for_each(|(name, sum)| text += &format!(" {} {sum}", name.symbol));
        text += "\n";
        for (_, positions) in self.positions.iter().flat_map(|positions| &positions.0) {
            match positions {
                Positions::Whole { says, set } => {
                    text += &format!("  {says}: {}\n", spaced(*set));
                }
                Positions::Each { says: [before, after], sets } => {
                    for (v, set) in sets.iter().enumerate() {
                        text += &format!("  {before} {v} {after}: {}\n", spaced(*set));
                    }
                }
            }
        }
        text
    }

    fn csv(&self) -> Vec<String> {
        let FoundGraph { graph6, order, size, winner, automorphisms, sums, positions } = self;
        let mut cells = vec![
            graph6.clone(),
            order.to_string(),
            size.to_string(),
            (*winner).to_owned(),
            automorphisms.to_string(),
        ];
        cells.extend(sums.iter().map(|(_, sum)| sum.to_string()));
        for (_, positions) in positions.iter().flat_map(|positions| &positions.0) {
            cells.push(match positions {
                Positions::Whole { set, .. } => spaced(*set),
                Positions::Each { sets, .. } => {
                    let sets: Vec<String> = sets.iter().map(|&set| spaced(set)).collect();
                    sets.join(";")
                }
            });
        }
        cells
    }
}

fn spaced(set: VertexSet) -> String {
    vertices(set).map(|v| v.to_string()).collect::<Vec<_>>().join(" ")
}

/// Where a bucket is in the store. Sorted, buckets of a shard lie together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct BucketPlace {
    order: usize,
    shard: u32,
    bucket: u32,
}

struct Session<'a> {
    store: Arc<Store>,
    /// The orders asked for, or why they cannot be read.
    orders: HashMap<usize, Result<FinishedOrder, String>>,
    /// Buckets at hand, least recently used first out.
    tables: LruCache<BucketPlace, Arc<BucketTable>>,
    held: usize,
    command: &'a LookupCommand,
}

impl Session<'_> {
    /// Looks up a batch: labels all graphs, and visits each bucket once.
    fn look_up(&mut self, lines: &[Line]) -> anyhow::Result<Vec<Answered<FoundGraph>>> {
        let class = self.store.class();
        let largest_order = class.largest_order();
        let query = |line: &Line| {
            Query::of(line, class, largest_order).map_err(|why| format!("{}: {why}", line.origin))
        };
        let queries: Vec<Result<Query, String>> =
            lines.par_iter().with_min_len(64).map(query).collect();
        let mut answers: Vec<Answered<FoundGraph>> = Vec::with_capacity(lines.len());
        let mut places: Vec<(BucketPlace, usize)> = Vec::with_capacity(lines.len());
        for (i, (line, query)) in lines.iter().zip(&queries).enumerate() {
            // What is not replaced below says what is wrong.
            answers.push(match query {
                Err(message) => Err(message.clone()),
                Ok(query) => match self.place(query)? {
                    Ok(place) => {
                        places.push((place, i));
                        Err(String::new())
                    }
                    Err(message) => Err(format!("{}: {message}", line.origin)),
                },
            });
        }
        places.sort_unstable();
        for same in places.chunk_by(|a, b| a.0 == b.0) {
            let table = self.table(same[0].0);
            for &(_, i) in same {
                let query = queries[i].as_ref().expect("only graphs have places");
                let found = match &table {
                    Err(error) => Err(log::explained(error)),
                    Ok(table) => match table.look_up(query.slot, table.locate(query.slot)) {
                        Some(record) => Ok(self.describe(&lines[i], query, record)),
                        None => Err(format!(
                            "partition {} lacks this graph: the store is damaged; see `trailtrap \
                             verify`",
                            query.sequence
                        )),
                    },
                };
                // Only this graph is without an answer; others have theirs.
                answers[i] = found.map_err(|why| format!("{}: {why}", lines[i].origin));
            }
        }
        Ok(answers)
    }

    /// Where the record of a graph is, or why it is nowhere.
    fn place(&mut self, query: &Query) -> anyhow::Result<Result<BucketPlace, String>> {
        let n = query.graph.order();
        let store = &self.store;
        let order = self.orders.entry(n).or_insert_with(|| {
            FinishedOrder::open_undisputed(store, n).map_err(|error| log::explained(&error.into()))
        });
        let order = match order {
            Ok(order) => order,
            Err(message) => return Ok(Err(message.clone())),
        };
        let plan = &order.plan;
        let class = plan.layout.class;
        if query.graph.size() > plan.max_size {
            let size = query.graph.size();
            // Of an order that is done to its end nothing would be kept.
            let is_kept = size < class.most_edges(n) && order.outcomes_of(plan.max_size).is_ok();
            if !order.outcomes_kept && !is_kept {
                return Ok(Err(log::explained(&FinishedError::NotKept(n).into())));
            }
            let more = match preflight::check_order(class, Goal::new(n, Some(size))) {
                Ok(()) => {
                    let data = DataFlag::of(store);
                    format!("`trailtrap census {n} --max-size {size}{data}` does more of it, and ")
                }
                Err(_) => String::new(),
            };
            return Ok(Err(format!(
                "the census of order {n} goes up to {} edges only; {more}`trailtrap solve` \
                 searches single graphs",
                plan.max_size,
            )));
        }
        if let Err(error) = order.outcomes_of(query.graph.size()) {
            return Ok(Err(log::explained(&error.into())));
        }
        let index = plan.find(&query.sequence).context("the plan lacks a degree sequence")?;
        let bits = order.plan.shards[index as usize].bucket_bits;
        let bucket = if bits == 0 { 0 } else { bucket_of_slot(n, query.slot, bits) as u32 };
        Ok(Ok(BucketPlace { order: n, shard: index, bucket }))
    }

    fn table(&mut self, place: BucketPlace) -> anyhow::Result<Arc<BucketTable>> {
        if let Some(table) = self.tables.get(&place) {
            return Ok(table.clone());
        }
        let BucketPlace { order, shard, bucket } = place;
        let order =
            self.orders[&order].as_ref().map_err(|message| anyhow::anyhow!("{message}"))?;
        let table = Arc::new(order.table(&order.plan.shards[shard as usize], bucket)?);
        self.held += table.memory_bytes();
        self.tables.put(place, table.clone());
        while self.held > self.command.memory.0 as usize && self.tables.len() > 1 {
            if let Some((_, oldest)) = self.tables.pop_lru() {
                self.held -= oldest.memory_bytes();
            }
        }
        Ok(table)
    }

    fn describe(&self, line: &Line, query: &Query, record: &[u8]) -> FoundGraph {
        play!(self.store.game(), G => self.describe_in::<G>(line, query, record))
    }

    fn describe_in<G: Game>(&self, line: &Line, query: &Query, record: &[u8]) -> FoundGraph {
        let Query { graph, automorphisms, .. } = query;
        let n = graph.order();
        // The labelling takes the graph as given to the canonical one; its inverse takes the
        // outcome back.
        let mut inverse = [0; MAX_ORDER];
        (0..n).for_each(|v| inverse[query.label[v] as usize] = v as u8);
        let outcome = G::relabelled(n, &G::decode(n, record), &inverse);
        let tally = G::tally(graph, *automorphisms, &outcome);
        FoundGraph {
            graph6: String::from_utf8_lossy(&line.text).into_owned(),
            order: n,
            size: graph.size(),
            winner: G::ABOUT.verdicts[usize::from(!tally.listed)].winner,
            automorphisms: *automorphisms,
            sums: told_sums(&G::ABOUT).map(|(i, sum)| (sum, tally.sums[i])).collect(),
            positions: self.command.positions.then(|| {
                let keys = G::ABOUT.position_keys.iter().copied();
                Outcomes(keys.zip(G::positions(n, &outcome)).collect())
            }),
        }
    }
}
