//! graph6, the exchange format of nauty, Sage and the published lists (McKay, *Description of
//! graph6, sparse6 and digraph6 encodings*): one printable byte for the order, then the columns of
//! the upper triangle, six bits a byte.

use std::fmt;

use super::bitset::{Code, Graph, MAX_ORDER, NARROW_ORDER, pairs};

/// The optional header of a graph6 file; it has no newline of its own.
pub const HEADER: &str = ">>graph6<<";
/// The format of directed graphs.
const DIGRAPHS: &str = "digraph6";
/// The headers of other formats begin like this.
const OTHER_HEADERS: [(&str, &str); 5] = [
    (">>sparse6", "sparse6"),
    (">>digraph6", DIGRAPHS),
    (">>planar_code", "planar code"),
    (">>edge_code", "edge code"),
    (">>", "a file of another format"),
];
/// No line of a graph that this program can hold is longer, header and line break included. Of
/// longer ones so many bytes, and one more, are enough to say what is wrong.
pub const LONGEST_LINE: usize = HEADER.len() + encoded_len(MAX_ORDER) + 2;

/// Why a line is not the graph6 text of a graph this program can hold. Columns count bytes from 1, after
/// a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Graph6Error {
    /// No byte at all.
    #[error("column 1: empty line where a graph6 graph was expected")]
    Empty,
    /// Another format, by its header or its first character.
    #[error(
        "column 1: this is {0}, not graph6 ({hint})",
        hint = if *.0 == DIGRAPHS {
            "its graphs are directed, and this program has none of that kind"
        } else {
            "convert it with `nauty-copyg -g`"
        }
    )]
    OtherFormat(&'static str),
    /// The header of a file where a graph should be.
    #[error("column 1: the header {HEADER} stands in the first line of a file, and only once")]
    Header,
    /// A byte outside 63 ..= 126.
    #[error("column {column}: byte 0x{byte:02x} is not a graph6 character (allowed: '?' to '~')")]
    BadByte {
        /// Where it stands.
        column: usize,
        /// The byte.
        byte: u8,
    },
    /// An order above [`MAX_ORDER`].
    #[error("column 1: order {order} is larger than {MAX_ORDER}, the largest order handled here")]
    OrderTooLarge {
        /// The order, or that it is 63 or more.
        order: String,
    },
    /// Too few or too many bytes for the order.
    #[error(
        "column {column}: a graph of order {order} takes {expected} characters, this one has {}",
        if found > expected { "more".to_owned() } else { found.to_string() }
    )]
    WrongLength {
        /// The first column that is missing or should not be there.
        column: usize,
        /// The order that the first byte states.
        order: usize,
        /// Number of bytes of a graph of this order.
        expected: usize,
        /// Number of bytes of the line.
        found: usize,
    },
    /// A one among the bits that fill up the last byte.
    #[error("column {column}: the padding bits of the last character are not zero")]
    Padding {
        /// Where the last byte stands.
        column: usize,
    },
}

/// Number of bytes of the graph6 text of a graph of order `n` ≤ 20.
pub const fn encoded_len(n: usize) -> usize {
    1 + pairs(n).div_ceil(6)
}

/// The graph6 text of `graph`, without a newline.
pub fn encode(graph: &Graph) -> String {
    let mut text = Vec::with_capacity(encoded_len(graph.order()));
    encode_into(graph, &mut text);
    text.into_iter().map(char::from).collect()
}

/// Appends the graph6 bytes of `graph` to `out`.
pub fn encode_into(graph: &Graph, out: &mut Vec<u8>) {
    encode_code(graph.order(), graph.code(), out);
}

/// Appends the graph6 bytes of the graph of order `n` ≤ 20 with this [`Graph::code`] to `out`.
pub fn encode_code(n: usize, code: Code, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + encoded_len(n), 0);
    write_code(n, code, &mut out[start..]);
}

