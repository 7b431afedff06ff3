"""On which GPU type each job is best, where types are a choice: the program of OPT over all types at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...estimators.sensitivity.choices import Choices
from .ideal import Class, Machine, ideal


@dataclass(frozen=True)
class Typed:
    """What a job may get on each GPU type that it may use. now: the type that it was admitted on.

    weight: by type, its speed at the share there over that on the type `now`.
    """

    now: str
    choices: Mapping[str, Choices]
    weight: Mapping[str, float]


def types_chosen(jobs: Sequence[Typed], machines: Mapping[str, Machine]) -> list[str]:
    """Return a GPU type for each job, so that the sum of speeds is greatest and none is slower than at its share.

    Jobs of a class that were admitted on a type come first for it. Where the program has no answer, all types stay
    as they are.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for at, job in enumerate(jobs):
        key = (tuple(job.choices.items()), tuple(sorted(job.weight.items())))
        groups.setdefault(key, []).append(at)
    classes = [Class(len(at), jobs[at[0]].choices, jobs[at[0]].weight) for at in groups.values()]
    found = ideal(classes, machines, whole=True) if classes else None
    types = [job.now for job in jobs]
    if found is None:
        return types
    for number, places in enumerate(groups.values()):
        left: dict[str, int] = {}
        for (of, gpu_type, _), count in zip(found.columns, found.counts.tolist(), strict=True):
            if of == number:
                left[gpu_type] = left.get(gpu_type, 0) + round(count)
        moving: list[int] = []
        for place in places:
            if left.get(jobs[place].now, 0) > 0:
                left[jobs[place].now] -= 1
            else:
                moving.append(place)
        rest = [gpu_type for gpu_type, count in left.items() for _ in range(count)]
        for place, gpu_type in zip(moving, rest, strict=False):
            types[place] = gpu_type
    return types
