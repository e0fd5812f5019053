//! 32 lanes of 16 bits, one graph a lane: the few vector operations that [`super::batch`] is
//! written in, for AVX-512, for AVX2, and portably. Tests hold the three equal; the choice is made
//! at run time and never shows in a result.
//!
//! Loads, stores, columns and masks aside, an operation on [`Lanes`] does in each lane what its
//! name says on `u16`.
//!
//! What makes this sound stands in types. A vector is made from a token of its instruction set,
//! and a token is made by looking for the instructions; so whoever has a vector, or a token, is on
//! a machine that has them. [`Instructions::run`] compiles an [`Operation`] for each instruction
//! set and runs it with what was found. All code outside this module is safe.

use crate::graph::NarrowRows;

/// Number of lanes.
pub const LANES: usize = 32;

/// A vector in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Lane(pub [u16; LANES]);

/// Some of the lanes in a register: a part of [`Lane`]. Outside an [`Operation`] that [`Instructions::run`] runs, its operations
/// are slow: they are not inlined into code that is compiled without their instruction set.
pub(super) trait Lanes: Copy {
    /// Number of lanes in the register.
    const COUNT: usize;
    /// So many registers hold all lanes.
    const PARTS: usize = LANES / Self::COUNT;
    /// One truth value a lane.
    type Mask: Copy;
    /// Shows that this machine has the instructions.
    type Token: Copy;
    /// The lanes from `part` · [`Lanes::COUNT`] on, `part` being below [`Lanes::PARTS`].
    fn load(token: Self::Token, from: &Lane, part: usize) -> Self;
    /// The inverse of [`Lanes::load`].
    fn store(self, to: &mut Lane, part: usize);
    fn splat(token: Self::Token, value: u16) -> Self;
    fn add(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// Product modulo 2^16.
    fn mul(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    /// Shifts every lane by the same number of bits, below 16.
    fn shl(self, bits: u32) -> Self;
    fn shr(self, bits: u32) -> Self;
    /// 1 << lane, for lanes below 16.
    fn one_hot(self) -> Self;
    /// Whether the two have a bit in common.
    fn meets(self, other: Self) -> Self::Mask;
    /// Less than, as signed numbers.
    fn signed_less(self, other: Self) -> Self::Mask;
    fn equals(self, other: Self) -> Self::Mask;
    /// Adds `other` where the mask holds.
    fn add_where(self, mask: Self::Mask, other: Self) -> Self;
    /// The mask, bit i for lane i of the register.
    fn bits(mask: Self::Mask) -> u32;
    /// Where both masks hold.
    fn both(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// Where at least one of the masks holds.
    fn either(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// Where the mask does not hold.
    fn not(mask: Self::Mask) -> Self::Mask;
    /// Transposes: the j-th register has in lane i the number 8 · `half` + j of row `part` ·
    /// [`Lanes::COUNT`] + i, `half` being 0 or 1.
    fn columns(
        token: Self::Token,
        rows: &[NarrowRows; LANES],
        part: usize,
        half: usize,
    ) -> [Self; 8];
}

/// Something that is written once in [`Lanes`] and compiled for each instruction set.
pub(super) trait Operation {
    type Output;
    /// Has to be `#[inline(always)]`, as all that it calls, and without closures: what is not
    /// inlined is compiled without the instruction set.
    fn run<L: Lanes>(self, token: L::Token) -> Self::Output;
}

/// The instructions that operations run on, which this machine has.
#[derive(Clone, Copy)]
pub(super) enum Instructions {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2Token),
    #[cfg(target_arch = "x86_64")]
    Avx512(x86::Avx512Token),
}

impl Instructions {
    /// AVX2, if this machine has it.
    pub fn avx2() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return x86::Avx2Token::detect().map(Instructions::Avx2);
        #[cfg(not(target_arch = "x86_64"))]
        None
    }

    /// AVX-512 F and BW, if this machine has them.
    pub fn avx512() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return x86::Avx512Token::detect().map(Instructions::Avx512);
        #[cfg(not(target_arch = "x86_64"))]
        None
    }

    /// Runs an operation.
    #[inline(always)]
    pub fn run<O: Operation>(self, operation: O) -> O::Output {
        match self {
            Instructions::Portable => operation.run::<Portable>(()),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(token) => token.run(operation),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512(token) => token.run(operation),
        }
    }
}

/// The twin that runs everywhere; plain arrays, which the compiler vectorizes as it can.
#[derive(Clone, Copy)]
pub(super) struct Portable([u16; LANES]);

impl Portable {
    #[inline(always)]
    fn map2(self, other: Self, f: impl Fn(u16, u16) -> u16) -> Self {
        let mut out = [0; LANES];
        for i in 0..LANES {
            out[i] = f(self.0[i], other.0[i]);
        }
        Portable(out)
    }
}

impl Lanes for Portable {
    const COUNT: usize = LANES;
    /// All ones or all zeros.
    type Mask = Portable;
    type Token = ();