/// Writes the same bytes; `out` has [`encoded_len`] of them, all of which are overwritten.
pub fn write_code(n: usize, code: Code, out: &mut [u8]) {
    out[0] = 63 + n as u8;
    let words = out[1..].chunks_mut(WORD / 6);
    for (start, bytes) in (0..).step_by(WORD).zip(words) {
        let bits = match start < HALF {
            true => code.narrow() >> start,
            false => code.beyond() >> (start - HALF),
        };
        // A code has its first pair at its lowest bit; graph6 has it at the highest bit of a byte.
        let mut reversed = (bits as u64).reverse_bits();
        for byte in bytes {
            *byte = 63 + (reversed >> (u64::BITS - 6)) as u8;
            reversed <<= 6;
        }
    }
}

/// Bits of a code that are written together.
const WORD: usize = 60;
/// Bits of the first part of a code. Both parts begin with a word, and words with a byte.
const HALF: usize = pairs(NARROW_ORDER);
const _: () = assert!(HALF.is_multiple_of(WORD) && WORD.is_multiple_of(6));

/// The text of a graph in a line, without the end of the line, and without the header if it is the
/// first line of a file.
pub fn in_line(line: &[u8], is_first: bool) -> &[u8] {
    let mut text = line;
    while let [rest @ .., b'\n' | b'\r'] = text {
        text = rest;
    }
    let without = text.strip_prefix(HEADER.as_bytes()).filter(|_| is_first);
    without.unwrap_or(text)
}

/// Whether a line has the header and no graph, as the first line of a file may.
pub fn is_header(line: &[u8]) -> bool {
    line.starts_with(HEADER.as_bytes()) && in_line(line, true).is_empty()
}

/// Reads one graph from a line, with or without the end of the line. The header of a file is no
/// part of a graph: [`in_line`] takes it off. Never panics.
///
/// # Errors
/// [`Graph6Error`] says what is wrong with the line, and at which column.
pub fn decode(line: &[u8]) -> Result<Graph, Graph6Error> {
    let text = in_line(line, false);
    let column = |index: usize| index + 1;
    match text.first() {
        None => return Err(Graph6Error::Empty),
        Some(b'>') => {
            if text.starts_with(HEADER.as_bytes()) {
                return Err(Graph6Error::Header);
            }
            let mut headers = OTHER_HEADERS.iter();
            if let Some((_, name)) =
                headers.find(|(header, _)| text.starts_with(header.as_bytes()))
            {
                return Err(Graph6Error::OtherFormat(name));
            }
        }
        Some(b':') => return Err(Graph6Error::OtherFormat("sparse6")),
        Some(b'&') => return Err(Graph6Error::OtherFormat(DIGRAPHS)),
        Some(b';') => return Err(Graph6Error::OtherFormat("incremental sparse6")),
        Some(_) => {}
    }
    if let Some(index) = text.iter().position(|byte| !(63..=126).contains(byte)) {
        return Err(Graph6Error::BadByte { column: column(index), byte: text[index] });
    }
    let order = (text[0] - 63) as usize;
    if order > MAX_ORDER {
        let order = if order == 63 { "63 or more".to_owned() } else { order.to_string() };
        return Err(Graph6Error::OrderTooLarge { order });
    }
    let expected = encoded_len(order);
    if text.len() != expected {
        let column = column(text.len().min(expected));
        return Err(Graph6Error::WrongLength { column, order, expected, found: text.len() });
    }
    let mut halves = [0u128; 2];
    for (index, byte) in text[1..].iter().enumerate() {
        let six = ((byte - 63) << 2).reverse_bits();
        let room = pairs(order) - 6 * index;
        if room < 6 && six >> room != 0 {
            return Err(Graph6Error::Padding { column: column(index + 1) });
        }
        let [in_half, start] = [6 * index / HALF, 6 * index % HALF];
        halves[in_half] |= u128::from(six) << start;
    }
    let [first, beyond] = halves;
    Ok(Graph::from_code(order, Code::new(first, beyond)))
}

