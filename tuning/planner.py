"""Which trials train as one: groups, their sizes, and when they split, merge and are filled again. Pure.

Hydro, section 3.4.3 (adaptive fusion) and 3.5.3 (elastic executor).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .rungs import shares
from .space import Value

UNBOUNDED = 1_000  # trials in a group whose memory does not grow
USABLE = 0.95  # of a GPU's memory, so that a little more than was measured does not end the group

Kind = tuple[tuple[str, Value], ...]
"""The values by which trials are grouped, as sorted pairs."""


@dataclass(frozen=True)
class GroupMemory:
    """What one trial and what two take of a GPU, and what the GPU has, GiB."""

    one_gib: float
    two_gib: float
    gpu_gib: float

    @property
    def most(self) -> int:
        """The most trials of a group that fit; 0: not even one does. Memory is linear in them (Figure 3.8b)."""
        usable = self.gpu_gib * USABLE
        if self.one_gib > usable:
            return 0
        if self.two_gib <= self.one_gib:
            return UNBOUNDED
        return min(1 + math.floor((usable - self.one_gib) / (self.two_gib - self.one_gib) + 1e-9), UNBOUNDED)


@dataclass(frozen=True)
class EpochTime:
    """Seconds of an epoch of a group: `alone_s` of what does not grow with its trials, and `each_s` per trial."""

    alone_s: float
    each_s: float

    def of(self, trials: int) -> float:
        """Return the seconds of an epoch of so many trials."""
        return self.alone_s + self.each_s * trials


def kind_of(values: Mapping[str, Value], apart: Iterable[str]) -> Kind:
    """Return what a trial's group is told by. `apart`: the names that cannot differ within a group."""
    return tuple((name, values[name]) for name in sorted(apart) if name in values)


def work_of(kind: Kind, trials: int) -> float:
    """Return how much of the GPUs a kind is due: its batch size times its trials (section 3.4.3)."""
    batch = dict(kind).get("batch_size", 1)
    return trials * float(batch if isinstance(batch, int | float) and batch > 0 else 1)


def gpus_by_kind(work: Mapping[Kind, float], gpus: int) -> dict[Kind, int]:
    """Return how many GPUs each kind gets: by its work, at least one each, by largest remainders.

    With fewer GPUs than kinds those with the most work get one each, and the others 0: they wait.
    """
    kinds = sorted(work, key=lambda kind: (-work[kind], repr(kind)))
    if gpus <= len(kinds):
        return {kind: int(i < gpus) for i, kind in enumerate(kinds)}
    found = dict(zip(kinds, shares([work[kind] for kind in kinds], gpus), strict=True))
    while poor := [kind for kind in kinds if not found[kind]]:
        rich = max(kinds, key=lambda kind: found[kind])
        found[rich] -= 1
        found[poor[0]] += 1
    return found


def spread(trials: Sequence[int], gpus: int, most: int) -> list[list[int]]:
    """Return groups of nearly equal size, at most `most` trials each, so that each GPU has equally many of them.

    Where all fit at once there is one group per GPU. Else there are whole waves of them.
    """
    if not trials:
        return []
    gpus, most = max(min(gpus, len(trials)), 1), max(most, 1)
    waves = math.ceil(len(trials) / (gpus * most))
    return _even(trials, min(gpus * waves, len(trials)))


def _even(trials: Sequence[int], parts: int) -> list[list[int]]:
    least, more = divmod(len(trials), parts)
    found, at = [], 0
    for part in range(parts):
        size = least + (part < more)
        found.append(list(trials[at : at + size]))
        at += size
    return found


def plan_groups(kinds: Mapping[int, Kind], most: Mapping[Kind, int], gpus: int) -> list[tuple[Kind, list[int]]]:
    """Return the groups of trials that wait, the kind with the most work first.

    Args:
        kinds: the kind of each trial.
        most: the most trials of a group, by kind; each kind has one of at least 1.
        gpus: GPUs that may be used, at least 1.
    """
    members: dict[Kind, list[int]] = {}
    for trial, kind in sorted(kinds.items()):
        members.setdefault(kind, []).append(trial)
    work = {kind: work_of(kind, len(trials)) for kind, trials in members.items()}
    given = gpus_by_kind(work, max(gpus, 1))
    found: list[tuple[Kind, list[int]]] = []
    for kind in sorted(work, key=lambda kind: (-work[kind], repr(kind))):
        found += [(kind, group) for group in spread(members[kind], max(given[kind], 1), most[kind])]
    return found


def splits(sizes: Mapping[str, int], idle: int, least: int = 1) -> dict[str, int]:
    """Return into how many parts groups split so that idle GPUs train, too: always the one with the largest part.

    Args:
        sizes: the trials of each running group.
        least: the fewest trials of a part that are worth a GPU.
    """
    parts = dict.fromkeys(sizes, 1)
    for _ in range(idle):
        can = [group for group in sizes if sizes[group] // (parts[group] + 1) >= least]
        if not can:
            break
        parts[max(can, key=lambda group: (sizes[group] / parts[group], sizes[group], group))] += 1
    return {group: count for group, count in parts.items() if count > 1}


def split(trials: Sequence[int], parts: int) -> list[list[int]]:
    """Return a group's trials in so many parts of nearly equal size. The first part stays where it is."""
    return _even(trials, min(parts, len(trials)))


def worth_splitting(time: EpochTime, trials: int, epochs_left: int, restart_s: float) -> bool:
    """Return whether half of a group is so much quicker that the start of the other half is worth it."""
    return epochs_left * (time.of(trials) - time.of(math.ceil(trials / 2))) > restart_s


def merges(
    sizes: Mapping[str, int], at: Mapping[str, tuple[Kind, int]], most: Mapping[Kind, int]
) -> list[list[str]]:
    """Return which groups become one: those of one kind at the same epoch, as few groups as hold them.

    Args:
        sizes: the trials of each group.
        at: the kind and the epoch of each.
        most: the most trials of a group, by kind.
    """
    found: list[list[str]] = []
    for place in sorted(set(at.values()), key=repr):
        room: list[int] = []
        bins: list[list[str]] = []
        here = sorted((group for group in sizes if at[group] == place), key=lambda group: (-sizes[group], group))
        for group in here:
            for i, left in enumerate(room):
                if sizes[group] <= left:
                    bins[i].append(group)
                    room[i] -= sizes[group]
                    break
            else:
                bins.append([group])
                room.append(most[place[0]] - sizes[group])
        found += [one for one in bins if len(one) > 1]
    return found
