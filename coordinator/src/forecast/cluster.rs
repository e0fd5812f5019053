//! The machines that a census is forecast for.

use std::{fmt, str::FromStr};

use serde::Serialize;
use trailtrap_shared::{game::Layout, partition::entry_bytes};
use trailtrap_worker::{link, memory::Room, process::limits::Size};

/// One machine that does everything, or nodes around a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cluster {
    /// Workers in processes of their own, one on each node; `None`: coordinator and solver are one
    /// process, as in `census`.
    pub nodes: Option<usize>,
    /// Solving threads of each node. The coordinator has as many to count with.
    pub cores: usize,
    /// Budget of each worker, as `--memory` says it.
    pub memory: u64,
    /// Bytes that messages may take in the coordinator, as `--message-memory` says it.
    pub message_memory: u64,
    /// Bytes a second through the network interface of each node, and of the coordinator.
    pub network: f64,
    /// Bytes a second that the coordinator's disk reads or writes.
    pub disk: f64,
    /// Bytes a second that a depot reads or writes, if there is one, in which the census keeps its
    /// blocks; or all shelves of workers together.
    pub depot: Option<f64>,
    /// Whether that is shelves of workers.
    pub shelves: bool,
}

impl Cluster {
    /// The room of a worker that has nothing in work.
    pub fn room(&self) -> Room {
        Room::new(self.memory as usize, self.slots(), self.nodes.is_none())
    }

    /// Entries of order `n` in what a unit of a lease of several shards holds.
    pub fn entries_held(&self, layout: Layout, n: usize) -> f64 {
        self.room().allowance_bytes(self.cores, 0) as f64 / entry_bytes(layout, n) as f64
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.nodes.unwrap_or(1)
    }

    /// How many leases a worker has in work at a time.
    pub fn slots(&self) -> usize {
        self.cores
            + match self.nodes {
                Some(_) => link::leases_under_way(self.cores),
                None => link::LEASES_ALONE,
            }
    }
}

/// For people.
impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cluster { nodes, cores, memory, network, disk, depot, shelves, .. } = *self;
        let memory = Size(memory);
        match nodes {
            None => write!(f, "one process, {cores} threads, {memory}")?,
            Some(nodes) => {
                write!(
                    f,
                    "{nodes} nodes of {cores} threads and {memory}, network {}",
                    Rate(network)
                )?;
            }
        }
        write!(f, ", disk {}", Rate(disk))?;
        let place = if shelves { "shelves" } else { "depot" };
        depot.map_or(Ok(()), |rate| write!(f, ", {place} {}", Rate(rate)))
    }
}

/// Bytes a second, written like `10Gbit`, `2GB/s` or `500MB`; prefixes are powers of 1000.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a rate; write 10Gbit or 2GB/s");
        let stem = text.trim().trim_end_matches("/s");
        let (stem, unit) = match (stem.strip_suffix("bit"), stem.strip_suffix('B')) {
            (Some(stem), _) => (stem, 0.125),
            (_, Some(stem)) => (stem, 1.0),
            _ => return Err(wrong()),
        };
        let digits = stem.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let factor = match stem[digits.len()..].trim() {
            "" => 1.0,
            "k" | "K" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            "T" => 1e12,
            _ => return Err(wrong()),
        };
        let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
        let rate = number * factor * unit;
        if rate.is_finite() && rate >= 1.0 { Ok(Rate(rate)) } else { Err(wrong()) }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, prefix) = match self.0 {
            rate if rate >= 1e9 => (rate / 1e9, "G"),
            rate if rate >= 1e6 => (rate / 1e6, "M"),
            rate => (rate / 1e3, "k"),
        };
        write!(f, "{number:.2} {prefix}B/s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker in a process of its own stays close to its budget, and has less room for graphs.
    #[test]
    fn the_room_of_a_node_is_that_of_a_worker_elsewhere() {
        let cluster = |nodes| Cluster {
            nodes,
            cores: 2,
            memory: 64 << 20,
            message_memory: 1 << 30,
            network: 1e9,
            disk: 1e9,
            depot: None,
            shelves: false,
        };
        let [here, elsewhere] = [None, Some(1)].map(|nodes| cluster(nodes).room().cache_bytes());
        assert_eq!((here, elsewhere), (44 << 20, 28 << 20));
    }

    #[test]
    fn rates_are_read_in_bits_and_bytes() {
        let read = |text: &str| text.parse::<Rate>().map(|rate| rate.0);
        assert_eq!(read("10Gbit"), Ok(1.25e9));
        assert_eq!(read("10 Gbit/s"), Ok(1.25e9));
        assert_eq!(read("2GB/s"), Ok(2e9));
        assert_eq!(read("500MB"), Ok(5e8));
        assert_eq!(read("1.5kB"), Ok(1500.0));
        for wrong in ["", "GB", "10", "10G", "-1GB", "nanB", "infB", "0B", "1e400B", "1XB", "bit"]
        {
            assert!(read(wrong).unwrap_err().contains("10Gbit"), "{wrong}");
        }
    }

    #[test]
    fn rates_are_shown_as_bytes() {
        assert_eq!(Rate(1.25e9).to_string(), "1.25 GB/s");
        assert_eq!(Rate(5e8).to_string(), "500.00 MB/s");
        assert_eq!(Rate(1500.0).to_string(), "1.50 kB/s");
    }
}
