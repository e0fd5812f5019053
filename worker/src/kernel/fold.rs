//! The second half of the route: deletions of edges are labelled and looked up, and what their
//! records say is folded into the outcomes.

use rayon::prelude::*;
use trailtrap_shared::{
    count::{digest::Digester, statistics::Statistics, summary::Summary},
    game::{Game, Method, PredecessorAnswer},
    generate::Child,
    graph::{Graph, NARROW_ORDER, NarrowRows, degree::Deletion, narrowed},
    labelling::{
        MAX_PLAIN_ORDER, Undecided,
        batch::{Batch, Kernel, LABEL_WORDS, LANES, Lane, PackedLabels, first_lanes, lanes_of},
        forest::Forest,
        hashed,
    },
    partition::{directory_bytes, entry_bytes, slot_of_key, slot_of_labelled},
    plan::{Plan, Shard, Unit},
};

use super::{
    CHUNK, Graphs, SolveError, Solver, Source, decode,
    delete::{DeletedEdge, LeadingEdges, Predecessor},
};

impl Solver<'_> {
    /// Folds every edge of every graph into its outcome, finishes it, and takes statistics and
    /// public digest of the finished graphs. Each deletion is labelled once. Predecessors are read
    /// in groups of about the allowance; one that is larger by itself is read some buckets at a time,
    /// and one that the processor's cache does not hold is looked up in piece by piece. Returns what
    /// came of each part of the graphs.
    pub(super) fn fold_all<G: Game>(
        &self,
        plan: &Plan,
        mut graphs: Graphs<G>,
        source: &dyn Source,
    ) -> Result<Vec<Folded>, SolveError> {
        let shard = graphs.shard;
        let reading = Reading::of(plan, shard, self.allowance_bytes);
        let is_kept = source.keeps(reading.bytes(plan));
        let Reading { large, small } = reading;
        let mut folded: Vec<Folded> = graphs.parts.iter().map(|_| Folded::default()).collect();
        if !large.is_empty() && !graphs.children.is_empty() {
            folded[0].labellings +=
                self.fold_by_requests(plan, &mut graphs, large, source, is_kept)?;
        }
        let mut group: Vec<Predecessor> = Vec::new();
        let mut held = 0;
        for (deletion, from) in small {
            let from = &plan.shards[from as usize];
            if held > 0 && held + table_bytes(plan, from) > self.allowance_bytes {
                self.fold_group(&mut graphs, &group, &mut folded, false)?;
                group.clear();
                held = 0;
            }
            let mut predecessor = Predecessor::new(&shard.sequence, &deletion, from.bucket_bits);
            predecessor.hold_all(source, graphs.witness)?;
            held += predecessor.held_bytes();
            group.push(predecessor);
        }
        self.fold_group(&mut graphs, &group, &mut folded, true)?;
        Ok(folded)
    }

    /// Folds what a group of predecessors says, and adds to what came of each part.
    fn fold_group<G: Game>(
        &self,
        Graphs { shard, children, parts, outcomes, .. }: &mut Graphs<G>,
        group: &[Predecessor],
        folded: &mut [Folded],
        last: bool,
    ) -> Result<(), SolveError> {
        let add = |sum: Folded, more: Folded| Ok::<_, SolveError>(sum.with(&more));
        for (part, sum) in parts.iter().zip(folded) {
            let (children, outcomes) = (&children[part.clone()], &mut outcomes[part.clone()]);
            let chunks = children.par_chunks(CHUNK).zip(outcomes.par_chunks_mut(CHUNK));
            let more = chunks
                .try_fold(
                    || Chunks::<G>::new(self.kernel, shard, group, last),
                    |mut work, (children, outcomes)| {
                        self.check_stop()?;
                        work.fold(children, outcomes)?;
                        Ok(work)
                    },
                )
                .map(|work: Result<_, SolveError>| work.map(Chunks::finish))
                .try_reduce(Folded::default, add)?;
            *sum = std::mem::take(sum).with(&more);
        }
        Ok(())
    }
}

/// Folds what a group of predecessors says into chunks of graphs, one after the other in the same
/// room.
struct Chunks<'a, G: Game> {
    shard: &'a Shard,
    graphs: Vec<Graph>,
    folder: Folder<'a>,
    scratch: <G::Method as Method<G>>::Scratch,
    statistics: Statistics,
    /// If the graphs are finished by this group, and are to be counted.
    digester: Option<Digester<G>>,
    /// How often a deletion was labelled where there are no lanes.
    labellings: u64,
}

