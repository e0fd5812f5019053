//! Blocks that lie on the shelves of workers: which of them, what is still wanted, and how they are
//! read. The database has a reference in the place of each, as for blocks in a depot. How a store
//! begins with shelves, and goes on without them.
//!
//! Nothing about shelves is durable here but that there are some: every worker says what lies on
//! its shelf, again and again, and hears what of that is not wanted any more.

use std::{
    cmp::Reverse,
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rocksdb::IteratorMode;
use trailtrap_shared::{
    game::Layout,
    partition::{Block, BlockName, Checksum, Section},
    protocol::{
        codec,
        shelves::{ShelfNumber, ShelfPlace, Shelves},
    },
};
use trailtrap_worker::supply::{kept::Mark, shelf::others::OtherShelves};

use super::{
    Store, StoreError,
    database::{family, section_name},
    depot::referred,
    format::SHELVES_FORMAT,
    keys::{FORMAT, MARK, SHELVES},
};

/// Between two attempts to read a block whose shelves are away.
const PAUSE: Duration = Duration::from_millis(200);
/// A block that has lain on a shelf for so long without being named by a delivery is removed: no
/// delivery will name it.
const SETTLED: Duration = Duration::from_secs(900);
/// Whoever was heard of within this time is read from first.
const FRESH: Duration = Duration::from_secs(30);
/// What is of no use any more is looked for so often.
const SWEEPING: Duration = Duration::from_secs(600);
/// A shelf whose worker was not heard of for so long is forgotten. Until then the worker may come back
/// as if nothing had happened: jobs and machines are suspended, and wake up.
const FORGOTTEN: Duration = Duration::from_secs(7 * 24 * 3600);
/// So many copies are asked for at a time.
const COPIED: usize = 16;

/// What is known of a block that lies on shelves, or did.
#[derive(Clone, Copy, Debug, Default)]
struct Shelved {
    shelves: Shelves,
    /// Whether the database refers to it.
    is_kept: bool,
    /// Whether nobody has said yet that it has it, since the database was opened, or whoever said so
    /// does not.
    is_awaited: bool,
    /// Deliveries of it that are not answered yet.
    deliveries: u32,
    /// Since when it has not been wanted, if it is not.
    unwanted: Duration,
}

impl Shelved {
    /// Whether it may not go.
    fn is_wanted(&self) -> bool {
        self.is_kept || self.deliveries > 0
    }
}

struct KnownShelf {
    place: ShelfPlace,
    /// When its worker was heard of last.
    heard: Duration,
}

/// Where a block can be had.
#[derive(Debug, PartialEq, Eq)]
enum Whereabouts {
    /// At one of these places, those heard of last before the others.
    There(Vec<ShelfPlace>),
    /// Whoever has it may come back: nobody is there, or those who are have come lately.
    Away,
    /// Nowhere.
    Lost,
}

/// Which blocks lie on which shelves, and which shelves there are. Pure: it is told how late it is.
struct ShelfTable {
    blocks: HashMap<Checksum, Shelved>,
    shelves: HashMap<ShelfNumber, KnownShelf>,
    /// The shelves of those who are heard of.
    by_worker: HashMap<u64, ShelfNumber>,
    /// A shelf is waited for so long after its worker was heard of, and while nobody is there.
    patience: Duration,
    /// When a shelf last came while none was there; in the beginning, when the database was opened.
    /// Others may come as it did, and have not said what they have.
    came: Duration,
    /// When it was last looked for what is of no use any more.
    swept: Duration,
}

/// What a worker is told about blocks on its shelf.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tidied {
    /// They may go.
    pub unwanted: Vec<Checksum>,
    /// They lie on no other shelf that is there: a copy is wanted.
    pub lonely: Vec<Checksum>,
}

impl ShelfTable {
    /// The database refers to these blocks; where they lie will be said.
    fn new(kept: impl IntoIterator<Item = BlockName>, patience: Duration) -> Self {
        let shelved = Shelved { is_kept: true, is_awaited: true, ..Shelved::default() };
        let blocks = kept.into_iter().map(|name| (name.checksum, shelved)).collect();
        ShelfTable {
            blocks,
            shelves: HashMap::new(),
            by_worker: HashMap::new(),
            patience,
            came: Duration::ZERO,
            swept: Duration::ZERO,
        }
    }

