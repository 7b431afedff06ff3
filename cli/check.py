"""`coadapt check train.py`: finds out in seconds, on this machine, what would happen to a script as a job."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..client import jobfile
from ..client.package import Packer
from ..client.script_check import mistaken, other_doors
from ..client.unshared_decisions import unshared_decisions
from ..core.doors import Door
from ..core.errors import PackageError
from ..core.job import JobSpec
from ..core.settings import Settings
from ..executor.files.job_folder import unpack
from ..executor.processes.replica import shard_environment
from ..executor.protocol.messages import JOB_ID
from ..executor.rehearsal.check import Subject, Verdict, check
from ..executor.worker_environment import tracking
from .offer import name_for


def checked(path: Path, args: Sequence[str], limit_s: float, tell: Callable[[str], None]) -> tuple[str, Verdict]:
    """Return the script's name and the verdict on it.

    The script runs in a copy of its folder, as on a node. `tell` is given a sentence for each thing that is not
    copied or installed.

    Raise JobFileError for a job file that is not accepted, and for a path where nothing is.
    """
    if not jobfile.is_script(path) or not path.is_file():
        spec = jobfile.load(path)
    else:
        try:
            spec = jobfile.locate(_spec_of(path, args), path.parent, str(path))
        except jobfile.JobFileError as error:
            return path.name, Verdict(error.problems[0])
    if spec.door is not Door.NATIVE:
        return spec.called, Verdict("", notes=(f"a {spec.door} job: {spec.door.line}",))
    if told := mistaken(spec):
        return spec.script, Verdict(told.removeprefix("script: "), notes=other_doors(told, spec.script))
    folder = Path(spec.working_dir)
    try:
        package, _ = Packer(Settings().max_package_mib).of(spec)
    except PackageError as error:
        return spec.script, Verdict(str(error))
    for sentence in package.left_behind:
        tell(sentence)
    if spec.pip:
        tell(f"pip: {', '.join(spec.pip)}: not installed for a check, which uses what is installed here")
    with tempfile.TemporaryDirectory(prefix="coadapt-check-", ignore_cleanup_errors=True) as scratch:
        copy = Path(scratch) / "work"
        copy.mkdir()
        unpack(io.BytesIO(package.data), copy)
        subject = _subject(spec, copy)
        verdict = check(subject, Path(scratch), limit_s)
    decisions = unshared_decisions(folder / spec.script) if subject.most > 1 else []
    doors = other_doors(verdict.problem, spec.script)
    return spec.script, replace(verdict, notes=(*verdict.notes, *map(str, decisions), *doors))


def _spec_of(script: Path, args: Sequence[str]) -> JobSpec:
    return jobfile.from_mapping({"name": name_for(script), "script": script.name, "args": list(args)}, str(script))


def _subject(spec: JobSpec, folder: Path) -> Subject:
    job = f"{spec.name}-check"
    env = {**tracking(job, True), **spec.env, JOB_ID: job, "PYTHONPATH": str(folder)}
    if spec.is_sharded:  # over one process, which a check has of each replica
        env |= shard_environment(0, 1, 0)
    most = spec.resources.gpus or spec.resources.max_gpus
    per_replica = spec.resources.gpus_per_replica
    narrowest = min(per_replica.values()) if isinstance(per_replica, dict) else per_replica
    return Subject(
        folder, spec.script, spec.args, env, spec.training, spec.fewest_replicas, max(1, most // narrowest)
    )