impl<'a, G: Game> Chunks<'a, G> {
    fn new(kernel: Kernel, shard: &'a Shard, group: &'a [Predecessor], last: bool) -> Self {
        Chunks {
            shard,
            graphs: Vec::new(),
            folder: Folder::new(shard.sequence.order(), kernel, group),
            scratch: Default::default(),
            statistics: Statistics::default(),
            digester: last.then(|| Digester::new(&shard.sequence, kernel)),
            labellings: 0,
        }
    }

    fn fold(&mut self, children: &[Child], outcomes: &mut [G::Outcome]) -> Result<(), SolveError> {
        let Shard { sequence, .. } = self.shard;
        self.graphs.clear();
        for child in children {
            self.graphs.push(decode(sequence, child.slot)?);
        }
        let n = sequence.order();
        match n > NARROW_ORDER {
            true => {
                self.labellings += fold_wide::<G>(n, self.folder.group, &self.graphs, outcomes)?;
            }
            false => self.folder.run::<G>(&self.graphs, outcomes)?,
        }
        if let Some(digester) = &mut self.digester {
            for ((child, graph), outcome) in children.iter().zip(&self.graphs).zip(outcomes) {
                G::Method::finish(graph, outcome, &mut self.scratch);
                let tally = G::tally(graph, child.automorphisms, outcome);
                self.statistics.add(graph, child.automorphisms, &tally);
                digester.add(graph, outcome);
            }
        }
        Ok(())
    }

    fn finish(self) -> Folded {
        let digest = self.digester.map(Digester::finish).unwrap_or_default();
        let summary = Summary { statistics: self.statistics, digest };
        Folded { summary, labellings: self.labellings + self.folder.labellings() }
    }
}

/// What came of folding.
#[derive(Default)]
pub(super) struct Folded {
    /// Of the finished graphs.
    pub(super) summary: Summary,
    /// How often a deletion was labelled.
    pub(super) labellings: u64,
}

impl Folded {
    fn with(mut self, more: &Folded) -> Self {
        self.summary += &more.summary;
        self.labellings += more.labellings;
        self
    }
}

/// What takes more than so many bytes is looked up in by request: where most accesses are to memory
/// that the processor's cache does not hold, they take more time than keeping requests.
const CACHED_BYTES: usize = if cfg!(test) { 1000 } else { 2 << 20 };

/// The predecessors of a shard, by index in the plan, in the order in which they are read.
pub(super) struct Reading {
    /// These at first, one after the other, by requests: they take more than [`CACHED_BYTES`], or
    /// than the allowance, and then their buckets, if they have several, are read some at a time.
    pub(super) large: Vec<(Deletion, u32)>,
    /// Then these, in groups.
    pub(super) small: Vec<(Deletion, u32)>,
}

impl Reading {
    pub(super) fn of(plan: &Plan, shard: &Shard, allowance_bytes: usize) -> Self {
        let deletions = match plan.layout.reads_predecessors {
            true => shard.sequence.deletions(),
            false => Vec::new(),
        };
        let predecessors = deletions.into_iter().map(|deletion| {
            let from =
                plan.find(&deletion.sequence).expect("the plan holds every degree sequence");
            (deletion, from)
        });
        let (large, small) = predecessors.partition(|&(_, from)| {
            let bytes = table_bytes(plan, &plan.shards[from as usize]);
            plan.order <= MAX_PLAIN_ORDER && bytes > CACHED_BYTES.min(allowance_bytes)
        });
        Reading { large, small }
    }

    /// About the bytes that all their tables take.
    fn bytes(&self, plan: &Plan) -> usize {
        let all = self.large.iter().chain(&self.small);
        all.map(|&(_, from)| table_bytes(plan, &plan.shards[from as usize])).sum()
    }
}

/// What units of a shard look up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookedUp {
    /// About the bytes that its tables take.
    pub bytes: usize,
    /// Whether requests to some of its partitions are kept.
    pub by_request: bool,
}

impl LookedUp {
    /// By units of one shard that hold so many bytes of tables at a time; `None` if there are none,
    /// or of several shards.
    pub fn of(plan: &Plan, units: &[Unit], allowance_bytes: usize) -> Option<Self> {
        let shard = units.first()?.shard;
        if units.iter().any(|unit| unit.shard != shard) {
            return None;
        }
        let shard = &plan.shards[shard as usize];
        let reading = Reading::of(plan, shard, allowance_bytes);
        Some(LookedUp { bytes: reading.bytes(plan), by_request: !reading.large.is_empty() })
    }
}

