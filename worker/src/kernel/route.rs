//! The second half of the route where a predecessor is large: each deletion that leads there is
//! labelled once and kept as a request, in the order of slots. Then the buckets are read one after
//! the other, or all of them are held, and each piece of them, which the processor's cache holds,
//! answers its requests.

use std::ops::Range;

use rayon::prelude::*;
use trailtrap_shared::{
    game::Game,
    generate::Child,
    graph::degree::Deletion,
    labelling::{
        MAX_PLAIN_ORDER,
        batch::{Batch, Kernel, LABEL_WORDS, LANES, PackedLabels},
        forest::Forest,
    },
    partition::{Asked, bucket_of_slot, most_bucket_bits, prefetch, slot_of_key},
    plan::{Plan, Shard},
};

use super::{
    CHUNK, Graphs, SolveError, Solver, Source, decode,
    delete::{DeletedEdge, LeadingEdges, Predecessor, expected_edges},
    fold::{LabelledDeletion, LookupStage, Reading, table_bytes},
    read::{Bucket, ReadAhead},
};

/// Graphs whose requests are sorted together, at most: so few that their outcomes stay in the cache.
const ROUTED_CHUNK: usize = if cfg!(test) { 8 } else { 8192 };

// Requests have 16 bits for a graph of a chunk.
const _: () = assert!(ROUTED_CHUNK <= 1 << 16);

/// Bytes of requests, for each graph of a unit, that may wait at a time: about as many as the graph
/// itself takes while its unit is solved.
const BYTES_PER_GRAPH: usize = 48;

/// The rows of a graph whose deletions can be kept as requests.
type PlainRows = [u16; MAX_PLAIN_ORDER];

/// What a labelled deletion asks for, in 16 bytes.
#[derive(Clone, Copy, Default)]
struct Request {
    /// The slot of at most 55 bits, then the ends of the edge: w, then u < w.
    slot_and_edge: u64,
    /// As [`PackedLabels`] has them, the words that labels of order 12 take.
    labels: [u16; REQUEST_WORDS],
    /// The index of the graph in its chunk.
    graph: u16,
}

/// Bytes of a piece of a table whose requests are answered together. The outcomes of a chunk have
/// room beside it in the processor's cache.
const PIECE_BYTES: usize = if cfg!(test) { 250 } else { 4 << 20 };
/// A chunk has so many requests to a piece at least, on average: some batches, of which each is asked
/// for while another is answered.
const PIECE_REQUESTS: usize = if cfg!(test) { 2 } else { 8 * LANES };

/// The requests of a chunk of graphs to one predecessor.
#[derive(Default)]
pub(super) struct Routed {
    /// In the order of the upper bits of their slots: at least those that say the bucket, and
    /// [`SORTED_BITS`].
    requests: Vec<Request>,
    /// By what these bits say: where such requests end. A search in what is in memory, and not in the
    /// processor's cache, for each piece of each chunk would take a good part of the time.
    ends: Vec<u32>,
    /// How many deletions were labelled.
    labellings: u64,
}

impl Routed {
    /// The requests that belong to a piece.
    fn of(&self, piece: &Range<u32>) -> &[Request] {
        let before = |bits: u32| bits.checked_sub(1).map_or(0, |last| self.ends[last as usize]);
        &self.requests[before(piece.start) as usize..before(piece.end) as usize]
    }
}

/// Of one end of an edge.
const END_BITS: u32 = 4;
const EDGE_BITS: u32 = 2 * END_BITS;
/// Where requests are kept, orders are at most 12.
const REQUEST_WORDS: usize = MAX_PLAIN_ORDER.div_ceil(4);
/// Requests are sorted by so many bits of their slots even if there are fewer buckets, so that
/// those that follow each other are answered from what is close together. A table has no more pieces.
const SORTED_BITS: u8 = 10;

impl Request {
    #[inline(always)]
    fn new(LabelledDeletion { slot, deletion, labels }: LabelledDeletion) -> Self {
        let edge = u64::from(deletion.w) << END_BITS | u64::from(deletion.u);
        Request {
            slot_and_edge: slot << EDGE_BITS | edge,
            labels: std::array::from_fn(|k| labels[k]),
            graph: deletion.graph as u16,
        }
    }

