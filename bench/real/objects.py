"""Python without its own small-object allocator: objects, dicts, lists, strings
and a sort, all directly from malloc.  objects.py N"""
import sys


class Node:
    __slots__ = ("key", "left", "right", "payload")

    def __init__(self, key, payload):
        self.key, self.payload, self.left, self.right = key, payload, None, None


def insert(root, key, payload):
    if root is None:
        return Node(key, payload)
    at = root
    while True:
        if key == at.key:
            at.payload = payload
            return root
        side = "left" if key < at.key else "right"
        below = getattr(at, side)
        if below is None:
            setattr(at, side, Node(key, payload))
            return root
        at = below


def main(n):
    x, root, words, total = 12345, None, {}, 0
    for i in range(n):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        root = insert(root, x % 50000, [i, str(x), {"i": i}])
        words.setdefault("w%d" % (x % 3000), []).append((i, x))
        if i % 5000 == 4999:
            lines = ["%s=%d" % (k, len(v)) for k, v in sorted(words.items())]
            total += len(",".join(lines).split(","))
            words = {k: v[-3:] for k, v in words.items()}
    print(total, root.key, len(words))


main(int(sys.argv[1]))
