//! `trailtrap solve` as scripts rely on it, and people's mistakes.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Write,
    os::unix::ffi::OsStrExt,
    process::{Output, Stdio},
};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::common::{run, run_with_input, stderr, stdout, succeeded, trailtrap, watch_memory};

fn solve(input: &str, arguments: &[&str]) -> Output {
    run_with_input(&[&["solve"], arguments].concat(), input)
}

#[test]
fn csv_echoes_graphs_in_order() {
    let output = solve(">>graph6<<C~\r\nDCw\nCF\n@\nA_", &["--format", "csv"]);
    succeeded(&output);
    let expected =
        "graph6,order,size,winner\nC~,4,6,P1\nDCw,5,4,P1\nCF,4,3,P1\n@,1,0,P2\nA_,2,1,P1\n";
    assert_eq!(stdout(&output), expected);
}

#[test]
fn text_from_arguments_with_explanations() {
    let output = run(&["solve", "CF", "BW", "@", "--explain"]);
    succeeded(&output);
    let text = stdout(&output);
    // The star K(1,3) is won by a move into its centre; the path P3 is lost.
    assert!(text.starts_with("CF P1\n  P1 wins by 0→3\nBW P2\n  P2 answers "), "{text}");
    assert!(text.ends_with("@ P2\n  P1 cannot move\n"));
    assert_eq!(text.matches("P2 answers").count(), 4);
}

/// Where symmetry or another theorem tells the winner, nothing is searched: of K_12 less a perfect
/// matching, a path, and one edge; of K_12 less an edge nothing tells.
#[test]
fn conditions_answer_for_graphs_of_any_size() {
    let asked = ["--conditions", "--limit", "1", "--explain"];
    let output = solve("K]~v~z~~v~~}\nK^~~~~~~~~~~\nDhC\nA_\n", &asked);
    assert_eq!(output.status.code(), Some(1));
    let lines = [
        "K]~v~z~~v~~} P2\n  P2 wins: an involution maps no edge to itself (Proposition 3)\n",
        "DhC P2\n  P2 wins: two edges or more, and no degree above 2 (Proposition 2)\n",
        "A_ P1\n  P1 wins: there is one edge\n",
    ];
    assert_eq!(stdout(&output), lines.concat());
    assert!(stderr(&output).contains("line 2: "), "{}", stderr(&output));
    // Where none holds, the search decides.
    assert_eq!(stdout(&solve("C~\n", &["--conditions"])), "C~ P1\n");
    let other = solve("C~\n", &["--conditions", "--game", "edge-geography"]);
    assert!(!other.status.success() && stderr(&other).contains("--conditions"), "{other:?}");
}

#[test]
fn json_is_one_array() {
    let output = solve("BW\nC~\n", &["--format", "json", "--explain"]);
    let answers: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answers[1]["winner"], "P1");
    assert_eq!(answers[1]["first_move"].as_array().unwrap().len(), 2);
    assert_eq!(answers[0]["answers"].as_array().unwrap().len(), 4);
    let empty: Value = serde_json::from_str(&stdout(&solve("", &["--format", "json"]))).unwrap();
    assert_eq!(empty, json!([]));
}

#[test]
fn one_bad_graph_does_not_stop_the_others() {
    let output = solve("C~\nD!w\nU??????????????????????????\nCF\n", &["--format", "csv"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "graph6,order,size,winner\nC~,4,6,P1\nCF,4,3,P1\n");
    let text = stderr(&output);
    assert!(text.contains("standard input, line 2: column 2: byte 0x21"), "{text}");
    assert!(text.contains("line 3: column 1: order 22 is larger than 20"), "{text}");
}

#[test]
fn a_graph_beyond_the_limit_is_named() {
    let output = solve("F~~~w\nCF\n", &["--limit", "1000"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "CF P1\n");
    assert!(
        stderr(&output).contains("line 1") && stderr(&output).contains("--limit"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn files_and_things_that_are_none() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("graphs.g6");
    fs::write(&file, "C~\nCF").unwrap();
    let output = run(&["solve", file.to_str().unwrap(), "no-such-file.g6"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "C~ P1\nCF P1\n");
    assert!(stderr(&output).contains("neither a file nor graph6"));
}

/// Lists come compressed from `export graphs`, as files or through a pipe.
#[test]
fn packed_lists_are_read_wherever_they_come_from() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("graphs.g6.gz");
    let mut packed = GzEncoder::new(File::create(&file).unwrap(), Compression::default());
    packed.write_all(b">>graph6<<C~\nCF\n").unwrap();
    packed.finish().unwrap();
    let text = file.to_str().unwrap();
    for (arguments, input) in [(vec!["solve", text], None), (vec!["solve"], Some(&file))] {
        let input = input.map_or(Stdio::null(), |path| File::open(path).unwrap().into());
        let output = trailtrap().args(arguments).stdin(input).output().unwrap();
        assert_eq!(stdout(&output), "C~ P1\nCF P1\n", "{}", stderr(&output));
    }
    // What is cut short is named, after what could be read.
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 9]).unwrap();
    let input = File::open(&file).unwrap();
    let output = trailtrap().args(["solve", "-"]).stdin(input).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot read standard input"), "{}", stderr(&output));
}

/// On Linux a name is bytes, and no text in particular.
#[test]
fn files_may_have_any_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(OsStr::from_bytes(b"graphs-\xff.g6"));
    fs::write(&file, "BG\n").unwrap();
    for (command, says) in [("solve", "BG P1"), ("verify", "right")] {
        // Without a census nearby.
        let output = trailtrap().arg(command).arg(&file).current_dir(&directory).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).contains(says), "{}", stdout(&output));
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let input = "C~\n".repeat(20_000);
    let mut child = trailtrap()
        .arg("solve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    drop(child.stdout.take());
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    // What is left to be said goes nowhere, after the reader has left.
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

/// Of a line without end nothing is kept but what says so.
#[test]
fn endless_lines_and_other_formats_are_named() {
    let mut endless = trailtrap()
        .args(["solve", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let peak = watch_memory(endless.id());
    let mut input = endless.stdin.take().unwrap();
    let line = vec![b'D'; 1 << 20];
    for _ in 0..1 << 10 {
        input.write_all(&line).unwrap();
    }
    input.write_all(b"\nC~\n").unwrap();
    drop(input);
    let output = endless.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "graph6,order,size,winner\nC~,4,6,P1\n");
    let text = stderr(&output);
    assert!(text.contains("line 1: column 4: a graph of order 5 takes 3 characters"), "{text}");
    // Elsewhere there is no /proc to read it from.
    if let Some(peak) = peak.join().unwrap() {
        assert!(peak < 256 << 20, "{peak} bytes for a line of a gigabyte");
    }
    for (input, format) in [(">>sparse6<<:An\n", "sparse6"), (">>digraph6<<\n&AO\n", "digraph6")] {
        let output = solve(input, &[]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(
            text.contains(&format!("line 1: column 1: this is {format}, not graph6")),
            "{text}"
        );
    }
}
