//! Checks a list of P1-win graphs.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use anyhow::{Context, anyhow, bail, ensure};
use flate2::read::MultiGzDecoder;
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};
use trailtrap_census::core::random::Random;
use trailtrap_export::graphs::GraphList;
use trailtrap_shared::{
    class::Class,
    count::statistics::Statistics,
    game::{Game, GameName, Search},
    graph::{Graph, degree::DegreeSequence, factorial, graph6, nauty, pairs},
    play,
};

use super::{LARGEST_FORWARD_SIZE, MOST_POSITIONS};

/// What a file begins with that `gzip` has made.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// P1-win graphs of one size, or of one degree sequence, counted in each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wins {
    pub graphs: u128,
    pub connected: u128,
    pub labelled: u128,
    pub labelled_connected: u128,
}

impl Wins {
    /// As a census counts them.
    pub fn of(statistics: &Statistics) -> Self {
        Wins {
            graphs: statistics.classes.all.listed,
            connected: statistics.classes.connected.listed,
            labelled: statistics.labelled.all.listed,
            labelled_connected: statistics.labelled.connected.listed,
        }
    }

    fn add(&mut self, graph: &Graph, automorphisms: u64) {
        let weight = u128::from(factorial(graph.order()) / automorphisms);
        self.graphs += 1;
        self.labelled += weight;
        if graph.is_connected() {
            self.connected += 1;
            self.labelled_connected += weight;
        }
    }
}

/// Lines are checked in parallel, this many at a time.
const LINES: usize = 1 << 16;
/// Longer than the line of any graph that can be read.
const LINE_BYTES: u64 = graph6::LONGEST_LINE as u64 + 1;

/// The text of a list, gzip or plain, as `export` writes it.
///
/// # Errors
/// It cannot be opened, or begun to be read.
pub fn text_of(path: &Path) -> anyhow::Result<impl BufRead + use<>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let text = unpacked(BufReader::new(file));
    text.with_context(|| format!("cannot read {}", path.display()))
}

/// The text of a list that is read like this, gzip or plain.
///
/// # Errors
/// It cannot be begun to be read.
pub fn unpacked(mut reader: impl BufRead + 'static) -> io::Result<BufReader<Box<dyn Read>>> {
    let gzip = reader.fill_buf()?.starts_with(&GZIP_MAGIC);
    let text: Box<dyn Read> =
        if gzip { Box::new(MultiGzDecoder::new(reader)) } else { Box::new(reader) };
    Ok(BufReader::with_capacity(1 << 20, text))
}

/// What a list of P1-win graphs holds.
pub struct CheckedList {
    pub order: usize,
    /// By number of edges.
    pub by_size: Vec<Wins>,
    /// By degree sequence, of which there are few beside the graphs.
    pub by_degrees: HashMap<DegreeSequence, Wins>,
    /// Of the text, not compressed.
    pub bytes: u64,
    pub sha256: String,
    /// Graphs drawn at random, to be searched forward.
    drawn: Vec<Graph>,
}

/// What a list has of the P1-wins of a census.
pub struct Compared {
    /// How many of them.
    pub found: u128,
    /// Graphs that the census does not tell the winner of, and that are too large to be searched.
    pub untold: u128,
}

impl CheckedList {
    /// Reads a list, gzip or plain: each graph of the class and canonical (in nauty's labels), the
    /// lines strictly increasing and so distinct.
    pub fn read(path: &Path, class: Class, sample: usize, seed: u64) -> anyhow::Result<Self> {
        Self::parse(text_of(path)?, class, sample, seed)
            .with_context(|| format!("{}", path.display()))
    }

    /// Looks for each graph of this list, which is read once more from its file, among others:
    /// those of the class with at most so many edges have to be there. `None` if the file cannot be
    /// read twice, as a pipe cannot: whoever opened it again would wait for ever.
    pub fn check_among(
        &self,
        path: &Path,
        others: &GraphList,
        class: Class,
        max_size: usize,
    ) -> anyhow::Result<Option<Compared>> {
        if !path.is_file() {
            return Ok(None);
        }
        let mut others = others.graphs().map(|graph| graph6::encode(&graph).into_bytes());
        let mut other = others.next();
        let (mut found, mut untold, mut lines) = (0, 0, 0);
        for (number, line) in text_of(path)?.split(b'\n').enumerate() {
            let line = line?;
            let is_first = number == 0;
            if is_first && graph6::is_header(&line) {
                continue;
            }
            let text = graph6::in_line(&line, is_first);
            lines += 1;
            while other.as_ref().is_some_and(|other| other[..] < *text) {
                other = others.next();
            }
            if other.as_deref() == Some(text) {
                found += 1;
                other = others.next();
                continue;
            }
            let graph = graph6::decode(text)?;
            if graph.size() <= max_size && class.contains(&graph) {
                let (number, text) = (number + 1, String::from_utf8_lossy(text));
                bail!("line {number}: {text} is not among the P1-wins of the census");
            }
            untold += u128::from(graph.size() > LARGEST_FORWARD_SIZE);
        }
        Ok((lines == self.graphs()).then_some(Compared { found, untold }))
    }

