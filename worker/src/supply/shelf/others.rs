//! The shelves of others: where they are, and what is read from them and put there.

use std::{
    collections::HashMap,
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, TryStreamExt, stream};
use parking_lot::RwLock;
use tokio::{runtime::Handle, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::{Status, service::interceptor::InterceptedService, transport::Channel};
use trailtrap_shared::{
    game::Layout,
    partition::{Block, BlockName},
    protocol::{
        access::{Access, AccessToken, CERTIFICATE_NAME, Pass},
        messages::{self, Assembly},
        shelves::{ShelfNumber, ShelfPlace, Shelves},
        wire::{self, put_request::Part, shelf_client::ShelfClient},
    },
};

use crate::{
    access::{self, AccessError, Credentials},
    supply::backoff::{Rest, stopped},
};

/// Shelves that are read from, or blocks that are put there, at a time.
const TOGETHER: usize = 8;
/// A shelf that says nothing for so long is left alone …
const PATIENCE: Duration = Duration::from_secs(20);
/// … for this time.
const REST: Duration = Duration::from_secs(30);
/// So many others are asked to take a copy.
const ATTEMPTS: usize = 3;

type Client = ShelfClient<InterceptedService<Channel, Credentials>>;

/// The shelves of others. Methods that are not asynchronous block, and must not be called from
/// within the runtime.
pub struct OtherShelves {
    runtime: Handle,
    token: CommonToken,
    stop: CancellationToken,
    known: RwLock<HashMap<ShelfNumber, Arc<OtherShelf>>>,
    /// Whose turn it is to get a copy.
    turn: AtomicUsize,
}

/// What all workers of the census show each other; none on loopback. It changes with the access file.
pub type CommonToken = Arc<RwLock<Option<AccessToken>>>;

struct OtherShelf {
    place: ShelfPlace,
    client: Client,
    rest: Rest,
}

impl OtherShelves {
    /// None yet.
    pub fn new(runtime: Handle, token: Option<AccessToken>, stop: CancellationToken) -> Self {
        let (known, turn) = (RwLock::default(), AtomicUsize::new(0));
        OtherShelves { runtime, token: Arc::new(RwLock::new(token)), stop, known, turn }
    }

    /// The token that is shown, for a shelf that asks for the same.
    pub fn token(&self) -> CommonToken {
        self.token.clone()
    }

    /// Shows another token from now on. Where none was shown, none is needed.
    pub fn renew(&self, token: AccessToken) {
        let is_other = |shown: &AccessToken| *shown != token;
        if !self.token.read().as_ref().is_some_and(is_other) {
            return;
        }
        *self.token.write() = Some(token);
        // Connections have the one before.
        let mut known = self.known.write();
        let places: Vec<ShelfPlace> =
            known.drain().map(|(_, shelf)| shelf.place.clone()).collect();
        places.into_iter().for_each(|place| self.meet(&mut known, place));
    }

    /// These are all shelves now. Connections to those that are where they were stay.
    pub fn set(&self, places: Vec<ShelfPlace>) {
        let mut known = self.known.write();
        let mut before = std::mem::take(&mut *known);
        for place in places {
            let number = place.number;
            match before.remove(&number).filter(|shelf| shelf.place == place) {
                Some(shelf) => drop(known.insert(number, shelf)),
                None => self.meet(&mut known, place),
            }
        }
    }

    fn meet(&self, known: &mut HashMap<ShelfNumber, Arc<OtherShelf>>, place: ShelfPlace) {
        let number = place.number;
        match self.connect(place) {
            Ok(shelf) => drop(known.insert(number, Arc::new(shelf))),
            Err(error) => tracing::warn!(%error, "a shelf cannot be reached"),
        }
    }

    fn connect(&self, place: ShelfPlace) -> Result<OtherShelf, AccessError> {
        let _inside = self.runtime.enter();
        // Whoever shows no certificate gets no token.
        let pass = self.token.read().clone().zip(place.certificate.clone());
        let pass = pass.map(|(token, certificate)| Pass {
            certificate,
            name: Some(CERTIFICATE_NAME.to_owned()),
            mutual: false,
            token,
        });
        let access = Access { address: place.address.clone(), pass };
        let channel = access::endpoint(&access, None)?.connect_lazy();
        let client = ShelfClient::with_interceptor(channel, access::credentials(&access))
            .max_decoding_message_size(4 << 20);
        Ok(OtherShelf { place, client, rest: Rest::of(REST) })
    }

    /// A shelf that is not left alone just now.
    fn get(&self, number: ShelfNumber) -> Option<Arc<OtherShelf>> {
        self.known.read().get(&number).filter(|shelf| !shelf.rest.lasts()).cloned()
    }

    /// Whether it is known where a shelf is.
    pub fn knows(&self, number: ShelfNumber) -> bool {
        self.known.read().contains_key(&number)
    }

    /// The blocks of these names, each of which lies on the shelves beside it, as far as they can be
    /// had and are what they should be; in any order. What is missing or damaged on one shelf, and
    /// came from another, is put there again: it should lie on two.
    pub fn take_all(&self, layout: Layout, wanted: &[(BlockName, Shelves)]) -> Vec<Block> {
        let mut taken = Vec::with_capacity(wanted.len());
        let mut lacking: Vec<(ShelfNumber, BlockName)> = Vec::new();
        let mut rest: Vec<(BlockName, Shelves)> = wanted.to_vec();
        // From one of the two, and what is not to be had there from the other.
        while !rest.is_empty() {
            let mut from: HashMap<ShelfNumber, (Arc<OtherShelf>, Vec<BlockName>)> = HashMap::new();
            let mut left: HashMap<BlockName, Shelves> = HashMap::new();
            for (name, mut shelves) in rest {
                let usable: Vec<Arc<OtherShelf>> =
                    shelves.iter().filter_map(|number| self.get(number)).collect();
                // Which one is tried first differs from block to block.
                let first = usize::from(name.checksum.0[0]) % usable.len().max(1);
                let Some(shelf) = usable.get(first) else { continue };
                let number = shelf.place.number;
                shelves.remove(number);
                left.insert(name, shelves);
                from.entry(number).or_insert_with(|| (shelf.clone(), Vec::new())).1.push(name);
            }
            let takes = from.into_values().map(|(shelf, names)| async move {
                let blocks = shelf.take(layout, &names).await.unwrap_or_else(|status| {
                    shelf.leave_alone(&status);
                    Vec::new()
                });
                let named = names.into_iter().zip(blocks);
                named.map(|(name, block)| (shelf.place.number, name, block)).collect::<Vec<_>>()
            });
            let found = self.run(stream::iter(takes).buffer_unordered(TOGETHER).concat());
            for (number, name, block) in found.unwrap_or_default() {
                match block {
                    Some(block) => {
                        left.remove(&name);
                        taken.push(block);
                    }
                    None => lacking.push((number, name)),
                }
            }
            if self.stop.is_cancelled() {
                break;
            }
            rest = left.into_iter().collect();
        }
        if !lacking.is_empty() {
            let found: HashMap<BlockName, &Block> =
                taken.iter().map(|block| (block.name(), block)).collect();
            let mended = |(number, name): (ShelfNumber, BlockName)| {
                Some((number, Block::clone(found.get(&name)?)))
            };
            self.mend(lacking.into_iter().filter_map(mended).collect());
        }
        taken
    }

    /// Puts blocks on these shelves again, where they were missing or damaged. Those for which that
    /// fails lie on one shelf less than they should.
    pub fn mend(&self, blocks: Vec<(ShelfNumber, Block)>) {
        let mends = blocks.into_iter().filter_map(|(number, block)| {
            let shelf = self.get(number)?;
            Some(async move {
                let (address, checksum) = (&shelf.place.address, block.name().checksum);
                match shelf.put(block).await {
                    Ok(()) => {
                        tracing::info!(shelf = address, block = %checksum, "mended on a shelf");
                    }
                    Err(status) => shelf.leave_alone(&status),
                }
            })
        });
        self.run(stream::iter(mends).buffer_unordered(TOGETHER).collect::<Vec<()>>());
    }

    /// A block from one shelf; `None` if it is not there, or is not what it should be.
    ///
    /// # Errors
    ///
    /// The shelf cannot be reached.
    pub fn take(
        &self,
        layout: Layout,
        place: &ShelfPlace,
        name: &BlockName,
    ) -> Result<Option<Block>, Status> {
        let known = self.known.read().get(&place.number).cloned();
        let shelf = match known.filter(|shelf| shelf.place == *place) {
            Some(shelf) => shelf,
            None => {
                let shelf = self.connect(place.clone());
                let shelf =
                    Arc::new(shelf.map_err(|error| Status::unavailable(error.to_string()))?);
                self.known.write().insert(place.number, shelf.clone());
                shelf
            }
        };
        let names = std::slice::from_ref(name);
        let taken = self.run(async { shelf.take(layout, names).await });
        let taken = taken.unwrap_or_else(|| Err(Status::cancelled("asked to stop")))?;
        Ok(taken.into_iter().next().flatten())
    }

    /// Puts copies of blocks on another shelf than this one, all on the same, best on another host;
    /// the number of that shelf if they all lie there.
    pub fn put(&self, own: ShelfNumber, blocks: &[Block]) -> Option<ShelfNumber> {
        let mut others: Vec<Arc<OtherShelf>> = {
            let known = self.known.read();
            let is_usable =
                |shelf: &&Arc<OtherShelf>| shelf.place.number != own && !shelf.rest.lasts();
            let mut usable: Vec<_> = known.values().filter(is_usable).cloned().collect();
            let is_far = |shelf: &Arc<OtherShelf>| {
                known.get(&own).is_none_or(|own| own.host() != shelf.host())
            };
            if usable.iter().any(is_far) {
                usable.retain(is_far);
            }
            usable
        };
        // One after the other, so that all get as much.
        others.sort_unstable_by_key(|shelf| shelf.place.number.wrapping_sub(own));
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let count = others.len().max(1);
        others.rotate_left(turn % count);
        for shelf in others.into_iter().take(ATTEMPTS) {
            let put = |block: Block| {
                let shelf = shelf.clone();
                async move { shelf.put(block).await }
            };
            let puts = stream::iter(blocks.to_vec()).map(put).buffer_unordered(TOGETHER);
            // What is under way when one fails is given up: a shelf that is gone would be waited for
            // with each of them.
            let all = puts.try_for_each(|()| ready(Ok::<(), Status>(())));
            match self.run(all)? {
                Ok(()) => return Some(shelf.place.number),
                Err(status) => shelf.leave_alone(&status),
            }
        }
        None
    }

    /// Nobody is waited for any more.
    pub fn close(&self) {
        self.stop.cancel();
    }

    /// Whether this process is asked to stop, or nobody is to be waited for any more.
    pub fn is_closed(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Waits for something, unless this process is asked to stop.
    fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                done = work => Some(done),
                () = stopped(&self.stop) => None,
            }
        })
    }
}

