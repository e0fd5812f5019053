//! `trailtrap solve`: who wins the given graphs, by forward search.

use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;
use rayon::prelude::*;
use serde::Serialize;
use trailtrap_shared::{
    game::{FirstMove, Game, GameName, Move, Search, Solution, trail_trap::conditions},
    graph::graph6,
    play,
};

use crate::cli::{
    answers::{Answered, GraphAnswer, Questions},
    input::Line,
};

/// Says who wins a game on given graphs (at most 20 vertices), by forward search.
///
/// Graphs are read in graph6, one a line. Vertices count from 0. A graph that cannot be solved is
/// named on standard error, the others get their answers, and the exit code is 1. With
/// `--conditions --limit 1` those are answered, however many edges they have, of which symmetry or
/// another condition of the paper tells the winner.
#[derive(Args)]
pub struct SolveCommand {
    #[command(flatten)]
    questions: Questions,
    /// The game: trail-trap or edge-geography
    #[arg(long, value_name = "GAME", default_value_t)]
    game: GameName,
    /// Add a winning first move of P1, or P2's answer to each first move; in edge geography the
    /// first move is to put the token on a vertex
    #[arg(long)]
    explain: bool,
    /// Look first whether a condition of the Trail Trap paper tells the winner, such as an
    /// involution that maps no edge to itself (Proposition 3), and search only where none does;
    /// `--explain` says which
    #[arg(long)]
    conditions: bool,
    /// Remember at most this many positions, of about 40 bytes each (80 beyond 16 vertices), and
    /// give up on graphs that need more. A graph with m edges has about 0.4 · 2^m; graphs that are
    /// solved at the same time share the limit
    #[arg(long, value_name = "POSITIONS", default_value_t = 40_000_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

/// Who wins a graph, and why.
#[derive(Serialize)]
struct SolvedGraph {
    /// As given.
    graph6: String,
    order: usize,
    size: usize,
    winner: &'static str,
    /// What tells the winner without a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_move: Option<FirstMove>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<Vec<AnswerTo>>,
}

/// P2's winning answer to a first move.
#[derive(Serialize)]
struct AnswerTo {
    first_move: FirstMove,
    answer: Move,
}

/// Lines are solved in parallel, this many at a time.
const LINES: usize = 256;
/// A thread takes at least this many at a time.
const CLAIM: usize = 8;

impl SolveCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        ensure!(
            !self.conditions || self.game == GameName::TrailTrap,
            "--conditions: there are none of {}, only of {}",
            self.game,
            GameName::TrailTrap
        );
        let mut header = vec!["graph6", "order", "size", "winner"];
        header.extend(self.explain.then_some("explanation"));
        self.questions.answer("solve", &header, LINES, |lines| {
            let at_a_time = (lines.len() / CLAIM).clamp(1, rayon::current_num_threads());
            let limit = usize::try_from(self.limit).unwrap_or(usize::MAX) / at_a_time;
            Ok(play!(self.game, G => self.answer_all::<<G as Game>::Search>(lines, limit)))
        })
    }

    fn answer_all<S: Search>(&self, lines: &[Line], limit: usize) -> Vec<Answered<SolvedGraph>> {
        lines
            .par_iter()
            .with_min_len(CLAIM)
            .map_init(|| S::new(limit), |search, line| self.answer(search, line))
            .collect()
    }

    fn answer(&self, search: &mut impl Search, line: &Line) -> Answered<SolvedGraph> {
        let graph =
            graph6::decode(&line.text).map_err(|error| format!("{}: {error}", line.origin))?;
        let mut solved = SolvedGraph {
            graph6: String::from_utf8_lossy(&line.text).into_owned(),
            order: graph.order(),
            size: graph.size(),
            winner: "P1",
            condition: None,
            first_move: None,
            answers: None,
        };
        let condition = match self.conditions {
            true => conditions::first_that_holds(&graph),
            false => None,
        };
        if let Some(condition) = condition {
            solved.winner = if condition.p1_wins { "P1" } else { "P2" };
            solved.condition = self.explain.then_some(condition.meaning);
            return Ok(solved);
        }
        let solution = search.solve(&graph).map_err(|error| {
            format!("{}: {error} (size {}; see --limit)", line.origin, graph.size())
        })?;
        Ok(self.describe(solved, solution))
    }

    fn describe(&self, mut solved: SolvedGraph, solution: Solution) -> SolvedGraph {
        match solution {
            Solution::P1 { opening } => solved.first_move = Some(opening).filter(|_| self.explain),
            Solution::P2 { answers } => {
                solved.winner = "P2";
                let list = answers
                    .into_iter()
                    .map(|(first_move, answer)| AnswerTo { first_move, answer });
                solved.answers = self.explain.then(|| list.collect());
            }
        }
        solved
    }
}

impl GraphAnswer for SolvedGraph {
    fn text(&self) -> String {
        let explanation: String =
            self.explanation().iter().map(|line| format!("  {line}\n")).collect();
        format!("{} {}\n{explanation}", self.graph6, self.winner)
    }

    fn csv(&self) -> Vec<String> {
        let SolvedGraph { graph6, order, size, winner, .. } = self;
        let mut cells =
            vec![graph6.clone(), order.to_string(), size.to_string(), winner.to_string()];
        let explanation = self.explanation().join("; ");
        cells.extend(Some(explanation).filter(|explanation| !explanation.is_empty()));
        cells
    }
}

impl SolvedGraph {
    /// Lines that say how it is won; none if nobody asked.
    fn explanation(&self) -> Vec<String> {
        if let Some(condition) = self.condition {
            return vec![format!("{} wins: {condition}", self.winner)];
        }
        let show = |(from, to): Move| format!("{from}→{to}");
        match (&self.first_move, &self.answers) {
            (Some(first_move), _) => vec![format!("P1 wins by {first_move}")],
            (None, Some(answers)) if answers.is_empty() => vec!["P1 cannot move".to_owned()],
            (None, Some(answers)) => answers
                .iter()
                .map(|a| format!("P2 answers {} by {}", a.first_move, show(a.answer)))
                .collect(),
            (None, None) => Vec::new(),
        }
    }
}
