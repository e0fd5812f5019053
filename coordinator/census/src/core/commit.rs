//! What is durable: accepted units are committed, one order follows the other, and units are taken
//! back, with which a new edition begins.

use trailtrap_shared::plan::Unit;

use super::{CommitEntry, Core, Effect, Order, Refusal};
use crate::records::OrderResult;

impl Core {
    /// The committer is about to make these entries durable. Returns those of them that still
    /// count: what was accepted in an earlier edition is dropped.
    pub fn writing(&mut self, entries: Vec<CommitEntry>) -> Vec<CommitEntry> {
        let has_ended = self.ended.is_some();
        let (live, dropped): (Vec<CommitEntry>, Vec<CommitEntry>) =
            entries.into_iter().partition(|entry| !has_ended && entry.edition == self.edition);
        for arrival in dropped.into_iter().filter_map(|entry| entry.arrival) {
            if self.awaited.remove(&arrival).is_some() {
                let refusal = if has_ended { Refusal::Ended } else { Refusal::Void };
                self.emit(Effect::Answer { arrival, answer: Err(refusal) });
            }
        }
        live
    }

    /// These entries are durable.
    pub fn written(&mut self, entries: Vec<CommitEntry>) {
        for entry in entries {
            if entry.edition == self.edition {
                for delivery in &entry.deliveries {
                    self.pending.remove(&delivery.unit);
                    self.pending_bytes -= delivery.record.bytes as usize;
                }
                if let Some(order) = &mut self.order {
                    order.to_commit -= entry.deliveries.len() + entry.confirmed.len();
                    order.add_droppable(entry.retired);
                }
            }
            if let Some(arrival) = entry.arrival
                && let Some(accepted) = self.awaited.remove(&arrival)
            {
                self.emit(Effect::Answer { arrival, answer: Ok(accepted) });
            }
        }
        self.make_room();
        let disputed = self.first_disputed();
        if self.is_order_done() {
            self.close_order();
        } else if let Some(order) = &mut self.order
            && let Some(shards) = order.take_droppable(disputed)
        {
            let (plan, with_graphs) = (order.plan().clone(), order.graphs_dropped());
            self.emit(Effect::Drop { plan, shards, with_graphs });
        }
        self.emit(Effect::Wake);
    }

    /// Nothing more is accepted of the order in work.
    fn close_order(&mut self) {
        if let Some(order) = self.order.take() {
            self.emit(Effect::CloseOrder { plan: order.plan().clone() });
        }
    }

    /// The result of the order that was closed is durable.
    pub fn closed(&mut self, result: OrderResult) {
        self.results.push(result);
        self.open_next();
    }

    /// Has the next order opened, or ends the census; but not before what is to be taken back is.
    pub(super) fn open_next(&mut self) {
        if self.editions_due > 0 {
            return;
        }
        match self.results.len() + 1 {
            order if order > self.settings.target => self.end(Ok(())),
            order => self.emit(Effect::OpenOrder { order, edition: self.edition }),
        }
    }

    /// The order that was to be opened has a result already.
    pub fn found_finished(&mut self, edition: u32, result: OrderResult) {
        if edition == self.edition {
            self.closed(result);
        }
    }

    /// The order that was to be opened cannot be generated, since the graphs of the order below,
    /// of which these are the units, were not kept.
    pub fn found_without_parents(&mut self, edition: u32, units: Vec<Unit>) {
        if edition == self.edition {
            self.take_back(units);
        }
    }

    /// An order was opened.
    pub fn opened(&mut self, edition: u32, mut order: Box<Order>) {
        if edition != self.edition {
            return;
        }
        let stale = std::mem::take(&mut order.stale);
        self.order = Some(order);
        self.unread.clear();
        if !stale.is_empty() {
            self.emit(Effect::Commit(CommitEntry { stale, ..CommitEntry::of(edition) }));
        }
        if self.is_order_done() {
            // Everything was durable but the result.
            return self.close_order();
        }
        self.emit(Effect::Wake);
    }

    /// Takes units back: all leases are void, and the committer begins a new edition.
    pub(super) fn take_back(&mut self, units: Vec<Unit>) {
        self.void();
        self.editions_due += 1;
        self.emit(Effect::BeginEdition { units });
    }

    /// Drops all that is in work.
    pub(super) fn void(&mut self) {
        self.edition += 1;
        self.order = None;
        self.leases.void();
        self.pending.clear();
        self.pending_bytes = 0;
        self.unread.clear();
        self.contests.clear();
        self.emit(Effect::EditionOver);
        self.make_room();
    }

    /// The committer begins an edition, which has this number.
    pub fn beginning(&mut self) -> u32 {
        // Something may have been begun, and accepted, between the taking back and now.
        self.void();
        self.edition
    }

    /// The units are taken back and the edition is begun, in the store. Results of orders from
    /// `first` on are withdrawn, but for those that do not follow from the units: these are found
    /// again.
    pub fn begun(&mut self, first: Option<usize>) {
        self.editions_due -= 1;
        if let Some(first) = first {
            self.results.truncate(first - 1);
        }
        self.open_next();
    }
}
