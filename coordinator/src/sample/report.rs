//! What a sample says, for people and for programs. Equal results give the same bytes.

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use trailtrap_export::{
    ExportError,
    chart::{Axis, Marker, Scale, Series, chart},
    formats::{self, TableFormat},
    picture::{BLUE, Picture, VERMILLION},
    proportions::proportions_with_zero,
    table::{Column, Table, Value, percent},
};
use trailtrap_shared::{
    game::{Game, TrailTrap},
    sample::{
        estimate::{Estimate, Observed, combined},
        model::Model,
        strata::Drawn,
    },
};

use super::{endgame::ExactCounts, parameters::Parameters, verdicts::Verdict};

/// All that is printed.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    order: usize,
    model: String,
    seed: u64,
    /// Graphs that were drawn.
    samples: u64,
    /// Up to so many edges all is exact.
    endgame_size: Option<usize>,
    /// Verdicts that were found again in another way.
    rechecked: u64,
    /// SHA-256 of all verdicts, in order of strata and numbers.
    digest: String,
    /// The weight of the numbers of edges that were left out.
    left_out: f64,
    /// Of all that was not left out.
    all: Row,
    /// The same with an odd number of edges.
    odd: Option<Row>,
    /// The same with an even number of edges.
    even: Option<Row>,
    by_size: Vec<SizeRow>,
}

/// A proportion in the table.
#[derive(Clone, Debug, Serialize)]
struct Row {
    share: f64,
    samples: u64,
    proportion: f64,
    low: f64,
    high: f64,
    /// Between these the proportion is if it is in the interval, with those that were left out,
    /// whatever they are.
    bounds: [f64; 2],
    /// Whether some are left out, however few.
    #[serde(skip)]
    is_partial: bool,
    /// Whether none of the others were only drawn from, however little these weigh.
    #[serde(skip)]
    is_exact: bool,
}

impl Row {
    fn status(&self) -> &'static str {
        match self.is_partial {
            true => "partial",
            false if self.is_exact => "exact",
            false => "estimate",
        }
    }
}

/// What is known of one number of edges.
#[derive(Clone, Debug, Serialize)]
pub struct SizeRow {
    size: usize,
    share: f64,
    /// How it is known: `exact`, `sampled` or `left out`. What is exact though no census has
    /// counted it is one graph of each stratum that was decided.
    status: &'static str,
    samples: u64,
    p1_wins: u64,
    nodes: u64,
    proportion: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    /// Strata with different numbers of vertices of odd degree, if they were drawn from apart: what
    /// the proportion is made of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    by_odd_degrees: Vec<OddRow>,
    /// What is known of strata, each with its share of all graphs.
    #[serde(skip)]
    observed: Vec<(f64, Observed)>,
}

/// What is known of one number of edges and one of vertices of odd degree.
#[derive(Clone, Debug, Serialize)]
struct OddRow {
    odd_degrees: usize,
    share: f64,
    samples: u64,
    p1_wins: u64,
}

impl SizeRow {
    fn of(size: usize, share: f64, status: &'static str, observed: Vec<(f64, Observed)>) -> Self {
        let estimate = combined(observed.iter().copied());
        SizeRow {
            size,
            share,
            status,
            samples: 0,
            p1_wins: 0,
            nodes: 0,
            proportion: estimate.map(|estimate| estimate.value),
            low: estimate.map(|estimate| estimate.low),
            high: estimate.map(|estimate| estimate.high),
            by_odd_degrees: Vec::new(),
            observed,
        }
    }

    /// Counted by a census.
    pub fn exact(size: usize, share: f64, model: Model, counts: &ExactCounts) -> Self {
        let proportion = counts.proportion(model);
        Self::of(size, share, "exact", vec![(share, Observed::Exact(proportion))])
    }

