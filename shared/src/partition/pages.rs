//! Large pages for what is looked up at random.

/// From this many bytes on, large pages are asked for. What is smaller takes few of them.
pub const LARGE_BYTES: usize = 4 << 20;

/// Zeros that will all be written, and then read here and there. Where the system has large pages
/// and gives them to those who ask, reading misses its translation caches less often, and writing
/// takes fewer page faults.
pub(super) fn zeros<T: Copy + Default>(count: usize) -> Vec<T> {
    let mut zeros = vec![T::default(); count];
    ask_for_large_pages(&mut zeros);
    zeros
}

/// Asks while nothing has been written, so that no page is there yet of what the allocator has mapped
/// for it. Where it has room from before, the pages that it gives back and gets again are large.
/// Whether they are granted makes no difference to what is read, so errors are of no concern.
#[cfg(target_os = "linux")]
fn ask_for_large_pages<T>(items: &mut [T]) {
    use rustix::mm::{Advice, madvise};

    /// Memory is advised in whole pages, the smallest of which have this size.
    const PAGE_BYTES: usize = 4 << 10;

    let bytes = size_of_val(items);
    if bytes < LARGE_BYTES {
        return;
    }
    let start = items.as_mut_ptr().cast::<u8>();
    let before = start.addr() % PAGE_BYTES;
    // SAFETY: this advice changes neither what the memory holds nor who may use it.
    let _ = unsafe {
        madvise(
            start.wrapping_sub(before).cast(),
            (before + bytes).next_multiple_of(PAGE_BYTES),
            Advice::LinuxHugepage,
        )
    };
}

#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages<T>(_: &mut [T]) {}

#[cfg(test)]
mod tests {
    use super::LARGE_BYTES;

    /// Whether large pages come or not.
    #[test]
    fn memory_is_zero_and_can_be_written() {
        for count in [0, 1, LARGE_BYTES - 1, LARGE_BYTES, 9 << 20] {
            let mut zeros = super::zeros::<u8>(count);
            assert!(zeros.iter().all(|&byte| byte == 0));
            zeros.fill(1);
            assert_eq!(zeros.len(), count);
            assert!(zeros.iter().all(|&byte| byte == 1));
        }
    }
}
