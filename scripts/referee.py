#!/usr/bin/env python3
"""Re-checks the small orders of a census without any of its code.

    scripts/referee.py FILE [ORDER]

FILE is what `trailtrap census N --json` printed. All graphs up to ORDER (default 6) are generated
anew, every position is played out by the rules of the game that the file names (Trail Trap if it
names none), and all that is reported of it, counts, sums and public digests, is compared for every
number of edges and for the order. The labelling and the digest are implemented here from their
specification in ARCHITECTURE.md. Order 6 takes a second, order 7 a minute and a half. Needs nothing
but Python 3.
"""

import hashlib
import json
import sys
from functools import lru_cache
from math import factorial


def twins(rows, v, w):
    return (rows[v] ^ rows[w]) & ~(1 << v | 1 << w) == 0


def refine(rows, colours):
    n = len(rows)
    while True:
        signature = [sum(16 ** colours[w] for w in range(n) if rows[v] >> w & 1) for v in range(n)]
        ranked = [(colours[v], signature[v]) for v in range(n)]
        new = [sum(other < ranked[v] for other in ranked) for v in range(n)]
        if new == colours:
            return colours
        colours = new


def reference_labelling(rows):
    """The label of each vertex, and |Aut|."""
    n = len(rows)
    degree = [bin(row).count("1") for row in rows]
    leaves = []

    def key(label):
        edges = ((label[v], label[w]) for v in range(n) for w in range(v) if rows[v] >> w & 1)
        pairs = ((max(e), min(e)) for e in edges)
        return sum(1 << (j * (j - 1) // 2 + i) for j, i in pairs if j < n - 1)

    def visit(colours, multiplicity):
        colours = refine(rows, colours)
        classes = {c: [v for v in range(n) if colours[v] == c] for c in sorted(set(colours))}
        open_classes = [
            (len(vs), c)
            for c, vs in classes.items()
            if len(vs) > 1 and not all(twins(rows, vs[0], w) for w in vs[1:])
        ]
        if not open_classes:
            label, automorphisms = [0] * n, multiplicity
            for c, vs in classes.items():
                automorphisms *= factorial(len(vs))
                for offset, v in enumerate(vs):
                    label[v] = c + offset
            leaves.append((key(label), label, automorphisms))
            return
        target = classes[min(open_classes)[1]]
        left = list(target)
        while left:
            v = left[0]
            same = [w for w in left if w == v or twins(rows, v, w)]
            left = [w for w in left if w not in same]
            visit(
                [c + (w in target and w != v) for w, c in enumerate(colours)],
                multiplicity * len(same),
            )

    visit([sum(d < degree[v] for d in degree) for v in range(n)], 1)
    best = max(leaf[0] for leaf in leaves)
    best_leaves = [leaf for leaf in leaves if leaf[0] == best]
    return best_leaves[0][1], sum(leaf[2] for leaf in best_leaves)


def relabel(rows, label):
    new = [0] * len(rows)
    for v, row in enumerate(rows):
        new[label[v]] = sum(1 << label[w] for w in range(len(rows)) if row >> w & 1)
    return tuple(new)


def graph6(rows):
    bits = [rows[j] >> i & 1 for j in range(len(rows)) for i in range(j)]
    bits += [0] * (-len(bits) % 6)
    sixes = [bits[i : i + 6] for i in range(0, len(bits), 6)]
    return bytes([63 + len(rows)] + [63 + int("".join(map(str, six)), 2) for six in sixes])


def without(rows, u, w):
    rows = list(rows)
    rows[u] &= ~(1 << w)
    rows[w] &= ~(1 << u)
    return tuple(rows)


def edges(rows):
    return [(u, w) for u in range(len(rows)) for w in range(len(rows)) if rows[u] >> w & 1]


@lru_cache(maxsize=None)
def mover_wins(rows, a, b):
    return any(
        rows[a] >> w & 1 and not mover_wins(without(rows, a, w), b, w) for w in range(len(rows))
    )


@lru_cache(maxsize=None)
def refuted(rows, v):
    return any(not mover_wins(without(rows, x, y), v, y) for x, y in edges(rows))


@lru_cache(maxsize=None)
def rooted_wins(rows, v):
    return any(
        rows[v] >> w & 1 and not rooted_wins(without(rows, v, w), w) for w in range(len(rows))
    )


def orbits(rows):
    """Counts the orbits in a set of vertices that automorphisms keep; tries all permutations."""
    n = len(rows)
    least = list(range(n))

    def extend(image):
        v = len(image)
        if v == n:
            for u, w in enumerate(image):
                least[w] = min(least[w], u)
            return
        for w in range(n):
            if w not in image and all(
                rows[v] >> u & 1 == rows[w] >> image[u] & 1 for u in range(v)
            ):
                extend([*image, w])

    extend([])
    return lambda chosen: len({least[v] for v in chosen})


def rooted_record(rows):
    """The same for edge geography."""
    n = len(rows)
    wins = [rooted_wins(rows, v) for v in range(n)]
    bits = wins + [not all(wins)]
    count = orbits(rows)
    sums = (sum(wins), count([v for v in range(n) if wins[v]]), count(range(n)))
    return sum(1 << i for i, bit in enumerate(bits) if bit), len(bits), sums


def connected(rows):
    reached = {0}
    while True:
        more = {w for v in reached for w in range(len(rows)) if rows[v] >> w & 1} | reached
        if more == reached:
            return len(reached) == len(rows)
        reached = more


def record(rows):
    """The outcome of every position as an integer, and what it adds to the sums."""
    n = len(rows)
    wins = [[mover_wins(rows, a, y) for a in range(n)] for y in range(n)]
    refutations = [refuted(rows, v) for v in range(n)]
    first_moves = sum(not refuted(without(rows, u, v), v) for u, v in edges(rows))
    bits = [bit for column in wins for bit in column] + refutations + [first_moves > 0]
    sums = (sum(map(sum, wins)), sum(refutations), first_moves)
    return sum(1 << i for i, bit in enumerate(bits) if bit), len(bits), sums


# For each game: tag of its digests, record, names of its sums.
GAMES = {
    "trail-trap": (b"TT1", record, ["won_positions", "refuted_ends", "winning_first_moves"]),
    "edge-geography": (b"EG1", rooted_record, ["won_roots", "won_rooted_graphs", "rooted_graphs"]),
}


def order_results(graphs, tag, record):
    n = len(graphs[0])
    results = {}
    for rows in graphs:
        label, automorphisms = reference_labelling(rows)
        canonical = relabel(rows, label)
        value, bits, sums = record(canonical)
        message = (
            tag
            + graph6(canonical)
            + automorphisms.to_bytes(8, "little")
            + value.to_bytes((bits + 7) // 8, "little")
        )
        digest = int.from_bytes(hashlib.sha256(message).digest(), "little")
        weight = factorial(n) // automorphisms
        # The last bit of a record is the verdict.
        win, joined = value >> bits - 1 & 1 == 1, connected(rows)
        counts = [1, win, joined, win and joined]
        amounts = [*counts, *sums]
        entry = results.setdefault(len(edges(rows)) // 2, [0] * 15)
        for i, amount in enumerate([digest, *amounts, *(weight * amount for amount in amounts)]):
            entry[i] = (entry[i] + amount) % 2**256
    return results


def reported(entry, names):
    """What a census reports of graphs with these amounts."""
    digest, *amounts = entry

    def counted(amounts, number):
        def winners(graphs, wins):
            counts = {"graphs": graphs, "p1_wins": wins, "p2_wins": graphs - wins}
            return {key: number(count) for key, count in counts.items()}

        graphs, wins, joined, joined_wins, *sums = amounts
        connected = winners(joined, joined_wins)
        sums = {name: number(total) for name, total in zip(names, sums)}
        return {**winners(graphs, wins), "connected": connected, "sums": sums}

    classes, labelled = amounts[:7], amounts[7:]
    # Labelled graphs are too many for numbers of JSON.
    return {
        **counted(classes, int),
        "labelled": counted(labelled, str),
        "digest": f"{digest:064x}",
    }


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    try:
        with open(sys.argv[1], encoding="ascii") as file:
            report = json.load(file)
        orders = list(report["orders"])
        for of_order in orders:
            list(of_order["by_size"])
        game = GAMES[report.get("game", "trail-trap")]
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"{sys.argv[1]} is not what `trailtrap census N --json` prints: {error!r}")
    if "class" in report:
        sys.exit(f"only censuses of all graphs are checked here, not of {report['class']}")
    asked = sys.argv[2] if len(sys.argv) == 3 else "6"
    last = min(int(asked), len(orders)) if asked.isdecimal() else 0
    if last < 1:
        sys.exit(f"there is no order to check up to {asked}")
    tag, record_of, names = game
    graphs = [(0,)]
    for order in range(1, last + 1):
        if order > 1:
            found = set()
            for parent in graphs:
                for chosen in range(1 << len(parent)):
                    rows = [
                        row | (chosen >> v & 1) << len(parent) for v, row in enumerate(parent)
                    ] + [chosen]
                    found.add(relabel(rows, reference_labelling(rows)[0]))
            graphs = sorted(found)
        mover_wins.cache_clear()
        refuted.cache_clear()
        rooted_wins.cache_clear()
        mine = order_results(graphs, tag, record_of)
        theirs = orders[order - 1]
        # An order that was done up to some number of edges is compared as far as it goes.
        sizes = range(min(theirs.get("max_size", max(mine)), max(mine)) + 1)
        by_size = [{"size": size, **reported(mine[size], names)} for size in sizes]
        total = [sum(column) % 2**256 for column in zip(*(mine[size] for size in sizes))]
        for found, theirs_of_size in zip(by_size, theirs["by_size"]):
            if theirs_of_size != found:
                sys.exit(
                    f"order {order}, {found['size']} edges: reported {theirs_of_size}, "
                    f"found {found}"
                )
        of_order = {"order": order, **reported(total, names), "by_size": by_size}
        if "max_size" in theirs:
            of_order["max_size"] = sizes[-1]
        if theirs != of_order:
            differ = [key for key in {*theirs, *of_order} if theirs.get(key) != of_order.get(key)]
            sys.exit(f"order {order}: {', '.join(sorted(differ))}: not what its graphs add up to")
        print(f"order {order}: {total[1]} graphs agree, digest {total[0]:064x}", flush=True)


if __name__ == "__main__":
    main()
