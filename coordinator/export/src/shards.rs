//! The statistics of every shard, that is degree sequence, of an order, as Parquet: written, and
//! read back.

use std::{collections::HashMap, fmt, fs::File, os::unix::fs::FileExt};

use parquet::{
    errors::ParquetError,
    file::reader::{FileReader, SerializedFileReader},
    record::{Field, Row},
};
use trailtrap_census::read::archive::{Completeness, ShardSummary};
use trailtrap_shared::{
    class::Class,
    count::statistics::{Cell, Counts, Statistics, Structure, Sums, TOO_LARGE, Weighing},
    game::{About, SumName, VerdictName},
    graph::{NARROW_ORDER, degree::DegreeSequence},
};
use trailtrap_worker::process::signals::survived;

use crate::{
    ExportError,
    columnar::{self, ColumnData, ParquetColumn},
    tables::degrees_text,
};

/// What stands between the names of workers.
pub(crate) const BETWEEN_NAMES: &str = "; ";

/// Puts the columns together.
struct Columns<'a> {
    about: &'a About,
    shards: &'a [ShardSummary],
    columns: Vec<ParquetColumn>,
}

impl Columns<'_> {
    fn add(&mut self, name: impl Into<String>, meaning: impl Into<String>, data: ColumnData) {
        self.columns.push(ParquetColumn { name: name.into(), meaning: meaning.into(), data });
    }

    fn flags(&mut self, name: &str, meaning: &'static str, value: impl Fn(&ShardSummary) -> bool) {
        self.add(name, meaning, ColumnData::Flags(self.shards.iter().map(value).collect()));
    }

    fn small(
        &mut self,
        name: &str,
        meaning: &'static str,
        value: impl Fn(&ShardSummary) -> usize,
    ) {
        self.add(
            name,
            meaning,
            ColumnData::Small(self.shards.iter().map(|shard| value(shard) as i32).collect()),
        );
    }

    fn large(
        &mut self,
        name: String,
        meaning: impl Into<String>,
        value: impl Fn(&ShardSummary) -> u128,
    ) -> Result<(), ExportError> {
        let values = self.shards.iter().map(value);
        // Of some degrees there are more labelled forests than 64 bits count.
        let is_wide = |shard: &ShardSummary| shard.sequence.order() > NARROW_ORDER;
        let data = if name.starts_with("labelled_") && self.shards.iter().any(is_wide) {
            ColumnData::Huge(values.collect())
        } else {
            let values: Result<_, _> = values.map(i64::try_from).collect();
            ColumnData::Large(values.map_err(|_| ExportError::TooLarge { column: name.clone() })?)
        };
        self.add(name, meaning, data);
        Ok(())
    }

    fn text(
        &mut self,
        name: &str,
        meaning: &'static str,
        value: impl Fn(&ShardSummary) -> String,
    ) {
        self.add(name, meaning, ColumnData::Text(self.shards.iter().map(value).collect()));
    }

    fn counts(
        &mut self,
        prefix: &str,
        graphs: &str,
        pick: impl Fn(&ShardSummary) -> Counts,
    ) -> Result<(), ExportError> {
        self.large(format!("{prefix}graphs"), graphs, |shard| pick(shard).graphs)?;
        let VerdictName { stem, clause, .. } = &self.about.verdicts[0];
        let meaning = format!("{graphs} {clause}");
        self.large(format!("{prefix}{stem}_wins"), meaning, |shard| pick(shard).listed)
    }
}

