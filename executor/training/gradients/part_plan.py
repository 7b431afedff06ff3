"""What is asked of one part of a batch on this replica."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PartPlan:
    """One part of a batch on this replica: `samples` of its `batch` samples, which `copies` parts compute alike.

    `merged` steps of the script make the optimizer step, of `step_samples` samples in `parts` different parts.
    `per_step`: batches whose gradients the script adds up to a step of its own, where they are combined together.
    `visible`: the script may look at the gradients and step by them; else they are kept back for a later part.
    `void`: they are dropped. `last`: it is the last pass of its batch.
    """

    samples: int
    batch: int
    copies: int = 1
    merged: int = 1
    parts: int = 1
    step_samples: int = 0
    visible: bool = True
    void: bool = False
    last: bool = True
    per_step: int = 1

    @property
    def whole(self) -> bool:
        """Whether it is all of its step."""
        return self.samples == self.batch and self.merged == 1 and self.copies == 1
