//! `trailtrap sample`: estimates, and what is kept of them.

use std::{collections::BTreeMap, fs, process::Output};

use serde_json::Value;
use sha2::{Digest, Sha256};
use walkdir::WalkDir;

use crate::common::{
    Data, LONG_LEASE, Process, census_json, eventually, run, stderr, stdout, trailtrap, until_hit,
};

/// A census of order 7 up to 9 edges.
fn endgame() -> Data {
    let data = Data::new();
    census_json(7, &data, &["--max-size", "9"]);
    data
}

fn sample(endgame: &Data, output: &Data, more: &[&str]) -> Output {
    let (endgame, output) = (endgame.text(), output.text());
    let arguments = ["sample", "--order", "7", "--endgame", &endgame, "--output", &output];
    run(&[&arguments, more].concat())
}

fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_str(&stdout(output)).unwrap()
}

/// The files of verdicts, by their places.
fn files(data: &Data) -> BTreeMap<String, Vec<u8>> {
    ["verdicts", "rechecks"]
        .iter()
        .flat_map(|kind| WalkDir::new(data.path().join(kind)))
        .filter_map(Result::ok)
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "txt"))
        .map(|entry| {
            let place = entry.path().strip_prefix(data.path()).unwrap();
            (place.display().to_string(), fs::read(entry.path()).unwrap())
        })
        .collect()
}

const PLAN: [&str; 8] =
    ["--model", "labelled", "--samples", "1500", "--seed", "5", "--recheck", "0.2"];

#[test]
fn estimates_are_the_same_however_they_come_about() {
    let endgame = endgame();
    let whole = Data::new();
    let first = sample(&endgame, &whole, &[&PLAN[..], &["--json", "--threads", "1"]].concat());
    let golden = include_str!("../golden/sample-7.json");
    assert_eq!(stdout(&first), golden, "{}", stderr(&first));
    let csv = sample(&endgame, &whole, &[&PLAN[..], &["--csv"]].concat());
    assert_eq!(stdout(&csv), include_str!("../golden/sample-7.csv"), "{}", stderr(&csv));
    let plot = whole.path().join("plot.svg");
    let drawn = ["--plot", plot.to_str().unwrap()];
    let table = stdout(&sample(&endgame, &whole, &[&PLAN[..], &drawn].concat()));
    assert_eq!(table, include_str!("../golden/sample-7.md"));
    // Odd numbers are exact up to 9 edges, and from 19 on: two lines, and one in the legend.
    let line = "stroke=\"#d55e00\" stroke-width=\"0.8\" stroke-linejoin=\"round\"/>";
    assert_eq!(fs::read_to_string(plot).unwrap().matches(line).count(), 3);
    let digest = report(&first)["digest"].as_str().unwrap().to_owned();
    assert!(table.contains("exact") && table.contains(&digest), "{table}");

    // Killed, with something lost, and taken up by two threads.
    let broken = until_hit(|| {
        let broken = Data::new();
        let (data, output) = (endgame.text(), broken.text());
        let mut command = trailtrap();
        command.args(["sample", "--order", "7", "--endgame", &data, "--output", &output]);
        let mut process = Process::start(command.args(PLAN).args(["--threads", "1"]));
        eventually("some verdicts are there", || {
            !files(&broken).is_empty() || !process.is_running()
        });
        process.is_killed().then_some(broken)
    });
    let lost = files(&broken).into_keys().next().unwrap();
    fs::remove_file(broken.path().join(&lost)).unwrap();
    let unfinished = [format!("{lost}.a1B2c3.new"), "parameters.json.a1B2c3.new".to_owned()];
    unfinished.iter().for_each(|name| fs::write(broken.path().join(name), "half").unwrap());
    let again = sample(&endgame, &broken, &[&PLAN[..], &["--json", "--threads", "2"]].concat());
    assert_eq!(stdout(&again), golden, "{}", stderr(&again));
    assert_eq!(files(&broken), files(&whole));
    assert!(!unfinished.iter().any(|name| broken.path().join(name).exists()));
    // The digest is that of all files in the directory of verdicts.
    let verdicts = WalkDir::new(broken.path().join("verdicts")).sort_by_file_name();
    let bytes = verdicts.into_iter().map(Result::unwrap).filter(|e| e.file_type().is_file());
    let bytes: Vec<u8> = bytes.flat_map(|entry| fs::read(entry.path()).unwrap()).collect();
    assert_eq!(hex::encode(Sha256::digest(bytes)), digest);
}

