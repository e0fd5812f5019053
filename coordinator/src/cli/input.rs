//! Graphs as commands take them: files of graph6 lines, standard input, or graph6 on the command
//! line.

use std::{
    fmt,
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
    sync::Arc,
};

use anyhow::Context;
use trailtrap_shared::graph::graph6;

/// One graph of the input, not yet decoded.
pub struct Line {
    pub origin: LineOrigin,
    pub text: Vec<u8>,
}

/// Where a line stood, for messages.
#[derive(Clone)]
pub struct LineOrigin {
    name: Arc<str>,
    line: Option<usize>,
}

impl fmt::Display for LineOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

/// Hands over all lines of the inputs (`-`, and no input at all, mean standard input), in order,
/// at most `at_most` at a time.
pub fn for_each_batch(
    inputs: &[String],
    at_most: usize,
    mut take: impl FnMut(Vec<Line>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if inputs.is_empty() {
        return read("standard input", io::stdin().lock(), at_most, &mut take);
    }
    for input in inputs {
        if input == "-" {
            read("standard input", io::stdin().lock(), at_most, &mut take)?;
        } else if Path::new(input).exists() {
            let file = File::open(input).with_context(|| format!("cannot open {input}"))?;
            read(input, BufReader::new(file), at_most, &mut take)?;
        } else {
            let name = match graph6::decode(input.as_bytes()) {
                Ok(_) => format!("'{input}'"),
                Err(_) => format!("'{input}' is neither a file nor graph6"),
            };
            take(vec![Line {
                origin: LineOrigin { name: name.into(), line: None },
                text: input.clone().into_bytes(),
            }])?;
        }
    }
    Ok(())
}

fn read(
    name: &str,
    mut input: impl BufRead,
    at_most: usize,
    take: &mut impl FnMut(Vec<Line>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let shared: Arc<str> = name.into();
    let mut lines = Vec::new();
    for number in 1.. {
        let mut text = Vec::new();
        if input.read_until(b'\n', &mut text).with_context(|| format!("cannot read {name}"))? == 0
        {
            break;
        }
        while text.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            text.pop();
        }
        // A header may stand before the first graph, on its line or on one of its own.
        if number == 1 && text.starts_with(graph6::HEADER.as_bytes()) {
            text.drain(..graph6::HEADER.len());
            if text.is_empty() {
                continue;
            }
        }
        lines.push(Line { origin: LineOrigin { name: shared.clone(), line: Some(number) }, text });
        if lines.len() >= at_most {
            take(std::mem::take(&mut lines))?;
        }
    }
    take(lines)
}

/// Whether an error says that nobody reads the output any more, which is no failure.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
