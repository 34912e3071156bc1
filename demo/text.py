"""Indexes text, and writes and reads JSON: short-lived strings, lists and dicts. Deterministic.

Python has its own allocator for small objects; PYTHONMALLOC=malloc sends every request to malloc instead.
"""

import json
import random

chance = random.Random(7)
words = ["".join(chance.choices("abcdefghij", k=chance.randint(2, 12))) for _ in range(3000)]
index = {}
for page in range(900):
    text = " ".join(chance.choices(words, k=120))
    for place, word in enumerate(text.split()):
        index.setdefault(word, []).append((page, place))
    if page % 150 == 0:
        index = {word: [tuple(hit) for hit in hits] for word, hits in json.loads(json.dumps(index)).items()}

print(len(index), sum(map(len, index.values())))
