//! Orders that are done up to a number of edges: `--max-size`.

use std::fs;

use serde_json::{Value, json};
use trailtrap_census::{
    records::{
        OrderRecord,
        alarm::{Alarm, AlarmKind},
    },
    store::{self, Store},
};
use trailtrap_shared::{graph::degree::DegreeSequence, plan::Unit};

use crate::common::{
    Data, FAMILIES, PATIENCE, Process, census, census_json, coordinator, eventually, expected,
    reserved_port, run, run_with_input, salvage, status, stderr, stdout, succeeded, trailtrap,
    until_hit, verified, worker,
};

/// Order 8 as it always was.
const WHOLE: &str = include_str!("../golden/census-8.json");

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

/// What a census says of one order.
fn order(report: &Value, n: usize) -> &Value {
    report["orders"].as_array().unwrap().iter().find(|order| order["order"] == n).unwrap()
}

/// What a census of order 8 says, after it was checked that what it has of each order is the
/// beginning of the whole, up to so many edges.
fn limited(data: &Data, max_size: usize, more: &[&str]) -> Value {
    let max_size = max_size.to_string();
    let report = parsed(&census_json(8, data, &[&["--max-size", &max_size], more].concat()));
    let whole = parsed(WHOLE);
    for n in 1..=8 {
        let (found, expected) = (order(&report, n), order(&whole, n));
        let found = found["by_size"].as_array().unwrap();
        assert_eq!(found[..], expected["by_size"].as_array().unwrap()[..found.len()]);
    }
    report
}

/// The most edges that a census says each order was done to; nothing of those done to the end.
fn limits(report: &Value) -> Vec<Option<u64>> {
    report["orders"].as_array().unwrap().iter().map(|order| order["max_size"].as_u64()).collect()
}

#[test]
fn no_more_is_done_than_was_asked_for_and_more_can_be_done_later() {
    for keep in ["all", "graphs"] {
        let data = Data::new();
        let keep = ["--keep", keep];
        let report = limited(&data, 9, &keep);
        // Without a vertex of maximum degree a graph of order n with m edges has 2m/n fewer of
        // them, or less.
        let expected = [None, Some(0), Some(0), Some(1), Some(2), Some(4), Some(6), Some(9)];
        assert_eq!(limits(&report), expected);
        let graphs = |report: &Value| order(report, 8)["graphs"].as_u64().unwrap();
        let up_to_9 = [1, 1, 2, 5, 11, 24, 56, 115, 221, 402];
        assert_eq!(graphs(&report), up_to_9.iter().sum::<u64>());
        // Less is there already, more is added to it.
        assert_eq!(limited(&data, 7, &keep), report);
        let more = limited(&data, 13, &keep);
        assert_eq!(limits(&more)[7], Some(13));
        assert!(graphs(&more) > graphs(&report));
        assert_eq!(census_json(8, &data, &keep), WHOLE);
        // The whole is more than any part.
        assert_eq!(census_json(8, &data, &["--max-size", "9"]), WHOLE);
        verified(&["8", "--level", "6", "--data", &data.text()]);
    }
}

/// Blocks of an order in a family of the store.
fn blocks(data: &Data, family: &str, order: u8) -> usize {
    let (options, store) = (rocksdb::Options::default(), data.path().join("store"));
    let db = rocksdb::DB::open_cf_for_read_only(&options, store, FAMILIES, false).unwrap();
    let from = rocksdb::IteratorMode::From(&[order], rocksdb::Direction::Forward);
    let keys = db.iterator_cf(db.cf_handle(family).unwrap(), from).map(|item| item.unwrap().0);
    keys.take_while(|key| key[0] == order).count()
}

