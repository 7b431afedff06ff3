"""The scheduler's metrics: the name of each, what it tells, and which figure it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.figures import QUEUE_S, ROUND_S, Figures


@dataclass(frozen=True)
class Told:
    """One metric.

    figure: where in `Figures` it stands; a dot leads to a part. None there: it is absent.
    labels: by which a figure that is a dictionary is told apart.
    bounds: of the buckets of a histogram.
    """

    name: str
    meaning: str
    figure: str
    labels: tuple[str, ...] = ()
    counts: bool = False
    bounds: tuple[float, ...] = ()

    def value(self, figures: Figures) -> Any:
        """Return the figure."""
        found: Any = figures
        for part in self.figure.split("."):
            found = found[part]
        return found

    def samples(self, figures: Figures) -> list[tuple[Sequence[str], float]]:
        """Return values with those of their labels. It is not for a histogram."""
        found = self.value(figures)
        if found is None:
            return []
        return list(_flat((), found))


def _flat(labels: tuple[str, ...], found: Any) -> list[tuple[Sequence[str], float]]:
    if isinstance(found, Mapping):
        return [row for key, inner in found.items() for row in _flat((*labels, key), inner)]
    return [(labels, float(found))]


def _counter(name: str, meaning: str, figure: str, *labels: str) -> Told:
    return Told(name, meaning, figure, labels, counts=True)


TABLE: tuple[Told, ...] = (
    Told("coadapt_scheduler_ready", "1 while nodes are known and the solver is compiled, else 0.", "ready"),
    Told("coadapt_scheduler_start_time_seconds", "When the scheduler's process began, since 1970.", "started_s"),
    Told("coadapt_scheduler_resident_memory_bytes", "Memory of the scheduler's process.", "resident_bytes"),
    Told("coadapt_scheduler_open_fds", "Open files and sockets of the scheduler's process.", "open_files"),
    _counter("coadapt_scheduler_cpu_seconds", "Processor time of the scheduler's process.", "cpu_s"),
    Told("coadapt_tick_age_seconds", "Time since the last tick began.", "tick_age_s"),
    Told("coadapt_tick_failing", "1 while ticks raise an error, else 0.", "tick_failing"),
    Told("coadapt_round_age_seconds", "Time since the last round; absent before the first.", "round_age_s"),
    Told("coadapt_round_interval_seconds", "The setting `round_interval_s`.", "round_interval_s"),
    Told("coadapt_round_duration_seconds", "How long planning a round took.", "since.round_s", bounds=ROUND_S),
    _counter("coadapt_rounds_failed", "Rounds of which the policy did not plan all.", "since.rounds_failed"),
    Told("coadapt_degraded", "1 while nothing can be stored, else 0.", "degraded"),
    Told("coadapt_degraded_since_seconds", "Since when, since 1970; absent if all is well.", "degraded_since_s"),
    Told("coadapt_store_write_seconds", "How long the last write of the store took.", "store_write_s"),
    Told("coadapt_store_bytes", "Size of the job store; absent where its database does not tell.", "store_bytes"),
    Told("coadapt_state_disk_free_bytes", "Free space on the disk of the state folder.", "disk_free_bytes"),
    Told("coadapt_state_disk_size_bytes", "Size of that disk.", "disk_bytes"),
    Told("coadapt_backup_age_seconds", "Time since the last regular backup; absent without any.", "backup_age_s"),
    Told("coadapt_backup_interval_seconds", "The setting `backup_hours`; 0: no backups.", "backup_interval_s"),
    Told("coadapt_backup_failing", "1 if the last regular backup failed, else 0.", "backup_failing"),
    _counter("coadapt_events", "Number of the newest event; it never repeats.", "last_event"),
    Told("coadapt_jobs", "Jobs that have not ended, by what they do.", "jobs", ("status",)),
    Told("coadapt_jobs_quarantined", "Jobs that are set aside as something is wrong with them.", "quarantined"),
    _counter("coadapt_jobs_submitted", "Jobs that were submitted.", "since.submitted"),
    _counter("coadapt_jobs_ended", "Jobs that ended, by how.", "since.ended", "phase"),
    Told("coadapt_queue_wait_seconds", "From a submit until the job trained.", "since.queue_s", bounds=QUEUE_S),
    Told("coadapt_queue_oldest_wait_seconds", "Longest wait of one that never trained; 0: none.", "oldest_wait_s"),
    _counter("coadapt_job_restarts", "Pauses of jobs that were not their script's fault.", "since.restarts"),
    _counter("coadapt_job_resizes", "Of these, those for other, more or fewer GPUs.", "since.resizes"),
    _counter("coadapt_job_recoveries", "Of these, those from lost workers or nodes.", "since.recoveries"),
    _counter("coadapt_job_evictions", "Of these, returns after others had the GPUs.", "since.evictions"),
    _counter("coadapt_job_failures", "Errors of scripts, also of those tried again.", "since.failures"),
    _counter("coadapt_executors_lost", "Executors that died or could not be made.", "since.executors_lost"),
    Told("coadapt_gpus", "GPUs by type and state.", "gpus", ("gpu_type", "state")),
    Told("coadapt_nodes", "Nodes of types that can be bought, by state.", "nodes", ("node_type", "state")),
    Told("coadapt_nodes_cost_dollars_per_hour", "What these cost, with those asked for.", "nodes_cost_per_h"),
    Told("coadapt_nodes_budget_dollars_per_hour", "What they may cost together.", "nodes_budget_per_h"),
    _counter("coadapt_nodes_dollars", "What they have cost so far.", "nodes_spent"),
    _counter("coadapt_nodes_requested", "Nodes that Ray's autoscaler was asked for.", "nodes_asked"),
    _counter("coadapt_nodes_unmet", "Of these, those that did not come in time.", "nodes_unmet"),
    _counter("coadapt_gpu_held_seconds", "Seconds x GPUs that jobs had.", "since.held_gpu_s", "gpu_type"),
    _counter("coadapt_gpu_training_seconds", "Of these, those of training.", "since.training_gpu_s", "gpu_type"),
    _counter("coadapt_trained_samples", "Samples that jobs trained on, each once.", "since.samples"),
    _counter("coadapt_progress_samples", "Their worth, at initial batch sizes.", "since.progress_samples"),
    _counter("coadapt_deliveries_sent", "Events that webhooks acknowledged.", "deliveries.sent"),
    _counter("coadapt_deliveries_failed", "Tries to deliver an event in vain.", "deliveries.failed"),
    _counter("coadapt_deliveries_given_up", "Events that were given up.", "deliveries.given_up"),
    Told("coadapt_deliveries_pending", "Events that wait for a webhook.", "deliveries.pending"),
    Told("coadapt_delivery_oldest_seconds", "For how long the oldest has waited; 0: none.", "deliveries.oldest_s"),
)
