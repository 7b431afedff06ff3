"""The seven implications of Helios' trace study (SC'21, section 2.3), held against another trace.

Each stands on claims with a bound. Bounds are the paper's own numbers where it gives any.
"""

from __future__ import annotations

import numpy as np

from ..traces.final_state import FinalState
from .daily import LEAST_DAYS, LEAST_EXPLAINED, MOST_P, Daily, DailyPattern
from .final_states import FinalStates
from .jobs import STATES, StudiedJobs
from .monthly import LEAST_DAYS as LEAST_MONTH_DAYS
from .monthly import LEAST_MONTHS, Monthly
from .sizes import LARGE, Sizes
from .unknown import NO_LENGTHS, NO_SIZES, NO_STATES, NO_USERS, NO_VCS, NO_WAITS, TOO_LONG
from .users import Users
from .verdicts import Claim, Implication, judged, unknown
from .virtual_clusters import VirtualClusters
from .words import seconds, share

LEAST_JOBS = 30  # fewer tell no shares
LEAST_USERS = 20  # so that 5 % are one user
SUBMISSION_SWING, USE_SWING = 1.5, 1.05
WEAK = 0.12  # the largest share of GPU time of single-GPU jobs in the paper's clusters
DISTINCT = 2.0
OFTEN = 0.1  # of hours, jobs or GPU time
SHORT_S = 120.0  # the paper's limit for a VC of debugging jobs
FEW = 0.05  # of users
CHOSEN = "The scheduler chooses the GPUs of every job."
_CLEAR = f"The hour explains at least {share(LEAST_EXPLAINED)} of what differs within days (p ≤ {MOST_P:g})."


def implications(
    jobs: StudiedJobs,
    daily: Daily | None,
    monthly: Monthly | None,
    virtual_clusters: VirtualClusters | None,
    sizes: Sizes,
    states: FinalStates | None,
    users: Users | None,
) -> tuple[Implication, ...]:
    """Return the seven, in the paper's order."""
    return (
        Implication(
            1,
            "Use and submissions follow the hour of the day, so they can be foretold.",
            (_submissions(daily), _use(jobs, daily)),
            "Use is 5 to 8 % lower at night; submissions are lowest at night and dip at 12 h and 18 h.",
        ),
        Implication(
            2,
            "Single-GPU jobs weigh little, and multi-GPU jobs come steadily: it is these that a month foretells.",
            (_weak(jobs, sizes), _steady(jobs, monthly)),
            "Single-GPU jobs take 3 to 12 % of the GPU time; their number changes much from month to month.",
        ),
        Implication(
            3,
            "Groups ask for different things, so fixed virtual clusters queue beside idle GPUs.",
            (_distinct(virtual_clusters), _at_once(jobs, virtual_clusters)),
            "Two VCs of Earth are above 90 % most of the time, two others mostly below 65 %.",
        ),
        Implication(
            4,
            "Most jobs have a single GPU, but jobs of several GPUs use the cluster.",
            (_most_single(jobs, sizes), _multi_use(jobs, sizes)),
            "Over half of the jobs have one GPU. Under 10 % have 8 or more, with about 60 % of the GPU time.",
        ),
        Implication(
            5,
            "Users stop many jobs early, which a scheduler could do by itself.",
            _stopped(jobs, states),
            "37.6 % of the GPU jobs do not complete. About 70 % of those with 64 GPUs or more are cancelled.",
        ),
        Implication(
            6,
            "Most failed jobs are short, and wait in one queue with long ones.",
            _short_failures(jobs),
            "Most failed jobs end within a short time; a VC with a limit of 2 minutes would filter most of them.",
        ),
        Implication(
            7,
            "Few users bear most of the waiting, so a scheduler should look at users.",
            (_few_wait(jobs, users),),
            "In Uranus three users bear over 70 % of the waiting; none is among the ten that use most.",
        ),
    )


def _follows(pattern: DailyPattern, swing: float, text: str, what: str, unit: str, dated: bool) -> Claim:
    if pattern.days < LEAST_DAYS:
        return unknown(text, f"The trace has {_count(pattern.days, 'whole day')}; {LEAST_DAYS} are needed.")
    hour = "at {} h" if dated else "in hour {}"
    most, least = (hour.format(at) for at in (pattern.busiest, pattern.quietest))
    told = (
        f"{what}: most {most}, {pattern.mean.max():.3g} {unit}; least {least}, {pattern.mean.min():.3g}. "
        f"The hour explains {share(pattern.explained)} (p {_p(pattern.p)})."
    )
    return judged(text, pattern.clear and pattern.swing >= swing, told)