    /// A worker with a shelf is there.
    fn register(&mut self, worker: u64, place: ShelfPlace, now: Duration) {
        self.come(now);
        self.by_worker.retain(|_, shelf| *shelf != place.number);
        self.by_worker.insert(worker, place.number);
        self.shelves.insert(place.number, KnownShelf { place, heard: now });
    }

    /// A worker was heard of.
    fn hear(&mut self, worker: u64, now: Duration) {
        let Some(&shelf) = self.by_worker.get(&worker) else { return };
        self.come(now);
        if let Some(shelf) = self.shelves.get_mut(&shelf) {
            shelf.heard = now;
        }
    }

    /// A shelf is there now, perhaps the first one.
    fn come(&mut self, now: Duration) {
        if self.places(now).next().is_none() {
            self.came = now;
        }
    }

    /// A block was delivered that lies on these shelves, as its worker says. Those on which it lay
    /// before, and that are there, come first: nobody takes their place by saying so.
    fn delivered(&mut self, name: &BlockName, delivered: Shelves, now: Duration) {
        let before = self.blocks.get(&name.checksum).copied();
        // Who was told that it may go may have it no more.
        let before = before.filter(Shelved::is_wanted).unwrap_or_default();
        let lying = before.shelves;
        let there = lying.iter().filter(|&shelf| self.is_there(shelf, now));
        let shelves = there.chain(delivered.iter()).chain(lying.iter()).collect();
        let deliveries = before.deliveries + 1;
        let is_awaited = false;
        self.blocks.insert(name.checksum, Shelved { shelves, deliveries, is_awaited, ..before });
    }

    /// The delivery of a block is answered. If it was accepted, the database refers to it by now.
    fn answered(&mut self, name: &BlockName, now: Duration) {
        if let Some(shelved) = self.blocks.get_mut(&name.checksum) {
            shelved.deliveries = shelved.deliveries.saturating_sub(1);
            shelved.unwanted = now;
        }
    }

    /// The database refers to it.
    fn keep(&mut self, name: &BlockName) {
        self.blocks.entry(name.checksum).or_default().is_kept = true;
    }

    /// The database does not refer to it any more.
    fn let_go(&mut self, name: &BlockName, now: Duration) {
        if let Some(shelved) = self.blocks.get_mut(&name.checksum) {
            shelved.is_kept = false;
            shelved.unwanted = now;
        }
    }

    /// What is not wanted is known until those who have it have heard of that; after so long they
    /// find it out without. Shelves whose workers are gone are forgotten much later.
    fn sweep(&mut self, now: Duration) {
        if now.saturating_sub(self.swept) < SWEEPING {
            return;
        }
        self.swept = now;
        let is_late = |since: Duration| now.saturating_sub(since) > SETTLED;
        self.blocks.retain(|_, block| block.is_wanted() || !is_late(block.unwanted));
        let patience = self.patience.max(FORGOTTEN);
        self.shelves.retain(|_, shelf| now.saturating_sub(shelf.heard) < patience);
        self.by_worker.retain(|_, shelf| self.shelves.contains_key(shelf));
    }

    /// A block is not on a shelf, or is damaged there. Others that have it may not have said so yet.
    fn lacks(&mut self, shelf: ShelfNumber, checksum: Checksum) {
        if let Some(shelved) = self.blocks.get_mut(&checksum) {
            shelved.shelves.remove(shelf);
            shelved.is_awaited |= shelved.is_kept;
        }
    }

