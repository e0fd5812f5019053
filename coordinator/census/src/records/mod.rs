//! What is kept: of units, of orders, and of what was found wrong.

pub mod ahead;
pub mod alarm;
mod author;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use trailtrap_shared::{
    count::{ahead::ToldAhead, digest::Digest, statistics::Statistics, summary::Summary},
    graph::{degree::DegreeSequence, pairs},
    partition::{Block, BlockId, BlockName, Content, Section},
    plan::{Plan, PlanOptions, Unit},
};
use trailtrap_worker::kernel::Evidence;

pub use self::author::Author;

use self::ahead::Ahead;

/// What is kept about a finished unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitRecord {
    /// What was counted about its graphs.
    pub statistics: Statistics,
    /// The public digest, as little-endian bytes.
    pub digest: [u8; 32],
    /// Bytes of its blocks.
    pub bytes: u64,
    /// Time it took its worker.
    pub microseconds: u64,
    /// Who solved it.
    pub worker: Author,
    /// The largest number that a lease had when it was accepted. So what was accepted later has no
    /// smaller one, and a later computation of the unit, which takes a lease of its own, a larger one.
    pub instance: u64,
    /// Of its blocks.
    pub content: Content,
    /// Of the partitions it was computed from: its shard's parents, then its predecessors, in the
    /// order of the plan.
    pub inputs: Content,
    /// Records that were derived again by nauty before it was accepted.
    pub tried: u64,
    /// Other workers that solved it again, with the same results.
    pub confirmed: Vec<Author>,
}

impl UnitRecord {
    /// The public digest of the unit's records.
    pub fn digest(&self) -> Digest {
        Digest::from_le_bytes(self.digest)
    }

    /// Whether two computations of a unit came to the same.
    pub fn agrees(&self, other: &UnitRecord) -> bool {
        self.content == other.content
            && self.digest == other.digest
            && self.statistics == other.statistics
    }

    /// Whether another worker has come to the same that is not among these, who are blamed.
    pub fn is_confirmed(&self, blamed: &[Author]) -> bool {
        self.confirmed.iter().any(|by| !blamed.iter().any(|blamed| blamed.is(by)))
    }
}

/// What is kept about an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRecord {
    /// How it was split.
    pub options: PlanOptions,
    /// Of the plan that shard numbers refer to.
    pub plan_fingerprint: u64,
    /// For each number of edges up to the largest, once all units are done and all checks have
    /// passed.
    pub result: Option<Vec<Summary>>,
    /// Whether the outcomes of all positions are (still) there.
    pub outcomes_kept: bool,
    /// Graphs with more edges are left out; `None` if all are done. The store keeps it beside the
    /// record, which is older.
    #[serde(skip)]
    pub max_size: Option<usize>,
    /// Whether the graphs go with the outcomes, but for those listed, as soon as nothing reads
    /// them: the next order cannot be generated from what is left. Then outcomes are not kept
    /// either. Kept beside the record, too.
    #[serde(skip)]
    pub graphs_dropped: bool,
    /// Whether there was a result, of which something has been taken back. Kept beside the record,
    /// too.
    #[serde(skip)]
    pub withdrawn: bool,
}

/// What is kept of an order beside its record, which is older.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// See [`OrderRecord::max_size`].
    pub limit: Option<u16>,
    /// See [`OrderRecord::graphs_dropped`].
    pub graphs_dropped: bool,
    /// See [`OrderRecord::withdrawn`].
    pub withdrawn: bool,
}

impl OrderRecord {
    /// Of an order that is begun, with all that this plan has, of which everything is kept.
    pub fn begun(plan: &Plan) -> Self {
        OrderRecord {
            options: plan.options,
            plan_fingerprint: plan.fingerprint,
            result: None,
            outcomes_kept: true,
            max_size: plan.limit(),
            graphs_dropped: false,
            withdrawn: false,
        }
    }

    /// The record when something of the order is taken back.
    pub fn withdraw(self) -> Self {
        let withdrawn = self.withdrawn || self.result.is_some();
        OrderRecord { result: None, withdrawn, ..self }
    }

