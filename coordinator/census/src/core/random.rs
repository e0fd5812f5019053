//! What is drawn at random, and need not be secret: equal seeds draw equally on every machine.

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; which of them is as good as equally likely for `n` far below 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        self.draw() % n
    }

    /// The same for `n` far below 2^128; 0 if `n` is.
    pub fn below_large(&mut self, n: u128) -> u128 {
        let [high, low] = [(); 2].map(|()| u128::from(self.draw()));
        (high << 64 | low) % n.max(1)
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        // The upper 53 bits are all that a float holds.
        ((self.draw() >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}