    /// A worker says that these blocks lie on its shelf, and for how long. Nothing is said if it has
    /// no shelf.
    fn tidy(
        &mut self,
        worker: u64,
        listed: impl IntoIterator<Item = (Checksum, Duration)>,
        now: Duration,
    ) -> Tidied {
        self.sweep(now);
        let mut tidied = Tidied::default();
        let Some(&shelf) = self.by_worker.get(&worker) else { return tidied };
        let others = self.places(now).filter(|place| place.number != shelf).count();
        for (checksum, age) in listed {
            let known = self.blocks.get(&checksum).copied();
            let Some(mut shelved) = known.filter(Shelved::is_wanted) else {
                // One that has come since then may have been put there for a delivery that is on its
                // way. The age is in whole seconds.
                let unwanted = known.map(|known| known.unwanted);
                let is_older = |since: Duration| now.saturating_sub(age) < since;
                if age >= SETTLED || unwanted.is_some_and(is_older) {
                    tidied.unwanted.push(checksum);
                }
                continue;
            };
            // Whoever is there takes the place of one who is not.
            let gone = shelved.shelves.iter().find(|&other| !self.is_there(other, now));
            if !shelved.shelves.contains(shelf) && !shelved.shelves.add(shelf) {
                let Some(gone) = gone else {
                    tidied.unwanted.push(checksum);
                    continue;
                };
                shelved.shelves.remove(gone);
                shelved.shelves.add(shelf);
            }
            shelved.is_awaited = false;
            self.blocks.insert(checksum, shelved);
            let there = shelved.shelves.iter().filter(|&shelf| self.is_there(shelf, now)).count();
            let is_lonely = shelved.is_kept && there == 1 && others > 0;
            // In the beginning not all have said what they have.
            if is_lonely && tidied.lonely.len() < COPIED && !self.is_beginning(now) {
                tidied.lonely.push(checksum);
            }
        }
        tidied
    }

    /// Those whose workers were heard of lately.
    fn places(&self, now: Duration) -> impl Iterator<Item = &ShelfPlace> {
        let is_there = move |shelf: &&KnownShelf| self.is_lately(shelf.heard, now);
        self.shelves.values().filter(is_there).map(|shelf| &shelf.place)
    }

    fn is_lately(&self, heard: Duration, now: Duration) -> bool {
        now.saturating_sub(heard) < self.patience
    }

    /// Whether the first of those who are there has come lately: others may come as it did, and not
    /// all have said what they have.
    fn is_beginning(&self, now: Duration) -> bool {
        now.saturating_sub(self.came) < self.patience
    }

    /// Whether the worker of a shelf was heard of lately.
    fn is_there(&self, shelf: ShelfNumber, now: Duration) -> bool {
        self.shelves.get(&shelf).is_some_and(|shelf| self.is_lately(shelf.heard, now))
    }

    /// The shelves on which a block lies: those alone whose workers were heard of just now, if there
    /// are some.
    fn of(&self, name: &BlockName, now: Duration) -> Shelves {
        let Some(shelved) = self.blocks.get(&name.checksum) else { return Shelves::default() };
        let is_fresh = |shelf: &ShelfNumber| {
            let heard = self.shelves.get(shelf).map(|shelf| shelf.heard);
            heard.is_some_and(|heard| now.saturating_sub(heard) < FRESH.min(self.patience))
        };
        let fresh: Shelves = shelved.shelves.iter().filter(is_fresh).collect();
        if fresh.is_empty() { shelved.shelves } else { fresh }
    }

    fn find(&self, name: &BlockName, now: Duration) -> Whereabouts {
        let Some(Shelved { shelves, is_awaited, .. }) = self.blocks.get(&name.checksum) else {
            return Whereabouts::Lost;
        };
        let may_come = || self.is_beginning(now) || self.places(now).next().is_none();
        let mut there: Vec<&KnownShelf> = shelves
            .iter()
            .filter_map(|shelf| self.shelves.get(&shelf))
            .filter(|shelf| self.is_lately(shelf.heard, now))
            .collect();
        // A machine that has lost power is one that was heard of lately, for a while.
        there.sort_by_key(|shelf| Reverse(shelf.heard));
        match there.is_empty() {
            false => {
                Whereabouts::There(there.into_iter().map(|shelf| shelf.place.clone()).collect())
            }
            true if (*is_awaited || !shelves.is_empty()) && may_come() => Whereabouts::Away,
            true => Whereabouts::Lost,
        }
    }
}

/// The shelves on which a census keeps its larger blocks.
pub struct ShelfRoom {
    table: Mutex<ShelfTable>,
    reader: OtherShelves,
    mark: Mark,
    began: Instant,
    patience: Duration,
}

impl ShelfRoom {
    /// The shelves with this mark, of which nothing is known yet but to which blocks the database
    /// refers. Whoever was heard of is waited for so long.
    pub(super) fn new(
        mark: Mark,
        kept: impl IntoIterator<Item = BlockName>,
        reader: OtherShelves,
        patience: Duration,
    ) -> Self {
        ShelfRoom {
            table: Mutex::new(ShelfTable::new(kept, patience)),
            reader,
            mark,
            began: Instant::now(),
            patience,
        }
    }

