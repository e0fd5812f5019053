//! 32 lanes of 16 bits, one graph a lane: the few vector operations that [`super::batch`] is
//! written in, for AVX-512, for AVX2, and portably. Tests hold the three equal; the choice is made
//! at run time and never shows in a result.
//!
//! Loads, stores and masks aside, an operation on [`Lanes`] does in each lane what its name says
//! on `u16`.

/// Number of lanes.
pub const LANES: usize = 32;

/// A vector in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Lane(pub [u16; LANES]);

/// A vector in registers. Implementations other than [`Portable`] may only be used inside
/// functions compiled for their instruction set.
pub(super) trait Lanes: Copy {
    /// One truth value a lane.
    type Mask: Copy;
    fn load(from: &Lane) -> Self;
    fn store(self, to: &mut Lane);
    fn splat(value: u16) -> Self;
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
    /// The mask, bit i for lane i.
    fn bits(mask: Self::Mask) -> u32;
    /// Where both masks hold.
    fn both(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// Where at least one of the masks holds.
    fn either(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// Where the mask does not hold.
    fn not(mask: Self::Mask) -> Self::Mask;
    /// Writes `value` to lane `first` and to all after it.
    fn fill_from(to: &mut Lane, first: usize, value: u16);
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
    /// All ones or all zeros.
    type Mask = Portable;

    #[inline(always)]
    fn load(from: &Lane) -> Self {
        Portable(from.0)
    }
    #[inline(always)]
    fn store(self, to: &mut Lane) {
        to.0 = self.0;
    }
    #[inline(always)]
    fn splat(value: u16) -> Self {
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
    fn fill_from(to: &mut Lane, first: usize, value: u16) {
        to.0[first..].fill(value);
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

/// The intrinsics. SAFETY, for every block here: each needs only its instruction set, which the
/// caller of [`Lanes`] methods has to guarantee by being compiled for it, and loads and stores go
/// to a `Lane`, which is 64 bytes long and aligned to 64.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{LANES, Lane, Lanes};

    /// AVX-512 F, BW.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx512(__m512i);

    impl Lanes for Avx512 {
        type Mask = __mmask32;

        #[inline(always)]
        fn load(from: &Lane) -> Self {
            Avx512(unsafe { _mm512_load_si512(from.0.as_ptr().cast()) })
        }
        #[inline(always)]
        fn store(self, to: &mut Lane) {
            unsafe { _mm512_store_si512(to.0.as_mut_ptr().cast(), self.0) }
        }
        #[inline(always)]
        fn splat(value: u16) -> Self {
            Avx512(unsafe { _mm512_set1_epi16(value as i16) })
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            Avx512(unsafe { _mm512_add_epi16(self.0, other.0) })
        }
        #[inline(always)]
        fn or(self, other: Self) -> Self {
            Avx512(unsafe { _mm512_or_si512(self.0, other.0) })
        }
        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            Avx512(unsafe { _mm512_xor_si512(self.0, other.0) })
        }
        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            Avx512(unsafe { _mm512_mullo_epi16(self.0, other.0) })
        }
        #[inline(always)]
        fn and(self, other: Self) -> Self {
            Avx512(unsafe { _mm512_and_si512(self.0, other.0) })
        }
        #[inline(always)]
        fn shl(self, bits: u32) -> Self {
            Avx512(unsafe { _mm512_sll_epi16(self.0, _mm_cvtsi32_si128(bits as i32)) })
        }
        #[inline(always)]
        fn shr(self, bits: u32) -> Self {
            Avx512(unsafe { _mm512_srl_epi16(self.0, _mm_cvtsi32_si128(bits as i32)) })
        }
        #[inline(always)]
        fn one_hot(self) -> Self {
            Avx512(unsafe { _mm512_sllv_epi16(_mm512_set1_epi16(1), self.0) })
        }
        #[inline(always)]
        fn meets(self, other: Self) -> Self::Mask {
            unsafe { _mm512_test_epi16_mask(self.0, other.0) }
        }
        #[inline(always)]
        fn signed_less(self, other: Self) -> Self::Mask {
            unsafe { _mm512_cmplt_epi16_mask(self.0, other.0) }
        }
        #[inline(always)]
        fn equals(self, other: Self) -> Self::Mask {
            unsafe { _mm512_cmpeq_epi16_mask(self.0, other.0) }
        }
        #[inline(always)]
        fn add_where(self, mask: Self::Mask, other: Self) -> Self {
            Avx512(unsafe { _mm512_mask_add_epi16(self.0, mask, self.0, other.0) })
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
        fn fill_from(to: &mut Lane, first: usize, value: u16) {
            unsafe {
                _mm512_mask_storeu_epi16(
                    to.0.as_mut_ptr().cast(),
                    !0 << first,
                    _mm512_set1_epi16(value as i16),
                );
            }
        }
    }

    /// AVX2, two registers a vector.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx2([__m256i; 2]);

    /// The same expression for both halves. A closure would not do: it is compiled without the
    /// instruction set, and what it calls is then not inlined.
    macro_rules! halves {
        ($a:ident = $x:expr, $b:ident = $y:expr => $result:expr) => {{
            let (x, y) = ($x, $y);
            Avx2([
                {
                    let ($a, $b) = (x.0[0], y.0[0]);
                    $result
                },
                {
                    let ($a, $b) = (x.0[1], y.0[1]);
                    $result
                },
            ])
        }};
    }

    impl Lanes for Avx2 {
        /// All ones or all zeros.
        type Mask = Avx2;

        #[inline(always)]
        fn load(from: &Lane) -> Self {
            let half = from.0.as_ptr().cast::<__m256i>();
            unsafe { Avx2([_mm256_load_si256(half), _mm256_load_si256(half.add(1))]) }
        }
        #[inline(always)]
        fn store(self, to: &mut Lane) {
            let half = to.0.as_mut_ptr().cast::<__m256i>();
            unsafe {
                _mm256_store_si256(half, self.0[0]);
                _mm256_store_si256(half.add(1), self.0[1]);
            }
        }
        #[inline(always)]
        fn splat(value: u16) -> Self {
            Avx2([unsafe { _mm256_set1_epi16(value as i16) }; 2])
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            unsafe { halves!(a = self, b = other => _mm256_add_epi16(a, b)) }
        }
        #[inline(always)]
        fn or(self, other: Self) -> Self {
            unsafe { halves!(a = self, b = other => _mm256_or_si256(a, b)) }
        }
        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            unsafe { halves!(a = self, b = other => _mm256_xor_si256(a, b)) }
        }
        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            unsafe { halves!(a = self, b = other => _mm256_mullo_epi16(a, b)) }
        }
        #[inline(always)]
        fn and(self, other: Self) -> Self {
            unsafe { halves!(a = self, b = other => _mm256_and_si256(a, b)) }
        }
        #[inline(always)]
        fn shl(self, bits: u32) -> Self {
            unsafe {
                halves!(a = self, _b = self => _mm256_sll_epi16(a, _mm_cvtsi32_si128(bits as i32)))
            }
        }
        #[inline(always)]
        fn shr(self, bits: u32) -> Self {
            unsafe {
                halves!(a = self, _b = self => _mm256_srl_epi16(a, _mm_cvtsi32_si128(bits as i32)))
            }
        }
        #[inline(always)]
        fn one_hot(self) -> Self {
            // There is no 16-bit variable shift: look up both bytes of 1 << lane.
            unsafe {
                let low = _mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0);
                let high = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, -128);
                let (low, high) =
                    (_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high));
                halves!(a = self, _b = self => {
                    // The upper byte of each lane of `a` is 0; 128 there makes the shuffle answer
                    // 0.
                    let only_low = _mm256_or_si256(a, _mm256_set1_epi16(i16::MIN));
                    let low = _mm256_shuffle_epi8(low, only_low);
                    let high = _mm256_shuffle_epi8(high, only_low);
                    _mm256_or_si256(low, _mm256_slli_epi16::<8>(high))
                })
            }
        }
        #[inline(always)]
        fn meets(self, other: Self) -> Self {
            Self::not(unsafe {
                halves!(a = self, b = other =>
                    _mm256_cmpeq_epi16(_mm256_and_si256(a, b), _mm256_setzero_si256()))
            })
        }
        #[inline(always)]
        fn signed_less(self, other: Self) -> Self {
            unsafe { halves!(a = self, b = other => _mm256_cmpgt_epi16(b, a)) }
        }
        #[inline(always)]
        fn equals(self, other: Self) -> Self {
            unsafe { halves!(a = self, b = other => _mm256_cmpeq_epi16(a, b)) }
        }
        #[inline(always)]
        fn add_where(self, mask: Self, other: Self) -> Self {
            self.add(mask.and(other))
        }
        #[inline(always)]
        fn bits(mask: Self) -> u32 {
            unsafe {
                // Packing halves words to bytes within each 128-bit part; the permutation puts the
                // parts in order.
                let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(
                    mask.0[0], mask.0[1],
                ));
                _mm256_movemask_epi8(packed) as u32
            }
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
            mask.xor(Self::splat(!0))
        }
        #[inline(always)]
        fn fill_from(to: &mut Lane, first: usize, value: u16) {
            /// Lanes of zeros, then lanes of ones.
            static BEFORE_AND_AFTER: [[u16; LANES]; 2] = [[0; LANES], [!0; LANES]];
            let after = unsafe {
                // SAFETY: `first` < 32, so that 32 lanes follow.
                let half =
                    BEFORE_AND_AFTER.as_ptr().cast::<u16>().add(LANES - first).cast::<__m256i>();
                Avx2([_mm256_loadu_si256(half), _mm256_loadu_si256(half.add(1))])
            };
            let kept = Self::load(to).and(Self::not(after));
            kept.or(after.and(Self::splat(value))).store(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation in turn, from three operands.
    #[inline(always)]
    fn exercise<L: Lanes>(a: &Lane, b: &Lane, small: &Lane) -> (Vec<Lane>, Vec<u32>) {
        let (x, y, s) = (L::load(a), L::load(b), L::load(small));
        let vectors = [
            x.add(y),
            x.or(y),
            x.xor(y),
            x.mul(y),
            x.and(y),
            x.shl(12),
            x.shr(7),
            s.one_hot(),
            x.add_where(x.signed_less(y), L::splat(3)),
        ];
        let masks = [
            x.meets(s),
            x.signed_less(y),
            x.equals(x),
            s.equals(L::splat(5)),
            L::both(x.meets(y), L::not(y.meets(s))),
            L::either(x.signed_less(y), s.equals(L::splat(5))),
        ];
        let stored = vectors.map(|vector| {
            let mut lane = Lane([0; LANES]);
            vector.store(&mut lane);
            lane
        });
        let filled = (0..LANES).map(|first| {
            let mut lane = *a;
            L::fill_from(&mut lane, first, b.0[first]);
            lane
        });
        (stored.into_iter().chain(filled).collect(), masks.map(L::bits).to_vec())
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn exercise_avx512(a: &Lane, b: &Lane, small: &Lane) -> (Vec<Lane>, Vec<u32>) {
        exercise::<Avx512>(a, b, small)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn exercise_avx2(a: &Lane, b: &Lane, small: &Lane) -> (Vec<Lane>, Vec<u32>) {
        exercise::<Avx2>(a, b, small)
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn all_instruction_sets_do_the_same() {
        let mut state = 1u64;
        let mut word = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as u16
        };
        for _ in 0..200 {
            let [a, b] = [(); 2].map(|()| Lane([(); LANES].map(|()| word())));
            let small = Lane([(); LANES].map(|()| word() % 16));
            let expected = exercise::<Portable>(&a, &b, &small);
            if is_x86_feature_detected!("avx2") {
                assert_eq!(unsafe { exercise_avx2(&a, &b, &small) }, expected);
            }
            if is_x86_feature_detected!("avx512bw") {
                assert_eq!(unsafe { exercise_avx512(&a, &b, &small) }, expected);
            }
        }
    }
}