    /// The record of an order with what is kept beside it. The number of edges of a result follows
    /// from the result itself.
    pub fn with(self, order: usize, beside: Beside) -> Self {
        let Beside { limit, graphs_dropped, withdrawn } = beside;
        let max_size = match &self.result {
            Some(by_size) => Some(by_size.len().saturating_sub(1)),
            None => limit.map(usize::from),
        };
        let max_size = max_size.filter(|&max_size| max_size < pairs(order));
        OrderRecord { max_size, graphs_dropped, withdrawn, ..self }
    }
}

/// A finished unit on its way into the store.
pub struct Delivery {
    /// The unit.
    pub unit: Unit,
    /// Its degree sequence.
    pub sequence: DegreeSequence,
    /// Keys, outcomes, wins of each bucket, but for those that are named.
    pub blocks: Vec<Block>,
    /// Blocks that its worker has put into the depot of the census, for good: only their names are
    /// here, by place.
    pub named: Vec<(BlockId, BlockName)>,
    /// What is kept about it.
    pub record: UnitRecord,
    /// What its graphs tell about those with one edge more, once they were counted.
    pub ahead: Option<Ahead>,
    /// What its worker states that its graphs tell about those with one edge more, if blocks of it
    /// are named.
    pub told_ahead: Option<ToldAhead>,
    /// If the embedded worker solved it: its counts, and that its graphs belong to its part, are
    /// taken as stated, unless records of it are drawn, and these are tried with the evidence that
    /// it kept.
    pub own: Option<Evidence>,
}

/// A block of a delivery.
#[derive(Clone, Copy, Debug)]
pub enum DeliveredBlock<'a> {
    /// It is in memory.
    Here(&'a Block),
    /// It lies in the depot.
    Named(&'a BlockName),
}

impl Delivery {
    /// A unit with these blocks and this record, and nothing else.
    pub fn new(
        unit: Unit,
        sequence: DegreeSequence,
        blocks: Vec<Block>,
        record: UnitRecord,
    ) -> Self {
        let (named, ahead, told_ahead, own) = (Vec::new(), None, None, None);
        Delivery { unit, sequence, blocks, named, record, ahead, told_ahead, own }
    }

    /// What was stated of a unit, without its blocks.
    pub fn of_statement(unit: Unit, sequence: DegreeSequence, record: UnitRecord) -> Self {
        Delivery::new(unit, sequence, Vec::new(), record)
    }

    /// The block of a section of a bucket.
    pub fn block(&self, bucket: u32, section: Section) -> Option<DeliveredBlock<'_>> {
        let is_it = |id: &BlockId| (id.bucket, id.section) == (bucket, section);
        let named = self.named.iter().find(|(id, _)| is_it(id));
        let here = || self.blocks.iter().find(|block| is_it(&block.id));
        named
            .map(|(_, name)| DeliveredBlock::Named(name))
            .or_else(|| here().map(DeliveredBlock::Here))
    }
}

/// The unit record and blocks of a solved unit.
pub fn delivery(
    unit: Unit,
    sequence: DegreeSequence,
    blocks: Vec<Block>,
    summary: Summary,
    elapsed: Duration,
    worker: Author,
) -> Delivery {
    let bytes = blocks.iter().map(|block| block.bytes().len() as u64).sum();
    let Summary { statistics, digest } = summary;
    let record = UnitRecord {
        statistics,
        digest: digest.to_le_bytes(),
        bytes,
        microseconds: elapsed.as_micros() as u64,
        worker,
        content: Content::of_unit(&blocks),
        // Known when it is accepted.
        instance: 0,
        inputs: Content::default(),
        tried: 0,
        confirmed: Vec::new(),
    };
    Delivery::new(unit, sequence, blocks, record)
}

/// The results of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderResult {
    /// The order.
    pub order: usize,
    /// For each number of edges, from 0 on; not to the end if graphs with more edges were left
    /// out.
    pub by_size: Vec<Summary>,
}

impl OrderResult {
    /// The largest number of edges of the graphs that it is about.
    pub fn max_size(&self) -> usize {
        self.by_size.len().saturating_sub(1)
    }