def _p(value: float) -> str:
    return f"≤ {value:.3f}" if value <= 0.001 else f"= {value:.3f}"


def _submissions(daily: Daily | None) -> Claim:
    text = f"The busiest hour has at least {SUBMISSION_SWING:g} times the submissions of the quietest. {_CLEAR}"
    if daily is None:
        return unknown(text, TOO_LONG)
    return _follows(daily.submissions, SUBMISSION_SWING, text, "Submissions", "per hour", daily.dated)


def _use(jobs: StudiedJobs, daily: Daily | None) -> Claim:
    text = f"In the busiest hour at least {share(USE_SWING - 1)} more GPUs are used than in the quietest. {_CLEAR}"
    if daily is None:
        return unknown(text, TOO_LONG)
    if daily.use is None:
        return unknown(text, NO_LENGTHS)
    return _follows(daily.use, USE_SWING, text, jobs.use_word.capitalize(), "GPUs", daily.dated)


def _weak(jobs: StudiedJobs, sizes: Sizes) -> Claim:
    text = f"Single-GPU jobs use at most {share(WEAK)} of the GPU time."
    if why := _no_time(jobs):
        return unknown(text, why)
    return judged(
        text, sizes.single_time <= WEAK, f"Single-GPU jobs use {share(sizes.single_time)} of the GPU time."
    )


def _steady(jobs: StudiedJobs, monthly: Monthly | None) -> Claim:
    text = "From month to month multi-GPU submissions vary less than single-GPU submissions."
    if monthly is None:
        return unknown(text, TOO_LONG)
    if jobs.elastic == len(jobs):
        return unknown(text, CHOSEN)
    whole = int(monthly.whole.sum())
    if whole < LEAST_MONTHS:
        least = f"{LEAST_MONTHS} months of at least {LEAST_MONTH_DAYS} days are needed"
        return unknown(text, f"The trace has {_count(whole, 'such month')}; {least}.")
    single, multi = monthly.variation(monthly.single), monthly.variation(monthly.multi)
    if not (np.isfinite(single) and np.isfinite(multi)):
        return unknown(text, "All jobs are of one kind.")
    told = f"Submissions vary by {share(multi)} (several GPUs) and {share(single)} (one), over {whole} months."
    return judged(text, multi < single, told)


def _distinct(vcs: VirtualClusters | None) -> Claim:
    text = f"Mean GPUs and mean lengths of virtual clusters differ by a factor of at least {DISTINCT:g}."
    if vcs is None:
        return unknown(text, NO_VCS)
    some = vcs.jobs >= LEAST_JOBS
    if int(some.sum()) < 2:
        return unknown(text, f"Fewer than two virtual clusters have {LEAST_JOBS} jobs.")
    gpus, length_s = vcs.mean_gpus[some], vcs.mean_length_s[some]
    length_s = length_s[np.isfinite(length_s)]
    if len(length_s) < 2:
        return unknown(text, NO_LENGTHS)
    told = (
        f"Means run from {gpus.min():.3g} to {gpus.max():.3g} GPUs, and from {seconds(float(length_s.min()))} to "
        f"{seconds(float(length_s.max()))}, over {int(some.sum())} virtual clusters."
    )
    wide = gpus.max() >= DISTINCT * gpus.min() and length_s.max() >= DISTINCT * length_s.min()
    return judged(text, bool(wide), told)


def _at_once(jobs: StudiedJobs, vcs: VirtualClusters | None) -> Claim:
    text = f"In at least {share(OFTEN)} of the hours a virtual cluster lacks GPUs while others have idle ones."
    if vcs is None:
        return unknown(text, NO_VCS)
    if not jobs.lengths_known:
        return unknown(text, NO_LENGTHS)
    if vcs.imbalance is None:
        return unknown(text, NO_SIZES)
    found = vcs.imbalance
    demand = "" if jobs.waits_known else " if each job ran from its submission"
    told = f"That is so in {share(found.at_once)} of the hours, with {found.gpus:.3g} GPUs on average{demand}."
    return judged(text, found.at_once >= OFTEN, told)


def _most_single(jobs: StudiedJobs, sizes: Sizes) -> Claim:
    text = "At least half of the jobs ask for a single GPU."
    if why := _too_few(len(jobs)):
        return unknown(text, why)
    if jobs.elastic == len(jobs):
        return unknown(text, CHOSEN)
    return judged(text, sizes.single_jobs >= 0.5, f"{share(sizes.single_jobs)} of the jobs have a single GPU.")


