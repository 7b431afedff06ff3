"""Powers an emulated machine for `benchmarks.power_live`, and notes what still ran there when it was powered off.

python power_machine.py sleep|wake|state MACHINE STATE_DIR LOG
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
from coadapt.deploy import emulated_power, local_cluster

IDLE = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")


def running(state_dir: str, machine: str) -> list[str]:
    """Return the actors, tasks and programs that run on a machine."""
    record = local_cluster.ClusterRecord.load(state_dir)
    found: list[str] = []
    for index, node in enumerate(record.nodes if record is not None else ()):
        if record is None or local_cluster.machine_name(node.gpu_type, index) != machine:
            continue
        for raylet in local_cluster.raylets(record, index):
            for process in raylet.children(recursive=True):
                with suppress(psutil.Error):
                    line = process.cmdline() or [""]
                    if "work.py" in line or (line[0].startswith("ray::") and not line[0].startswith(IDLE)):
                        found.append(" ".join(line)[:80])
    return found


def main() -> int:
    verb, machine, state_dir, log = sys.argv[1:]
    under = running(state_dir, machine) if verb == "sleep" else []
    with Path(log).open("a") as file:
        file.write(json.dumps({"time_s": time.time(), "verb": verb, "machine": machine, "under": under}) + "\n")
    return emulated_power.main([verb, machine, "--state-dir", state_dir])


if __name__ == "__main__":
    sys.exit(main())
