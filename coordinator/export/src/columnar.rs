//! Columns of numbers and text as Parquet files.

use std::sync::Arc;

use parquet::{
    basic::{Compression, GzipLevel},
    data_type::{
        BoolType, ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
        Int32Type, Int64Type,
    },
    errors::ParquetError,
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    record::Field,
    schema::parser::parse_message_type,
};

use crate::{
    ExportError,
    table::{Table, Value},
};

/// A column of the file.
pub(crate) struct ParquetColumn {
    pub name: String,
    /// What it means.
    pub meaning: String,
    pub data: ColumnData,
}

pub(crate) enum ColumnData {
    Flags(Vec<bool>),
    Small(Vec<i32>),
    Large(Vec<i64>),
    /// Beyond 64 bits from order 12 on.
    Huge(Vec<u128>),
    Text(Vec<String>),
    /// Some rows may have none.
    Numbers(Vec<Option<i64>>),
    /// Some rows may have none.
    Fractions(Vec<Option<f64>>),
}

impl ColumnData {
    /// How the type of the column begins, and how it ends.
    fn parquet_type(&self) -> (&'static str, &'static str) {
        match self {
            ColumnData::Flags(_) => ("REQUIRED BOOLEAN", ""),
            ColumnData::Small(_) => ("REQUIRED INT32", ""),
            ColumnData::Large(_) => ("REQUIRED INT64", ""),
            ColumnData::Huge(_) => ("REQUIRED FIXED_LEN_BYTE_ARRAY(16)", " (DECIMAL(38,0))"),
            ColumnData::Text(_) => ("REQUIRED BYTE_ARRAY", " (UTF8)"),
            ColumnData::Numbers(_) => ("OPTIONAL INT64", ""),
            ColumnData::Fractions(_) => ("OPTIONAL DOUBLE", ""),
        }
    }

    /// Whether this is what is read of a row.
    pub(crate) fn is(&self, row: usize, field: &Field) -> bool {
        match (self, field) {
            (ColumnData::Flags(values), Field::Bool(found)) => values[row] == *found,
            (ColumnData::Small(values), Field::Int(found)) => values[row] == *found,
            (ColumnData::Large(values), Field::Long(found)) => values[row] == *found,
            (ColumnData::Huge(values), Field::Decimal(found)) => {
                *found.data() == values[row].to_be_bytes()
            }
            (ColumnData::Text(values), Field::Str(found)) => values[row] == *found,
            (ColumnData::Numbers(values), Field::Long(found)) => values[row] == Some(*found),
            (ColumnData::Fractions(values), Field::Double(found)) => values[row] == Some(*found),
            (ColumnData::Numbers(values), Field::Null) => values[row].is_none(),
            (ColumnData::Fractions(values), Field::Null) => values[row].is_none(),
            _ => false,
        }
    }
}

/// The bytes of a table. A column with text in it is one of text.
///
/// # Errors
/// If a number does not fit into the column that it belongs to.
pub fn table(table: &Table) -> Result<Vec<u8>, ExportError> {
    let columns = (0..table.columns.len()).map(|i| {
        let data = data(table, i)?;
        Ok(ParquetColumn {
            name: table.columns[i].name.clone(),
            meaning: table.columns[i].meaning.clone(),
            data,
        })
    });
    Ok(write("rows", &columns.collect::<Result<Vec<_>, ExportError>>()?)?)
}

fn data(table: &Table, i: usize) -> Result<ColumnData, ExportError> {
    let cells = || table.rows.iter().map(|row| &row[i]);
    let column = || table.columns[i].name.clone();
    if cells().any(|cell| matches!(cell, Value::Text(_))) {
        return Ok(ColumnData::Text(cells().map(Value::plain).collect()));
    }
    if cells().any(|cell| matches!(cell, Value::Share { .. } | Value::Estimate(_))) {
        let fraction = |cell: &Value| match cell {
            Value::Estimate(number) => Some(*number),
            // As rounded as everywhere else.
            other => other.plain().parse().ok(),
        };
        return Ok(ColumnData::Fractions(cells().map(fraction).collect()));
    }
    if cells().any(|cell| matches!(cell, Value::Large(_))) {
        let number = |cell: &Value| match cell {
            Value::Large(number) => Ok(*number),
            Value::Number(number) => Ok(u128::from(*number)),
            _ => Err(ExportError::TooLarge { column: column() }),
        };
        return Ok(ColumnData::Huge(cells().map(number).collect::<Result<_, _>>()?));
    }
    let number = |cell: &Value| match cell {
        Value::Number(number) => i64::try_from(*number)
            .map(Some)
            .map_err(|_| ExportError::TooLarge { column: column() }),
        Value::Named(number, _) => Ok(Some(*number)),
        _ => Ok(None),
    };
    Ok(ColumnData::Numbers(cells().map(number).collect::<Result<_, _>>()?))
}

/// The bytes of a file with these columns, which have equally many rows.
pub(crate) fn write(message: &str, columns: &[ParquetColumn]) -> Result<Vec<u8>, ParquetError> {
    let fields = columns.iter().map(|column| {
        let (physical, logical) = column.data.parquet_type();
        format!("{physical} {}{logical};", column.name)
    });
    let schema = format!("message {message} {{ {} }}", fields.collect::<Vec<_>>().join(" "));
    let properties = WriterProperties::builder()
        .set_created_by("trailtrap".to_owned())
        .set_compression(Compression::GZIP(GzipLevel::default()))
        .build();
    let schema = Arc::new(parse_message_type(&schema)?);
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for column in columns {
        let mut writer = group.next_column()?.expect("the schema has all columns");
        match &column.data {
            ColumnData::Flags(values) => {
                writer.typed::<BoolType>().write_batch(values, None, None)?
            }
            ColumnData::Small(values) => {
                writer.typed::<Int32Type>().write_batch(values, None, None)?
            }
            ColumnData::Large(values) => {
                writer.typed::<Int64Type>().write_batch(values, None, None)?
            }
            ColumnData::Huge(values) => {
                let bytes = |value: &u128| {
                    FixedLenByteArray::from(ByteArray::from(value.to_be_bytes().to_vec()))
                };
                let values: Vec<_> = values.iter().map(bytes).collect();
                writer.typed::<FixedLenByteArrayType>().write_batch(&values, None, None)?
            }
            ColumnData::Text(values) => {
                let values: Vec<_> =
                    values.iter().map(|text| ByteArray::from(text.as_str())).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)?
            }
            ColumnData::Numbers(values) => {
                let (present, levels) = present(values);
                writer.typed::<Int64Type>().write_batch(&present, Some(&levels), None)?
            }
            ColumnData::Fractions(values) => {
                let (present, levels) = present(values);
                writer.typed::<DoubleType>().write_batch(&present, Some(&levels), None)?
            }
        };
        writer.close()?;
    }
    group.close()?;
    file.into_inner()
}

/// The values that there are, and for each row whether it has one.
fn present<T: Copy>(values: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    let levels = values.iter().map(|value| i16::from(value.is_some())).collect();
    (values.iter().copied().flatten().collect(), levels)
}
