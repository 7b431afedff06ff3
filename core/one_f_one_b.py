"""The 1F1B schedule of a synchronous pipeline: when each stage computes, and the bubbles in which it waits.

A stage first runs as many forward passes as there are stages from it on, then a backward and a forward pass in
turn, and at last the backward passes that are left (PipeDream-Flush; Hydro, Figure 3.9).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chunk:
    """A pass of a micro-batch through a stage, from `start_s` to `end_s` after the start of the iteration."""

    start_s: float
    end_s: float
    backward: bool
    micro_batch: int


@dataclass(frozen=True)
class OneForwardOneBackward:
    """An iteration of a pipeline whose stages are alike.

    forward_s, backward_s: of one micro-batch through one stage. There are at least as many micro-batches as
    stages, as PyTorch's schedule asks for. Sending takes no time.

    Raises: ValueError, in one sentence.
    """

    stages: int
    micro_batches: int
    forward_s: float
    backward_s: float

    def __post_init__(self) -> None:
        if self.stages < 1 or self.micro_batches < self.stages:
            told = f"stages {self.stages} and micro_batches {self.micro_batches}"
            raise ValueError(f"pipeline: {told}; it has a stage or more, and no fewer micro-batches than stages")
        if self.forward_s <= 0 or self.backward_s <= 0:
            told = f"forward_s {self.forward_s:g} and backward_s {self.backward_s:g}"
            raise ValueError(f"pipeline: {told}; passes take longer than 0 s")

    @property
    def iteration_s(self) -> float:
        """Seconds from the first pass to the last."""
        return (self.micro_batches + self.stages - 1) * (self.forward_s + self.backward_s)

    @property
    def idle_part(self) -> float:
        """The part of an iteration in which a stage waits: the same for each."""
        return (self.stages - 1) / (self.micro_batches + self.stages - 1)

    def held(self, stage: int) -> int:
        """Return for how many micro-batches a stage holds activations at once. `stage`: from 0."""
        return min(self.micro_batches, self.stages - stage)

    def order(self, stage: int) -> list[tuple[bool, int]]:
        """Return the passes of a stage in order, as (whether backward, micro-batch)."""
        ahead = self.held(stage)
        found = [(False, batch) for batch in range(ahead)]
        for batch in range(self.micro_batches):
            found.append((True, batch))
            if batch + ahead < self.micro_batches:
                found.append((False, batch + ahead))
        return found

    def chunks(self) -> list[list[Chunk]]:
        """Return the passes of each stage in the order of time."""
        orders = [self.order(stage) for stage in range(self.stages)]
        ends: dict[tuple[int, bool, int], float] = {}
        found: list[list[Chunk]] = [[] for _ in orders]
        while any(len(done) < len(order) for done, order in zip(found, orders, strict=True)):
            for stage, (done, order) in enumerate(zip(found, orders, strict=True)):
                while len(done) < len(order):
                    backward, batch = order[len(done)]
                    needs = self._needs(stage, backward, batch)
                    if needs is not None and needs not in ends:
                        break
                    start_s = max(0.0 if needs is None else ends[needs], done[-1].end_s if done else 0.0)
                    end_s = start_s + (self.backward_s if backward else self.forward_s)
                    ends[stage, backward, batch] = end_s
                    done.append(Chunk(start_s, end_s, backward, batch))
        return found

    def bubbles(self, stage: int) -> list[tuple[float, float]]:
        """Return the bubbles of a stage in an iteration, as (start, end) in seconds."""
        found, at = [], 0.0
        for chunk in self.chunks()[stage]:
            if chunk.start_s - at > 1e-12:
                found.append((at, chunk.start_s))
            at = chunk.end_s
        if self.iteration_s - at > 1e-12:
            found.append((at, self.iteration_s))
        return found

    def _needs(self, stage: int, backward: bool, batch: int) -> tuple[int, bool, int] | None:
        """Return the pass that gives a pass its input; None: the first stage reads its batch itself."""
        if backward:
            last = stage == self.stages - 1
            return (stage, False, batch) if last else (stage + 1, True, batch)
        return (stage - 1, False, batch) if stage else None
