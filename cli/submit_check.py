"""`coadapt submit --check`: says what would happen to job files, and submits nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

from ..client import jobfile
from ..client.package import Packer
from ..client.submit_check import with_deadline, would_happen
from ..client.team_check import TeamCheck
from ..core.cluster import Cluster
from ..core.deadline_view import in_words
from ..core.doors import Door
from ..core.job import JobSpec
from ..core.schemas import DeadlineView, SecretRow, SubmitView
from ..core.settings import Settings
from ..core.wording import n_gpus


def views(
    paths: Sequence[Path],
    cluster: Cluster | None,
    settings: Settings | None,
    anyway: bool,
    secrets: Callable[[], Sequence[SecretRow]] | None = None,
    teams: Callable[[JobSpec], TeamCheck] | None = None,
    deadline: Callable[[Path], DeadlineView] | None = None,
) -> list[SubmitView]:
    """Return what would become of each job file.

    Args:
        secrets, teams: as for `would_happen`.
        deadline: tells of a job file with a deadline whether that would hold; None: no cluster runs.
    """
    most_mib = (settings or Settings()).max_package_mib
    packer, known = Packer(most_mib), None if secrets is None else cache(secrets)
    found = []
    for path in paths:
        view = would_happen(path, cluster, most_mib, anyway=anyway, packer=packer, secrets=known, teams=teams)
        if deadline is not None and view["name"] is not None:
            view = with_deadline(view, jobfile.located(path), partial(deadline, path))
        found.append(view)
    return found


def lines(view: SubmitView, no_cluster: str, now: float | None = None) -> Iterator[str]:
    """Yield the lines for a person. `no_cluster`: why none is known. `now`: a moment; None: this one."""
    would = "would be refused" if view["refused"] else "would be submitted"
    yield f"{view['job']}: {would}"
    yield from (f"  {problem}" for problem in view["refused"])
    if view["door"] is not None:
        yield f"  door: {view['door']}; {Door(view['door']).line}"
    if not view["cluster"]:
        yield f"  GPUs: not known; {no_cluster}"
    for gpu_type, counts in view["sizes"].items():
        yield f"  {gpu_type}: {_counts(counts)}"
    if (told := view.get("deadline")) is not None:
        now = time.time() if now is None else now
        yield f"  deadline: {in_words(told, now)}"
        yield from (f"  {sentence}" for sentence in told.get("gives", ()))
    yield from (f"  note: {note}" for note in view["notes"])


def _counts(counts: Sequence[int]) -> str:
    """Return GPU counts in words: a range where all steps between are alike."""
    steps = {after - before for before, after in pairwise(counts)}
    if len(counts) > 2 and len(steps) == 1:
        step = steps.pop()
        by = f" in steps of {step}" if step > 1 else ""
        return f"{counts[0]} to {n_gpus(counts[-1])}{by}"
    return f"{', '.join(map(str, counts[:-1]))} or {n_gpus(counts[-1])}" if len(counts) > 1 else n_gpus(counts[0])
