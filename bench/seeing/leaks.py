"""What `glebe leaks` finds: all of the planted leaks of thirty programs (leaky.cc), block by block, and none in twenty
clean ones, which LeakSanitizer passes too: ten of leaky.cc, and ten programs of the system with its library preloaded.

As a control, LeakSanitizer must also find the planted leaks."""

import os

from programs import GLEBE, compiled, last_object, run

PLANTED, CLEAN = 30, 10
SQL = ("create table t(a,b); with recursive c(i) as (select 1 union all select i+1 from c where i<20000) "
       "insert into t select i, hex(i) from c; select count(*) from t")
TEXT = "/etc/services"
PROGRAMS = [["sqlite3", ":memory:", SQL], ["lua5.4", "-e", "local t={} for i=1,1e5 do t[i]={i} end"],
            ["sort", "-r", TEXT], ["xz", "-kc", TEXT], ["gzip", "-c", TEXT], ["sed", "s/tcp/TCP/g", TEXT],
            ["awk", "{ n[$1]++ } END { for (i in n) print n[i], i }", TEXT], ["bc"], ["diff", TEXT, "/etc/protocols"],
            ["openssl", "dgst", "-sha256", TEXT], ["tar", "-cf", "-", TEXT], ["grep", "-E", "(tcp|udp)$", TEXT],
            ["ls", "-lR", "/etc/ssl"], ["find", "/etc", "-name", "*.conf"], ["git", "--version"], ["cat", TEXT],
            ["bzip2", "-kc", TEXT], ["tr", "a-z", "A-Z"], ["od", TEXT], ["cut", "-c1-9", TEXT]]


def sanitizer():
    return run(["gcc", "-print-file-name=liblsan.so"]).stdout.strip()


def lsan_finds(words, environment=None):
    """Whether LeakSanitizer reports a leak; None if the program fails of itself."""
    done = run(words, dict(os.environ, LSAN_OPTIONS="exitcode=77", **(environment or {})), ok=False)
    return True if done.returncode == 77 else False if done.returncode in (0, 1) else None


def found(words):
    seen = last_object(run([GLEBE, "leaks", "--json", "--", *words], ok=False))
    return seen["leaked_blocks"], seen["live_blocks"]


def measure(show):
    program = compiled("leaky.cc", "-O1", "-g", "-std=c++17", compiler="g++")
    checked = compiled("leaky.cc", "-O1", "-g", "-std=c++17", "-fsanitize=leak", compiler="g++", to="leaky-lsan")
    whole = control = silent = passed = 0
    for number in range(PLANTED):
        planted = int(run([program, str(number), "tell"]).stdout)
        leaked, live = found([program, str(number)])
        whole += leaked == planted
        control += lsan_finds([checked, str(number)]) is True
        show(f"planted {number:2}: {planted:3} blocks, found {leaked:3}, {live} live")
    for number in range(100, 100 + CLEAN):
        leaked, live = found([program, str(number)])
        ok = lsan_finds([checked, str(number)]) is False
        passed, silent = passed + ok, silent + (ok and leaked == 0)
        show(f"clean {number}: found {leaked}, {live} live{'' if ok else '; LeakSanitizer reports some'}")
    for words in PROGRAMS:
        if passed == 2 * CLEAN:
            break
        if lsan_finds(words, {"LD_PRELOAD": sanitizer()}) is not False:
            continue
        leaked, live = found(words)
        passed, silent = passed + 1, silent + (leaked == 0)
        show(f"{words[0]}: found {leaked}, {live} live")
    return [("programs whose planted leaks were all found, and no more", whole, ">=", PLANTED),
            ("of these LeakSanitizer finds", control, ">=", PLANTED),
            ("clean programs that LeakSanitizer passes", passed, ">=", 2 * CLEAN),
            ("of these, without a leak by glebe", silent, ">=", 2 * CLEAN)]
