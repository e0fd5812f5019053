//! `trailtrap export` as papers and scripts rely on it: formats that do not change, numbers that
//! fit together, lists that nauty agrees with, bundles that are the same bytes every time.

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::LazyLock,
};

use flate2::read::GzDecoder;
use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::{Field, Row},
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use trailtrap_census::store::Store;
use trailtrap_export::{choice::Choice as _, tables::TableKind};
use trailtrap_shared::{
    game::{Search, Solution, trail_trap::ForwardSearch},
    graph::{Graph, VertexSet, graph6, nauty, vertices},
};
use walkdir::WalkDir;

use crate::common::{
    Data, Process, census_json, command, do_without, eventually, orders_done, run, skip, stderr,
    stdout, trailtrap, until_hit, verified,
};

/// A census of order 7, for all tests to read, and what `census --json` said.
static CENSUS: LazyLock<(Data, Value)> = LazyLock::new(|| {
    let data = Data::new();
    let report = serde_json::from_str(&census_json(7, &data, &[])).unwrap();
    (data, report)
});

/// The arguments with the data directory.
fn export_command(arguments: &[&str]) -> Command {
    let mut command = trailtrap();
    command.arg("export").args(arguments).args(["--data", &CENSUS.0.text()]);
    command
}

/// What an export writes to standard output.
fn export(arguments: &[&str]) -> Vec<u8> {
    let output = export_command(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    output.stdout
}

fn text(arguments: &[&str]) -> String {
    String::from_utf8(export(arguments)).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[test]
fn formats_are_what_they_always_were() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/export");
    let are_new = std::env::var_os("TRAILTRAP_NEW_GOLDEN").is_some();
    for (file, arguments) in [
        ("orders.tex", &["table", "orders", "--format", "latex"][..]),
        ("orders.csv", &["table", "orders", "--format", "csv"]),
        ("orders.md", &["table", "orders"]),
        ("sizes-n06.tex", &["table", "sizes", "6", "--format", "latex-document"]),
        ("degrees-n05.csv", &["table", "degrees", "5", "--format", "csv"]),
        ("regularity.md", &["table", "regularity", "6", "--format", "markdown"]),
        ("connectivity.json", &["table", "connectivity", "7", "--format", "json"]),
        ("automorphisms.csv", &["table", "automorphisms", "--format", "csv"]),
        ("density.csv", &["table", "density", "5", "--format", "csv"]),
        ("minimum-degree-parity.json", &["table", "minimum-degree-parity", "--format", "json"]),
        ("odd-degrees.md", &["table", "odd-degrees", "7"]),
        ("involutions.csv", &["table", "involutions", "--format", "csv"]),
        ("play-length.csv", &["table", "play-length", "6", "--format", "csv"]),
        ("conditions.md", &["table", "conditions", "7"]),
        ("conditions.csv", &["table", "conditions", "--format", "csv"]),
        ("p1-wins.txt", &["bfile", "p1-wins"]),
        (
            "labelled-p1-wins-by-size.txt",
            &["bfile", "labelled-p1-wins", "4", "--by-size", "--offset", "0"],
        ),
    ] {
        let found = text(arguments);
        let path = golden.join(file);
        if are_new {
            fs::write(&path, &found).unwrap();
        }
        assert_eq!(found, fs::read_to_string(&path).unwrap(), "{file}");
    }
    // Nothing was compared with what was there.
    assert!(!are_new, "read what has changed, and run this without TRAILTRAP_NEW_GOLDEN");
}

/// They are sound, too, though earlier versions of this program have made them.
#[test]
fn the_published_results_are_what_is_exported() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
    let bundle = results.join("bundle");
    for bundle in [&bundle, &results.join("classes/forest"), &results.join("classes/max-degree-3")]
    {
        verified(&[bundle.to_str().unwrap()]);
    }
    for table in ["orders", "sizes"] {
        let published =
            fs::read_to_string(bundle.join("tables").join(table).with_extension("csv")).unwrap();
        let found = text(&["table", table, "--format", "csv"]);
        assert!(
            published.starts_with(&found) && published.lines().last().unwrap().starts_with("11,"),
            "{table}"
        );
    }
}

/// Rows of a CSV table by column names. No field of these tables is quoted.
fn rows(table: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines
        .map(|line| {
            names
                .iter()
                .map(|name| name.to_string())
                .zip(line.split(',').map(str::to_owned))
                .collect()
        })
        .collect()
}

