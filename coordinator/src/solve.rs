//! `trailtrap solve`: who wins the given graphs, by forward search.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use rayon::prelude::*;
use serde::Serialize;
use trailtrap_shared::{graph::Graph, graph6};
use trailtrap_worker::forward::{ForwardSearch, Move, Solution};

use crate::input::{self, Line};

/// Says who wins Trail Trap on given graphs (at most 16 vertices), by forward search.
///
/// Graphs are read in graph6, one a line. Vertices count from 0. A graph that cannot be solved is named on standard error,
/// the others get their answers, and the exit code is 1.
#[derive(Args)]
pub struct SolveCommand {
    /// Files of graph6 lines, `-` for standard input (the default), or graphs themselves
    #[arg(value_name = "FILE|-|GRAPH6")]
    inputs: Vec<String>,
    /// How to print the answers
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// Add a winning first move of P1, or P2's answer to each first move
    #[arg(long)]
    explain: bool,
    /// Remember at most this many positions, of about 40 bytes each, and give up on graphs that need more. A graph with m
    /// edges has about 0.4 · 2^m; graphs that are solved at the same time share the limit
    #[arg(long, value_name = "POSITIONS", default_value_t = 40_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Csv,
    Json,
}

/// One answer.
#[derive(Serialize)]
struct Answer {
    /// As given.
    graph6: String,
    order: usize,
    size: usize,
    winner: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_move: Option<Move>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<Vec<AnswerTo>>,
}

/// P2's winning answer to a first move.
#[derive(Serialize)]
struct AnswerTo {
    first_move: Move,
    answer: Move,
}

/// Lines are solved in parallel and printed in order, this many at a time.
const LINES: usize = 256;
/// A thread takes at least this many at a time.
const CLAIM: usize = 8;

impl SolveCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut output =
            Output { out: io::BufWriter::new(io::stdout().lock()), command: &self, answers: 0, failures: 0 };
        let result = output.begin().and_then(|()| {
            input::for_each_batch(&self.inputs, LINES, |lines| output.solve(lines))?;
            output.end()
        });
        match result {
            Err(error) if input::is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(error),
            Ok(()) if output.failures > 0 => Ok(ExitCode::FAILURE),
            Ok(()) => Ok(ExitCode::SUCCESS),
        }
    }

    fn answer(&self, search: &mut ForwardSearch, line: &Line) -> Result<Answer, String> {
        let graph = graph6::decode(&line.text).map_err(|error| format!("{}: {error}", line.origin))?;
        let solution = search
            .solve(&graph)
            .map_err(|error| format!("{}: {error} (size {}; see --limit)", line.origin, graph.size()))?;
        Ok(self.describe(line, &graph, solution))
    }

    fn describe(&self, line: &Line, graph: &Graph, solution: Solution) -> Answer {
        let mut answer = Answer {
            graph6: String::from_utf8_lossy(&line.text).into_owned(),
            order: graph.order(),
            size: graph.size(),
            winner: "P1",
            first_move: None,
            answers: None,
        };
        match solution {
            Solution::P1 { first_move } => answer.first_move = Some(first_move).filter(|_| self.explain),
            Solution::P2 { answers } => {
                answer.winner = "P2";
                let list = answers.into_iter().map(|(first_move, answer)| AnswerTo { first_move, answer });
                answer.answers = self.explain.then(|| list.collect());
            }
        }
        answer
    }
}

struct Output<'a> {
    out: io::BufWriter<io::StdoutLock<'a>>,
    command: &'a SolveCommand,
    answers: usize,
    failures: usize,
}

impl Output<'_> {
    fn begin(&mut self) -> anyhow::Result<()> {
        match self.command.format {
            Format::Text => {}
            Format::Csv if self.command.explain => writeln!(self.out, "graph6,order,size,winner,explanation")?,
            Format::Csv => writeln!(self.out, "graph6,order,size,winner")?,
            Format::Json => write!(self.out, "[")?,
        }
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<()> {
        if self.command.format == Format::Json {
            writeln!(self.out, "{}]", if self.answers > 0 { "\n" } else { "" })?;
        }
        Ok(self.out.flush()?)
    }

    fn fail(&mut self, message: &str) {
        self.failures += 1;
        eprintln!("trailtrap solve: {message}");
    }

    fn solve(&mut self, lines: Vec<Line>) -> anyhow::Result<()> {
        let at_a_time = lines.len().div_ceil(CLAIM).clamp(1, rayon::current_num_threads());
        let limit = usize::try_from(self.command.limit).unwrap_or(usize::MAX) / at_a_time;
        let command = self.command;
        let answers: Vec<Result<Answer, String>> = lines
            .par_iter()
            .with_min_len(CLAIM)
            .map_init(|| ForwardSearch::new(limit), |search, line| command.answer(search, line))
            .collect();
        for answer in answers {
            match answer {
                Ok(answer) => self.print(&answer)?,
                Err(message) => self.fail(&message),
            }
        }
        // Whoever reads along sees what is done.
        Ok(self.out.flush()?)
    }

    fn print(&mut self, answer: &Answer) -> anyhow::Result<()> {
        let Answer { graph6, order, size, winner, .. } = answer;
        match self.command.format {
            Format::Text => {
                writeln!(self.out, "{graph6} {winner}")?;
                for line in explanation(answer) {
                    writeln!(self.out, "  {line}")?;
                }
            }
            Format::Csv => {
                // No graph6 character needs quoting: they are the bytes 63 to 126.
                write!(self.out, "{graph6},{order},{size},{winner}")?;
                match self.command.explain {
                    true => writeln!(self.out, ",{}", explanation(answer).join("; "))?,
                    false => writeln!(self.out)?,
                }
            }
            Format::Json => {
                let comma = if self.answers > 0 { "," } else { "" };
                write!(self.out, "{comma}\n{}", serde_json::to_string(answer)?)?;
            }
        }
        self.answers += 1;
        Ok(())
    }
}

fn explanation(answer: &Answer) -> Vec<String> {
    let show = |(from, to): Move| format!("{from}→{to}");
    match (&answer.first_move, &answer.answers) {
        (Some(first_move), _) => vec![format!("P1 wins by {}", show(*first_move))],
        (None, Some(answers)) if answers.is_empty() => vec!["P1 cannot move".to_owned()],
        (None, Some(answers)) => {
            answers.iter().map(|a| format!("P2 answers {} by {}", show(a.first_move), show(a.answer))).collect()
        }
        (None, None) => Vec::new(),
    }
}
