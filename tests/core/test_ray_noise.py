"""No command shows Ray's own log; everything else that is written to stderr comes through."""

import os
import subprocess
import sys

import pytest
from coadapt.core.ray_noise import is_noise

NOISE = (
    "[2026-11-28 01:44:52,407 W 13309 13309] network_util.cc:330: Failed to determine local IP via external "
    "connectivity to: 8.8.8.8:53, [2001:4860:4860::8888]:53, falling back to hostname resolution"
)


@pytest.mark.parametrize(
    ("line", "noise"),
    [
        (NOISE, True),
        ("[2026-11-28 01:45:50,431 I 13710 13710] logging.cc:303: Set ray log level", True),
        ("[2026-11-28 01:45:50,431 E 1 1] (raylet) src/ray/core.cc:3: gone", True),
        ("coadapt: warning: no policy heeds it", False),
        ("[rank-0] epoch 1", False),
        ("[2026-11-28 01:45:50] INFO my own log: 3", False),
    ],
)
def test_lines_of_rays_log_are_known(line: str, noise: bool) -> None:
    assert is_noise(line.encode()) is noise


PROGRAM = f"""
import os, sys
from coadapt.core.ray_noise import without_ray_noise
print("before", file=sys.stderr)
try:
    with without_ray_noise():
        os.write(2, {NOISE.encode()!r} + b"\\n")
        print("within", file=sys.stderr)
        raise ValueError
except ValueError:
    print("after", file=sys.stderr)
"""


@pytest.mark.parametrize(("debug", "lines"), [("", 3), ("1", 4)])
def test_what_is_written_while_ray_starts_comes_without_rays_log(debug: str, lines: int) -> None:
    env = {**os.environ, "COADAPT_DEBUG": debug}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
    assert [line for line in done.stderr.splitlines() if line != NOISE] == ["before", "within", "after"]
    assert len(done.stderr.splitlines()) == lines


def test_a_process_without_stderr_goes_on() -> None:
    program = "import os; os.close(2)\nfrom coadapt.core.ray_noise import without_ray_noise\n"
    program += "with without_ray_noise():\n    print('done')\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "done\n"