impl OtherShelf {
    fn host(&self) -> &str {
        self.place.address.rsplit_once(':').map_or("", |(host, _)| host)
    }

    /// Blocks of this shelf, in the order of their names; `None` for what is not there, or is not
    /// what it should be.
    async fn take(
        &self,
        layout: Layout,
        names: &[BlockName],
    ) -> Result<Vec<Option<Block>>, Status> {
        let named = names.iter().map(|name| messages::name_message(name, Shelves::default()));
        let list = wire::BlockList { blocks: named.collect() };
        let mut client = self.client.clone();
        let stream = within(client.take(list)).await?;
        let mut stream = stream.into_inner();
        let mut blocks = Vec::with_capacity(names.len());
        for name in names {
            let mut assembly = Assembly::of(name.length);
            let bytes = loop {
                let piece = within(stream.message()).await?;
                let piece = piece.ok_or_else(|| Status::unavailable("stream cut short"))?;
                let added = assembly.add(piece);
                if let Some(bytes) = added.map_err(|error| Status::data_loss(error.to_string()))? {
                    break bytes;
                }
            };
            let block = (!bytes.is_empty()).then(|| Block::parse_named(layout, bytes, name));
            blocks.push(block.and_then(|block| {
                let shelf = &self.place.address;
                block
                    .inspect_err(|error| {
                        let block = name.checksum;
                        tracing::warn!(shelf, %block, %error, "a block on a shelf is damaged");
                    })
                    .ok()
            }));
        }
        Ok(blocks)
    }

