"""The programs of `benchmarks.doors`: how each is started by hand, and the fields of its job file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coadapt.core import doors

FOLDER = Path(__file__).with_name("programs_of_doors")
OUT = "$COADAPT_OUTPUT_DIR"  # also by hand, where it is a folder of the trial
TWO = {"resources": {"gpus": 2}}
# Two places with one size each: whoever is stopped goes on at the other.
SIZES = {"a100": [2], "t4": [1]}
FINAL = re.compile(r"^final .*$", re.MULTILINE)
ERROR = re.compile(r"^\w+(?:Error|Exception): .*$", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """One kind of program.

    hand: its command by hand; with two `nodes`, one for each.
    job: fields of its job file beside its name and folder.
    needs: the package of its framework.
    output: the file that it leaves; "": its last line tells the result.
    steps, step: how many steps it makes, and how its output tells of one.
    lost_by_stop, lost_by_kill: steps that its own checkpoints let it make again after SIGTERM, and after SIGKILL.
    event: what an event of the job has to tell.
    """

    name: str
    file: str
    hand: tuple[str, ...]
    job: Mapping[str, Any]
    nodes: int = 1
    needs: str = ""
    output: str = ""
    steps: int = 0
    step: str = r"^.*\bstep:? *(\d+)"
    lost_by_stop: int = 0
    lost_by_kill: int = 0
    tells: bool = False  # how far it is
    event: str = ""

    @property
    def sizes(self) -> bool:
        return "sizes" in self.job

    @property
    def door(self) -> doors.Door:
        fields = doors.completed(self.job)
        return doors.door(fields.get("elastic", True), fields.get("sizes"))

    @property
    def untouched(self) -> bool:
        """Whether it is to run without a changed line."""
        return self.door is not doors.Door.NATIVE and self.name != "reports"

    @property
    def installed(self) -> bool:
        return not self.needs or find_spec(self.needs) is not None

    def step_numbers(self, output: str) -> list[str]:
        return re.findall(self.step, output, re.MULTILINE)

    def result(self, output: str, folder: Path) -> str:
        """Return its last line of results, the file that it left, or its error; "" without any."""
        if self.output:
            path = folder / self.output
            return path.read_text() if path.exists() else ""
        lines = FINAL.findall(output) or ERROR.findall(output)
        return str(lines[-1]).strip() if lines else ""


def torchrun(*words: str, processes: int = 2) -> tuple[str, ...]:
    return ("torchrun", "--nproc-per-node", str(processes), *words)


def restarting(*words: str, **fields: Any) -> dict[str, Any]:
    return {"command": list(words), "sizes": SIZES, "training": {"report_interval_s": 3.0}, **fields}


PROGRAMS = (
    Program(
        "plain-script",
        "plain_script.py",
        ("python", "plain_script.py"),
        {"command": ["python", "plain_script.py"]},
    ),
    Program(
        "arguments-and-data",
        "csv_arguments.py",
        ("python", "csv_arguments.py", "--data", "data/points.csv", "--lr", "0.2"),
        {
            "script": "csv_arguments.py",
            "args": ["--data", "data/points.csv", "--lr", "0.2"],
            "elastic": False,
        },
    ),
    Program("torchrun-ddp", "ddp.py", torchrun("ddp.py"), {"command": ["torchrun", "ddp.py"], **TWO}),
    Program(
        "distributed-run",
        "ddp.py",
        ("python", "-m", "torch.distributed.run", "--nproc-per-node=2", "ddp.py"),
        {"command": ["python", "-m", "torch.distributed.run", "--nproc-per-node=2", "ddp.py"], **TWO},
    ),
    Program("torchrun-fsdp2", "fsdp.py", torchrun("fsdp.py"), {"command": ["torchrun", "fsdp.py"], **TWO}),
    Program(
        "torchrun-two-nodes",
        "ddp.py",
        torchrun("ddp.py"),
        {"command": ["torchrun", "ddp.py"], "resources": {"gpus": 4, "gpu_types": ["t4"]}},
        nodes=2,
    ),
    Program(
        "processes-of-its-own",
        "spawns.py",
        ("python", "spawns.py"),
        {"command": ["python", "spawns.py"], "processes": "node", **TWO},
    ),
    Program(
        "yaml-config",
        "configured.py",
        ("python", "configured.py", "config.yaml"),
        {"command": ["python", "configured.py", "config.yaml"]},
    ),
    Program("bash", "run.sh", ("bash", "run.sh"), {"command": ["bash", "run.sh"]}),
    Program("fails", "fails.py", ("python", "fails.py"), {"command": ["python", "fails.py"]}),
    Program(
        "says-nothing",
        "silent.py",
        ("python", "silent.py", f"{OUT}/sorted.txt"),
        {"command": ["python", "silent.py", f"{OUT}/sorted.txt"]},
        output="sorted.txt",
    ),
    Program(
        "background",
        "background.sh",
        ("bash", "background.sh"),
        {"command": ["bash", "background.sh"]},
        event="in the background",
    ),
    Program(
        "loader-workers",
        "loader_workers.py",
        ("python", "loader_workers.py"),
        {"command": ["python", "loader_workers.py"]},
    ),
    Program(
        "progress-bar",
        "progress_bar.py",
        ("python", "progress_bar.py"),
        {
            "command": ["python", "progress_bar.py"],
            "progress": {"pattern": r"\| (?P<step>\d+)/(?P<of>\d+) \[loss=(?P<loss>[0-9.]+)"},
        },
        tells=True,
    ),
    Program("reports", "reports.py", ("python", "reports.py"), {"command": ["python", "reports.py"]}, tells=True),
    Program(
        "json-lines",
        "json_lines.py",
        torchrun("json_lines.py", OUT),
        restarting("torchrun", "json_lines.py", OUT, progress={"file": "log.jsonl"}),
        steps=60,
        lost_by_kill=10,
        tells=True,
    ),
    Program(
        "ignores-sigterm",
        "ignores_sigterm.py",
        ("python", "ignores_sigterm.py", OUT),
        restarting("python", "ignores_sigterm.py", OUT, processes="node", grace_s=2),
        steps=60,
        lost_by_stop=1,
        lost_by_kill=1,
        event="after SIGTERM and was killed",
    ),
    Program(
        "checkpoints-of-shards",
        "titan_loop.py",
        torchrun("titan_loop.py", "--folder", OUT),
        restarting("torchrun", "titan_loop.py", "--folder", OUT),
        steps=60,
        lost_by_kill=10,
    ),
    Program(
        "hugging-face-trainer",
        "hf_trainer.py",
        torchrun("hf_trainer.py", "--output_dir", OUT),
        restarting("torchrun", "hf_trainer.py", "--output_dir", OUT),
        needs="transformers",
        steps=60,
        step=r"^\{'loss'",
        lost_by_stop=10,
        lost_by_kill=10,
        tells=True,
    ),
    Program(
        "accelerate",
        "accelerate_loop.py",
        torchrun("accelerate_loop.py", "--folder", OUT),
        restarting("python", "accelerate_loop.py", "--folder", OUT),
        needs="accelerate",
        steps=60,
        lost_by_kill=10,
    ),
    Program(
        "lightning",
        "lightning_fit.py",
        torchrun("lightning_fit.py", "--folder", OUT),
        restarting("torchrun", "lightning_fit.py", "--folder", OUT),
        needs="lightning",
        steps=64,
        lost_by_stop=8,
        lost_by_kill=8,
    ),
    Program(
        "prepared",
        "prepared_script.py",
        ("python", "plain_script.py"),
        {"script": "prepared_script.py", "profile": False, "emulation": {"time_scale": 20}},
        tells=True,
    ),
)
