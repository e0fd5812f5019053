#!/usr/bin/env python3
"""Prints who wins by number of edges and number of vertices of odd degree, from a bundle.

    python3 results/odd_degrees.py [BUNDLE]

The bytes are those of `trailtrap export table odd-degrees-by-size --format csv`, which needs the
data directory of a census; here they are added up from the shard files of BUNDLE, a directory that
`trailtrap export bundle` made (without it, the one beside this file). Needs pyarrow.
"""

import sys
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pyarrow.parquet as parquet

COUNTS = ["graphs", "p1_wins", "labelled_graphs", "labelled_p1_wins"]


def share(part, whole):
    """A proportion as tables have it: six digits after the point, rounded half up."""
    return str((Decimal(part) / Decimal(whole)).quantize(Decimal("0.000001"), ROUND_HALF_UP))


def fields(graphs, wins):
    """What tables say of so many graphs, of which P1 wins so many."""
    return [graphs, wins, graphs - wins, share(wins, graphs), share(graphs - wins, graphs)]


def main():
    bundle = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("bundle")
    paths = sorted((bundle / "shards").glob("n*.parquet"))
    if not paths:
        sys.exit(__doc__)
    names = ["graphs", "p1_wins", "p2_wins", "p1_share", "p2_share"]
    print(*["order", "size", "odd_degrees"], *names, *("labelled_" + n for n in names), sep=",")
    for path in paths:
        columns = parquet.read_table(path, columns=["order", "size", "degrees", *COUNTS])
        sums = Counter()
        for row in columns.to_pylist():
            odd = sum(int(degree) % 2 for degree in row["degrees"].split())
            for name in COUNTS:
                sums[row["order"], row["size"], odd, name] += int(row[name])
        for key in sorted({key[:3] for key in sums}):
            graphs, wins, labelled, labelled_wins = (sums[*key, name] for name in COUNTS)
            print(*key, *fields(graphs, wins), *fields(labelled, labelled_wins), sep=",")


if __name__ == "__main__":
    main()