/// Of an order of which nothing is kept nothing can be made, and its result is too good to lose
/// unasked.
#[test]
fn what_was_not_kept_is_done_again_to_go_further() {
    let data = Data::new();
    let keep = ["--keep", "minimal"];
    let report = limited(&data, 9, &keep);
    let more = |flags: &[&str]| {
        let text = data.text();
        let command = ["census", "8", "--max-size", "13", "--data", &text, "--json"];
        run(&[&command, &keep[..], flags].concat())
    };
    let refused = more(&[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("--force to solve orders 8 to 8 again"), "{refused:?}");
    assert_eq!(limited(&data, 7, &keep), report);
    let found = parsed(&stdout(&more(&["--force"])));
    assert_eq!(found, limited(&data, 13, &keep));
    assert_eq!(limits(&found)[7], Some(13));
    assert_eq!(["keys", "outcomes"].map(|family| blocks(&data, family, 8)), [0, 0]);
    assert_eq!(census_json(8, &data, &["--force"]), WHOLE);
    // Where there are no graphs with so many edges nothing is lacking to go further.
    let forests = Data::new();
    let class = ["--class", "forest", "--keep", "minimal"];
    let expected = census_json(8, &forests, &class);
    let forests = Data::new();
    for more in [&["--max-size", "9"][..], &["--max-size", "13"], &[]] {
        let found = census_json(8, &forests, &[&class[..], more].concat());
        assert_eq!(found, expected);
    }
    // Graphs that were kept go when what is made from them is done.
    let data = Data::new();
    limited(&data, 9, &["--keep", "graphs"]);
    limited(&data, 12, &keep);
    assert_eq!(["keys", "outcomes"].map(|family| blocks(&data, family, 8)), [0, 0]);
    assert_eq!(census_json(8, &data, &["--keep", "minimal", "--force"]), WHOLE);
    verified(&["8", "--level", "6", "--data", &data.text()]);
}

#[test]
fn parts_and_buckets_and_numbers_beyond_the_last_make_no_difference() {
    let split = ["--part-graphs", "20", "--bucket-size", "300"];
    limited(&Data::new(), 11, &split);
    for max_size in ["28", "1000"] {
        assert_eq!(census_json(8, &Data::new(), &["--max-size", max_size]), WHOLE);
    }
    let none = limited(&Data::new(), 0, &[]);
    assert_eq!(order(&none, 8)["graphs"], 1);
}

#[test]
fn a_limited_order_is_told_for_what_it_is() {
    let data = Data::new();
    let report = limited(&data, 11, &[]);
    let text = data.text();
    let table = stdout(&run(&["census", "8", "--max-size", "11", "--data", &text]));
    assert!(table.contains("| 8, up to 11 edges |"), "{table}");

    // Every check of the graphs that are there, and none of what others have counted.
    let said = verified(&["--level", "6", "--data", &text]);
    assert!(said.contains("order 8 up to 11 edges: right   known sequences: none"), "{said}");

    // Graphs with more edges are not there.
    let found =
        run_with_input(&["lookup", "--data", &text, "--format", "json"], "G?????\nG~~~~{\n");
    assert_eq!(found.status.code(), Some(1));
    assert_eq!(parsed(&stdout(&found)).as_array().unwrap().len(), 1);
    let errors = stderr(&found);
    let remedy = format!("`trailtrap census 8 --max-size 28 --data {text}`");
    assert!(errors.contains("line 2") && errors.contains(&remedy), "{errors}");

    // Tables say up to where they go, for people and for programs.
    let export = |arguments: &[&str]| run(&[&["export"], arguments, &["--data", &text]].concat());
    let sizes = stdout(&export(&["table", "sizes", "8", "--format", "csv"]));
    let mut rows = csv::Reader::from_reader(sizes.as_bytes());
    let heads = rows.headers().unwrap().clone();
    let column = |name: &str| heads.iter().position(|head| head == name).unwrap();
    let (status, graphs, limit) = (column("status"), column("graphs"), column("max_size"));
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 12);
    assert!(rows.iter().all(|row| &row[status] == "limited" && &row[limit] == "11"));
    let sum: u64 = rows.iter().map(|row| row[graphs].parse::<u64>().unwrap()).sum();
    assert_eq!(order(&report, 8)["graphs"], sum);
    let markdown = stdout(&export(&["table", "sizes", "8", "--format", "markdown"]));
    assert!(markdown.contains("Order 8 is done up to 11 edges only."), "{markdown}");

    let drawn = stdout(&export(&["drawing", "8", "--most", "1"]));
    assert!(drawn.contains("graphs of order 8 up to 11 edges"), "{drawn}");
    let status = stdout(&run(&["status", "--data", &text]));
    assert!(status.contains("not done to the end: order 2 up to 0 edges, "), "{status}");

    // What is about all graphs of an order is not made of some.
    for arguments in [
        &["bfile", "p1-wins", "8"][..],
        &["plot", "orders", "8"],
        &["plot", "minimum-degree", "8"],
        &["plot", "odd-degrees", "8"],
    ] {
        let refused = export(arguments);
        let errors = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
        assert!(errors.contains("done up to 0 edges only; `trailtrap census 8"), "{errors}");
    }
    let bundle = data.path().join("bundle");
    let made = export(&["bundle", bundle.to_str().unwrap()]);
    assert!(made.status.success() && stderr(&made).contains("up to order 1, as order 2 is done"));
    let manifest = parsed(&fs::read_to_string(bundle.join("manifest.json")).unwrap());
    assert_eq!(manifest["orders"].as_array().unwrap().len(), 1);

    // A list says so by its name, or on the way.
    let list = |name: &str| {
        let path = data.path().join(name);
        let output = export(&["graphs", "8", "--output", path.to_str().unwrap()]);
        (output.status.success(), stderr(&output), path)
    };
    let (done, errors, _) = list("wins.g6");
    assert!(!done && errors.contains("say `limited`"), "{errors}");
    let (done, errors, path) = list("limited.g6");
    assert!(done && errors.contains("order 8 is done up to 11 edges only"), "{errors}");
    let checked = run(&["verify", path.to_str().unwrap(), "--data", &text]);
    let said = stdout(&checked);
    assert!(said.contains("those of the census with at most 11 edges"), "{said}");
    // A list of all graphs is not wrong for that.
    let whole = Data::new();
    census_json(8, &whole, &[]);
    let all = stdout(&run(&["export", "graphs", "8", "--data", &whole.text()]));
    fs::write(&path, all).unwrap();
    let compared = run(&["verify", path.to_str().unwrap(), "--data", &text]);
    let said = stdout(&compared);
    assert!(said.contains("which goes no further") && said.contains("nothing wrong"), "{said}");
    // But nothing here knows of large graphs.
    assert!(said.contains("have more than 20 edges"), "{said}");
    assert_eq!(compared.status.code(), Some(75));
    // Plots of one order, and the one by order and number of edges, show what there is.
    for plot in [&["sizes", "8"][..], &["degrees", "8"], &["heat-map"], &["density"]] {
        let picture = export(&[&["plot"], plot].concat());
        assert!(picture.status.success(), "{}", stderr(&picture));
    }
}

