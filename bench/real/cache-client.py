#!/usr/bin/env python3
"""Loads a server that speaks memcached's text protocol, over four connections, and prints a digest of all answers.

    cache-client.py SOCKET ROUNDS

Each connection has keys of its own, so its answers do not depend on the others.
"""
import hashlib
import random
import socket
import sys
import threading
import time

CONNECTIONS, KEYS, BATCH = 4, 4000, 500


def connect(path):
    for _ in range(600):
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(path)
            return link
        except OSError:
            link.close()
            time.sleep(0.05)
    sys.exit(f"no server at {path}")


def batch(r, me):
    """Requests, and the line that ends their last answer."""
    parts = []
    for _ in range(BATCH):
        key = f"{me}:{r.randrange(KEYS)}"
        kind = r.random()
        if kind < 0.5:
            body = b"%d" % r.randrange(10**9) * r.choice([1, 4, 12, 40, 300])
            parts.append(b"set %s 0 0 %d noreply\r\n%s\r\n" % (key.encode(), len(body), body))
        elif kind < 0.6:
            parts.append(b"delete %s noreply\r\n" % key.encode())
        else:
            parts.append(b"get %s\r\n" % key.encode())
    return b"".join(parts) + b"get last\r\nget nothing-%d\r\nversion\r\n" % me


def talk(path, me, rounds, digests):
    r, digest, link = random.Random(me), hashlib.sha256(), connect(path)
    for _ in range(rounds):
        link.sendall(batch(r, me))
        answer = b""
        while b"\r\nVERSION" not in answer[-80:] or not answer.endswith(b"\r\n"):
            got = link.recv(1 << 16)
            if not got:
                return
            answer += got
        digest.update(answer[: answer.rindex(b"VERSION")])
    digests[me] = digest.hexdigest()


def main(path, rounds):
    digests = {}
    talkers = [threading.Thread(target=talk, args=(path, me, rounds, digests)) for me in range(CONNECTIONS)]
    for talker in talkers:
        talker.start()
    for talker in talkers:
        talker.join()
    if len(digests) < CONNECTIONS:
        sys.exit("a connection broke")
    print(*(digests[me] for me in range(CONNECTIONS)))


main(sys.argv[1], int(sys.argv[2]))
