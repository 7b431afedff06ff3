"""How much is done of what a script asked for, as sessions, scheduler and simulator count it. Pure."""

from __future__ import annotations

from .training_config import Count


def fraction_done(count: Count, asked: float, progress: float, passes: float) -> float:
    """Return the part of `asked` epochs or steps that is done, 0..1.

    `progress`: what was made, in epochs or steps at the initial batch size; `passes`: those over the data, or
    steps, however large the batches.
    """
    done = progress if count is Count.PROGRESS else passes
    return min(max(done / asked, 0.0), 1.0) if asked > 0 else 0.0


def samples_left(progress_samples: float, fraction: float) -> float | None:
    """Return samples at the initial batch size to the end, judged by the part that is done; None: unknown.

    Where progress is what counts, that is exact.
    """
    if not (fraction > 0 and progress_samples > 0):
        return None
    return max(progress_samples * (1.0 - fraction) / fraction, 0.0)