    #[inline(always)]
    fn slot(self) -> u64 {
        self.slot_and_edge >> EDGE_BITS
    }

    #[inline(always)]
    fn labelled(self) -> LabelledDeletion {
        let end = |bit: u32| (self.slot_and_edge >> bit) as u8 & ((1 << END_BITS) - 1);
        let mut labels = [0; LABEL_WORDS];
        labels[..REQUEST_WORDS].copy_from_slice(&self.labels);
        let deletion = DeletedEdge { graph: self.graph.into(), u: end(0), w: end(END_BITS) };
        LabelledDeletion { slot: self.slot(), deletion, labels }
    }
}

/// How often the buckets of a predecessor are read.
struct Rounds {
    /// Whether all tables are held together: if the allowance suffices, or there is one.
    is_held: bool,
    /// So many graphs have their requests answered together.
    together: usize,
    /// All buckets are read so often: for each so many graphs, unless they are held.
    count: usize,
}

impl Rounds {
    /// Of a shard that a unit of so many graphs reads, of which about so many edges lead there.
    fn of(
        plan: &Plan,
        from: &Shard,
        graphs: usize,
        expected_edges: f64,
        allowance_bytes: usize,
    ) -> Self {
        let is_held = from.bucket_bits == 0 || table_bytes(plan, from) <= allowance_bytes;
        let requests_bytes = if is_held { 0 } else { allowance_bytes };
        let together = graphs_together(requests_bytes, graphs, expected_edges);
        let count = if is_held { 1 } else { graphs.div_ceil(together).max(1) };
        Rounds { is_held, together, count }
    }
}

/// A predecessor to which requests are kept, and how its tables are read.
struct Input {
    predecessor: Predecessor,
    /// About the bytes of the table of a bucket, …
    bucket_bytes: usize,
    /// … and how many graphs it has.
    bucket_graphs: u64,
    rounds: Rounds,
    /// Whether tables need have no more than what is asked for, as others do not find them in a cache.
    is_asked: bool,
    /// Where its buckets are among those that are read ahead.
    first: usize,
    /// What is asked for is known of those before this one once it is of these.
    known_after: usize,
}

impl Input {
    /// Its buckets, of which all is read.
    fn buckets(&self) -> impl Iterator<Item = Bucket> {
        (0..self.predecessor.buckets()).map(|number| self.bucket(number))
    }

    fn bucket(&self, number: u32) -> Bucket {
        Bucket { key: self.predecessor.key(number), bytes: self.bucket_bytes, asked: None }
    }

    /// One of its buckets, and what requests ask for of it; of all if it is so much, or the bucket so
    /// small, that the table of all takes no more time.
    fn asked_bucket(&self, routed: &[Routed], n: usize, number: u32) -> Bucket {
        let (bits, all) = (self.predecessor.bucket_bits, self.bucket(number));
        let more = sorted_bits(n, bits) - bits;
        let piece = number << more..(number + 1) << more;
        let requests = || routed.iter().map(|chunk| chunk.of(&piece));
        let count: usize = requests().map(<[Request]>::len).sum();
        if !is_little(count, self.bucket_graphs) {
            return all;
        }
        let mut asked = Asked::new(n, bits, count);
        requests().flatten().for_each(|request| asked.ask(request.slot()));
        let share = (count as f64 / self.bucket_graphs as f64 + Asked::TAKEN_FOR_ASKED).min(1.0);
        Bucket { bytes: (all.bytes as f64 * share) as usize, asked: Some(asked), ..all }
    }
}

