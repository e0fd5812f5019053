//! Whatever happens, in whatever order: nothing that was acknowledged is lost or counts twice,
//! whatever is durable was computed from what is durable, nothing is taken back before an alarm
//! about it is durable, no lease number comes twice, and the census ends, with right results,
//! whatever mix of honest and lying workers there is, with one honest one, if every record is
//! tried or every unit compared. Nobody is blamed who did not lie, and whoever is told that a
//! result is wrong is named. But what could not be found out since a run ended is decided by two
//! others who agree later, as README says: once a run has ended, no two lie alike here.
//!
//! Most of that is asserted by [`World`], after every event. What workers do is drawn here.

use proptest::prelude::*;

use super::{super::order::SIZES_KEPT, Disk, HeldWork, Way, World};

/// One thing that happens. The numbers choose among what there is to choose from.
#[derive(Clone, Debug)]
enum Happening {
    Ask {
        worker: usize,
    },
    Deliver {
        held: usize,
        lie: u8,
        again: bool,
    },
    GiveBack {
        held: usize,
        fails: bool,
    },
    Renew {
        held: usize,
    },
    /// More than a lease lasts.
    Silence,
    /// Some thread does what it is to do.
    CarryOut {
        which: usize,
    },
    Commit {
        most: usize,
    },
    /// The coordinator is killed, while so much of a group is written.
    Kill {
        steps: usize,
    },
    Damage {
        which: usize,
    },
    /// What a worker states of a unit of others is wrong.
    Miscount {
        worker: usize,
    },
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::*;
    prop_oneof![
        12 => (0..NAMES.len()).prop_map(|worker| Ask { worker }),
        12 => (any::<usize>(), any::<u8>(), prop::bool::weighted(0.1))
            .prop_map(|(held, lie, again)| Deliver { held, lie, again }),
        2 => any::<(usize, bool)>().prop_map(|(held, fails)| GiveBack { held, fails }),
        2 => any::<usize>().prop_map(|held| Renew { held }),
        1 => Just(Silence),
        20 => any::<usize>().prop_map(|which| CarryOut { which }),
        10 => (1usize..4).prop_map(|most| Commit { most }),
        1 => (0usize..4).prop_map(|steps| Kill { steps }),
        1 => any::<usize>().prop_map(|which| Damage { which }),
        1 => (0..NAMES.len()).prop_map(|worker| Miscount { worker }),
    ]
}

/// Ann is honest always, and Bea if two are. Each of the others lies in its own way, and Mal calls
/// himself Ann.
const NAMES: [&str; 6] = ["Ann", "Bea", "Cid", "Dan", "Eve", "Mal"];

fn worker_of(world: &World, held: &HeldWork) -> Option<&'static str> {
    NAMES.into_iter().find(|&name| world.workers.get(name) == Some(&held.worker))
}

impl World {
    fn is_honest(&self, name: &str) -> bool {
        name == "Ann" || name == "Bea" && self.two_honest
    }

    /// How a worker lies in this delivery, if it does.
    fn way(&self, name: &str, lie: u8) -> Way {
        if self.is_honest(name) {
            return Way::Right;
        }
        let alone = match name {
            "Bea" => Way::Wrong(2),
            "Cid" => Way::Wrong(3),
            "Eve" => Way::Wrong(5),
            _ => Way::Wrong(6),
        };
        let like = |way| if self.was_killed { alone } else { way };
        match (name, lie % 6) {
            ("Bea", 0) => Way::Wrong(2),
            ("Bea", 1) => like(Way::Misled),
            ("Cid", 0 | 1) => Way::Wrong(3),
            ("Cid", 2) => like(Way::Misled),
            ("Dan", 0) => Way::Miscounted,
            ("Dan", 1) => Way::Wrong(4),
            ("Dan", 2) => Way::Swapped,
            ("Eve", 0..=3) => like(Way::Light),
            ("Eve", 4) => Way::Wrong(5),
            ("Mal", 0) => Way::Wrong(6),
            ("Mal", 1) => like(Way::Light),
            ("Mal", 2) => like(Way::Misled),
            _ => Way::Right,
        }
    }

