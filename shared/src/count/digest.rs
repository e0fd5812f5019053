//! The public digest: a 256-bit number for a set of records that does not depend on how they were
//! computed, split, ordered or stored. Version 1 is frozen: any change gives
//! other digests than those that are published. ARCHITECTURE.md specifies it, `scripts/referee.py`
//! is an independent implementation, and tests compare with published digests.

use std::{fmt, iter::Sum, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::{
    game::Game,
    graph::{Code, Graph, MAX_ORDER, degree::DegreeSequence, graph6},
    labelling::{
        Colours, Leaf,
        batch::{Batch, Kernel, LANES},
        forest::Forest,
        reference, shard_colours,
    },
};

/// A sum modulo 2^256 of SHA-256 values, one for each record. Digests of disjoint sets add up.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Digest {
    /// 64-bit limbs, the lowest first.
    limbs: [u64; 4],
}

impl Digest {
    /// Adds the record of `graph`, whose outcome is given in the same labels: the SHA-256, read as
    /// a little-endian number, of the game's tag ([`crate::game::About::digest_tag`]), the graph6
    /// text of the graph in its reference labelling, |Aut| as 8 little-endian bytes, and the
    /// game's record in the reference labelling.
    pub fn add<G: Game>(&mut self, graph: &Graph, outcome: &G::Outcome) {
        let labelling = reference::label(graph);
        let code = graph.relabelled(&labelling.label).code();
        self.add_labelled::<G>(
            graph.order(),
            code,
            labelling.automorphisms,
            outcome,
            &labelling.label,
            &mut Vec::new(),
        );
    }

    /// Adds a record of order `n`, given the code of the graph in its reference labelling, |Aut|,
    /// the outcome in other labels, and their reference labels. `message` is room to work in.
    fn add_labelled<G: Game>(
        &mut self,
        n: usize,
        code: Code,
        automorphisms: u64,
        outcome: &G::Outcome,
        label: &[u8],
        message: &mut Vec<u8>,
    ) {
        let tag = G::ABOUT.digest_tag.as_bytes();
        // All messages of an order of one game have one length.
        let text_end = tag.len() + graph6::encoded_len(n);
        let record = text_end + size_of::<u64>();
        message.resize(record + G::LAYOUT.record_bytes(n), 0);
        message[..tag.len()].copy_from_slice(tag);
        graph6::write_code(n, code, &mut message[tag.len()..text_end]);
        message[text_end..record].copy_from_slice(&automorphisms.to_le_bytes());
        G::encode_relabelled(n, outcome, label, &mut message[record..]);
        *self += Digest::from_le_bytes(Sha256::digest(message).into());
    }

    /// The number with these little-endian bytes.
    pub fn from_le_bytes(bytes: [u8; 32]) -> Self {
        let limb = |i: usize| {
            u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes"))
        };
        Digest { limbs: std::array::from_fn(limb) }
    }

    /// The little-endian bytes.
    pub fn to_le_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (chunk, limb) in bytes.chunks_exact_mut(8).zip(self.limbs) {
            chunk.copy_from_slice(&limb.to_le_bytes());
        }
        bytes
    }
}

/// Takes the digest of many records of one degree sequence, 32 at a time.
pub struct Digester<G: Game> {
    order: usize,
    colours: Colours,
    batch: Box<Batch>,
    waiting: Vec<G::Outcome>,
    /// Graphs whose colours did not decide their labels, with their outcomes.
    forest: Forest<G::Outcome>,
    message: Vec<u8>,
    digest: Digest,
}

impl<G: Game> Digester<G> {
    /// A digest of no records yet.
    pub fn new(sequence: &DegreeSequence, kernel: Kernel) -> Self {
        let (order, (colours, alike)) = (sequence.order(), shard_colours(sequence));
        let mut batch = Batch::exact(order, kernel);
        batch.set_alike(&alike);
        Digester {
            order,
            colours,
            batch,
            waiting: Vec::with_capacity(LANES),
            forest: Forest::new(Batch::exact(order, kernel)),
            message: Vec::new(),
            digest: Digest::default(),
        }
    }

    /// Adds a record as [`Digest::add`] does. The vertices of the graph must be in order of
    /// degree.
    pub fn add(&mut self, graph: &Graph, outcome: &G::Outcome) {
        self.batch.set(self.waiting.len(), graph.rows(), &self.colours);
        self.waiting.push(*outcome);
        if self.waiting.len() == LANES {
            self.flush();
        }
    }

    /// The digest of all records.
    pub fn finish(mut self) -> Digest {
        self.flush();
        self.search();
        self.digest
    }