#[test]
fn every_table_adds_up_to_the_census() {
    let wanted = |order: usize| {
        let entry = &CENSUS.1["orders"][order - 1];
        let labelled = &entry["labelled"];
        [entry["graphs"].to_string(), entry["p1_wins"].to_string()]
            .into_iter()
            .chain(["graphs", "p1_wins"].map(|name| labelled[name].as_str().unwrap().to_owned()))
            .map(|number| number.parse::<u128>().unwrap())
            .collect::<Vec<_>>()
    };
    // Several conditions may hold of a graph, or none.
    let kinds = TableKind::ALL.iter().filter(|kind| **kind != TableKind::Conditions);
    for kind in kinds.map(|kind| kind.name()) {
        let all = rows(&text(&["table", kind, "--format", "csv"]));
        for order in 1..=7 {
            let sum = |name: &str| -> u128 {
                let of_order = all.iter().filter(|row| row["order"] == order.to_string());
                of_order.map(|row| row[name].parse::<u128>().unwrap()).sum()
            };
            let found = ["graphs", "p1_wins", "labelled_graphs", "labelled_p1_wins"].map(sum);
            assert_eq!(found.to_vec(), wanted(order), "{kind}, order {order}");
        }
        // JSON says the same, and explains every column.
        let json: Value =
            serde_json::from_str(&text(&["table", kind, "--format", "json"])).unwrap();
        assert_eq!(json["rows"].as_array().unwrap().len(), all.len(), "{kind}");
        let explained: Vec<&str> = json["columns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| column["name"].as_str().unwrap())
            .collect();
        for (row, plain) in json["rows"].as_array().unwrap().iter().zip(&all) {
            assert_eq!(row.as_object().unwrap().len(), explained.len());
            for name in &explained {
                let value = &row[name];
                let same = match value {
                    Value::Null => plain[*name].is_empty(),
                    Value::String(text) => *text == plain[*name],
                    number => number.as_f64() == plain[*name].parse().ok(),
                };
                assert!(same, "{kind}: {name} is {value} and {}", plain[*name]);
            }
        }
    }
}

/// The P1-win graphs of order 7, found without a census: all graphs of the order, by adding a
/// vertex at a time, and of each the winner by forward search. In nauty's labels, in the order of
/// their graph6 texts.
static WINS_OF_ORDER_7: LazyLock<Vec<Graph>> = LazyLock::new(|| {
    let graphs = nauty::enumerate(7).pop().unwrap();
    let mut search = ForwardSearch::new(usize::MAX);
    let mut p1_wins = |graph: &Graph| matches!(search.solve(graph), Ok(Solution::P1 { .. }));
    let mut wins: Vec<Graph> = graphs.into_iter().filter(|graph| p1_wins(graph)).collect();
    wins.sort_by_key(graph6::encode);
    wins
});

/// A list of graphs as text.
fn listed<'g>(graphs: impl IntoIterator<Item = &'g Graph>) -> String {
    graphs.into_iter().map(|graph| graph6::encode(graph) + "\n").collect()
}

#[test]
fn lists_are_canonical_sorted_and_reproducible() {
    let list = export(&["graphs", "7"]);
    // As published: `nauty-labelg -q | LC_ALL=C sort | sha256sum`.
    assert_eq!(sha256(&list), "1804a38e0cb65944a7d9bfff9ba7a191606032df687b1e083b8fde24a67d9155");
    assert_eq!(String::from_utf8(list.clone()).unwrap(), listed(&*WINS_OF_ORDER_7));
    let directory = tempfile::tempdir().unwrap();
    let files = ["first.g6.gz", "second.g6.gz"].map(|name| directory.path().join(name));
    let [first, second] = files.map(|file| {
        export(&["graphs", "7", "-o", file.to_str().unwrap()]);
        fs::read(file).unwrap()
    });
    assert_eq!(first, second);
    // Bytes 4 to 7 of a gzip file are a time, which would make later exports differ.
    assert_eq!(first[4..8], [0; 4]);
    let mut unpacked = Vec::new();
    GzDecoder::new(&first[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, list);
}

#[test]
fn filters_keep_what_they_say() {
    fn degrees(graph: &Graph) -> (usize, usize) {
        let degrees = (0..graph.order()).map(|v| graph.degree(v));
        (degrees.clone().min().unwrap(), degrees.max().unwrap())
    }
    /// By two colours along the edges.
    fn is_bipartite(graph: &Graph) -> bool {
        (0..1u16 << graph.order())
            .any(|side| graph.edges().all(|(u, w)| (side >> u ^ side >> w) & 1 == 1))
    }
    fn has_triangle(graph: &Graph) -> bool {
        graph
            .edges()
            .any(|(u, w)| vertices(graph.neighbours(u) & graph.neighbours(w)).next().is_some())
    }
    /// By going along edges from the first of the vertices in `among`.
    fn is_connected(graph: &Graph, among: VertexSet) -> bool {
        let mut reached = among & among.wrapping_neg();
        for _ in vertices(among) {
            reached = vertices(reached).fold(reached, |all, v| all | graph.neighbours(v) & among);
        }
        reached == among
    }
    const ALL: VertexSet = (1 << 7) - 1;
    type FilterCase = (&'static [&'static str], fn(&Graph) -> bool);
    let all = &*WINS_OF_ORDER_7;
    let cases: [FilterCase; 12] = [
        (&["--edges", "9..11"], |g| (9..=11).contains(&g.size())),
        (&["--edges", "..6"], |g| g.size() <= 6),
        (&["--min-degree", "2"], |g| degrees(g).0 == 2),
        (&["--max-degree", "..4"], |g| degrees(g).1 <= 4),
        (&["--regular"], |g| degrees(g).0 == degrees(g).1),
        (&["--regular=no"], |g| degrees(g).0 != degrees(g).1),
        (&["--connected"], |g| is_connected(g, ALL)),
        (&["--biconnected"], |g| {
            is_connected(g, ALL) && (0..7).all(|v| is_connected(g, ALL & !(1 << v)))
        }),
        (&["--bipartite"], is_bipartite),
        (&["--girth", "3"], has_triangle),
        (&["--automorphisms", "1"], |g| nauty::label(g).automorphisms == 1),
        (&["--connected", "--bipartite=no", "--edges", "8.."], |g| {
            is_connected(g, ALL) && !is_bipartite(g) && g.size() >= 8
        }),
    ];
    for (filter, keeps) in cases {
        let found = text(&[&["graphs", "7"], filter].concat());
        assert_eq!(found, listed(all.iter().filter(|g| keeps(g))), "{filter:?}");
        assert!(!found.is_empty() && found.lines().count() < all.len(), "{filter:?} filters");
    }
}

