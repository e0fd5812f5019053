//! The one model of a table that all formats render.

use std::borrow::Cow;

/// Shares are given with this many digits after the point; percentages, which are for people, with
/// two less.
pub const SHARE_DIGITS: u32 = 6;

/// How shares are rounded, for documents.
pub const SHARE_ROUNDING: &str = "rounded half up to six digits after the point";
/// How percentages are rounded, for captions.
pub const PERCENT_ROUNDING: &str = "rounded half up to four digits after the point";

/// A table: columns, rows, and a total if rows add up to one.
#[derive(Clone)]
pub struct Table {
    /// Stem of a file name, and label in LaTeX.
    pub name: String,
    /// One or two sentences for people, in ASCII.
    pub caption: String,
    /// What stands in each cell of a row.
    pub columns: Vec<Column>,
    /// One cell for each column.
    pub rows: Vec<Vec<Value>>,
    /// Sums over all rows, shown to people only.
    pub total: Option<Vec<Value>>,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// In CSV, JSON and Parquet; never changes its meaning.
    pub name: String,
    /// For people; `None` leaves the column out of what is made for them.
    pub heading: Option<&'static str>,
    /// What columns with headings belong to.
    pub group: &'static str,
    /// What it means, in one sentence.
    pub meaning: String,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number that fits into 64 bits, and into the numbers of JSON.
    Number(u64),
    /// An exact integer of any size; text in JSON.
    Large(u128),
    /// `part` of `whole`; nothing if `whole` is 0.
    Share {
        /// How many there are of a kind.
        part: u128,
        /// How many there are of all kinds.
        whole: u128,
    },
    /// A proportion that is estimated, or that a drawing has, not a count of graphs.
    Estimate(f64),
    /// A number that there is none of.
    Nothing,
    /// A number for machines that has a name for people.
    Named(i64, Cow<'static, str>),
    /// A digest, a status, or another text that is the same for programs and for people.
    Text(String),
}

impl Value {
    /// As in CSV.
    pub fn plain(&self) -> String {
        match self {
            Value::Number(number) => number.to_string(),
            Value::Large(number) => number.to_string(),
            Value::Share { part, whole } => {
                decimal(*part, *whole, SHARE_DIGITS).unwrap_or_default()
            }
            Value::Estimate(number) => number.to_string(),
            Value::Nothing => String::new(),
            Value::Named(number, _) => number.to_string(),
            Value::Text(text) => text.clone(),
        }
    }

    /// As for people, shares and proportions in percent; `None` if there is nothing to say.
    pub fn readable(&self) -> Option<String> {
        match self {
            Value::Share { part, whole } => decimal(100 * part, *whole, SHARE_DIGITS - 2),
            Value::Estimate(number) => Some(percent(*number)),
            Value::Nothing => None,
            Value::Named(_, name) => Some(name.clone().into_owned()),
            other => Some(other.plain()),
        }
    }

    /// Whether people read it as a number.
    pub fn is_numeric(&self) -> bool {
        !matches!(self, Value::Named(..) | Value::Text(_))
    }
}

impl Table {
    /// The columns for people, by index.
    pub fn shown(&self) -> Vec<usize> {
        (0..self.columns.len()).filter(|&i| self.columns[i].heading.is_some()).collect()
    }
}

/// An estimated proportion in percent, rounded half up as [`decimal`] rounds.
pub fn percent(proportion: f64) -> String {
    let units = (proportion * 10f64.powi(SHARE_DIGITS as i32) + 0.5).floor();
    let digits = SHARE_DIGITS - 2;
    format!("{:.digits$}", units / 10f64.powi(digits as i32), digits = digits as usize)
}

/// part/whole with `digits` digits after the point, rounded half up; `None` if `whole` is 0. Exact
/// as long as part · 10^digits stays below 2^127.
pub fn decimal(part: u128, whole: u128, digits: u32) -> Option<String> {
    let power = 10u128.pow(digits);
    let units = (2 * part * power + whole).checked_div(2 * whole)?;
    let (integer, fraction) = (units / power, units % power);
    Some(if digits == 0 {
        integer.to_string()
    } else {
        format!("{integer}.{fraction:0width$}", width = digits as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_round_half_up() {
        let rounded = [29.0 / 128.0, 0.5 / 1e6, 0.0, 1.0, 0.999_999_4, 0.000_001_49].map(percent);
        assert_eq!(rounded, ["22.6563", "0.0001", "0.0000", "100.0000", "99.9999", "0.0001"]);
    }

    #[test]
    fn decimals_round_half_up() {
        let rounded = |part, whole, digits| decimal(part, whole, digits).unwrap();
        assert_eq!(rounded(100 * 734, 853, 2), "86.05");
        assert_eq!(rounded(1, 1, 6), "1.000000");
        assert_eq!(rounded(1, 32, 4), "0.0313");
        assert_eq!(rounded(1, 3, 0), "0");
        assert_eq!(rounded((1 << 66) - 1, 1 << 66, 6), "1.000000");
        assert_eq!(decimal(0, 0, 6), None);
    }
}
