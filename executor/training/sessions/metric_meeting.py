"""Puts together what each replica has reported."""

from __future__ import annotations

from ....core.training_config import TrainingConfig
from ...protocol.script_errors import SHARE_DECISIONS
from ..collective.group import Group
from ..tracking.forwarding import Trackers
from .batch_fusing import BatchFusing
from .batch_loop import BatchLoop
from .loop_state import LoopState
from .metrics import Metrics, combine_reports
from .peers import Peers
from .sample_counts import SampleCounts
from .script_progress import ScriptProgress

# A pass over a smaller share of the data set's samples was left early.
WHOLE_PASS = 0.99


class MetricMeeting:
    """Combines metrics, and what replicas have seen of their loops."""

    def __init__(
        self,
        config: TrainingConfig,
        metrics: Metrics,
        loop: LoopState,
        samples: SampleCounts,
        progress: ScriptProgress,
        peers: Peers,
        fusing: BatchFusing,
        data: BatchLoop,
        trackers: Trackers,
    ) -> None:
        self._target = config.target
        self._metrics, self._loop, self._samples, self._progress = metrics, loop, samples, progress
        self._peers, self._fusing, self._data, self._trackers = peers, fusing, data, trackers

    def combine(self, group: Group, leaves: bool = False) -> bool:
        """Combine what was reported. Returns whether rank 0 leaves its loop, which holds for all.

        Every rank calls this. `leaves`: this one has left its loop.
        Raises GroupBroken, and Disagreement where another rank than 0 has left.
        """
        mine, position, habits = self._metrics, self._loop.position, self._fusing.habits
        counts = position.counted or habits.counts or self._loop.one_pass or not self._was_whole_pass
        told = {
            "report": (dict(mine.values), dict(mine.ways), self._samples.weight, dict(mine.over)),
            "samples": self._samples.local,
            "parts": dict(mine.parts),
            "counts": counts,
            "looked": habits.looked,
            "leaves": leaves,
        }
        everyone = group.gather_objects(told)
        position.counted = any(one["counts"] for one in everyone)
        self._fusing.all_looked = all(one["looked"] for one in everyone)
        parts = dict(set.intersection(*(set(one["parts"].items()) for one in everyone)))
        told_reports = [one["report"] for one in everyone]
        reports = [(values, dict.fromkeys(parts, "sum") | ways, *rest) for values, ways, *rest in told_reports]
        combined, odd = combine_reports(reports, [one["samples"] for one in everyone])
        combined |= {n: combined[n] - whole * (len(everyone) - 1) for n, whole in parts.items() if whole}
        for sentence in odd:
            self._peers.tell(sentence)
        if group.rank == 0 and not self._loop.by_steps:
            fresh = {name: combined[name] for name in mine.fresh if name in combined}
            self._trackers.tell(fresh, position.steps)
        mine.combined, mine.fresh = combined, set()
        mine.at = {**dict.fromkeys(combined, self._progress.here), **mine.at}
        leaving = [rank for rank, one in enumerate(everyone) if one["leaves"]]
        if leaving and leaving[0] != 0:
            group.differ(
                f"replica {leaving[0]} has left its loop at {self._progress.where}, replica 0 goes on; "
                f"{SHARE_DECISIONS}"
            )
        return bool(leaving)

    @property
    def _was_whole_pass(self) -> bool:
        """Whether the pass before went over all of the data."""
        if self._data.source.size is None:
            return True
        samples = self._data.batch_count() * self._data.scale.script_batch
        return self._loop.position.last_samples >= samples * WHOLE_PASS

    @property
    def target_reached(self) -> bool:
        """Whether the combined metrics reach the target of the job."""
        target = self._target
        value = self._metrics.combined.get(target.metric) if target is not None else None
        return target is not None and value is not None and target.reached(value)

    @property
    def has_news(self) -> bool:
        """Whether a loop in steps, which no end of an epoch interrupts, has reported its target."""
        target = self._target
        return self._loop.by_steps and target is not None and target.metric in self._metrics.fresh
