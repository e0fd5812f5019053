//! How results are checked: against theory, and by deriving records again.

pub mod checks;
pub mod trial;
