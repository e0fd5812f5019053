//! Where a worker process gets blocks from: a cache on its disk, a depot that all workers share,
//! shelves that workers have for each other, and the coordinator. Unless it is the only one of
//! these, the coordinator only names the blocks, and sends those that are nowhere else.

mod backoff;
#[cfg_attr(not(feature = "s3"), path = "no_bucket.rs")]
mod bucket;
pub mod depot;
mod disk;
mod files;
pub mod kept;
pub mod shelf;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use clap::Args;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use trailtrap_shared::{
    game::Layout,
    partition::{Block, BlockName, Checksum, Section},
    protocol::{
        access::AccessToken,
        messages::{Described, Wanted},
        shelves::{ShelfNumber, ShelfPlace, Shelves},
    },
};

use crate::{
    kernel::SourceError,
    process::limits::{Size, parse_size_from},
    supply::{
        backoff::Rest,
        depot::{Depot, DepotError},
        disk::{DiskCache, DiskError},
        kept::Mark,
        shelf::{Shelf, ShelfError, others::OtherShelves},
    },
};

/// The flags that say where blocks are kept.
#[derive(Args, Clone, Debug)]
pub struct SupplyOptions {
    /// Keep the blocks that were read in this directory, for later and for other workers on this
    /// machine
    #[arg(long, value_name = "DIR", env = "TRAILTRAP_DISK_CACHE")]
    pub disk_cache: Option<PathBuf>,
    /// Bytes that the directory may hold; each process that shares it may go over by a sixteenth
    #[arg(long, value_name = "SIZE", env = "TRAILTRAP_DISK_BUDGET", default_value = "20GiB",
          value_parser = parse_size_from::<{ 1 << 16 }>)]
    pub disk_budget: Size,
    /// Share blocks with all workers that name the same depot: a directory on a file system that
    /// all see, or, if the program was built with the feature s3, s3://BUCKET/PREFIX with
    /// credentials, region and endpoint in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION,
    /// AWS_ENDPOINT_URL and the like. If the coordinator has the same --depot, results are kept
    /// there, and only named to it
    #[arg(long, value_name = "DIR|URL", env = "TRAILTRAP_DEPOT")]
    pub depot: Option<String>,
    /// Keep blocks of the census in this directory, best on a disk of this machine, for all
    /// workers, which read them from here: each block lies on the shelves of two workers. Made if
    /// need be; each worker has its own. For a coordinator with --shelves, and not with --depot
    #[arg(long, value_name = "DIR", env = "TRAILTRAP_SHELF", conflicts_with = "depot")]
    pub shelf: Option<PathBuf>,
    /// Serve the shelf here [default: any port, of all addresses of this machine; of loopback if
    /// the coordinator admits everybody there]
    #[arg(long, value_name = "ADDR:PORT", requires = "shelf", hide_short_help = true)]
    pub shelf_listen: Option<SocketAddr>,
}

/// Why blocks cannot be kept where they should.
#[derive(Debug, thiserror::Error)]
pub enum SupplyError {
    /// The directory of the disk cache is of no use.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The depot is of no use.
    #[error(transparent)]
    Depot(#[from] DepotError),
    /// The shelf is of no use.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
}

/// Blocks of fewer bytes are not worth a file; the coordinator sends them with their description.
const SMALL_BLOCK_BYTES: u64 = 4 << 10;

/// Whether caches and depots keep a block. They keep no small blocks, which the coordinator sends
/// at once, and no wins, which no worker reads.
pub fn is_shared(block: &Block) -> bool {
    block.id.section != Section::Wins && block.name().length >= SMALL_BLOCK_BYTES
}

/// The source of blocks that are in no cache and no depot: the coordinator.
pub trait BlockOrigin {
    /// The layout of the game whose blocks it has.
    fn layout(&self) -> Layout;

