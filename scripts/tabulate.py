#!/usr/bin/env python3
"""Writes the tables of results/ from what `trailtrap census N --json` printed.

    scripts/tabulate.py FILE DIRECTORY

makes DIRECTORY/by-order.csv and DIRECTORY/by-size.csv: exact integers, stable column names, orders from 3 on. Columns that
begin with labelled_ count labelled graphs (weights n!/|Aut|). Needs nothing but Python 3.
"""
import csv
import json
import sys
from pathlib import Path


def columns(entry):
    found = {}
    for prefix, counts in (("", entry), ("labelled_", entry["labelled"])):
        for key in ("graphs", "p1_wins", "p2_wins"):
            found[prefix + key] = counts[key]
        for key in ("graphs", "p1_wins", "p2_wins"):
            found[f"{prefix}connected_{key}"] = counts["connected"][key]
        for key in ("won_positions", "refuted_ends", "winning_first_moves"):
            found[prefix + key] = counts["sums"][key]
    return found | {"digest": entry["digest"]}


def write(path, rows):
    with open(path, "w", newline="", encoding="ascii") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="ascii") as file:
        orders = [entry for entry in json.load(file)["orders"] if entry["order"] >= 3]
    directory = Path(sys.argv[2])
    write(directory / "by-order.csv", [{"order": entry["order"]} | columns(entry) for entry in orders])
    sizes = [
        {"order": entry["order"], "size": size["size"]} | columns(size) for entry in orders for size in entry["by_size"]
    ]
    write(directory / "by-size.csv", sizes)


if __name__ == "__main__":
    main()
