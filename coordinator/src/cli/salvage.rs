//! `trailtrap salvage`: what is undamaged of a damaged store goes into a new one, and a census
//! solves the rest again.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, bail};
use clap::Args;
use trailtrap_census::{
    read::finished::FinishedError,
    store::{
        directory::{
            DATA_VARIABLE, DataDirectory, DirectoryError, STORE, USUAL_DATA, quoted, store_in,
        },
        salvage::{Salvaged, salvage},
    },
};

use crate::{
    cli::run::full_or,
    terminal::{self, Terminal},
};

/// Makes a damaged data directory usable again.
///
/// Copies every unit of which all is undamaged into a new store, which takes the place of the old
/// one; that is kept beside it, unchanged. If the database does not open, what is in its files is
/// read without it. Then `trailtrap census` solves what is missing, and nothing else (or, if
/// workers have blocks on their shelves, `trailtrap coordinator` has it solved).
/// Takes as long as reading the data, and as much space again. Where the outcomes that a damaged
/// unit was computed from were not kept (`--keep`), it cannot be solved again alone, and all of its
/// order is left out.
///
/// A census mends single damaged blocks by itself when it reads them. This is for what it cannot
/// read around: a database that does not open or has lost what it had, or damage in finished
/// orders that `trailtrap verify` has found.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct SalvageCommand {
    /// The data directory
    #[arg(long, value_name = "DIR", default_value = USUAL_DATA, env = DATA_VARIABLE)]
    data: PathBuf,
    /// Also if graphs and outcomes lie on the shelves of workers, which are not reached: they are
    /// left out, and all that is of no use without them
    ///
    /// If the last order is finished, and its outcomes were not to be kept (`--keep`), its results
    /// stay, without graphs, but for those with most edges of an order that was limited if all of
    /// them are there, and a census that needs others asks for `--force`.
    #[arg(long)]
    force: bool,
}

impl SalvageCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let is_there = |path: PathBuf| {
            let io = |source| DirectoryError::Io { path: self.data.clone(), source };
            path.try_exists().map_err(io)
        };
        if !is_there(store_in(&self.data))? {
            return Err(FinishedError::NoCensus(self.data).into());
        }
        let complete = !is_there(self.data.join(STORE))?;
        let directory = DataDirectory::take(&self.data)?;
        if complete {
            // An earlier attempt was interrupted when only a name was left to change, which is
            // done.
            terminal::print(&format!(
                "what was salvaged before is in its place; {}",
                self.remedy()
            ))?;
            return Ok(ExitCode::SUCCESS);
        }
        let path = directory.store();
        let (new, salvaged) = (path.with_extension("salvaging"), directory.salvaged());
        let Salvaged { kept, lost } = salvage(&path, &new, self.force, &Terminal)
            .map_err(|error| {
                // They are of no use, and take room.
                for unfinished in [&new, &new.with_extension("rebuilt")] {
                    let _ = fs::remove_dir_all(unfinished);
                }
                full_or(error, &self.data)
            })
            .with_context(|| format!("cannot salvage {}", path.display()))?;
        // No database is open when its directory moves.
        directory.rename(&new, &salvaged)?;
        let aside = (1..)
            .map(|i| path.with_extension(format!("damaged-{i}")))
            .find(|aside| !aside.exists());
        let Some(aside) = aside else { bail!("no name is left for the damaged store") };
        directory.rename(&path, &aside)?;
        directory.rename(&salvaged, &path)?;
        let aside = aside.display();
        let found = match lost {
            0 => format!(
                "kept {kept} units; 0 are damaged or missing. What was there before is now \
                 {aside}, and is not needed any more if `trailtrap verify` finds nothing wrong"
            ),
            _ => format!(
                "kept {kept} units; {lost} are damaged, of no use alone, or were not done. The \
                 damaged store is now {aside}"
            ),
        };
        terminal::print(&format!("{found}\n{}", self.remedy()))?;
        Ok(ExitCode::SUCCESS)
    }

    fn remedy(&self) -> String {
        format!(
            "`trailtrap census N --data {}`, with the options that it had, solves what is missing\n",
            quoted(&self.data)
        )
    }
}
