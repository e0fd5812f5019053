//! Stories: what happens to a census, one sentence a line, and what the core does about it.
//!
//! They are told in `stories/*.txt`. `datadriven` and not `insta`: a story goes on from sentence
//! to sentence, and what each of them brings about stands right below it; a snapshot would hold
//! the effects alone, away from what caused them, and would want a program to review it. With
//! `REWRITE=1` the test writes what comes of the stories, and fails; then read the difference. With
//! `RUN=leases.txt` only these are told.

use std::{env, fmt::Write, time::Duration};

use datadriven::{TestCase, walk};

use super::{Disk, HeldWork, Way, World};

/// A census of small orders. Arguments: `order`, the last; `open`, the one in work, all before
/// being done by a worker named Z; `compared`, the share that is solved twice; `parts`, the graphs
/// in a part; flags `tried` and `minimal`.
fn begin(case: &mut TestCase) -> World {
    let argument = |case: &mut TestCase, name: &str, default: u64| {
        case.try_take_arg::<u64>(name).expect("a number").unwrap_or(default)
    };
    let order = argument(case, "order", 3) as usize;
    let open = argument(case, "open", order as u64) as usize;
    let compared = argument(case, "compared", 0) as f64;
    let parts = argument(case, "parts", 1000);
    let mut world = World::new(order, 0.0, parts);
    world.outcomes_kept = !case.take_flag("minimal").expect("a flag");
    world.tries_all = case.take_flag("tried").expect("a flag");
    case.expect_empty().expect("known arguments");
    world.run();
    while world.core.order().is_some_and(|order| order.plan().order < open) {
        assert!(world.ask("Z"), "there is work");
        let held = world.held.pop().expect("just leased");
        world.deliver("Z", &held, Way::Right);
        world.run();
    }
    let disk = std::mem::take(&mut world.disk);
    world.disk = Disk { epoch: 0, edition: 0, ..disk };
    world.compared_share = compared;
    world.leases.clear();
    world.start();
    world.log.clear();
    world
}

/// What a worker holds, or held: its last lease, or the one with this unit.
fn held(world: &World, name: &str, unit: Option<&str>) -> HeldWork {
    let worker = world.workers[name];
    let mut held = world.held.iter().rev().filter(|held| held.worker == worker);
    let has = |held: &&HeldWork| {
        unit.is_none_or(|unit| held.units.iter().any(|&u| world.name(u) == unit))
    };
    held.find(has).unwrap_or_else(|| panic!("{name} has not leased {unit:?}")).clone()
}