/// What was done to the end stays so, whatever a later order needs of it.
#[test]
fn an_order_that_is_taken_back_is_done_again_as_far_as_it_was() {
    for keep in ["all", "minimal"] {
        let data = Data::new();
        census_json(7, &data, &["--keep", keep]);
        let doubt = ["alarms", "--doubt", "7", "--shard", "0,0,0,2,2,2,2", "--force"];
        let doubt = [&doubt[..], &["--because", "a test"]].concat();
        let doubted = run(&[&doubt[..], &["--data", &data.text()]].concat());
        assert!(doubted.status.success(), "{}", stderr(&doubted));
        let report = limited(&data, 9, &["--keep", keep]);
        let expected = [None, None, None, None, None, None, None, Some(9)];
        assert_eq!(limits(&report), expected);
        assert_eq!(census_json(8, &data, &["--keep", keep, "--force"]), WHOLE);
    }
}

/// A census of order 8 up to 9 edges, and what it said, of which a continuation was killed when it
/// had put more than so many units on record; or fewer, if it is too fast for that.
fn interrupted(keep: &[&str], mut least: usize) -> (Data, Value) {
    until_hit(|| {
        let data = Data::new();
        let before = limited(&data, 9, keep);
        let units = data.units_on_record(8);
        let more = ["census", "8", "--max-size", "24", "--threads", "1", "--data", &data.text()];
        let mut process = Process::start(trailtrap().args(more).args(keep));
        eventually("some of it is done", || {
            !process.is_running() || data.units_on_record(8) > units + least
        });
        if process.is_killed() {
            return Some((data, before));
        }
        least /= 2;
        None
    })
}

/// While more is being done, and after it was interrupted, what was done before is there.
#[test]
fn an_interrupted_continuation_leaves_what_was_there() {
    for (keep, least) in [("all", 0), ("all", 60), ("all", 400), ("graphs", 60), ("graphs", 400)] {
        let keep = ["--keep", keep];
        let (data, before) = interrupted(&keep, least);
        let text = data.text();
        let tables = run(&["export", "table", "orders", "--data", &text]);
        assert!(tables.status.success(), "{}", stderr(&tables));
        verified(&["--level", "5", "--sample", "3", "--data", &text]);
        // Less can be asked for again, and is there.
        let after = limited(&data, 9, &keep);
        assert!(limits(&after)[7] >= limits(&before)[7]);
        limited(&data, 12, &keep);
        fs::write(data.path().join("store/CURRENT"), "nonsense").unwrap();
        salvage(&data);
        assert_eq!(census_json(8, &data, &keep), WHOLE);
    }
}

