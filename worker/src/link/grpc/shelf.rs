//! Says what lies on the shelf of this worker, and hears where those of others are.

use std::{collections::HashSet, sync::Arc, time::Duration};

use tonic::Status;
use trailtrap_shared::{
    partition::Checksum,
    protocol::{messages, shelves::ShelfPlace, wire},
};

use super::{GrpcLink, root_cause, with_timeout};
use crate::supply::shelf::Listed;

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
                link.tidy_shelf().await;
            }
        }
    }

    /// Says what lies on the shelf of this process, removes what is of no use, and hears where
    /// other shelves are. What fails is done the next time.
    pub(super) async fn tidy_shelf(&self) {
        let Some(others) = self.supply.others() else { return };
        let (mut client, worker) = (self.client(), self.worker());
        match self.ask_for_shelves().await {
            Ok(places) => others.set(places),
            Err(status) => {
                return tracing::debug!(cause = root_cause(&status), "shelves are not found");
            }
        }
        let Some(shelf) = self.supply.shelf().cloned() else { return };
        let mut listed = shelf.list();
        while !listed.is_empty() {
            let some: Vec<Listed> = listed.split_off(listed.len().saturating_sub(LISTED));
            let list = wire::ShelfList {
                worker,
                checksums: messages::joined(some.iter().map(|block| block.checksum)),
                settled: some.iter().map(|block| block.is_settled).collect(),
            };
            let unwanted = match client.tidy_shelf(with_timeout(list, 30)).await {
                Ok(answer) => answer.into_inner().unwanted,
                Err(status) => {
                    return tracing::debug!(
                        cause = root_cause(&status),
                        "the shelf stays as it is"
                    );
                }
            };
            let Ok(unwanted) = messages::checksums(&unwanted).map(HashSet::<Checksum>::from_iter)
            else {
                return tracing::debug!("what is to go cannot be understood");
            };
            let go: Vec<Listed> =
                some.into_iter().filter(|block| unwanted.contains(&block.checksum)).collect();
            let shelf = shelf.clone();
            // A failure is said there.
            let _ = tokio::task::spawn_blocking(move || shelf.remove(&go)).await;
        }
    }

    pub(super) async fn ask_for_shelves(&self) -> Result<Vec<ShelfPlace>, Status> {
        let (mut client, worker) = (self.client(), self.worker());
        let request = with_timeout(wire::FindShelvesRequest { worker }, 30);
        let reply = client.find_shelves(request).await?.into_inner();
        Ok(reply.shelves.into_iter().filter_map(messages::shelf_place).collect())
    }

    /// The census is done: what lies on the shelf is of no use any more.
    pub fn clear_shelf(&self) {
        if let Some(shelf) = self.supply.shelf() {
            shelf.end();
        }
    }
}