/// Each graph of order 7, found without a census, is counted in the row that is about it.
#[test]
fn odd_and_even_numbers_of_edges_are_told_apart() {
    let graphs = nauty::enumerate(7).pop().unwrap();
    let degrees = |graph: &Graph| (0..7).map(|v| graph.degree(v)).collect::<Vec<_>>();
    type Key<'a> = &'a dyn Fn(&Graph) -> usize;
    let keys: [(&str, &str, Key); 3] = [
        ("density", "size", &|graph| graph.size()),
        ("minimum-degree-parity", "minimum_degree", &|graph| {
            degrees(graph).into_iter().min().unwrap()
        }),
        ("odd-degrees", "odd_degrees", &|graph| {
            degrees(graph).into_iter().filter(|degree| degree % 2 == 1).count()
        }),
    ];
    for (kind, column, key) in keys {
        let mut expected: BTreeMap<(usize, usize), [u128; 2]> = BTreeMap::new();
        for graph in &graphs {
            let counts = expected.entry((graph.size() % 2, key(graph))).or_default();
            counts[0] += 1;
            counts[1] += u128::from(WINS_OF_ORDER_7.contains(graph));
        }
        let table = rows(&text(&["table", kind, "7", "--format", "csv"]));
        let found = table.iter().map(|row| {
            let [parity, key] = ["size_parity", column].map(|name| row[name].parse().unwrap());
            ((parity, key), ["graphs", "p1_wins"].map(|name| number(row, name)))
        });
        assert_eq!(found.collect::<BTreeMap<_, _>>(), expected, "{kind}");
        assert_eq!(table.len(), expected.len(), "{kind}");
    }
    // By number of edges and of odd degrees, each degree sequence belongs to one row.
    let mut expected: BTreeMap<[u128; 2], [u128; 2]> = BTreeMap::new();
    for row in rows(&text(&["table", "degrees", "7", "--format", "csv"])) {
        let degrees = row["degrees"].split(' ').map(|degree| degree.parse::<u128>().unwrap());
        let odd = degrees.filter(|degree| degree % 2 == 1).count() as u128;
        let counts = expected.entry([number(&row, "size"), odd]).or_default();
        counts[0] += number(&row, "graphs");
        counts[1] += number(&row, "labelled_p1_wins");
    }
    let table = rows(&text(&["table", "odd-degrees-by-size", "7", "--format", "csv"]));
    let found = table.iter().map(|row| {
        let counts = ["graphs", "labelled_p1_wins"].map(|name| number(row, name));
        (["size", "odd_degrees"].map(|name| number(row, name)), counts)
    });
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
    assert_eq!(table.len(), expected.len());
    let density = rows(&text(&["table", "density", "7", "--format", "csv"]));
    for row in density {
        let expected = row["size"].parse::<f64>().unwrap() / 21.0;
        assert!((row["density"].parse::<f64>().unwrap() - expected).abs() < 1e-6, "{row:?}");
    }
}

#[test]
fn nauty_and_the_list_agree() {
    let Ok(mut labelg) = Command::new("nauty-labelg")
        .arg("-q")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
    else {
        skip(
            "nauty-labelg is not installed, so that the labels are compared with the nauty built \
             in only",
        );
        return;
    };
    let list = text(&["graphs", "7"]);
    std::io::Write::write_all(&mut labelg.stdin.take().unwrap(), list.as_bytes()).unwrap();
    let labelled = String::from_utf8(labelg.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(labelled, list);
}

#[test]
fn shards_read_back_from_parquet() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shards.parquet");
    export(&["shards", "7", "-o", path.to_str().unwrap()]);
    let reader = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
    let rows: Vec<Row> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    // OEIS A004251.
    assert_eq!(rows.len(), 342);
    let field = |row: &Row, name: &str| {
        row.get_column_iter()
            .find(|(column, _)| *column == name)
            .unwrap_or_else(|| panic!("{name}"))
            .1
            .clone()
    };
    let number = |row: &Row, name: &str| -> i128 {
        match field(row, name) {
            Field::Long(number) => number.into(),
            Field::Int(number) => number.into(),
            Field::Decimal(decimal) => i128::from_be_bytes(decimal.data().try_into().unwrap()),
            other => panic!("{name} is {other:?}"),
        }
    };
    let sum = |name: &str| rows.iter().map(|row| number(row, name)).sum::<i128>().to_string();
    let seven = &CENSUS.1["orders"][6];
    assert_eq!(sum("graphs"), seven["graphs"].to_string());
    assert_eq!(sum("connected_p1_wins"), seven["connected"]["p1_wins"].to_string());
    assert_eq!(sum("labelled_p1_wins"), seven["labelled"]["p1_wins"].as_str().unwrap());
    assert_eq!(sum("won_positions"), seven["sums"]["won_positions"].to_string());
    assert_eq!(
        sum("labelled_won_positions"),
        seven["labelled"]["sums"]["won_positions"].as_str().unwrap()
    );
    // Bipartite graphs on seven vertices: OEIS A033995; 2-connected ones: A002218.
    assert_eq!(sum("bipartite_graphs"), "88");
    assert_eq!(sum("biconnected_graphs"), "468");
    let digests = rows.iter().map(|row| match field(row, "digest") {
        Field::Str(digest) => digest.parse::<trailtrap_shared::count::digest::Digest>().unwrap(),
        other => panic!("{other:?}"),
    });
    assert_eq!(
        digests.sum::<trailtrap_shared::count::digest::Digest>().to_string(),
        seven["digest"].as_str().unwrap()
    );
    let cubic = rows.iter().filter(|row| field(row, "regular") == Field::Bool(true)).count();
    assert_eq!(cubic, 4, "0-, 2-, 4- and 6-regular");
}

/// A table in a format that the name does not promise would be taken for a broken one.
#[test]
fn names_of_tables_promise_formats() {
    let directory = tempfile::tempdir().unwrap();
    let named = |name: &str| {
        let path = directory.path().join(name);
        let arguments = ["table", "orders", "-o", path.to_str().unwrap()];
        let output = export_command(&arguments).output().unwrap();
        (output.status.success(), stderr(&output), fs::read_to_string(path).ok())
    };
    for name in ["table.xlsx", "table.TEXT"] {
        let (is_written, said, text) = named(name);
        assert!(!is_written && said.contains("or say --format") && text.is_none(), "{said}");
    }
    let shards = directory.path().join("shards.csv");
    let output =
        export_command(&["shards", "7", "-o", shards.to_str().unwrap()]).output().unwrap();
    assert!(!output.status.success() && !shards.exists());
    assert!(stderr(&output).contains("export table degrees"), "{}", stderr(&output));
    for name in ["table", "table.md", "table.TXT"] {
        assert!(named(name).2.unwrap().contains("P2-win |"), "{name}");
    }
    assert!(named("table.CSV").2.unwrap().starts_with("order,"));
}

