//! `trailtrap wins`: the graphs of an order that P1 wins, in graph6.

use std::{
    io::{self, BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, bail};
use clap::Args;
use trailtrap_shared::{
    game::TrailTrap,
    graph6,
    partition::{Section, graph_of_slot},
    plan::Plan,
};

use crate::{census::CensusError, run::parse_order, store::Store};

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
        let path = self.data.join("store");
        if !path.exists() {
            bail!("there is no census in {}", self.data.display());
        }
        match self.print(&Store::open_read_only(&path).map_err(CensusError::from)?) {
            // Somebody reads only the beginning.
            Err(error) if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) => {}
            other => other.with_context(|| format!("data directory {}", self.data.display()))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, store: &Store) -> anyhow::Result<()> {
        let Some(record) = store.order(self.order)?.filter(|record| record.result.is_some()) else {
            bail!("order {} is not done; `trailtrap census {}` does it", self.order, self.order);
        };
        let mut out = BufWriter::new(io::stdout().lock());
        let mut line = Vec::new();
        for shard in &Plan::new::<TrailTrap>(self.order, record.options).shards {
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
