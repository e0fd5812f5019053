//! Tables are read by threads of their own while those that solve go on: who solves a large shard
//! has nothing else in work meanwhile.

use std::{
    ops::Range,
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use trailtrap_shared::partition::BucketTable;

use super::SolveError;

/// The tables of these buckets, in their order, and what `meanwhile` returns. Those that are not at
/// hand are read by so many threads, at most, while `meanwhile` goes on in this one, which helps them
/// with what is left then.
///
/// # Errors
///
/// Of `meanwhile`, or of a table that cannot be read.
pub(super) fn read_while<R>(
    buckets: Range<u32>,
    threads: usize,
    at_hand: impl Fn(u32) -> Option<Arc<BucketTable>>,
    read: impl Fn(u32) -> Result<Arc<BucketTable>, SolveError> + Sync,
    meanwhile: impl FnOnce() -> Result<R, SolveError>,
) -> Result<(Vec<Arc<BucketTable>>, R), SolveError> {
    let first = buckets.start;
    let mut tables: Vec<Option<Arc<BucketTable>>> = buckets.clone().map(at_hand).collect();
    let missing: Vec<u32> =
        buckets.filter(|&bucket| tables[(bucket - first) as usize].is_none()).collect();
    let next = AtomicUsize::new(0);
    let read_some = || {
        let mut some = Vec::new();
        while let Some(&bucket) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            // Nobody begins another one after an error.
            let table = read(bucket).inspect_err(|_| next.store(missing.len(), Ordering::Relaxed));
            some.push((bucket, table?));
        }
        Ok::<_, SolveError>(some)
    };
    let (done, read) = thread::scope(|scope| {
        let reader = || thread::Builder::new().name("reader".into());
        // What no thread can be had for is read by this one.
        let readers: Vec<_> = (0..threads.min(missing.len()))
            .map_while(|_| reader().spawn_scoped(scope, read_some).ok())
            .collect();
        let done = meanwhile();
        let mut read = vec![if done.is_ok() { read_some() } else { Ok(Vec::new()) }];
        let others = readers.into_iter().map(|reader| reader.join());
        read.extend(others.map(|read| read.unwrap_or_else(|panic| resume_unwind(panic))));
        (done, read)
    });
    let done = done?;
    for (bucket, table) in read.into_iter().collect::<Result<Vec<_>, _>>()?.concat() {
        tables[(bucket - first) as usize] = Some(table);
    }
    Ok((tables.into_iter().flatten().collect(), done))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use trailtrap_shared::{
        game::{Game, TrailTrap},
        graph::degree::DegreeSequence,
    };

    use super::*;

    fn table(bucket: u32) -> Arc<BucketTable> {
        let sequence = DegreeSequence::new(vec![1, 1, 0, 0]);
        let none = std::iter::empty();
        Arc::new(BucketTable::new(TrailTrap::LAYOUT, sequence, 3, bucket, none, |_, _| {}))
    }

    /// All come in their order, and what is at hand is not read, however many threads read.
    #[test]
    fn what_is_missing_is_read_once() {
        for threads in 0..4 {
            let read: [AtomicU32; 8] = Default::default();
            let count = |bucket: u32| {
                read[bucket as usize].fetch_add(1, Ordering::Relaxed);
                Ok(table(bucket))
            };
            let at_hand = |bucket| (bucket % 3 == 0).then(|| table(bucket));
            let (tables, done) = read_while(1..7, threads, at_hand, count, || Ok(5)).unwrap();
            assert!(tables.iter().map(|table| table.bucket()).eq(1..7));
            assert_eq!(done, 5);
            let read = read.map(AtomicU32::into_inner);
            assert_eq!(read, [0, 1, 1, 0, 1, 1, 0, 0], "{threads} threads");
        }
    }

    /// An error ends both, whoever has it, and nothing is begun after it.
    #[test]
    fn errors_are_told() {
        for threads in 0..4 {
            let begun = AtomicU32::new(0);
            let fail = |_| {
                begun.fetch_add(1, Ordering::Relaxed);
                Err(SolveError::Interrupted)
            };
            let read = read_while(0..8, threads, |_| None, fail, || Ok(()));
            assert!(matches!(read, Err(SolveError::Interrupted)));
            assert!(begun.into_inner() <= 1 + threads as u32);
            let wrong = || Err::<(), _>(SolveError::Source("wrong".into()));
            let read = read_while(0..8, threads, |_| None, |bucket| Ok(table(bucket)), wrong);
            assert!(matches!(read, Err(SolveError::Source(_))));
        }
    }
}
