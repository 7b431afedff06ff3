"""What a trace does not tell, each in one sentence that says what would be needed."""

from __future__ import annotations

from .capacity import Capacity
from .jobs import StudiedJobs
from .time_bins import Bins

NO_LENGTHS = "The trace gives no job a length; its applications decide how long a job runs."
NO_WAITS = "The trace does not say when jobs started."
NO_USERS = "The trace names no users."
NO_STATES = "The trace does not say how jobs ended."
NO_VCS = "The trace names no virtual clusters."
NO_SIZES = "It is not known how many GPUs each virtual cluster has; `--cluster` says it."
TOO_LONG = "The trace spans more than 50 years, so it is not cut into hours and months."


def unknowns(jobs: StudiedJobs, capacity: Capacity | None, bins: Bins | None) -> tuple[str, ...]:
    """Return the sentences for a trace. `bins`: its hours; None: there are too many."""
    count, known = len(jobs), jobs.lengths_known
    found = []
    if bins is None:
        found.append(TOO_LONG)
    if jobs.began_s is None:
        found.append(
            "The trace has no dates: hours and months count from its second 0; `--began` says when that was."
        )
    if not known:
        found.append(NO_LENGTHS)
    elif known < count:
        found.append(
            f"{count - known:,} of {count:,} jobs have no length; use and GPU time are those of the others."
        )
    if known:
        found.append("Jobs that were submitted before the trace are not in it, so its first days look emptier.")
    if known and not jobs.waits_known:
        found.append(
            f"{NO_WAITS} Use is therefore the demand, as if each job had run from its submission. "
            "A run that `coadapt simulate --out` saves knows when jobs start."
        )
    if jobs.elastic:
        found.append(f"The scheduler may change the GPUs of {jobs.elastic:,} jobs; sizes are those they ask for.")
    if capacity is None:
        found.append("The trace does not say how many GPUs its cluster has; `--cluster` says it.")
    by = jobs.virtual_clusters
    if not len(by):
        found.append(NO_VCS)
    elif not by.named:
        found.append(f"{int((by.of < 0).sum()):,} jobs have no virtual cluster.")
    if not len(jobs.users):
        found.append(NO_USERS)
    elif not jobs.users.named:
        found.append(f"{int((jobs.users.of < 0).sum()):,} jobs have no user.")
    if not jobs.states_known:
        found.append(NO_STATES)
    elif jobs.states_known < count:
        found.append(f"Of {count - jobs.states_known:,} jobs it is not known how they ended.")
    return tuple(found)