/// With a status, which is that of the order, there are two columns more, or three.
fn columns(
    about: &About,
    class: Class,
    shards: &[ShardSummary],
    status: Option<Completeness>,
) -> Result<Vec<ParquetColumn>, ExportError> {
    let mut table = Columns { about, shards, columns: Vec::new() };
    table.small("order", "number of vertices", |shard| shard.sequence.order());
    table.small("size", "number of edges", |shard| shard.sequence.size());
    table.text("degrees", "degree sequence, highest degree first, separated by spaces", |shard| {
        degrees_text(&shard.sequence)
    });
    table.small("minimum_degree", "minimum degree", |shard| shard.sequence.degree(0));
    table.small("maximum_degree", "maximum degree", |shard| shard.sequence.maximum());
    table.flags("regular", "whether all degrees are equal", |shard| {
        shard.sequence.degree(0) == shard.sequence.maximum()
    });
    table.counts("", "graphs", |shard| shard.statistics.classes.all)?;
    table.counts("connected_", "connected graphs", |shard| shard.statistics.classes.connected)?;
    table.counts("labelled_", "labelled graphs", |shard| shard.statistics.labelled.all)?;
    table.counts("labelled_connected_", "connected labelled graphs", |shard| {
        shard.statistics.labelled.connected
    })?;
    type CellOf = fn(&Structure) -> Option<&Cell>;
    let parts: [(&str, &str, CellOf); 2] = [
        ("biconnected_", "2-connected", |structure| structure.connectivity.get(&2)),
        ("bipartite_", "bipartite", |structure| structure.bipartite.get(&1)),
    ];
    for (name, such, part) in parts {
        let cell =
            |shard: &ShardSummary| part(&shard.statistics.structure).copied().unwrap_or_default();
        table.counts(name, &format!("{such} graphs"), |shard| cell(shard).classes)?;
        let labelled = format!("{such} labelled graphs");
        table.counts(&format!("labelled_{name}"), &labelled, |shard| cell(shard).labelled)?;
    }
    for (i, SumName { key, meaning_in_shards, .. }) in about.sums.iter().enumerate() {
        table.large((*key).to_owned(), *meaning_in_shards, |shard| {
            shard.statistics.classes.sums.0[i]
        })?;
    }
    for (i, SumName { key, .. }) in about.sums.iter().enumerate() {
        let values = shards.iter().map(|shard| shard.statistics.labelled.sums.0[i]).collect();
        let meaning = format!("{key} over labelled graphs");
        table.add(format!("labelled_{key}"), meaning, ColumnData::Huge(values));
    }
    table.text("digest", "public digest, version 1", |shard| shard.digest.to_string());
    table.small("parts", "parts that the work was split into", |shard| shard.parts as usize);
    table.large("bytes".to_owned(), "bytes stored", |shard| shard.bytes.into())?;
    table.large("microseconds".to_owned(), "time that the shard took its workers", |shard| {
        shard.microseconds.into()
    })?;
    table.text("workers", "who solved it", |shard| shard.workers.join(BETWEEN_NAMES));
    table.small(
        "parts_confirmed",
        "parts that another worker solved again, with the same results",
        |shard| shard.parts_confirmed as usize,
    );
    let tried = "records that nauty derived again from their predecessors before they were let in";
    table.large("records_tried".to_owned(), tried, |shard| shard.records_tried.into())?;
    if let Some(status) = status {
        table.small("parts_recorded", "parts that all of this is about", |shard| {
            shard.parts_recorded as usize
        });
        table.text(
            "status",
            "finished; limited if graphs with more edges were left out; unfinished if units of \
             the order are missing and nothing was checked; withdrawn if units that it follows \
             from are to be solved again; disputed if an alarm is open, or what it doubts has not \
             been solved again",
            |_| status.word().to_owned(),
        );
        if let Some(max_size) = status.max_size {
            let meaning = "graphs with more edges than this are left out of the order";
            table.small("max_size", meaning, |_| max_size);
        }
    }
    if class != Class::All {
        let meaning = "the class of graphs that all counts are about";
        table.text("class", meaning, |_| class.to_string());
    }
    Ok(table.columns)
}

/// Names and meanings of the columns.
pub fn describe(about: &About, class: Class) -> Vec<(String, String)> {
    let columns = columns(about, class, &[], None).expect("no shard has no large numbers");
    columns.into_iter().map(|column| (column.name, column.meaning)).collect()
}

/// The bytes of the file, one row for each shard; with the status of their order, if one is given.
///
/// # Errors
/// If a number does not fit into the column that it belongs to.
pub fn parquet(
    about: &About,
    class: Class,
    shards: &[ShardSummary],
    status: Option<Completeness>,
) -> Result<Vec<u8>, ExportError> {
    Ok(columnar::write("shards", &columns(about, class, shards, status)?)?)
}

/// Reads such a file back; it has to have one row for each of these degree sequences, in this
/// order, and to be about graphs of this class.
///
/// # Errors
/// If the file cannot be read, is no Parquet file, or has other rows or columns, or such as do not
/// fit together.
pub fn read(
    about: &About,
    class: Class,
    file: File,
    sequences: &[DegreeSequence],
) -> Result<Vec<ShardSummary>, ParquetError> {
    let read = || {
        check_footer(&file)?;
        let reader = SerializedFileReader::new(file)?;
        // A file of a few bytes can have any number of rows.
        let rows = reader.get_row_iter(None)?.take(sequences.len() + 1);
        rows.collect::<Result<Vec<Row>, _>>()
    };
    // Whatever stands in the file.
    let rows = survived(read).unwrap_or_else(|panic| Err(ParquetError::General(panic)))?;
    if rows.len() != sequences.len() {
        let message = match rows.len() > sequences.len() {
            true => format!("more than {} rows", sequences.len()),
            false => format!("{} rows for {} degree sequences", rows.len(), sequences.len()),
        };
        return Err(ParquetError::General(message));
    }
    let with_sequences = rows.iter().zip(sequences);
    let shards: Vec<ShardSummary> = with_sequences
        .map(|(row, sequence)| Fields::of(about, row).summary(class, *sequence))
        .collect::<Result<_, _>>()?;
    says_the_same(&rows, about, class, &shards)?;
    Ok(shards)
}

