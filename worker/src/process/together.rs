//! Several things done at a time that wait for a disk or a network.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Does something with each of several things, `most` of them at a time, each in a thread of its
/// own; or fewer, if the system has no threads for that.
///
/// # Errors
/// That of one of them; what was not begun then may be left out.
pub fn together<T: Sync, E: Send>(
    things: &[T],
    most: usize,
    work: impl Fn(&T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let do_some = || {
        while let Some(thing) = things.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(thing)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let others = 1..most.min(things.len());
        let begin = || std::thread::Builder::new().spawn_scoped(scope, do_some);
        let others: Vec<_> = others.map_while(|_| begin().ok()).collect();
        let own = do_some();
        let all = others.into_iter().map(|some| some.join().expect("nothing panics"));
        all.fold(own, |done, some| done.and(some))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_done_once_unless_one_fails() {
        let done: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
        let count = |i: &usize| {
            done[*i].fetch_add(1, Ordering::Relaxed);
            if *i == 97 { Err("the last but two") } else { Ok(()) }
        };
        let all = Vec::from_iter(0..100);
        assert_eq!(together(&all[..97], 8, count), Ok(()));
        assert!(done[..97].iter().all(|times| times.load(Ordering::Relaxed) == 1));
        assert_eq!(together(&all[97..], 1, count), Err("the last but two"));
        assert_eq!(done[98].load(Ordering::Relaxed), 0);
        assert_eq!(together(&[], 8, count), Ok(()));
    }
}