impl Solver<'_> {
    /// The rows of each graph: decoded once, for all predecessors that requests are kept to.
    fn decode_all(&self, shard: &Shard, children: &[Child]) -> Result<Vec<PlainRows>, SolveError> {
        let mut rows = vec![PlainRows::default(); children.len()];
        let chunks = rows.par_chunks_mut(CHUNK).zip(children.par_chunks(CHUNK));
        chunks.try_for_each(|(rows, children)| {
            self.check_stop()?;
            for (rows, child) in rows.iter_mut().zip(children) {
                let graph = decode(&shard.sequence, child.slot)?;
                *rows = std::array::from_fn(|v| graph.neighbours(v) as u16);
            }
            Ok::<_, SolveError>(())
        })?;
        Ok(rows)
    }

    /// Folds all deletions that lead to these predecessors, one after the other. Their tables are read
    /// ahead, unless what they are to have follows from requests; of one that is too large for the
    /// allowance, some buckets are held at a time. `is_kept` says whether others find them in a cache.
    /// Returns how many deletions were labelled.
    pub(super) fn fold_by_requests<G: Game>(
        &self,
        plan: &Plan,
        graphs: &mut Graphs<G>,
        large: Vec<(Deletion, u32)>,
        source: &dyn Source,
        is_kept: bool,
    ) -> Result<u64, SolveError> {
        let shard = graphs.shard;
        let rows = self.decode_all(shard, graphs.children)?;
        let (mut buckets, mut inputs) = (Vec::new(), Vec::with_capacity(large.len()));
        for (deletion, from) in large {
            let from = &plan.shards[from as usize];
            let predecessor = Predecessor::new(&shard.sequence, &deletion, from.bucket_bits);
            let edges = predecessor.expected_edges;
            let rounds = Rounds::of(plan, from, rows.len(), edges, self.allowance_bytes);
            let input = Input {
                predecessor,
                bucket_bytes: table_bytes(plan, from) >> from.bucket_bits,
                bucket_graphs: from.estimate >> from.bucket_bits,
                is_asked: !rounds.is_held && !is_kept,
                rounds,
                first: buckets.len(),
                known_after: 0,
            };
            (0..input.rounds.count).for_each(|_| buckets.extend(input.buckets()));
            inputs.push(input);
        }
        // Of those up to the next one to which this does not apply, all is read, whatever is asked for.
        let mut known = buckets.len();
        for input in inputs.iter_mut().rev() {
            input.known_after = known;
            known = if input.is_asked { input.first } else { known };
        }
        // Those that are being read are there as blocks, too: so few that these take no more than what
        // the unit holds.
        let threads = rayon::current_num_threads();
        let largest = buckets.iter().map(|bucket| bucket.bytes).max().unwrap_or(1);
        let readers = (self.allowance_bytes / largest.max(1)).clamp(1, threads);
        // One is read while one is looked up in, at least.
        let most_bytes = self.allowance_bytes.max(2 * largest);
        let ahead = ReadAhead::new(source, self.stop, buckets, known, most_bytes);
        let mut routed = Vec::new();
        ahead.beside(readers, || {
            let mut labellings = 0;
            for input in inputs {
                labellings += self.fold_by_request(graphs, &rows, &mut routed, input, &ahead)?;
            }
            Ok(labellings)
        })
    }

    /// Folds all deletions that lead to one predecessor; once labelled, for as many graphs as have
    /// their requests there. Requests take 48 bytes for each graph of the unit, or about the allowance
    /// where that is more and spares reading. `routed` is room for requests, whatever is in it. Returns
    /// how many deletions were labelled.
    fn fold_by_request<G: Game>(
        &self,
        Graphs { shard, outcomes, witness, .. }: &mut Graphs<G>,
        rows: &[PlainRows],
        routed: &mut Vec<Routed>,
        mut input: Input,
        ahead: &ReadAhead,
    ) -> Result<u64, SolveError> {
        let n = shard.sequence.order();
        let count = input.predecessor.buckets() as usize;
        let Rounds { is_held, together, count: rounds } = input.rounds;
        let mut labellings = 0;
        let graphs = rows.chunks(together).zip(outcomes.chunks_mut(together));
        for (round, (rows, outcomes)) in graphs.enumerate() {
            let chunk = chunk_of(rows.len(), rayon::current_num_threads());
            self.label_all(n, rows.par_chunks(chunk), &input.predecessor, routed)?;
            labellings += routed.iter().map(|chunk| chunk.labellings).sum::<u64>();
            if is_held && round > 0 {
                // They were read for the graphs before these.
                self.answer_all::<G>(n, &input.predecessor, routed, outcomes, chunk)?;
                continue;
            }
            let first = input.first + round * count;
            let mut bytes = match input.is_asked {
                true => Vec::with_capacity(count),
                false => vec![input.bucket_bytes; count],
            };
            let mut next = 0;
            while next < count {
                if input.is_asked {
                    let end = count.min(next + ASKED_AHEAD);
                    let asked = |bucket| input.asked_bucket(routed, n, bucket as u32);
                    let asked: Vec<Bucket> =
                        (bytes.len()..end).into_par_iter().map(asked).collect();
                    bytes.extend(asked.iter().map(|bucket| bucket.bytes));
                    let is_all = round + 1 == rounds && end == count;
                    ahead.know(asked, if is_all { input.known_after } else { first + end });
                }
                let held = next..next + self.held_together(&input, &bytes[next..]);
                let predecessor = &mut input.predecessor;
                (predecessor.first_bucket, next) = (held.start, held.end);
                for bucket in held.clone() {
                    let table = ahead.take(first + bucket)?;
                    witness.look_at(&table, predecessor.bucket_bits);
                    predecessor.tables.push(table);
                }
                self.answer_all::<G>(n, predecessor, routed, outcomes, chunk)?;
                if !is_held {
                    predecessor.tables.clear();
                    ahead.give_back(first + held.start..first + held.end);
                }
            }
        }
        if is_held {
            ahead.give_back(input.first..input.first + count);
        }
        Ok(labellings)
    }

    /// How many of the next buckets of a predecessor, of so many bytes each, are held together: all,
    /// or as many as half the allowance has room for, or one. Of those of which it is known what is
    /// asked for half at most, so that others are read while these are looked up in.
    fn held_together(&self, input: &Input, bytes: &[usize]) -> usize {
        if input.rounds.is_held {
            return bytes.len();
        }
        let most = if input.is_asked { ASKED_AHEAD / 2 } else { bytes.len() };
        let sums = bytes.iter().take(most).scan(0, |sum, bytes| {
            *sum += bytes;
            Some(*sum)
        });
        sums.take_while(|&sum| sum <= self.allowance_bytes / 2).count().max(1)
    }

    /// Answers the requests to tables that are held.
    fn answer_all<G: Game>(
        &self,
        n: usize,
        predecessor: &Predecessor,
        routed: &[Routed],
        outcomes: &mut [G::Outcome],
        chunk: usize,
    ) -> Result<(), SolveError> {
        for piece in pieces(n, predecessor, routed) {
            let chunks = routed.par_iter().zip(outcomes.par_chunks_mut(chunk));
            chunks.try_for_each_init(
                || Answerer::new(n, self.kernel),
                |answerer, (routed, outcomes)| {
                    self.check_stop()?;
                    let requests = routed.of(&piece);
                    answerer.answer::<G>(requests, predecessor, outcomes)
                },
            )?;
        }
        Ok(())
    }

    /// Puts the requests of each chunk of graphs in place of what `routed` has.
    fn label_all(
        &self,
        n: usize,
        chunks: rayon::slice::Chunks<PlainRows>,
        predecessor: &Predecessor,
        routed: &mut Vec<Routed>,
    ) -> Result<(), SolveError> {
        routed.resize_with(chunks.len(), Routed::default);
        routed.par_iter_mut().zip(chunks).try_for_each_init(
            || Router::new(n, self.kernel, predecessor),
            |router, (routed, rows)| {
                self.check_stop()?;
                router.run(rows, routed);
                Ok(())
            },
        )
    }
}