/// What a run that was to do more, and keep less, has not dropped when it ends is kept again as soon
/// as somebody asks for what is there.
#[test]
fn what_was_not_dropped_is_kept_by_the_command_that_made_it() {
    let data = Data::new();
    let report = limited(&data, 9, &[]);
    {
        // As `census 8 --keep graphs` leaves it that is stopped at once.
        let store = Store::open(&data.path().join("store"), None, None).unwrap();
        let record = store.order(8).unwrap().unwrap();
        store.put_order(8, &OrderRecord { outcomes_kept: false, ..record }).unwrap();
    }
    let text = data.text();
    let look_up = || run(&["lookup", "G?????", "--data", &text]);
    assert!(stderr(&look_up()).contains("outcomes of order 8 were not kept"));
    assert_eq!(limited(&data, 9, &[]), report);
    succeeded(&look_up());
}

/// What was taken back of a result is done again as far as that went, also if a run that was to go
/// further has begun meanwhile, and has not ended.
#[test]
fn a_larger_goal_that_was_not_reached_obliges_nobody() {
    let data = until_hit(|| {
        let data = Data::new();
        limited(&data, 8, &[]);
        let (units, text) = (data.units_on_record(8), data.text());
        let doubt =
            ["alarms", "--doubt", "8", "--shard", "0,0,0,0,1,1,1,1", "--because", "a test"];
        let doubted = run(&[&doubt[..], &["--data", &text]].concat());
        assert!(doubted.status.success(), "{}", stderr(&doubted));
        let further = ["census", "8", "--threads", "1", "--data", &text];
        let mut further = Process::start(trailtrap().args(further));
        eventually("the order is done further, but not to its end", || {
            data.units_on_record(8) > units || !further.is_running()
        });
        let is_killed = further.is_killed();
        let order = Store::open_read_only(&data.path().join("store")).unwrap().order(8).unwrap();
        (is_killed && order.unwrap().result.is_none()).then_some(data)
    });
    assert_eq!(limits(&limited(&data, 8, &[]))[7], Some(8));
}

/// A run that was to do more, and was stopped, leaves units that are of no concern to one that
/// does less.
#[test]
fn units_of_more_edges_are_of_no_concern() {
    let data = Data::new();
    limited(&data, 12, &[]);
    let text = data.text();
    // Takes back the result of the order, and one unit, which is done again as far as it was.
    let doubted = run(&[
        "alarms",
        "--doubt",
        "8",
        "--shard",
        "1,1,1,1,1,1,1,1",
        "--because",
        "a test",
        "--data",
        &text,
    ]);
    assert!(doubted.status.success(), "{}", stderr(&doubted));
    let refused = run(&["export", "table", "sizes", "8", "--data", &text]);
    assert!(
        stderr(&refused).contains("`trailtrap census 8 --max-size 12"),
        "{}",
        stderr(&refused)
    );
    let again = data.copy();
    assert_eq!(limits(&limited(&again, 9, &[]))[7], Some(12));
    // One that had no result yet goes only up to 9 edges.
    let store = Store::open(&data.path().join("store"), None, None).unwrap();
    let record = store.order(8).unwrap().unwrap().withdraw();
    store.put_order(8, &OrderRecord { withdrawn: false, ..record }).unwrap();
    drop(store);
    let report = limited(&data, 9, &[]);
    assert_eq!(limits(&report)[7], Some(9));
    let verified = run(&["verify", "8", "--level", "3", "--data", &text]);
    let said = stdout(&verified);
    assert!(said.contains("order 8 up to 9 edges: right   every unit recorded once"), "{said}");
    let status = stdout(&run(&["status", "--data", &text]));
    assert!(status.contains("orders done: 1 to 8"), "{status}");
    let shards = run(&["export", "table", "degrees", "8", "--format", "csv", "--data", &text]);
    assert!(shards.status.success(), "{}", stderr(&shards));
    let shards = stdout(&shards);
    assert!(shards.lines().count() > 100, "{shards}");
    assert!(shards.lines().skip(1).all(|line| line.ends_with(",limited,9")), "{shards}");
    // They count again when they are wanted.
    limited(&data, 12, &[]);
    assert_eq!(census_json(8, &data, &[]), WHOLE);
}

