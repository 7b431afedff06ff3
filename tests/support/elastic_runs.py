"""Runs the script of most training tests, by itself and in processes such as torchrun starts."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.distributed import TCPStore

from tests.support.warm_python import Script, run_together

SCRIPT = Path(__file__).with_name("elastic_script.py")


def run_script(out: Path, *args: str, processes: int = 0) -> dict[str, object]:
    """Run the script and return its final state. With `processes` each is a rank, set up as by torchrun."""
    out.mkdir()
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ranks = [torchrun_environment(rank, processes, store.port) for rank in range(processes)]
    run_together([Script(SCRIPT, [f"--out={out}", *args], env) for env in ranks or [{}]])
    return torch.load(out / "final.pt")


def torchrun_environment(rank: int, count: int, port: int) -> dict[str, str]:
    """Return what torchrun sets in the processes of one machine; it serves their store itself, at `port`."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "tests",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
