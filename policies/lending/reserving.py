"""How many idle GPUs are kept back for teams over a window. Pure.

* *Bulk*, as published (Figure 8): all that waits and comes, at most what is unused of the quota.
* *Blocking*, ours: only what the queue could start in strict order within the window. Less is kept back, and it
  is as safe: a job that finds no room even if all that may end has ended holds up everybody behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .book import Pool, Turn

NewLoad = Callable[[str, float], float]  # team, horizon in s -> GPUs that new jobs will ask for; inf: nobody knows


def bulk(pool: Pool, new_load: float, slack: float = 0.0) -> float:
    """Return what waits and comes, at most what is unused of the quota.

    Args:
        slack: so much more is kept back, as a part of it.
    """
    return min((1 + slack) * (sum(job.gpus for job in pool.turns) + new_load), pool.unused)


def blocking(pool: Pool, queue: Sequence[Turn], horizon_s: float, new_load: float) -> tuple[float, int]:
    """Return the most of idle GPUs that a queue can take within the horizon, at most what is unused.

    A dedicated job that may end before then counts as ended, as does one that starts and may end. The first job
    that finds no room ends the walk, and new jobs come behind it.

    Returns:
        The GPUs, and how many jobs from the front they hang on.
    """
    unused = pool.unused
    room = unused + sum(job.gpus for job in pool.dedicated if job.least_s < horizon_s)
    taken = 0
    for count, job in enumerate(queue, start=1):
        if job.gpus > room:
            if job.stoppable and job.least_s < horizon_s:  # it may end as a borrower, and then holds up nobody
                continue
            return min(taken, unused), count
        taken += job.gpus
        if taken >= unused:
            return unused, count
        if job.least_s >= horizon_s:
            room -= job.gpus
    return min(taken + new_load, unused), len(queue)