    /// Whether it is about all graphs of the order.
    pub fn is_complete(&self) -> bool {
        self.max_size() == pairs(self.order)
    }

    /// The largest number of edges of the graphs that it is about, if these are not all.
    pub fn limit(&self) -> Option<usize> {
        (!self.is_complete()).then(|| self.max_size())
    }

    /// That of all these graphs.
    pub fn total(&self) -> Summary {
        let mut total = Summary::default();
        self.by_size.iter().for_each(|summary| total += summary);
        total
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::de::DeserializeOwned;
    use trailtrap_shared::{
        count::{ahead::Share, statistics::Cell},
        protocol::codec,
    };

    use super::{
        alarm::{Alarm, AlarmKind},
        *,
    };

    /// Every number another one, so that none can be taken for another.
    fn record() -> UnitRecord {
        let mut statistics = Statistics::default();
        let cells = [&mut statistics.classes, &mut statistics.labelled];
        for (i, weighing) in (0..).zip(cells) {
            weighing.all.graphs = 300 + i;
            weighing.all.listed = 200 + i;
            weighing.connected.graphs = 100 + i;
            weighing.connected.listed = 50 + i;
            weighing.sums.0 = [1000 + i, 2000 + i, 3000 + i];
        }
        let structure = &mut statistics.structure;
        let breakdowns = [
            &mut structure.automorphisms,
            &mut structure.bipartite,
            &mut structure.connectivity,
            &mut structure.girth,
        ];
        for (i, breakdown) in (10..).zip(breakdowns) {
            let mut cell = Cell::default();
            cell.classes.graphs = i;
            cell.classes.listed = 20 + i;
            cell.labelled.graphs = 40 + i;
            cell.labelled.listed = 60 + i;
            breakdown.insert(i as u64 + 300, cell);
        }
        UnitRecord {
            statistics,
            digest: std::array::from_fn(|i| i as u8),
            bytes: 70_000,
            microseconds: 80_000,
            worker: Author::new("one", "avx2"),
            instance: 1 << 33,
            content: Content([0xc0; 16]),
            inputs: Content([0x10; 16]),
            tried: 7,
            confirmed: vec![Author::new("two", "portable")],
        }
    }

    /// Results are the same if their blocks, their digest and all of their counts are, whoever has
    /// come to them, when, and from what.
    #[test]
    fn results_agree_in_content_digest_and_counts() {
        let record = record();
        let of_another = UnitRecord {
            bytes: 1,
            microseconds: 2,
            worker: Author::new("three", "portable"),
            instance: 3,
            inputs: Content([0x20; 16]),
            tried: 4,
            confirmed: Vec::new(),
            ..record.clone()
        };
        assert!(record.agrees(&of_another) && of_another.agrees(&record));
        let changes: [fn(&mut UnitRecord); 7] = [
            |other| other.content.0[15] ^= 1,
            |other| other.digest[31] ^= 1,
            |other| other.statistics.classes.all.listed += 1,
            |other| other.statistics.labelled.connected.graphs -= 1,
            |other| other.statistics.classes.sums.0[2] += 1,
            |other| other.statistics.labelled.sums.0[0] += 1,
            |other| other.statistics.structure.girth.clear(),
        ];
        for (i, change) in changes.into_iter().enumerate() {
            let mut other = record.clone();
            change(&mut other);
            assert!(!record.agrees(&other) && !other.agrees(&record), "{i}");
        }
    }

    fn is_frozen<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, bytes: &str) {
        let written = codec::encode(value);
        let text: String = written.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, bytes, "{value:?}");
        assert_eq!(codec::decode::<T>(&written).unwrap(), *value);
    }

    /// Stores have these bytes: a change of the order, the number or the types of fields makes them
    /// unreadable, or read as something else.
    #[test]
    fn what_is_kept_is_written_as_it_always_was() {
        let record = record();
        is_frozen(
            &record,
            concat!(
                "012c010000000000000000000000000000c80000000000000000000000000000006400000000",
                "000000000000000000000032000000000000000000000000000000e803000000000000000000",
                "0000000000d0070000000000000000000000000000b80b00000000000000000000000000002d",
                "010000000000000000000000000000c900000000000000000000000000000065000000000000",
                "00000000000000000033000000000000000000000000000000e9030000000000000000000000",
                "000000d1070000000000000000000000000000b90b0000000000000000000000000000010000",
                "000000000039010000000000000d000000000000000000000000000000210000000000000000",
                "0000000000000035000000000000000000000000000000490000000000000000000000000000",
                "00010000000000000037010000000000000b0000000000000000000000000000001f00000000",
                "0000000000000000000000330000000000000000000000000000004700000000000000000000",
                "0000000000010000000000000038010000000000000c00000000000000000000000000000020",
                "0000000000000000000000000000003400000000000000000000000000000048000000000000",
                "000000000000000000010000000000000036010000000000000a000000000000000000000000",
                "0000001e00000000000000000000000000000032000000000000000000000000000000460000",
                "00000000000000000000000000000102030405060708090a0b0c0d0e0f101112131415161718",
                "191a1b1c1d1e1f7011010000000000803801000000000009000000000000006f6e652c206176",
                "78320000000002000000c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0101010101010101010101010",
                "10101010070000000000000001000000000000000d0000000000000074776f2c20706f727461",
                "626c65",
            ),
        );
        let summary = Summary { statistics: Statistics::default(), digest: record.digest() };
        let order = OrderRecord {
            options: PlanOptions { part_graphs: 300, bucket_bytes: 70_000 },
            plan_fingerprint: 1 << 40,
            result: Some(vec![summary]),
            outcomes_kept: true,
            max_size: None,
            graphs_dropped: false,
            withdrawn: false,
        };
        is_frozen(
            &order,
            concat!(
                "012c010000000000007011010000000000000000000001000001010000000000000000000000",
                "0000000000000000000000000000000000000000000000000000000000000000000000000000",
                "0000000000000000000000000000000000000000000000000000000000000000000000000000",
                "0000000000000000000000000000000000000000000000000000000000000000000000000000",
                "0000000000000000000000000000000000000000000000000000000000000000000000000000",
                "0000000000000000000000000000000000000000000000000000000000000000000000000000",
                "0000000000000000000000000000000000000000000000000000000000000000000000000000",
                "000000000000000000000000000000000000000000000000000102030405060708090a0b0c0d",
                "0e0f101112131415161718191a1b1c1d1e1f01",
            ),
        );
        let unit = Unit { order: 12, shard: 70_000, part: 300 };
        let kinds = [AlarmKind::Disagreement, AlarmKind::Trial, AlarmKind::Damage, AlarmKind::Sum];
        for (number, kind) in kinds.into_iter().enumerate() {
            let alarm = Alarm {
                time: 1 << 31,
                kind,
                unit,
                sequence: "(1,1)".to_owned(),
                text: "a text".to_owned(),
                blamed: vec![record.worker.clone()],
                doubted: vec![unit],
                last_instance: 1 << 34,
                quarantined: Vec::new(),
                settled: Some("a reason".to_owned()),
            };
            let after = concat!(
                "0000000c701101002c010000050000000000000028312c3129060000000000000061207465",
                "7874010000000000000009000000000000006f6e652c206176783201000000000000000c70",
                "1101002c010000000000000400000000000000000000000108000000000000006120726561",
                "736f6e",
            );
            is_frozen(&alarm, &format!("0100000080000000000{number}{after}"));
        }
        let share = Share { classes: 300, labelled: 70_000 };
        let ahead =
            Ahead { content: record.content, shares: vec![(5, share)], masses: Vec::new() };
        is_frozen(
            &ahead,
            concat!(
                "01c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c00100000000000000050000002c0100000000000000",
                "0000000000000070110100000000000000000000000000",
            ),
        );
        // As masses are stored, beside it.
        is_frozen(
            &vec![(6u32, 70_001u128)],
            "0101000000000000000600000071110100000000000000000000000000",
        );
    }
}