/// Several processes share a run, one of them killed with units in work, another one come late: all
/// print what one alone prints, and leave the same files.
#[test]
fn processes_share_a_run() {
    let endgame = endgame();
    let start = |shared: &Data| {
        let (data, output) = (endgame.text(), shared.text());
        let mut command = trailtrap();
        command.args(["sample", "--order", "7", "--endgame", &data, "--output", &output]);
        command.args(PLAN).args(["--threads", "1", "--lease", "1", "--json"]);
        Process::start(&mut command)
    };
    let (second, shared) = until_hit(|| {
        let shared = Data::new();
        let [mut first, mut second] = [start(&shared), start(&shared)];
        eventually("some verdicts are there", || {
            !files(&shared).is_empty() || !first.is_running()
        });
        // They may have been quicker.
        (first.is_killed() && second.is_running()).then_some((second, shared))
    });
    let third = start(&shared);
    let golden = include_str!("../golden/sample-7.json");
    for process in [second, third] {
        let found = process.finish();
        assert_eq!(stdout(&found), golden, "{}", stderr(&found));
    }
    let whole = Data::new();
    assert_eq!(stdout(&sample(&endgame, &whole, &[&PLAN[..], &["--json"]].concat())), golden);
    assert_eq!(files(&shared), files(&whole));
}

/// What another process has claimed is left to it, until it has gone. It is taken over, too, when
/// the other has given no sign of life for the time of a lease, or has never said who it is.
#[test]
fn claims_end_with_those_who_made_them() {
    let endgame = endgame();
    // Four units, of which the pilot is the first.
    let more = ["--model", "gnm:12", "--samples", "100", "--seed", "1", "--recheck", "0"];
    let begun = Data::new();
    assert!(sample(&endgame, &begun, &more).status.success());
    for lease in [LONG_LEASE, "1"] {
        let output = Data::new();
        fs::create_dir_all(output.path()).unwrap();
        let parameters = |data: &Data| data.path().join("parameters.json");
        fs::copy(parameters(&begun), parameters(&output)).unwrap();
        let process = output.path().join("claims/processes/other");
        let claims = output.path().join("claims/verdicts/m12");
        let directories = [process.parent().unwrap(), &claims];
        directories.iter().for_each(|directory| fs::create_dir_all(directory).unwrap());
        fs::write(&process, "7").unwrap();
        let claim = |range: &str, by: &str| fs::write(claims.join(range), by).unwrap();
        claim("0000000000-0000000025.txt", "other");
        claim("0000000025-0000000057.txt", "gone");
        // That of a process that gives signs of life no more has to be waited for.
        if lease == "1" {
            claim("0000000057-0000000089.txt", "");
        }
        let mut command = trailtrap();
        command.args(["sample", "--order", "7", "--endgame", &endgame.text()]);
        command.args(["--output", &output.text(), "--lease", lease]).args(more);
        let mut waiting = Process::start(&mut command);
        if lease == LONG_LEASE {
            let others = || fs::read_dir(process.parent().unwrap()).unwrap().count() > 1;
            eventually("it takes part", || !waiting.is_running() || others());
            assert!(waiting.is_running() && files(&output).is_empty());
            fs::remove_file(&process).unwrap();
        }
        let found = waiting.finish();
        assert!(found.status.success(), "{}", stderr(&found));
        assert_eq!(files(&output).len(), 4);
    }
}

