//! The programs, as their users meet them: real processes, files, connections and signals; and the
//! census within them in a simulated network. One test program for all, so that none waits for the
//! slowest test of another.

mod common;

mod admission;
mod census;
mod classes;
mod coverage;
mod crowd;
mod depot;
mod edge_geography;
mod export;
mod faults;
mod finished;
mod liars;
mod limited;
mod memory;
mod offline;
mod protocol;
mod recovery;
mod rehearsal;
mod sample;
mod shelves;
mod simulation;
mod solve;
mod trust;
