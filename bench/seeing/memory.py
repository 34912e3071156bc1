"""What the sampler adds to a program's memory at its mean of 512 KiB: at most 2 % of the peak, and 1 MiB.

Judged is the process's own memory: the resident set at the program's peak without its files, by `glebe explain`. The
kernel's peak is shown beside it. It also has the pages of the unwinder's tables, which are in the program's libraries
and which all processes share; of a large library these are more than all else that the sampler needs.

Runs with the sampler and without take turns, and each has its median. As a control, a sample each KiB must be over
the limit in one program at least."""

import statistics
import tempfile

from programs import GLEBE, ROOT, cases, command, compiled, last_object, measured, run

FOUR, RUNS, CONTROL_BYTES = "python-documents sqlite lua-trees z3".split(), 3, 1 << 10


def peaks(case, means):
    """{mean: (own memory, the kernel's peak)}, medians; a mean of None is without the sampler."""
    stay, found = compiled("stay.c", "-shared", "-fPIC"), {mean: ([], []) for mean in means}
    for _ in range(RUNS):
        for mean in means:
            with tempfile.TemporaryDirectory() as scratch:
                words, environment = command(case, scratch)
                sampled = [f"--mean={mean}"] if mean else []
                seen = last_object(run([GLEBE, "explain", "--json", *sampled, "--", *words], environment))
                if mean:
                    environment.update(SEEING_SAMPLE="1", SEEING_MEAN=str(mean))
                found[mean][0].append(sum(part["bytes"] for part in seen["parts"] if "file" not in part["name"]))
                found[mean][1].append(measured(words, environment, [stay, ROOT / "build/libglebe.so"])[1])
    return {mean: tuple(map(statistics.median, runs)) for mean, runs in found.items()}


def measure(show):
    worst = control = -1 << 62
    for case in cases(FOUR):
        (own, peak), (more, more_peak), (most, _) = peaks(case, (None, 512 << 10, CONTROL_BYTES)).values()
        limit = 0.02 * peak + (1 << 20)
        worst, control = max(worst, more - own - limit), max(control, most - own - limit)
        show(f"{case['name']:18} own memory {own:11.0f}, with the sampler {more - own:+10.0f}, limit {limit:8.0f}, a "
             f"sample each KiB {most - own:+10.0f}; the kernel's peak {peak:11.0f} {more_peak - peak:+10.0f}")
    return [("more memory than 2 % and 1 MiB, bytes", worst, "<=", 0),
            ("the same of a sample each KiB, the control", control, ">=", 0)]
