"""Says what is asked of one part of a batch on this replica."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PartPlan:
    """One part of a batch on this replica: `samples` of its `batch` samples. `copies` parts compute the same.

    merged: steps of the script that make one optimizer step.
    parts, step_samples: the different parts of that step, and its samples.
    visible: the script may look at the gradients and step by them; else they are kept back for a later part.
    void: the gradients are dropped.
    last: it is the last pass of its batch.
    per_step: batches whose gradients the script adds up to one step, where they are combined together.
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
        """Whether the part is all of its step."""
        return self.samples == self.batch and self.merged == 1 and self.copies == 1
