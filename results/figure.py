#!/usr/bin/env python3
"""Draws the main figure from exported data, and reads a list of graphs: an example in Python.

    python3 results/figure.py [BUNDLE [FIGURE.pdf]]

BUNDLE is a directory that `trailtrap export bundle` made; without it, the one beside this file is
taken. Needs pandas, matplotlib and networkx; with pyarrow it also looks at the Parquet files.
"""

import gzip
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import networkx as nx
import pandas as pd


def read_graphs(path):
    """The graphs of a gzipped graph6 list."""
    with gzip.open(path, "rb") as lines:
        return [nx.from_graph6_bytes(line.strip()) for line in lines]


def main():
    bundle = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("bundle")
    if not (bundle / "tables").is_dir():
        sys.exit(__doc__)
    figure = Path(sys.argv[2]) if len(sys.argv) > 2 else Path("figure.pdf")

    orders = pd.read_csv(bundle / "tables" / "orders.csv")
    sizes = pd.read_csv(bundle / "tables" / "sizes.csv")

    # The graph lists, as networkx sees them, against the tables.
    for path in sorted((bundle / "graphs").glob("*.g6.gz")):
        order = int(path.name.split(".")[-4].removeprefix("n"))
        if order > 8:
            continue
        graphs = read_graphs(path)
        found = pd.Series([g.number_of_edges() for g in graphs], dtype="int64").value_counts()
        wins = sizes[sizes.order == order].set_index("size").p1_wins
        assert (found.reindex(wins.index, fill_value=0) == wins).all(), (
            f"{path.name} is not what sizes.csv says"
        )
        connected = sum(nx.is_connected(g) for g in graphs)
        assert connected == orders.set_index("order").connected_p1_wins[order], path.name
        print(
            f"order {order}: {len(graphs)} P1-wins, {connected} of them connected, "
            "as the tables say"
        )

    try:
        shards = pd.read_parquet(bundle / "shards" / f"n{orders.order.max():02}.parquet")
        assert shards.p1_wins.sum() == orders.p1_wins.iloc[-1]
        print(f"order {orders.order.max()}: {len(shards)} degree sequences add up")
    except ImportError:
        print("no pyarrow: the Parquet files are left alone")

    left, right = plt.subplots(1, 2, figsize=(7, 2.8), constrained_layout=True)[1]
    shown = orders[orders.order >= 3]
    for prefix, label in (
        ("", "graphs"),
        ("connected_", "connected graphs"),
        ("labelled_", "labelled graphs, G(n, 1/2)"),
    ):
        share = shown[prefix + "p1_wins"].astype(float) / shown[prefix + "graphs"].astype(float)
        left.plot(shown.order, 100 * share, "o-", markersize=3, label=label)
    left.set(xlabel="n", ylabel="P1-wins, %", yscale="log")
    left.legend(fontsize=7)
    last = sizes[sizes.order == orders.order.max()]
    share = 100 * last.p1_wins / last.graphs
    for parity, marker, label in ((0, "o", "even m"), (1, "s", "odd m")):
        rows = last["size"] % 2 == parity
        right.plot(last["size"][rows], share[rows], marker, markersize=3, label=label)
    right.set(xlabel="m", ylabel=f"P1-wins, n = {orders.order.max()}, %")
    right.legend(fontsize=7)
    plt.savefig(figure)
    print(f"drew {figure}")


if __name__ == "__main__":
    main()
