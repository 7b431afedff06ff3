"""Runs the script of most training tests, by itself and under torchrun."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

SCRIPT = Path(__file__).with_name("elastic_script.py")


def run_script(out: Path, *args: str, processes: int = 0) -> dict[str, object]:
    """Run the script and return its final state. With `processes` it runs under torchrun."""
    out.mkdir()
    launch = [sys.executable]
    if processes:
        launch += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [*launch, str(SCRIPT), f"--out={out}", *args]
    env = {key: value for key, value in os.environ.items() if not key.startswith("COADAPT")}
    env["OMP_NUM_THREADS"] = "1"
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    return torch.load(out / "final.pt")
