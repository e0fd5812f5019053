//! Says what lies on the shelf of this worker, and hears where those of others are.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::task::spawn_blocking;
use tonic::{Code, Status};
use trailtrap_shared::{
    partition::Checksum,
    protocol::{messages, shelves::ShelfPlace, wire},
};

use super::{GrpcLink, calls::with_timeout, status::root_cause};
use crate::supply::shelf::{Listed, Shelf, others::OtherShelves};

/// The pause between two lists of what lies on the shelf. What is of no use any more takes room for
/// so long.
const TIDYING: Duration = Duration::from_secs(10);
/// Blocks that are named in a message.
const LISTED: usize = 2048;

impl GrpcLink {
    /// Says again and again what lies on the shelf, and hears where others are, for as long as the
    /// link exists; to be spawned on the runtime.
    pub fn tidying(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let weak = Arc::downgrade(self);
        async move {
            loop {
                tokio::time::sleep(TIDYING).await;
                let Some(link) = weak.upgrade() else { return };
                // It waits for the disk, and for the coordinator.
                let tidy = move || {
                    let worker = link.worker();
                    // A coordinator that was started again does not know yet what lies here.
                    if link.tidy_shelf() == Err(Code::NotFound)
                        && let Err(error) = link.register(worker)
                    {
                        tracing::debug!(%error, "not registered again");
                    }
                };
                let _ = spawn_blocking(tidy).await;
            }
        }
    }

    /// Says what lies on the shelf of this process, removes what is of no use, copies what lies
    /// nowhere else, and hears where other shelves are. What fails is done the next time. Blocks.
    ///
    /// # Errors
    /// What kind of answer the coordinator has given, if that is none to go on with.
    pub(super) fn tidy_shelf(&self) -> Result<(), Code> {
        let (worker, Some(others)) = (self.worker(), self.supply.others()) else { return Ok(()) };
        let failed = |status: Status| {
            tracing::debug!(cause = root_cause(&status), "the shelf stays as it is");
            status.code()
        };
        others.set(self.runtime.block_on(self.ask_for_shelves()).map_err(failed)?);
        if let Err(error) = self.supply.begin_shelf() {
            tracing::warn!(%error, "the shelf is not used");
        }
        let Some(shelf) = self.supply.shelf() else { return Ok(()) };
        for some in shelf.list().chunks(LISTED) {
            let asked = self.runtime.block_on(self.ask_what_may_go(worker, some));
            let (unwanted, lonely) = asked.map_err(failed)?;
            shelf.remove(some.iter().filter(|block| unwanted.contains(&block.checksum)));
            self.copy(shelf, others, &lonely);
        }
        Ok(())
    }

    /// Which of these blocks on the shelf may go, and of which another copy is wanted.
    async fn ask_what_may_go(
        &self,
        worker: u64,
        listed: &[Listed],
    ) -> Result<(HashSet<Checksum>, Vec<Checksum>), Status> {
        let list = wire::ShelfList {
            worker,
            checksums: messages::joined(listed.iter().map(|block| block.checksum)),
            seconds: listed.iter().map(|block| block.since.elapsed().as_secs() as u32).collect(),
        };
        let answer = self.client().tidy_shelf(with_timeout(list, 30)).await;
        let wire::ShelfAnswer { unwanted, lonely } = answer?.into_inner();
        let understand = |joined: &[u8]| {
            let understood = messages::checksums(joined).map(Vec::from_iter);
            understood.map_err(|error| Status::internal(error.to_string()))
        };
        Ok((understand(&unwanted)?.into_iter().collect(), understand(&lonely)?))
    }

    /// Puts copies of blocks on other shelves. These will say that they have them.
    fn copy(&self, shelf: &Shelf, others: &OtherShelves, checksums: &[Checksum]) {
        for &checksum in checksums {
            let Ok(Some(block)) = shelf.block(self.identity.layout(), checksum) else { continue };
            if others.put(shelf.number(), &[block]).is_none() {
                return;
            }
        }
    }

    pub(super) async fn ask_for_shelves(&self) -> Result<Vec<ShelfPlace>, Status> {
        let (mut client, worker) = (self.client(), self.worker());
        let request = with_timeout(wire::FindShelvesRequest { worker }, 30);
        let reply = client.find_shelves(request).await?.into_inner();
        Ok(reply.shelves.into_iter().filter_map(messages::shelf_place).collect())
    }

    /// All is done that was to be done now: what lies on the shelf goes, unless the coordinator has
    /// said that something of it is still needed.
    pub fn clear_shelf(&self) {
        let Some(shelf) = self.supply.shelf() else { return };
        match self.shelves_are_needed.load(Ordering::Relaxed) {
            false => shelf.end(),
            true => tracing::info!(
                shelf = %shelf.path().display(),
                "the shelf stays: the census goes further than what was to be done now"
            ),
        }
    }
}