    async fn put(&self, block: Block) -> Result<(), Status> {
        let name = messages::name_message(&block.name(), Shelves::default());
        let first = std::iter::once(Part::Name(name));
        // Cut as they are sent: a block may be large.
        let bytes = block.shared_bytes();
        let pieces = (0..).map_while(move |i| messages::piece(&bytes, i).map(Part::Piece));
        let parts = first.chain(pieces).map(|part| wire::PutRequest { part: Some(part) });
        let mut client = self.client.clone();
        // As long as to send it, and to write it, may take.
        let patience = PATIENCE + Duration::from_nanos(200) * block.bytes().len() as u32;
        match timeout(patience, client.put(stream::iter(parts))).await {
            Ok(put) => put.map(drop),
            Err(_) => Err(Status::deadline_exceeded("it takes too long")),
        }
    }

    fn leave_alone(&self, status: &Status) {
        if self.rest.begin() {
            let shelf = &self.place.address;
            tracing::warn!(shelf, cause = status.message(), "a shelf is left alone for now");
        }
    }
}

/// An answer, unless it takes too long.
async fn within<T>(answer: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    match timeout(PATIENCE, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(Status::deadline_exceeded("it says nothing")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::runtime::Runtime;
    use tonic::Code;
    use trailtrap_shared::game::{Game, TrailTrap};

    use super::*;
    use crate::supply::{
        kept::Mark,
        shelf::{Shelf, serve, tests::keys},
    };

    const LAYOUT: Layout = TrailTrap::LAYOUT;

    /// Shelves on this host, and how to reach them with the token that they ask for, if any.
    struct Shelved {
        runtime: Runtime,
        token: CommonToken,
        directory: tempfile::TempDir,
        shelves: Vec<Arc<Shelf>>,
        places: Vec<ShelfPlace>,
    }

    impl Shelved {
        fn new(count: usize, token: Option<AccessToken>) -> Self {
            let runtime = Runtime::new().unwrap();
            let directory = tempfile::tempdir().unwrap();
            let (mut shelves, mut places) = (Vec::new(), Vec::new());
            let common = CommonToken::new(RwLock::new(token));
            for i in 0..count {
                let shelf = Arc::new(Shelf::new(&directory.path().join(i.to_string())).unwrap());
                shelf.begin(Mark(7)).unwrap();
                let (token, stop) = (common.clone(), CancellationToken::new());
                let place =
                    serve(shelf.clone(), LAYOUT, token, None, runtime.handle(), stop).unwrap();
                let address = format!("127.0.0.1{}", place.address);
                places.push(ShelfPlace { address, ..place });
                shelves.push(shelf);
            }
            Shelved { runtime, token: common, directory, shelves, places }
        }

        fn others(&self, token: Option<AccessToken>) -> OtherShelves {
            let handle = self.runtime.handle().clone();
            let others = OtherShelves::new(handle, token, CancellationToken::new());
            others.set(self.places.clone());
            others
        }

        fn number(&self, shelf: usize) -> ShelfNumber {
            self.shelves[shelf].number()
        }

        fn file(&self, shelf: usize, block: &Block) -> std::path::PathBuf {
            let name = block.name().checksum.to_string();
            self.directory.path().join(shelf.to_string()).join(&name[..2]).join(name)
        }
    }

    /// Copies go to each of the others in turn, and are had from whoever has them as they should be.
    #[test]
    fn blocks_are_put_on_other_shelves_and_taken_from_there() {
        for token in [None, Some(AccessToken::new([3; 32]))] {
            let shelved = Shelved::new(3, token);
            let others = shelved.others(shelved.token.read().clone());
            // Of one piece, of several, and one that is nowhere.
            let blocks = [keys(1000), keys(3_000_000)];
            let copies: Vec<ShelfNumber> =
                (0..4).map(|_| others.put(shelved.number(0), &blocks).unwrap()).collect();
            assert_eq!((copies[0], copies[1]), (copies[2], copies[3]));
            assert!(copies[0] != copies[1] && !copies.contains(&shelved.number(0)));
            let on_both: Shelves = copies.iter().copied().collect();
            let wanted: Vec<(BlockName, Shelves)> = blocks
                .iter()
                .map(|block| (block.name(), on_both))
                .chain([(keys(7).name(), on_both)])
                .collect();
            let taken = |others: &OtherShelves| {
                let mut taken = others.take_all(LAYOUT, &wanted);
                taken.sort_by_key(|block| block.count);
                taken
            };
            assert_eq!(taken(&others), blocks);
            let from = |shelf: usize, block: &Block| {
                others.take(LAYOUT, &shelved.places[shelf], &block.name()).unwrap()
            };
            // The shelf that is asked first, and the other one.
            let order = |block: &Block| {
                let first = on_both.iter().nth(usize::from(block.name().checksum.0[0]) % 2);
                if first == Some(shelved.number(1)) { [1, 2] } else { [2, 1] }
            };
            // Damaged here, missing there, it comes from the other, and is mended.
            let [[damaged, _], [missing, kept]] = [&blocks[0], &blocks[1]].map(order);
            let mut bytes = blocks[0].bytes().to_vec();
            bytes[60] ^= 1;
            fs::write(shelved.file(damaged, &blocks[0]), bytes).unwrap();
            fs::remove_file(shelved.file(missing, &blocks[1])).unwrap();
            assert_eq!(from(kept, &blocks[1]).as_ref(), Some(&blocks[1]));
            assert_eq!([from(damaged, &blocks[0]), from(missing, &blocks[1])], [None, None]);
            assert_eq!(taken(&others), blocks);
            assert_eq!(from(damaged, &blocks[0]).as_ref(), Some(&blocks[0]));
            assert_eq!(from(missing, &blocks[1]).as_ref(), Some(&blocks[1]));
            for shelf in 1..3 {
                fs::remove_file(shelved.file(shelf, &blocks[0])).unwrap();
            }
            assert_eq!(taken(&others), blocks[1..]);
        }
    }

    /// More of them, and larger, than a connection holds at a time, and put by several threads.
    #[test]
    fn many_large_blocks_come_through() {
        let shelved = Shelved::new(2, None);
        let others = shelved.others(None);
        let groups: Vec<Vec<Block>> = (0..3)
            .map(|group| (0..8).map(|i| keys(8_000_000 + 8 * group + i)).collect())
            .collect();
        assert!(groups[0][0].bytes().len() > 2 << 20, "{}", groups[0][0].bytes().len());
        std::thread::scope(|scope| {
            for group in &groups {
                scope.spawn(|| {
                    assert_eq!(others.put(shelved.number(0), group), Some(shelved.number(1)));
                });
            }
        });
        assert_eq!(shelved.shelves[1].list().len(), 24);
    }

    #[test]
    fn whoever_has_no_token_gets_nothing_and_puts_nothing() {
        let shelved = Shelved::new(2, Some(AccessToken::new([3; 32])));
        let block = keys(1000);
        shelved.shelves[0].put(&block).unwrap();
        for token in [None, Some(AccessToken::new([4; 32]))] {
            let others = shelved.others(token);
            let on_first = [shelved.number(0)].into_iter().collect();
            assert_eq!(others.take_all(LAYOUT, &[(block.name(), on_first)]), []);
            assert_eq!(others.put(shelved.number(0), &[keys(2000)]), None);
            assert!(shelved.shelves[1].list().is_empty());
        }
        // A shelf that shows another certificate is not the one that is meant.
        let mut places = shelved.places.clone();
        places[0].certificate.clone_from(&shelved.places[1].certificate);
        let others = shelved.others(shelved.token.read().clone());
        others.set(places.clone());
        assert!(others.take(LAYOUT, &places[0], &block.name()).is_err());
    }

    /// The access file has another token, since the coordinator was started again without the secrets
    /// that it had.
    #[test]
    fn a_new_token_takes_the_place_of_the_one_before() {
        let [before, after] = [3, 4].map(|byte| AccessToken::new([byte; 32]));
        let shelved = Shelved::new(2, Some(before.clone()));
        let block = keys(1000);
        shelved.shelves[0].put(&block).unwrap();
        let others = shelved.others(Some(before));
        let is_had = || others.take(LAYOUT, &shelved.places[0], &block.name()).is_ok();
        assert!(is_had());
        *shelved.token.write() = Some(after.clone());
        assert!(!is_had());
        others.renew(after.clone());
        assert!(is_had());
        // Who needs none still needs none.
        let plain = shelved.others(None);
        plain.renew(after);
        assert!(plain.token().read().is_none());
    }

    /// What comes is the block of its name, or is not put there.
    #[test]
    fn only_blocks_are_put_on_a_shelf() {
        let shelved = Shelved::new(1, None);
        let block = keys(1000);
        let name = messages::name_message(&block.name(), Shelves::default());
        let piece = |bytes: &[u8]| Part::Piece(messages::piece(bytes, 0).unwrap());
        let shorter = wire::BlockName { length: 10, ..name.clone() };
        let huge = wire::BlockName { length: u64::MAX, ..name.clone() };
        let nameless = wire::BlockName { checksum: vec![1], ..name.clone() };
        let others = shelved.others(None);
        let put = |parts: Vec<Part>| {
            let shelf = others.get(shelved.number(0)).unwrap();
            let parts = parts.into_iter().map(|part| wire::PutRequest { part: Some(part) });
            let (mut client, parts) = (shelf.client.clone(), parts.collect::<Vec<_>>());
            shelved.runtime.block_on(async move { client.put(stream::iter(parts)).await })
        };
        for wrong in [
            vec![],
            vec![piece(block.bytes())],
            vec![Part::Name(name.clone())],
            vec![Part::Name(name.clone()), Part::Name(name.clone())],
            vec![Part::Name(name.clone()), piece(&block.bytes()[1..])],
            vec![Part::Name(name.clone()), piece(keys(999).bytes())],
            vec![Part::Name(shorter), piece(block.bytes())],
            vec![Part::Name(huge), piece(block.bytes())],
            vec![Part::Name(nameless), piece(block.bytes())],
        ] {
            assert_eq!(put(wrong).unwrap_err().code(), Code::InvalidArgument);
        }
        assert!(shelved.shelves[0].list().is_empty());
        put(vec![Part::Name(name), piece(block.bytes())]).unwrap();
        assert_eq!(shelved.shelves[0].list().len(), 1);
        assert_eq!(fs::read(shelved.file(0, &block)).unwrap(), block.bytes());
    }
}
