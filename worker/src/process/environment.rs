//! What the environment of a process says.

/// Variables that flags can be given by begin like this, …
const OURS: &str = "TRAILTRAP_";
/// … and this is one, too, which Slurm sets.
pub const END_TIME: &str = "SLURM_JOB_END_TIME";

/// Forgets variables for flags that are empty: whoever empties one has not set it, and a flag
/// would be missing its value.
///
/// # Safety
///
/// There are no other threads yet.
pub unsafe fn forget_empty() {
    let is_ours = |name: &std::ffi::OsString| {
        name.to_str().is_some_and(|name| name.starts_with(OURS) || name == END_TIME)
    };
    let empty = std::env::vars_os().filter(|(name, value)| is_ours(name) && value.is_empty());
    for (name, _) in empty.collect::<Vec<_>>() {
        // SAFETY: the caller has seen to it that nobody reads the environment meanwhile.
        unsafe { std::env::remove_var(name) };
    }
}
