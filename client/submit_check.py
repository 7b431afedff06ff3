"""What would happen to a job if it were submitted: its door, its sizes, and what would be refused or is amiss."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..core.cluster import Cluster
from ..core.doors import Door
from ..core.errors import PackageError
from ..core.job import JobSpec
from ..core.schemas import DeadlineView, SecretRow, SubmitView
from . import jobfile
from .http_api import AccessError, RequestError
from .package import Packer
from .script_check import mistaken
from .team_check import TeamCheck
from .unshared_decisions import unshared_decisions


def would_happen(
    job: JobSpec | str | Path,
    cluster: Cluster | None,
    max_package_mib: int,
    *,
    anyway: bool = False,
    packer: Packer | None = None,
    secrets: Callable[[], Sequence[SecretRow]] | None = None,
    teams: Callable[[JobSpec], TeamCheck] | None = None,
) -> SubmitView:
    """Return what would become of a spec or a job file; nothing is sent.

    Args:
        cluster: None: none runs, so it is not known which GPUs the job could have.
        anyway: whether it would be submitted though it cannot run as it is, as `--anyway` does.
        packer: what packs the folders of other jobs too.
        secrets: returns those of who submits; None: it is not known which there are.
        teams: returns what teams make of a job; None: it is not known whether there are any.
    """
    called = job.name if isinstance(job, JobSpec) else str(job)
    try:
        spec = jobfile.located(job)
    except jobfile.JobFileError as error:
        return SubmitView(
            job=called,
            name=None,
            door=None,
            cluster=cluster is not None,
            sizes={},
            refused=list(error.problems),
            notes=[],
            deadline=None,
        )
    found = of_spec(spec, called, cluster, mistaken(spec), anyway=anyway, secrets=secrets, teams=teams)
    try:
        package, new = (packer or Packer(max_package_mib)).of(spec)
        found["notes"] += package.left_behind if new else ()
    except PackageError as error:
        found["refused"].append(str(error))
    if spec.door is Door.NATIVE:
        decisions = unshared_decisions(Path(spec.working_dir) / spec.script)
        found["notes"] += [f"{spec.script}, {decision}" for decision in decisions]
    return found


def with_deadline(view: SubmitView, spec: JobSpec, ask: Callable[[], DeadlineView]) -> SubmitView:
    """Return the view with whether the job's deadline would hold, where it has one and would be submitted.

    Args:
        ask: asks the service, which may refuse in a sentence.
    """
    if spec.deadline is None or view["refused"]:
        return view
    try:
        return {**view, "deadline": ask()}
    except RequestError as error:
        return {**view, "notes": [*view["notes"], f"its deadline: {error}"]}


def of_spec(
    spec: JobSpec,
    called: str,
    cluster: Cluster | None,
    mistake: str | None = None,
    *,
    anyway: bool = False,
    secrets: Callable[[], Sequence[SecretRow]] | None = None,
    teams: Callable[[JobSpec], TeamCheck] | None = None,
) -> SubmitView:
    """Return what would become of a job as far as its spec tells; no folder is looked at.

    Args:
        called: the job for a person.
        mistake: what is wrong with its script.
        secrets, teams: as for `would_happen`.
    """
    shared = TeamCheck(spec) if teams is None else teams(spec)
    spec = shared.spec
    overruled = [mistake] if mistake else []
    overruled += jobfile.misfits(spec, cluster) if cluster is not None else []
    return SubmitView(
        job=called,
        name=spec.name,
        door=spec.door.value,
        cluster=cluster is not None,
        sizes=sizes_on(spec, cluster) if cluster is not None else {},
        refused=[*([] if anyway else overruled), *_passed(spec), *lacking(spec, secrets), *shared.refused],
        notes=[*_of_array(spec), *(overruled if anyway else []), *shared.notes],
        deadline=None,
    )


def _of_array(spec: JobSpec) -> list[str]:
    return [] if spec.array is None else [f"it is an array of {spec.array.size} jobs"]


def _passed(spec: JobSpec) -> list[str]:
    """Return that a job's deadline has passed already."""
    passed = "" if spec.deadline is None else spec.deadline.passed(time.time())
    return [passed] if passed else []


def lacking(spec: JobSpec, secrets: Callable[[], Sequence[SecretRow]] | None) -> list[str]:
    """Return a sentence for each secret that a job names and could not be given.

    Nothing is asked for a job that names none. A viewer, who has no secrets and submits nothing, is told of none.
    """
    if secrets is None or not spec.secrets:
        return []
    try:
        problems = {row["name"]: row["problem"] for row in secrets()}
    except AccessError:
        return []
    found = []
    for name in dict.fromkeys(spec.secret_env.values()):
        if name not in problems:
            found.append(f"secrets: you have no secret {name}; `coadapt secret set {name}` makes one")
        elif problems[name]:
            found.append(f"secrets: {problems[name]}")
    return found


def sizes_on(spec: JobSpec, cluster: Cluster) -> dict[str, list[int]]:
    """Return how many GPUs of each type of the job's pool it could have alone; a policy may choose among fewer."""
    part, resources = cluster.of_pool(spec.pool or ""), spec.resources
    found: dict[str, list[int]] = {}
    for gpu_type, there in part.capacity().items():
        each = spec.gpus_per_replica(gpu_type)
        if each is None or each > part.largest_nodes[gpu_type]:
            continue
        least, most = resources.gpus or resources.min_gpus, resources.gpus or resources.max_gpus
        counts = range(each, min(there, most) + 1, each)
        if fitting := [gpus for gpus in counts if gpus >= least and spec.allows(gpu_type, gpus)]:
            found[gpu_type] = fitting
    return found