fn tell(world: &mut World, sentence: &str) {
    let words: Vec<&str> = sentence.trim_end_matches('.').split_whitespace().collect();
    match words[..] {
        [seconds, "s", "pass"] => {
            world.now += Duration::from_secs(seconds.parse().expect("seconds"));
            world.core.set_now(world.now);
        }
        [name, "asks"] => {
            world.ask(name);
        }
        [name, "renews"] => {
            let held = held(world, name, None);
            world.core.hear(held.worker);
            world.core.renew(held.worker, &[held.lease]);
        }
        [name, "renews", "for", seconds, "s"] => {
            for _ in 0..seconds.parse::<usize>().expect("seconds") / 50 {
                tell(world, "50 s pass");
                tell(world, &format!("{name} renews"));
            }
        }
        [name, "delivers", ref rest @ ..] => {
            let unit = rest.iter().find(|word| word.starts_with('u')).copied();
            let held = held(world, name, unit);
            let way = match rest.last() {
                Some(&"wrongly") => Way::Wrong(name.as_bytes()[0]),
                Some(&"miscounted") => Way::Miscounted,
                Some(&"light") => Way::Light,
                Some(&"swapped") => Way::Swapped,
                Some(&"misled") => Way::Misled,
                _ => Way::Right,
            };
            world.deliver(name, &held, way);
        }
        [name, "miscounts", unit] => {
            world.miscount(name, |world, known| world.name(known) == unit)
        }
        [name, "sends", "what", "nobody", "can", "read"] => {
            let held = held(world, name, None);
            world.deliver_unreadable(name, &held);
        }
        [name, "gives", "back"] => {
            let held = held(world, name, None);
            world.core.give_back(held.worker, held.lease, None);
        }
        [name, "fails", ref why @ ..] => {
            let held = held(world, name, None);
            world.core.give_back(held.worker, held.lease, Some(&why.join(" ")));
        }
        ["B", "to", "F", "ask", "and", "fail"] => {
            for name in ["B", "C", "D", "E", "F"] {
                tell(world, &format!("{name} asks"));
                tell(world, &format!("{name} fails out of memory"));
            }
        }
        [name, "works", "up", "to", unit] => {
            // Others get what was leased with it.
            loop {
                assert!(world.ask(name), "{unit} is there to be leased");
                let held = held(world, name, None);
                if held.units.iter().any(|&leased| world.name(leased) == unit) {
                    break;
                }
                world.deliver(name, &held, Way::Right);
                world.run();
            }
            world.log.drain(..world.log.len() - 1);
        }
        [name, "finishes", "the", "order"] => {
            let order = world.core.order().map(|order| order.plan().order);
            while world.core.order().map(|order| order.plan().order) == order && world.ask(name) {
                let held = world.held.pop().expect("just leased");
                world.deliver(name, &held, Way::Right);
                world.run();
            }
            // What was leased and accepted on the way is another story.
            world.log.retain(|line| line.starts_with("order") || line.starts_with("dropped"));
        }
        ["the", "judge", "is", "at", "a", "loss"] => world.at_a_loss = true,
        ["the", "judge", "ponders"] => world.pondered = Some(Vec::new()),
        ["the", "judge", "has", "pondered"] => {
            world.todo.extend(world.pondered.take().expect("the judge ponders"));
        }
        ["nobody", "finds", "what", "comes", "next"] => world.lacks = true,
        ["the", "coordinator", "miscounts"] => world.miscounts = true,
        ["the", "coordinator", "fails"] => world.fails = true,
        ["the", "coordinator", "comes", "to", "the", "same"] => world.repeats = true,
        ["a", "block", "of", unit, "is", "damaged"] => {
            let known = world.disk.units.keys().find(|&&known| world.name(known) == unit);
            world.damage(*known.expect("a unit of the store"));
        }
        ["the", "committer", "goes", "on"] => {
            assert!(world.commit(1, None), "there is nothing to commit");
        }
        [count, "of", "the", "others", "go", "on"] => {
            for _ in 0..count.parse().expect("a number") {
                let effect = world.todo.remove(0);
                world.carry_out(effect);
                world.collect();
            }
        }
        ["the", "last", "of", "the", "others", "goes", "on"] => {
            let effect = world.todo.pop().expect("there is one");
            world.carry_out(effect);
        }
        ["the", "others", "go", "on"] => {
            while !world.todo.is_empty() {
                let effect = world.todo.remove(0);
                world.carry_out(effect);
            }
        }
        ["everybody", "goes", "on"] => world.run(),
        ["the", "coordinator", "is", "killed"] => world.start(),
        ["the", "coordinator", "closes"] => world.core.close(),
        ["who", "is", "left"] => {
            for (_, worker, units) in world.core.workers() {
                let trust = if worker.distrusted { ", not trusted" } else { "" };
                world.log.push(format!("{} holds {units} units{trust}", worker.author.name()));
            }
        }
        ["what", "alarms", "say"] => {
            for (number, alarm) in &world.disk.alarms {
                world.log.push(format!("alarm {number}: {}", alarm.text));
            }
        }
        ["what", "is", "set", "aside"] => {
            for set_aside in world.core.progress().set_aside {
                let name = world.name(set_aside.unit);
                world.log.push(format!("{name}: {}", set_aside.failures.join("; ")));
            }
        }
        _ => panic!("nobody knows what this means: {sentence}"),
    }
    world.collect();
}

/// `begin` begins a census, and `tell` goes on: after every sentence everybody does what is to be
/// done. `slowly` goes on too, but nobody does anything that the story does not say.
#[test]
fn stories_end_as_they_are_told() {
    let mut files = 0;
    walk("src/core/stories", |file| {
        files += 1;
        let mut world = World::new(1, 0.0, 1000);
        file.run(|case| -> String {
            let directive = case.directive.clone();
            if directive == "begin" {
                world = begin(case);
                world.run();
            }
            for sentence in case.input.lines() {
                tell(&mut world, sentence);
                if directive != "slowly" {
                    world.run();
                }
            }
            let mut text = String::new();
            for line in std::mem::take(&mut world.log) {
                writeln!(text, "{line}").expect("text can be written to a text");
            }
            if let Some(ended) = world.core.ended() {
                let how = ended.as_ref().map_or_else(ToString::to_string, |()| "well".to_owned());
                writeln!(text, "the census has ended: {how}").expect("as above");
            }
            text
        });
    });
    // Both variables are those of `datadriven`, and may have been set for something else.
    let run = env::var_os("RUN");
    assert!(files > 0, "no story was told: none is in the file that RUN names, {run:?}");
    let is_written = env::var_os("REWRITE").is_some();
    assert!(!is_written, "read what was written, and run this without REWRITE");
}