def _multi_use(jobs: StudiedJobs, sizes: Sizes) -> Claim:
    text = "Jobs of several GPUs use more than half of the GPU time."
    if why := _no_time(jobs):
        return unknown(text, why)
    told = (
        f"They use {share(1 - sizes.single_time)} of the GPU time. {share(sizes.large_jobs)} of the jobs have "
        f"{LARGE} GPUs or more, and use {share(sizes.large_time)}."
    )
    return judged(text, 1 - sizes.single_time > 0.5, told)


def _stopped(jobs: StudiedJobs, states: FinalStates | None) -> tuple[Claim, ...]:
    by_jobs = f"Users cancel at least {share(OFTEN)} of the jobs."
    by_time = f"Cancelled jobs take at least {share(OFTEN)} of the GPU time."
    why = NO_STATES if states is None else _too_few(states.known)
    if states is None or why:
        return unknown(by_jobs, why), unknown(by_time, why)
    cancelled = states.of(FinalState.CANCELLED, states.job_share)
    told = (
        f"Users cancel {share(cancelled)} of the jobs; {share(states.unsuccessful)} do not complete. "
        "Whether these had converged is not in the trace."
    )
    first = judged(by_jobs, cancelled >= OFTEN, told)
    if why := _no_time(jobs):
        return first, unknown(by_time, why)
    time = states.of(FinalState.CANCELLED, states.time_share)
    failed = states.of(FinalState.FAILED, states.time_share)
    return first, judged(
        by_time,
        time >= OFTEN,
        f"Cancelled jobs take {share(time)} of the GPU time, and failed jobs {share(failed)}.",
    )


def _short_failures(jobs: StudiedJobs) -> tuple[Claim, ...]:
    short = f"At least half of the failed jobs end within {seconds(SHORT_S)}."
    waits = "Those that do wait longer on average than they run."
    failed = jobs.counted_states == STATES.index(FinalState.FAILED)
    why = NO_STATES if not jobs.states_known else _too_few(int(failed.sum()), "failed jobs")
    if not why and not np.isfinite(jobs.length_s[failed]).all():
        why = NO_LENGTHS if not jobs.lengths_known else "Some failed jobs have no length."
    if why:
        return unknown(short, why), unknown(waits, why)
    length_s = jobs.length_s[failed]
    quick = length_s <= SHORT_S
    middle = seconds(float(np.median(length_s)))
    told = f"{share(float(quick.mean()))} of the failed jobs do; the median of all is {middle}."
    first = judged(short, float(quick.mean()) >= 0.5, told)
    wait_s = jobs.wait_s[failed][quick]
    if not quick.any():
        return first, unknown(waits, "No failed job is so short.")
    if not np.isfinite(wait_s).all():
        return first, unknown(waits, NO_WAITS)
    waited, ran = float(wait_s.mean()), float(length_s[quick].mean())
    return first, judged(waits, waited > ran, f"They wait {seconds(waited)} and run {seconds(ran)} on average.")


def _few_wait(jobs: StudiedJobs, users: Users | None) -> Claim:
    text = f"The {share(FEW)} of the users who wait most bear at least half of the waiting."
    if users is None:
        return unknown(text, NO_USERS)
    if len(users.names) < LEAST_USERS:
        return unknown(text, f"The trace has {_count(len(users.names), 'user')}; {LEAST_USERS} are needed.")
    if not jobs.waits_known:
        return unknown(text, NO_WAITS)
    bears = users.top_share(users.wait_s, FEW)
    if not np.isfinite(bears):
        return unknown(text, "No job waits.")
    most = int(np.ceil(FEW * len(users.names)))
    among = int((np.argsort(-users.wait_s, kind="stable")[:most] < 10).sum())
    told = f"{_count(most, 'user')} bear {share(bears)} of it; {among} of the ten that use most are among them."
    return judged(text, bears >= 0.5, told)


def _no_time(jobs: StudiedJobs) -> str:
    """Return why shares of GPU time tell nothing; "": they do."""
    if not jobs.lengths_known:
        return NO_LENGTHS
    if not np.nansum(jobs.gpu_s):
        return "All jobs have a length of 0 s."
    return _too_few(jobs.lengths_known)


def _too_few(count: int, what: str = "jobs") -> str:
    return f"Only {count} {what} tell it; {LEAST_JOBS} are needed." if count < LEAST_JOBS else ""


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
