//! What is drawn in secret: whoever does not know the key cannot foretell what is drawn, however
//! much of it was seen.

use serde::Serialize;
use trailtrap_shared::protocol::codec;

/// The key of a census, which no worker knows.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// The key that follows from the number that a store keeps for it.
    pub fn of(salt: u64) -> Self {
        Secret(blake3::derive_key(
            "trailtrap census, what is drawn in secret",
            &salt.to_le_bytes(),
        ))
    }

    /// What is drawn for this purpose about this thing: always the same.
    pub fn draws<T: Serialize>(&self, purpose: &str, about: &T) -> Draws {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&codec::encode(&(purpose, about)));
        Draws(Box::new(hasher.finalize_xof()))
    }
}

/// One number after the other.
pub struct Draws(Box<blake3::OutputReader>);

impl Draws {
    fn draw(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A number below `n`; which of them is as good as equally likely for `n` far below 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        self.draw() % n
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        // The upper 53 bits are all that a float holds.
        ((self.draw() >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_from_key_purpose_and_thing() {
        let drawn = |salt: u64, purpose: &str, about: u32| {
            let mut draws = Secret::of(salt).draws(purpose, &about);
            [draws.draw(), draws.draw()]
        };
        let first = drawn(1, "a", 1);
        assert_eq!(drawn(1, "a", 1), first);
        assert_ne!(first[0], first[1]);
        for other in [drawn(2, "a", 1), drawn(1, "b", 1), drawn(1, "a", 2)] {
            assert_ne!(other, first);
        }
    }
}
