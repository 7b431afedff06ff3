"""What the scheduler's log tells of jobs and of the cluster: the kinds of its events."""

from __future__ import annotations

from .codes import Code


class EventKind(Code):
    """The kind of one event. Stored and shown as its text, so a text never changes its meaning."""

    SUBMIT = "submit", "a user submitted the job"
    ADMITTED = "admitted", "it is known on which GPU types the job is to be measured, or that it queues"
    PROFILING = "profiling", "a profile run of the job starts on one GPU type"
    PROFILED = "profiled", "a profile run ended, or another job's measurements replace it"
    PLACED = "placed", "the job is to use other GPUs, or to leave all it has"
    RUNNING = "running", "the job trains on the GPUs that are named"
    RELEASED = "released", "workers of the job left GPUs"
    EVICTED = "evicted", "the job left all its GPUs, which go to other jobs"
    LOST = "lost", "a worker, a node or the executor of the job was lost"
    KILLED = "killed", "processes that did not end by themselves were killed"
    FAILING = "failing", "the script failed and is started again"
    NOTICE = "notice", "a node of the job goes away: the job saves, moves or leaves, or did not in time"
    LATE = "late", "the job did not leave GPUs in time, its executor is restarted"
    METRICS = "metrics", "a metric is not kept, or the target was not reported"
    GPU = "gpu", "the shared state of an emulated GPU of the job was made anew"
    IDLE = "idle", "the job holds GPUs that it does not use"
    OUTPUTS = "outputs", "outputs or folders of the ended job could not be sent or removed yet"
    RETRY = "retry", "the job failed, and begins again by itself after a while"
    FINISH = "finish", "the job ended by itself: it succeeded or failed"
    CANCEL = "cancel", "the user ended the job"
    PAUSE = "pause", "the user paused the job: it saves, and gets no GPUs until it is resumed"
    RESUME = "resume", "the user let a paused job take part again, or an ended one go on"
    PRIORITY = "priority", "the user changed what the job's progress is worth"
    HOLD = "hold", "the user holds the job, which starts on no GPUs then, or released it"
    BUMP = "bump", "the user had the job come first among own jobs that wait"
    TIME_LIMIT = "time_limit", "the time limit of the job is near, is reached, or was moved"
    DEADLINE = "deadline", "whether the deadline of the job will hold has changed, it is missed, or does not count"
    TRIALS = "trials", "a study had the job train fewer of its trials on"
    REQUEUE = "requeue", "the user had the job give up its GPUs and wait again, or an ended one run again"
    BUDGET = "budget", "its user or team has used 80 % or all of its value units of the month"
    PLAN = "plan", "of the cluster: a round decided something new"
    LEARNED = "learned", "of the cluster: a model was fitted anew, and is taken or not"
    POWER = "power", "of the cluster: a machine goes to sleep, wakes, or did not do so"
    SCALING = "scaling", "of the cluster: nodes are asked for, have come, are given up, or did not come"
    NODE = "node", "of the cluster: a node takes no new work, has to be left, has gone, or takes work again"
    PLANNED = "planned", "of the cluster: the policy plans again, after rounds in which it did not"
    ERROR = "error", "something went wrong in a round; the others go on"
    QUARANTINE = "quarantine", "the job takes part in no round for now; it keeps what it has"
    DEGRADED = "degraded", "of the cluster: nothing could be stored for a while"
    SETTINGS = "settings", "of the cluster: an operator changed settings"
    TEAMS = "teams", "of the cluster: an operator applied a file of teams"
    WAITS = "waits", "the job has waited for GPUs for long"
    DELIVERY = "delivery", "events could not be delivered to a webhook, or somebody tries it"
    PRUNED = "pruned", "what was old or too much was removed"
    OTHER = "other", "a later version wrote it"


def shown_kind(kind: EventKind) -> str:
    """Return the word that users see."""
    return "submitted" if kind is EventKind.SUBMIT else kind.value
