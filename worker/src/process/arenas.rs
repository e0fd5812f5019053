//! How the allocator gets memory, and gives it back.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use trailtrap_shared::partition::LARGE_BYTES;

use super::limits::resident_memory;

/// Bounds the arenas of glibc's allocator by the number of threads that may run at once, and by
/// two at least. By itself it makes eight for each core, and what was freed in one of them is of no
/// use to the others: with two cores a census of order 11 up to 19 edges in 64 MiB took 275 MiB in
/// all, and with two arenas 230 MiB.
///
/// What has [`trailtrap_shared::partition::LARGE_BYTES`] or more, and for which no room is free, gets
/// memory of its own, which goes back to the system when it goes; in who solves, [`suit`] says, only
/// what is larger. By itself the allocator maps less and less as memory is freed, and keeps at the end
/// of an arena twice of what it does not map, or what it is told to here.
///
/// `MALLOC_ARENA_MAX`, `MALLOC_MMAP_THRESHOLD_` and `MALLOC_TRIM_THRESHOLD_` in the environment have
/// precedence. Other allocators are left alone. To be called before there are other threads.
pub fn bound() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        set("MALLOC_ARENA_MAX", libc::M_ARENA_MAX, super::limits::threads().clamp(2, 1 << 10));
        set("MALLOC_MMAP_THRESHOLD_", libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        set("MALLOC_TRIM_THRESHOLD_", libc::M_TRIM_THRESHOLD, 2 * LARGE_BYTES);
    }
}

/// Suits the allocator to a budget of so much memory: what a bucket takes comes from arenas, unless
/// it is larger than buckets may be, a sixteenth of the memory ([`crate::memory::splitting`]), or than
/// 32 MiB; what has 4 MiB at most comes from there in any case. Where tables are read again and again,
/// several copies of each block are made and let go on the way, and new pages for all of them took a
/// fifth of all time at order 12 up to 23 edges in 256 MiB. What arenas keep of them is given back by
/// [`trim_until`].
pub fn suit(memory_bytes: usize) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let own = (memory_bytes / 16).clamp(LARGE_BYTES, MOST_FROM_ARENAS);
        set("MALLOC_MMAP_THRESHOLD_", libc::M_MMAP_THRESHOLD, own);
    }
}

/// The most that glibc takes for this: half of what one of its arenas can have in one piece.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MOST_FROM_ARENAS: usize = 32 << 20;

/// Sets a parameter of the allocator, unless this variable of the environment does.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn set(variable: &str, parameter: libc::c_int, value: usize) {
    if std::env::var_os(variable).is_none() {
        // SAFETY: this sets a number within the allocator, which takes a lock to do so.
        unsafe { libc::mallopt(parameter, value as libc::c_int) };
    }
}

/// So often it is looked whether memory is to be given back. A worker with 64 MiB can come to have
/// 20 MiB that are free within 50 ms.
const LOOKED_EVERY: Duration = Duration::from_millis(20);
/// So often it is, of a budget below [`LITTLE_BYTES`] and of others …
const TRIMMED_EVERY: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];
const LITTLE_BYTES: usize = 1 << 30;
/// … but no more of the time of a thread than this part goes into that …
const TRIMMING: u32 = 100;
/// … or than this while a process takes more than it should. In 256 MiB, at order 12 up to 23 edges,
/// the allocator comes to have half as much that is free as is in use within half a second; in 1 GiB,
/// up to 20 edges, a quarter of a gigabyte was kept that was of no use.
const TRIMMING_MUCH: u32 = 20;

/// Gives memory back to the system, again and again, until the other end of `working` is dropped,
/// more often where the budget is small: what was freed and lies between things that are in use. By
/// itself glibc's allocator gives back what lies at the end of an arena, and keeps all else for
/// later, which tables and units of every length do not often fit into. It is given back at once if
/// the process has more memory than the budget and so many bytes beside it, and more than was left
/// when some was given back last, by a sixteenth of the budget or half of what may be beside it,
/// whichever is less.
pub fn trim_until(working: &Receiver<()>, memory_bytes: usize, beside_bytes: usize) {
    let [little, ample] = TRIMMED_EVERY;
    let every = if memory_bytes < LITTLE_BYTES { little } else { ample };
    let budget_bytes = memory_bytes.saturating_add(beside_bytes) as u64;
    let growth_bytes = (memory_bytes / 16).min(beside_bytes / 2) as u64;
    let mut most_bytes = budget_bytes;
    let (mut last, mut took) = (Instant::now(), Duration::ZERO);
    while working.recv_timeout(LOOKED_EVERY) == Err(RecvTimeoutError::Timeout) {
        let has_much = || resident_memory().is_some_and(|bytes| bytes > most_bytes);
        if !is_due(last.elapsed(), took, every, has_much) {
            continue;
        }
        let start = Instant::now();
        trim();
        last = Instant::now();
        took = last - start;
        // What is in use does not go.
        let left_bytes = resident_memory().unwrap_or(0);
        most_bytes = budget_bytes.max(left_bytes + growth_bytes);
    }
}

/// Whether memory is to be given back so long after the last time, which took so long: every so
/// often, and sooner if there is much.
fn is_due(
    pause: Duration,
    took: Duration,
    every: Duration,
    has_much: impl FnOnce() -> bool,
) -> bool {
    pause >= every.max(took * TRIMMING) || pause >= took * TRIMMING_MUCH && has_much()
}

fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: this concerns memory alone that is not in use, and takes the allocator's locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Sooner where there is much, and later where it takes long.
    #[test]
    fn memory_is_given_back_now_and_then_and_sooner_if_there_is_much() {
        let milliseconds = Duration::from_millis;
        let due = |pause, took, every, has_much| {
            is_due(milliseconds(pause), milliseconds(took), milliseconds(every), || has_much)
        };
        assert!(!due(499, 1, 500, false) && due(500, 1, 500, false));
        assert!(!due(999, 10, 500, false) && due(1000, 10, 500, false));
        assert!(!due(199, 10, 500, true) && due(200, 10, 500, true));
        assert!(due(50, 0, 500, true));
    }

    /// Whoever trims ends with those who work.
    #[test]
    fn trimming_ends_with_the_work() {
        let (work, working) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || trim_until(&working, 1 << 20, 0));
            trim();
            drop(work);
        });
    }
}