/// How many of so many graphs have their requests sorted together: fewer than [`ROUTED_CHUNK`] where
/// otherwise some threads had none.
fn chunk_of(graphs: usize, threads: usize) -> usize {
    graphs.div_ceil(threads).clamp(CHUNK, ROUTED_CHUNK)
}

/// How many of so many graphs have their requests to a predecessor answered together, in whole
/// chunks, if about so many edges of each lead there.
fn graphs_together(requests_bytes: usize, graphs: usize, expected_edges: f64) -> usize {
    let budget_bytes = requests_bytes.max(BYTES_PER_GRAPH * graphs);
    let within = budget_bytes as f64 / (size_of::<Request>() as f64 * expected_edges.max(0.5));
    (within as usize / ROUTED_CHUNK).max(1) * ROUTED_CHUNK
}

/// In how many pieces tables of so many bytes are looked up, if a chunk of graphs has so many
/// requests to them: of [`PIECE_BYTES`], or of more where each chunk had few requests to one.
fn piece_count(bytes: usize, requests: usize) -> usize {
    (bytes / PIECE_BYTES).min(requests / PIECE_REQUESTS).max(1)
}

/// What is asked for is known of so many of the buckets that are looked up in next.
const ASKED_AHEAD: usize = if cfg!(test) { 2 } else { 8 };