/// The same rows in each format, and a picture of them: what is exact beside what was drawn.
#[test]
fn estimates_come_in_all_formats() {
    let (endgame, output) = (endgame(), Data::new());
    let few = ["--model", "labelled", "--samples", "60", "--seed", "2", "--sizes", "..14"];
    let format = |format: &str| {
        let found = sample(&endgame, &output, &[&few[..], &["--format", format]].concat());
        assert!(found.status.success(), "{}", stderr(&found));
        found.stdout
    };
    let text = |name: &str| String::from_utf8(format(name)).unwrap();
    let csv = text("csv");
    assert_eq!(csv, stdout(&sample(&endgame, &output, &[&few[..], &["--csv"]].concat())));
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let json: Value = serde_json::from_str(&text("json")).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), lines.len() - 1);
    for (row, line) in rows.iter().zip(&lines[1..]) {
        for (name, cell) in lines[0].iter().zip(line) {
            let same = match &row[name] {
                Value::Null => cell.is_empty(),
                Value::String(text) => text == cell,
                // This reader of JSON may be wrong in the last bit.
                number => {
                    let [found, cell] = [number.as_f64(), cell.parse().ok()].map(Option::unwrap);
                    (found - cell).abs() <= 1e-15 * cell
                }
            };
            assert!(same, "{name}: {row}, {line:?}");
        }
    }
    let known = |status: &str| lines.iter().filter(|line| line[2] == status).count();
    assert_eq!(["exact", "sampled", "left out", "partial"].map(known), [10, 5, 7, 3]);
    for name in ["latex", "latex-document", "markdown"] {
        let text = text(name);
        let parts = ["left out. With them", "exact", "sampled"];
        assert!(parts.iter().all(|part| text.contains(part)), "{name}: {text}");
    }
    assert!(format("parquet").starts_with(b"PAR1"));

    let plot = |name: &str| {
        let path = output.path().join(name);
        let drawn = ["--plot", path.to_str().unwrap()];
        (sample(&endgame, &output, &[&few[..], &drawn].concat()), path)
    };
    let (drawn, path) = plot("plot.svg");
    assert!(drawn.status.success(), "{}", stderr(&drawn));
    let svg = fs::read_to_string(path).unwrap();
    assert!(svg.starts_with("<svg ") && !svg.contains("NaN") && !svg.contains("inf"));
    // What cannot be written is refused before anything is drawn.
    fs::create_dir(output.path().join("place.svg")).unwrap();
    for (name, says) in [
        ("plot.gif", ".svg, .pdf or .png"),
        ("none/plot.svg", "choose another place"),
        ("place.svg", "choose another place"),
    ] {
        let (refused, _) = plot(name);
        assert_eq!((refused.status.code(), &*stdout(&refused)), (Some(1), ""));
        assert!(stderr(&refused).contains(says), "{}", stderr(&refused));
    }
}