    /// The mark that shelves of this census have.
    pub fn mark(&self) -> Mark {
        self.mark
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// A worker with a shelf at this place is there.
    pub fn register(&self, worker: u64, place: ShelfPlace) {
        self.table.lock().register(worker, place, self.now());
    }

    /// A worker was heard of.
    pub fn hear(&self, worker: u64) {
        self.table.lock().hear(worker, self.now());
    }

    /// Where shelves are whose workers were heard of lately.
    pub fn places(&self) -> Vec<ShelfPlace> {
        self.table.lock().places(self.now()).cloned().collect()
    }

    /// A worker says that these blocks lie on its shelf, and for how long.
    pub fn tidy(
        &self,
        worker: u64,
        listed: impl IntoIterator<Item = (Checksum, Duration)>,
    ) -> Tidied {
        self.table.lock().tidy(worker, listed, self.now())
    }

    /// These blocks are being delivered, and lie on these shelves.
    pub fn delivered<'n>(&self, names: impl IntoIterator<Item = &'n (BlockName, Shelves)>) {
        let (mut table, now) = (self.table.lock(), self.now());
        names.into_iter().for_each(|(name, shelves)| table.delivered(name, *shelves, now));
    }

    /// Their delivery is answered, in whatever way.
    pub fn answered<'n>(&self, names: impl IntoIterator<Item = &'n (BlockName, Shelves)>) {
        let (mut table, now) = (self.table.lock(), self.now());
        names.into_iter().for_each(|(name, _)| table.answered(name, now));
    }

    /// The database is about to refer to these.
    pub(super) fn keep<'n>(&self, names: impl IntoIterator<Item = &'n BlockName>) {
        let mut table = self.table.lock();
        names.into_iter().for_each(|name| table.keep(name));
    }

    /// The database does not refer to these any more, or soon will not.
    pub(super) fn let_go<'n>(&self, names: impl IntoIterator<Item = &'n BlockName>) {
        let (mut table, now) = (self.table.lock(), self.now());
        names.into_iter().for_each(|name| table.let_go(name, now));
    }

    /// The shelves on which a block lies, for those who want to read it.
    pub fn of(&self, name: &BlockName) -> Shelves {
        self.table.lock().of(name, self.now())
    }

    /// A block, read from one of its shelves. While these are away, or for as long as is waited for
    /// shelves cannot be reached, it is waited for them, and no longer than is said; `None` if that is
    /// too long, or if the block is on none of them, as it should be.
    ///
    /// # Errors
    ///
    /// [`StoreError::Closed`] if nobody is to wait any more.
    pub(super) fn read(
        &self,
        layout: Layout,
        name: &BlockName,
        patience: Duration,
    ) -> Result<Option<Block>, StoreError> {
        let (mut is_said, start, mut there_since) = (false, self.now(), None);
        // Where it should be and is not: it is put there again, and will be said to be there.
        let mut lacking = Vec::new();
        loop {
            let found = self.table.lock().find(name, self.now());
            let places = match found {
                Whereabouts::There(places) => {
                    there_since.get_or_insert_with(|| self.now());
                    places
                }
                Whereabouts::Away => {
                    there_since = None;
                    Vec::new()
                }
                Whereabouts::Lost => return Ok(None),
            };
            for place in places {
                if self.reader.is_closed() {
                    return Err(StoreError::Closed);
                }
                match self.reader.take(layout, &place, name) {
                    Ok(Some(block)) => {
                        let mended = lacking.into_iter().map(|shelf| (shelf, block.clone()));
                        self.reader.mend(mended.collect());
                        return Ok(Some(block));
                    }
                    Ok(None) => {
                        self.table.lock().lacks(place.number, name.checksum);
                        lacking.push(place.number);
                    }
                    Err(status) => {
                        if !is_said {
                            let (shelf, cause) = (place.address, status.message());
                            tracing::warn!(%shelf, cause, "a shelf cannot be read; trying again");
                        }
                        is_said = true;
                    }
                }
            }
            if self.reader.is_closed() {
                return Err(StoreError::Closed);
            }
            let is_long = |since, patience| self.now().saturating_sub(since) >= patience;
            // Its worker may be heard of and not be reached.
            let is_unreachable = there_since.is_some_and(|since| is_long(since, self.patience));
            if is_unreachable || is_long(start, patience) {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Nobody is to wait for shelves any more.
    pub fn close(&self) {
        self.reader.close();
    }

    /// Whether that was said.
    pub fn is_closed(&self) -> bool {
        self.reader.is_closed()
    }
}

impl Store {
    /// Has workers keep larger blocks on their shelves from now on, which get the mark `new` if they
    /// have none yet. Whoever has such blocks and was heard of is waited for so long.
    ///
    /// # Errors
    ///
    /// The census keeps them in a depot; or the store cannot be read or written.
    pub fn keep_on_shelves(
        &mut self,
        new: Mark,
        reader: OtherShelves,
        patience: Duration,
    ) -> Result<(), StoreError> {
        if let Some(depot) = &self.depot {
            return Err(StoreError::InDepot(depot.place().to_owned()));
        }
        let mark = self.own_mark(new)?;
        if self.shelf_mark.is_none() {
            self.adopt_shelves(mark)?;
        }
        // Before it is known to what the database refers.
        self.finish_dropping()?;
        let mut kept = Vec::new();
        for section in [Section::Keys, Section::Outcomes] {
            kept.extend(self.references(section, &[], &[u8::MAX])?);
        }
        self.shelves = Some(ShelfRoom::new(mark, kept, reader, patience));
        Ok(())
    }

    /// The store goes on without shelves, on which nothing lies any more.
    ///
    /// # Errors
    ///
    /// [`StoreError::OnShelves`] if something does; or the store cannot be read or written.
    pub(super) fn leave_shelves(&mut self) -> Result<(), StoreError> {
        if self.shelf_mark.is_none() {
            return Ok(());
        }
        self.finish_dropping()?;
        if self.needs_shelves()? {
            return Err(StoreError::OnShelves);
        }
        self.shelf_mark = None;
        self.change(vec![(SHELVES.to_vec(), None)])
    }

    /// Whether something of it lies on shelves.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn needs_shelves(&self) -> Result<bool, StoreError> {
        Ok(self.is_on_shelves() && self.refers_elsewhere()?)
    }

    /// Whether something of it lies in a depot or on shelves.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn refers_elsewhere(&self) -> Result<bool, StoreError> {
        self.database.run(|db| {
            for section in [Section::Keys, Section::Outcomes] {
                for item in db.iterator_cf(family(db, section_name(section)), IteratorMode::Start)
                {
                    if referred(&item?.1).is_some() {
                        return Ok(true);
                    }
                }
            }
            Ok(false)
        })
    }

    /// Whether workers keep its larger blocks.
    pub fn is_on_shelves(&self) -> bool {
        self.shelf_mark.is_some()
    }

    /// The shelves on which larger blocks are kept, if this process reaches them.
    pub fn shelves(&self) -> Option<&ShelfRoom> {
        self.shelves.as_ref()
    }

    /// Workers keep larger blocks on their shelves, which have this mark already; but what lies
    /// there is not known.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub(super) fn adopt_shelves(&mut self, mark: Mark) -> Result<(), StoreError> {
        self.shelf_mark = Some(mark);
        let format = codec::encode(&self.format(SHELVES_FORMAT));
        let mark = codec::encode(&mark.0);
        self.change(vec![
            (MARK.to_vec(), Some(mark.clone())),
            (SHELVES.to_vec(), Some(mark)),
            (FORMAT.to_vec(), Some(format)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use trailtrap_shared::partition::CHECKSUM_BYTES;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn name(number: u8) -> BlockName {
        BlockName { checksum: Checksum([number; CHECKSUM_BYTES]), length: 5000 }
    }

    fn place(number: ShelfNumber) -> ShelfPlace {
        ShelfPlace { number, address: format!("host:{number}"), certificate: None }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn on(shelves: &[ShelfNumber]) -> Shelves {
        shelves.iter().copied().collect()
    }

    /// Whether a worker is told that block `number`, which has lain on its shelf for so many seconds,
    /// may go.
    fn is_unwanted(table: &mut ShelfTable, worker: u64, number: u8, age: u64, now: u64) -> bool {
        let tidied = table.tidy(worker, [(name(number).checksum, at(age))], at(now));
        tidied.unwanted == [name(number).checksum]
    }

    /// Workers 1, 2 and 3 with shelves 11, 12 and 13.
    fn three() -> ShelfTable {
        let mut table = ShelfTable::new([], PATIENCE);
        (1..=3).for_each(|worker| table.register(worker, place(10 + worker), at(0)));
        table
    }

    #[test]
    fn a_block_is_had_from_those_who_are_there_and_is_lost_when_nobody_comes_back() {
        let mut table = three();
        table.delivered(&name(1), on(&[11, 12]), at(0));
        table.keep(&name(1));
        assert_eq!(table.of(&name(1), at(0)), on(&[11, 12]));
        table.hear(2, at(50));
        let both = Whereabouts::There(vec![place(12), place(11)]);
        assert_eq!(table.find(&name(1), at(59)), both, "first who was heard of last");
        assert_eq!(table.of(&name(1), at(70)), on(&[12]));
        assert_eq!(table.find(&name(1), at(70)), Whereabouts::There(vec![place(12)]));
        assert_eq!(table.places(at(70)).collect::<Vec<_>>(), [&place(12)]);
        assert_eq!(table.find(&name(1), at(110)), Whereabouts::Away, "nobody is there");
        // Others may come as this one does.
        table.hear(3, at(110));
        table.hear(3, at(150));
        assert_eq!(table.find(&name(1), at(169)), Whereabouts::Away);
        assert_eq!(table.find(&name(1), at(170)), Whereabouts::Lost);
        assert_eq!(table.of(&name(1), at(170)), on(&[11, 12]), "they may come back");
        // It comes back under another number, and elsewhere.
        table.register(9, ShelfPlace { address: "other:1".to_owned(), ..place(11) }, at(200));
        let Whereabouts::There(places) = table.find(&name(1), at(200)) else {
            panic!("it is back")
        };
        assert_eq!(places[0].address, "other:1");
        table.lacks(11, name(1).checksum);
        assert_eq!(
            table.find(&name(1), at(200)),
            Whereabouts::Lost,
            "others have been there for long"
        );
    }

    /// After a restart those who have blocks say so; until then nothing is lost but what nobody has
    /// ever had.
    #[test]
    fn what_the_database_refers_to_is_found_again() {
        let mut table = ShelfTable::new([name(1), name(2)], PATIENCE);
        assert_eq!(table.find(&name(1), at(9999)), Whereabouts::Away, "nobody has come");
        assert_eq!(table.find(&name(3), at(59)), Whereabouts::Lost);
        // The first may come late, and others after it.
        table.register(1, place(11), at(10_000));
        assert!(!is_unwanted(&mut table, 1, 1, 9999, 10_000));
        assert_eq!(table.find(&name(1), at(10_059)), Whereabouts::There(vec![place(11)]));
        table.hear(1, at(10_050));
        assert_eq!(table.find(&name(2), at(10_059)), Whereabouts::Away);
        assert_eq!(table.find(&name(2), at(10_060)), Whereabouts::Lost);
        // It is damaged there, and who has the other copy has not said so yet.
        table.lacks(11, name(1).checksum);
        assert_eq!(table.find(&name(1), at(10_059)), Whereabouts::Away);
        assert_eq!(table.find(&name(1), at(10_060)), Whereabouts::Lost);
        // Of what is not referred to, some may be on its way.
        assert!(!is_unwanted(&mut table, 1, 3, 899, 10) && is_unwanted(&mut table, 1, 3, 900, 10));
        let unknown = table.tidy(2, [(name(1).checksum, at(9999))], at(10));
        assert_eq!(unknown, Tidied::default(), "it has not said who it is");
    }

    /// A worker that was suspended comes back after hours, and nobody has told it anything.
    #[test]
    fn whoever_was_away_for_long_is_there_again() {
        let mut table = three();
        table.delivered(&name(1), on(&[11]), at(0));
        table.keep(&name(1));
        table.answered(&name(1), at(0));
        [9900, 9950].into_iter().for_each(|now| table.hear(2, at(now)));
        table.tidy(2, [], at(9999));
        assert_eq!(table.find(&name(1), at(9999)), Whereabouts::Lost);
        table.hear(1, at(10_000));
        assert!(!is_unwanted(&mut table, 1, 1, 9000, 10_000));
        assert_eq!(table.find(&name(1), at(10_000)), Whereabouts::There(vec![place(11)]));
    }

    #[test]
    fn two_copies_are_wanted_and_none_of_what_is_dropped() {
        let mut table = three();
        table.delivered(&name(1), on(&[11, 12]), at(0));
        assert!(!is_unwanted(&mut table, 1, 1, 0, 0) && is_unwanted(&mut table, 3, 1, 0, 0));
        // Whoever says that it lies with others takes nobody's place.
        table.delivered(&name(1), on(&[13, 14]), at(0));
        assert_eq!(table.of(&name(1), at(0)), on(&[11, 12]));
        // Neither of the two deliveries is accepted.
        table.answered(&name(1), at(0));
        assert!(!is_unwanted(&mut table, 1, 1, 0, 0));
        table.answered(&name(1), at(20));
        assert!([1, 2].iter().all(|&worker| is_unwanted(&mut table, worker, 1, 10, 20)));
        // What has been put there since then comes with a delivery.
        assert!(!is_unwanted(&mut table, 1, 1, 10, 30) && is_unwanted(&mut table, 1, 1, 11, 30));
        table.delivered(&name(1), on(&[11, 13]), at(30));
        assert_eq!(table.of(&name(1), at(20)), on(&[11, 13]), "not where it has gone");
        // What the database refers to stays until it does not.
        table.keep(&name(1));
        table.answered(&name(1), at(30));
        assert!(!is_unwanted(&mut table, 1, 1, 50, 40));
        table.let_go(&name(1), at(50));
        assert!(is_unwanted(&mut table, 1, 1, 50, 50));
        // All of it is forgotten in time.
        assert!(!table.blocks.is_empty() && !table.shelves.is_empty());
        table.tidy(1, [], at(9999));
        assert!(table.blocks.is_empty() && !table.shelves.is_empty());
        table.tidy(1, [], FORGOTTEN);
        assert!(table.shelves.is_empty() && table.by_worker.is_empty());
    }

    /// Where one of two copies is gone, another is asked for; and whoever has it takes the place.
    #[test]
    fn what_lies_on_one_shelf_is_copied() {
        let mut table = three();
        table.delivered(&name(1), on(&[11, 12]), at(0));
        table.keep(&name(1));
        table.answered(&name(1), at(0));
        [1, 3].into_iter().for_each(|worker| table.hear(worker, at(40)));
        let tidied = |table: &mut ShelfTable, worker: u64, now: u64| {
            table.tidy(worker, [(name(1).checksum, at(now))], at(now))
        };
        table.hear(2, at(20));
        assert_eq!(tidied(&mut table, 1, 79), Tidied::default(), "it may come back");
        let lonely = Tidied { unwanted: Vec::new(), lonely: vec![name(1).checksum] };
        assert_eq!(tidied(&mut table, 1, 80), lonely);
        assert_eq!(tidied(&mut table, 3, 80), Tidied::default(), "it has the copy");
        assert_eq!(table.of(&name(1), at(69)), on(&[11, 13]));
        assert_eq!(tidied(&mut table, 1, 80), Tidied::default());
        table.hear(2, at(81));
        assert!(is_unwanted(&mut table, 2, 1, 81, 81), "there are two others");
        // Nobody else is there.
        table.hear(1, at(139));
        assert_eq!(tidied(&mut table, 1, 150), Tidied::default());
    }

    /// A census that is closed says nothing about what it could not read for that.
    #[test]
    fn who_waits_is_let_go_when_the_census_is_closed() {
        use trailtrap_shared::game::{Game, TrailTrap};
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let reader = || OtherShelves::new(runtime.handle().clone(), None, Default::default());
        let read = |room: &ShelfRoom, patience| room.read(TrailTrap::LAYOUT, &name(1), patience);
        let room = ShelfRoom::new(Mark(7), [name(1)], reader(), Duration::from_secs(86400));
        assert!(matches!(read(&room, Duration::ZERO), Ok(None)), "no longer than is said");
        room.close();
        assert!(matches!(read(&room, Duration::MAX), Err(StoreError::Closed)));
    }
}