    fn flush(&mut self) {
        let decided = self.batch.label(self.waiting.len());
        for (lane, outcome) in self.waiting.iter().enumerate() {
            if decided >> lane & 1 == 1 {
                let (code, automorphisms) =
                    (self.batch.code(lane).into(), self.batch.automorphisms(lane));
                let label: [u8; MAX_ORDER] = self.batch.labels_of(lane);
                self.digest.add_labelled::<G>(
                    self.order,
                    code,
                    automorphisms,
                    outcome,
                    &label,
                    &mut self.message,
                );
            } else {
                self.forest.push(self.batch.undecided(lane), *outcome);
            }
        }
        self.waiting.clear();
        if self.forest.is_full() {
            self.search();
        }
    }

    fn search(&mut self) {
        for (outcome, Leaf { code, automorphisms, label, .. }) in self.forest.search() {
            self.digest.add_labelled::<G>(
                self.order,
                *code,
                *automorphisms,
                outcome,
                label,
                &mut self.message,
            );
        }
    }
}

impl std::ops::AddAssign for Digest {
    fn add_assign(&mut self, other: Self) {
        let mut carry = 0;
        for (limb, other) in self.limbs.iter_mut().zip(other.limbs) {
            let sum = u128::from(*limb) + u128::from(other) + carry;
            *limb = sum as u64;
            carry = sum >> 64;
        }
    }
}

impl Sum for Digest {
    fn sum<I: Iterator<Item = Self>>(digests: I) -> Self {
        digests.fold(Digest::default(), |mut sum, digest| {
            sum += digest;
            sum
        })
    }
}

/// 64 hexadecimal digits, the highest first.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.limbs.iter().rev().try_for_each(|limb| write!(f, "{limb:016x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let valid = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !valid {
            return Err(format!("a digest has 64 hexadecimal digits, not '{text}'"));
        }
        let limb = |i: usize| {
            u64::from_str_radix(&text[16 * i..16 * i + 16], 16).expect("checked digits")
        };
        Ok(Digest { limbs: [limb(3), limb(2), limb(1), limb(0)] })
    }
}

/// In JSON and the like as text, in bytes as the 32 little-endian bytes.
impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.collect_str(self),
            false => self.to_le_bytes().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.is_human_readable() {
            true => String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom),
            false => Ok(Digest::from_le_bytes(Deserialize::deserialize(deserializer)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::game::{TrailTrap, trail_trap::tests::derived};

    proptest! {
        #[test]
        fn sums_commute_and_carry(a: [u8; 32], b: [u8; 32], c: [u8; 32]) {
            let [a, b, c] = [a, b, c].map(Digest::from_le_bytes);
            prop_assert_eq!([a, b, c].into_iter().sum::<Digest>(), [c, a, b].into_iter().sum());
            prop_assert_eq!(a.to_string().parse(), Ok(a));
            prop_assert_eq!(Digest::from_le_bytes(a.to_le_bytes()), a);
        }
    }

    /// What `scripts/referee.py` says of single graphs beyond order 16, with 16 and more vertices
    /// of one colour, with 20 colours, and with six equal components.
    #[test]
    fn large_orders_have_the_digests_of_the_referee() {
        for (text, expected) in [
            (
                "PsaCCA?_C?O?_?_?O?C??_??",
                "2050964c1490ee23a66533434d715f5fb59d8db0d27006940c95b9ff2cb1b775",
            ),
            (
                "SsaCCA?_C?O?_?_?O?C??_?A??C??C???",
                "109574591750011599c1b6cb306d04f245ab38eb142c82b8a129364a0eca9c6d",
            ),
            (
                "ShCGGC@?G?_@?@??_?G?@??C??G??G??C",
                "fe5eb354883f600716e4b21b500dddae947601e4e848b47171e0ba4bc5db0326",
            ),
            (
                "QpG_GGC?G@?C?@?@??_?@??G??_",
                "44a45fd867fe71921a0a511eeae0efcbd71bab903d210165119090c5efe4ac52",
            ),
            (
                "SgCG?C@???_@????_?G????C??G??????",
                "745da86c4d91146dce8bb6a5b7da5a25fe3503eb23c00e771b7772b38e9e583d",
            ),
        ] {
            let graph = graph6::decode(text.as_bytes()).unwrap();
            let mut digest = Digest::default();
            digest.add::<TrailTrap>(&graph, &derived(&graph, &mut HashMap::new()));
            assert_eq!(digest.to_string(), expected, "{text}");
        }
    }

    #[test]
    fn carries_run_through() {
        let mut digest = Digest::from_le_bytes([0xff; 32]);
        let mut one = [0; 32];
        one[0] = 1;
        digest += Digest::from_le_bytes(one);
        assert_eq!(digest, Digest::default());
    }
}
