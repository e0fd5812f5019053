//! Endgames that several threads fill.

use trailtrap_shared::game::trail_trap::decide::EndgameBuilder;

/// Threads that fill one table leave the table that one of them would have left, though entries of
/// a place may change places: each graph is found, with its record.
#[test]
fn endgames_are_filled_by_many_threads() {
    const GRAPHS: usize = 50_000;
    // Any numbers will do for codes, and these are all different.
    let code = |i: usize| (i as u128 * 0x9e37_79b9_7f4a_7c15) & ((1 << 45) - 1);
    let codes: Vec<u128> = (0..GRAPHS).map(code).collect();
    let record = |code: u128| -> [u8; 14] { std::array::from_fn(|i| (code >> i) as u8) };
    let mut builder = EndgameBuilder::new(10, 12, GRAPHS).unwrap();
    let shares: Vec<&[u128]> = codes.chunks(1700).collect();
    let on_threads = |work: &(dyn Fn(&[u128]) + Sync)| {
        std::thread::scope(|scope| {
            for first in 0..4 {
                let own = shares.iter().skip(first).step_by(4);
                scope.spawn(move || own.for_each(|share| work(share)));
            }
        });
    };
    let counting = builder.counting();
    on_threads(&|share| counting.count(share));
    let filling = builder.filling().unwrap();
    on_threads(&|share| {
        let records: Vec<[u8; 14]> = share.iter().map(|&code| record(code)).collect();
        filling.put(share, |i| &records[i]).unwrap();
    });
    let endgame = builder.finish().unwrap();
    for &code in &codes {
        assert_eq!(endgame.record(code, endgame.locate(code)).unwrap(), record(code));
    }
    assert!(endgame.record(1 << 44 | 5, endgame.locate(1 << 44 | 5)).is_err());
}
