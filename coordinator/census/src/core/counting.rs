//! Units that workers count again for the coordinator: which of them wait for somebody, who has
//! which, and what was stated. A pure state machine.

use std::collections::BTreeMap;

use super::WorkerId;
use crate::records::Author;

/// Units wait until so many bytes of them do for each worker that can count them, which takes it
/// some seconds; more the coordinator counts.
const WAITING_BYTES_EACH: u64 = 128 << 20;
/// A worker of which so many tasks in a row run out is given none until it states something.
const MOST_LATE: u32 = 3;
/// So many tasks are put out at a time, at most.
const MOST_TASKS: usize = 128;

/// Tasks of a kind `T`, of which something of a kind `S` is stated.
pub struct CountDesk<T, S> {
    next: u64,
    /// Those who wait for something to count.
    idle: BTreeMap<WorkerId, Counter>,
    tasks: BTreeMap<u64, Task<T, S>>,
    /// How many tasks of workers have run out since they stated something last.
    late: BTreeMap<WorkerId, u32>,
}

/// A worker that counts.
struct Counter {
    author: Author,
    /// Bytes that a bucket may take.
    room: u64,
}

struct Task<T, S> {
    /// Who has solved it, and so does not count it.
    solver: Author,
    /// Bytes of its unit, and of the largest bucket of it.
    bytes: u64,
    bucket_bytes: u64,
    stage: Stage<T, S>,
}

enum Stage<T, S> {
    Waiting(T),
    Taken(WorkerId, Counter),
    Done(Counted<S>),
}

/// What came of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted<S> {
    /// This worker has stated this.
    Stated(WorkerId, S),
    /// Nobody is left to count it, or whoever had it could not.
    Failed,
}

impl Counter {
    fn can(&self, solver: &Author, bucket_bytes: u64) -> bool {
        !self.author.is(solver) && self.room >= bucket_bytes
    }
}

impl<T, S> CountDesk<T, S> {
    /// Nothing to count. Tasks have numbers beyond `last`.
    pub fn new(last: u64) -> Self {
        let (idle, tasks, late) = Default::default();
        CountDesk { next: last, idle, tasks, late }
    }

    /// How many workers could count such a unit, now or when they have counted something else.
    fn counters(&self, solver: &Author, bucket_bytes: u64) -> usize {
        let busy = self.tasks.values().filter_map(|task| match &task.stage {
            Stage::Taken(_, counter) => Some(counter),
            _ => None,
        });
        let counters = self.idle.values().chain(busy);
        counters.filter(|counter| counter.can(solver, bucket_bytes)).count()
    }

    /// Puts out a task about a unit of `solver` of so many bytes, of which a bucket takes at most
    /// so many. `None` if there is nobody else to count it, or if those have enough to do.
    pub fn put(&mut self, solver: &Author, bytes: u64, bucket_bytes: u64, task: T) -> Option<u64> {
        let is_waiting = |task: &&Task<T, S>| matches!(task.stage, Stage::Waiting(_));
        let waiting: u64 = self.tasks.values().filter(is_waiting).map(|task| task.bytes).sum();
        let most = WAITING_BYTES_EACH * self.counters(solver, bucket_bytes) as u64;
        if waiting >= most || self.tasks.len() >= MOST_TASKS {
            return None;
        }
        self.next += 1;
        let (solver, stage) = (solver.clone(), Stage::Waiting(task));
        self.tasks.insert(self.next, Task { solver, bytes, bucket_bytes, stage });
        Some(self.next)
    }

    /// A worker of which a bucket may take `room` bytes wants something to count: the oldest task
    /// that is not about a unit of its own, or it waits for one. What it still has is given up.
    pub fn take(&mut self, worker: WorkerId, author: &Author, room: u64) -> Option<(u64, T)> {
        self.give_up(|task| matches!(task.stage, Stage::Taken(by, _) if by == worker));
        if self.late.get(&worker).is_some_and(|&late| late >= MOST_LATE) {
            return None;
        }
        let counter = Counter { author: author.clone(), room };
        let is_for_worker = |task: &Task<T, S>| {
            let is_waiting = matches!(task.stage, Stage::Waiting(_));
            is_waiting && counter.can(&task.solver, task.bucket_bytes)
        };
        let found = self.tasks.iter().find(|(_, task)| is_for_worker(task));
        let Some(number) = found.map(|(&number, _)| number) else {
            self.idle.insert(worker, counter);
            return None;
        };
        self.idle.remove(&worker);
        let task = self.tasks.get_mut(&number)?;
        match std::mem::replace(&mut task.stage, Stage::Taken(worker, counter)) {
            Stage::Waiting(task) => Some((number, task)),
            _ => None,
        }
    }