    /// The descriptions of the blocks of each of the things wanted, in the order of `wanted`.
    ///
    /// # Errors
    /// If the coordinator is lost, or answers something else.
    fn describe(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Described>>, SourceError>;

    /// The blocks that are asked for, in the order of `requests`.
    ///
    /// # Errors
    /// If the coordinator is lost, or sends damaged blocks.
    fn send(&self, requests: &[BlockRequest]) -> Result<Vec<Vec<Block>>, SourceError>;

    /// Where all shelves are; none if that cannot be found out.
    fn find_shelves(&self) -> Vec<ShelfPlace>;
}

/// What the coordinator is asked to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// What the blocks are from.
    pub wanted: Wanted,
    /// The checksums of the blocks to send; all blocks are sent if there are none.
    pub only: Vec<Checksum>,
}

/// Disk cache, depot and shelves of a worker process, each if there is one.
#[derive(Default)]
pub struct Supply {
    disk: Option<DiskCache>,
    depot: Option<Depot>,
    /// The mark of the depot in which the census keeps its blocks, if there is one.
    mark: ToldMark,
    /// Whether the depot had the mark of some census, in the beginning if it is a directory, or
    /// since.
    is_marked: AtomicBool,
    /// Whether the depot had it lately.
    is_kept: AtomicBool,
    /// A pause after the coordinator has not found what was put there.
    lacking: Rest,
    /// That of this process.
    shelf: Option<Arc<Shelf>>,
    shelf_listen: Option<SocketAddr>,
    /// Those of others, once it is known how to reach them.
    others: OnceLock<OtherShelves>,
    /// The mark of the shelves on which the census keeps its blocks, if there are some.
    shelf_mark: ToldMark,
    /// Whether others can reach that of this process.
    is_reached: AtomicBool,
    traffic: Traffic,
}

/// A mark as the coordinator says it, which may be another one when it is started again.
#[derive(Default)]
struct ToldMark {
    /// Zero, which is no mark, if there is none.
    number: AtomicU64,
}

impl ToldMark {
    fn set(&self, mark: Option<Mark>) {
        self.number.store(mark.map_or(0, |mark| mark.0), Ordering::Relaxed);
    }

    fn get(&self) -> Option<Mark> {
        Some(Mark(self.number.load(Ordering::Relaxed))).filter(|mark| mark.0 != 0)
    }
}

/// Bytes of blocks, by where they came from, and those that were put into the depot or on a shelf.
#[derive(Debug, Default)]
pub struct Traffic {
    coordinator: AtomicU64,
    disk: AtomicU64,
    depot: AtomicU64,
    shelves: AtomicU64,
    put: AtomicU64,
}

impl Supply {
    /// Opens the depot, the shelf and the disk cache that the flags name. A depot that is out of
    /// reach is left out, with a warning. When `stop` is cancelled, nothing waits for the depot any
    /// more.
    ///
    /// # Errors
    /// If the directory of the cache or of the shelf cannot be used, or the depot is none.
    pub fn open(
        options: &SupplyOptions,
        runtime: Handle,
        stop: CancellationToken,
    ) -> Result<Self, SupplyError> {
        let depot = options.depot.as_deref().map(|place| Depot::open(runtime, place, stop));
        let depot = match depot.transpose() {
            Err(error @ DepotError::Away { .. }) => {
                tracing::warn!(%error, "all blocks come from the coordinator");
                None
            }
            other => other?,
        };
        let is_marked = depot.as_ref().is_some_and(Depot::is_marked).into();
        let shelf = options.shelf.as_deref().map(Shelf::new).transpose()?.map(Arc::new);
        // Not where one of these is.
        let disk =
            options.disk_cache.as_deref().map(|path| DiskCache::open(path, options.disk_budget.0));
        let (disk, shelf_listen) = (disk.transpose()?, options.shelf_listen);
        Ok(Supply { disk, depot, is_marked, shelf, shelf_listen, ..Supply::default() })
    }

    /// Serves the shelf of this process, if it has one, and gets ready to reach those of others.
    /// All show this token, if there is one. Returns where the shelf is.
    ///
    /// # Errors
    /// If it cannot be served.
    pub fn join_shelves(
        &self,
        layout: Layout,
        token: Option<AccessToken>,
        runtime: &Handle,
        stop: &CancellationToken,
    ) -> Result<Option<ShelfPlace>, SupplyError> {
        let others = || OtherShelves::new(runtime.clone(), token, stop.clone());
        let token = self.others.get_or_init(others).token();
        let place = self.shelf.clone().map(|shelf| {
            shelf::serve(shelf, layout, token, self.shelf_listen, runtime, stop.clone())
        });
        Ok(place.transpose()?)
    }

    /// All who have shelves show this token from now on, as the access file has it.
    pub fn renew_token(&self, token: AccessToken) {
        if let Some(others) = self.others.get() {
            others.renew(token);
        }
    }

    /// The census keeps its blocks on shelves, and has this mark; or it does not. `is_reached`:
    /// whether the shelf of this process, if it has one, can be reached; else only those of others
    /// are used.
    ///
    /// # Errors
    /// If the shelf of this process is that of another census or process.
    pub fn use_shelves(&self, mark: Option<Mark>, is_reached: bool) -> Result<(), SupplyError> {
        self.shelf_mark.set(mark);
        self.is_reached.store(is_reached, Ordering::Relaxed);
        if self.shelf.is_some() {
            match mark {
                None => tracing::warn!("the coordinator has no --shelves: this shelf is not used"),
                Some(_) if !is_reached => tracing::warn!(
                    "the coordinator does not reach this shelf (--shelf-listen, a firewall): only \
                     those of others are used, and results are sent"
                ),
                Some(_) => {}
            }
        }
        self.begin_shelf()
    }

