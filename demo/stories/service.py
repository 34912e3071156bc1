"""A service: a request is a line on standard input, its answer a line on standard output. A report takes much memory
for a moment, as an export or a large upload does."""

import json
import sys


def report():
    rows = [{"id": i, "name": f"customer {i}", "tags": ["a" * (i % 400), str(i)]} for i in range(100_000)]
    return len(json.dumps(rows))


for line in sys.stdin:
    print(report() if line.strip() == "report" else len(line), flush=True)
