//! The corpus of the fuzz targets, each file as it is and with many small damages: a little
//! fuzzing that every run of the tests does. scripts/fuzz does more.

#[path = "../fuzz/targets.rs"]
mod targets;

use std::{fs, path::Path};

/// Damages to each file.
const DAMAGES: u64 = 3000;

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        match self.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, self.below(256) as u8),
            2 => {
                let end = at + self.below(bytes.len() - at);
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            3 if !bytes.is_empty() => drop(bytes.remove(at)),
            4 if !bytes.is_empty() => bytes[at] = [0, 1, 127, 128, 255][self.below(5)],
            _ if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            _ => {}
        }
    }
}

fn replay(name: &str, target: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut files: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 10, "the corpus of {name} is there");
    for (i, path) in files.iter().enumerate() {
        let bytes = fs::read(path).unwrap();
        target(&bytes);
        let mut random = Random(i as u64 + 1);
        for _ in 0..DAMAGES {
            let mut damaged = bytes.clone();
            for _ in 0..=random.below(4) {
                random.damage(&mut damaged);
            }
            target(&damaged);
        }
    }
}

#[test]
fn graph6() {
    replay("graph6", targets::graph6);
}

#[test]
fn block() {
    replay("block", targets::block);
}

#[test]
fn message() {
    replay("message", targets::message);
}
