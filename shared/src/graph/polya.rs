//! How many graphs there are, counted without listing any: Pólya's theorem for all graphs, the
//! Euler transform for the connected ones, and the exponential formula for labelled ones; the two
//! of them for other sets of graphs as well. Exact integers throughout. Shares nothing with the
//! generator, whose counts are checked against these (OEIS A008406, A000088, A001349, A001187).

use num_bigint::{BigInt, BigUint};

use crate::graph::{degree::binomial, factorial, pairs};

/// A polynomial: the coefficient of x^m counts graphs with m edges.
type Polynomial = Vec<BigInt>;

/// Numbers of graphs of one order by number of edges m = 0, …, C(n, 2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeCounts {
    /// All graphs.
    pub all: Vec<BigUint>,
    /// The connected ones among them.
    pub connected: Vec<BigUint>,
}

/// Isomorphism classes of graphs of orders 1, …, `n`.
pub fn unlabelled(n: usize) -> Vec<SizeCounts> {
    let all: Vec<Polynomial> = (0..=n).map(cycle_index).collect();
    let connected = connected_classes(&all);
    counts(all, connected)
}

/// Labelled graphs of orders 1, …, `n`: C(C(n, 2), m) of them.
pub fn labelled(n: usize) -> Vec<SizeCounts> {
    let all: Vec<Polynomial> = (0..=n)
        .map(|k| (0..=pairs(k)).map(|m| BigInt::from(binomial(pairs(k), m))).collect())
        .collect();
    let connected = connected_labelled(&all);
    counts(all, connected)
}

fn counts(all: Vec<Polynomial>, connected: Vec<Polynomial>) -> Vec<SizeCounts> {
    let natural = |p: Polynomial| -> Vec<BigUint> {
        p.into_iter().map(|c| c.to_biguint().expect("a count")).collect()
    };
    let orders = all.into_iter().zip(connected).skip(1);
    orders
        .map(|(all, connected)| SizeCounts { all: natural(all), connected: natural(connected) })
        .collect()
}

/// How many connected graphs there are in a set of graphs that has a graph exactly if it has all
/// of its components, by order and by number of edges from 0 to C(n, 2). `all` has the numbers of
/// its graphs of orders 1, 2, …, isomorphism classes or, if `is_labelled`, labelled graphs. If they
/// are not the numbers of such a set, some of what is returned may be negative.
pub fn connected(all: &[Vec<u128>], is_labelled: bool) -> Vec<Vec<BigInt>> {
    let polynomial = |row: &Vec<u128>| row.iter().map(|&count| count.into()).collect();
    let none = std::iter::once(vec![BigInt::from(1)]);
    let all: Vec<Polynomial> = none.chain(all.iter().map(polynomial)).collect();
    let mut connected = match is_labelled {
        false => connected_classes(&all),
        true => connected_labelled(&all),
    };
    connected.split_off(1)
}

/// The Euler transform, backwards: n·G_n = Σ_k A_k G_{n−k} with A_k = Σ_{d | k} d·C_d(x^{k/d}),
/// solved for A_n, then for C_n. Orders are counted from 0.
fn connected_classes(all: &[Polynomial]) -> Vec<Polynomial> {
    let mut a: Vec<Polynomial> = vec![vec![]];
    let mut connected: Vec<Polynomial> = vec![vec![]];
    for k in 1..all.len() {
        let mut a_k: Polynomial = all[k].iter().map(|c| c * k).collect();
        for i in 1..k {
            subtract(&mut a_k, &product(&a[i], &all[k - i]));
        }
        let mut c_k = a_k.clone();
        for d in (1..k).filter(|d| k % d == 0) {
            let stretched = stretch(&connected[d], k / d);
            subtract(&mut c_k, &stretched.into_iter().map(|c| c * d).collect());
        }
        c_k.iter_mut().for_each(|c| *c /= k);
        c_k.resize(pairs(k) + 1, BigInt::ZERO);
        a.push(a_k);
        connected.push(c_k);
    }
    connected
}

