//! Whether a graph can be drawn in the plane: the algorithm of Demoucron, Malgrange and Pertuiset
//! (1964), on adjacency sets.
//!
//! A cycle is drawn. What is left falls into *fragments*: edges between drawn vertices, and
//! components of the vertices that are not drawn with the edges that attach them. As long as there
//! is a fragment, one of those with the fewest faces that have all vertices it is attached to is
//! taken, and a path through it is drawn in such a face. If there is no such face for one, the
//! graph cannot be drawn; otherwise it can, since it does not matter which face is taken when
//! there is a choice. A fragment that hangs on one vertex, or on none, is a graph by itself.

use crate::graph::{AdjacencyRows, Graph, MAX_ORDER, VertexSet, all_vertices, vertices};

/// Whether a graph is planar.
pub(super) fn is_planar(graph: &Graph) -> bool {
    can_be_drawn(graph.rows(), all_vertices(graph.order()))
}

/// The graph on some vertices without what does not matter: vertices with one neighbour or none,
/// and those with two, which are points of an edge between these. With the vertices that are left,
/// each of which has three neighbours or more.
fn without_points(rows: &AdjacencyRows, mut set: VertexSet) -> (AdjacencyRows, VertexSet) {
    let mut rows: AdjacencyRows =
        std::array::from_fn(|v| if set >> v & 1 == 1 { rows[v] & set } else { 0 });
    while let Some(v) = vertices(set).find(|&v| rows[v].count_ones() <= 2) {
        let around = rows[v];
        set &= !(1 << v);
        for u in vertices(around) {
            rows[u] &= !(1 << v);
            // It is joined to the other one, if there is one.
            rows[u] |= around & !(1 << u);
        }
        rows[v] = 0;
    }
    (rows, set)
}

/// What is left of some vertices when those with at most one neighbour are taken away, again and
/// again: nothing exactly if there is no cycle among them.
pub(super) fn without_leaves(rows: &AdjacencyRows, mut set: VertexSet) -> VertexSet {
    loop {
        let stays = |v: &usize| (rows[*v] & set).count_ones() >= 2;
        let left = vertices(set).filter(stays).fold(0, |left, v| left | 1 << v);
        if left == set {
            return set;
        }
        set = left;
    }
}

/// A face: its vertices in order, and as a set.
struct Face {
    around: Vec<usize>,
    set: VertexSet,
}

impl Face {
    fn new(around: Vec<usize>) -> Self {
        let set = around.iter().fold(0, |set, v| set | 1 << v);
        Face { around, set }
    }

    /// The two faces that a path between two of its vertices divides it into.
    fn divided(&self, path: &[usize]) -> [Face; 2] {
        let place = |v: usize| {
            self.around.iter().position(|&w| w == v).expect("a path ends on the face it divides")
        };
        let (length, first, last) =
            (self.around.len(), place(path[0]), place(path[path.len() - 1]));
        let inner = &path[1..path.len() - 1];
        let from_to = |from: usize, to: usize| {
            let steps = (to + length - from) % length;
            (0..=steps).map(move |step| self.around[(from + step) % length])
        };
        // Around one side from the first end to the last, and back along the path; and the other.
        let one = from_to(first, last).chain(inner.iter().rev().copied()).collect();
        let other = from_to(last, first).chain(inner.iter().copied()).collect();
        [Face::new(one), Face::new(other)]
    }
}

