//! A bundle: a directory with everything about finished orders that others need to read, cite and
//! check the results.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};
use trailtrap_census::read::{OrderResult, Watcher, archive::Archive};
use trailtrap_shared::{count::summary::Summary, labelling::LABELLING, partition::BLOCK_FORMAT};
use trailtrap_worker::process::replace::{directory_of, sync_directory};

use crate::{
    ExportError,
    choice::Choice as _,
    documents,
    formats::{self, TableFormat, render},
    graphs::{Filter, GraphList},
    latex,
    manifest::{
        BUNDLE_FORMAT, Done, FormatVersions, ListEntry, MICROSECONDS, Manifest, OrderEntry,
        Program, Trust, WorkerEntry,
    },
    output,
    picture::PictureFormat,
    plots,
    sequences::{self, Sequence},
    shards, sheet,
    tables::{self, Orders},
};

/// How each table of a bundle is written, and what the names of the files end in.
pub const TABLE_FORMATS: [(TableFormat, &str); 4] = [
    (TableFormat::Csv, "csv"),
    (TableFormat::Json, "json"),
    (TableFormat::Markdown, "md"),
    (TableFormat::Latex, "tex"),
];
/// The file that has all tables for LaTeX.
pub const ALL_TABLES: &str = "tables/all.tex";

/// The file of a table in a bundle.
pub fn table_file(kind: tables::TableKind, extension: &str) -> String {
    format!("tables/{}.{extension}", kind.name())
}

/// What stands in [`ALL_TABLES`] of a bundle with these tables.
pub fn all_tables(kinds: impl IntoIterator<Item = tables::TableKind>) -> String {
    let inputs = kinds.into_iter().map(|kind| latex::input(kind.name()));
    latex::document(&inputs.collect::<String>())
}

/// Drawings on a sheet.
const DRAWINGS: usize = 20;
/// The order of the sheet: the largest whose graphs forward search solves at once.
const DRAWN_ORDER: usize = 7;

/// A directory that is being filled, and the digests of its files.
struct Filling<'a> {
    root: PathBuf,
    /// Where it will be, by which errors name it.
    place: &'a Path,
    watcher: &'a dyn Watcher,
    sums: BTreeMap<String, String>,
}

/// Counts what goes through into a digest.
struct Hashing<'a> {
    out: &'a mut dyn Write,
    sha256: Sha256,
}

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sha256.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Filling<'_> {
    fn put(&mut self, name: &str, bytes: impl AsRef<[u8]>) -> Result<(), ExportError> {
        self.fill(name, |out| Ok(out.write_all(bytes.as_ref())?))
    }

    fn fill(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        if self.watcher.wants_no_more() {
            return Err(ExportError::Stopped);
        }
        let path = self.root.join(name);
        let target = |source| ExportError::Target { path: self.place.join(name), source };
        fs::create_dir_all(directory_of(&path)).map_err(target)?;
        let mut sum = None;
        let written = output::write_file(&path, |out| {
            let mut hashing = Hashing { out, sha256: Sha256::new() };
            write(&mut hashing)?;
            sum = Some(hex::encode(hashing.sha256.finalize()));
            Ok(())
        });
        written.map_err(|error| match error {
            ExportError::Target { source, .. } => target(source),
            other => other,
        })?;
        self.sums.insert(name.to_owned(), sum.unwrap_or_default());
        Ok(())
    }
}

/// Makes the bundle of all complete orders, or of those up to `last`, in a new directory. Lists of
/// P1-win graphs of more than `list_bytes` bytes of text are described, not included.
///
/// # Errors
/// If the directory exists or cannot be written, if no order is finished or an alarm is open, if
/// the data directory cannot be read, or if `watcher` wants no more. Nothing is left behind then.
pub fn bundle(
    archive: &Archive,
    directory: &Path,
    last: Option<usize>,
    list_bytes: u64,
    program: Program,
    watcher: &dyn Watcher,
) -> Result<(), ExportError> {
    let target = |source| ExportError::Target { path: directory.to_owned(), source };
    if directory.symlink_metadata().is_ok() {
        return Err(ExportError::Exists(directory.to_owned()));
    }
    let parent = directory_of(directory);
    let results = archive.complete_orders(last)?;
    let (about, class, last) = (archive.game().about(), archive.class(), results.len());
    fs::metadata(parent).map_err(target)?;
    // Goes with everything in it, unless it is moved to its place.
    let beside = tempfile::Builder::new().prefix(".trailtrap-").tempdir_in(parent);
    // Its own words name a directory of which nobody has heard.
    let beside = beside.map_err(|error| target(error.kind().into()))?;
    let root = beside.path().join("bundle");
    let mut filling = Filling { root, place: directory, watcher, sums: BTreeMap::new() };
    fs::create_dir(&filling.root).map_err(target)?;

    put_tables(&mut filling, archive, last)?;
    for sequence in Sequence::ALL {
        for by_size in [false, true] {
            let text = sequences::b_file(about, class, *sequence, by_size, 1, &results);
            filling.put(&format!("bfiles/{}", sequence.file_name(by_size)), text)?;
        }
    }
    put_plots(&mut filling, archive, last)?;
    let mut orders = Vec::new();
    for result in &results {
        orders.push(put_order(
            &mut filling,
            archive,
            result,
            list_bytes,
            result.order == last.min(DRAWN_ORDER),
        )?);
    }
    let table = formats::markdown(&tables::build(
        archive,
        tables::TableKind::Orders,
        Orders::UpTo(Some(last)),
        watcher,
    )?);
    filling.put("README.md", documents::readme(about, class, &orders, &table))?;
    filling.put("CITATION.cff", documents::citation(about, class, &program))?;
    filling.put(".zenodo.json", documents::zenodo(about, class, last, &program))?;
    filling.put("LICENSE", include_str!("../../../LICENSE"))?;
    let manifest = Manifest {
        bundle_format: BUNDLE_FORMAT,
        title: documents::title(about, class),
        class,
        game: documents::game(about),
        exported_by: program,
        formats: FormatVersions {
            public_digest: 1,
            labelling: LABELLING,
            block: BLOCK_FORMAT,
            game: archive.game().layout().game,
        },
        orders,
    };
    filling.put("manifest.json", manifest.to_json())?;
    let sums: String = filling.sums.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
    filling.put("SHA256SUMS", sums)?;
    fs::rename(&filling.root, directory).and_then(|()| sync_directory(parent)).map_err(target)
}