    fn parse(text: impl BufRead, class: Class, sample: usize, seed: u64) -> anyhow::Result<Self> {
        let mut reading = Reading {
            text,
            number: 0,
            last: Vec::new(),
            sha256: Sha256::new(),
            sample,
            random: Random(seed),
            candidates: 0,
            list: CheckedList {
                order: 0,
                by_size: Vec::new(),
                by_degrees: HashMap::new(),
                bytes: 0,
                sha256: String::new(),
                drawn: Vec::new(),
            },
        };
        let largest_order = class.largest_order();
        loop {
            let lines = reading.next_lines()?;
            if lines.is_empty() {
                break;
            }
            let check = |line: &Vec<u8>| check_line(line, class, largest_order);
            let checked: Vec<Result<(Graph, u64), String>> = lines.par_iter().map(check).collect();
            for (line, checked) in lines.into_iter().zip(checked) {
                reading.take(&line, checked)?;
            }
        }
        let Reading { sha256, mut list, .. } = reading;
        list.sha256 = hex::encode(sha256.finalize());
        Ok(list)
    }

    /// Number of graphs.
    pub fn graphs(&self) -> u128 {
        self.by_size.iter().map(|wins| wins.graphs).sum()
    }

    /// Number of those that have too many edges to be searched forward.
    pub fn too_large(&self) -> u128 {
        self.by_size.iter().skip(LARGEST_FORWARD_SIZE + 1).map(|wins| wins.graphs).sum()
    }

    /// Searches the graphs drawn forward: P1 has to win them all. Gives their number.
    pub fn search(&self, game: GameName) -> anyhow::Result<usize> {
        play!(game, G => self.search_by::<<G as Game>::Search>())
    }

    fn search_by<S: Search>(&self) -> anyhow::Result<usize> {
        self.drawn.par_iter().with_max_len(1).try_for_each(|graph| {
            let won = S::new(MOST_POSITIONS).solve(graph)?.is_listed();
            ensure!(
                won,
                "{} is listed, but forward search says that P2 wins",
                graph6::encode(graph)
            );
            Ok(())
        })?;
        Ok(self.drawn.len())
    }
}

/// A list that is being read.
struct Reading<T> {
    text: T,
    /// How many lines were taken, a header among them.
    number: usize,
    /// The last of them.
    last: Vec<u8>,
    sha256: Sha256,
    /// So many graphs are drawn, …
    sample: usize,
    random: Random,
    /// … of so many as yet.
    candidates: u64,
    /// What was found in these lines.
    list: CheckedList,
}

impl<T: BufRead> Reading<T> {
    /// The next lines, without their breaks and without the header; none at the end of the text.
    fn next_lines(&mut self) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut lines: Vec<Vec<u8>> = Vec::new();
        while lines.len() < LINES {
            let mut line = Vec::new();
            let read = self.text.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line);
            let read = read.context("cannot read on: the list is damaged or cut short")?;
            if read == 0 {
                break;
            }
            self.sha256.update(&line);
            self.list.bytes += read as u64;
            if line.pop() != Some(b'\n') {
                let at = self.number + lines.len() + 1;
                if read as u64 == LINE_BYTES {
                    // It may say itself what it is.
                    let text = graph6::in_line(&line, at == 1);
                    graph6::decode(text).map_err(|error| anyhow!("line {at}: {error}"))?;
                    bail!("line {at}: longer than that of any graph");
                }
                bail!("line {at}: no line break: the list is cut short");
            }
            let is_first = self.number == 0 && lines.is_empty();
            if is_first && graph6::is_header(&line) {
                self.number = 1;
                continue;
            }
            lines.push(graph6::in_line(&line, is_first).to_vec());
        }
        Ok(lines)
    }

    /// Takes the next line, and what [`check_line`] says of it.
    fn take(&mut self, line: &[u8], checked: Result<(Graph, u64), String>) -> anyhow::Result<()> {
        self.number += 1;
        let (number, list) = (self.number, &mut self.list);
        let (graph, automorphisms) = checked.map_err(|why| anyhow!("line {number}: {why}"))?;
        ensure!(
            list.by_size.is_empty() || self.last[..] < *line,
            "line {number}: not greater than the line before: not sorted, or a graph stands twice"
        );
        self.last = line.to_vec();
        if list.by_size.is_empty() {
            list.order = graph.order();
            list.by_size = vec![Wins::default(); pairs(list.order) + 1];
        }
        ensure!(
            graph.order() == list.order,
            "line {number}: order {}, not {}",
            graph.order(),
            list.order
        );
        let of_degrees = list.by_degrees.entry(DegreeSequence::of(&graph)).or_default();
        for wins in [&mut list.by_size[graph.size()], of_degrees] {
            wins.add(&graph, automorphisms);
        }
        if graph.size() <= LARGEST_FORWARD_SIZE {
            // Reservoir sampling (Vitter 1985): each candidate stays with equal probability.
            self.candidates += 1;
            if list.drawn.len() < self.sample {
                list.drawn.push(graph);
            } else if let Some(place) =
                list.drawn.get_mut(self.random.below(self.candidates) as usize)
            {
                *place = graph;
            }
        }
        Ok(())
    }
}