/// What such a run has left is taken back without the result of less, which does not follow from
/// it.
#[test]
fn a_result_outlives_what_was_done_beyond_it() {
    let data = Data::new();
    let further = limited(&data, 12, &[]);
    let instance = || {
        let store = Store::open_read_only(&data.path().join("store")).unwrap();
        let record = store.order(8).unwrap().unwrap();
        let plan = store::plan_up_to(store.layout(), 8, &record, 12).unwrap();
        let unit = Unit { order: 8, shard: plan.layer(11).next().unwrap(), part: 0 };
        (unit, store.unit(unit).unwrap().map(|record| record.instance))
    };
    let (unit, solved) = instance();
    {
        // As a run leaves it that was to go on from 9 edges and was killed.
        let store = Store::open(&data.path().join("store"), None, None).unwrap();
        let record = store.order(8).unwrap().unwrap();
        let result = record.result.map(|by_size| by_size[..=9].to_vec());
        store.put_order(8, &OrderRecord { result, max_size: Some(9), ..record }).unwrap();
        let sequence = DegreeSequence::new([0; 8]);
        let alarm = Alarm::at(0, AlarmKind::Damage, unit, &sequence, "damaged".to_owned());
        let (doubted, settled) = (vec![unit], Some("it is solved again".to_owned()));
        let last_instance = solved.unwrap();
        let alarm = Alarm { doubted, last_instance, settled, ..alarm };
        store.put_alarm(1, &alarm).unwrap();
    }
    let less = census(8, &data, &["--max-size", "9"]);
    succeeded(&less);
    assert!(!stderr(&less).contains("withdrawn"), "{}", stderr(&less));
    assert_eq!(limits(&parsed(&stdout(&less)))[7], Some(9));
    assert_eq!(instance(), (unit, None), "it was taken back");
    assert_eq!(limited(&data, 12, &[]), further);
    assert!(instance().1 > solved);
}

#[test]
fn what_is_limited_is_salvaged_as_such() {
    for keep in ["all", "graphs", "minimal"] {
        let data = Data::new();
        let keep = ["--keep", keep];
        let report = limited(&data, 10, &keep);
        fs::write(data.path().join("store/CURRENT"), "nonsense").unwrap();
        let salvaged = salvage(&data);
        assert!(stdout(&salvaged).contains("; 0 are damaged"), "{}", stdout(&salvaged));
        assert_eq!(limited(&data, 10, &keep), report);
        assert_eq!(census_json(8, &data, &["--keep", keep[1], "--force"]), WHOLE);
    }
}

/// A run that is to do more drops outcomes with most edges, too. Nobody takes the lack of them for
/// damage, if it is stopped.
#[test]
fn the_last_outcomes_may_be_gone() {
    for keep in ["minimal", "graphs"] {
        let (data, output) = (Data::new(), Data::new());
        limited(&data, 3, &["--keep", keep]);
        remove_all(&data, "outcomes");
        let text = data.text();
        let sampled = ["sample", "--order", "8", "--endgame", &text, "--output", &output.text()];
        let drawn = ["--model", "gnm:12", "--samples", "40", "--seed", "1"];
        let refused = run(&[&sampled[..], &drawn].concat());
        assert!(stderr(&refused).contains("were not kept"), "{}", stderr(&refused));
    }
}

/// A census of order 8 whose coordinator was killed when so many of its shards were done, or fewer.
fn killed(keep: &str, mut least: u64) -> Data {
    until_hit(|| {
        let data = Data::new();
        // What every record is tried for takes long enough.
        let tried = ["--keep", keep, "--sample", "1"];
        let (mut process, address) = coordinator(8, &data, "127.0.0.1:0", &tried);
        let mut worker =
            Process::start(worker().args(["--coordinator", &address, "--threads", "1"]));
        eventually("some of it is done", || {
            let order = status(&["--coordinator", &address])["order"].clone();
            let is_done = order["order"] == 8 && order["shards_done"].as_u64() >= Some(least);
            is_done || !process.is_running()
        });
        let is_killed = process.is_killed();
        worker.kill();
        if is_killed && data.status_at_rest()["order"]["order"] == 8 {
            return Some(data);
        }
        least /= 2;
        None
    })
}

