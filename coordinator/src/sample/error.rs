//! What can be wrong with a sample, and what people can do about it.

use std::{
    io,
    path::{Path, PathBuf},
};

use trailtrap_shared::{graph::pairs, sample::model::Model};
use trailtrap_worker::process::limits::Size;

use super::{endgame::LoadError, parameters::PARAMETERS};

/// Why there is no estimate.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// No endgame.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The endgame does not fit.
    #[error(
        "the endgame of {size} edges takes {needed}, and {available} are available; {}",
        smaller_endgame(*.smaller)
    )]
    Memory {
        /// Edges of its graphs.
        size: usize,
        /// Of those of the largest endgame that fits, if the census has one.
        smaller: Option<usize>,
        /// Bytes that it takes.
        needed: Size,
        /// Bytes that there are.
        available: Size,
    },
    /// Not even the least endgame may be loaded.
    #[error(
        "the least endgame that is kept, of {size} edges, takes {needed}, and a plan may take \
         {allowed}: give more with `--memory`, or plan where more is free"
    )]
    Allowed {
        /// Edges of its graphs.
        size: usize,
        /// Bytes that it takes.
        needed: Size,
        /// Bytes that the plan may take.
        allowed: Size,
    },
    /// The model has no such graphs.
    #[error("no graph of order {order} has {size} edges: the most are {}", pairs(*.order))]
    NoGraphs {
        /// The order.
        order: usize,
        /// Edges.
        size: usize,
    },
    /// The directory was never that of a run.
    #[error(
        "{} holds other files and no sample; choose an empty or new directory for --output",
        .0.display()
    )]
    Foreign(PathBuf),
    /// Everything is left out.
    #[error(
        "there is nothing to estimate: --sizes leaves out all graphs, and those of {model} have \
         {least} to {most} edges"
    )]
    Nothing {
        /// The model.
        model: Model,
        /// The fewest edges of its graphs.
        least: usize,
        /// The most.
        most: usize,
    },
    /// Too few samples.
    #[error(
        "{samples} samples do not suffice for {strata} numbers of edges: draw more, or bound \
         these by --sizes"
    )]
    TooFew {
        /// Graphs to draw.
        samples: u64,
        /// Numbers of edges.
        strata: usize,
    },
    /// No number of samples makes the interval that small.
    #[error("{samples} samples do not suffice for an interval that small")]
    Width {
        /// The most graphs that may be drawn.
        samples: u64,
    },
    /// Some graphs would take too long.
    #[error(
        "a graph of order {order} with {most} edges may take {}{}; {}`--sizes ..{most}` tries \
         them all the same",
        time(*.seconds),
        if *has_endgame { "" } else { " without an endgame" },
        practical.as_ref().map_or_else(String::new, |(size, left_out)| format!(
            "`--sizes ..{size}` leaves out those that take more than minutes, {left_out:.2e} of \
             all; "
        )),
    )]
    TooLong {
        /// The order.
        order: usize,
        /// The most edges of a graph that may be drawn.
        most: usize,
        /// About the seconds that it takes.
        seconds: f64,
        /// The most edges of a graph that takes minutes, and the weight of those that have more;
        /// unless these are about all.
        practical: Option<(usize, f64)>,
        /// Whether there is an endgame.
        has_endgame: bool,
    },
    /// The directory has another run.
    #[error(
        "{} holds a sample with other parameters ({what}); {}give another --output, or remove it",
        path.display(),
        endgame_size.map_or_else(String::new, |size| format!(
            "`--endgame-size {size}` goes on with it; otherwise "
        ))
    )]
    Other {
        /// The directory.
        path: PathBuf,
        /// What differs.
        what: String,
        /// The edges of its endgame, if they alone differ.
        endgame_size: Option<usize>,
    },
    /// The parameters of the run that is there cannot be told.
    #[error(
        "{} does not say what was sampled; give another --output, or remove the directory",
        path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// There is what comes after parameters, and there are none.
    #[error(
        "{} has what a sample makes, and its {PARAMETERS}, which would say of which graphs, is gone; \
         give another --output, or remove the directory",
        .0.display()
    )]
    Lacking(PathBuf),
    /// A file cannot be read or written.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of verdicts holds something else.
    #[error("{} is damaged ({what}); remove it, and the same command goes on", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: Damage,
    },
    /// A search came to no verdict.
    #[error("{0}")]
    Search(String),
    /// Two methods disagree.
    #[error(
        "CONTRADICTION: the search says that {first} wins {graph6}, with {how} it says {second}; \
         nothing is estimated. Please report this graph"
    )]
    Contradiction {
        /// The graph.
        graph6: String,
        /// The winner that was found first.
        first: &'static str,
        /// The other one.
        second: &'static str,
        /// The other way.
        how: String,
    },
}

/// What is wrong with a file of verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A line, counted from 1, is not about the graph that it should be about.
    #[error("line {0}")]
    Line(usize),
    /// The text is not that which was written.
    #[error("its checksum is missing or another one")]
    Checksum,
}

/// Opens a file, or whatever is done, with its name in the error.
pub(super) fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, SampleError> {
    result.map_err(|source| SampleError::File { path: path.to_owned(), source })
}

/// That all of these shares are left out.
pub(super) fn nothing(model: Model, shares: &[f64]) -> SampleError {
    let has_graphs = |share: &f64| *share > 0.0;
    let least = shares.iter().position(has_graphs).unwrap_or(0);
    let most = shares.iter().rposition(has_graphs).unwrap_or(0);
    SampleError::Nothing { model, least, most }
}

/// What to do where an endgame does not fit.
fn smaller_endgame(smaller: Option<usize>) -> String {
    match smaller {
        Some(size) => format!("`--endgame-size {size}` takes less memory and more time"),
        None => "this census keeps no smaller one: give it more, or take one that was done with \
                 `--keep all`"
            .to_owned(),
    }
}

/// A time that is no more than estimated.
fn time(seconds: f64) -> String {
    match seconds / 3600.0 {
        hours if hours < 2.0 => format!("{:.0} minutes", hours * 60.0),
        hours if hours < 1e4 => format!("{hours:.0} hours"),
        hours => format!("10^{:.0} hours", hours.log10()),
    }
}
