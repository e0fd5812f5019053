//! What large predecessors are looked up in is read ahead, by threads of their own, in the order in
//! which it is needed: who solves a large shard has nothing else in work meanwhile.

use std::{
    collections::HashMap,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use trailtrap_shared::partition::{Asked, BucketTable};

use super::{BucketKey, SolveError, Source};

/// A bucket of a predecessor that will be looked up in.
pub(super) struct Bucket {
    pub(super) key: BucketKey,
    /// About the bytes of its table.
    pub(super) bytes: usize,
    /// Of what is asked for, if the table need have no more.
    pub(super) asked: Option<Asked>,
}

/// The tables of some buckets, one after the other.
pub(super) struct ReadAhead<'a> {
    source: &'a dyn Source,
    /// Set to interrupt the work.
    stop: &'a AtomicBool,
    /// A table with which more bytes would be held is not begun, unless it is waited for.
    most_bytes: usize,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    buckets: Vec<Bucket>,
    /// The first that nobody has begun to read.
    next: usize,
    /// The first of which it is not known yet what is asked for.
    known: usize,
    /// What was read, and not yet taken.
    read: HashMap<usize, Result<Arc<BucketTable>, SolveError>>,
    /// Bytes of tables that were begun, and not given back.
    held_bytes: usize,
    /// Nothing more is to be begun.
    is_over: bool,
}

impl<'a> ReadAhead<'a> {
    /// Nothing is read yet; what is asked for is known of the buckets before `known`.
    pub(super) fn new(
        source: &'a dyn Source,
        stop: &'a AtomicBool,
        buckets: Vec<Bucket>,
        known: usize,
        most_bytes: usize,
    ) -> Self {
        let (read, next, held_bytes, is_over) = Default::default();
        let state = State { buckets, next, known, read, held_bytes, is_over };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        ReadAhead { source, stop, most_bytes, state, changed }
    }

    /// What `work` returns, beside which so many threads read; fewer if there is less that is not at
    /// hand, or if the system has no more.
    pub(super) fn beside<R>(&self, threads: usize, work: impl FnOnce() -> R) -> R {
        let is_missing = |bucket: &&Bucket| !self.source.is_at_hand(&bucket.key);
        let missing = self.state.lock().buckets.iter().filter(is_missing).count();
        thread::scope(|scope| {
            let _over = Over(self);
            for _ in 0..threads.min(missing) {
                let reader = thread::Builder::new().name("reader".to_owned());
                if reader.spawn_scoped(scope, || self.read()).is_err() {
                    break;
                }
            }
            work()
        })
    }

    /// What is asked for of the buckets before `known` is known: of these, the first of which it was
    /// not, it is this.
    pub(super) fn know(&self, asked: Vec<Bucket>, known: usize) {
        let mut state = self.state.lock();
        let first = state.known;
        for (bucket, asked) in state.buckets[first..].iter_mut().zip(asked) {
            *bucket = asked;
        }
        state.known = known;
        self.changed.notify_all();
    }

    /// The table of a bucket of which it is known what is asked for, the first that was not taken yet.
    /// Whoever waits for it reads others meanwhile, as far as there is room.
    ///
    /// # Errors
    ///
    /// It cannot be read, or the work was interrupted.
    pub(super) fn take(&self, bucket: usize) -> Result<Arc<BucketTable>, SolveError> {
        let mut state = self.state.lock();
        loop {
            if let Some(read) = state.read.remove(&bucket) {
                return read;
            }
            let is_waited_for = state.next == bucket;
            match is_waited_for || self.may_begin(&state) {
                true => self.read_next(&mut state),
                false => self.changed.wait(&mut state),
            }
        }
    }

    /// The tables of these buckets are not looked up in any more.
    pub(super) fn give_back(&self, buckets: Range<usize>) {
        let mut state = self.state.lock();
        let bytes: usize = state.buckets[buckets].iter().map(|bucket| bucket.bytes).sum();
        state.held_bytes -= bytes;
        self.changed.notify_all();
    }

