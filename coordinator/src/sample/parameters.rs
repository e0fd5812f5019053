//! The parameters of a run, which stand in a file of its directory.

use serde::{Deserialize, Serialize};
use trailtrap_shared::sample::model::Model;

/// The file that says what is sampled, and how.
pub(super) const PARAMETERS: &str = "parameters.json";
/// Version of the files of a run.
pub const FORMAT: u32 = 3;

/// What is sampled, and how. Verdicts and nodes follow from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// Version of the files of a run.
    pub format: u32,
    /// Version of the search.
    pub method: u32,
    /// The order.
    pub order: usize,
    /// The model.
    pub model: Model,
    /// Graphs to draw.
    pub samples: u64,
    /// The seed.
    pub seed: u64,
    /// The least and the largest number of edges that are not left out.
    pub sizes: [usize; 2],
    /// Edges of the endgame's graphs: up to these all is exact.
    pub endgame_size: Option<usize>,
    /// The public digest of the endgame's records.
    pub endgame_digest: Option<String>,
}

impl Parameters {
    /// In which points another run differs, as a command would say it; empty if it does not.
    pub(super) fn differences(&self, other: &Parameters) -> String {
        let points = |run: &Parameters| {
            let [least, most] = run.sizes;
            let none = || "none".to_owned();
            [
                ("--order", run.order.to_string()),
                ("--model", run.model.to_string()),
                ("--samples", run.samples.to_string()),
                ("--seed", run.seed.to_string()),
                ("--sizes", format!("{least}..{most}")),
                ("--endgame-size", run.endgame_size.map_or_else(none, |size| size.to_string())),
                ("endgame with digest", run.endgame_digest.clone().unwrap_or_else(none)),
                ("method", run.method.to_string()),
                ("format", run.format.to_string()),
            ]
        };
        let both = points(other).into_iter().zip(points(self));
        let differ = both.filter(|(theirs, own)| theirs != own);
        let words = differ.map(|((name, theirs), (_, own))| format!("{name} {theirs}, not {own}"));
        words.collect::<Vec<_>>().join("; ")
    }
}
