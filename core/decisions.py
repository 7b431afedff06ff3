"""What a round decides about each of its jobs, and the codes of why one gets nothing."""

from __future__ import annotations

from dataclasses import dataclass

from .codes import Code
from .placement import Placement


class WaitReason(Code):
    """Why a job gets nothing in a round; the values are stable and appear in `--json`."""

    POOL_EMPTY = "pool_empty", "the pool it belongs to has no nodes now"
    NODE_ASLEEP = "node_asleep", "a node that it needs is powered off, not bought yet, or on its way"
    NO_GPU_TYPE = "no_gpu_type", "no GPU type of the cluster can run it"
    TOO_LARGE = "too_large", "it needs more GPUs of one type than the cluster has"
    NO_ROOM = "no_room", "fewer GPUs of each type that it may use are free than it needs"
    FRAGMENTED = "fragmented", "enough GPUs of a type are free, but not together on few enough nodes"
    NO_CPUS_OR_MEMORY = "no_cpus_or_memory", "GPUs are free, but too few CPUs or too little memory beside them"
    BEHIND_OTHERS = "behind_others", "jobs before it in the policy's order come first"
    NO_CONFIGURATION = "no_configuration", "no configuration of the cluster is within its limits"
    OUTBID = "outbid", "other jobs make more of the GPUs that it could use"
    NOT_WORTH_IT = "not_worth_it", "nothing that it could have is worth more to the objective than leaving it out"
    HAD_ITS_TURN = "had_its_turn", "it rests after its turn, as jobs that share time do"
    KEPT_BY_OTHERS = "kept_by_others", "it must be served, but jobs that may not be stopped hold the GPUs"
    PLACE_KEPT = "place_kept", "a place is kept for a job that has waited long, and it may not take that"
    TEAM_CAP = "team_cap", "its team has as many GPUs as its cap allows"
    KEPT_FOR_TEAMS = "kept_for_teams", "GPUs that it could use are kept for the guarantee of another team"
    NO_SHARE_YET = "no_share_yet", "its share of GPU time is worked out when the others' shares next are"
    QUARANTINED = "quarantined", "something is wrong with it, and `coadapt requeue` lets it take part again"
    LIMIT_RUNNING = "limit_running", "its user or team has as many running jobs as its limit allows"
    LIMIT_GPUS = "limit_gpus", "its user or team has as many GPUs of each type that it may use as its limit allows"
    BUDGET_USED = "budget_used", "its user or team has used its value units of the month, and other jobs wait"
    HELD = "held", "its user holds it, until `coadapt release`"
    AFTER_OTHERS = "after_others", "jobs that it starts after have not ended"
    TRIED_LATER = "tried_later", "it failed, and is tried again after a while"
    PAUSED = "paused", "its user has paused it, until `coadapt resume`"
    MEASURING = "measuring", "it is measured before it first trains"
    COMPILING = "compiling", "the first round waits for the solver's kernels, which are compiled once per install"
    NEXT_ROUND = "next_round", "it takes part in the next round"
    NOT_SAID = "not_said", "the policy gives no reason"


@dataclass(frozen=True)
class Placed:
    """The job gets these GPUs, or keeps them."""

    placement: Placement


@dataclass(frozen=True)
class Waiting:
    """The job gets nothing now and takes part in the next round; `detail` is one sentence for a person."""

    reason: WaitReason
    detail: str


@dataclass(frozen=True)
class Refused:
    """No cluster can ever run the job as it is written; `reason` is one sentence for a person."""

    reason: str


Decision = Placed | Waiting | Refused