/// Numbers stay exact, and what is missing in CSV is missing there.
#[test]
fn tables_read_back_from_parquet() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("table.parquet");
    for kind in ["orders", "sizes", "density", "regularity"] {
        export(&["table", kind, "--format", "parquet", "-o", path.to_str().unwrap()]);
        let reader = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
        let found: Vec<Row> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let expected = rows(&text(&["table", kind, "--format", "csv"]));
        assert_eq!(found.len(), expected.len(), "{kind}");
        for (row, expected) in found.iter().zip(&expected) {
            assert_eq!(row.get_column_iter().count(), expected.len(), "{kind}");
            for (name, field) in row.get_column_iter() {
                let text = &expected[name];
                let same = match field {
                    Field::Null => text.is_empty(),
                    Field::Long(number) => number.to_string() == *text,
                    Field::Double(number) => Some(*number) == text.parse().ok(),
                    Field::Str(found) => found == text,
                    Field::Decimal(decimal) => {
                        let bytes = decimal.data().try_into().unwrap();
                        i128::from_be_bytes(bytes).to_string() == *text
                    }
                    _ => false,
                };
                assert!(same, "{kind}: {name} is {field:?} and {text}");
            }
        }
    }
}

#[test]
fn pictures_come_in_three_formats_and_need_no_font() {
    for what in [
        &["plot", "orders"][..],
        &["plot", "sizes", "7"],
        &["plot", "heat-map"],
        &["plot", "degrees", "6"],
        &["plot", "density"],
        &["plot", "minimum-degree"],
        &["plot", "odd-degrees", "6"],
        &["plot", "odd-degrees-by-size", "7"],
        &["plot", "involutions"],
        &["drawing", "6", "--most", "7"],
    ] {
        let picture = |format: &str| export(&[what, &["--format", format]].concat());
        let svg = String::from_utf8(picture("svg")).unwrap();
        assert!(
            svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("<title>"),
            "{what:?}"
        );
        assert!(
            !svg.contains("<text") && !svg.contains("NaN") && !svg.contains("inf"),
            "{what:?}"
        );
        let pdf = picture("pdf");
        assert!(
            pdf.starts_with(b"%PDF-") && !pdf.windows(5).any(|window| window == b"/Font"),
            "{what:?}"
        );
        let pixels = tiny_skia::Pixmap::decode_png(&picture("png")).unwrap();
        let dark = pixels
            .pixels()
            .iter()
            .filter(|pixel| pixel.red() < 100 && pixel.green() < 100)
            .count();
        assert!(dark > 500, "{what:?}: {dark} dark pixels");
        assert_eq!(picture("png"), picture("png"));
    }
    // Orders so small that axes have hardly anything to show.
    for order in ["1", "2", "3"] {
        let by_parity = ["density", "minimum-degree", "odd-degrees", "involutions"];
        let others = ["orders", "sizes", "heat-map", "degrees", "odd-degrees-by-size"];
        for kind in others.into_iter().chain(by_parity) {
            let svg = text(&["plot", kind, order]);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{kind} {order}");
        }
    }
}

/// Also of a sheet with one drawing.
#[test]
fn a_sheet_is_as_wide_as_its_title() {
    let svg = text(&["drawing", "6", "--most", "1", "--connected"]);
    assert!(svg.contains("<title>1 of 24 P1-win graphs of order 6 that pass the filter</title>"));
    let width = svg.split('"').nth(3).unwrap().trim_end_matches("pt").parse::<f32>().unwrap();
    let outlines = svg.split(" d=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let segments = outlines.flat_map(|outline| outline.split(|c: char| c.is_ascii_alphabetic()));
    let places = segments.flat_map(|numbers| numbers.split(' ').step_by(2));
    let right = places.filter_map(|x| x.parse::<f32>().ok()).fold(0.0, f32::max);
    assert!((width - 20.0..width).contains(&right), "{right} of {width}");
}

/// All files below a directory and what is in them.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = WalkDir::new(directory).into_iter().map(|entry| entry.unwrap().into_path());
    let files = paths.filter(|path| !path.is_dir());
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn relative(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let name = |path: &Path| path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
    files(directory).into_iter().map(|(path, bytes)| (name(&path), bytes)).collect()
}

/// Makes a bundle in an empty directory, by a program that another one starts and whose place it
/// takes, and sends a signal when the bundle is begun. Returns the output, and whether it was in
/// time for the signal.
fn signalled(directory: &Path, starter: &[&str], signal: &str) -> (Output, bool) {
    let bundle = directory.join("bundle");
    let export = export_command(&["bundle", bundle.to_str().unwrap()]);
    let mut command = command(starter[0]);
    command.args(&starter[1..]).arg(export.get_program()).args(export.get_args());
    let mut process = Process::start(command.stdin(Stdio::null()));
    let begun = || fs::read_dir(directory).unwrap().next().is_some();
    eventually("it is begun", || begun() || !process.is_running());
    let is_in_time = process.is_running();
    if is_in_time {
        process.signal(signal);
    }
    (process.finish(), is_in_time)
}

/// What cannot be written is said by the name that it would have.
#[test]
fn a_bundle_without_room_names_its_own_place() {
    let (data, place) = (Data::new(), tempfile::tempdir().unwrap());
    census_json(5, &data, &[]);
    let program = env!("CARGO_BIN_EXE_trailtrap");
    let bundle = place.path().join("bundle");
    let export = ["export", "bundle", bundle.to_str().unwrap(), "--data", &data.text()];
    // No file may have more than a few kilobytes, as on a disk that is nearly full.
    let mut command = command("sh");
    command.args(["-c", "ulimit -f 8 && exec \"$@\"", "sh", program]).args(export);
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("cannot write {}/", bundle.display())), "{said}");
    assert!(!said.contains(".trailtrap-"), "{said}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "nothing stays of it");
}