/// About the bytes that the tables of a shard take.
pub(super) fn table_bytes(plan: &Plan, shard: &Shard) -> usize {
    let count = usize::try_from(shard.estimate).unwrap_or(usize::MAX);
    let entries = count.saturating_mul(entry_bytes(plan.layout, plan.order));
    entries.saturating_add(directory_bytes(count))
}

/// A deletion that has been labelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LabelledDeletion {
    /// Of what is left.
    pub(super) slot: u64,
    pub(super) deletion: DeletedEdge,
    /// As [`PackedLabels`] has them.
    pub(super) labels: [u16; LABEL_WORDS],
}

/// Up to 32 deletions that lead to one predecessor, in one of the stages: being gathered, labelled
/// with their directory entries on the way, or located with their records on the way.
pub(super) struct LookupStage {
    batch: Box<Batch>,
    /// Index in the group.
    predecessor: usize,
    count: usize,
    deletions: [DeletedEdge; LANES],
    /// What is left of the graphs, while deletions are gathered.
    rows: [NarrowRows; LANES],
    /// How many deletions it has ever labelled.
    pub(super) labellings: u64,
    /// Lanes that have a slot; the others are undecided and go another way.
    labelled: u32,
    slots: [u64; LANES],
    /// Where in the table to look for the slots.
    places: [u32; LANES],
}

/// Works off the deletions of chunks of graphs in a pipeline of three stages, so that the memory
/// accesses of 32 look-ups overlap with the labelling of the next 32.
struct Folder<'a> {
    order: usize,
    group: &'a [Predecessor],
    /// Of the graphs of a chunk.
    rows: Vec<NarrowRows>,
    /// Of these graphs, to one predecessor.
    leading: LeadingEdges,
    gathering: Box<LookupStage>,
    labelled: Box<LookupStage>,
    located: Box<LookupStage>,
    /// Deletions whose colours did not decide their labels, with their predecessors, wait for each
    /// other to be searched together, …
    forest: Forest<(usize, DeletedEdge)>,
    /// … and are then folded on a way of their own.
    searched: Box<LookupStage>,
}

impl<'a> Folder<'a> {
    fn new(order: usize, kernel: Kernel, group: &'a [Predecessor]) -> Self {
        let stage = || LookupStage::new(order, kernel);
        Folder {
            order,
            group,
            rows: Vec::new(),
            leading: LeadingEdges::default(),
            gathering: stage(),
            labelled: stage(),
            located: stage(),
            forest: Forest::new(Batch::new(order, kernel)),
            searched: stage(),
        }
    }

    /// One predecessor after the other, so that look-ups that follow each other go to the same
    /// table.
    fn run<G: Game>(
        &mut self,
        graphs: &[Graph],
        outcomes: &mut [G::Outcome],
    ) -> Result<(), SolveError> {
        if self.group.is_empty() {
            // The edgeless graph, a game that reads no predecessors, or all have been folded.
            return Ok(());
        }
        let (mut rows, mut leading) =
            (std::mem::take(&mut self.rows), std::mem::take(&mut self.leading));
        rows.clear();
        rows.extend(graphs.iter().map(|graph| narrowed(graph.rows())));
        for (p, predecessor) in self.group.iter().enumerate() {
            self.gathering.predecessor = p;
            for (i, u, w) in leading.of(predecessor, &rows) {
                if self.gathering.gather(predecessor, i, &rows[i], u, w) {
                    self.advance::<G>(outcomes)?;
                }
            }
            if self.gathering.count > 0 {
                self.advance::<G>(outcomes)?;
            }
        }
        (self.rows, self.leading) = (rows, leading);
        // Run the pipeline empty.
        for _ in 0..2 {
            self.advance::<G>(outcomes)?;
        }
        self.search::<G>(outcomes)
    }

    /// How many deletions it has ever labelled.
    fn labellings(&self) -> u64 {
        let stages = [&self.gathering, &self.labelled, &self.located];
        stages.iter().map(|stage| stage.labellings).sum()
    }