    /// Reads until all is read, or nothing more is to be begun.
    fn read(&self) {
        let mut state = self.state.lock();
        while !state.is_over && state.next < state.buckets.len() {
            match self.may_begin(&state) {
                true => self.read_next(&mut state),
                false => self.changed.wait(&mut state),
            }
        }
    }

    /// Whether the next bucket may be read before it is waited for.
    fn may_begin(&self, state: &State) -> bool {
        !state.is_over
            && state.next < state.known
            && state.held_bytes + state.buckets[state.next].bytes <= self.most_bytes
    }

    /// Reads the next bucket, without the lock.
    fn read_next(&self, state: &mut MutexGuard<State>) {
        let (number, bucket) = (state.next, state.begin());
        let read =
            MutexGuard::unlocked(state, || catch_unwind(AssertUnwindSafe(|| self.table(&bucket))));
        // Nobody is to wait for what will not come.
        let lost = || Err(SolveError::Source("a thread that reads has panicked".into()));
        let (read, panic) = read.map_or_else(|panic| (lost(), Some(panic)), |read| (read, None));
        // What comes after it is not looked up in.
        state.is_over |= read.is_err();
        state.read.insert(number, read);
        self.changed.notify_all();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    fn table(&self, bucket: &Bucket) -> Result<Arc<BucketTable>, SolveError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(SolveError::Interrupted);
        }
        Ok(match &bucket.asked {
            Some(asked) => self.source.asked_table(&bucket.key, asked)?,
            None => self.source.table(&bucket.key)?,
        })
    }
}

impl State {
    /// The next bucket is being read now.
    fn begin(&mut self) -> Bucket {
        let bucket = &mut self.buckets[self.next];
        self.held_bytes += bucket.bytes;
        self.next += 1;
        Bucket { asked: bucket.asked.take(), ..*bucket }
    }
}

