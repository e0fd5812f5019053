//! From a key and degrees back to the graph: what is done for every graph that is read.

use crate::graph::{Graph, NARROW_ORDER, widened};

use super::key_bits;

/// The graph of order `n` in canonical labels that has this key and these degrees (`degree[v]` for
/// label v), or `None` if there is none.
#[inline]
pub fn graph_of_key(key: u128, degrees: &[u8]) -> Option<Graph> {
    let n = degrees.len();
    if !(1..=NARROW_ORDER).contains(&n) || key >> key_bits(n) != 0 {
        return None;
    }
    #[cfg(target_arch = "x86_64")]
    return sse2(key, degrees);
    #[cfg(not(target_arch = "x86_64"))]
    portable(key, degrees)
}

/// The last row is what the degrees lack.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn portable(key: u128, degrees: &[u8]) -> Option<Graph> {
    let n = degrees.len();
    let rest = Graph::from_code(n - 1, key);
    let (mut last, mut wrong) = (0, 0u8);
    for v in 0..n - 1 {
        let missing = degrees[v].wrapping_sub(rest.degree(v) as u8);
        last |= u32::from(missing & 1) << v;
        wrong |= missing & !1;
    }
    (wrong == 0 && last.count_ones() == u32::from(degrees[n - 1])).then(|| rest.with_vertex(last))
}

/// The same in registers, with the rows as lanes: a third of the time. Every x86-64 processor has
/// SSE2.
#[cfg(target_arch = "x86_64")]
fn sse2(key: u128, degrees: &[u8]) -> Option<Graph> {
    use std::arch::x86_64::*;

    use crate::graph::{all_vertices, pairs, transpose_lanes};

    let n = degrees.len();
    let mut wanted = [0; NARROW_ORDER];
    wanted[..n - 1].copy_from_slice(&degrees[..n - 1]);
    // The lower neighbours of each vertex but the last one. Beyond these the key is zero.
    let lower = |v: usize| ((key >> pairs(v)) as u16 & all_vertices(v) as u16) as i16;
    let mut rows = [0u16; NARROW_ORDER];
    // SAFETY: the load reads the 16 bytes of `wanted`, the stores write the 32 bytes of `rows`;
    // the rest are operations on registers.
    let (last, fits) = unsafe {
        let byte = _mm_set1_epi16(0xff);
        let lanes = |v: usize, of: &dyn Fn(usize) -> i16| {
            _mm_setr_epi16(
                of(v),
                of(v + 1),
                of(v + 2),
                of(v + 3),
                of(v + 4),
                of(v + 5),
                of(v + 6),
                of(v + 7),
            )
        };
        let lower = [lanes(0, &lower), lanes(8, &lower)];
        // The higher neighbours are the transposed relation.
        let higher = transpose_lanes(lower);
        let higher = [lanes(0, &|v| higher[v] as i16), lanes(8, &|v| higher[v] as i16)];
        let rest = [0, 1].map(|half| _mm_or_si128(lower[half], higher[half]));
        // What each degree lacks has to be 0 or 1.
        let [first, second] = rest.map(|rows| _mm_and_si128(bits_of_bytes(rows), byte));
        let degree = _mm_packus_epi16(first, second);
        let missing = _mm_sub_epi8(_mm_loadu_si128(wanted.as_ptr().cast()), degree);
        let one = _mm_set1_epi8(1);
        let rest_missing = _mm_andnot_si128(one, missing);
        let fits = _mm_movemask_epi8(_mm_cmpeq_epi8(rest_missing, _mm_setzero_si128())) == 0xffff;
        let joined = _mm_cmpeq_epi8(missing, one);
        let last_vertex = _mm_set1_epi16((1u16 << (n - 1)) as i16);
        let joined_lanes = [_mm_unpacklo_epi8(joined, joined), _mm_unpackhi_epi8(joined, joined)];
        for half in [0, 1] {
            let row = _mm_or_si128(rest[half], _mm_and_si128(joined_lanes[half], last_vertex));
            _mm_storeu_si128(rows.as_mut_ptr().add(8 * half).cast(), row);
        }
        (_mm_movemask_epi8(joined) as u16, fits)
    };
    rows[n - 1] = last;
    (fits && last.count_ones() == u32::from(degrees[n - 1]))
        .then(|| Graph::from_rows(n, widened(&rows)))
}

/// In the lower byte of each lane the number of its bits.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn bits_of_bytes(lanes: std::arch::x86_64::__m128i) -> std::arch::x86_64::__m128i {
    use std::arch::x86_64::*;
    // SAFETY: these are operations on registers.
    unsafe {
        let [ones, twos, fours] = [0x55, 0x33, 0x0f].map(|mask| _mm_set1_epi8(mask));
        let x = _mm_sub_epi8(lanes, _mm_and_si128(_mm_srli_epi16::<1>(lanes), ones));
        let x = _mm_add_epi8(_mm_and_si128(x, twos), _mm_and_si128(_mm_srli_epi16::<2>(x), twos));
        let x = _mm_and_si128(_mm_add_epi8(x, _mm_srli_epi16::<4>(x)), fours);
        _mm_add_epi8(x, _mm_srli_epi16::<8>(x))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::pairs;

    proptest! {
        /// Keys of graphs and numbers that are none, with degrees that fit and degrees that do
        /// not.
        #[test]
        fn both_ways_lead_to_the_same_graph(
            n in 1..=NARROW_ORDER,
            code: u128,
            other: u128,
            at in 0..NARROW_ORDER,
            degree: u8,
        ) {
            let [graph, another] = [code, other].map(|code| Graph::from_code(n, code));
            let degrees = |graph: &Graph| -> Vec<u8> {
                (0..n).map(|v| graph.degree(v) as u8).collect()
            };
            let key_of = |graph: &Graph| graph.code().narrow() & ((1 << pairs(n - 1)) - 1);
            let mut spoiled = degrees(&graph);
            spoiled[at % n] = degree;
            prop_assert_eq!(graph_of_key(key_of(&graph), &degrees(&graph)), Some(graph));
            for degrees in [degrees(&graph), degrees(&another), spoiled] {
                let key = key_of(&graph);
                prop_assert_eq!(graph_of_key(key, &degrees), portable(key, &degrees));
            }
        }
    }

    #[test]
    fn what_is_no_key_is_no_graph() {
        assert_eq!(graph_of_key(0, &[]), None);
        assert_eq!(graph_of_key(1, &[0]), None);
        assert_eq!(graph_of_key(1 << key_bits(5), &[0; 5]), None);
        assert_eq!(graph_of_key(0, &[0; NARROW_ORDER + 1]), None);
    }
}
