"""Python: JSON documents written and read, text split, counted and rewritten.  documents.py ROUNDS"""
import collections
import json
import random
import re
import sys


def document(r, words):
    return {
        "id": r.randrange(10**9),
        "title": " ".join(r.choices(words, k=6)),
        "body": " ".join(r.choices(words, k=r.randrange(20, 120))),
        "tags": r.sample(words, 4),
        "parts": [{"at": i, "value": r.random()} for i in range(r.randrange(12))],
    }


def main(rounds):
    r = random.Random(1)
    words = ["".join(r.choices("abcdefghijklmnopqrstuvwxyz", k=r.randrange(2, 12))) for _ in range(3000)]
    documents = [document(r, words) for _ in range(1500)]
    total = 0
    for i in range(rounds):
        lines = [json.dumps(d, sort_keys=True) for d in documents]
        documents = [json.loads(line) for line in lines]
        counts = collections.Counter(word for d in documents for word in d["body"].split())
        common = {word for word, _ in counts.most_common(50)}
        for d in documents[i % 3 :: 3]:
            d["body"] = re.sub(r"\w+", lambda m: m[0].upper() if m[0] in common else m[0].lower(), d["body"])
        total += sum(map(len, lines)) + len(counts)
    print(total)


main(int(sys.argv[1]))