/// No footer of such a file takes more bytes: the library goes down as deep as what it describes.
const LONGEST_FOOTER: u64 = 16 << 10;

/// That the footer of a file, whose length stands before the last four bytes, is not too long.
fn check_footer(file: &File) -> Result<(), ParquetError> {
    let Some(place) = file.metadata()?.len().checked_sub(8) else {
        return Err(ParquetError::General("it is too short".to_owned()));
    };
    let mut length = [0; 4];
    file.read_exact_at(&mut length, place)?;
    let length = u32::from_le_bytes(length);
    match u64::from(length) <= LONGEST_FOOTER {
        true => Ok(()),
        false => Err(ParquetError::General(format!("a footer of {length} bytes"))),
    }
}

/// That the rows are those that would be written: there may be no other columns, and all columns
/// have to fit together.
fn says_the_same(
    rows: &[Row],
    about: &About,
    class: Class,
    shards: &[ShardSummary],
) -> Result<(), ParquetError> {
    let columns = columns(about, class, shards, None)
        .map_err(|error| ParquetError::External(Box::new(error)))?;
    for (i, row) in rows.iter().enumerate() {
        let mut found = row.get_column_iter();
        for column in &columns {
            match found.next() {
                Some((name, field)) if *name == column.name => {
                    if !column.data.is(i, field) {
                        return Err(Fields::wrong(name, format!("{field} in row {}", i + 1)));
                    }
                }
                _ => return Err(Fields::wrong(&column.name, "missing, or not in its place")),
            }
        }
        if let Some((name, _)) = found.next() {
            return Err(Fields::wrong(name, "there"));
        }
    }
    Ok(())
}

/// A row that is read.
struct Fields<'a> {
    about: &'a About,
    by_name: HashMap<&'a str, &'a Field>,
}

impl<'a> Fields<'a> {
    fn of(about: &'a About, row: &'a Row) -> Self {
        let by_name = row.get_column_iter().map(|(name, field)| (name.as_str(), field)).collect();
        Fields { about, by_name }
    }

    fn wrong(name: &str, found: impl fmt::Display) -> ParquetError {
        ParquetError::General(format!("column {name} is {found}"))
    }

    fn number(&self, name: &str) -> Result<u128, ParquetError> {
        let number = match self.by_name.get(name) {
            Some(Field::Int(number)) => u128::try_from(*number).ok(),
            Some(Field::Long(number)) => u128::try_from(*number).ok(),
            Some(Field::Decimal(decimal)) => {
                decimal.data().try_into().ok().map(u128::from_be_bytes)
            }
            _ => None,
        };
        number
            .filter(|&number| number < TOO_LARGE)
            .ok_or_else(|| Self::wrong(name, "missing, or no number that can be"))
    }