    /// Moves every batch one stage on.
    fn advance<G: Game>(&mut self, outcomes: &mut [G::Outcome]) -> Result<(), SolveError> {
        // In this order what each stage has asked for has the time of a labelling to come.
        self.label();
        self.located.look_up_and_fold::<G>(self.group, self.order, outcomes)?;
        self.labelled.locate(self.group, self.order);
        // What was located is done: its stage gathers next.
        let predecessor = self.gathering.predecessor;
        std::mem::swap(&mut self.located, &mut self.labelled);
        std::mem::swap(&mut self.labelled, &mut self.gathering);
        self.gathering.predecessor = predecessor;
        self.gathering.clear();
        if self.forest.is_full() { self.search::<G>(outcomes) } else { Ok(()) }
    }

    /// Labels what was gathered, and asks for the directory entries. Undecided lanes are taken
    /// out.
    fn label(&mut self) {
        let stage = &mut self.gathering;
        let p = stage.predecessor;
        stage.label(self.order, |undecided, deletion| self.forest.push(undecided, (p, deletion)));
        let predecessor = &self.group[p];
        let table_of = predecessor.tables_by_slot(self.order);
        for lane in lanes_of(stage.labelled) {
            table_of(stage.slots[lane]).prefetch(stage.slots[lane]);
        }
    }

    /// Labels the undecided deletions by search, and folds them.
    fn search<G: Game>(&mut self, outcomes: &mut [G::Outcome]) -> Result<(), SolveError> {
        let found = self.forest.search();
        for same in
            found.chunk_by(|((a, _), _), ((b, _), _)| a == b).flat_map(|same| same.chunks(LANES))
        {
            let stage = &mut self.searched;
            stage.predecessor = same[0].0.0;
            stage.put(same.iter().map(|((_, deletion), leaf)| LabelledDeletion {
                slot: slot_of_key(self.order, leaf.key(self.order)),
                deletion: *deletion,
                labels: PackedLabels::words_of(&leaf.label),
            }));
            stage.locate(self.group, self.order);
            stage.look_up_and_fold::<G>(self.group, self.order, outcomes)?;
        }
        Ok(())
    }
}

/// What [`Folder::run`] does, where there are no lanes: one deletion at a time.
fn fold_wide<G: Game>(
    n: usize,
    group: &[Predecessor],
    graphs: &[Graph],
    outcomes: &mut [G::Outcome],
) -> Result<u64, SolveError> {
    let mut labellings = 0;
    for predecessor in group {
        let table_of = predecessor.tables_by_slot(n);
        for (graph, outcome) in graphs.iter().zip(&mut *outcomes) {
            for (u, w) in predecessor.edges_of_any(graph.rows()) {
                let left = graph.without_edge(u, w);
                let labelling = hashed::label(&left);
                labellings += 1;
                let slot = slot_of_labelled(&left, &labelling);
                let table = table_of(slot);
                let Some(record) = table.look_up(slot, table.locate(slot)) else {
                    let sequence = predecessor.sequence;
                    return Err(SolveError::MissingPredecessor { sequence, slot });
                };
                let label = |v: usize| usize::from(labelling.label[v]);
                let mut answer = G::Method::ask(n, record, label(u), label(w));
                for set in &mut answer.sets {
                    *set = (0..n).fold(0, |back, v| back | (*set >> label(v) & 1) << v);
                }
                G::Method::fold(n, outcome, u, w, &answer);
            }
        }
    }
    Ok(labellings)
}

impl LookupStage {
    pub(super) fn new(order: usize, kernel: Kernel) -> Box<Self> {
        Box::new(LookupStage {
            batch: Batch::new(order, kernel),
            predecessor: 0,
            count: 0,
            deletions: [DeletedEdge::default(); LANES],
            rows: [[0; NARROW_ORDER]; LANES],
            labellings: 0,
            labelled: 0,
            slots: [0; LANES],
            places: [0; LANES],
        })
    }

