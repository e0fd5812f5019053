//! How results are checked: by counting, and by deriving records again.

pub mod checks;
pub mod recount;
pub mod trial;
