//! Answers about the graphs of the input, one for each, as text, CSV or JSON on standard output.

use std::{
    ffi::OsString,
    io::{self, BufWriter, StdoutLock, Write},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde::Serialize;
use trailtrap_worker::process::log;

use crate::cli::input::{self, Line};

/// What commands that answer questions about graphs are asked.
#[derive(Args)]
pub struct Questions {
    /// Files of graph6 lines, plain or gzip, `-` for standard input (the default), or graphs
    /// themselves
    #[arg(value_name = "FILE|-|GRAPH6")]
    inputs: Vec<OsString>,
    /// How to print the answers
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    format: AnswerFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AnswerFormat {
    Text,
    Csv,
    Json,
}

/// One answer. As JSON it is what serde makes of it.
pub trait GraphAnswer: Serialize {
    /// A line for people, or several, each with its end.
    fn text(&self) -> String;

    /// The cells of a row of CSV.
    fn csv(&self) -> Vec<String>;
}

/// What a question led to: an answer, or what is wrong with the question.
pub type Answered<A> = Result<A, String>;

impl Questions {
    /// Has the lines of the input answered, at most `at_a_time` together, and prints the answers
    /// in order. What could not be answered is named on standard error by `command`, and then the
    /// exit code is 1. A reader who wants no more is no error.
    pub fn answer<A: GraphAnswer>(
        &self,
        command: &'static str,
        csv_header: &[&str],
        at_a_time: usize,
        mut answer: impl FnMut(&[Line]) -> anyhow::Result<Vec<Answered<A>>>,
    ) -> anyhow::Result<ExitCode> {
        let out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
        let mut printer = Printer { command, format: self.format, out, answers: 0, failures: 0 };
        let done = printer.begin(csv_header).and_then(|()| {
            input::for_each_batch(&self.inputs, at_a_time, |lines| match lines {
                Ok(lines) => printer.print(answer(&lines)?),
                Err(error) => printer.fail(&log::explained(&error)),
            })?;
            printer.end()
        });
        match done {
            Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(error),
            Ok(()) if printer.failures > 0 => Ok(ExitCode::FAILURE),
            Ok(()) => Ok(ExitCode::SUCCESS),
        }
    }
}

struct Printer {
    command: &'static str,
    format: AnswerFormat,
    out: BufWriter<StdoutLock<'static>>,
    answers: usize,
    failures: usize,
}

impl Printer {
    fn begin(&mut self, csv_header: &[&str]) -> anyhow::Result<()> {
        match self.format {
            AnswerFormat::Text => Ok(()),
            AnswerFormat::Csv => self.write(&csv_row(csv_header)?),
            AnswerFormat::Json => self.write(b"["),
        }
    }

    fn print<A: GraphAnswer>(&mut self, replies: Vec<Answered<A>>) -> anyhow::Result<()> {
        for reply in replies {
            match reply {
                Ok(answer) => self.print_one(&answer)?,
                Err(message) => self.fail(&message)?,
            }
        }
        // Whoever reads along sees what is done.
        self.flush()
    }

    fn fail(&mut self, message: &str) -> anyhow::Result<()> {
        self.failures += 1;
        log::say(&format!("trailtrap {}: {message}", self.command));
        Ok(())
    }

    fn print_one<A: GraphAnswer>(&mut self, answer: &A) -> anyhow::Result<()> {
        match self.format {
            AnswerFormat::Text => self.write(answer.text().as_bytes())?,
            AnswerFormat::Csv => self.write(&csv_row(&answer.csv())?)?,
            AnswerFormat::Json => {
                let comma = if self.answers > 0 { "," } else { "" };
                let json = serde_json::to_string(answer)?;
                self.write(format!("{comma}\n{json}").as_bytes())?;
            }
        }
        self.answers += 1;
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<()> {
        if self.format == AnswerFormat::Json {
            self.write(if self.answers > 0 { b"\n]\n" } else { b"]\n" })?;
        }
        self.flush()
    }

    fn write(&mut self, text: &[u8]) -> anyhow::Result<()> {
        self.out.write_all(text).context(CANNOT_WRITE)
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.out.flush().context(CANNOT_WRITE)
    }
}

/// Whether an error says that nobody reads the output any more, which is no failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn csv_row<C: AsRef<[u8]>>(cells: &[C]) -> anyhow::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().buffer_capacity(256).from_writer(Vec::new());
    writer.write_record(cells)?;
    Ok(writer.into_inner()?)
}

const CANNOT_WRITE: &str = "cannot write to standard output";
