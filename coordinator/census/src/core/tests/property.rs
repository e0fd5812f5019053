//! Whatever happens, in whatever order: nothing that was acknowledged is lost or counts twice,
//! whatever is durable was computed from what is durable, nothing is taken back before an alarm
//! about it is durable, no lease number comes twice, and the census ends, with right results.
//!
//! Most of that is asserted by [`World`], after every event. What workers do is drawn here.

use proptest::prelude::*;

use super::{Disk, Held, Way, World};

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
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::*;
    prop_oneof![
        12 => (0usize..5).prop_map(|worker| Ask { worker }),
        12 => (any::<usize>(), any::<u8>(), prop::bool::weighted(0.1))
            .prop_map(|(held, lie, again)| Deliver { held, lie, again }),
        1 => any::<usize>().prop_map(|held| GiveBack { held }),
        2 => any::<usize>().prop_map(|held| Renew { held }),
        1 => Just(Silence),
        20 => any::<usize>().prop_map(|which| CarryOut { which }),
        10 => (1usize..4).prop_map(|most| Commit { most }),
        1 => (0usize..4).prop_map(|steps| Kill { steps }),
        1 => any::<usize>().prop_map(|which| Damage { which }),
    ]
}

/// The first two workers are honest; each of the others lies in its own way.
const NAMES: [&str; 5] = ["Ann", "Bea", "Cid", "Dan", "Eve"];

fn name_of(world: &World, held: &Held) -> Option<&'static str> {
    NAMES.into_iter().find(|&name| world.workers.get(name) == Some(&held.worker))
}

impl World {
    /// How a worker lies in this delivery, if it does.
    fn way(&self, name: &str, lie: u8) -> Way {
        // Whoever leaves graphs out of a part twice, and is not tried, ends the census: nobody
        // knows yet which part it is.
        let can_be_blamed = self.tries_all || self.split.part_graphs > 1;
        match (name, lie % 4) {
            ("Cid", 0 | 1) => Way::Wrong(3),
            ("Dan", 0) => Way::Miscounted,
            ("Dan", 1) => Way::Wrong(4),
            ("Eve", 0) if can_be_blamed => Way::Light,
            ("Eve", 1) => Way::Wrong(5),
            _ => Way::Right,
        }
    }

    fn happen(&mut self, happening: &Happening) {
        match *happening {
            Happening::Ask { worker } => {
                self.ask(NAMES[worker]);
            }
            Happening::Deliver { held, lie, again } if !self.held.is_empty() => {
                let place = held % self.held.len();
                let held = self.held[place].clone();
                if !again {
                    self.held.swap_remove(place);
                }
                if let Some(name) = name_of(self, &held) {
                    self.deliver_and_wait(name, &held, self.way(name, lie), lie < 200);
                }
            }
            Happening::GiveBack { held } if !self.held.is_empty() => {
                let held = self.held.swap_remove(held % self.held.len());
                self.core.give_back(held.worker, held.lease, None);
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
            _ => {}
        }
        self.start_again_if_stuck();
    }

    /// The coordinator is killed, while it writes if there is something to write.
    fn kill(&mut self, steps: usize) {
        if !self.commit(3, Some(steps)) {
            self.start();
        }
    }

    /// Units that failed again and again are tried again by the next start.
    fn start_again_if_stuck(&mut self) {
        if let Some(Err(fault)) = self.core.ended() {
            assert!(matches!(fault, super::Fault::SetAside { .. }), "{fault}");
            self.start();
        }
    }

    /// Honest work goes on until the census ends.
    fn work_honestly(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "the census does not end");
            self.run();
            if matches!(self.core.ended(), Some(Ok(()))) {
                return;
            }
            self.start_again_if_stuck();
            // Whoever fell silent has lost what it held.
            self.now += super::TERM / 10;
            let name = NAMES[round % 2];
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
        part_graphs in prop_oneof![Just(1u64), Just(1000)],
    ) {
        let mut world = World::new(5, 0.0, part_graphs);
        world.compared_share = if tries_all { 0.3 } else { 1.0 };
        world.tries_all = tries_all;
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
            prop_assert!(!["Ann", "Bea"].contains(&author.name()), "{} is innocent", author);
        }
    }
}
