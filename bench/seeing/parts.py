"""Whether the parts of `glebe explain` sum to the resident set that the kernel counts: at the peak and at the exit of
twenty programs. As a control, the sum without one part must not be that near."""

import tempfile

from programs import GLEBE, TWENTY, cases, command, last_object, run


def measure(show):
    worst, looks, control = 0, 0, 100
    for case in cases(TWENTY):
        line = f"{case['name']:18}"
        for options in ([], ["--at-exit"]):
            with tempfile.TemporaryDirectory() as scratch:
                words, environment = command(case, scratch)
                seen = last_object(run([GLEBE, "explain", "--json", *options, "--", *words], environment))
            total, kernel = sum(part["bytes"] for part in seen["parts"]), seen["kernel_rss_bytes"]
            off = 100 * abs(total - kernel) / kernel
            worst, looks = max(worst, off), looks + 1
            code = next(part["bytes"] for part in seen["parts"] if part["name"] == "file_code")
            control = min(control, 100 * abs(total - code - kernel) / kernel)
            line += f"  {seen['moment']}: parts {total:11}, kernel {kernel:11}, {off:.3f} %"
        show(line)
    return [("looks at twenty programs", looks, ">=", 40),
            ("parts and the kernel's resident set differ at most by, %", worst, "<=", 1),
            ("the same without the part file_code, the control, at least, %", control, ">=", 1)]