/// The exponential formula, backwards, by removing the component of vertex 1:
/// C_n = G_n − Σ_{k<n} C(n − 1, k − 1) C_k G_{n−k}. Orders are counted from 0.
fn connected_labelled(all: &[Polynomial]) -> Vec<Polynomial> {
    let mut connected: Vec<Polynomial> = vec![vec![]];
    for k in 1..all.len() {
        let mut c_k = all[k].clone();
        for i in 1..k {
            let choices = binomial(k - 1, i - 1);
            subtract(
                &mut c_k,
                &product(&connected[i], &all[k - i]).into_iter().map(|c| c * choices).collect(),
            );
        }
        c_k.resize(pairs(k) + 1, BigInt::ZERO);
        connected.push(c_k);
    }
    connected
}

/// The partitions of `left` into parts of at most `most`, behind `parts`.
pub(crate) fn each_partition(
    left: usize,
    most: usize,
    parts: &mut Vec<usize>,
    visit: &mut impl FnMut(&[usize]),
) {
    if left == 0 {
        visit(parts);
    }
    for part in (1..=most.min(left)).rev() {
        parts.push(part);
        each_partition(left - part, part, parts, visit);
        parts.pop();
    }
}

/// Σ over the cycle types of permutations of n points of (their number / n!) · ∏ (1 + x^length)
/// over the cycles they induce on pairs: ⌊k/2⌋ from each k-cycle (one of them of length k/2 if k
/// is even) and gcd(j, k) of length lcm(j, k) from each pair of cycles.
fn cycle_index(n: usize) -> Polynomial {
    let mut sum: Polynomial = vec![BigInt::ZERO; pairs(n) + 1];
    each_partition(n, n, &mut Vec::new(), &mut |parts| {
        let mut centralizer = 1u64;
        for k in 1..=n {
            let count = parts.iter().filter(|&&part| part == k).count();
            centralizer *= (k as u64).pow(count as u32) * factorial(count);
        }
        let mut term: Polynomial = vec![BigInt::from(factorial(n) / centralizer)];
        for (i, &k) in parts.iter().enumerate() {
            for _ in 0..(k - 1) / 2 {
                term = times_one_plus(term, k);
            }
            if k % 2 == 0 {
                term = times_one_plus(term, k / 2);
            }
            for &j in &parts[..i] {
                let gcd = gcd(j, k);
                for _ in 0..gcd {
                    term = times_one_plus(term, j * k / gcd);
                }
            }
        }
        for (sum, term) in sum.iter_mut().zip(term) {
            *sum += term;
        }
    });
    sum.iter_mut().for_each(|c| *c /= factorial(n));
    sum
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// p · (1 + x^length).
fn times_one_plus(p: Polynomial, length: usize) -> Polynomial {
    let mut result = p.clone();
    result.resize(p.len() + length, BigInt::ZERO);
    for (i, c) in p.into_iter().enumerate() {
        result[i + length] += c;
    }
    result
}

fn product(p: &Polynomial, q: &Polynomial) -> Polynomial {
    let mut result = vec![BigInt::ZERO; (p.len() + q.len()).saturating_sub(1)];
    for (i, a) in p.iter().enumerate() {
        for (j, b) in q.iter().enumerate() {
            result[i + j] += a * b;
        }
    }
    result
}

/// p(x^step).
fn stretch(p: &Polynomial, step: usize) -> Polynomial {
    let mut result = vec![BigInt::ZERO; (p.len().max(1) - 1) * step + 1];
    for (i, c) in p.iter().enumerate() {
        result[i * step] = c.clone();
    }
    result
}

fn subtract(p: &mut Polynomial, q: &Polynomial) {
    if p.len() < q.len() {
        p.resize(q.len(), BigInt::ZERO);
    }
    for (p, q) in p.iter_mut().zip(q) {
        *p -= q;
    }
}

/// Graphs of an order 1 ≤ n ≤ 13 for each number of edges, by Pólya's theorem.
pub fn graphs_by_size(order: usize) -> Vec<u64> {
    let sizes = unlabelled(order).pop().expect("orders start at 1").all;
    sizes.iter().map(|count| count.try_into().unwrap_or(u64::MAX)).collect()
}

/// Graphs of an order with at most `max_size` edges, and (graph, edge) pairs, by Pólya's theorem.
pub fn totals(order: usize, max_size: usize) -> (u64, u64) {
    let mut sizes = graphs_by_size(order);
    sizes.truncate(max_size + 1);
    (sizes.iter().sum(), sizes.iter().enumerate().map(|(size, &count)| size as u64 * count).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::digest::Digest;

    fn totals(counts: &[SizeCounts], pick: impl Fn(&SizeCounts) -> &Vec<BigUint>) -> Vec<String> {
        counts.iter().map(|c| pick(c).iter().sum::<BigUint>().to_string()).collect()
    }

    #[test]
    fn known_numbers_of_graphs() {
        let counts = unlabelled(12);
        assert_eq!(
            totals(&counts, |c| &c.all),
            [
                "1",
                "2",
                "4",
                "11",
                "34",
                "156",
                "1044",
                "12346",
                "274668",
                "12005168",
                "1018997864",
                "165091172592"
            ]
        );
        assert_eq!(
            totals(&counts, |c| &c.connected),
            [
                "1",
                "1",
                "2",
                "6",
                "21",
                "112",
                "853",
                "11117",
                "261080",
                "11716571",
                "1006700565",
                "164059830476"
            ]
        );
        // A008406, row 5.
        let row: Vec<String> = counts[4].all.iter().map(BigUint::to_string).collect();
        assert_eq!(row, ["1", "1", "2", "4", "6", "6", "6", "4", "2", "1", "1"]);
    }

    /// A005195 and A000055, forests and trees: from the one follow the other.
    #[test]
    fn connected_forests_are_trees() {
        let by_size: [&[u128]; 7] = [
            &[1],
            &[1, 1],
            &[1, 1, 1],
            &[1, 1, 2, 2],
            &[1, 1, 2, 3, 3],
            &[1, 1, 2, 4, 6, 6],
            &[1, 1, 2, 4, 7, 11, 11],
        ];
        let all: Vec<Vec<u128>> = by_size.iter().map(|row| row.to_vec()).collect();
        let connected = connected(&all, false);
        for (i, trees) in [1, 1, 1, 2, 3, 6, 11].into_iter().enumerate() {
            let expected = (0..=pairs(i + 1)).map(|m| if m == i { trees } else { 0 });
            assert_eq!(connected[i], expected.map(BigInt::from).collect::<Vec<_>>());
        }
    }

    /// The published tables of orders of which not all is done have as many graphs, for each number
    /// of edges, as there are; and the digests that are published of several rows are their sums.
    #[test]
    fn published_rows_have_all_graphs() {
        let tables = [
            (12, include_str!("../../../results/order-12/sizes-n12.csv")),
            (12, include_str!("../../../results/order-12/dense-n12.csv")),
            (13, include_str!("../../../results/order-13/sizes-n13.csv")),
        ];
        let published = include_str!("../../../results/README.md");
        for (order, table) in tables {
            let counts = unlabelled(order).pop().unwrap();
            let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
            let names = rows.next().unwrap();
            let place = |name: &str| names.iter().position(|&column| column == name);
            let (mut seen, mut digest) = (0, Digest::default());
            for row in rows {
                let cell = |name: &str| place(name).map(|place| row[place]);
                let size: usize = cell("size").unwrap().parse().unwrap();
                assert_eq!(
                    cell("graphs"),
                    Some(&*counts.all[size].to_string()),
                    "{order}, {size}"
                );
                if let Some(connected) = cell("connected_graphs") {
                    assert_eq!(connected, counts.connected[size].to_string(), "{order}, {size}");
                }
                if let Some(of_row) = cell("digest") {
                    digest += of_row.parse().unwrap();
                    let is_told = published.contains(&digest.to_string());
                    assert_eq!(is_told, order == 12 && size >= 22, "{order}, {size}");
                }
                seen += 1;
            }
            assert!(seen > 16, "order {order}");
        }
    }

    #[test]
    fn known_numbers_of_labelled_graphs() {
        let counts = labelled(7);
        assert_eq!(totals(&counts, |c| &c.all), ["1", "2", "8", "64", "1024", "32768", "2097152"]);
        assert_eq!(
            totals(&counts, |c| &c.connected),
            ["1", "1", "4", "38", "728", "26704", "1866256"]
        );
    }
}