    /// Drawn and decided, stratum by stratum: exactly what is known where there is only one
    /// isomorphism class.
    pub fn sampled(size: usize, share: f64, strata: &[(&Drawn, &[Verdict])]) -> Self {
        let wins = |verdicts: &[Verdict]| {
            verdicts.iter().filter(|verdict| verdict.p1_wins).count() as u64
        };
        let observed = |(drawn, verdicts): &(&Drawn, &[Verdict])| {
            let (samples, wins) = (verdicts.len() as u64, wins(verdicts) as f64);
            let observed = match drawn.classes {
                1 => Observed::Exact(wins / samples.max(1) as f64),
                _ => Observed::Sampled { samples, wins },
            };
            (drawn.share, observed)
        };
        let odd_row = |(drawn, verdicts): &(&Drawn, &[Verdict])| {
            Some(OddRow {
                odd_degrees: drawn.stratum.odd?,
                share: drawn.share,
                samples: verdicts.len() as u64,
                p1_wins: wins(verdicts),
            })
        };
        let is_exact = strata.iter().all(|(drawn, _)| drawn.classes == 1);
        let status = if is_exact { "exact" } else { "sampled" };
        let all = || strata.iter().map(|(_, verdicts)| *verdicts);
        SizeRow {
            samples: all().map(|verdicts| verdicts.len() as u64).sum(),
            p1_wins: all().map(wins).sum(),
            nodes: all().flatten().map(|verdict| verdict.nodes).sum(),
            by_odd_degrees: strata.iter().filter_map(odd_row).collect(),
            ..Self::of(size, share, status, strata.iter().map(observed).collect())
        }
    }

    /// Not looked at.
    pub fn left_out(size: usize, share: f64) -> Self {
        Self::of(size, share, "left out", Vec::new())
    }
}

impl Report {
    /// Adds up the strata; `None` if all of them are left out.
    pub(super) fn new(
        parameters: &Parameters,
        strata: Vec<SizeRow>,
        verdicts: &[Vec<Verdict>],
        rechecked: u64,
    ) -> Option<Self> {
        let mut digest = Sha256::new();
        verdicts.iter().flatten().for_each(|verdict| digest.update(verdict.line()));
        let row = |filter: &dyn Fn(&SizeRow) -> bool| {
            let strata = || strata.iter().filter(|stratum| filter(stratum));
            let known = || strata().filter(|stratum| !stratum.observed.is_empty());
            let observed = known().flat_map(|stratum| stratum.observed.iter().copied());
            let Estimate { value, low, high } = combined(observed)?;
            let share: f64 = known().map(|stratum| stratum.share).sum();
            // With nothing left out this is 1, so that the bounds are the interval itself.
            let part = share / strata().map(|stratum| stratum.share).sum::<f64>();
            Some(Row {
                share,
                samples: strata().map(|stratum| stratum.samples).sum(),
                proportion: value,
                low,
                high,
                bounds: [low * part, (high * part + (1.0 - part)).min(1.0)],
                is_partial: strata().any(|stratum| stratum.observed.is_empty()),
                is_exact: known().all(|stratum| stratum.status == "exact"),
            })
        };
        let all = row(&|_| true)?;
        let (odd, even) = (row(&|s| s.size % 2 == 1), row(&|s| s.size % 2 == 0));
        let left_out = strata
            .iter()
            .filter(|stratum| stratum.observed.is_empty())
            .fold(0.0, |sum, stratum| sum + stratum.share);
        Some(Report {
            order: parameters.order,
            model: parameters.model.to_string(),
            seed: parameters.seed,
            samples: all.samples,
            endgame_size: parameters.endgame_size,
            rechecked,
            digest: hex::encode(digest.finalize()),
            left_out,
            all,
            odd,
            even,
            by_size: strata,
        })
    }