/// That of a person, and that of a terminal that is closed.
#[test]
fn a_signal_leaves_nothing_of_a_bundle() {
    for signal in ["INT", "HUP"] {
        until_hit(|| {
            let directory = tempfile::tempdir().unwrap();
            // Also if whoever runs the tests ignores SIGHUP.
            let starter = ["env", "--default-signal=HUP"];
            let (output, _) = signalled(directory.path(), &starter, signal);
            if output.status.code() == Some(130) {
                let told = stderr(&output);
                assert!(told.contains("stopped; nothing is left"), "{told}");
                assert!(fs::read_dir(&directory).unwrap().next().is_none());
                return Some(());
            }
            // It was quicker.
            assert!(output.status.success(), "{output:?}");
            assert!(directory.path().join("bundle/SHA256SUMS").exists(), "{output:?}");
            None
        });
    }
}

/// `nohup` keeps its process from hearing of a terminal that is closed.
#[test]
fn a_bundle_under_nohup_is_made_whatever_becomes_of_the_terminal() {
    until_hit(|| {
        let directory = tempfile::tempdir().unwrap();
        let (output, is_in_time) = signalled(directory.path(), &["nohup"], "HUP");
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(directory.path().join("bundle/SHA256SUMS").exists());
        is_in_time.then_some(())
    });
}