    fn happen(&mut self, happening: &Happening) {
        match *happening {
            // Ann's name is not to be had while she lives.
            Happening::Ask { worker } if NAMES[worker] != "Mal" || self.hears_of("Ann") => {
                self.ask(NAMES[worker]);
            }
            Happening::Deliver { held, lie, again } if !self.held.is_empty() => {
                let place = held % self.held.len();
                let held = self.held[place].clone();
                if !again {
                    self.held.swap_remove(place);
                }
                if let Some(name) = worker_of(self, &held) {
                    self.deliver_and_wait(name, &held, self.way(name, lie), lie < 200);
                }
            }
            Happening::GiveBack { held, fails } if !self.held.is_empty() => {
                let held = self.held.swap_remove(held % self.held.len());
                // What fails at five workers is set aside, and that is another story.
                let fails =
                    fails && ["Cid", "Dan", "Eve"].map(Some).contains(&worker_of(self, &held));
                let failure = fails.then_some("no");
                self.core.give_back(held.worker, held.lease, failure);
                self.collect();
            }
            Happening::Renew { held } if !self.held.is_empty() => {
                let held = self.held[held % self.held.len()].clone();
                self.core.hear(held.worker);
                self.core.renew(held.worker, &[held.lease]);
            }
            Happening::Silence => self.now += super::TERM * 2,
            Happening::CarryOut { which } if !self.todo.is_empty() => {
                let effect = self.todo.swap_remove(which % self.todo.len());
                self.carry_out(effect);
            }
            Happening::Commit { most } => {
                self.commit(most, None);
            }
            Happening::Kill { steps } => self.kill(steps),
            Happening::Damage { which } if !self.disk.units.is_empty() => {
                let units: Vec<_> = self.disk.units.keys().copied().collect();
                self.damage(units[which % units.len()]);
            }
            Happening::Miscount { worker } if !self.is_honest(NAMES[worker]) => {
                self.miscount(NAMES[worker], |_, _| true);
                self.collect();
            }
            _ => {}
        }
        self.assert_it_goes_on();
    }

    /// Whether a worker was heard of within a term.
    fn hears_of(&self, name: &str) -> bool {
        let mut workers = self.core.workers();
        workers.any(|(_, worker, _)| {
            worker.author.name() == name && self.now.saturating_sub(worker.seen) < super::TERM
        })
    }

    /// The coordinator is killed, while it writes if there is something to write.
    fn kill(&mut self, steps: usize) {
        self.was_killed = true;
        if !self.commit(3, Some(steps)) {
            self.start();
        }
    }

    /// Nothing that workers do ends a census.
    fn assert_it_goes_on(&self) {
        if let Some(Err(fault)) = self.core.ended() {
            panic!("{fault}\n{}", self.log.join("\n"));
        }
    }

    /// Honest work goes on until the census ends. The others keep what they hold, and say that
    /// they are alive.
    fn work_honestly(&mut self) {
        let honest: Vec<&str> = NAMES.into_iter().filter(|name| self.is_honest(name)).collect();
        for round in 0.. {
            assert!(round < 10_000, "the census does not end\n{}", self.log.join("\n"));
            self.run();
            if matches!(self.core.ended(), Some(Ok(()))) {
                return;
            }
            self.assert_it_goes_on();
            self.now += super::TERM / 10;
            self.core.set_now(self.now);
            let held = self.held.iter();
            for (worker, lease) in held.map(|held| (held.worker, held.lease)).collect::<Vec<_>>() {
                self.core.hear(worker);
                self.core.renew(worker, &[lease]);
            }
            let name = honest[round % honest.len()];
            if self.ask(name) {
                let held = self.held.pop().expect("just leased");
                self.deliver(name, &held, Way::Right);
            }
        }
    }
}

/// The records of an undisturbed census.
fn undisturbed(target: usize, part_graphs: u64) -> Disk {
    let mut world = World::new(target, 0.0, part_graphs);
    world.work_honestly();
    world.disk
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_census_ends_right_whatever_happens(
        happenings in prop::collection::vec(happening(), 0..400),
        tries_all: bool,
        two_honest: bool,
        keep in 0usize..3,
        part_graphs in prop_oneof![Just(1u64), Just(1000)],
    ) {
        let mut world = World::new(5, 0.0, part_graphs);
        world.two_honest = two_honest;
        world.compared_share = if tries_all { 0.3 } else { 1.0 };
        world.tries_all = tries_all;
        world.outcomes_kept = keep == 0;
        world.sizes_kept = if keep == 1 { SIZES_KEPT } else { 0 };
        for happening in &happenings {
            world.happen(happening);
        }
        world.work_honestly();
        let expected = undisturbed(5, part_graphs);
        prop_assert_eq!(world.disk.units.len(), expected.units.len());
        for (unit, record) in &world.disk.units {
            prop_assert!(record.agrees(&expected.units[unit]), "{:?} is wrong", unit);
        }
        let blamed = world.disk.alarms.values().flat_map(|alarm| &alarm.blamed);
        for author in blamed {
            prop_assert!(!world.is_honest(author.name()), "{} is innocent", author);
        }
    }
}
