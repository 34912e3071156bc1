"""pandas: tables joined, grouped, pivoted, their text parsed and written.  frames.py ROUNDS"""
import io
import sys

import numpy as np
import pandas as pd


def main(rounds):
    r = np.random.default_rng(1)
    for i in range(rounds):
        n = 30000
        sales = pd.DataFrame({"item": r.integers(0, 2000, n), "day": r.integers(0, 365, n),
                              "count": r.integers(1, 20, n), "note": [f"note {k}" for k in r.integers(0, 5000, n)]})
        items = pd.DataFrame({"item": np.arange(2000), "group": [f"g{k % 37}" for k in range(2000)],
                              "price": r.integers(1, 999, 2000)})
        joined = sales.merge(items, on="item")
        joined["sum"] = joined["count"] * joined["price"]
        groups = joined.groupby(["group", joined["day"] // 30])["sum"].agg(["sum", "mean", "count"])
        pivot = joined.pivot_table(index="group", columns=joined["day"] % 7, values="sum", aggfunc="sum")
        text = joined.head(8000).to_csv(index=False)
        back = pd.read_csv(io.StringIO(text))
        words = back["note"].str.upper().str.replace("NOTE", "n").value_counts()
        print(i, int(groups["sum"].sum()), int(pivot.to_numpy().sum()), len(words), int(back["sum"].sum()))


main(int(sys.argv[1]))