/// Graphs are shown by their texts.
impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({})", encode(self))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_texts() {
        assert_eq!(encode(&Graph::edgeless(0)), "?");
        assert_eq!(encode(&Graph::from_edges(2, [(0, 1)])), "A_");
        // The example of the format's description: order 5, edges 02 04 13 34.
        assert_eq!(encode(&Graph::from_edges(5, [(0, 2), (0, 4), (1, 3), (3, 4)])), "DQc");
        assert_eq!(decode(b"DQc\r\n").unwrap().size(), 4);
    }

    #[test]
    fn a_header_stands_in_the_first_line_only() {
        for line in ["DQc", "DQc\n", "DQc\r\n", ">>graph6<<DQc\r\n"] {
            assert_eq!(in_line(line.as_bytes(), true), b"DQc");
            assert!(!is_header(line.as_bytes()));
        }
        assert_eq!(in_line(b">>graph6<<DQc", false), b">>graph6<<DQc");
        assert_eq!(decode(b">>graph6<<DQc"), Err(Graph6Error::Header));
        assert_eq!(in_line(b">>graph6<<>>graph6<<DQc", true), b">>graph6<<DQc");
        assert!([">>graph6<<", ">>graph6<<\r\n"].iter().all(|line| is_header(line.as_bytes())));
        assert!(!is_header(b"\r\n"));
    }

    #[test]
    fn errors_name_the_column() {
        let message = |text: &str| decode(text.as_bytes()).unwrap_err().to_string();
        assert!(message("").starts_with("column 1: empty"));
        assert!(
            message("DQ")
                .starts_with("column 3: a graph of order 5 takes 3 characters, this one has 2")
        );
        assert!(message("DQcc").starts_with("column 4:"));
        assert!(message("D c").starts_with("column 2: byte 0x20"));
        assert!(message("DQd").starts_with("column 3: the padding"));
        assert!(message("~??").contains("63 or more"));
        assert!(message(":An").contains("this is sparse6, not graph6"));
        assert!(message("&BP_").contains("this is digraph6"));
        for (header, name) in [
            ("sparse6<<:An", "sparse6"),
            ("digraph6<<&BP_", "digraph6"),
            ("planar_code<<", "planar code"),
            ("planar_code le<<", "planar code"),
            ("edge_code<<", "edge code"),
            ("gexf<<", "a file of another format"),
        ] {
            let expected = format!("column 1: this is {name}, not graph6");
            assert!(message(&format!(">>{header}")).starts_with(&expected), "{header}");
        }
        assert!(message(">D").starts_with("column 1: byte 0x3e"));
        // However long it is.
        assert!(message(&"D".repeat(1000)).ends_with("takes 3 characters, this one has more"));
        let longest = HEADER.to_owned() + &encode(&Graph::edgeless(MAX_ORDER)) + "\r\n";
        assert_eq!(longest.len(), LONGEST_LINE);
        assert!(decode(in_line(longest.as_bytes(), true)).is_ok());
    }

    proptest! {
        #[test]
        fn round_trip(n in 0..=MAX_ORDER, code: [u128; 2]) {
            let graph = Graph::from_code(n, Code::new(code[0], code[1]));
            prop_assert_eq!(decode(encode(&graph).as_bytes()), Ok(graph));
        }

        #[test]
        fn agrees_with_petgraph(n in 1..=MAX_ORDER, code: [u128; 2]) {
            let graph = Graph::from_code(n, Code::new(code[0], code[1]));
            let mut other = petgraph::graph::UnGraph::<(), ()>::default();
            let nodes: Vec<_> = (0..n).map(|_| other.add_node(())).collect();
            for (u, w) in graph.edges() {
                other.add_edge(nodes[u], nodes[w], ());
            }
            prop_assert_eq!(petgraph::graph6::ToGraph6::graph6_string(&other), encode(&graph));
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(graph) = decode(&bytes) {
                prop_assert!(graph.order() <= MAX_ORDER);
            }
        }

        #[test]
        fn accepts_only_what_it_writes(
            n in 0u8..=18,
            body in proptest::collection::vec(63u8..=126, 0..24),
        ) {
            let mut text = vec![63 + n];
            text.extend(body);
            if let Ok(graph) = decode(&text) {
                let mut again = Vec::new();
                encode_into(&graph, &mut again);
                prop_assert_eq!(again, text);
            }
        }
    }
}