    /// Begins to use the shelf of this process, if it is to be used and is not yet: its disk was
    /// full.
    ///
    /// # Errors
    /// If the shelf is that of another census or process.
    pub fn begin_shelf(&self) -> Result<(), SupplyError> {
        let (Some(shelf), Some(mark)) = (self.reached_shelf(), self.shelf_mark.get()) else {
            return Ok(());
        };
        match shelf.begin(mark) {
            Err(error) if error.is_disk_full() => {
                tracing::warn!(%error, "the shelf is not used for now");
                Ok(())
            }
            begun => Ok(begun?),
        }
    }

    /// The shelf of this process, if the census keeps blocks there.
    pub fn shelf(&self) -> Option<&Arc<Shelf>> {
        self.reached_shelf().filter(|shelf| shelf.is_begun())
    }

    /// The same, before it is begun, too.
    fn reached_shelf(&self) -> Option<&Arc<Shelf>> {
        let is_used = self.has_shelves() && self.is_reached.load(Ordering::Relaxed);
        self.shelf.as_ref().filter(|_| is_used)
    }

    /// The shelves of others, if the census keeps its blocks on shelves.
    pub fn others(&self) -> Option<&OtherShelves> {
        self.others.get().filter(|_| self.has_shelves())
    }

    /// Whether the census keeps its blocks on shelves.
    fn has_shelves(&self) -> bool {
        self.shelf_mark.get().is_some()
    }

    /// Finds out whether the depot is the one in which the census keeps its blocks; that has this
    /// mark, if there is such a depot.
    pub fn look_for(&self, mark: Option<Mark>) {
        self.mark.set(mark);
        // That it is not any more, `look_again` says.
        let was_kept = self.is_kept.load(Ordering::Relaxed);
        if self.look_again().is_none()
            && !was_kept
            && mark.is_some()
            && let Some(depot) = &self.depot
        {
            tracing::warn!(
                depot = depot.place(),
                "the census keeps its blocks in a depot, and this is another one, or it cannot be \
                 read now: results are sent to the coordinator"
            );
        }
    }

    /// The depot, if it is the one in which the census keeps its blocks.
    fn look_again(&self) -> Option<&Depot> {
        let is_kept = |&(depot, mark): &(&Depot, Mark)| {
            !depot.rests() && !self.lacking.lasts() && depot.has_mark(mark)
        };
        let kept = self.depot.as_ref().zip(self.mark.get()).filter(is_kept);
        let kept = kept.map(|(depot, _)| depot);
        self.is_marked.fetch_or(kept.is_some(), Ordering::Relaxed);
        let was_kept = self.is_kept.swap(kept.is_some(), Ordering::Relaxed);
        match (was_kept, kept.is_some()) {
            (false, true) => tracing::info!("results are kept in the depot, and only named"),
            (true, false) => {
                tracing::warn!("results cannot be kept in the depot now; they are sent")
            }
            _ => {}
        }
        kept
    }

    /// The coordinator has not found what was put into the depot for good: for a while nothing is.
    pub fn note_lacking(&self) {
        self.lacking.begin();
        self.look_again();
    }

    /// Whether results can be kept where the census keeps its blocks, and only named: in the depot,
    /// if they were put there lately without a failure, or on shelves.
    pub fn is_kept(&self) -> bool {
        let has_shelf = || self.shelf().is_some() && !self.lacking.lasts();
        self.is_kept.load(Ordering::Relaxed) || has_shelf()
    }

