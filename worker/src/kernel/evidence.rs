//! What a trial of some records of a unit asks for: taken from the tables that the unit is solved
//! from as they pass, so that nothing has to be read again. The labelling of single graphs only
//! says where to look; whoever tries the records finds out whether it led to the right ones.

use std::{collections::HashMap, ops::Range};

use rayon::prelude::*;
use trailtrap_shared::{
    generate::Child,
    graph::degree::DegreeSequence,
    partition::{BucketTable, bucket_of_slot, places_without_an_edge},
    plan::{Plan, Shard, Unit},
};

use super::{SolveError, Source, decode};

/// The records that some graphs of a unit lead to by deleting an edge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The places of those graphs among all of the unit, in increasing order.
    pub places: Vec<u64>,
    /// Records by degree sequence and slot. What the tables lacked is missing.
    pub records: HashMap<(DegreeSequence, u64), Vec<u8>>,
}

/// Takes evidence of parts of a shard that are solved together.
pub(super) struct Witness {
    record_bytes: usize,
    /// The slots that are asked for, in increasing order, each with the index of the part whose
    /// evidence it belongs to.
    wanted: HashMap<DegreeSequence, Vec<(u64, usize)>>,
    evidence: Vec<Evidence>,
}

impl Witness {
    /// A witness of what `source` says is to be tried. Labels the deletions of these graphs, one by
    /// one.
    pub(super) fn new(
        plan: &Plan,
        shard: &Shard,
        units: &[Unit],
        children: &[Child],
        parts: &[Range<usize>],
        source: &dyn Source,
    ) -> Result<Self, SolveError> {
        let record_bytes = plan.layout.record_bytes(plan.order);
        let mut witness = Witness { record_bytes, wanted: HashMap::new(), evidence: Vec::new() };
        for (part, (unit, range)) in units.iter().zip(parts).enumerate() {
            let places = source.drawn(*unit, range.len() as u64);
            if plan.layout.reads_predecessors {
                let graphs = &children[range.clone()];
                let tried = places.par_iter().filter_map(|&place| graphs.get(place as usize));
                let places_of = |child: &Child| -> Result<Vec<_>, SolveError> {
                    let graph = decode(&shard.sequence, child.slot)?;
                    Ok(places_without_an_edge(&graph).collect())
                };
                let led_to: Result<Vec<_>, _> = tried.map(places_of).collect();
                for (sequence, slot) in led_to?.into_iter().flatten() {
                    witness.wanted.entry(sequence).or_default().push((slot, part));
                }
            }
            witness.evidence.push(Evidence { places, records: HashMap::new() });
        }
        witness.wanted.values_mut().for_each(|wanted| {
            wanted.sort_unstable();
            wanted.dedup();
        });
        Ok(witness)
    }

    /// Takes from a table, one of 2^`bucket_bits`, what is asked for. Of a table that has only what
    /// graphs of the unit look up, too: those that are to be tried are among them.
    pub(super) fn look_at(&mut self, table: &BucketTable, bucket_bits: u8) {
        let sequence = table.sequence();
        let Some(wanted) = self.wanted.get(sequence) else { return };
        let (n, bucket) = (sequence.order(), table.bucket() as usize);
        let up_to = |bucket: usize| {
            wanted.partition_point(|&(slot, _)| bucket_of_slot(n, slot, bucket_bits) < bucket)
        };
        for &(slot, part) in &wanted[up_to(bucket)..up_to(bucket + 1)] {
            if let Some(record) = table.look_up(slot, table.locate(slot)) {
                let record = record[..self.record_bytes].to_vec();
                self.evidence[part].records.insert((*sequence, slot), record);
            }
        }
    }

    /// The evidence of each part.
    pub(super) fn finish(self) -> Vec<Evidence> {
        self.evidence
    }
}
