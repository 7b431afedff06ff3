"""The first lines of a study: what the trace is, in words."""

from __future__ import annotations

import numpy as np

from ..results.html import number
from ..traces.final_state import FinalState
from .study import Study
from .time_bins import day
from .words import seconds, share


def summary(study: Study) -> list[tuple[str, str]]:
    """Return names and values, of what the trace knows."""
    jobs, window, of_sizes = study.jobs, study.window, study.sizes
    first, last = (day(t, jobs.began_s) for t in (window.start_s, window.end_s))
    found = [
        ("period", f"{first} to {last} ({seconds(window.length_s)})"),
        ("jobs", f"{len(jobs):,}"),
    ]
    if study.users is not None:
        found.append(("users", f"{len(study.users.names):,}"))
    if study.virtual_clusters is not None:
        found.append(("virtual clusters", f"{len(study.virtual_clusters.names):,}"))
    chosen = "the scheduler chooses; they ask for " if jobs.elastic == len(jobs) else ""
    found.append(
        (
            "GPUs per job",
            f"{chosen}{of_sizes.mean_gpus:.3g} on average, {of_sizes.most_gpus:,} at most; "
            f"{share(of_sizes.single_jobs)} of the jobs have one",
        )
    )
    if study.lengths is not None:
        known = study.lengths
        found.append(
            (
                "length",
                f"{seconds(known.mean_s)} on average, median {seconds(known.median_s)}, "
                f"longest {seconds(known.longest_s)}",
            )
        )
        found.append(("GPU time", f"{number(study.gpu_s / 3600)} GPU-hours"))
        of = "" if study.capacity is None else f" of {study.capacity.gpus:,} ({share(study.utilisation)})"
        what = f"GPUs in {jobs.use_word}"
        found.append((what, f"{number(study.use)} on average{of}"))
    if jobs.waits_known:
        mean, median = seconds(float(jobs.wait_s.mean())), seconds(float(np.median(jobs.wait_s)))
        longer = share(float((jobs.wait_s >= 60).mean()))
        found.append(("wait", f"{mean} on average, median {median}; {longer} of the jobs wait a minute or more"))
    if study.final_states is not None:
        states = study.final_states
        completed, cancelled, failed = (
            share(states.of(state, states.job_share))
            for state in (FinalState.COMPLETED, FinalState.CANCELLED, FinalState.FAILED)
        )
        found.append(("final states", f"{completed} completed, {cancelled} cancelled, {failed} failed"))
    return found