/// When this is dropped, also by a panic, those who read end with what they are at.
struct Over<'a>(&'a ReadAhead<'a>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use trailtrap_shared::{
        game::{Game, TrailTrap},
        graph::degree::DegreeSequence,
    };

    use super::{super::SourceError, *};

    /// Has empty tables, but for one that is lost, or at which whoever reads it panics, and counts what
    /// is read.
    #[derive(Default)]
    struct Counted {
        lost: Option<u32>,
        panics: bool,
        read: [AtomicUsize; 8],
        asked: AtomicUsize,
    }

    fn table(&BucketKey { sequence, bucket_bits, bucket }: &BucketKey) -> Arc<BucketTable> {
        let (layout, none) = (TrailTrap::LAYOUT, std::iter::empty());
        Arc::new(BucketTable::new(layout, sequence, bucket_bits, bucket, none, |_, _| {}))
    }

    impl Source for Counted {
        fn parents(&self, _: &DegreeSequence) -> Result<Arc<Vec<u64>>, SourceError> {
            Err("nothing is generated".into())
        }

        fn table(&self, key: &BucketKey) -> Result<Arc<BucketTable>, SourceError> {
            self.read[key.bucket as usize].fetch_add(1, Ordering::Relaxed);
            match self.lost == Some(key.bucket) {
                true if self.panics => panic!("a bug"),
                true => Err("it is lost".into()),
                false => Ok(table(key)),
            }
        }

        fn asked_table(
            &self,
            key: &BucketKey,
            _: &Asked,
        ) -> Result<Arc<BucketTable>, SourceError> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.table(key)
        }
    }

    fn buckets() -> Vec<Bucket> {
        let sequence = DegreeSequence::new(vec![1, 1, 0, 0]);
        let key = |bucket| BucketKey { sequence, bucket_bits: 3, bucket };
        (0..8).map(|bucket| Bucket { key: key(bucket), bytes: 10, asked: None }).collect()
    }

    /// All come in their order, each read once, however many threads read and however little is held;
    /// what is asked for is known of the last ones only when those before are taken.
    #[test]
    fn each_is_read_once_and_comes_in_its_order() {
        let stop = AtomicBool::new(false);
        for (threads, most_bytes) in (0..4).flat_map(|t| [(t, 0), (t, 10), (t, 1000)]) {
            let source = Counted::default();
            let ahead = ReadAhead::new(&source, &stop, buckets(), 5, most_bytes);
            ahead.beside(threads, || {
                for i in 0..8 {
                    if i == 5 {
                        assert!(source.read[5].load(Ordering::Relaxed) == 0, "not known yet");
                        let ask = |bucket| Bucket { asked: Some(Asked::new(4, 3, 1)), ..bucket };
                        ahead.know(buckets().into_iter().skip(5).take(2).map(ask).collect(), 8);
                    }
                    assert_eq!(ahead.take(i).unwrap().bucket(), i as u32);
                    assert!(ahead.state.lock().held_bytes <= most_bytes.max(10));
                    ahead.give_back(i..i + 1);
                }
            });
            let read = source.read.each_ref().map(|read| read.load(Ordering::Relaxed));
            assert_eq!(read, [1; 8]);
            assert_eq!(source.asked.load(Ordering::Relaxed), 2);
            assert_eq!(ahead.state.lock().held_bytes, 0);
        }
    }

    /// What is known is read before it is taken, as far as there is room.
    #[test]
    fn as_much_is_read_ahead_as_there_is_room_for() {
        let stop = AtomicBool::new(false);
        for (most_bytes, ahead_of) in [(10, 1), (30, 3), (39, 3), (1000, 5)] {
            let source = Counted::default();
            let ahead = ReadAhead::new(&source, &stop, buckets(), 5, most_bytes);
            ahead.beside(2, || {
                let mut state = ahead.state.lock();
                while state.read.len() < ahead_of {
                    ahead.changed.wait(&mut state);
                }
                assert!(state.next == ahead_of && !ahead.may_begin(&state));
            });
        }
    }

    /// Nobody waits for what a thread was to read that is no more.
    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_is_passed_on() {
        let stop = AtomicBool::new(false);
        let source = Counted { lost: Some(0), panics: true, ..Counted::default() };
        let ahead = ReadAhead::new(&source, &stop, buckets(), 8, 1000);
        ahead.beside(1, || {
            let mut state = ahead.state.lock();
            while !state.read.contains_key(&0) {
                ahead.changed.wait(&mut state);
            }
            drop(state);
            assert!(ahead.take(0).is_err());
        });
    }

    /// Nobody waits for a coordinator that is away once more, for what is not looked up in.
    #[test]
    fn nothing_is_begun_after_an_error() {
        let stop = AtomicBool::new(false);
        let source = Counted { lost: Some(2), ..Counted::default() };
        let ahead = ReadAhead::new(&source, &stop, buckets(), 8, 1000);
        ahead.beside(1, || {
            let mut state = ahead.state.lock();
            while !state.read.contains_key(&2) {
                ahead.changed.wait(&mut state);
            }
        });
        let read = source.read.each_ref().map(|read| read.load(Ordering::Relaxed));
        assert_eq!(read, [1, 1, 1, 0, 0, 0, 0, 0]);
    }

    /// An error comes in its turn, and whoever leaves is not waited for by those who read.
    #[test]
    fn errors_come_in_their_turn() {
        for threads in 0..4 {
            let stop = AtomicBool::new(false);
            let source = Counted { lost: Some(2), ..Counted::default() };
            let ahead = ReadAhead::new(&source, &stop, buckets(), 8, 1000);
            ahead.beside(threads, || {
                assert!(ahead.take(0).is_ok() && ahead.take(1).is_ok());
                assert!(matches!(ahead.take(2), Err(SolveError::Source(_))));
            });
            stop.store(true, Ordering::Relaxed);
            let ahead = ReadAhead::new(&source, &stop, buckets(), 8, 0);
            let interrupted = ahead.beside(threads, || ahead.take(0));
            assert!(matches!(interrupted, Err(SolveError::Interrupted)));
        }
    }
}