/// Tables over all orders: for programs, and, but for the long one by degree sequence, for people.
fn put_tables(filling: &mut Filling, archive: &Archive, last: usize) -> Result<(), ExportError> {
    let kinds = || {
        let all = tables::TableKind::ALL.iter().copied();
        all.filter(|kind| kind.since_bundle_format().is_some())
    };
    for kind in kinds() {
        let table = tables::build(archive, kind, Orders::UpTo(Some(last)), filling.watcher)?;
        for (format, extension) in TABLE_FORMATS {
            filling.put(&table_file(kind, extension), render(&table, format)?)?;
        }
    }
    filling.put(ALL_TABLES, all_tables(kinds()))
}

fn put_plots(filling: &mut Filling, archive: &Archive, last: usize) -> Result<(), ExportError> {
    for &kind in plots::PlotKind::ALL.iter().filter(|kind| !kind.looks_at_graphs()) {
        let orders =
            if kind.is_of_one_order() { (3.min(last)..=last).collect() } else { vec![last] };
        for order in orders {
            let picture = plots::plot(archive, kind, Some(order), filling.watcher)?;
            let stem = if kind.is_of_one_order() {
                format!("{}-n{order:02}", kind.name())
            } else {
                kind.name().to_owned()
            };
            for &format in PictureFormat::ALL {
                filling.put(
                    &format!("plots/{stem}.{}", format.extension()),
                    picture.render(format),
                )?;
            }
        }
    }
    Ok(())
}

/// What there is of one order, with a sheet of drawings or not.
fn put_order(
    filling: &mut Filling,
    archive: &Archive,
    result: &OrderResult,
    list_bytes: u64,
    drawn: bool,
) -> Result<OrderEntry, ExportError> {
    let (order, class) = (result.order, archive.class());
    let shards = archive.shards(order)?;
    let shard_file = format!("shards/n{order:02}.parquet");
    filling.put(&shard_file, shards::parquet(archive.game().about(), class, &shards, None)?)?;
    let list = GraphList::read(archive, order, &Filter::default(), filling.watcher)?;
    if drawn {
        let sheet = sheet::sheet(archive.game(), class, &list, (order, None), DRAWINGS)?;
        for &format in PictureFormat::ALL {
            filling.put(
                &format!("drawings/p1-wins-n{order:02}.{}", format.extension()),
                sheet.render(format),
            )?;
        }
    }
    let options = archive.plan(order)?.options;
    let Summary { statistics: sum, digest } = result.total();
    let done = Done::of(&shards);
    Ok(OrderEntry {
        order,
        graphs: sum.classes.all.graphs as u64,
        p1_wins: sum.classes.all.listed as u64,
        digest,
        checks: documents::checks(class),
        shards: done.shards,
        units: done.units as u32,
        trust: Trust {
            replication: done.replication(),
            units_confirmed: done.units_confirmed as u32,
            records_tried: done.records_tried,
            alarms_settled: archive.alarms(order).count(),
        },
        part_graphs: options.part_graphs,
        bucket_bytes: options.bucket_bytes,
        stored_bytes: done.stored_bytes,
        worker_seconds: done.microseconds as f64 / MICROSECONDS,
        workers: done
            .workers
            .into_iter()
            .map(|(name, shards)| WorkerEntry { name, shards })
            .collect(),
        shard_file,
        p1_win_list: put_list(filling, &list, archive, order, list_bytes)?,
    })
}

fn put_list(
    filling: &mut Filling,
    list: &GraphList,
    archive: &Archive,
    order: usize,
    list_bytes: u64,
) -> Result<ListEntry, ExportError> {
    let sha256 = sha256_of(list)?;
    let (about, class) = (archive.game().about(), archive.class());
    let file = (list.bytes() <= list_bytes).then(|| documents::list_file(about, class, order));
    if let Some(file) = &file {
        filling.fill(file, |out| list.write_gzip(out))?;
    }
    Ok(ListEntry { graphs: list.len() as u64, bytes: list.bytes(), sha256, file })
}

/// Digest of a list as text.
///
/// # Errors
/// Those of [`GraphList::write`], which a digest, unlike a file, does not cause.
pub fn sha256_of(list: &GraphList) -> Result<String, ExportError> {
    let mut hashing = Hashing { out: &mut io::sink(), sha256: Sha256::new() };
    list.write(&mut hashing)?;
    Ok(hex::encode(hashing.sha256.finalize()))
}