/// Whether the graph on some vertices is planar.
fn can_be_drawn(rows: &AdjacencyRows, set: VertexSet) -> bool {
    let (rows, mut left) = without_points(rows, set);
    let rows = &rows;
    let (n, m) = (left.count_ones(), rows.iter().map(|row| row.count_ones()).sum::<u32>() / 2);
    // K3,3 has nine edges, K5 has ten, and no planar graph with three vertices has more than this.
    if m < 9 || m + 6 > 3 * n {
        return m < 9;
    }
    let cycle = some_cycle(rows, left);
    let mut drawn_rows: AdjacencyRows = [0; MAX_ORDER];
    for (i, &v) in cycle.iter().enumerate() {
        let w = cycle[(i + 1) % cycle.len()];
        drawn_rows[v] |= 1 << w;
        drawn_rows[w] |= 1 << v;
    }
    let mut faces = vec![Face::new(cycle.clone()), Face::new(cycle)];
    let mut drawn = faces[0].set;
    loop {
        // The path to be drawn next, and the face that it divides.
        let mut next: Option<(Vec<usize>, usize)> = None;
        let mut is_forced = false;
        let chords = vertices(drawn).flat_map(|u| {
            let others = rows[u] & drawn & !drawn_rows[u] & all_vertices(u);
            vertices(others).map(move |w| (0, 1 << u | 1 << w))
        });
        let chords: Vec<(VertexSet, VertexSet)> = chords.collect();
        let mut waiting = left & !drawn;
        let components = std::iter::from_fn(|| {
            let component = component(rows, waiting)?;
            waiting &= !component;
            let around = vertices(component).fold(0, |set, v| set | rows[v]);
            Some((component, around & drawn))
        });
        let components: Vec<(VertexSet, VertexSet)> = components.collect();
        for (inner, ends) in chords.into_iter().chain(components) {
            if ends.count_ones() <= 1 {
                if !can_be_drawn(rows, inner | ends) {
                    return false;
                }
                left &= !inner;
                continue;
            }
            let mut room = (0..faces.len()).filter(|&i| ends & !faces[i].set == 0);
            let Some(face) = room.next() else { return false };
            let has_choice = room.next().is_some();
            if next.is_none() || !has_choice && !is_forced {
                next = Some((path(rows, inner, ends), face));
                is_forced = !has_choice;
            }
        }
        let Some((path, face)) = next else { return true };
        for step in path.windows(2) {
            drawn_rows[step[0]] |= 1 << step[1];
            drawn_rows[step[1]] |= 1 << step[0];
            drawn |= 1 << step[0] | 1 << step[1];
        }
        faces.extend(faces[face].divided(&path));
        faces.swap_remove(face);
    }
}

/// A cycle within vertices each of which has two neighbours there.
fn some_cycle(rows: &AdjacencyRows, set: VertexSet) -> Vec<usize> {
    let mut way = vec![set.trailing_zeros() as usize];
    let mut before: VertexSet = 0;
    loop {
        let here = way[way.len() - 1];
        let next = (rows[here] & set & !before).trailing_zeros() as usize;
        if let Some(start) = way.iter().position(|&v| v == next) {
            return way.split_off(start);
        }
        before = 1 << here;
        way.push(next);
    }
}

/// The component of the lowest of some vertices.
fn component(rows: &AdjacencyRows, set: VertexSet) -> Option<VertexSet> {
    let mut reached = set & set.wrapping_neg();
    if reached == 0 {
        return None;
    }
    loop {
        let more = vertices(reached).fold(reached, |more, v| more | rows[v] & set);
        if more == reached {
            return Some(reached);
        }
        reached = more;
    }
}

/// A path between two of the ends, through the vertices of `inner`, which are connected and each
/// end is joined to; or along an edge if there are none.
fn path(rows: &AdjacencyRows, inner: VertexSet, ends: VertexSet) -> Vec<usize> {
    let first = ends.trailing_zeros() as usize;
    let others = ends & !(1 << first);
    if inner == 0 {
        return vec![first, others.trailing_zeros() as usize];
    }
    // Breadth-first, with the vertex that each was reached from.
    let mut from = [first; MAX_ORDER];
    let mut reached = rows[first] & inner;
    let mut level = reached;
    loop {
        let found = vertices(level).find_map(|v| {
            let end = rows[v] & others;
            (end != 0).then(|| (v, end.trailing_zeros() as usize))
        });
        if let Some((mut v, last)) = found {
            let mut path = vec![last];
            while v != first {
                path.push(v);
                v = from[v];
            }
            path.push(first);
            return path;
        }
        let mut next: VertexSet = 0;
        for v in vertices(level) {
            for w in vertices(rows[v] & inner & !reached) {
                from[w] = v;
                next |= 1 << w;
                reached |= 1 << w;
            }
        }
        level = next;
    }
}
