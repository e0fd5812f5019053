//! What a sample says, for people and for programs. Equal results give the same bytes.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use trailtrap_shared::sample::{
    estimate::{Estimate, Observed, combined},
    model::Model,
};

use super::{Parameters, endgame::ExactCounts, verdicts::Verdict};

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
    /// SHA-256 of all verdicts, in order of sizes and numbers.
    digest: String,
    /// The weight of the numbers of edges that were left out.
    left_out: f64,
    /// Of all that was not left out.
    all: Row,
    /// The same with an odd number of edges.
    odd: Option<Row>,
    /// The same with an even number of edges.
    even: Option<Row>,
    /// Between these the proportion is whatever those are that were left out.
    bounds: [f64; 2],
    by_size: Vec<Stratum>,
}

/// A proportion in the table.
#[derive(Clone, Debug, Serialize)]
struct Row {
    share: f64,
    samples: u64,
    proportion: f64,
    low: f64,
    high: f64,
}

/// What is known of one number of edges.
#[derive(Clone, Debug, Serialize)]
pub struct Stratum {
    size: usize,
    share: f64,
    /// How it is known: `exact`, `sampled` or `left out`.
    status: &'static str,
    samples: u64,
    p1_wins: u64,
    nodes: u64,
    proportion: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    #[serde(skip)]
    observed: Option<Observed>,
}

impl Stratum {
    fn of(size: usize, share: f64, status: &'static str, observed: Option<Observed>) -> Self {
        let estimate = observed.map(Observed::estimate);
        Stratum {
            size,
            share,
            status,
            samples: 0,
            p1_wins: 0,
            nodes: 0,
            proportion: estimate.map(|estimate| estimate.value),
            low: estimate.map(|estimate| estimate.low),
            high: estimate.map(|estimate| estimate.high),
            observed,
        }
    }

    /// Counted by a census.
    pub fn exact(size: usize, share: f64, model: Model, counts: &ExactCounts) -> Self {
        let counts = match model {
            Model::Unlabelled => counts.classes,
            Model::Gnm(_) | Model::Gnp(_) | Model::Labelled => counts.labelled,
        };
        let proportion = counts.listed as f64 / counts.graphs.max(1) as f64;
        Self::of(size, share, "exact", Some(Observed::Exact(proportion)))
    }

    /// Drawn and decided.
    pub fn sampled(size: usize, share: f64, verdicts: &[Verdict]) -> Self {
        let samples = verdicts.len() as u64;
        let wins = verdicts.iter().filter(|verdict| verdict.p1_wins).count() as u64;
        let observed = Observed::Sampled { samples, wins };
        Stratum {
            samples,
            p1_wins: wins,
            nodes: verdicts.iter().map(|verdict| verdict.nodes).sum(),
            ..Self::of(size, share, "sampled", Some(observed))
        }
    }

    /// Not looked at.
    pub fn left_out(size: usize, share: f64) -> Self {
        Self::of(size, share, "left out", None)
    }
}

impl Report {
    /// Adds up the strata.
    pub(super) fn new(
        parameters: &Parameters,
        strata: Vec<Stratum>,
        verdicts: &[Vec<Verdict>],
        rechecked: u64,
    ) -> Self {
        let mut digest = Sha256::new();
        verdicts.iter().flatten().for_each(|verdict| digest.update(verdict.line()));
        let row = |filter: &dyn Fn(&Stratum) -> bool| {
            let strata = || strata.iter().filter(|stratum| filter(stratum));
            let observed = || strata().filter_map(|s| Some((s.share, s.observed?)));
            let Estimate { value, low, high } = combined(observed())?;
            Some(Row {
                share: observed().map(|(share, _)| share).sum(),
                samples: strata().map(|stratum| stratum.samples).sum(),
                proportion: value,
                low,
                high,
            })
        };
        let nothing = Row { share: 0.0, samples: 0, proportion: 0.5, low: 0.0, high: 1.0 };
        let all = row(&|_| true).unwrap_or(nothing);
        let (odd, even) = (row(&|s| s.size % 2 == 1), row(&|s| s.size % 2 == 0));
        let left_out = strata
            .iter()
            .filter(|stratum| stratum.observed.is_none())
            .fold(0.0, |sum, stratum| sum + stratum.share);
        Report {
            order: parameters.order,
            model: parameters.model.clone(),
            seed: parameters.seed,
            samples: all.samples,
            endgame_size: parameters.endgame_size,
            rechecked,
            digest: hex::encode(digest.finalize()),
            left_out,
            bounds: [all.low * all.share, (all.high * all.share + left_out).min(1.0)],
            all,
            odd,
            even,
            by_size: strata,
        }
    }

    /// One JSON object.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// A row for each number of edges, and those of all.
    pub fn to_csv(&self) -> String {
        let mut text = "edges,share,status,samples,p1_wins,nodes,proportion,low,high\n".to_owned();
        let number =
            |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        for s in &self.by_size {
            text += &format!(
                "{},{},{},{},{},{},{},{},{}\n",
                s.size,
                s.share,
                s.status,
                s.samples,
                s.p1_wins,
                s.nodes,
                number(s.proportion),
                number(s.low),
                number(s.high)
            );
        }
        for (name, row) in self.rows() {
            let Row { share, samples, proportion, low, high } = row;
            text += &format!("{name},{share},estimate,{samples},,,{proportion},{low},{high}\n");
        }
        text
    }

    fn rows(&self) -> Vec<(&'static str, &Row)> {
        let parts = [("odd", self.odd.as_ref()), ("even", self.even.as_ref())];
        let parts = parts.into_iter().filter_map(|(name, row)| Some((name, row?)));
        parts.chain([("all", &self.all)]).collect()
    }

    /// A table for people.
    pub fn to_table(&self) -> String {
        let percent = |value: f64| format!("{:.3}", 100.0 * value);
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["edges", "% of graphs", "samples", "P1-win", "% P1-win", "95 %", ""]);
        for s in self.by_size.iter().filter(|s| s.observed.is_some()) {
            let interval = match s.observed {
                Some(Observed::Sampled { .. }) => {
                    let [low, high] = [s.low, s.high].map(Option::unwrap_or_default);
                    format!("{} to {}", percent(low), percent(high))
                }
                _ => String::new(),
            };
            let counted = |count: u64| match s.status {
                "sampled" => count.to_string(),
                _ => String::new(),
            };
            table.add_row([
                s.size.to_string(),
                format!("{:.4}", 100.0 * s.share),
                counted(s.samples),
                counted(s.p1_wins),
                percent(s.proportion.unwrap_or_default()),
                interval,
                if s.status == "exact" { "exact".to_owned() } else { String::new() },
            ]);
        }
        for (name, row) in self.rows() {
            table.add_row([
                name.to_owned(),
                format!("{:.4}", 100.0 * row.share),
                row.samples.to_string(),
                String::new(),
                percent(row.proportion),
                format!("{} to {}", percent(row.low), percent(row.high)),
                String::new(),
            ]);
        }
        for column in 0..6 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = format!("{table}\n\n");
        if self.left_out > 0.0 {
            text += &format!(
                "{:.4} % of the graphs have another number of edges and are left out: of all, P1 \
                 wins {} to {} %.\n",
                100.0 * self.left_out,
                percent(self.bounds[0]),
                percent(self.bounds[1])
            );
        }
        text += &format!(
            "Order {}, model {}, seed {}: {} graphs decided, {} of them again in another way.\n\
             SHA-256 of the verdicts: {}\n",
            self.order, self.model, self.seed, self.samples, self.rechecked, self.digest
        );
        text
    }
}
