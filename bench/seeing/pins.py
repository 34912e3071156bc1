"""Whether freeing exactly the blocks of the sites that `glebe explain` names returns what it promised.

pinned.c keeps one of 20 to 60 blocks of two sizes, and frees the others. The sites that explain names for a size
promise the free bytes between the blocks of that size, and their own. The program frees these sites' blocks and no
others."""

import itertools
import pathlib
import subprocess
import tempfile

from programs import GLEBE, ROOT, compiled, last_object, run

SIZES, KEPT, SAMPLED = (72, 150, 400), (20, 60), 16 << 10


def resident(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(status.split("VmRSS:")[1].split()[0])


def say(process, name):
    process.stdin.write(name + "\n")
    process.stdin.flush()
    process.stdout.readline()


def promises(seen):
    """{block bytes: (promise, functions)} for the sizes whose pages have over a MB free."""
    sizes = {}
    for site in seen["sites"]:
        if site["class_free_bytes"] > 1 << 20:
            promise, names = sizes.get(site["block_bytes"], (site["class_free_bytes"], []))
            sizes[site["block_bytes"]] = promise + site["live_bytes"], names + [site["frames"][0].split(" ")[0]]
    return sizes


def measure(show):
    program, shares, tried = compiled("pinned.c", "-O1", "-g"), [], 0
    for bytes_, kept in itertools.product(SIZES, KEPT):
        with tempfile.TemporaryDirectory() as scratch:
            environment = {"LD_PRELOAD": str(ROOT / "build/libglebe.so"), "GLEBE_PROFILE": f"{scratch}/profile",
                           "GLEBE_PROFILE_BYTES": str(SAMPLED)}
            with subprocess.Popen([program, str(bytes_), str(kept), str(bytes_ + kept)], env=environment, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                process.stdout.readline()
                seen = last_object(run([GLEBE, "explain", "--json", str(process.pid)]))
                for size, (promise, names) in promises(seen).items():
                    before = resident(process)
                    for name in sorted(set(names)):
                        say(process, name)
                    returned = before - resident(process)
                    shares.append(100 * returned / promise)
                    show(f"1 of {kept} blocks of {size:4} bytes kept by {', '.join(sorted(set(names)))}: promised "
                         f"{promise:10}, returned {returned:10}, {shares[-1]:.1f} %")
                tried += 1
                process.stdin.close()
    return [("sizes with a promise, in six programs", len(shares), ">=", 2 * tried),
            ("returned of what was promised, at least, %", min(shares), ">=", 90),
            ("returned of what was promised, at most, %", max(shares), "<=", 110)]