/// A coordinator carries further what runs before it have done, to the end or not, and a worker
/// that stays meanwhile goes along: with each of these runs orders have other plans.
#[test]
fn a_coordinator_carries_limited_orders_further_with_a_worker_that_stays() {
    // Nobody else gets the port while no coordinator listens.
    let (_reserved, port) = reserved_port();
    let address = format!("127.0.0.1:{port}");
    let arguments = ["--coordinator", &address, "--threads", "1", "--patience", PATIENCE];
    let (data, mut helper) = until_hit(|| {
        let data = Data::new();
        let helper = Process::start(worker().args(arguments));
        for limit in ["9", "13"] {
            let before = data.units_on_record(8);
            // What every record is tried for takes long enough.
            let more = ["--max-size", limit, "--sample", "1"];
            let (mut leader, _) = coordinator(8, &data, &address, &more);
            eventually("more of the last order is done", || {
                !leader.is_running() || data.units_on_record(8) > before
            });
            // It may have been quicker.
            if !leader.is_killed() || data.status_at_rest()["order"]["order"] != 8 {
                return None;
            }
        }
        Some((data, helper))
    });
    assert!(helper.is_running(), "it has not heard that anything is done");
    let limits = data.status_at_rest()["orders_limited"].clone();
    assert_eq!(limits[5], json!([7, 9]), "{limits}");
    let (leader, _) = coordinator(8, &data, &address, &[]);
    let output = leader.finish();
    succeeded(&output);
    assert_eq!(stdout(&output), WHOLE);
    succeeded(&helper.finish());
    assert_eq!(data.alarms(), "no alarms\n");
    verified(&["8", "--level", "5", "--data", &data.text()]);
}

/// What is begun and not finished can be asked for up to few edges, and then be finished; what is
/// finished then is salvaged, whatever else there is.
#[test]
fn little_of_what_was_begun_can_be_asked_for_in_between() {
    for keep in ["all", "graphs", "minimal"] {
        let data = killed(keep, 600);
        let keep = ["--keep", keep];
        assert_eq!(limits(&limited(&data, 3, &keep))[7], Some(3));
        fs::write(data.path().join("store/CURRENT"), "nonsense").unwrap();
        fs::create_dir(data.path().join("store.salvaging")).unwrap();
        let salvaged = salvage(&data);
        assert!(!stderr(&salvaged).contains("left out"), "{}", stderr(&salvaged));
        assert_eq!(status(&["--data", &data.text()])["orders_limited"][0][0], 8);
        assert_eq!(census_json(8, &data, &keep), WHOLE);
    }
}

/// An order that was never finished goes as far as a later order needs it.
#[test]
fn what_was_never_done_need_not_be_done_to_the_end() {
    for keep in ["all", "minimal"] {
        let data = killed(keep, 100);
        let report = census_json(9, &data, &["--max-size", "6", "--keep", keep]);
        let limits = limits(&parsed(&report));
        assert_eq!(limits[7..], [Some(4), Some(6)], "{report}");
    }
}

/// What no graph of a class can have more of is no limit.
#[test]
fn a_limit_that_leaves_nothing_out_is_none() {
    let data = Data::new();
    let forests = ["--class", "forest", "--max-size", "9"];
    let report = parsed(&census_json(6, &data, &forests));
    assert_eq!(limits(&report), [None; 6]);
    assert_eq!(status(&["--data", &data.text()])["orders_limited"], Value::Null);
    let fewer = ["--class", "forest", "--max-size", "4"];
    assert_eq!(limits(&parsed(&census_json(6, &Data::new(), &fewer)))[5], Some(4));
}

/// Removes all blocks from a family.
fn remove_all(data: &Data, family: &str) {
    let db = data.database();
    let blocks = db.cf_handle(family).unwrap();
    for item in db.iterator_cf(blocks, rocksdb::IteratorMode::Start) {
        db.delete_cf(blocks, item.unwrap().0).unwrap();
    }
}