/// The verdicts in the files are those of plain forward search, and the intervals hold what the
/// census says.
#[test]
fn verdicts_and_intervals_are_true() {
    let (endgame, output) = (endgame(), Data::new());
    let more = ["--model", "unlabelled", "--samples", "400", "--seed", "1", "--sizes", "..15"];
    let found = report(&sample(&endgame, &output, &[&more[..], &["--json"]].concat()));
    let text: Vec<String> =
        files(&output).into_values().map(|bytes| String::from_utf8(bytes).unwrap()).collect();
    let verdicts: Vec<Vec<&str>> =
        text.iter().flat_map(|text| text.lines()).map(|l| l.split(' ').collect()).collect();
    let graphs: Vec<&str> = verdicts.iter().map(|words| words[1]).step_by(9).collect();
    let solved = run(&[&["solve"], &graphs[..]].concat());
    let winners: Vec<String> =
        verdicts.iter().step_by(9).map(|words| format!("{} {}", words[1], words[2])).collect();
    assert_eq!(stdout(&solved).lines().collect::<Vec<_>>(), winners);
    // 158 of the 1044 graphs of order 7.
    let bounds: Vec<f64> = found["all"]["bounds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bound| bound.as_f64().unwrap())
        .collect();
    assert!(bounds[0] < 158.0 / 1044.0 && 158.0 / 1044.0 < bounds[1], "{bounds:?}");
    assert!(found["left_out"].as_f64().unwrap() > 0.03);
    // Odd and even numbers have bounds of their own, by what is left out of each.
    for row in ["odd", "even"] {
        let number = |name: &str| found[row][name].as_f64().unwrap();
        let missing = 1.0 - number("share") * 2.0;
        let bounds: Vec<f64> =
            found[row]["bounds"].as_array().unwrap().iter().map(|b| b.as_f64().unwrap()).collect();
        assert!((bounds[0] - number("low") * (1.0 - missing)).abs() < 1e-9, "{found}");
        assert!((bounds[1] - number("high") * (1.0 - missing) - missing).abs() < 1e-9, "{found}");
    }
    assert!(found["rechecked"].as_u64().unwrap() > 0);
}

#[test]
fn what_is_known_is_not_drawn_and_small_orders_need_no_endgame() {
    let (endgame, output) = (endgame(), Data::new());
    let few = ["--model", "gnm:9", "--samples", "10", "--seed", "1", "--json"];
    let found = report(&sample(&endgame, &output, &few));
    assert_eq!(found["samples"], 0);
    assert_eq!(found["all"]["low"], found["all"]["high"]);
    let output = Data::new();
    let output = output.text();
    let alone = ["sample", "--order", "6", "--samples", "30", "--seed", "1", "--output", &output];
    let alone = |model: &str, recheck: &str| {
        let more = ["--model", model, "--json", "--recheck", recheck];
        report(&run(&[&alone[..], &more].concat()))
    };
    let found = alone("gnp:0.4", "1");
    assert_eq!(found["samples"], 30);
    assert_eq!(found["rechecked"], 30);
    // The same run, however it is called, and whatever is rechecked of it.
    let fewer = alone("gnp:2/5", "0.3");
    assert_eq!(found["digest"], fewer["digest"]);
    assert!((1..30).contains(&fewer["rechecked"].as_u64().unwrap()));
    assert_eq!(alone("gnp:.40", "0")["rechecked"], 0);
}

/// All graphs of these sizes are isomorphic: one of them is all that there is to decide.
#[test]
fn one_graph_of_one_class_is_exact() {
    for (size, winner) in [("0", 0.0), ("1", 1.0), ("14", 0.0), ("15", 1.0)] {
        let (model, output) = (format!("gnm:{size}"), Data::new());
        let found = report(&run(&[
            "sample",
            "--order",
            "6",
            "--model",
            &model,
            "--samples",
            "9",
            "--seed",
            "1",
            "--recheck",
            "1",
            "--json",
            "--output",
            &output.text(),
        ]));
        assert_eq!((&found["samples"], &found["rechecked"]), (&1.into(), &1.into()), "{found}");
        for value in ["proportion", "low", "high"] {
            assert_eq!(found["all"][value], winner, "{found}");
        }
        assert_eq!(files(&output).len(), 2);
    }
}

/// Counts are there when outcomes are gone.
#[test]
fn outcomes_are_needed_only_to_draw() {
    let (endgame, output) = (Data::new(), Data::new());
    census_json(7, &endgame, &["--keep", "graphs"]);
    let few = ["--model", "unlabelled", "--samples", "20", "--seed", "1", "--json"];
    let found = report(&sample(&endgame, &output, &few));
    let proportion = found["all"]["proportion"].as_f64().unwrap();
    assert!((proportion - 158.0 / 1044.0).abs() < 1e-12, "{found}");
    let drawn = sample(&endgame, &Data::new(), &[&few[..], &["--endgame-size", "9"]].concat());
    assert_eq!(drawn.status.code(), Some(1));
    assert!(stderr(&drawn).contains("outcomes of order 7 were not kept"), "{}", stderr(&drawn));
}

/// What was drawn is told when the outcomes that it took are gone, and what others there are where
/// something new is drawn.
#[test]
fn a_run_that_is_done_outlasts_its_endgame() {
    let (endgame, output) = (Data::new(), Data::new());
    census_json(7, &endgame, &["--max-size", "7", "--keep", "graphs"]);
    let asked = ["--model", "gnm:12", "--samples", "20", "--seed", "1", "--endgame-size", "7"];
    let asked = [&asked[..], &["--json"]].concat();
    let before = report(&sample(&endgame, &output, &asked));
    census_json(7, &endgame, &["--max-size", "12", "--keep", "graphs"]);
    assert_eq!(report(&sample(&endgame, &output, &asked)), before);
    let new = sample(&endgame, &Data::new(), &asked);
    assert!(stderr(&new).contains("(`--endgame-size 12`)"), "{}", stderr(&new));
}

/// Of an order up to a number of edges that can be carried further the last outcomes stay: they
/// will do.
#[test]
fn the_last_outcomes_are_enough() {
    let (all, last) = (endgame(), Data::new());
    census_json(7, &last, &["--max-size", "9", "--keep", "graphs"]);
    let more = ["--model", "gnm:12", "--samples", "40", "--seed", "1", "--recheck", "0.5"];
    let found = [all, last].map(|endgame| {
        let found = report(&sample(&endgame, &Data::new(), &[&more[..], &["--json"]].concat()));
        assert!(found["rechecked"].as_u64().unwrap() > 0);
        found
    });
    assert_eq!(found[0], found[1]);
}

/// A directory with other files was not meant; a census least of all.
#[test]
fn a_sample_has_a_directory_of_its_own() {
    let endgame = endgame();
    let more = ["--model", "gnm:12", "--samples", "40", "--seed", "1"];
    let before = fs::read_dir(endgame.path()).unwrap().count();
    let refused = sample(&endgame, &endgame, &more);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("holds other files and no sample"), "{}", stderr(&refused));
    assert_eq!(fs::read_dir(endgame.path()).unwrap().count(), before);
    // Of a run that was killed at its very beginning there may be this.
    let begun = Data::new();
    fs::create_dir_all(begun.path()).unwrap();
    fs::write(begun.path().join("parameters.json.x.new"), "").unwrap();
    assert!(sample(&endgame, &begun, &more).status.success());
    // Nothing says any more of which graphs the verdicts are.
    fs::remove_file(begun.path().join("parameters.json")).unwrap();
    let refused = sample(&endgame, &begun, &more);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("parameters.json, which would say"), "{}", stderr(&refused));
    let all = sample(&endgame, &Data::new(), &[&more[..], &["--endgame-size", "30"]].concat());
    assert!(stderr(&all).contains("--max-size 30"), "{}", stderr(&all));
    let whole = Data::new();
    census_json(6, &whole, &[]);
    let text = whole.text();
    let order = ["sample", "--order", "6", "--endgame", &text, "--endgame-size", "30"];
    let all = run(&[&order[..], &more].concat());
    assert!(stderr(&all).contains("the most are 15"), "{}", stderr(&all));
}

