"""How the samples of a script's batch are divided over replicas and passes. Pure.

The loop of a script sees its own batches, one after the other, whatever their number of samples per replica. A
batch is cut into *parts*: one for each replica and pass, or fewer where it is too small.
With a larger batch size several batches of the script make one optimizer step. A script that does not count its
batches may be given larger ones instead (`fused`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....core.batch_plan import BatchPlan


@dataclass(frozen=True)
class Split:
    """How one batch of `unit` samples is divided, and how many make an optimizer step.

    merged: steps that the script asks for to one that is made.
    least: a part has at least so many samples where the batch has them. So a normalisation over the batch stays
    what it is.
    copies: ranks that compute the same, as by tensor parallelism; rank = copy x replicas + replica.
    """

    replicas: int
    unit: int
    passes: int = 1
    merged: int = 1
    least: int = 1
    copies: int = 1

    @classmethod
    def of(
        cls,
        plan: BatchPlan,
        replicas: int,
        script_batch: int,
        *,
        per_step: int = 1,
        fused: bool = False,
        undivided: bool = False,
        single: bool = False,
    ) -> Split:
        """Return the split that carries out a plan.

        `script_batch` is the script's batch in samples, and `per_step` how many of them make one of its steps.
        Whole batches stay the unit unless they are `fused`; a plan of more samples then merges steps.
        `undivided`: a batch is one pass on each replica, whatever the plan says. `single`: it is a step of its
        own, too.
        """
        total = plan.batch_size or replicas * plan.local_bsz * (plan.accumulation + 1)
        undivided = undivided or single
        if fused and not undivided:
            return cls(replicas, total, plan.accumulation + 1)
        merged = 1 if single else max(1, round(total / (script_batch * per_step)))
        return cls(
            replicas, script_batch, 1 if undivided else -(-script_batch // (replicas * plan.local_bsz)), merged
        )

    @property
    def local_bsz(self) -> int:
        """Samples of the largest part of a whole batch."""
        return -(-self.unit // (self.replicas * self.passes))

    def passes_for(self, samples: int) -> int:
        """Return the passes that a batch of so many samples takes, which are fewer for the rest of an epoch."""
        if samples >= self.unit:
            return self.passes
        return max(1, min(self.passes, -(-samples // (self.replicas * self.local_bsz))))

    def part_count(self, samples: int) -> int:
        """Return the different parts of a batch: fewer than replicas x passes where it is too small for that."""
        slots = self.replicas * self.passes_for(samples)
        return max(1, min(slots, samples // self.least))

    def parts(self, samples: int, rank: int) -> list[Part]:
        """Return the parts of a rank, one per pass, of a batch of `samples`."""
        passes, count = self.passes_for(samples), self.part_count(samples)
        copy, replica = divmod(rank, self.replicas)
        slots = self.replicas * passes
        each, more = divmod(samples, count)
        return [
            Part(
                index=(index := slot % count),
                count=count,
                samples=each + (index < more),
                copies=-(-(slots - index) // count) * self.copies,
                counts=slot < count and not copy,
            )
            for slot in range(replica, slots, self.replicas)
        ]

    def local_samples(self, samples: int, rank: int) -> int:
        """Return the samples of a batch of `samples` that count as a rank's."""
        return sum(part.samples for part in self.parts(samples, rank) if part.counts)


@dataclass(frozen=True)
class Part:
    """Part `index` of `count` of a batch. `copies` passes of the batch, over all replicas, compute this part.

    `counts`: whether it is the first of those.
    """

    index: int
    count: int
    samples: int
    copies: int
    counts: bool = True

    def of(self, samples: Any) -> Any:
        """Return its samples of a sequence that holds the batch: `index`, `index + count`, …

        With one pass these are just what `DistributedSampler` gives each rank.
        """
        return samples[self.index :: self.count]