    /// A worker does not wait any more. What nobody can count now has failed.
    pub fn leave(&mut self, worker: WorkerId) {
        if self.idle.remove(&worker).is_none() {
            return;
        }
        let is_left = |task: &Task<T, S>| {
            let is_waiting = matches!(task.stage, Stage::Waiting(_));
            is_waiting && self.counters(&task.solver, task.bucket_bytes) == 0
        };
        let left = self.tasks.iter().filter(|(_, task)| is_left(task));
        for number in left.map(|(&number, _)| number).collect::<Vec<u64>>() {
            if let Some(task) = self.tasks.get_mut(&number) {
                task.stage = Stage::Done(Counted::Failed);
            }
        }
    }

    /// Nothing that was put out so far is to be counted any more.
    pub fn clear(&mut self) {
        self.give_up(|_| true);
    }

    fn give_up(&mut self, is_it: impl Fn(&Task<T, S>) -> bool) {
        for task in self.tasks.values_mut().filter(|task| is_it(task)) {
            task.stage = Stage::Done(Counted::Failed);
        }
    }

    /// A worker states what came of a task, or that it could not count it (`None`). Nothing happens
    /// if it does not have that task.
    pub fn state(&mut self, worker: WorkerId, number: u64, stated: Option<S>) {
        self.late.remove(&worker);
        if let Some(task) = self.tasks.get_mut(&number)
            && matches!(task.stage, Stage::Taken(by, _) if by == worker)
        {
            let stated = stated.map(|statement| Counted::Stated(worker, statement));
            task.stage = Stage::Done(stated.unwrap_or(Counted::Failed));
        }
    }

    /// What came of a task, which is over with that; `None` as long as nothing has.
    pub fn collect(&mut self, number: u64) -> Option<Counted<S>> {
        match self.tasks.remove(&number)? {
            Task { stage: Stage::Done(counted), .. } => Some(counted),
            task => {
                self.tasks.insert(number, task);
                None
            }
        }
    }