#[test]
fn refusals_say_what_to_do() {
    let (endgame, output) = (endgame(), Data::new());
    let more = ["--model", "gnm:12", "--samples", "40", "--seed", "1", "--recheck", "0.5"];
    let refused = |found: Output, words: &str| {
        assert_eq!(found.status.code(), Some(1), "{}", stdout(&found));
        assert_eq!(stdout(&found), "");
        assert!(stderr(&found).contains(words), "{}", stderr(&found));
    };
    refused(
        sample(&endgame, &output, &[&more[..], &["--endgame-size", "12"]].concat()),
        "`trailtrap census 7 --max-size 12 --data ",
    );
    assert!(sample(&endgame, &output, &more).status.success());
    let other = ["--model", "gnm:12", "--samples", "40", "--seed", "2", "--recheck", "0.5"];
    refused(sample(&endgame, &output, &other), "(--seed 1, not 2)");
    let narrower = [&more[..], &["--sizes", "12..13"]].concat();
    refused(sample(&endgame, &output, &narrower), "(--sizes 0..21, not 12..13)");
    refused(
        sample(&endgame, &Data::new(), &["--model", "gnm:22", "--samples", "1", "--seed", "1"]),
        "the most are 21",
    );
    refused(
        sample(&endgame, &Data::new(), &["--model", "gnp", "--samples", "3", "--seed", "1"]),
        "--sizes",
    );
    // What is refused for what it asks leaves nothing that would keep other questions out.
    let nothing = ["--model", "labelled", "--samples", "3", "--seed", "1", "--sizes", "50..60"];
    let fresh = Data::new();
    let alone = ["sample", "--order", "7", "--output", &fresh.text()];
    refused(
        run(&[&alone[..], &nothing].concat()),
        "no graph of order 7 has 50 edges: the most are 21",
    );
    assert!(!fresh.path().exists());
    let nowhere = Data::new().text();
    let order_8 = ["sample", "--order", "8", "--endgame", &nowhere, "--output", &nowhere];
    refused(run(&[&order_8[..], &more].concat()), "trailtrap census 8 --max-size");
    let order_14 = ["sample", "--order", "14", "--output", &nowhere];
    refused(run(&[&order_14[..], &more].concat()), "13 is the largest order");

    // A verdict that was changed is noticed when it is read; and when it is found again, if its
    // checksum was changed too.
    let (place, bytes) = files(&output).into_iter().find(|(p, _)| p.starts_with("verd")).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    fs::write(output.path().join(&place), text.replacen("0 F", "0 E", 1)).unwrap();
    refused(sample(&endgame, &output, &more), "is damaged (line 1)");
    let lied = text.replace(" P1 ", " P3 ").replace(" P2 ", " P1 ").replace(" P3 ", " P2 ");
    fs::write(output.path().join(&place), &lied).unwrap();
    refused(sample(&endgame, &output, &more), "its checksum is missing or another one");
    let checksum = hex::encode(Sha256::digest(lied)) + "\n";
    fs::write(output.path().join("checksums").join(&place), checksum).unwrap();
    refused(sample(&endgame, &output, &more), "CONTRADICTION");
}