/// How a unit reads one of its predecessors.
#[derive(Clone, Copy, Debug)]
pub struct PredecessorReading {
    /// The shard of the predecessor, by index in the plan.
    pub shard: u32,
    /// How often all its buckets are read.
    pub rounds: usize,
    /// About how many edges of a graph lead there.
    pub expected_edges: f64,
    /// If requests are kept, about what part of its entries is in a piece that is looked up in.
    pub piece: Option<f64>,
    /// Whether its tables have only what is asked for, unless they are kept ([`Source::keeps`]).
    pub is_asked: bool,
}

/// How a unit of so many graphs that so many threads solve reads its predecessors, in this order.
pub fn readings(
    plan: &Plan,
    shard: &Shard,
    graphs: usize,
    allowance_bytes: usize,
    threads: usize,
) -> Vec<PredecessorReading> {
    let Reading { large, small } = Reading::of(plan, shard, allowance_bytes);
    let at_once = |(deletion, index): (Deletion, u32)| PredecessorReading {
        shard: index,
        rounds: 1,
        expected_edges: expected_edges(&shard.sequence, &deletion),
        piece: None,
        is_asked: false,
    };
    let by_request = |predecessor: (Deletion, u32)| {
        let reading = at_once(predecessor);
        let from = &plan.shards[reading.shard as usize];
        let Rounds { is_held, together, count: rounds } =
            Rounds::of(plan, from, graphs, reading.expected_edges, allowance_bytes);
        // All buckets, or as many as half the allowance has room for, or one.
        let bytes = table_bytes(plan, from) as f64;
        let buckets = f64::from(1u32 << from.bucket_bits);
        let within = (allowance_bytes as f64 / 2.0 / bytes * buckets).floor().max(1.0);
        let held = if is_held { 1.0 } else { within / buckets };
        let here = graphs.min(together);
        let chunk = here as f64 / here.div_ceil(chunk_of(here, threads)).max(1) as f64;
        let requests = chunk * reading.expected_edges * held;
        let pieces = piece_count((bytes * held) as usize, requests as usize);
        let asked = (here as f64 * reading.expected_edges) as usize;
        let is_asked = !is_held && is_little(asked, from.estimate);
        PredecessorReading { rounds, piece: Some(held / pieces as f64), is_asked, ..reading }
    };
    large.into_iter().map(by_request).chain(small.into_iter().map(at_once)).collect()
}

/// Ranges of what the upper bits of slots say by which requests are sorted, and which are answered
/// together: all of the buckets that are held, in pieces.
fn pieces(
    n: usize,
    predecessor: &Predecessor,
    routed: &[Routed],
) -> impl Iterator<Item = Range<u32>> + use<> {
    let Predecessor { bucket_bits, tables, first_bucket, .. } = predecessor;
    let requests: usize = routed.iter().map(|chunk| chunk.requests.len()).sum();
    let of_chunk = (requests / routed.len().max(1) * tables.len()) >> bucket_bits;
    let count = piece_count(predecessor.held_bytes(), of_chunk);
    let more = sorted_bits(n, *bucket_bits) - bucket_bits;
    let [first, end] = [*first_bucket, first_bucket + tables.len()].map(|b| (b as u32) << more);
    let length = (end - first).div_ceil(count as u32);
    (first..end).step_by(length as usize).map(move |start| start..end.min(start + length))
}