    /// Whether blocks can be read where the census keeps them.
    pub fn sees_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed) || self.others().is_some()
    }

    /// How many bytes came from where.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// The blocks of each of the things wanted, from the first of disk cache, depot, shelves and
    /// coordinator that has them. Blocks from the depot and from other shelves are kept in the disk
    /// cache, and those from the coordinator in both. Blocks the calling thread.
    ///
    /// # Errors
    /// If the coordinator is lost, or does not send what it describes. Failures of cache, depot and
    /// shelves are no errors: their blocks come from the coordinator.
    pub fn fetch(
        &self,
        wanted: &[Wanted],
        origin: &impl BlockOrigin,
    ) -> Result<Vec<Vec<Block>>, SourceError> {
        if self.disk.is_none() && self.depot.is_none() && self.others().is_none() {
            let all: Vec<BlockRequest> =
                wanted.iter().map(|&wanted| BlockRequest { wanted, only: Vec::new() }).collect();
            let blocks = origin.send(&all)?;
            count(&self.traffic.coordinator, blocks.iter().flatten());
            return Ok(blocks);
        }
        let described = origin.describe(wanted)?;
        let mut found = self.find_nearer(&described, origin);
        let lacking: Vec<BlockRequest> = wanted
            .iter()
            .zip(&described)
            .map(|(&wanted, blocks)| {
                let missing = missing(std::slice::from_ref(blocks), &found);
                BlockRequest { wanted, only: missing.map(|(name, _)| name.checksum).collect() }
            })
            .filter(|request| !request.only.is_empty())
            .collect();
        if !lacking.is_empty() {
            let blocks = origin.send(&lacking)?.concat();
            count(&self.traffic.coordinator, &blocks);
            self.keep(&blocks);
            // The depot lacks them, or has them damaged.
            self.put(blocks.iter());
            found.extend(by_name(blocks));
        }
        let mut take = |described| match described {
            Described::Here(block) => {
                count(&self.traffic.coordinator, [&block]);
                Ok(block)
            }
            Described::Named(name, _) => found.remove(&name).ok_or_else(|| {
                format!("the coordinator names block {}, but does not send it", name.checksum)
            }),
        };
        let mut take_all = |blocks: Vec<Described>| {
            blocks.into_iter().map(&mut take).collect::<Result<Vec<_>, _>>()
        };
        Ok(described.into_iter().map(&mut take_all).collect::<Result<_, _>>()?)
    }

    /// Those of the blocks that are named that are in the disk cache, in the depot or on shelves.
    fn find_nearer(
        &self,
        described: &[Vec<Described>],
        origin: &impl BlockOrigin,
    ) -> HashMap<BlockName, Block> {
        let layout = origin.layout();
        let mut found = HashMap::new();
        if let Some(disk) = &self.disk {
            let names = missing(described, &found).map(|(name, _)| name);
            let blocks: Vec<Block> = names.filter_map(|name| disk.get(layout, name)).collect();
            count(&self.traffic.disk, &blocks);
            found.extend(by_name(blocks));
        }
        if let Some(depot) = &self.depot {
            let names: Vec<BlockName> =
                missing(described, &found).map(|(name, _)| *name).collect();
            let blocks = depot.get(layout, &names);
            count(&self.traffic.depot, &blocks);
            self.keep(&blocks);
            found.extend(by_name(blocks));
        }
        if self.others().is_some() {
            let shelved: Vec<(BlockName, Shelves)> = missing(described, &found)
                .filter(|(_, shelves)| !shelves.is_empty())
                .map(|(name, shelves)| (*name, shelves))
                .collect();
            let blocks = self.take_from_shelves(layout, &shelved, || origin.find_shelves());
            found.extend(by_name(blocks));
        }
        found
    }

    /// Puts blocks that were solved here into the disk cache, and into the depot or on shelves. To
    /// be called before the results are delivered, so that workers find them there as soon as the
    /// coordinator names them. If all that are shared lie for good where the census keeps its
    /// blocks, so that they need not be sent: the shelves on which they lie, none for a depot.
    pub fn offer<'a>(&self, blocks: impl Iterator<Item = &'a Block> + Clone) -> Option<Shelves> {
        let shared = blocks.filter(|block| is_shared(block));
        self.keep(shared.clone());
        if let Some(shelf) = self.shelf() {
            return self.put_on_shelves(shelf, shared.cloned().collect());
        }
        let Some(depot) = self.look_again() else {
            self.put(shared);
            return None;
        };
        let put = depot.put_for_good(shared.clone());
        self.traffic.put.fetch_add(put, Ordering::Relaxed);
        let is_all = put == shared.map(|block| block.name().length).sum::<u64>();
        if !is_all {
            self.look_again();
        }
        is_all.then(Shelves::default)
    }

    /// Puts blocks on the shelf of this process and on another. If there is no other, or none that
    /// takes them, they lie on this one alone.
    fn put_on_shelves(&self, shelf: &Shelf, blocks: Vec<Block>) -> Option<Shelves> {
        if !self.is_kept() {
            return None;
        }
        if let Err(error) = shelf.put_all(&blocks) {
            let shelf = shelf.path().display();
            tracing::warn!(%shelf, %error, "results cannot be kept on the shelf; they are sent");
            // For a while nothing is put there.
            self.lacking.begin();
            return None;
        }
        count(&self.traffic.put, &blocks);
        let other = match blocks.is_empty() {
            true => None,
            false => self.others().and_then(|others| others.put(shelf.number(), &blocks)),
        };
        Some([shelf.number()].into_iter().chain(other).collect())
    }

    /// Those of the blocks that are on this process's shelf or on those of others, of which it is
    /// asked where they are if that is not known.
    fn take_from_shelves(
        &self,
        layout: Layout,
        wanted: &[(BlockName, Shelves)],
        find: impl FnOnce() -> Vec<ShelfPlace>,
    ) -> Vec<Block> {
        let own = |name: &BlockName, shelves: Shelves| {
            let shelf = self.shelf().filter(|shelf| shelves.contains(shelf.number()))?;
            let bytes = shelf.read(name).ok()??;
            Block::parse_named(layout, bytes, name).ok()
        };
        let mut blocks: Vec<Block> =
            wanted.iter().filter_map(|(name, shelves)| own(name, *shelves)).collect();
        let here: HashSet<BlockName> = blocks.iter().map(Block::name).collect();
        let elsewhere: Vec<(BlockName, Shelves)> =
            wanted.iter().filter(|(name, _)| !here.contains(name)).copied().collect();
        if let Some(others) = self.others().filter(|_| !elsewhere.is_empty()) {
            let mut numbers = elsewhere.iter().flat_map(|(_, shelves)| shelves.iter());
            if !numbers.all(|number: ShelfNumber| others.knows(number)) {
                let found = find();
                if !found.is_empty() {
                    others.set(found);
                }
            }
            let taken = others.take_all(layout, &elsewhere);
            self.keep(&taken);
            self.mend_shelf(&taken, &elsewhere.into_iter().collect());
            blocks.extend(taken);
        }
        count(&self.traffic.shelves, &blocks);
        blocks
    }

    /// Puts blocks on the shelf of this process, as far as that is possible, that should lie there
    /// and had to be taken elsewhere.
    fn mend_shelf(&self, taken: &[Block], shelves: &HashMap<BlockName, Shelves>) {
        let Some(shelf) = self.shelf() else { return };
        let is_own = |shelves: &Shelves| shelves.contains(shelf.number());
        for block in taken.iter().filter(|block| shelves.get(&block.name()).is_some_and(is_own)) {
            if shelf.put(block).is_err() {
                return;
            }
        }
    }

    /// A block that lies for good where the census keeps its blocks, on these shelves if on any, if
    /// it is there.
    pub fn kept(&self, layout: Layout, name: &BlockName, shelves: Shelves) -> Option<Block> {
        let names = std::slice::from_ref(name);
        let blocks = match shelves.is_empty() {
            true => {
                let blocks = self.depot.as_ref()?.get(layout, names);
                count(&self.traffic.depot, &blocks);
                if blocks.is_empty() {
                    // It may be another one by now.
                    self.look_again();
                }
                blocks
            }
            false => self.take_from_shelves(layout, &[(*name, shelves)], Vec::new),
        };
        blocks.into_iter().next()
    }

    fn keep<'a>(&self, blocks: impl IntoIterator<Item = &'a Block>) {
        if let Some(disk) = &self.disk {
            blocks.into_iter().for_each(|block| disk.put(block));
        }
    }

    /// Puts blocks into a depot that is a cache: where a census keeps its blocks, they are not to
    /// be replaced by what a loss of power may damage. An object store, where nothing is, is a cache
    /// unless it is known to have the mark.
    fn put<'a>(&self, blocks: impl Iterator<Item = &'a Block>) {
        let has_mark = self.mark.get().is_some();
        let is_marked = self.is_marked.load(Ordering::Relaxed);
        let may_be_kept = |depot: &Depot| depot.is_directory() && has_mark || is_marked;
        if let Some(depot) = self.depot.as_ref().filter(|depot| !may_be_kept(depot)) {
            self.traffic.put.fetch_add(depot.put(blocks), Ordering::Relaxed);
        }
    }
}