#[test]
fn what_would_take_hours_is_refused_unless_people_insist() {
    let output = Data::new();
    let sample = |more: &[&str]| {
        let arguments = ["sample", "--samples", "9", "--seed", "1", "--output", &output.text()];
        run(&[&arguments, more].concat())
    };
    let refused = sample(&["--order", "12", "--model", "labelled"]);
    assert_eq!(refused.status.code(), Some(1));
    let errors = stderr(&refused);
    assert!(
        errors.contains("hours without an endgame") && errors.contains("--sizes .."),
        "{errors}"
    );
    assert!(!output.path().join("parameters.json").exists());
    let refused = sample(&["--order", "12", "--model", "gnm:60"]);
    assert_eq!(refused.status.code(), Some(1));
    // All of them take that long: there is nothing else to draw.
    let errors = stderr(&refused);
    assert!(!errors.contains("leaves out") && errors.contains("`--sizes ..60`"), "{errors}");
    let asked_for = ["--sizes", "0..3", "--recheck", "0"];
    let drawn = sample(&[&["--order", "12", "--model", "labelled"], &asked_for[..]].concat());
    assert!(drawn.status.success(), "{}", stderr(&drawn));
}

/// A plan decides the graphs of a run's pilot, so it counts the same positions; what it
/// says of the interval is what the run will find, but for chance.
#[test]
fn a_plan_says_what_a_run_will_find() {
    let endgame = endgame();
    let plan = |more: &[&str]| {
        let asked = ["plan", "sample", "--order", "7", "--endgame", &endgame.text(), "--json"];
        report(&run(&[&asked, more].concat()))
    };
    let output = Data::new();
    let drawn = ["--model", "gnm:13", "--samples", "400", "--seed", "3"];
    let found = report(&sample(&endgame, &output, &[&drawn[..], &["--json"]].concat()));
    let planned = plan(&drawn);
    let main = &planned["calibration"]["trials"][0];
    assert_eq!((&main["endgame_size"], &planned["endgame_size"]), (&9.into(), &9.into()));
    let measured = &main["by_size"]["13"];
    // By number of vertices of odd degree, the first file is that of the pilot.
    let is_first =
        |place: &str| place.starts_with("verdicts/m13-odd") && place.contains("/0000000000-");
    let texts = files(&output).into_iter().filter(|(place, _)| is_first(place));
    let text: String = texts.map(|(_, bytes)| String::from_utf8(bytes).unwrap()).collect();
    let first: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!(measured["graphs"], first.len());
    let nodes: u64 = first.iter().map(|words| words[3].parse::<u64>().unwrap()).sum();
    assert_eq!(measured["nodes"], nodes);
    assert_eq!(measured["p1_wins"], first.iter().filter(|words| words[2] == "P1").count());
    assert_eq!(planned["strata"][0]["status"], "measured");
    assert_eq!(planned["samples"], 400);
    let half = |found: &Value| {
        let [low, high] = ["low", "high"].map(|name| found["all"][name].as_f64().unwrap());
        (high - low) / 2.0
    };
    let ratio = planned["half_width"].as_f64().unwrap() / half(&found);
    assert!((0.8..1.25).contains(&ratio), "{ratio}: {planned}");

    // As many as an interval takes, and no more.
    let wanted = ["--model", "labelled", "--sizes", "..16"];
    let planned = plan(&[&wanted[..], &["--width", "2"]].concat());
    let enough = planned["samples"].as_u64().unwrap();
    assert!(planned["half_width"].as_f64().unwrap() <= 0.02, "{planned}");
    let fewer = plan(&[&wanted[..], &["--samples", &(enough - 1).to_string()]].concat());
    assert!(fewer["half_width"].as_f64().unwrap() > 0.02, "{fewer}");
    assert!(planned["left_out"].as_f64().unwrap() > 0.0);
    let drawn = ["--samples", &enough.to_string(), "--seed", "1", "--json"];
    let found = report(&sample(&endgame, &Data::new(), &[&wanted[..], &drawn].concat()));
    assert_eq!(found["left_out"], planned["left_out"]);
    let ratio = planned["half_width"].as_f64().unwrap() / half(&found);
    assert!((0.8..1.25).contains(&ratio), "{ratio}: {planned}");
    let statuses: Vec<&str> = planned["strata"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, [["exact"; 10].as_slice(), &["measured"; 7]].concat());
}