#[test]
fn a_plan_of_few_edges_is_smaller() {
    // How fast this machine is matters for none of these numbers.
    let plan = |order: &str, max_size: &str| {
        let asked = ["plan", order, "--max-size", max_size, "--json"];
        let output = run(&[&asked[..], &["--cores", "1", "--pair", "100"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        parsed(&stdout(&output))
    };
    let few = plan("12", "23");
    assert_eq!(few["graphs"], 1_669_373_808_u64);
    assert_eq!(few["max_size"], 23);
    // So many are all.
    assert_eq!(plan("9", "36")["max_size"], Value::Null);
}

/// Order 13 is never done to its end. Graphs with so few edges are as many as in any larger order,
/// and won as in orders that have as many; others are decided from them, and again without them.
#[test]
fn order_13_is_begun() {
    let data = Data::new();
    let column = |report: &Value, n: usize, name: &str| -> Vec<Value> {
        let rows = order(report, n)["by_size"].as_array().unwrap().iter();
        rows.map(|row| row[name].clone()).collect()
    };
    let found = parsed(&census_json(13, &data, &["--max-size", "6"]));
    // OEIS A000664.
    assert_eq!(column(&found, 13, "graphs"), [1, 1, 2, 5, 11, 26, 68]);
    // Labelled ones are the sets of so many of the 78 pairs.
    let labelled = column(&found, 13, "labelled").into_iter().map(|row| row["graphs"].clone());
    let sets = ["1", "78", "3003", "76076", "1426425", "21111090", "256851595"];
    assert!(labelled.eq(sets));
    // As in order 12, where six edges leave no vertex out; four do so in order 8.
    let wins = column(&found, 13, "p1_wins");
    assert_eq!(wins, [0, 1, 0, 1, 2, 4, 11]);
    assert_eq!(wins[..5], column(&parsed(WHOLE), 8, "p1_wins")[..5]);
    let sample = ["sample", "--order", "13", "--model", "gnm:11", "--samples", "40", "--seed"];
    let output = Data::new();
    let [endgame, output] = [&data, &output].map(Data::text);
    let from = ["1", "--endgame", &endgame, "--output", &output, "--recheck", "1", "--json"];
    let sampled = run(&[&sample[..], &from].concat());
    assert!(sampled.status.success(), "{}", stderr(&sampled));
    assert_eq!(parsed(&stdout(&sampled))["rechecked"], 40);
    let plan = ["plan", "sample", "--order", "13", "--model", "gnm:11", "--samples", "40"];
    let planned =
        run(&[&plan[..], &["--endgame", &endgame, "--calibrate", "1", "--json"]].concat());
    let planned = parsed(&stdout(&planned));
    assert_eq!(planned["calibration"]["cost"]["order"], 13);
    assert_eq!(planned["strata"][0]["status"], "measured");
    for more in [&[][..], &["--max-size", "21"]] {
        let refused = run(&[&["census", "13", "--data", &data.text()], more].concat());
        assert_eq!(refused.status.code(), Some(1));
        assert!(stderr(&refused).contains("up to 20 edges"), "{}", stderr(&refused));
    }
}

/// A small order whose outcomes have gone is not generated again for the next one, of which its
/// graphs are known without; but it is not carried further from what has gone either.
#[test]
fn what_has_gone_of_a_small_order_is_asked_for_only_where_it_is_needed() {
    let limited = Data::new();
    census_json(6, &limited, &["--max-size", "8", "--keep", "minimal"]);
    let refused = census(7, &limited, &[]);
    assert!(!refused.status.success() && stderr(&refused).contains("--force"));
    assert!(!stderr(&refused).contains("withdrawn until units"), "{}", stderr(&refused));
    // More of it is not done from what has gone, and would not be kept.
    let found = run_with_input(&["lookup", "--data", &limited.text()], "E~~w\n");
    let said = stderr(&found);
    assert!(said.contains("outcomes of order 6 were not kept"), "{said}");
    // A part of it is doubted, and the order can be solved again alone.
    let whole = Data::new();
    census_json(5, &whole, &["--keep", "minimal"]);
    let doubt = ["alarms", "--doubt", "3", "--shard", "1,1,0", "--because", "odd", "--force"];
    assert!(run(&[&doubt[..], &["--data", &whole.text()]].concat()).status.success());
    let disputed = run(&["export", "graphs", "5", "--data", &whole.text()]);
    let remedy = format!("`trailtrap census 5 --data {} --keep minimal`", whole.text());
    assert!(stderr(&disputed).contains(&remedy), "{}", stderr(&disputed));
    assert_eq!(census_json(6, &whole, &[]), expected(6));
}
