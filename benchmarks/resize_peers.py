"""How long torchrun and Ray Train pause when a worker is killed: the peers of `resize_pause`.

Both train `scripts/resize_step.py` with two gloo workers and restart from a checkpoint written every 20
steps. A pause is the time from the last step before the kill to the first step of the restarted group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from .scripts.resize_step import steps

GRACE_S = 10.0
SCRIPTS = Path(__file__).parent / "scripts"


def torchrun_pauses(kills: int, seconds: float, script: str = "resize_torchrun.py") -> list[float]:
    """Return seconds of each pause under `torchrun --max-restarts`: `kills`, or as many as time allows."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [f"--max-restarts={kills + 1}", "--monitor-interval=0.1"]
    return _pauses([*command, str(SCRIPTS / script)], kills, seconds)


def ray_train_pauses(kills: int, seconds: float) -> list[float]:
    """Return seconds of each pause under Ray Train's failure restart (health check every 0.5 s)."""
    return _pauses([sys.executable, str(SCRIPTS / "resize_ray_train.py")], kills, seconds)


def _pauses(command: Sequence[str], kills: int, seconds: float) -> list[float]:
    """Measure pauses; one that has begun within `seconds` is seen through for at most `GRACE_S` more."""
    until_s = time.monotonic() + seconds
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        # Without it a restarted gloo group finds the dead one's addresses and hangs (pytorch issue 135712).
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_worker_niceness": "0",
    }
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "output.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [*command, folder], env=environment, stdout=output, stderr=output, start_new_session=True
            )
        try:
            pauses, dead = list[float](), set[int]()
            try:
                while len(pauses) < kills and time.monotonic() < until_s:
                    pids = _training_pids(folder, dead, process, log, until_s)
                    victim = max(pids)
                    os.kill(victim, signal.SIGKILL)
                    killed_s = time.time()
                    dead |= pids  # a restart replaces the whole group
                    _training_pids(folder, dead, process, log, until_s + GRACE_S)
                    first = min(t for t, _, _, pid in steps(folder) if t > killed_s and pid not in dead)
                    last = max(t for t, _, _, pid in steps(folder) if pid in dead)
                    pauses.append(first - last)
            except TimeoutError as error:
                print(f"{Path(command[-1]).stem}: {error}", file=sys.stderr)
            return pauses
        finally:
            _end(process)


def _training_pids(folder: str, dead: set[int], process: subprocess.Popen, log: Path, until_s: float) -> set[int]:
    """Wait until two processes outside `dead` have made 25 steps each (one checkpoint is written then)."""
    while time.monotonic() < until_s and process.poll() is None:
        counts: dict[int, int] = {}
        for _, _, _, pid in steps(folder):
            if pid not in dead:
                counts[pid] = counts.get(pid, 0) + 1
        ready = {pid for pid, count in counts.items() if count >= 25}
        if len(ready) >= 2:
            return ready
        time.sleep(0.05)
    ended = process.poll() is not None
    raise TimeoutError(
        f"{'ended' if ended else 'out of time'}; the output's end: {log.read_text()[-300:].strip()}"
    )


def _end(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