/// A plan that is refused for what it asks decides nothing before. Here it could not, as the
/// outcomes are gone.
#[test]
fn what_a_plan_asks_is_looked_at_first() {
    let endgame = Data::new();
    census_json(7, &endgame, &["--max-size", "9", "--keep", "minimal"]);
    for (asked, words) in [
        (&["--model", "gnm:22", "--samples", "5"][..], "the most are 21"),
        (&["--model", "labelled", "--samples", "3", "--sizes", "..21"], "do not suffice"),
        (&["--model", "gnm:12", "--samples", "5", "--sizes", "13.."], "leaves out all graphs"),
        (&["--model", "gnm:12", "--samples", "5", "--sizes", "12.."], "were not kept"),
    ] {
        let plan = ["plan", "sample", "--order", "7", "--endgame", &endgame.text()];
        let refused = run(&[&plan, asked].concat());
        assert_eq!((refused.status.code(), &*stdout(&refused)), (Some(1), ""));
        assert!(stderr(&refused).contains(words), "{}", stderr(&refused));
    }
}

/// What cannot be measured is extrapolated, and says so: from smaller endgames, and beyond order
/// 12.
#[test]
fn what_is_extrapolated_says_so() {
    let endgame = endgame();
    let drawn = ["--model", "labelled", "--samples", "500", "--calibrate", "1"];
    let of_order_7 = ["plan", "sample", "--order", "7", "--endgame", &endgame.text()];
    let little = run(&[&of_order_7, &drawn[..], &["--memory", "1KiB", "--json"]].concat());
    let planned = report(&little);
    let main = &planned["calibration"]["trials"][0];
    assert!(main["endgame_size"].as_u64().unwrap() < 9, "{planned}");
    let strata = planned["strata"].as_array().unwrap();
    assert!(strata.iter().all(
        |s| s["status"] == if s["size"].as_u64() > Some(9) { "extrapolated" } else { "exact" }
    ));
    let text = stdout(&run(&[&of_order_7, &drawn[..]].concat()));
    assert!(text.contains("an edge more") && text.contains("measured between"), "{text}");
    // Where everything is known, nothing is decided.
    let whole = Data::new();
    census_json(5, &whole, &[]);
    let of_order_5 = ["plan", "sample", "--order", "5", "--endgame", &whole.text()];
    let known = report(&run(&[&of_order_5, &drawn[..], &["--json"]].concat()));
    let calibration = &known["calibration"];
    assert_eq!(calibration["position_measured"], false);
    assert!(calibration["position"].as_f64().unwrap() > 0.0, "{calibration}");

    let beyond = ["plan", "sample", "--order", "14", "--model", "gnm:22", "--samples", "100"];
    let planned = report(&run(&[&beyond[..], &["--calibrate", "1", "--json"]].concat()));
    let by_order = planned["calibration"]["cost"]["by_order"].as_f64().unwrap();
    assert!(0.3 < by_order && by_order < 1.2, "{planned}");
    assert_eq!(planned["strata"][0]["status"], "extrapolated");
    assert!(planned["core_seconds"].as_f64().unwrap() > 0.0);
    let refused = run(&[&beyond[..3], &["15"], &beyond[4..]].concat());
    assert!(stderr(&refused).contains("14 is the largest order"), "{}", stderr(&refused));
    let nowhere = Data::new().text();
    let refused = run(&[&beyond[..], &["--endgame", &nowhere]].concat());
    assert!(stderr(&refused).contains("trailtrap census 13"), "{}", stderr(&refused));
    // A census is planned as before, with its order, and not without.
    assert_eq!(run(&["plan"]).status.code(), Some(2));
    assert_eq!(run(&["plan", "7", "sample"]).status.code(), Some(2));
}

/// An error says what is wrong and what to do, each once.
#[test]
fn a_cause_is_named_once() {
    let (endgame, output) = (endgame(), Data::new());
    let arguments =
        ["sample", "--order", "8", "--model", "gnm:9", "--samples", "9", "--seed", "1"];
    let places = ["--endgame", &endgame.text(), "--output", &output.text()];
    let errors = stderr(&run(&[&arguments[..], &places].concat()));
    assert_eq!(errors.matches("order 8 is not finished here").count(), 1, "{errors}");
    assert!(errors.contains("trailtrap census 8 --max-size 8"), "{errors}");
    // A file stands where the directory should be.
    fs::create_dir_all(output.path()).unwrap();
    let file = output.path().join("file");
    fs::write(&file, "").unwrap();
    let places = ["--sizes", "..9", "--output", &file.display().to_string()];
    let errors = stderr(&run(&[&arguments[..], &places].concat()));
    assert_eq!(errors.matches("not a directory").count(), 1, "{errors}");
}
