//! `trailtrap salvage`: what is undamaged of a damaged store goes into a new one, and a census solves the rest again.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context, bail};
use clap::Args;
use trailtrap_shared::{
    game::TrailTrap,
    partition::{Block, Section},
    plan::{Plan, Shard, Unit},
};

use crate::{
    content::Content,
    directory::DataDirectory,
    finished::FinishedError,
    progress, report,
    store::{Delivery, OrderRecord, Store, StoreError, UnitRecord},
};

/// Makes a damaged data directory usable again.
///
/// Copies every unit of which all is undamaged into a new store, which takes the place of the old one; that is kept beside it. Then
/// `trailtrap census` solves what is missing, and nothing else. Takes as long as reading the data, and as much space again.
///
/// A census mends single damaged blocks by itself when it reads them. This is for what it cannot read around: a database that does not
/// open, or damage in finished orders that `trailtrap verify` has found.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct SalvageCommand {
    /// The data directory
    #[arg(long, value_name = "DIR", default_value = "trailtrap-data", env = "TRAILTRAP_DATA")]
    data: PathBuf,
}

/// Blocks of more bytes than this are written together.
const GROUP_BYTES: u64 = 64 << 20;

impl SalvageCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if !self.data.join("store").exists() {
            return Err(FinishedError::NoCensus(self.data).into());
        }
        let directory = DataDirectory::take(&self.data)?;
        let path = directory.store();
        let new = path.with_extension("salvaged");
        if new.exists() {
            // An earlier attempt was interrupted.
            std::fs::remove_dir_all(&new)?;
        }
        let old = Store::open_damaged(&path).with_context(|| {
            format!("{} is damaged beyond what can be read; only a new census helps", path.display())
        })?;
        let mut salvage = Salvage { old, new: Store::open(&new)?, kept: 0, lost: 0 };
        salvage.run()?;
        let Salvage { kept, lost, .. } = salvage;
        let aside = (1..).map(|i| path.with_extension(format!("damaged-{i}"))).find(|aside| !aside.exists());
        let Some(aside) = aside else { bail!("no name is left for the damaged store") };
        std::fs::rename(&path, &aside)?;
        std::fs::rename(&new, &path)?;
        report::print(&format!(
            "kept {kept} units; {lost} are damaged or were not done. The damaged store is now {}\n\
             `trailtrap census N --data {}` solves what is missing\n",
            aside.display(),
            self.data.display()
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

struct Salvage {
    old: Store,
    new: Store,
    kept: u64,
    lost: u64,
}

impl Salvage {
    fn run(&mut self) -> Result<(), StoreError> {
        self.new.take_over(&self.old)?;
        let mut complete = true;
        for n in 1.. {
            let record = match self.old.order(n) {
                Ok(None) => return Ok(()),
                Ok(Some(record)) => record,
                Err(error) => {
                    eprintln!("order {n} and those above are lost: {error}");
                    return Ok(());
                }
            };
            let plan = Plan::new::<TrailTrap>(n, record.options);
            if plan.fingerprint != record.plan_fingerprint {
                return Err(StoreError::Plan(n));
            }
            complete &= self.copy(&plan, &record)?;
            // What was computed from what is missing may come out otherwise: the census looks at it again.
            let result = record.result.filter(|_| complete);
            self.new.put_order(n, &OrderRecord { result, ..record })?;
        }
        Ok(())
    }

    /// Copies the units of an order; whether all are there.
    fn copy(&mut self, plan: &Plan, order: &OrderRecord) -> Result<bool, StoreError> {
        let (mut group, mut bytes, lost_before) = (Vec::new(), 0, self.lost);
        let done = AtomicU64::new(0);
        let what = format!("order {}", plan.order);
        progress::watched(&what, plan.shards.len() as u64, &done, || {
            for (index, shard) in plan.shards.iter().enumerate() {
                for part in 0..shard.parts {
                    let unit = Unit { order: plan.order as u8, shard: index as u32, part };
                    match self.read(unit, shard, order) {
                        Ok(Some((record, blocks))) => {
                            bytes += record.bytes;
                            self.kept += 1;
                            group.push(Arc::new(Delivery { unit, sequence: shard.sequence, blocks, record }));
                        }
                        Ok(None) => self.lost += 1,
                        Err(error) => {
                            self.lost += 1;
                            eprintln!("order {}, shard {}, part {part}: {error}", plan.order, shard.sequence);
                        }
                    }
                    if bytes > GROUP_BYTES {
                        self.new.commit(&std::mem::take(&mut group))?;
                        bytes = 0;
                    }
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
            self.new.commit(&group)
        })?;
        Ok(self.lost == lost_before)
    }

    /// A unit of which nothing is damaged; `None` if it is not recorded.
    fn read(
        &self,
        unit: Unit,
        shard: &Shard,
        order: &OrderRecord,
    ) -> Result<Option<(UnitRecord, Vec<Block>)>, StoreError> {
        let Some(record) = self.old.unit(unit)? else { return Ok(None) };
        let mut blocks = Vec::new();
        let mut dropped = false;
        for bucket in 0..1u32 << shard.bucket_bits {
            for section in Section::ALL {
                match self.old.block(shard, unit.part, bucket, section) {
                    Ok(block) => blocks.push(block),
                    Err(StoreError::MissingBlock(_)) if !order.outcomes_kept && section != Section::Wins => {
                        dropped = true
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        match dropped || Content::of_unit(&blocks) == record.content {
            true => Ok(Some((record, blocks))),
            false => Err(StoreError::Content),
        }
    }
}
