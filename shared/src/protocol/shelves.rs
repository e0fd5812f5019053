//! Shelves: directories on the disks of workers, in which a census keeps its blocks. Each block lies
//! on two of them, so that nothing is lost with one worker.

/// The number by which a shelf is known. Not zero.
pub type ShelfNumber = u64;

/// A block lies on so many shelves, if there are so many.
pub const COPIES: usize = 2;

/// The shelves on which a block lies: [`COPIES`] at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shelves([ShelfNumber; COPIES]);

impl Shelves {
    /// Their numbers.
    pub fn iter(&self) -> impl Iterator<Item = ShelfNumber> + use<> {
        self.0.into_iter().filter(|&shelf| shelf != 0)
    }

    /// Whether it lies on none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Whether it lies on this one.
    pub fn contains(&self, shelf: ShelfNumber) -> bool {
        self.iter().any(|other| other == shelf)
    }

    /// It lies on this one too, unless it lies on enough of them. Returns whether it does then.
    pub fn add(&mut self, shelf: ShelfNumber) -> bool {
        if self.contains(shelf) {
            return true;
        }
        match self.0.iter_mut().find(|place| **place == 0) {
            Some(place) => *place = shelf,
            None => return false,
        }
        shelf != 0
    }

    /// It does not lie on this one.
    pub fn remove(&mut self, shelf: ShelfNumber) {
        for place in &mut self.0 {
            if *place == shelf {
                *place = 0;
            }
        }
    }
}

/// The first of them, as many as are of use.
impl FromIterator<ShelfNumber> for Shelves {
    fn from_iter<T: IntoIterator<Item = ShelfNumber>>(numbers: T) -> Self {
        let mut shelves = Shelves::default();
        for number in numbers {
            shelves.add(number);
        }
        shelves
    }
}

/// Where a shelf is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShelfPlace {
    /// Its number.
    pub number: ShelfNumber,
    /// HOST:PORT.
    pub address: String,
    /// The certificate that is shown there, PEM; none on loopback, without encryption.
    pub certificate: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_lies_on_two_shelves_at_most() {
        let mut shelves = Shelves::default();
        assert!(shelves.is_empty() && !shelves.add(0) && shelves.is_empty());
        assert!(shelves.add(7) && shelves.add(7) && shelves.add(8) && !shelves.add(9));
        assert_eq!(shelves.iter().collect::<Vec<_>>(), [7, 8]);
        shelves.remove(7);
        shelves.remove(3);
        assert!(!shelves.contains(7) && shelves.contains(8) && shelves.add(9));
        assert_eq!(shelves, [9, 8, 9, 5, 0].into_iter().collect());
        shelves.remove(8);
        shelves.remove(9);
        assert!(shelves.is_empty());
    }
}
