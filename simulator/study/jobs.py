"""The jobs that are studied, as columns: those of a trace, or of a simulated run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..engine.outcome import Outcome
from ..results.metrics import Intervals, intervals
from ..traces.final_state import FinalState
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .groups import Groups

STATES = tuple(FinalState)


@dataclass(frozen=True, eq=False)
class StudiedJobs:
    """Columns (jobs,) in order of submission; times are seconds of the trace.

    `began_s`: seconds since 1970 at second 0 of the trace; None: the trace has no dates.
    `held`: when jobs held which GPUs. Of jobs whose wait is not known it says they ran from submission.
    """

    began_s: float | None
    submit_s: Floats
    gpus: Ints
    length_s: Floats  # with GPUs; nan: not known
    gpu_s: Floats  # GPU time; nan: not known
    wait_s: Floats  # without GPUs, from submission to the end; nan: not known
    users: Groups
    virtual_clusters: Groups
    states: Ints  # position in STATES; -1: not known
    elastic: int  # jobs whose sizes the scheduler may change
    held: Intervals

    @classmethod
    def of_trace(cls, workload: Workload) -> StudiedJobs:
        """Return the jobs of a trace, which ran on the GPUs that they asked for."""
        length_s, waited_s = workload.duration_s, workload.waited_s
        at = np.flatnonzero(np.isfinite(length_s))
        start_s = (workload.submit_s + np.nan_to_num(waited_s))[at]
        gpus = workload.gpus[at]
        return cls(
            length_s=length_s,
            gpu_s=length_s * workload.gpus,
            wait_s=waited_s,
            held=Intervals(at, start_s, start_s + length_s[at], np.full(len(at), ""), gpus),
            **_common(workload),
        )

    @classmethod
    def of_run(cls, outcome: Outcome) -> StudiedJobs:
        """Return the jobs of a simulated run, in which each wait is known."""
        return cls(
            length_s=outcome.held_s,
            gpu_s=outcome.attained_gpu_s,
            wait_s=outcome.queueing_s,
            held=intervals(outcome.holdings),
            **_common(outcome.workload),
        )

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def waits_known(self) -> bool:
        """Whether it is known when every job held its GPUs."""
        return bool(np.isfinite(self.wait_s).all())

    @property
    def use_word(self) -> str:
        """What the GPUs that jobs hold are called: their demand, where it is not known when they ran."""
        return "use" if self.waits_known else "demand"

    @property
    def lengths_known(self) -> int:
        """The number of jobs whose length is known."""
        return int(np.isfinite(self.length_s).sum())

    @property
    def states_known(self) -> int:
        """The number of jobs of which it is known how they ended."""
        return int((self.states >= 0).sum())

    @property
    def counted_states(self) -> Ints:
        """(jobs,) the states with time-outs and lost nodes as failures, as the paper counts them."""
        counted = np.array([*(STATES.index(state.counted_as) for state in STATES), -1])
        return counted[self.states]

    def wanted(self) -> Intervals:
        """Return when jobs wanted or held GPUs: from submission to their last end."""
        end_s = np.full(len(self), -np.inf)
        np.maximum.at(end_s, self.held.job, self.held.end_s)
        at = np.flatnonzero(np.isfinite(end_s))
        return Intervals(at, self.submit_s[at], end_s[at], np.full(len(at), ""), self.gpus[at])

    def select(self, mask: np.ndarray) -> StudiedJobs:
        """Return the jobs for which a mask (jobs,) holds."""
        place = np.cumsum(mask) - 1
        kept = mask[self.held.job]
        held = Intervals(
            place[self.held.job[kept]],
            self.held.start_s[kept],
            self.held.end_s[kept],
            self.held.gpu_type[kept],
            self.held.gpus[kept],
        )
        columns: dict[str, Any] = {
            name: getattr(self, name)[mask]
            for name in ("submit_s", "gpus", "length_s", "gpu_s", "wait_s", "states")
        }
        groups: dict[str, Any] = {}
        for name in ("users", "virtual_clusters"):
            given: Groups = getattr(self, name)
            texts = np.array([*given.names, ""], dtype=np.str_)
            groups[name] = Groups.by_name(texts[given.of[mask]].tolist())
        return replace(self, held=held, **columns, **groups)


def _common(workload: Workload) -> dict[str, Any]:
    return {
        "began_s": workload.began_s or None,
        "submit_s": workload.submit_s,
        "gpus": workload.gpus,
        "users": Groups.by_name(workload.users),
        "virtual_clusters": Groups.by_name(workload.virtual_clusters),
        "states": np.array([-1 if s is None else STATES.index(s) for s in workload.states], np.int64),
        "elastic": sum(adaptivity.value != "rigid" for adaptivity in workload.adaptivity),
    }
