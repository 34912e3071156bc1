"""numpy: temporaries of many sizes, from a few bytes to some megabytes.  arrays.py ROUNDS"""
import sys

import numpy as np


def main(rounds):
    r = np.random.default_rng(1)
    total = 0.0
    for i in range(rounds):
        wide = r.random((400, 300 + i % 7 * 50))
        scaled = (wide - wide.mean(axis=0)) / (wide.std(axis=0) + 1e-9)
        total += float(np.sort(scaled.ravel())[::1000].sum()) + float(np.cumsum(scaled, axis=1)[:, -1].sum())
        parts = [scaled[k] * 2 + k for k in range(400)]
        total += sum(float(np.where(part > 1, part, 0).max()) for part in parts)
        spectrum = np.fft.rfft(np.concatenate(parts))
        total += float(np.abs(spectrum[:50]).sum())
        small = [np.array([k, k + 1, i]) for k in range(1500)]
        total += float(np.stack(small).sum())
    print("%.6e" % total)


main(int(sys.argv[1]))