    #[inline(always)]
    fn load((): (), from: &Lane, _part: usize) -> Self {
        Portable(from.0)
    }
    #[inline(always)]
    fn store(self, to: &mut Lane, _part: usize) {
        to.0 = self.0;
    }
    #[inline(always)]
    fn splat((): (), value: u16) -> Self {
        Portable([value; LANES])
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.map2(other, u16::wrapping_add)
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self.map2(other, |a, b| a | b)
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self.map2(other, |a, b| a ^ b)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.map2(other, u16::wrapping_mul)
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self.map2(other, |a, b| a & b)
    }
    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        self.map2(self, |a, _| a << bits)
    }
    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        self.map2(self, |a, _| a >> bits)
    }
    #[inline(always)]
    fn one_hot(self) -> Self {
        self.map2(self, |a, _| 1 << (a & 15))
    }
    #[inline(always)]
    fn meets(self, other: Self) -> Self {
        self.map2(other, |a, b| if a & b != 0 { !0 } else { 0 })
    }
    #[inline(always)]
    fn signed_less(self, other: Self) -> Self {
        self.map2(other, |a, b| if (a as i16) < b as i16 { !0 } else { 0 })
    }
    #[inline(always)]
    fn equals(self, other: Self) -> Self {
        self.map2(other, |a, b| if a == b { !0 } else { 0 })
    }
    #[inline(always)]
    fn add_where(self, mask: Self, other: Self) -> Self {
        self.add(mask.and(other))
    }
    #[inline(always)]
    fn bits(mask: Self) -> u32 {
        mask.0.iter().enumerate().fold(0, |bits, (i, &lane)| bits | u32::from(lane & 1) << i)
    }
    #[inline(always)]
    fn both(a: Self, b: Self) -> Self {
        a.and(b)
    }
    #[inline(always)]
    fn either(a: Self, b: Self) -> Self {
        a.or(b)
    }
    #[inline(always)]
    fn not(mask: Self) -> Self {
        mask.map2(mask, |a, _| !a)
    }
    #[inline(always)]
    fn columns((): (), rows: &[NarrowRows; LANES], _part: usize, half: usize) -> [Self; 8] {
        let mut columns = [Portable([0; LANES]); 8];
        for (lane, row) in rows.iter().enumerate() {
            for (column, &value) in columns.iter_mut().zip(&row[8 * half..]) {
                column.0[lane] = value;
            }
        }
        columns
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{LANES, Lane, Lanes, NarrowRows, Operation};

    /// Evaluates intrinsics, in methods that have a vector or a token at hand.
    macro_rules! detected {
        ($intrinsics:expr) => {
            // SAFETY: vectors and tokens exist only where their instruction set was detected, and
            // that is all that intrinsics need which keep to registers. Loads and stores go to a
            // `Lane`, which is 64 bytes long and aligned to 64.
            unsafe { $intrinsics }
        };
    }

    /// The 8 × 8 numbers of 16 bits in each 128-bit part of eight registers, transposed.
    macro_rules! transposed {
        (
            $vector:ident of $rows:expr,
            $low16:ident $high16:ident $low32:ident $high32:ident $low64:ident $high64:ident
        ) => {
            detected!({
                let [a, b, c, d, e, f, g, h] = $rows;
                // Pairs of rows, then fours, then all eight.
                let [ab, cd] = [[$low16(a, b), $high16(a, b)], [$low16(c, d), $high16(c, d)]];
                let [ef, gh] = [[$low16(e, f), $high16(e, f)], [$low16(g, h), $high16(g, h)]];
                let first = [
                    $low32(ab[0], cd[0]),
                    $high32(ab[0], cd[0]),
                    $low32(ab[1], cd[1]),
                    $high32(ab[1], cd[1]),
                ];
                let second = [
                    $low32(ef[0], gh[0]),
                    $high32(ef[0], gh[0]),
                    $low32(ef[1], gh[1]),
                    $high32(ef[1], gh[1]),
                ];
                [
                    $vector($low64(first[0], second[0])),
                    $vector($high64(first[0], second[0])),
                    $vector($low64(first[1], second[1])),
                    $vector($high64(first[1], second[1])),
                    $vector($low64(first[2], second[2])),
                    $vector($high64(first[2], second[2])),
                    $vector($low64(first[3], second[3])),
                    $vector($high64(first[3], second[3])),
                ]
            })
        };
    }

    /// Half of the numbers of a row.
    #[inline(always)]
    fn half_of(row: &NarrowRows, half: usize) -> __m128i {
        let eight: &[u16; 8] = &row.as_chunks().0[half];
        // SAFETY: every x86-64 processor has SSE2, and 16 bytes are read from an array of 16 bytes.
        unsafe { _mm_loadu_si128(eight.as_ptr().cast()) }
    }

    /// A token, and how operations are compiled for it.
    macro_rules! token {
        ($(#[$doc:meta])* $token:ident of $lanes:ident, $features:literal, $($feature:tt)*) => {
            $(#[$doc])*
            #[derive(Clone, Copy)]
            pub(in super::super) struct $token(());

            impl $token {
                /// The token, if this machine has the instructions.
                pub fn detect() -> Option<Self> {
                    ($(is_x86_feature_detected!($feature))&&*).then_some($token(()))
                }

                /// Runs an operation that is compiled for the instruction set.
                #[inline(always)]
                pub fn run<O: Operation>(self, operation: O) -> O::Output {
                    #[target_feature(enable = $features)]
                    fn compiled<O: Operation>(token: $token, operation: O) -> O::Output {
                        operation.run::<$lanes>(token)
                    }
                    // SAFETY: the token exists, so the instruction set was detected.
                    unsafe { compiled(self, operation) }
                }
            }
        };
    }

    token! {
        /// Shows that this machine has AVX-512 F and BW, and so AVX2.
        Avx512Token of Avx512, "avx512f,avx512bw", "avx512f" "avx512bw"
    }
    token! {
        /// Shows that this machine has AVX2.
        Avx2Token of Avx2, "avx2", "avx2"
    }

    /// AVX-512 F, BW.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx512(__m512i);

    impl Lanes for Avx512 {
        const COUNT: usize = LANES;
        type Mask = __mmask32;
        type Token = Avx512Token;

        #[inline(always)]
        fn load(_: Self::Token, from: &Lane, _part: usize) -> Self {
            Avx512(detected!(_mm512_load_si512(from.0.as_ptr().cast())))
        }
        #[inline(always)]
        fn store(self, to: &mut Lane, _part: usize) {
            detected!(_mm512_store_si512(to.0.as_mut_ptr().cast(), self.0))
        }
        #[inline(always)]
        fn splat(_: Self::Token, value: u16) -> Self {
            Avx512(detected!(_mm512_set1_epi16(value as i16)))
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            Avx512(detected!(_mm512_add_epi16(self.0, other.0)))
        }
        #[inline(always)]
        fn or(self, other: Self) -> Self {
            Avx512(detected!(_mm512_or_si512(self.0, other.0)))
        }
        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            Avx512(detected!(_mm512_xor_si512(self.0, other.0)))
        }
        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            Avx512(detected!(_mm512_mullo_epi16(self.0, other.0)))
        }
        #[inline(always)]
        fn and(self, other: Self) -> Self {
            Avx512(detected!(_mm512_and_si512(self.0, other.0)))
        }
        #[inline(always)]
        fn shl(self, bits: u32) -> Self {
            Avx512(detected!(_mm512_sll_epi16(self.0, _mm_cvtsi32_si128(bits as i32))))
        }
        #[inline(always)]
        fn shr(self, bits: u32) -> Self {
            Avx512(detected!(_mm512_srl_epi16(self.0, _mm_cvtsi32_si128(bits as i32))))
        }
        #[inline(always)]
        fn one_hot(self) -> Self {
            Avx512(detected!(_mm512_sllv_epi16(_mm512_set1_epi16(1), self.0)))
        }
        #[inline(always)]
        fn meets(self, other: Self) -> Self::Mask {
            detected!(_mm512_test_epi16_mask(self.0, other.0))
        }
        #[inline(always)]
        fn signed_less(self, other: Self) -> Self::Mask {
            detected!(_mm512_cmplt_epi16_mask(self.0, other.0))
        }
        #[inline(always)]
        fn equals(self, other: Self) -> Self::Mask {
            detected!(_mm512_cmpeq_epi16_mask(self.0, other.0))
        }
        #[inline(always)]
        fn add_where(self, mask: Self::Mask, other: Self) -> Self {
            Avx512(detected!(_mm512_mask_add_epi16(self.0, mask, self.0, other.0)))
        }
        #[inline(always)]
        fn bits(mask: Self::Mask) -> u32 {
            mask
        }
        #[inline(always)]
        fn both(a: Self::Mask, b: Self::Mask) -> Self::Mask {
            a & b
        }
        #[inline(always)]
        fn either(a: Self::Mask, b: Self::Mask) -> Self::Mask {
            a | b
        }
        #[inline(always)]
        fn not(mask: Self::Mask) -> Self::Mask {
            !mask
        }
        #[inline(always)]
        fn columns(
            _: Self::Token,
            rows: &[NarrowRows; LANES],
            _part: usize,
            half: usize,
        ) -> [Self; 8] {
            let mut registers = [detected!(_mm512_setzero_si512()); 8];
            for r in 0..8 {
                let [a, b] = [half_of(&rows[r], half), half_of(&rows[8 + r], half)];
                let [c, d] = [half_of(&rows[16 + r], half), half_of(&rows[24 + r], half)];
                registers[r] = detected!({
                    let ab = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b);
                    let cd = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(c), d);
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(ab), cd)
                });
            }
            transposed!(
                Avx512 of registers,
                _mm512_unpacklo_epi16 _mm512_unpackhi_epi16 _mm512_unpacklo_epi32
                _mm512_unpackhi_epi32 _mm512_unpacklo_epi64 _mm512_unpackhi_epi64
            )
        }
    }

    /// AVX2: half of the lanes in a register.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx2(__m256i);

    impl Lanes for Avx2 {
        const COUNT: usize = LANES / 2;
        /// All ones or all zeros.
        type Mask = Avx2;
        type Token = Avx2Token;

        #[inline(always)]
        fn load(_: Self::Token, from: &Lane, part: usize) -> Self {
            let half: &[u16; Self::COUNT] = &from.0.as_chunks().0[part];
            Avx2(detected!(_mm256_load_si256(half.as_ptr().cast())))
        }
        #[inline(always)]
        fn store(self, to: &mut Lane, part: usize) {
            let half: &mut [u16; Self::COUNT] = &mut to.0.as_chunks_mut().0[part];
            detected!(_mm256_store_si256(half.as_mut_ptr().cast(), self.0))
        }
        #[inline(always)]
        fn splat(_: Self::Token, value: u16) -> Self {
            Avx2(detected!(_mm256_set1_epi16(value as i16)))
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            Avx2(detected!(_mm256_add_epi16(self.0, other.0)))
        }
        #[inline(always)]
        fn or(self, other: Self) -> Self {
            Avx2(detected!(_mm256_or_si256(self.0, other.0)))
        }
        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            Avx2(detected!(_mm256_xor_si256(self.0, other.0)))
        }
        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            Avx2(detected!(_mm256_mullo_epi16(self.0, other.0)))
        }
        #[inline(always)]
        fn and(self, other: Self) -> Self {
            Avx2(detected!(_mm256_and_si256(self.0, other.0)))
        }
        #[inline(always)]
        fn shl(self, bits: u32) -> Self {
            Avx2(detected!(_mm256_sll_epi16(self.0, _mm_cvtsi32_si128(bits as i32))))
        }
        #[inline(always)]
        fn shr(self, bits: u32) -> Self {
            Avx2(detected!(_mm256_srl_epi16(self.0, _mm_cvtsi32_si128(bits as i32))))
        }
        #[inline(always)]
        fn one_hot(self) -> Self {
            // There is no 16-bit variable shift: look up both bytes of 1 << lane.
            Avx2(detected!({
                let low = _mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0);
                let high = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, -128);
                // The upper byte of each lane is 0; 128 there makes the shuffle answer 0.
                let only_low = _mm256_or_si256(self.0, _mm256_set1_epi16(i16::MIN));
                let low = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(low), only_low);
                let high = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(high), only_low);
                _mm256_or_si256(low, _mm256_slli_epi16::<8>(high))
            }))
        }
        #[inline(always)]
        fn meets(self, other: Self) -> Self {
            Self::not(self.and(other).equals(Self::splat(Avx2Token(()), 0)))
        }
        #[inline(always)]
        fn signed_less(self, other: Self) -> Self {
            Avx2(detected!(_mm256_cmpgt_epi16(other.0, self.0)))
        }
        #[inline(always)]
        fn equals(self, other: Self) -> Self {
            Avx2(detected!(_mm256_cmpeq_epi16(self.0, other.0)))
        }
        #[inline(always)]
        fn add_where(self, mask: Self, other: Self) -> Self {
            self.add(mask.and(other))
        }
        #[inline(always)]
        fn bits(mask: Self) -> u32 {
            detected!({
                // Packing halves words to bytes within each 128-bit part; the permutation puts the
                // parts that hold the lanes side by side.
                let packed = _mm256_packs_epi16(mask.0, _mm256_setzero_si256());
                let together = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
                _mm256_movemask_epi8(together) as u32
            })
        }
        #[inline(always)]
        fn both(a: Self, b: Self) -> Self {
            a.and(b)
        }
        #[inline(always)]
        fn either(a: Self, b: Self) -> Self {
            a.or(b)
        }
        #[inline(always)]
        fn not(mask: Self) -> Self {
            mask.xor(Self::splat(Avx2Token(()), !0))
        }
        #[inline(always)]
        fn columns(
            _: Self::Token,
            rows: &[NarrowRows; LANES],
            part: usize,
            half: usize,
        ) -> [Self; 8] {
            let mut registers = [detected!(_mm256_setzero_si256()); 8];
            for r in 0..8 {
                let first = part * Self::COUNT + r;
                let [a, b] = [half_of(&rows[first], half), half_of(&rows[first + 8], half)];
                registers[r] =
                    detected!(_mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b));
            }
            transposed!(
                Avx2 of registers,
                _mm256_unpacklo_epi16 _mm256_unpackhi_epi16 _mm256_unpacklo_epi32
                _mm256_unpackhi_epi32 _mm256_unpacklo_epi64 _mm256_unpackhi_epi64
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation in turn, from three operands.
    struct Exercise<'a> {
        a: &'a Lane,
        b: &'a Lane,
        small: &'a Lane,
        rows: &'a [NarrowRows; LANES],
    }

    impl Operation for Exercise<'_> {
        type Output = (Vec<Lane>, Vec<u32>);

        #[inline(always)]
        fn run<L: Lanes>(self, token: L::Token) -> Self::Output {
            let Exercise { a, b, small, rows } = self;
            let (mut stored, mut seen) = ([Lane([0; LANES]); 9], [0; 6]);
            let mut columns = [Lane([0; LANES]); 16];
            for part in 0..L::PARTS {
                let load = |from| L::load(token, from, part);
                let (x, y, s) = (load(a), load(b), load(small));
                let vectors = [
                    x.add(y),
                    x.or(y),
                    x.xor(y),
                    x.mul(y),
                    x.and(y),
                    x.shl(12),
                    x.shr(7),
                    s.one_hot(),
                    x.add_where(x.signed_less(y), L::splat(token, 3)),
                ];
                let masks = [
                    x.meets(s),
                    x.signed_less(y),
                    x.equals(x),
                    s.equals(L::splat(token, 5)),
                    L::both(x.meets(y), L::not(y.meets(s))),
                    L::either(x.signed_less(y), s.equals(L::splat(token, 5))),
                ];
                for (vector, lane) in vectors.into_iter().zip(&mut stored) {
                    vector.store(lane, part);
                }
                for half in 0..2 {
                    let eight = L::columns(token, rows, part, half);
                    for (column, lane) in eight.into_iter().zip(&mut columns[8 * half..]) {
                        column.store(lane, part);
                    }
                }
                for (mask, seen) in masks.into_iter().zip(&mut seen) {
                    *seen |= L::bits(mask) << (part * L::COUNT);
                }
            }
            (stored.into_iter().chain(columns).collect(), seen.to_vec())
        }
    }

    #[test]
    fn all_instruction_sets_do_the_same() {
        let mut state = 1u64;
        let mut word = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as u16
        };
        for _ in 0..200 {
            let [a, b] = [(); 2].map(|()| Lane([(); LANES].map(|()| word())));
            let small = Lane([(); LANES].map(|()| word() % 16));
            let rows = [(); LANES].map(|()| [(); 16].map(|()| word()));
            let exercise =
                |on: Instructions| on.run(Exercise { a: &a, b: &b, small: &small, rows: &rows });
            let expected = exercise(Instructions::Portable);
            for (v, column) in expected.0[9..].iter().enumerate() {
                assert_eq!(column.0, rows.map(|row| row[v]));
            }
            for found in [Instructions::avx2(), Instructions::avx512()].into_iter().flatten() {
                assert_eq!(exercise(found), expected);
            }
        }
    }
}