/// Requests to a predecessor with so many buckets are in the order of so many upper bits of their
/// slots.
fn sorted_bits(n: usize, bucket_bits: u8) -> u8 {
    SORTED_BITS.min(most_bucket_bits(n)).max(bucket_bits)
}

/// Whether so many requests ask for few of so many graphs: for two thirds at most, about, if they were
/// at random.
fn is_little(requests: usize, graphs: u64) -> bool {
    (requests as u64) < graphs
}

/// Folds what tables answer to requests.
struct Answerer {
    order: usize,
    /// While records and outcomes of one batch are on their way, the next is put together, and
    /// the directory entries of the one after that are asked for.
    stages: [Box<LookupStage>; 2],
}

impl Answerer {
    fn new(order: usize, kernel: Kernel) -> Self {
        let stage = || LookupStage::new(order, kernel);
        Answerer { order, stages: [stage(), stage()] }
    }

    /// Of requests to tables that are held.
    fn answer<G: Game>(
        &mut self,
        requests: &[Request],
        predecessor: &Predecessor,
        outcomes: &mut [G::Outcome],
    ) -> Result<(), SolveError> {
        let (n, group) = (self.order, std::slice::from_ref(predecessor));
        let table_of = predecessor.tables_by_slot(n);
        let mut batches = requests.chunks(LANES);
        while let Some(requests) = batches.next() {
            let [next, located] = &mut self.stages;
            for request in batches.clone().next().unwrap_or_default() {
                table_of(request.slot()).prefetch(request.slot());
            }
            next.put(requests.iter().map(|request| request.labelled()));
            for request in requests {
                prefetch(outcomes, request.graph.into());
            }
            next.locate(group, n);
            located.look_up_and_fold::<G>(group, n, outcomes)?;
            located.clear();
            self.stages.swap(0, 1);
        }
        let [_, located] = &mut self.stages;
        located.look_up_and_fold::<G>(group, n, outcomes)?;
        located.clear();
        Ok(())
    }
}

/// Labels the deletions of some graphs that lead to one predecessor.
struct Router<'a> {
    order: usize,
    predecessor: &'a Predecessor,
    leading: LeadingEdges,
    stage: Box<LookupStage>,
    /// Deletions whose colours did not decide their labels wait for each other to be searched
    /// together.
    forest: Forest<DeletedEdge>,
    /// In the order in which deletions were labelled.
    requests: Vec<Request>,
}

impl<'a> Router<'a> {
    fn new(order: usize, kernel: Kernel, predecessor: &'a Predecessor) -> Self {
        Router {
            order,
            predecessor,
            leading: LeadingEdges::default(),
            stage: LookupStage::new(order, kernel),
            forest: Forest::new(Batch::new(order, kernel)),
            requests: Vec::new(),
        }
    }

    fn run(&mut self, rows: &[PlainRows], routed: &mut Routed) {
        self.requests.clear();
        let before = self.stage.labellings;
        let mut leading = std::mem::take(&mut self.leading);
        for (first, rows) in (0..).step_by(CHUNK).zip(rows.chunks(CHUNK)) {
            for (i, u, w) in leading.of(self.predecessor, rows) {
                if self.stage.gather(self.predecessor, first + i, &rows[i], u, w) {
                    self.label();
                }
            }
        }
        self.leading = leading;
        self.label();
        self.search();
        routed.labellings = self.stage.labellings - before;
        let bits = sorted_bits(self.order, self.predecessor.bucket_bits);
        sort(&self.requests, self.order, bits, routed);
    }

    fn label(&mut self) {
        self.stage.label(self.order, |undecided, deletion| self.forest.push(undecided, deletion));
        self.requests.extend(self.stage.labelled().map(Request::new));
        self.stage.clear();
        if self.forest.is_full() {
            self.search();
        }
    }

