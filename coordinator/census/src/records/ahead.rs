//! What the graphs of a unit tell about those with one edge more.

use serde::{Deserialize, Serialize};
use trailtrap_shared::{
    count::ahead::{Share, ToldAhead},
    partition::Content,
};

/// What a unit adds to sums of other shards, those with one edge more: its share in the sum that
/// is [`Told::ByOutcome`](trailtrap_shared::game::Told::ByOutcome), which their own records do not
/// tell, and, in a class of graphs, in how many graphs there are. What all predecessors of a shard
/// add is the sum of the shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ahead {
    /// Of the blocks that tell it.
    pub content: Content,
    /// By the number of the shard in the plan, each once.
    pub shares: Vec<(u32, Share)>,
    /// The same for Σ n!/|Aut| times the number of edges: how often an edge more leads from graphs
    /// of the unit, each taken n!/|Aut| times, to graphs of the class there. Nothing if the
    /// degrees tell all. Stored by itself.
    #[serde(skip)]
    pub masses: Vec<(u32, u128)>,
}

impl Ahead {
    /// What was told by the unit of this content.
    pub fn of(content: Content, told: ToldAhead) -> Self {
        Ahead { content, shares: told.shares, masses: told.masses }
    }
}
