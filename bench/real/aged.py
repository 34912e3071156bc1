"""A cache that is old: its objects are replaced at random for some rounds, and then walked in the order of their keys.
An allocator that scatters neighbours pays in the walk.  aged.py ROUNDS"""
import random
import sys

ENTRIES, WALKS = 40000, 4


def entry(r, key):
    """One of four shapes: a short string, a record, a list of numbers, a body of up to 64 KB."""
    kind = r.random()
    if kind < 0.4:
        return "%d " % key * r.randrange(1, 12)
    if kind < 0.8:
        return {"key": key, "name": "entry %d" % key, "tags": [key, key + 1.5, str(key)]}
    if kind < 0.995:
        return [key + i * 0.5 for i in range(r.randrange(2, 60))]
    return bytes(r.randrange(1 << 10, 1 << 16))


def walk(cache):
    total = 0
    for key in range(ENTRIES):
        value = cache[key]
        if isinstance(value, dict):
            total += len(value["name"]) + value["tags"][0]
        elif isinstance(value, list):
            total += int(sum(value))
        else:
            total += len(value) + (value[-1] == value[0])
    return total


def main(rounds):
    r = random.Random(1)
    cache = {key: entry(r, key) for key in range(ENTRIES)}
    for _ in range(rounds):
        for _ in range(ENTRIES // 2):
            key = r.randrange(ENTRIES)
            cache[key] = entry(r, key)
    print(sum(walk(cache) for _ in range(WALKS * rounds)))


main(int(sys.argv[1]))