    fn search(&mut self) {
        for (deletion, leaf) in self.forest.search() {
            self.requests.push(Request::new(LabelledDeletion {
                slot: slot_of_key(self.order, leaf.key(self.order)),
                deletion: *deletion,
                labels: PackedLabels::words_of(&leaf.label),
            }));
        }
    }
}

/// Puts requests in the order of the upper bits of their slots in place of those that `routed` has,
/// and where they end in place of its ends, in O(requests + 2^`bits`). There is room for a quarter
/// more requests at most.
fn sort(requests: &[Request], n: usize, bits: u8, routed: &mut Routed) {
    let Routed { requests: sorted, ends, .. } = routed;
    let place = |request: &Request| bucket_of_slot(n, request.slot(), bits);
    ends.clear();
    ends.resize(1 << bits, 0);
    for request in requests {
        ends[place(request)] += 1;
    }
    let mut before = 0;
    for end in ends.iter_mut() {
        before += std::mem::replace(end, before);
    }
    let room = sorted.capacity();
    if room < requests.len() || room > requests.len() + requests.len() / 4 {
        *sorted = Vec::with_capacity(requests.len());
    }
    sorted.resize(requests.len(), Request::default());
    // These are where the next one goes, and in the end where the last one went.
    for request in requests {
        let end = &mut ends[place(request)];
        sorted[*end as usize] = *request;
        *end += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trailtrap_shared::partition::slot_bits;

    use super::*;

    fn deletions() -> impl Strategy<Value = LabelledDeletion> {
        let slot = 0..1u64 << slot_bits(MAX_PLAIN_ORDER);
        let edge = (1..MAX_PLAIN_ORDER as u8).prop_flat_map(|w| (0..w, Just(w)));
        let label: [u8; MAX_PLAIN_ORDER] = std::array::from_fn(|v| v as u8);
        let label = Just(label).prop_shuffle();
        (slot, edge, 0..1u32 << 16, label).prop_map(|(slot, (u, w), graph, label)| {
            LabelledDeletion {
                slot,
                deletion: DeletedEdge { graph, u, w },
                labels: PackedLabels::words_of(&std::array::from_fn(|v| {
                    label.get(v).copied().unwrap_or(0)
                })),
            }
        })
    }

    proptest! {
        /// What goes into a request comes out of it.
        #[test]
        fn requests_keep_what_they_are_made_of(made_of in deletions()) {
            let same = Request::new(made_of).labelled();
            prop_assert_eq!(same, made_of);
        }

        /// Every piece finds its requests, and no others, whatever was in their room before.
        #[test]
        fn requests_come_in_the_order_of_pieces(
            made_of in prop::collection::vec(deletions(), 0..50),
            bucket_bits in 0u8..14,
            ends in prop::array::uniform2(any::<prop::sample::Index>()),
            before in 0usize..100,
        ) {
            let n = MAX_PLAIN_ORDER;
            let requests: Vec<Request> = made_of.into_iter().map(Request::new).collect();
            let bits = sorted_bits(n, bucket_bits);
            let mut routed = Routed {
                requests: vec![Request::default(); before],
                ends: vec![before as u32; before],
                labellings: 0,
            };
            sort(&requests, n, bits, &mut routed);
            let sorted = &routed.requests;
            prop_assert!(sorted.capacity() <= sorted.len() + sorted.len() / 4);
            let [one, other] = ends.map(|end| end.index((1 << bits) + 1) as u32);
            let piece = one.min(other)..one.max(other);
            let slots = |requests: &[Request]| -> Vec<u64> {
                let mut slots: Vec<u64> =
                    requests.iter().map(|request| request.slot_and_edge).collect();
                slots.sort_unstable();
                slots
            };
            let is_theirs = |request: &Request| {
                piece.contains(&(bucket_of_slot(n, request.slot(), bits) as u32))
            };
            let theirs: Vec<Request> = requests.iter().copied().filter(is_theirs).collect();
            prop_assert_eq!(slots(routed.of(&piece)), slots(&theirs));
            prop_assert_eq!(slots(sorted), slots(&requests));
        }
    }
}
