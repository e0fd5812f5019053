//! What memory a worker takes.

use std::{fs, path::Path};

use trailtrap_worker::{memory::beside, process::limits::told_bytes};

use crate::common::{
    Data, PATIENCE, Process, coordinator, do_without, eventually, succeeded, worker,
};

/// The budget of the worker, as it is told and in bytes.
const BUDGET: (&str, u64) = ("8MiB", 8 << 20);

/// Bytes of anonymous memory that a process has now; `None` if it has ended, or if that cannot be
/// told.
fn anonymous_memory(process: u32) -> Option<u64> {
    told_bytes(&fs::read_to_string(format!("/proc/{process}/status")).ok()?, "RssAnon:")
}

/// A worker keeps to its budget, but for what it may have beside it. In this census it took 40 MiB
/// without a budget, and 22 with this one: what it has solved goes from its memory, and is read
/// again.
#[test]
fn a_worker_keeps_to_its_budget_of_memory() {
    let data = Data::new();
    let options = ["--max-size", "18", "--keep", "minimal", "--sample", "0"];
    let (leader, address) = coordinator(10, &data, "127.0.0.1:0", &options);
    let mut command = worker();
    command.args(["--coordinator", &address, "--threads", "1", "--memory", BUDGET.0]);
    // As many arenas as on a machine of two cores, however many this one has.
    command.args(["--patience", PATIENCE]).env("MALLOC_ARENA_MAX", "2");
    let mut worker = Process::start(&mut command);
    let (mut looks, mut most) = (0, 0);
    eventually("the worker leaves, since all is done", || {
        if let Some(bytes) = anonymous_memory(worker.0.id()) {
            (looks, most) = (looks + 1, most.max(bytes));
        }
        !worker.is_running()
    });
    succeeded(&worker.finish());
    succeeded(&leader.finish());
    if !Path::new("/proc/self/status").exists() {
        return do_without("there is no /proc to read from how much memory a process has");
    }
    println!("{} KiB of anonymous memory at most, in {looks} looks", most >> 10);
    // It was looked at while it worked.
    assert!(most > 4 << 20, "{most} bytes in {looks} looks");
    assert!(most < BUDGET.1 + beside(false) as u64, "{most} bytes");
}
