//! `trailtrap wins`: the graphs of an order that P1 wins, in graph6.

use std::{
    io::{self, BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use clap::Args;
use trailtrap_shared::{
    graph6,
    partition::{Section, graph_of_slot},
};

use crate::{
    finished::{FinishedOrder, open_store},
    input::is_broken_pipe,
    run::parse_order,
    store::Store,
};

/// Prints the graphs of a finished order that the first player wins, in graph6, one a line.
///
/// Labels are those of the census. For a list, or its digest, that anyone with nauty can reproduce:
/// `trailtrap wins N | nauty-labelg -q | LC_ALL=C sort | sha256sum`.
#[derive(Args)]
pub struct WinsCommand {
    /// The order
    #[arg(value_name = "N", value_parser = parse_order)]
    order: usize,
    /// The data directory, in use or not
    #[arg(long, value_name = "DIR", default_value = "trailtrap-data", env = "TRAILTRAP_DATA")]
    data: PathBuf,
}

impl WinsCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.print(&open_store(&self.data)?) {
            // Somebody reads only the beginning.
            Err(error) if is_broken_pipe(&error) => {}
            other => other.with_context(|| format!("data directory {}", self.data.display()))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, store: &Arc<Store>) -> anyhow::Result<()> {
        let finished = FinishedOrder::open(store, self.order)?;
        let mut out = BufWriter::new(io::stdout().lock());
        let mut line = Vec::new();
        for shard in &finished.plan.shards {
            for bucket in 0..1u32 << shard.bucket_bits {
                for block in store.blocks(shard, bucket, Section::Wins)? {
                    for slot in block.slots() {
                        let graph = graph_of_slot(&shard.sequence, slot).with_context(|| {
                            format!("partition {} lists slot {slot:#x}, which is no graph", shard.sequence)
                        })?;
                        line.clear();
                        graph6::encode_into(&graph, &mut line);
                        line.push(b'\n');
                        out.write_all(&line)?;
                    }
                }
            }
        }
        Ok(out.flush()?)
    }
}