/// The graph of a line and how many automorphisms it has, if it is canonical and belongs to the
/// class; or what is wrong with it.
fn check_line(line: &[u8], class: Class, largest_order: usize) -> Result<(Graph, u64), String> {
    let graph = graph6::decode(line).map_err(|error| error.to_string())?;
    if graph.order() == 0 {
        return Err("a graph without vertices, which nobody wins first".to_owned());
    }
    let of_class = class == Class::All || graph.order() <= largest_order && class.contains(&graph);
    if !of_class {
        return Err(format!("a graph that does not belong to the class {class}"));
    }
    let labelling = nauty::label(&graph);
    if labelling.canonical != graph {
        return Err("not in nauty's canonical labels".to_owned());
    }
    Ok((graph, labelling.automorphisms))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn read(bytes: &[u8]) -> anyhow::Result<CheckedList> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        CheckedList::read(file.path(), Class::All, 0, 1)
    }

    #[test]
    fn all_members_of_a_gzip_file_are_read() {
        let member = |text: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        };
        let text = [&b"C?\n"[..], b"C~\n"];
        let list = read(&text.map(member).concat()).unwrap();
        assert_eq!((list.graphs(), list.bytes), (2, 6));
        assert_eq!(list.sha256, read(&text.concat()).unwrap().sha256);
    }

    #[test]
    fn a_header_may_stand_alone() {
        let list = read(b">>graph6<<\nC?\nC~\n").unwrap();
        assert_eq!((list.graphs(), list.order), (2, 4));
        assert_eq!(read(b">>graph6<<\r\nC?\r\nC~\r\n").unwrap().graphs(), 2);
        let why = |bytes: &[u8]| format!("{:#}", read(bytes).err().unwrap());
        assert!(why(b">>graph6<<\nC~\nC?\n").contains("line 3: not greater"));
        assert!(why(b">>graph6<<\n>>graph6<<\nC~\n").contains("line 2: "));
        // The same graph twice.
        assert!(why(b">>graph6<<\n>>graph6<<CF\nCF\n").contains("line 2: column 1: the header"));
        assert!(why(b">>graph6<<>>graph6<<CF\nCF\n").contains("line 1: column 1: the header"));
    }

    #[test]
    fn a_line_that_does_not_end_is_not_read_to_its_end() {
        let why = |bytes: &[u8]| format!("{:#}", read(bytes).err().unwrap());
        assert!(why(&[b"C?\n", &[b'C'; 1 << 20][..]].concat()).contains("line 2: column 3: a"));
        assert!(why(b"C?\nC~").contains("line 2: no line break"));
    }

    #[test]
    fn what_is_no_list_is_named() {
        let why = |bytes: &[u8]| format!("{:#}", read(bytes).err().unwrap());
        assert!(why(b"?\n").contains("line 1: a graph without vertices"));
        assert!(why(b">>graph6<<?\n").contains("line 1: a graph without vertices"));
        assert!(why(b">>sparse6<<:An\n").contains("line 1: column 1: this is sparse6"));
        let planar = [&b">>planar_code<<"[..], &[4; 1000]].concat();
        assert!(why(&planar).contains("line 1: column 1: this is planar code"));
    }
}
