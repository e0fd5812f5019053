//! Graphs as commands take them: files of graph6 lines, standard input, or graph6 on the command
//! line.

use std::{
    ffi::OsString,
    fmt,
    io::{self, BufRead, Read},
    path::Path,
    sync::Arc,
};

use trailtrap_shared::graph::graph6;
use trailtrap_worker::process::open;

use crate::verify::{text_of, unpacked};

/// One graph of the input, not yet decoded. Of a line that is longer than that of any graph there
/// is as much as says so.
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

/// What is read of an input: lines, or why it cannot be read on.
pub type Batch = Result<Vec<Line>, anyhow::Error>;

/// Hands over all lines of the inputs (`-`, and no input at all, mean standard input), in order,
/// at most `at_most` at a time. An input that breaks off is followed by the next.
pub fn for_each_batch(
    inputs: &[OsString],
    at_most: usize,
    mut take: impl FnMut(Batch) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if inputs.is_empty() {
        return read_standard_input(at_most, &mut take);
    }
    for input in inputs {
        if input == "-" {
            read_standard_input(at_most, &mut take)?;
        } else if open::may_be_there(Path::new(input)) {
            match text_of(Path::new(input)) {
                Ok(text) => read(&input.to_string_lossy(), text, at_most, &mut take)?,
                Err(error) => take(Err(error))?,
            }
        } else {
            let text = graph6::in_line(input.as_encoded_bytes(), true);
            let shown = input.to_string_lossy();
            let name = match graph6::decode(text) {
                Ok(_) => format!("'{shown}'"),
                Err(_) => format!("'{shown}' is neither a file nor graph6"),
            };
            take(Ok(vec![Line {
                origin: LineOrigin { name: name.into(), line: None },
                text: text.to_vec(),
            }]))?;
        }
    }
    Ok(())
}

/// Packed or not, as files are.
fn read_standard_input(
    at_most: usize,
    take: &mut impl FnMut(Batch) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    const NAME: &str = "standard input";
    match unpacked(io::stdin().lock()) {
        Ok(text) => read(NAME, text, at_most, take),
        Err(error) => take(Err(cannot_read(NAME, error))),
    }
}

fn cannot_read(name: &str, error: io::Error) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("cannot read {name}"))
}

fn read(
    name: &str,
    mut input: impl BufRead,
    at_most: usize,
    take: &mut impl FnMut(Batch) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let shared: Arc<str> = name.into();
    let mut lines = Vec::new();
    for number in 1.. {
        let text = match read_line(&mut input) {
            Ok(text) => text,
            Err(error) => {
                take(Ok(lines))?;
                return take(Err(cannot_read(name, error)));
            }
        };
        if text.is_empty() {
            break;
        }
        let is_first = number == 1;
        if is_first && graph6::is_header(&text) {
            continue;
        }
        let text = graph6::in_line(&text, is_first).to_vec();
        lines.push(Line { origin: LineOrigin { name: shared.clone(), line: Some(number) }, text });
        if lines.len() >= at_most {
            take(Ok(std::mem::take(&mut lines)))?;
        }
    }
    take(Ok(lines))
}

/// The next line with its end, cut if it is longer than that of any graph; nothing at the end of
/// the input. The rest of a long line is skipped.
fn read_line(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let longest = graph6::LONGEST_LINE as u64 + 1;
    input.by_ref().take(longest).read_until(b'\n', &mut line)?;
    if line.len() as u64 == longest && line.last() != Some(&b'\n') {
        input.skip_until(b'\n')?;
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn lines(input: impl BufRead) -> Vec<(Option<usize>, Vec<u8>)> {
        let mut found = Vec::new();
        let mut take = |lines: Batch| {
            found.extend(lines.unwrap().into_iter().map(|line| (line.origin.line, line.text)));
            Ok(())
        };
        read("input", input, 2, &mut take).unwrap();
        found
    }

    /// Repeats a byte, and counts how often it did so.
    struct Endless<'a>(&'a mut usize, usize);

    impl Read for Endless<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(self.1 - *self.0);
            buffer[..length].fill(b'D');
            *self.0 += length;
            Ok(length)
        }
    }

    #[test]
    fn lines_are_counted_and_lose_their_ends() {
        assert_eq!(
            lines(&b">>graph6<<\nDQc\r\n\nC~"[..]),
            [(Some(2), b"DQc".to_vec()), (Some(3), Vec::new()), (Some(4), b"C~".to_vec())]
        );
        assert_eq!(lines(&b">>graph6<<DQc\n"[..]), [(Some(1), b"DQc".to_vec())]);
    }

    /// A packed file that was cut short, say.
    #[test]
    fn what_was_read_before_an_input_breaks_off_is_taken() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        }
        let mut found = Vec::new();
        let mut take = |batch: Batch| {
            found.push(batch.map(|lines| lines.len()).map_err(|error| format!("{error:#}")));
            Ok(())
        };
        let input = BufReader::new((&b"C~\nDQc\nC?\nC~"[..]).chain(Broken));
        read("input", input, 2, &mut take).unwrap();
        assert_eq!(found[..2], [Ok(2), Ok(1)]);
        assert!(found[2].as_ref().is_err_and(|why| why.starts_with("cannot read input: ")));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_line_longer_than_any_graph_is_read_and_not_kept() {
        let mut read = 0;
        let after = &b"\nC~\n"[..];
        let found = lines(BufReader::new(Endless(&mut read, 1 << 24).chain(after)));
        assert_eq!(read, 1 << 24);
        assert_eq!(found[0].1.len(), graph6::LONGEST_LINE + 1);
        assert!(graph6::decode(&found[0].1).is_err());
        assert_eq!(found[1], (Some(2), b"C~".to_vec()));
        // A line break just where it is cut, or none at all.
        for (length, line) in [(0, 2), (1, 2), (2, 2)] {
            let long = vec![b'D'; graph6::LONGEST_LINE + length];
            assert_eq!(lines(&[&long, after].concat()[..])[1], (Some(line), b"C~".to_vec()));
            assert_eq!(lines(&long[..]).len(), 1);
        }
    }
}
