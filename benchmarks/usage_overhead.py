"""What sampling the use of GPUs costs a node, in CPU time.

    python -m benchmarks.usage_overhead [--gpus 8] [--seconds 30]

A process per GPU of the node runs a sampler, as the worker of a job does. Their CPU time is divided by the wall
time. Both ends of what a paced process tells its worker are included.
* emulated: paced GPUs.
* code: NVML whose answers cost nothing, so that what is left is our code.
* nvml: the machine's own GPUs, where it has any.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any

from coadapt.core.usage import NO_USAGE, Usage
from coadapt.executor.protocol.messages import Paced
from coadapt.executor.usage.gauge import Gauge
from coadapt.executor.usage.nvml_gauge import NvmlGauge, open_gauge
from coadapt.executor.usage.paced_gauge import PacedGauge
from coadapt.executor.usage.sampler import Sampler

from .arguments import at_least
from .harness import finish, table

KINDS = {"emulated": "paced GPUs", "code": "NVML that answers at once", "nvml": "this machine's GPUs"}


class FreeNvml:
    """Answer as NVML does, at no cost."""

    class NVMLError(Exception):
        pass

    _rates, _memory = SimpleNamespace(gpu=50, memory=20), SimpleNamespace(used=2**33)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return self._rates

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return self._memory


def paced(stop: threading.Event) -> PacedGauge:
    """Return the gauge of an emulated GPU whose process tells once a second how busy it is."""
    gauge = PacedGauge(1)
    ours, theirs = Pipe(duplex=False)

    def hear() -> None:
        while True:
            told = ours.recv()
            gauge.told(told.busy_s, told.step_s)

    def tell() -> None:
        busy_s = 0.0
        while not stop.wait(1.0):
            busy_s += 0.8
            theirs.send(Paced(busy_s, 0.1))

    for run in (hear, tell):
        threading.Thread(target=run, daemon=True).start()
    return gauge


def opener(kind: str, index: int, stop: threading.Event) -> Callable[[], Gauge | None]:
    if kind == "emulated":
        return lambda: paced(stop)
    if kind == "code":
        return lambda: NvmlGauge(FreeNvml(), ["0"])
    return lambda: open_gauge([str(index)], 1.0, 0)


def work(kind: str, index: int, seconds: int) -> None:
    """Be one worker: print the CPU seconds that sampling took once it had begun, and the GPU-seconds seen."""
    told: list[Usage] = []
    stop = threading.Event()
    gauge = opener(kind, index, stop)()
    sampler = Sampler(lambda: gauge, told.append)
    began = time.process_time()
    sampler.start()
    stop.wait(seconds)
    cpu_s = time.process_time() - began
    sampler.close()
    seen_s = sum(told, NO_USAGE).seconds
    print(json.dumps({"cpu_s": cpu_s, "seen_s": seen_s}))


def measure(kind: str, gpus: int, seconds: int) -> tuple[float, float] | None:
    """Return the part of a core that sampling takes on a node, and CPU microseconds a sample; None: no GPU."""
    command = [sys.executable, "-m", "benchmarks.usage_overhead", "--worker", kind, "--seconds", str(seconds)]
    workers = [
        subprocess.Popen([*command, "--index", str(index)], stdout=subprocess.PIPE, text=True)
        for index in range(gpus)
    ]
    told = [json.loads(worker.communicate()[0]) for worker in workers]
    seen = [one for one in told if one["seen_s"] > 0]
    if not seen:
        return None
    each = statistics.mean(one["cpu_s"] for one in seen)
    return gpus * each / seconds, 1e6 * each / (seconds - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=at_least(1), default=8, help="GPUs of a node, each with its own worker")
    parser.add_argument("--seconds", type=at_least(2), default=30)
    parser.add_argument("--worker", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--index", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker is not None:
        work(args.worker, args.index, args.seconds)
        return
    rows, figures = [], dict[str, float | int | str | None]()
    for kind, name in KINDS.items():
        found = measure(kind, args.gpus, args.seconds)
        core, sample_us = found if found is not None else (None, None)
        figures[f"{kind}_core"] = None if core is None else round(core, 6)
        figures[f"{kind}_sample_us"] = None if sample_us is None else round(sample_us, 1)
        rows.append([name, *("-" if value is None else value for value in (core, sample_us))])
    table(
        f"Sampling {args.gpus} GPUs of a node once a second",
        ["GPUs", "part of a core", "CPU a sample, us"],
        rows,
    )
    finish("usage_overhead", {"gpus": args.gpus, **figures})


if __name__ == "__main__":
    main()
