//! `trailtrap census`.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use trailtrap_shared::labelling::batch::Kernel;
use trailtrap_worker::{
    engine::Engine,
    process::{
        self,
        limits::{self, Size},
        log,
    },
};

use super::run::{Common, parse_order, stopping, watched};
use crate::serve::embedded::EmbeddedLink;

/// Does a census in this process: coordinator, solver and store together.
#[derive(Args)]
pub struct CensusCommand {
    /// Do all orders (numbers of vertices) up to this one
    #[arg(value_name = "N", value_parser = parse_order)]
    order: usize,
    /// Solving threads [default: the processors this process may use]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Budget for partitions and graphs in work, such as 4GiB [default: six tenths of what is
    /// available]. Where it is small, so are parts of shards, buckets (--part-graphs,
    /// --bucket-size) and what may wait for the disk. Beside it the process takes memory for its
    /// plans, for what waits for the disk, and for one part of a large shard, which by default
    /// takes at most as much again as the budget
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Instruction set: auto, portable, avx2 or avx512. Has no influence on results
    #[arg(long, value_name = "KERNEL", default_value = "auto")]
    kernel: Kernel,
    #[command(flatten)]
    common: Common,
}

impl CensusCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let memory = self.memory.unwrap_or_else(limits::default_memory);
        let threads = self.threads.map_or_else(limits::threads, usize::from);
        let (directory, _) = self.common.prepare(self.order, Some(memory), false)?;
        let options = self.common.options(self.order, Duration::from_secs(60), Some(memory));
        let census = self.common.open(&directory, options, None)?;
        let (_runtime, stop) = stopping()?;
        let link =
            EmbeddedLink::new(census.clone(), process::identity(), threads, self.kernel.name())?;
        let memory = memory.0 as usize;
        let worked = {
            // The engine holds the census; what it leaves in memory is not needed afterwards.
            let engine = Engine::new(link, census.game(), threads, self.kernel, memory, stop)?;
            let worked = watched(&census, &directory, || engine.run());
            if !engine.effort().is_none() {
                log::say(&format!("trailtrap: solved {}", engine.effort()));
            }
            worked
        };
        if let Err(error) = worked {
            // What is finished gets stored; an error of the census itself is nearer to the cause.
            census.close().map_err(|error| self.common.explained(error))?;
            return Err(error.into());
        }
        self.common.finish(&census, &directory)
    }
}
