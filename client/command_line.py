"""A job from the words of a command line, as `coadapt run -- python train.py --lr 0.1` has them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.job import JobSpec
from . import jobfile
from .script_check import prepares

GENERAL = frozenset({"train", "main", "run", "script", "job"})  # names that do not say what a script does
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")


def spec_of(words: Sequence[str], folder: Path, fields: Mapping[str, Any], gpus: int | None = None) -> JobSpec:
    """Return the job that runs these words in a folder.

    A Python script that calls coadapt.prepare becomes an elastic job. Anything else runs unchanged, at the sizes
    of `fields` or at a fixed one.

    Args:
        fields: further fields of a job file.
        gpus: of an elastic job the most, of a fixed one all.

    Raises: JobFileError for words or fields that make no job.
    """
    if not words:
        raise jobfile.JobFileError("run", ["give a command after --, such as `coadapt run -- python train.py`"])
    written: dict[str, Any] = {"name": name_of(words, folder), "working_dir": str(folder), **fields}
    script, args = script_in(words)
    resources = dict(written.get("resources") or {})
    if script and "sizes" not in written and prepares(folder / script):
        written |= {"script": script, "args": args}
        if gpus is not None:
            resources["max_gpus"] = gpus
    else:
        written |= {"command": list(words)}
        if gpus is not None and "sizes" in written:
            raise jobfile.JobFileError("run", ["--gpus: sizes say how many GPUs the program can have"])
        if gpus is not None:
            resources["gpus"] = gpus
    if resources:
        written["resources"] = resources
    return jobfile.locate(jobfile.from_mapping(written, "run"), folder, "run")


def fields_of(
    *,
    sizes: str | None = None,
    gpu_types: Sequence[str] | None = None,
    name: str | None = None,
    pip: Sequence[str] | None = None,
    env: Sequence[str] | None = None,
    pool: str | None = None,
) -> dict[str, Any]:
    """Return the fields of a job file that options of a command line stand for. Raises: JobFileError."""
    fields: dict[str, Any] = {"name": name, "pip": list(pip or ()), "pool": pool}
    if sizes is not None:
        counts = [size.strip() for size in sizes.split(",")]
        if not all(count.isdecimal() for count in counts):
            raise jobfile.JobFileError("run", [f"--sizes: {sizes} are not GPU counts such as 1,2,4"])
        fields["sizes"] = [int(count) for count in counts]
    if gpu_types:
        fields["resources"] = {"gpu_types": list(gpu_types)}
    if env:
        pairs = [variable.partition("=") for variable in env]
        for variable, (named, sign, _) in zip(env, pairs, strict=True):
            if not (named and sign):
                raise jobfile.JobFileError("run", [f"--env: {variable} is not of the form NAME=VALUE"])
        fields["env"] = {name: value for name, _, value in pairs}
    return {field: value for field, value in fields.items() if value}


def script_in(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the script of `python train.py …` or `train.py …` with its arguments; "" for any other command."""
    rest = words[1:] if _PYTHON.fullmatch(Path(words[0]).name) else words
    if rest and Path(rest[0]).suffix == ".py":
        return rest[0], list(rest[1:])
    return "", []


def name_of(words: Sequence[str], folder: Path) -> str:
    """Return a job name: that of the script or program, or of the folder if that one's name is general."""
    called = next((word for word in words if Path(word).suffix == ".py"), words[0])
    return name_for(folder / called)


def name_for(script: Path) -> str:
    """Return a job name: that of the script, or of its folder if the script's name is general."""
    folder = script.resolve().parent.name
    text = folder if script.stem.lower() in GENERAL and folder else script.stem
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-_.")[:63] or "job"
