"""What can be wrong with CPUs and memory by gain, each with the one sentence that its user reads.

`tests/cli/test_bad_provisioning.py` holds every row; `benchmarks/bad_input.py` prints them.
"""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coadapt.cli.main import run


@dataclass(frozen=True)
class BadProvisioning:
    """What is wrong, the words behind `coadapt simulate`, and the sentence. {dir}: the folder of the user's files.

    profile: fields of the profile in {dir}/profiles.json that are not sound. trace: the text of {dir}/trace.csv.
    input: of the only job in {dir}/elastic.jsonl, which trains cifar10.
    """

    what: str
    words: str
    error: str
    profile: dict[str, Any] = field(default_factory=dict)
    trace: str = "0,image,0.0,2000,1\n"
    input: dict[str, Any] = field(default_factory=lambda: {"cpus": [1.0], "prepared": [50.0]})

    def answer(self, folder: Path) -> str:
        """Return what the command says, with {dir} for the folder."""
        sound = {"tput": [[1.0] * 5] * 9, "iter_time": 0.5}
        (folder / "profiles.json").write_text(json.dumps({"models": {"image_1": sound | self.profile}}))
        (folder / "trace.csv").write_text(self.trace)
        job = {"id": "a", "submit_s": 0, "application": "cifar10", "adaptivity": "adaptive", "input": self.input}
        (folder / "elastic.jsonl").write_text(json.dumps(job) + "\n")
        told = io.StringIO()
        words = self.words.format(dir=folder).split(" ")
        with redirect_stderr(told), redirect_stdout(io.StringIO()):
            status = run(["simulate", *words])
        line = told.getvalue().removeprefix("coadapt: ").strip().replace(str(folder), "{dir}")
        return line if status == 2 else f"status {status}: {line}"


def _tput(value: float) -> dict[str, Any]:
    return {"tput": [[1.0] * 5] * 8 + [[1.0, value, 1.0, 1.0, 1.0]]}


FILE = "--profiles {dir}/profiles.json "
TRACE = FILE + "--trace {dir}/trace.csv --cluster v100:8 --policy fifo --policy-option provisioning=tune"
ELASTIC = "--trace {dir}/elastic.jsonl --cluster a100:8/24/500 --policy sia --policy-option provisioning=priced"

BAD_PROVISIONING = [
    BadProvisioning(
        "a negative speed",
        TRACE,
        "{dir}/profiles.json: image_1: tput: speed: -1.0 at row 8, column 1; 0 or more is accepted",
        _tput(-1.0),
    ),
    BadProvisioning(
        "a speed that is no number",
        TRACE,
        "{dir}/profiles.json: image_1: tput: speed: nan at row 8, column 1; 0 or more is accepted",
        _tput(float("nan")),
    ),
    BadProvisioning(
        "a matrix unlike its axes",
        TRACE,
        "{dir}/profiles.json: image_1: tput has shape (2, 1); (9, 5) or (9, 4) is accepted",
        {"tput": [[1.0], [2.0]]},
    ),
    BadProvisioning(
        "no seconds of an iteration",
        TRACE,
        "{dir}/profiles.json: image_1: iter_time None must be seconds above 0",
        {"iter_time": None},
    ),
    BadProvisioning(
        "a node without CPUs",
        TRACE,
        "cpus: node v100-0000 states none; provisioning needs the CPUs and the memory of every node with GPUs",
    ),
    BadProvisioning(
        "a share below the grid",
        TRACE.replace("v100:8", "v100:8/24/80"),
        "--trace: job 0: memory_gib: a share of 10 per GPU is outside what was measured; 20.83 to 250 is accepted",
    ),
    BadProvisioning(
        "a share above the grid",
        TRACE.replace("v100:8", "v100:8/200/500"),
        "--trace: job 0: cpus: a share of 25 per GPU is outside what was measured; 1 to 24 is accepted",
    ),
    BadProvisioning(
        "less memory than the processes need",
        ELASTIC,
        "--trace: job a: memory_gib: a share of 62.5 per GPU is less than the 80 GiB that each GPU's processes "
        "need",
        input={
            "cpus": [1.0],
            "prepared": [50.0],
            "reading": {"dataset_gib": 100.0, "samples": 1000, "storage_gib_per_s": 1.0, "process_gib": 80.0},
        },
    ),
    BadProvisioning(
        "an input on nodes without CPUs",
        ELASTIC.replace("/24/500", ""),
        "cpus: node a100-0000 states none; provisioning needs the CPUs and the memory of every node with GPUs",
    ),
    BadProvisioning(
        "an input that is negative",
        ELASTIC,
        "{dir}/elastic.jsonl: line 1: input: prepared: [-1.0] is not accepted; samples/s above 0 are",
        input={"cpus": [1.0], "prepared": [-1.0]},
    ),
    BadProvisioning(
        "an input unlike its axis",
        ELASTIC,
        "{dir}/elastic.jsonl: line 1: input: prepared: 1 rates for 2 CPU counts; one for each is accepted",
        input={"cpus": [1.0, 2.0], "prepared": [1.0]},
    ),
    BadProvisioning(
        "an unknown mechanism of sia",
        ELASTIC.replace("priced", "fair"),
        "--policy-option: policy sia: provisioning: 'fair' is not accepted, must be one of proportional, greedy, "
        "tune, optimal, priced",
    ),
    BadProvisioning(
        "an unknown mechanism",
        TRACE.replace("=tune", "=fair"),
        "--policy-option: policy fifo: provisioning: 'fair' is not accepted, must be one of proportional, greedy, "
        "tune, optimal, priced",
    ),
    BadProvisioning(
        "a tolerance of 1",
        TRACE.replace("provisioning=tune", "saturation=1"),
        "--policy-option: policy fifo: saturation: 1 is not accepted, must be a number of at least 0 and below 1",
    ),
    BadProvisioning(
        "a trace with a field too few",
        TRACE + " --format synergy",
        "{dir}/trace.csv: line 1: has 4 fields; job_id, model, arrival, iterations, num_gpus are accepted",
        trace="0,image,0.0,2000\n",
    ),
    BadProvisioning(
        "a split without weights",
        FILE + "--split a,b,c --cluster v100:8 --policy fifo",
        "--split: 'a,b,c' is not accepted; weights such as 20,70,10 are",
    ),
    BadProvisioning(
        "a split of two tasks",
        FILE + "--split 1,2 --cluster v100:8 --policy fifo",
        "--split: [1.0, 2.0] is not accepted; weights of image, language, speech are, not all 0",
    ),
    BadProvisioning(
        "sizes that are unknown",
        FILE + "--split 1,1,1 --sizes large --cluster v100:8 --policy fifo",
        "--sizes: 'large' is not accepted; single, philly or 1:80,4:20 are",
    ),
]
