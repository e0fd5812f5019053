//! A census: what is known of it in the store, what it does next, and what is believed.
//!
//! [`records`] are what is kept, [`store`] keeps them; [`core`] decides what is done next and
//! knows of no store, thread or clock; [`trust`] checks results; [`driver`] joins them and runs.
//! Others look through [`read`].

pub mod core;
pub mod driver;
pub mod read;
pub mod records;
pub mod store;
pub mod trust;
pub mod watch;

#[cfg(test)]
mod tests;