    /// One JSON object.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    fn rows(&self) -> Vec<(&'static str, &Row)> {
        let parts = [("odd", self.odd.as_ref()), ("even", self.even.as_ref())];
        let parts = parts.into_iter().filter_map(|(name, row)| Some((name, row?)));
        parts.chain([("all", &self.all)]).collect()
    }

    /// A table of all numbers of edges, those that are exact and those that were drawn, and of
    /// what they say of odd, of even, and of all numbers together.
    pub fn table(&self) -> Table {
        let columns = [
            ("edges", Some("m"), "", "number of edges; odd, even or all for several together"),
            ("share", Some("% of graphs"), "", "share of these graphs in the model"),
            (
                "status",
                Some("known"),
                "",
                "exact (by the census, or since all of these graphs are isomorphic, or each stratum of \
                 them), sampled, left out, or an estimate made of these: partial if some are left out",
            ),
            ("samples", Some("drawn"), "", "graphs that were drawn and decided"),
            ("p1_wins", Some("P1-win"), "", "those of them that the first player wins"),
            ("nodes", None, "", "positions that were visited to decide them"),
            (
                "proportion",
                Some("% P1-win"),
                "",
                "proportion that the first player wins, strata weighted by their shares",
            ),
            ("low", Some("from"), "95 % interval", "lower end of the 95 % interval for that"),
            ("high", Some("to"), "95 % interval", "upper end of the 95 % interval for that"),
        ];
        let columns = columns.map(|(name, heading, group, meaning)| Column {
            name: name.to_owned(),
            heading,
            group,
            meaning: meaning.to_owned(),
        });
        let known = |value: Option<f64>| value.map_or(Value::Nothing, Value::Estimate);
        let stratum = |s: &SizeRow| {
            vec![
                Value::Number(s.size as u64),
                Value::Estimate(s.share),
                Value::Text(s.status.to_owned()),
                Value::Number(s.samples),
                Value::Number(s.p1_wins),
                Value::Number(s.nodes),
                known(s.proportion),
                known(s.low),
                known(s.high),
            ]
        };
        let together = |(name, row): (&str, &Row)| {
            vec![
                Value::Text(name.to_owned()),
                Value::Estimate(row.share),
                Value::Text(row.status().to_owned()),
                Value::Number(row.samples),
                Value::Nothing,
                Value::Nothing,
                Value::Estimate(row.proportion),
                Value::Estimate(row.low),
                Value::Estimate(row.high),
            ]
        };
        let strata = self.by_size.iter().map(stratum);
        Table {
            name: format!("sample-n{:02}", self.order),
            caption: self.caption(),
            columns: columns.into(),
            rows: strata.chain(self.rows().into_iter().map(together)).collect(),
            total: None,
        }
    }

    fn caption(&self) -> String {
        let mut text = format!(
            "{} on random graphs with {} vertices, by number m of edges; model {}, seed {}, {} \
             graphs decided, {} of them again in another way.",
            TrailTrap::ABOUT.title,
            self.order,
            self.model,
            self.seed,
            self.samples,
            self.rechecked
        );
        if self.left_out > 0.0 {
            let bounds = |(name, row): (&str, &Row)| {
                let [low, high] = row.bounds.map(percent);
                format!("{name} {low} to {high} %")
            };
            let bounds: Vec<String> = self.rows().into_iter().map(bounds).collect();
            text += &format!(
                " {} % of the graphs have other numbers of edges and are left out. With them, \
                 whatever they are, P1 wins, if the intervals hold: {}.",
                percent(self.left_out),
                bounds.join("; ")
            );
        }
        text
    }

    /// The table in a format; for people with the digest below it.
    ///
    /// # Errors
    /// If a number does not fit into a column of Parquet.
    pub fn render(&self, format: TableFormat) -> Result<Vec<u8>, ExportError> {
        let mut bytes = formats::render(&self.table(), format)?;
        if format == TableFormat::Markdown {
            bytes.extend(format!("\nSHA-256 of the verdicts: {}\n", self.digest).into_bytes());
        }
        Ok(bytes)
    }

    /// The proportions by number of edges, odd and even numbers apart: points, where they are
    /// exact, and points with intervals, where graphs were drawn.
    pub fn plot(&self) -> Picture {
        let sizes = || self.by_size.iter().map(|stratum| stratum.size);
        let parities = [("odd", 1, VERMILLION, Marker::Disc), ("even", 0, BLUE, Marker::Ring)];
        let kinds = [("exact", None), ("sampled", Some(2.0))];
        let mut series = Vec::new();
        for (parity, odd, colour, marker) in parities {
            for (status, dash) in kinds {
                let strata = || {
                    let of_parity = self.by_size.iter().filter(move |s| s.size % 2 == odd);
                    of_parity.filter(move |s| s.status == status)
                };
                let points = strata().filter_map(|s| Some((s.size as f64, s.proportion?)));
                let intervals = strata().filter(|_| status != "exact");
                series.push(Series {
                    name: format!("m {parity}, {status}"),
                    points: points.collect(),
                    colour,
                    marker,
                    line: Some(dash),
                    // Others of this parity lie between those that are further apart.
                    reach: 2.0,
                    intervals: intervals
                        .filter_map(|s| Some((s.size as f64, [s.low?, s.high?])))
                        .collect(),
                });
            }
        }
        let points = series.iter().flat_map(|one| one.points.iter().map(|point| point.1));
        let ends = series.iter().flat_map(|one| one.intervals.iter().flat_map(|one| one.1));
        let y = proportions_with_zero(points.chain(ends));
        let [least, most] = [sizes().min(), sizes().max()].map(Option::unwrap_or_default);
        let x = Axis {
            label: format!("number m of edges (n = {}, {})", self.order, self.model),
            from: least.saturating_sub(1) as f64,
            to: (most + 1) as f64,
            scale: Scale::Linear,
        };
        let title = format!(
            "Proportion of random graphs with {} vertices that the first player wins, by number \
             of edges and its parity, with 95 % intervals",
            self.order
        );
        chart(&title, &x, &y, &series)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A report of which nothing was split, from its table as CSV.
    fn read(csv: &str) -> Value {
        let mut report = json!({"by_size": []});
        for line in csv.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let number = |i: usize| fields[i].parse::<f64>().ok();
            let row = json!({
                "size": fields[0].parse::<u64>().ok(), "share": number(1), "status": fields[2],
                "samples": fields[3].parse::<u64>().ok(), "p1_wins": number(4),
                "proportion": number(6), "low": number(7), "high": number(8),
            });
            match fields[0].parse::<u64>() {
                Ok(_) => report["by_size"].as_array_mut().unwrap().push(row),
                Err(_) => report[fields[0]] = row,
            }
        }
        report
    }

    /// What a row of a report is made of.
    fn observed(row: &Value) -> Vec<(f64, Observed)> {
        let number = |row: &Value, name: &str| row[name].as_f64().unwrap();
        let drawn = |row: &Value| {
            let (samples, wins) = (row["samples"].as_u64().unwrap(), number(row, "p1_wins"));
            (number(row, "share"), Observed::Sampled { samples, wins })
        };
        match row["status"].as_str().unwrap() {
            "exact" => vec![(number(row, "share"), Observed::Exact(number(row, "proportion")))],
            "sampled" => match row["by_odd_degrees"].as_array() {
                Some(strata) => strata.iter().map(drawn).collect(),
                None => vec![drawn(row)],
            },
            _ => Vec::new(),
        }
    }

    #[test]
    fn published_intervals_follow_from_the_counts_beside_them() {
        let twelve = include_str!("../../../results/order-12/sample-labelled-n12.json");
        let thirteen = include_str!("../../../results/order-13/sample-labelled-n13.csv");
        for (report, sampled) in
            [(serde_json::from_str(twelve).unwrap(), 15), (read(thirteen), 14)]
        {
            let sizes = report["by_size"].as_array().unwrap();
            let of = |filter: &dyn Fn(&Value) -> bool| -> Vec<(f64, Observed)> {
                sizes.iter().filter(|row| filter(row)).flat_map(observed).collect()
            };
            let is_odd = |row: &Value| row["size"].as_u64().unwrap() % 2 == 1;
            let together = [
                (&report["odd"], of(&is_odd)),
                (&report["even"], of(&|row| !is_odd(row))),
                (&report["all"], of(&|_| true)),
            ];
            let single: Vec<_> = sizes.iter().filter(|row| row["status"] == "sampled").collect();
            assert_eq!(single.len(), sampled);
            let single = single.into_iter().map(|row| (row, observed(row)));
            for (row, observed) in single.chain(together) {
                let Estimate { value, low, high } = combined(observed).unwrap();
                for (name, found) in [("proportion", value), ("low", low), ("high", high)] {
                    let published = row[name].as_f64().unwrap();
                    assert!((found - published).abs() <= 1e-12, "{name} {found}: {row}");
                }
            }
        }
        // Of graphs of order 12 with 23 and with 22 edges; strata were not split.
        for (wins, published) in [(104.0, [0.427, 0.633]), (137.0, [0.577, 0.812])] {
            let observed = Observed::Sampled { samples: 20_000, wins };
            let Estimate { low, high, .. } = combined(vec![(1.0, observed)]).unwrap();
            let percent = [low, high].map(|bound| (bound * 1e5).round() / 1e3);
            assert_eq!(percent, published, "{wins}");
        }
    }
}