    fn text(&self, name: &str) -> Result<&'a str, ParquetError> {
        match self.by_name.get(name) {
            Some(Field::Str(text)) => Ok(text),
            _ => Err(Self::wrong(name, "missing, or no text")),
        }
    }

    fn counts(&self, prefix: &str) -> Result<Counts, ParquetError> {
        let number = |name: &str| self.number(&format!("{prefix}{name}"));
        let listed = format!("{}_wins", self.about.verdicts[0].stem);
        Ok(Counts { graphs: number("graphs")?, listed: number(&listed)? })
    }

    fn weighing(&self, prefix: &str) -> Result<Weighing, ParquetError> {
        let number = |name: &str| self.number(&format!("{prefix}{name}"));
        let mut sums = Sums::default();
        for (sum, SumName { key, .. }) in sums.0.iter_mut().zip(self.about.sums) {
            *sum = number(key)?;
        }
        Ok(Weighing {
            all: self.counts(prefix)?,
            connected: self.counts(&format!("{prefix}connected_"))?,
            sums,
        })
    }

    fn cell(&self, name: &str) -> Result<Cell, ParquetError> {
        Ok(Cell {
            classes: self.counts(name)?,
            labelled: self.counts(&format!("labelled_{name}"))?,
        })
    }

    fn summary(
        &self,
        class: Class,
        sequence: DegreeSequence,
    ) -> Result<ShardSummary, ParquetError> {
        match (class, self.by_name.contains_key("class")) {
            (Class::All, false) => {}
            (Class::All, true) => return Err(Self::wrong("class", "there")),
            _ if self.text("class")? == class.to_string() => {}
            _ => return Err(Self::wrong("class", self.text("class")?)),
        }
        let degrees = self.text("degrees")?;
        if degrees != degrees_text(&sequence) {
            return Err(Self::wrong("degrees", format!("{degrees} where {sequence} is expected")));
        }
        let parts = self.number("parts")? as u32;
        let digest = self.text("digest")?;
        Ok(ShardSummary {
            sequence,
            statistics: Statistics {
                classes: self.weighing("")?,
                labelled: self.weighing("labelled_")?,
                structure: Structure {
                    connectivity: [(2, self.cell("biconnected_")?)].into(),
                    bipartite: [(1, self.cell("bipartite_")?)].into(),
                    ..Structure::default()
                },
            },
            digest: digest.parse().map_err(|why| Self::wrong("digest", why))?,
            parts,
            parts_recorded: parts,
            bytes: self.number("bytes")? as u64,
            microseconds: self.number("microseconds")? as u64,
            workers: self.text("workers")?.split(BETWEEN_NAMES).map(str::to_owned).collect(),
            parts_confirmed: self.number("parts_confirmed")? as u32,
            records_tried: self.number("records_tried")? as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use trailtrap_shared::game::{Game, TrailTrap};

    use super::*;

    fn some() -> (Vec<DegreeSequence>, Vec<ShardSummary>) {
        let sequences = DegreeSequence::all(4);
        let shard = |&sequence: &DegreeSequence| ShardSummary {
            sequence,
            statistics: Statistics::default(),
            digest: Default::default(),
            parts: 1,
            parts_recorded: 1,
            bytes: 7,
            microseconds: 5,
            workers: vec!["Ann".to_owned(), "Bob".to_owned()],
            parts_confirmed: 0,
            records_tried: 2,
        };
        let shards = sequences.iter().map(shard).collect();
        (sequences, shards)
    }

    fn read_bytes(bytes: &[u8]) -> Result<Vec<ShardSummary>, ParquetError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        read(&TrailTrap::ABOUT, Class::All, file.reopen().unwrap(), &some().0)
    }

    /// What readers elsewhere take for the number of edges, say, is what the degrees say.
    #[test]
    fn all_columns_fit_together_and_there_are_no_others() {
        let (_, shards) = some();
        let sound = || columns(&TrailTrap::ABOUT, Class::All, &shards, None).unwrap();
        let read_columns =
            |columns: &[ParquetColumn]| read_bytes(&columnar::write("shards", columns).unwrap());
        assert!(read_columns(&sound()).is_ok());
        for name in ["order", "size", "minimum_degree", "maximum_degree", "regular", "degrees"] {
            let mut columns = sound();
            let column = columns.iter_mut().find(|column| column.name == name).unwrap();
            match &mut column.data {
                ColumnData::Small(values) => values[3] += 1,
                ColumnData::Flags(values) => values[3] = !values[3],
                ColumnData::Text(values) => values[3].push('1'),
                _ => panic!("{name} is another kind of column"),
            }
            let error = read_columns(&columns).err().unwrap().to_string();
            assert!(error.contains(name), "{name}: {error}");
        }
        let mut more = sound();
        let data = ColumnData::Flags(vec![true; shards.len()]);
        let (name, meaning) = ("p1_share".to_owned(), String::new());
        more.push(ParquetColumn { name, meaning, data });
        assert!(read_columns(&more).err().unwrap().to_string().contains("p1_share is there"));
        let mut swapped = sound();
        swapped.swap(1, 2);
        assert!(read_columns(&swapped).is_err());
    }

    /// A file of a few bytes may say that it has any number of rows.
    #[test]
    fn no_more_rows_are_read_than_there_should_be() {
        let (_, mut shards) = some();
        shards.extend(some().1);
        let bytes = parquet(&TrailTrap::ABOUT, Class::All, &shards, None).unwrap();
        let error = read_bytes(&bytes).err().unwrap().to_string();
        assert!(error.contains("more than 11 rows"), "{error}");
    }

    #[test]
    fn no_footer_is_read_that_is_too_long_or_not_there() {
        for (bytes, says) in [
            (&b"PAR1"[..], "too short"),
            (b"PAR1\x01\x40\x00\x00PAR1", "a footer of 16385 bytes"),
            (b"PAR1\x00\x40\x00\x00PAR1", "EOF"),
        ] {
            let error = read_bytes(bytes).err().unwrap().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    /// Whatever is wrong with a file, an error tells, though the library panics over some.
    #[test]
    fn a_file_that_was_altered_is_read_or_refused() {
        let (_, shards) = some();
        let sound = parquet(&TrailTrap::ABOUT, Class::All, &shards, None).unwrap();
        let mut refused = 0;
        for place in (0..sound.len()).step_by(7) {
            for bit in [0, 3, 7] {
                let mut altered = sound.clone();
                altered[place] ^= 1 << bit;
                refused += usize::from(read_bytes(&altered).is_err());
            }
        }
        assert!(refused > 0);
    }
}