#[test]
fn a_bundle_is_complete_and_the_same_every_time() {
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| directory.path().join(name));
    for bundle in [&first, &second] {
        export(&["bundle", bundle.to_str().unwrap(), "--list-size", "500"]);
    }
    let contents = relative(&first);
    assert!(contents == relative(&second), "two bundles of the same data differ");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left beside them");
    // The sums are those of all files.
    let sums: BTreeMap<String, String> = String::from_utf8(contents["SHA256SUMS"].clone())
        .unwrap()
        .lines()
        .map(|line| line.split_once("  ").unwrap())
        .map(|(sum, name)| (name.to_owned(), sum.to_owned()))
        .collect();
    let expected: BTreeMap<String, String> = contents
        .iter()
        .filter(|(name, _)| *name != "SHA256SUMS")
        .map(|(name, bytes)| (name.clone(), sha256(bytes)))
        .collect();
    assert_eq!(sums, expected);
    let check = Command::new("sha256sum")
        .args(["-c", "--quiet", "SHA256SUMS"])
        .current_dir(&first)
        .status()
        .unwrap();
    assert!(check.success());
    for name in [
        "README.md",
        "manifest.json",
        "CITATION.cff",
        ".zenodo.json",
        "LICENSE",
        "tables/orders.csv",
        "tables/all.tex",
    ] {
        assert!(contents.contains_key(name), "{name}");
    }
    // The manifest names digests that anyone can compare, and lists by digest where they are too
    // large.
    let manifest: Value = serde_json::from_slice(&contents["manifest.json"]).unwrap();
    for (entry, order) in
        manifest["orders"].as_array().unwrap().iter().zip(CENSUS.1["orders"].as_array().unwrap())
    {
        assert_eq!(entry["digest"], order["digest"]);
        assert_eq!(entry["p1_wins"], order["p1_wins"]);
        assert!(entry["workers"][0]["name"].as_str().unwrap().contains(", "), "host and kernel");
    }
    // What columns of shard files count, their rows say.
    let readme = String::from_utf8(contents["README.md"].clone()).unwrap();
    for row in [
        "| `graphs` | graphs |",
        "| `connected_p1_wins` | connected graphs that the first player wins |",
        "| `labelled_connected_graphs` | connected labelled graphs |",
        "| `biconnected_p1_wins` | 2-connected graphs that the first player wins |",
        "| `labelled_bipartite_graphs` | bipartite labelled graphs |",
        "| `labelled_won_positions` | won_positions over labelled graphs |",
    ] {
        assert!(readme.contains(row), "{row}");
    }
    let list = |order: usize| &manifest["orders"][order - 1]["p1_win_list"];
    assert_eq!(list(7)["file"], Value::Null);
    assert_eq!(
        list(7)["sha256"],
        "1804a38e0cb65944a7d9bfff9ba7a191606032df687b1e083b8fde24a67d9155"
    );
    let six = list(6)["file"].as_str().unwrap();
    let mut unpacked = Vec::new();
    GzDecoder::new(&contents[six][..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(list(6)["sha256"], sha256(&unpacked));
    assert_eq!(list(6)["bytes"], unpacked.len());
    assert!(!contents.keys().any(|name| name.starts_with("graphs/") && name.contains("n07")));
    let zenodo: Value = serde_json::from_slice(&contents[".zenodo.json"]).unwrap();
    assert_eq!(zenodo["upload_type"], "dataset");
    // Whoever has the program can check it.
    verified(&[first.to_str().unwrap()]);
    // A bundle is never written over.
    let output = export_command(&["bundle", first.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("exists already; name a new directory"),
        "{}",
        stderr(&output)
    );
    assert!(relative(&first) == contents, "the bundle was touched");
    // TeX leaves files beside what it reads.
    compile(&second.join("tables"), "all.tex");
}

/// Compiles a document, if there is a TeX here.
fn compile(directory: &Path, document: &str) {
    for program in ["pdflatex", "lualatex", "tectonic"] {
        let mut command = Command::new(program);
        if program != "tectonic" {
            command.args(["-interaction=nonstopmode", "-halt-on-error"]);
        }
        match command.arg(document).current_dir(directory).stdin(Stdio::null()).output() {
            Ok(output) => {
                assert!(output.status.success(), "{program} {document}: {}", stdout(&output));
                return;
            }
            Err(_) => continue,
        }
    }
    do_without(&format!("{document} was not compiled, because no TeX is installed"));
}

#[test]
fn latex_compiles_on_its_own() {
    let directory = tempfile::tempdir().unwrap();
    for kind in ["orders", "degrees", "automorphisms"] {
        let name = format!("{kind}.tex");
        let path = directory.path().join(&name);
        export(&["table", kind, "7", "--format", "latex-document", "-o", path.to_str().unwrap()]);
        compile(directory.path(), &name);
    }
}

/// What keeps TeX from reading a text: braces or environments that are not closed, rows with
/// another number of cells than columns, commands that no package it names has.
fn tex_faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let packages: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim_start_matches("% Needs ").strip_prefix("\\usepackage"))
        .filter_map(|line| line[line.find('{')? + 1..].split('}').next())
        .flat_map(|names| names.split(','))
        .collect();
    let commands = [
        (
            "",
            &[
                "documentclass",
                "usepackage",
                "begin",
                "end",
                "caption",
                "label",
                "centering",
                "footnotesize",
                "input",
            ][..],
        ),
        ("", &["setlength", "tabcolsep", "multicolumn", "mathrm", "%", "&", "_", "#", "\\"]),
        ("booktabs", &["toprule", "midrule", "bottomrule", "cmidrule"]),
        ("longtable", &["endfirsthead", "endhead", "endfoot"]),
    ];
    let environments =
        [("", "document"), ("", "table"), ("", "tabular"), ("longtable", "longtable")];
    let mut open: Vec<String> = Vec::new();
    let mut columns = 0;
    for line in text.lines().filter(|line| !line.starts_with('%')) {
        let mut depth = 0;
        let mut cells = 1;
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                '&' if depth == 0 => cells += 1,
                '%' | '#' | '_' | '^' => faults.push(format!("a bare {c}: {line}")),
                '\\' => {
                    let letters = rest.chars().take_while(char::is_ascii_alphabetic).count();
                    let name = &rest[..letters.max(1)];
                    rest = &rest[letters.max(1)..];
                    let known = |(package, names): &(&str, &[&str])| {
                        names.contains(&name) && (package.is_empty() || packages.contains(package))
                    };
                    if !commands.iter().any(known) {
                        faults.push(format!("unknown: \\{name}"));
                    }
                    let argument = || rest[1..].split('}').next().unwrap().to_owned();
                    match name {
                        "begin" => {
                            let environment = argument();
                            let known = |(package, one): &(&str, &str)| {
                                *one == environment
                                    && (package.is_empty() || packages.contains(package))
                            };
                            if !environments.iter().any(known) {
                                faults.push(format!("unknown environment: {environment}"));
                            }
                            if matches!(environment.as_str(), "tabular" | "longtable") {
                                let specification = &rest[environment.len() + 2..];
                                // `S[table-format=3.4]`, which siunitx has, and `l`.
                                columns = specification.matches("S[").count()
                                    + specification.matches('l').count()
                                    - specification.matches("table").count();
                                if specification.contains("S[") && !packages.contains(&"siunitx") {
                                    faults.push("columns of siunitx without it".to_owned());
                                }
                            }
                            open.push(environment);
                        }
                        "end" if open.pop() != Some(argument()) => {
                            faults.push(format!("not open: {line}"))
                        }
                        "multicolumn" => cells += argument().parse::<usize>().unwrap() - 1,
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        // The braces that set a font apart from what follows stand alone.
        if depth != 0 && !line.starts_with("{\\footnotesize") && line != "}" {
            faults.push(format!("braces: {line}"));
        }
        if line.ends_with("\\\\") && !line.starts_with("\\caption") && cells != columns {
            faults.push(format!("{cells} cells in {columns} columns: {line}"));
        }
    }
    if text.matches("\n{\\footnotesize").count()
        != text.lines().filter(|line| *line == "}").count()
    {
        faults.push("a brace alone".to_owned());
    }
    if !open.is_empty() {
        faults.push(format!("still open: {open:?}"));
    }
    faults
}

#[test]
fn latex_is_well_formed_without_any_tex() {
    for kind in TableKind::ALL.iter().map(|kind| kind.name()) {
        for order in ["1", "7"] {
            for format in ["latex", "latex-document"] {
                let tex = text(&["table", kind, order, "--format", format]);
                assert_eq!(tex_faults(&tex), [""; 0], "{kind} {order} {format}");
                assert_eq!(tex.contains("\\documentclass"), format == "latex-document");
            }
        }
    }
    // The check can fail.
    let sound = text(&["table", "sizes", "6", "--format", "latex"]);
    for (part, damaged) in [
        (" & ", " "),
        ("\\toprule", "\\toprul"),
        ("\\end{tabular}", ""),
        ("{tabular}", "{tabularx}"),
        ("\\%", "%"),
        ("{booktabs,", "{"),
        ("\\caption{", "\\caption"),
    ] {
        assert!(!tex_faults(&sound.replacen(part, damaged, 1)).is_empty(), "{part}");
    }
}

/// A census of order 10 that was killed when a part of it was done.
static IN_WORK: LazyLock<Data> = LazyLock::new(|| {
    until_hit(|| {
        let data = Data::new();
        let census = ["census", "10", "--data", &data.text()];
        let mut running = Process::start(trailtrap().args(census));
        eventually("a part of order 10 is done", || {
            !running.is_running() || data.units_on_record(10) >= 1000
        });
        // It may have been quicker.
        let is_hit = running.is_killed() && orders_done(&data.status_at_rest()) == 9;
        is_hit.then_some(data)
    })
});

/// Exports from the census that is in work.
fn export_in_work(arguments: &[&str]) -> Output {
    run(&[&["export"], arguments, &["--data", &IN_WORK.text()]].concat())
}

/// What it prints when it succeeds.
fn exported_in_work(arguments: &[&str]) -> String {
    let output = export_in_work(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

/// The row of order 10 in the table of orders.
fn ten_in_work() -> BTreeMap<String, String> {
    let orders = rows(&exported_in_work(&["table", "orders", "--unfinished", "--format", "csv"]));
    assert_eq!(orders.len(), 10);
    orders[9].clone()
}

fn number(row: &BTreeMap<String, String>, name: &str) -> u128 {
    row[name].parse().unwrap()
}

#[test]
fn tables_of_an_order_in_work_say_so() {
    // CSV: one more column, at the end.
    let orders = exported_in_work(&["table", "orders", "--unfinished", "--format", "csv"]);
    let finished = exported_in_work(&["table", "orders", "--format", "csv"]);
    for (with, without) in orders.lines().zip(finished.lines()) {
        let end = if without.starts_with("order") { "status" } else { "finished" };
        assert_eq!(with, format!("{without},{end}"));
    }
    let ten = ten_in_work();
    assert_eq!(ten["status"], "unfinished");
    for (name, all) in [("graphs", 12_005_168), ("p1_wins", 195_728)] {
        assert!((1..all).contains(&number(&ten, name)), "{name}: {ten:?}");
    }
    // All tables are about the same units.
    for kind in ["sizes", "degrees", "minimum-degree", "girth"] {
        let arguments = ["table", kind, "10", "--unfinished", "--format", "csv"];
        let table = rows(&exported_in_work(&arguments));
        assert!(table.iter().all(|row| row["status"] == "unfinished"), "{kind}");
        for name in ["graphs", "p1_wins", "labelled_graphs", "labelled_p1_wins"] {
            let sum = table.iter().map(|row| number(row, name)).sum::<u128>();
            assert_eq!(sum, number(&ten, name), "{kind}, {name}");
        }
    }
    // For people, in the caption.
    for format in ["latex", "latex-document", "markdown", "json"] {
        let arguments = ["table", "sizes", "10", "--unfinished", "--format", format];
        let text = exported_in_work(&arguments);
        for part in ["Order 10 is UNFINISHED: ", " of 16016 units are recorded"] {
            assert!(text.contains(part), "{format}: {text}");
        }
    }
}

#[test]
fn shards_of_an_order_in_work_say_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shards.parquet");
    exported_in_work(&["shards", "10", "--unfinished", "-o", path.to_str().unwrap()]);
    let shards = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let mut graphs = 0;
    for row in shards.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let fields: BTreeMap<&str, &Field> =
            row.get_column_iter().map(|(name, field)| (name.as_str(), field)).collect();
        assert_eq!(fields["status"], &Field::Str("unfinished".to_owned()));
        assert_eq!(fields["parts_recorded"], fields["parts"]);
        graphs += match fields["graphs"] {
            Field::Long(graphs) => *graphs as u128,
            ref other => panic!("{other:?}"),
        };
    }
    assert_eq!(graphs, number(&ten_in_work(), "graphs"), "they are about the units of the tables");
}

#[test]
fn a_list_of_an_order_in_work_says_so_in_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let unmarked = export_in_work(&["graphs", "10", "--unfinished", "-o", &place("graphs.g6")]);
    assert_eq!(unmarked.status.code(), Some(1));
    assert!(stderr(&unmarked).contains("let the name of"), "{}", stderr(&unmarked));
    assert!(!directory.path().join("graphs.g6").exists());
    let list = place("graphs.unfinished.g6.gz");
    let told = export_in_work(&["graphs", "10", "--unfinished", "-o", &list]);
    let message = stderr(&told);
    assert!(told.status.success() && message.contains("graphs may be missing"), "{message}");
    let verified = stdout(&run(&["verify", &list, "--sample", "10"]));
    let graphs = format!("{} graphs of order 10", ten_in_work()["p1_wins"]);
    assert!(verified.contains(&graphs), "{verified}");
}

#[test]
fn nothing_else_takes_an_order_in_work() {
    let directory = tempfile::tempdir().unwrap();
    let bundle = directory.path().join("bundle");
    let path = bundle.to_str().unwrap();
    for (arguments, why) in [
        (&["table", "sizes", "10"][..], "order 10 is not finished here"),
        (&["graphs", "10"], "order 10 is not finished here"),
        (&["bfile", "p1-wins", "10"], "order 10 is not finished here"),
        (&["bundle", path, "--order", "10"], "order 10 is not finished here"),
        (&["bundle", path, "--unfinished"], "unexpected argument '--unfinished'"),
        // What was not begun is not taken by anything.
        (&["table", "sizes", "11", "--unfinished"], "order 11 is not begun here"),
    ] {
        let output = export_in_work(arguments);
        let message = stderr(&output);
        assert!(!output.status.success() && message.contains(why), "{arguments:?}: {message}");
    }
    assert!(!bundle.exists());
}

#[test]
fn what_cannot_be_exported_is_refused_with_a_remedy() {
    let refused = |arguments: &[&str], hints: &[&str]| {
        let output = export_command(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        let message = stderr(&output);
        assert!(hints.iter().all(|hint| message.contains(hint)), "{arguments:?}: {message}");
        assert_eq!(stdout(&output), "", "{arguments:?}");
    };
    for arguments in [
        &["table", "sizes", "8"][..],
        &["table", "orders", "8"],
        &["graphs", "8"],
        &["shards", "8"],
        &["bfile", "p1-wins", "8"],
        &["plot", "sizes", "8"],
    ] {
        refused(arguments, &["order 8 is not finished here", "trailtrap census 8"]);
    }
    refused(&["bundle", "/tmp/never", "--order", "8"], &["order 8 is not finished here"]);
    refused(&["graphs", "7", "--colour", "3"], &["--colour", "--help"]);
    refused(&["graphs", "7", "--edges", "9..7"], &["range '9..7' is empty"]);
    refused(
        &["graphs", "7", "--edges", "few"],
        &["'few' is not a range; write 7, 3..5, ..5 or 3.."],
    );
    refused(&["table", "colours"], &["orders", "automorphisms"]);
    refused(
        &["table", "orders", "-o", "/nowhere/table.md"],
        &["/nowhere/table.md", "choose another place"],
    );
    refused(&["bundle", "/nowhere/bundle"], &["/nowhere/bundle", "choose another place"]);
    refused(&["plot", "orders", "-o", "plot.gif"], &["plot.gif", ".svg, .pdf or .png"]);
    let nothing = Data::new();
    let output = run(&["export", "table", "orders", "--data", &nothing.text()]);
    assert!(stderr(&output).contains("there is no census in"), "{}", stderr(&output));
}

#[test]
fn a_census_in_progress_shows_what_it_has_finished() {
    let data = Data::new();
    // It does not come to the end of this, however fast it is.
    let endless = ["census", "11", "--force", "--data", &data.text()];
    let _running = Process::start(trailtrap().args(endless));
    let table = |last: &str| {
        run(&["export", "table", "orders", last, "--format", "csv", "--data", &data.text()])
    };
    eventually("order 5 is done", || table("5").status.success());
    assert_eq!(stdout(&table("5")), text(&["table", "orders", "5", "--format", "csv"]));
    let unfinished = table("11");
    assert_eq!(unfinished.status.code(), Some(1));
    assert!(stderr(&unfinished).contains("is not finished here"), "{}", stderr(&unfinished));
}

/// What looks at every graph says so where they are gone, or too many, or of another game.
#[test]
fn graphs_that_cannot_be_looked_at_are_missed() {
    let refused = |data: &Data, order: &str, says: &str| {
        for kind in ["involutions", "play-length", "conditions"] {
            let output = run(&["export", "table", kind, order, "--data", &data.text()]);
            let errors = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{kind}");
            assert!(errors.contains(says) && stdout(&output).is_empty(), "{kind}: {errors}");
        }
    };
    let minimal = Data::new();
    census_json(6, &minimal, &["--keep", "minimal"]);
    refused(&minimal, "5", "the graphs of order 5 were not kept (`--keep`), but for those listed");
    let other = Data::new();
    census_json(5, &other, &["--game", "edge-geography"]);
    refused(&other, "5", "this table is about Trail Trap");
    let limited = Data::new();
    census_json(10, &limited, &["--max-size", "3"]);
    refused(&limited, "10", "order 10 has too many graphs to look at each of them");
    // Up to a number of edges they are all there.
    let table = |kind: &str| {
        let output = run(&["export", "table", kind, "9", "--data", &limited.text()]);
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    for kind in ["involutions", "play-length", "conditions"] {
        let table = table(kind);
        assert!(table.contains("Order 9 is done up to 2 edges only."), "{table}");
    }
}

/// Where no order is named, those that can be looked at are, and it is said which cannot.
#[test]
fn orders_without_their_graphs_are_left_out() {
    let export = |data: &Data, arguments: &[&str]| {
        let output = run(&[&["export"], arguments, &["--data", &data.text()]].concat());
        (output.status.code(), stdout(&output), stderr(&output))
    };
    const KINDS: [&str; 3] = ["involutions", "play-length", "conditions"];
    let kept = Data::new();
    census_json(6, &kept, &["--keep", "graphs"]);
    for kind in KINDS {
        let (code, table, errors) = export(&kept, &["table", kind, "--format", "csv"]);
        assert_eq!(code, Some(0), "{kind}: {errors}");
        assert!(rows(&table).iter().all(|row| row["order"] == "6"), "{kind}: {table}");
        assert!(errors.contains("this leaves out") && errors.ends_with(": 1, 2, 3, 4, 5\n"));
    }
    // A plot goes up to the order that is named.
    for what in [&["plot", "involutions"][..], &["plot", "involutions", "6"]] {
        let (code, picture, errors) = export(&kept, what);
        assert!(code == Some(0) && picture.starts_with("<svg "), "{errors}");
        assert!(errors.ends_with(": 1, 2, 3, 4, 5\n"), "{errors}");
    }

    let minimal = Data::new();
    census_json(6, &minimal, &["--keep", "minimal"]);
    for what in [&["table", "involutions"][..], &["plot", "involutions"]] {
        let (code, _, errors) = export(&minimal, what);
        assert_eq!(code, Some(1), "{what:?}");
        assert!(errors.contains("the graphs of order 6 were not kept"), "{what:?}: {errors}");
    }

    let begun = Data::new();
    census_json(6, &begun, &[]);
    let store = Store::open(&begun.path().join("store"), None, None).unwrap();
    store.put_order(6, &store.order(6).unwrap().unwrap().withdraw()).unwrap();
    drop(store);
    for kind in KINDS {
        let (code, table, errors) = export(&begun, &["table", kind, "--unfinished"]);
        assert!(code == Some(0) && !table.contains("Order 6"), "{kind}: {errors}{table}");
        assert!(errors.ends_with("not finished: 6\n"), "{kind}: {errors}");
        let (code, _, errors) = export(&begun, &["table", kind, "6", "--unfinished"]);
        assert!(code == Some(1) && errors.contains("order 6 is not finished here"), "{errors}");
    }
}

#[test]
fn readers_that_stop_early_are_no_error() {
    let mut child = export_command(&["graphs", "7"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}