/// The names of blocks that are not found yet, and their shelves.
fn missing<'a>(
    described: &'a [Vec<Described>],
    found: &'a HashMap<BlockName, Block>,
) -> impl Iterator<Item = (&'a BlockName, Shelves)> {
    described.iter().flatten().filter_map(move |described| match described {
        Described::Named(name, shelves) if !found.contains_key(name) => Some((name, *shelves)),
        _ => None,
    })
}

/// Blocks, each with its name.
fn by_name(blocks: Vec<Block>) -> impl Iterator<Item = (BlockName, Block)> {
    blocks.into_iter().map(|block| (block.name(), block))
}

fn count<'a>(counter: &AtomicU64, blocks: impl IntoIterator<Item = &'a Block>) {
    let bytes = blocks.into_iter().map(|block| block.bytes().len() as u64).sum();
    counter.fetch_add(bytes, Ordering::Relaxed);
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [coordinator, disk, depot, shelves, put] =
            [&self.coordinator, &self.disk, &self.depot, &self.shelves, &self.put]
                .map(|counter| Size(counter.load(Ordering::Relaxed)));
        write!(
            f,
            "{coordinator} from the coordinator, {disk} from disk, {depot} from the depot, \
             {shelves} from shelves; {put} put into the depot or on a shelf"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, fs};

    use trailtrap_shared::{
        game::{Game, TrailTrap},
        graph::degree::DegreeSequence,
        partition::{BucketBlocks, BucketTable},
    };

    use super::*;
    use crate::supply::kept::KeptDepot;

    /// Keys and outcomes of one bucket of so many graphs.
    fn blocks(bucket: u32, graphs: u64) -> Vec<Block> {
        let slots: Vec<u64> = (0..graphs).map(|slot| slot | u64::from(bucket) << 43).collect();
        let sequence = DegreeSequence::new([4; 11]);
        let table = BucketTable::new(
            TrailTrap::LAYOUT,
            sequence,
            2,
            bucket,
            slots.into_iter(),
            |i, record| record.fill(i as u8),
        );
        let BucketBlocks { keys, outcomes, .. } = table.to_blocks(0);
        vec![keys, outcomes]
    }

    fn bucket(bucket: u32) -> Wanted {
        Wanted::Bucket(DegreeSequence::new([4; 11]), bucket)
    }

    /// A coordinator that has four buckets, the last a small one, and notes what it sends.
    struct Coordinator {
        buckets: Vec<Vec<Block>>,
        sent: RefCell<Vec<Block>>,
    }

    impl Coordinator {
        fn new() -> Self {
            let buckets = [1000, 2000, 3000, 5]
                .into_iter()
                .zip(0..)
                .map(|(graphs, bucket)| blocks(bucket, graphs));
            Coordinator { buckets: buckets.collect(), sent: RefCell::default() }
        }

        fn all(&self) -> Vec<Wanted> {
            (0..4).map(bucket).collect()
        }

        fn of(&self, wanted: &Wanted) -> &[Block] {
            let Wanted::Bucket(_, bucket) = wanted else { panic!("buckets are wanted") };
            &self.buckets[*bucket as usize]
        }

        fn take_sent(&self) -> Vec<Block> {
            self.sent.take()
        }
    }

    impl BlockOrigin for Coordinator {
        fn layout(&self) -> Layout {
            TrailTrap::LAYOUT
        }

        fn describe(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Described>>, SourceError> {
            let describe = |block: &Block| match is_shared(block) {
                true => Described::Named(block.name(), Shelves::default()),
                false => Described::Here(block.clone()),
            };
            Ok(wanted
                .iter()
                .map(|wanted| self.of(wanted).iter().map(describe).collect())
                .collect())
        }

        fn send(&self, requests: &[BlockRequest]) -> Result<Vec<Vec<Block>>, SourceError> {
            let asked_for = |checksums: &[Checksum], block: &Block| {
                checksums.is_empty() || checksums.contains(&block.name().checksum)
            };
            let answer = |BlockRequest { wanted, only }: &BlockRequest| -> Vec<Block> {
                self.of(wanted).iter().filter(|block| asked_for(only, block)).cloned().collect()
            };
            let blocks: Vec<Vec<Block>> = requests.iter().map(answer).collect();
            self.sent.borrow_mut().extend(blocks.iter().flatten().cloned());
            Ok(blocks)
        }

        fn find_shelves(&self) -> Vec<ShelfPlace> {
            Vec::new()
        }
    }

    struct Place {
        runtime: tokio::runtime::Runtime,
        directory: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            fs::create_dir(directory.path().join("depot")).unwrap();
            Place { runtime: tokio::runtime::Runtime::new().unwrap(), directory }
        }

        fn options(&self, disk: bool, depot: bool) -> SupplyOptions {
            SupplyOptions {
                disk_cache: disk.then(|| self.directory.path().join("disk")),
                disk_budget: Size(1 << 20),
                depot: depot
                    .then(|| self.directory.path().join("depot").to_str().unwrap().to_owned()),
                shelf: None,
                shelf_listen: None,
            }
        }

        fn supply(&self, disk: bool, depot: bool) -> Supply {
            let options = self.options(disk, depot);
            Supply::open(&options, self.runtime.handle().clone(), CancellationToken::new())
                .unwrap()
        }

        /// Where a block lies.
        fn file(&self, what: &str, block: &Block) -> PathBuf {
            let name = block.name().checksum.to_string();
            self.directory.path().join(what).join(&name[..2]).join(name)
        }
    }

    fn flip(path: &std::path::Path) {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn blocks_come_from_the_nearest_place_that_has_them() {
        let coordinator = Coordinator::new();
        for (disk, depot) in [(false, false), (true, false), (false, true), (true, true)] {
            let place = Place::new();
            let fetch = |supply: &Supply| {
                assert_eq!(
                    supply.fetch(&coordinator.all(), &coordinator).unwrap(),
                    coordinator.buckets
                );
            };
            fetch(&place.supply(disk, depot));
            let large: Vec<Block> = coordinator.buckets[..3].concat();
            let expected = if disk || depot { large } else { coordinator.buckets.concat() };
            assert_eq!(
                coordinator.take_sent(),
                expected,
                "at first all come from the coordinator"
            );
            let again = place.supply(disk, depot);
            fetch(&again);
            assert_eq!(coordinator.take_sent().is_empty(), disk || depot);
            let large = coordinator.buckets[..3]
                .iter()
                .flatten()
                .map(|block| block.name().length)
                .sum::<u64>();
            let [from_disk, from_depot] =
                [&again.traffic.disk, &again.traffic.depot].map(|n| n.load(Ordering::Relaxed));
            assert_eq!(
                (from_disk, from_depot),
                (if disk { large } else { 0 }, if depot && !disk { large } else { 0 })
            );
        }
    }

    #[test]
    fn what_was_solved_is_offered() {
        let coordinator = Coordinator::new();
        let place = Place::new();
        place.supply(false, true).offer(coordinator.buckets[1].iter());
        place.supply(true, false).offer(coordinator.buckets[3].iter());
        assert!(!place.file("disk", &coordinator.buckets[3][0]).exists(), "it is small");
        let supply = place.supply(true, true);
        assert_eq!(
            supply.fetch(&[bucket(1), bucket(2)], &coordinator).unwrap(),
            coordinator.buckets[1..3]
        );
        assert_eq!(coordinator.take_sent(), coordinator.buckets[2]);
        // What came from the depot is on disk now, and what came from the coordinator in both.
        for block in coordinator.buckets[1..3].iter().flatten() {
            assert!(place.file("disk", block).exists() && place.file("depot", block).exists());
        }
    }

    /// What is offered need not be sent if it lies for good where the census keeps its blocks, and
    /// nothing else gets there.
    #[test]
    fn what_is_kept_need_not_be_sent() {
        let coordinator = Coordinator::new();
        let place = Place::new();
        let supply = place.supply(false, true);
        let offer = |supply: &Supply| supply.offer(coordinator.buckets[1].iter()).is_some();
        supply.look_for(None);
        assert!(!offer(&supply), "it is a cache");
        let depot = place.directory.path().join("depot");
        fs::remove_dir_all(&depot).unwrap();
        fs::create_dir(&depot).unwrap();
        supply.look_for(Some(Mark(7)));
        let file = place.file("depot", &coordinator.buckets[1][0]);
        assert!(!supply.is_kept() && !offer(&supply), "it is away");
        supply.fetch(&[bucket(1)], &coordinator).unwrap();
        assert!(!file.exists());
        KeptDepot::begin(&depot, Mark(7)).unwrap();
        assert!(offer(&supply) && supply.is_kept() && file.exists());
        // What is fetched is not put there.
        fs::remove_file(&file).unwrap();
        supply.fetch(&[bucket(1)], &coordinator).unwrap();
        assert!(!file.exists());
        supply.note_lacking();
        assert!(!offer(&supply) && !file.exists(), "for a while");
        // One of them cannot be written.
        let supply = place.supply(false, true);
        supply.look_for(Some(Mark(7)));
        fs::create_dir(&file).unwrap();
        assert!(supply.is_kept() && !offer(&supply));
    }

    /// An object store is a cache, wherever the census keeps its blocks, until it has the mark; and
    /// then it never is, whatever fails.
    #[test]
    #[cfg(feature = "s3")]
    fn a_bucket_is_a_cache_until_it_has_the_mark() {
        let coordinator = Coordinator::new();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let depot = Depot::in_memory(runtime.handle().clone());
        let supply = Supply { depot: Some(depot), ..Supply::default() };
        let sent = |index| {
            supply.fetch(&[bucket(index)], &coordinator).unwrap();
            coordinator.take_sent().len()
        };
        let offer = || supply.offer(coordinator.buckets[2].iter()).is_some();
        supply.look_for(Some(Mark(7)));
        assert_eq!([sent(1), sent(1)], [2, 0]);
        assert!(!supply.is_kept() && !offer());
        supply.depot.as_ref().unwrap().put_mark(Mark(7));
        assert!(offer() && supply.is_kept());
        assert_eq!([sent(0), sent(0), sent(2)], [2, 2, 0]);
        supply.note_lacking();
        assert!(!supply.is_kept() && !offer());
        assert_eq!([sent(0), sent(0)], [2, 2]);
    }

    #[test]
    fn damage_is_noticed_and_mended() {
        let coordinator = Coordinator::new();
        let [keys, outcomes] = [&coordinator.buckets[2][0], &coordinator.buckets[2][1]];
        let place = Place::new();
        let fetch = || {
            let supply = place.supply(true, true);
            assert_eq!(
                supply.fetch(&[bucket(2)], &coordinator).unwrap(),
                coordinator.buckets[2..3]
            );
        };
        fetch();
        coordinator.take_sent();
        // On disk alone: the depot helps.
        flip(&place.file("disk", keys));
        fetch();
        assert_eq!(coordinator.take_sent(), []);
        assert_eq!(fs::read(place.file("disk", keys)).unwrap(), keys.bytes());
        // In both, in other ways: a flipped bit, another block, nothing.
        flip(&place.file("disk", keys));
        fs::write(place.file("depot", keys), outcomes.bytes()).unwrap();
        fs::write(place.file("disk", outcomes), b"").unwrap();
        flip(&place.file("depot", outcomes));
        fetch();
        assert_eq!(coordinator.take_sent(), coordinator.buckets[2]);
        for block in [keys, outcomes] {
            for what in ["disk", "depot"] {
                assert_eq!(fs::read(place.file(what, block)).unwrap(), block.bytes(), "{what}");
            }
        }
    }

    /// What should lie on the own shelf, and was taken from another, is put there again.
    #[test]
    fn what_the_own_shelf_has_lost_is_put_there_again() {
        let place = Place::new();
        let shelf = Some(place.directory.path().join("shelf"));
        let options = SupplyOptions { shelf, ..place.options(false, false) };
        let runtime = place.runtime.handle().clone();
        let supply = Supply::open(&options, runtime, CancellationToken::new()).unwrap();
        supply.use_shelves(Some(Mark(7)), true).unwrap();
        let shelf = supply.shelf().unwrap();
        let other: ShelfNumber = !shelf.number();
        let taken = blocks(0, 1000);
        let on = [[shelf.number(), other], [other, other]].map(Shelves::from_iter);
        supply.mend_shelf(&taken, &taken.iter().map(Block::name).zip(on).collect());
        let is_there = |block: &Block| shelf.read(&block.name()).unwrap().is_some();
        assert_eq!(taken.iter().map(is_there).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn a_depot_that_cannot_be_written_is_read() {
        let coordinator = Coordinator::new();
        let place = Place::new();
        place.supply(false, true).offer(coordinator.buckets[1].iter());
        // Even root cannot make a directory where a file is.
        for block in &coordinator.buckets[2] {
            fs::write(place.file("depot", block).parent().unwrap(), "in the way").unwrap();
        }
        let supply = place.supply(false, true);
        supply.offer(coordinator.buckets[2].iter());
        assert_eq!(
            supply.fetch(&[bucket(1), bucket(2)], &coordinator).unwrap(),
            coordinator.buckets[1..3]
        );
        assert_eq!(coordinator.take_sent(), coordinator.buckets[2], "only what is not there");
        assert!(coordinator.buckets[2].iter().all(|block| !place.file("depot", block).exists()));
    }

    #[test]
    fn a_coordinator_that_does_not_keep_its_word_is_an_error() {
        struct Liar(Coordinator);
        impl BlockOrigin for Liar {
            fn layout(&self) -> Layout {
                TrailTrap::LAYOUT
            }

            fn describe(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Described>>, SourceError> {
                self.0.describe(wanted)
            }

            fn send(&self, requests: &[BlockRequest]) -> Result<Vec<Vec<Block>>, SourceError> {
                Ok(vec![self.0.buckets[0].clone(); requests.len()])
            }

            fn find_shelves(&self) -> Vec<ShelfPlace> {
                Vec::new()
            }
        }
        let error = Place::new()
            .supply(true, false)
            .fetch(&[bucket(1)], &Liar(Coordinator::new()))
            .unwrap_err();
        assert!(error.to_string().contains("does not send it"), "{error}");
    }
}
