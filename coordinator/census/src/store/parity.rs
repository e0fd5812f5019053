//! Parity: what mends a block of which some bytes in a row are damaged, so that they cost neither
//! its unit nor, where what that was computed from is gone, its order.
//!
//! A block is cut into at most 128 pieces. Those with even numbers are added up, bit by bit, and
//! so are those with odd numbers; a checksum for each piece says which are damaged. One even and
//! one odd piece follow from the others, hence all that lies in two neighbouring pieces: a bit
//! anywhere, and 1/128 of a block wherever it begins. Whether a mended block is right, its own
//! checksum tells.
//!
//! | bytes | meaning (integers little-endian) |
//! |---|---|
//! | 4 | magic `TTPY` |
//! | 8 | bytes of the block |
//! | 4 for each piece | CRC-32 of the piece |
//! | 2 × bytes of a piece | sums of the even and of the odd pieces, the last piece filled with zeros |
//! | 4 | CRC-32 of everything before |

/// The first bytes of a parity: others if any constant of this format is another.
const MAGIC: &[u8; 4] = b"TTPY";
const MOST_PIECES: usize = 128;
/// Of the last piece alone there may be less.
const LEAST_PIECE_BYTES: usize = 512;
const CHECKSUM_BYTES: usize = 4;

fn bytes_of_piece(block_bytes: usize) -> usize {
    block_bytes.div_ceil(MOST_PIECES).max(LEAST_PIECE_BYTES)
}

fn add(sum: &mut [u8], piece: &[u8]) {
    sum.iter_mut().zip(piece).for_each(|(sum, byte)| *sum ^= byte);
}

/// Bytes of the parity of a block of so many bytes.
pub fn bytes(block_bytes: usize) -> usize {
    let piece_bytes = bytes_of_piece(block_bytes);
    MAGIC.len() + 8 + CHECKSUM_BYTES * block_bytes.div_ceil(piece_bytes) + 2 * piece_bytes + 4
}

/// The parity of a block, of about 1/64 of its bytes, or a kilobyte if that is more.
pub fn of(block: &[u8]) -> Vec<u8> {
    let piece_bytes = bytes_of_piece(block.len());
    let mut parity = MAGIC.to_vec();
    parity.extend_from_slice(&(block.len() as u64).to_le_bytes());
    for piece in block.chunks(piece_bytes) {
        parity.extend_from_slice(&crc32fast::hash(piece).to_le_bytes());
    }
    let mut sums = vec![0; 2 * piece_bytes];
    for (number, piece) in block.chunks(piece_bytes).enumerate() {
        add(&mut sums[number % 2 * piece_bytes..][..piece_bytes], piece);
    }
    parity.append(&mut sums);
    parity.extend_from_slice(&crc32fast::hash(&parity).to_le_bytes());
    parity
}

/// The block that has this parity, from one of which some bytes are others; `None` if these are
/// too many, or the parity is damaged, or that of a block of another length.
pub fn mended(damaged: &[u8], parity: &[u8]) -> Option<Vec<u8>> {
    let (parity, checksum) = parity.split_last_chunk()?;
    if crc32fast::hash(parity) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let (block_bytes, parity) = parity.strip_prefix(MAGIC)?.split_first_chunk()?;
    if u64::from_le_bytes(*block_bytes) != damaged.len() as u64 {
        return None;
    }
    let piece_bytes = bytes_of_piece(damaged.len());
    let pieces: Vec<&[u8]> = damaged.chunks(piece_bytes).collect();
    let (checksums, sums) = parity.split_at_checked(CHECKSUM_BYTES * pieces.len())?;
    if sums.len() != 2 * piece_bytes {
        return None;
    }
    let is_damaged = |&number: &usize| {
        let checksum = &checksums[CHECKSUM_BYTES * number..][..CHECKSUM_BYTES];
        crc32fast::hash(pieces[number]).to_le_bytes() != checksum
    };
    let mut block = damaged.to_vec();
    for (first, sum) in sums.chunks_exact(piece_bytes).enumerate() {
        let numbers = || (first..pieces.len()).step_by(2);
        match numbers().filter(is_damaged).collect::<Vec<usize>>()[..] {
            [] => {}
            [lost] => {
                let mut piece = sum.to_vec();
                numbers()
                    .filter(|&number| number != lost)
                    .for_each(|number| add(&mut piece, pieces[number]));
                let length = pieces[lost].len();
                block[lost * piece_bytes..][..length].copy_from_slice(&piece[..length]);
            }
            _ => return None,
        }
    }
    Some(block)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(bytes: usize) -> Vec<u8> {
        (0..bytes as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect()
    }

    proptest! {
        /// Bytes in a row, no more than a piece has, come back, whatever they are; more of them
        /// do, or it is said that they do not.
        #[test]
        fn bytes_in_a_row_come_back(
            bytes in 1usize..200_000,
            at: prop::sample::Index,
            share in 0.0f64..2.0,
            noise in 1u8..,
        ) {
            let block = block(bytes);
            let parity = of(&block);
            let start = at.index(bytes);
            let run = ((bytes_of_piece(bytes) as f64 * share) as usize).min(bytes - start);
            let mut damaged = block.clone();
            damaged[start..start + run].iter_mut().for_each(|byte| *byte ^= noise);
            let mended = mended(&damaged, &parity);
            if run <= bytes_of_piece(bytes) {
                prop_assert_eq!(mended, Some(block));
            } else if let Some(mended) = mended {
                prop_assert_eq!(mended, block);
            }
        }

        /// A damaged parity mends nothing, and nothing panics.
        #[test]
        fn a_damaged_parity_is_none(
            bytes in 1usize..5000,
            at: prop::sample::Index,
            noise in 1u8..,
            cut: prop::sample::Index,
        ) {
            let block = block(bytes);
            let mut parity = of(&block);
            prop_assert_eq!(mended(&block, &parity[..cut.index(parity.len())]), None);
            prop_assert_eq!(mended(&block[..bytes - 1], &parity), None);
            let place = at.index(parity.len());
            parity[place] ^= noise;
            prop_assert_eq!(mended(&block, &parity), None);
        }
    }

    #[test]
    fn it_is_small() {
        assert_eq!(of(&block(8 << 20)).len(), 16 + 4 * 128 + (8 << 20) / 64);
        assert!(of(&block(4 << 10)).len() < 1100);
        for length in [1, 512, 4 << 10, 65_535, 65_537, 1 << 20] {
            assert_eq!(of(&block(length)).len(), bytes(length));
        }
    }
}