    /// Nobody waits for a task any more. A worker that has it has taken too long, or its answer was
    /// lost: it is given another when it asks for one, unless that was the third in a row.
    pub fn withdraw(&mut self, number: u64) {
        if let Some(Task { stage: Stage::Taken(worker, _), .. }) = self.tasks.remove(&number) {
            *self.late.entry(worker).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn author(name: &str) -> Author {
        Author::new(name, "portable")
    }

    fn desk() -> CountDesk<&'static str, u32> {
        CountDesk::new(0)
    }

    #[test]
    fn nobody_counts_what_it_has_solved_or_has_no_room_for() {
        let (mut desk, [ann, bea, cid]) = (desk(), ["a", "b", "c"].map(author));
        assert_eq!(desk.put(&ann, 10, 10, "nobody is there"), None);
        assert_eq!(desk.take(1, &ann, 100), None);
        assert_eq!(desk.put(&ann, 10, 10, "only its solver is there"), None);
        assert_eq!(desk.take(2, &bea, 9), None);
        assert_eq!(desk.put(&ann, 10, 10, "it is too large"), None);
        assert_eq!(desk.take(3, &cid, 10), None);
        let one = desk.put(&ann, 10, 10, "one").unwrap();
        for (worker, author, room) in [(1, &ann, 100), (2, &bea, 9)] {
            assert_eq!(desk.take(worker, author, room), None);
        }
        assert_eq!(desk.take(3, &cid, 10), Some((one, "one")));
        assert_eq!(desk.take(2, &bea, 10), None, "it is taken");
    }

    #[test]
    fn what_is_stated_by_whoever_has_a_task_is_collected_once() {
        let (mut desk, [ann, bea]) = (desk(), ["a", "b"].map(author));
        desk.take(2, &bea, 10);
        let [one, two] = [1, 2].map(|_| desk.put(&ann, 10, 10, "task").unwrap());
        assert_eq!(desk.take(2, &bea, 10).map(|(number, _)| number), Some(one));
        desk.state(3, one, Some(7));
        desk.state(2, two, Some(7));
        assert_eq!([one, two].map(|number| desk.collect(number)), [None, None]);
        desk.state(2, one, Some(7));
        desk.state(2, one, Some(8));
        assert_eq!(desk.collect(one), Some(Counted::Stated(2, 7)));
        assert_eq!(desk.collect(one), None);
        assert_eq!(desk.take(2, &bea, 10).map(|(number, _)| number), Some(two));
        desk.state(2, two, None);
        assert_eq!(desk.collect(two), Some(Counted::Failed));
    }

    #[test]
    fn no_more_waits_than_those_who_are_there_can_count() {
        let (mut desk, [ann, bea]) = (desk(), ["a", "b"].map(author));
        let put = |desk: &mut CountDesk<_, _>, bytes| desk.put(&ann, bytes, 10, "task");
        desk.take(2, &bea, 10);
        let half = WAITING_BYTES_EACH / 2;
        let numbers = [half - 1, half, half].map(|bytes| put(&mut desk, bytes).unwrap());
        assert_eq!(put(&mut desk, 1), None);
        desk.withdraw(numbers[0]);
        assert_eq!(put(&mut desk, 1), None);
        desk.withdraw(numbers[1]);
        let huge = put(&mut desk, 10 * WAITING_BYTES_EACH);
        assert!(huge.is_some(), "one more, however large");
        assert_eq!(desk.take(2, &bea, 10).map(|(number, _)| number), Some(numbers[2]));
        assert_eq!(put(&mut desk, 1), None, "the huge one waits");
        desk.withdraw(huge.unwrap());
        assert!(put(&mut desk, 1).is_some(), "for whoever is busy now");
        while put(&mut desk, 1).is_some() {}
        assert_eq!(desk.tasks.len(), MOST_TASKS);
    }

    #[test]
    fn who_is_late_or_asks_again_gives_up_what_it_has() {
        let (mut desk, [ann, bea]) = (desk(), ["a", "b"].map(author));
        desk.take(2, &bea, 10);
        let [one, two, three] = [1, 2, 3].map(|_| desk.put(&ann, 10, 10, "task").unwrap());
        assert_eq!(desk.take(2, &bea, 10), Some((one, "task")));
        assert_eq!(desk.take(2, &bea, 10), Some((two, "task")));
        assert_eq!(desk.collect(one), Some(Counted::Failed));
        desk.withdraw(two);
        assert_eq!(desk.take(2, &bea, 10), Some((three, "task")), "its last answer may be lost");
        desk.clear();
        assert_eq!(desk.collect(three), Some(Counted::Failed));
        desk.take(2, &bea, 10);
        let more = [1, 2, 3].map(|_| desk.put(&ann, 10, 10, "task").unwrap());
        for number in &more[..2] {
            assert_eq!(desk.take(2, &bea, 10), Some((*number, "task")));
            desk.withdraw(*number);
        }
        assert_eq!(desk.take(2, &bea, 10), None, "three have run out");
        desk.state(2, more[1], Some(7));
        assert_eq!(desk.take(2, &bea, 10), Some((more[2], "task")));
    }

    #[test]
    fn what_nobody_is_left_to_count_has_failed() {
        let (mut desk, [ann, bea, cid]) = (desk(), ["a", "b", "c"].map(author));
        desk.take(1, &ann, 10);
        desk.take(2, &bea, 10);
        let of_ann = desk.put(&ann, 10, 10, "of ann").unwrap();
        let of_cid = desk.put(&cid, 10, 10, "of cid").unwrap();
        desk.leave(2);
        assert_eq!(desk.collect(of_ann), Some(Counted::Failed));
        assert_eq!(desk.collect(of_cid), None, "ann is there");
        // Who is busy will come back.
        assert_eq!(desk.take(1, &ann, 10), Some((of_cid, "of cid")));
        desk.leave(1);
        let another = desk.put(&cid, 10, 10, "another").unwrap();
        desk.leave(3);
        assert_eq!(desk.collect(another), None);
    }
}
