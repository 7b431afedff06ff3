"""The topics of events: of what people and programs can be told. Pure, and light for the command line."""

from __future__ import annotations

from .codes import Code


class Topic(Code):
    """What a webhook can subscribe to. Its text is the `type` of what is sent, and never changes its meaning."""

    STARTED = "job.started", "the job trains, and has not trained before"
    MOVED = "job.moved", "the job trains on other, more or fewer GPUs, or again after it had none"
    WAITING = "job.waiting", "the job has waited for GPUs for as long as `webhooks.waiting_s` says"
    TROUBLE = "job.trouble", "the job's script failed and is tried again, a worker was lost, or it is set aside"
    SUCCEEDED = "job.succeeded", "the job ended by itself, and all was well"
    FAILED = "job.failed", "the job failed"
    CANCELLED = "job.cancelled", "a user ended the job"
    NODE = "node.changed", "a node closes, has to be left, has gone or takes work again; for operators"
    CLUSTER = "cluster.trouble", "rounds fail, or nothing could be stored for a while; for operators"
    TEST = "webhook.test", "somebody tries the webhook"


OF_JOBS = tuple(topic for topic in Topic if topic.value.startswith("job."))
OF_CLUSTER = (Topic.NODE, Topic.CLUSTER)
DEFAULT = (Topic.SUCCEEDED, Topic.FAILED)