    /// Forgets what was gathered.
    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.labelled = 0;
    }

    /// Takes in the deletion of the edge between u < w of the i-th graph, of order at most 16 with
    /// these rows; whether there is no room for another.
    #[inline(always)]
    pub(super) fn gather<const R: usize>(
        &mut self,
        predecessor: &Predecessor,
        i: usize,
        rows: &[u16; R],
        u: usize,
        w: usize,
    ) -> bool {
        let LookupStage { batch, deletions, rows: left, .. } = self;
        // Read once, as a compiler that cannot tell it from what is written would do again and again.
        let lane = self.count;
        if lane == 0 {
            batch.set_colours(&predecessor.colours);
            batch.set_alike(&predecessor.alike);
        }
        let left = &mut left[lane];
        left[..R].copy_from_slice(rows);
        left[u] = rows[u] & !(1 << w);
        left[w] = rows[w] & !(1 << u);
        batch.set_colour(lane, u, predecessor.low_colour);
        batch.set_colour(lane, w, predecessor.high_colour);
        deletions[lane] = DeletedEdge { graph: i as u32, u: u as u8, w: w as u8 };
        self.count = lane + 1;
        self.count == LANES
    }

    /// Labels what was gathered. Undecided lanes are taken out, and handed over.
    #[inline(always)]
    pub(super) fn label(&mut self, n: usize, mut hand_over: impl FnMut(Undecided, DeletedEdge)) {
        self.labelled = if self.count > 0 {
            self.batch.set_rows(&self.rows);
            self.batch.label(self.count)
        } else {
            0
        };
        self.labellings += self.count as u64;
        for lane in lanes_of(first_lanes(self.count) & !self.labelled) {
            hand_over(self.batch.undecided(lane), self.deletions[lane]);
        }
        for (slot, key) in self.slots.iter_mut().zip(self.batch.keys(self.labelled)) {
            *slot = slot_of_key(n, key);
        }
    }

    /// What was labelled.
    pub(super) fn labelled(&self) -> impl Iterator<Item = LabelledDeletion> {
        let packed = self.batch.packed_labels();
        lanes_of(self.labelled).map(move |lane| LabelledDeletion {
            slot: self.slots[lane],
            deletion: self.deletions[lane],
            labels: packed.words(lane),
        })
    }

    /// Takes in up to 32 deletions that have been labelled, in place of what was there.
    #[inline(always)]
    pub(super) fn put(&mut self, labelled: impl ExactSizeIterator<Item = LabelledDeletion>) {
        self.clear();
        self.count = labelled.len();
        self.labelled = first_lanes(self.count);
        let mut packed = PackedLabels::default();
        for (lane, LabelledDeletion { slot, deletion, labels }) in labelled.enumerate() {
            self.slots[lane] = slot;
            self.deletions[lane] = deletion;
            packed.put(lane, labels);
        }
        self.batch.put_packed_labels(&packed);
    }

    /// Finds out where the records of labelled deletions are, and asks for them.
    pub(super) fn locate(&mut self, group: &[Predecessor], n: usize) {
        let table_of = group[self.predecessor].tables_by_slot(n);
        for lane in lanes_of(self.labelled) {
            self.places[lane] = table_of(self.slots[lane]).locate(self.slots[lane]);
        }
    }

    /// Reads the records of located deletions and folds them.
    pub(super) fn look_up_and_fold<G: Game>(
        &self,
        group: &[Predecessor],
        n: usize,
        outcomes: &mut [G::Outcome],
    ) -> Result<(), SolveError> {
        if self.labelled == 0 {
            return Ok(());
        }
        let predecessor = &group[self.predecessor];
        let table_of = predecessor.tables_by_slot(n);
        let mut sets = [Lane([0; LANES]); 2];
        let mut flags = [0; LANES];
        for lane in lanes_of(self.labelled) {
            let (slot, place) = (self.slots[lane], self.places[lane]);
            let Some(record) = table_of(slot).look_up(slot, place) else {
                let sequence = predecessor.sequence;
                return Err(SolveError::MissingPredecessor { sequence, slot });
            };
            let DeletedEdge { u, w, .. } = self.deletions[lane];
            let [u, w] = [u, w].map(|v| self.batch.label_of(lane, v.into()));
            let answer = G::Method::ask(n, record, u, w);
            sets[0].0[lane] = answer.sets[0] as u16;
            sets[1].0[lane] = answer.sets[1] as u16;
            flags[lane] = answer.flags;
        }
        let sets = self.batch.pull_back(&sets);
        for lane in lanes_of(self.labelled) {
            let DeletedEdge { graph, u, w } = self.deletions[lane];
            let answer = PredecessorAnswer {
                sets: [sets[0].0[lane].into(), sets[1].0[lane].into()],
                flags: flags[lane],
            };
            G::Method::fold(n, &mut outcomes[graph as usize], u as usize, w as usize, &answer);
        }
        Ok(())
    }
}
