"""Whom an executor tells things: the scheduler service, and the log on the head's disk."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

import ray

from ..core.logs import write_logs
from .command_job import CommandJob
from .executor_job import ExecutorJob
from .files.job_log import JobLog
from .head_files import HeadDisk
from .log_link import LogLink
from .protocol.job_events import Standing
from .service_link import ServiceLink

log = logging.getLogger(__name__)

LEAVE_S = 10.0  # an executor that is not needed tells the rest in this time


class Outlets:
    """Open an executor's ways to the service, to the head's disk and to its own log, and say where it stands.

    Args:
        incarnation: names this process of the executor.
    """

    def __init__(self, job: ExecutorJob | CommandJob, incarnation: str) -> None:
        write_logs("executor", job.log_format, job=job.id)
        log.info("begun in life %d", job.life)
        self.service = ServiceLink(job.id, job.life, job.service_name, job.service_namespace)
        self.disk = HeadDisk(job.head_node, job.service_namespace)
        self._folder, self._sender = job.log_dir, f"{job.id}-{incarnation}"
        folder, sender, disk = self._folder, self._sender, self.disk
        self.log: JobLog | LogLink = (
            JobLog(folder)
            if disk.here or not folder
            else LogLink(lambda number, pieces: disk.write(folder, sender, number, pieces))
        )
        self.restarted: bool = ray.get_runtime_context().was_current_actor_reconstructed

    def stand(self) -> None:
        """Tell the service on which node this executor is."""
        self.service.put(Standing(ray.get_runtime_context().get_node_id()))

    def flush(self, until_s: float) -> bool:
        """Wait until all is told, until a moment of the monotonic clock; return whether it is."""
        done = self.service.flush(until_s) and self.log.flush(until_s)
        if done and isinstance(self.log, LogLink):
            self.disk.close(self._folder, self._sender)
        return done


def put_away(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an executor keeps, with the moment at which it did."""
    return {**kept, "at_s": time.time()}


def taken_out(kept: Mapping[str, Any], restarted: bool) -> dict[str, Any]:
    """Return what an executor has kept, as it is now.

    Args:
        restarted: whether the executor has trained since, so that nobody knows how long its job has paused.
    """
    paused_s = kept.get("paused_s")
    if paused_s is None or restarted:
        return {**kept, "paused_s": None}
    return {**kept, "paused_s": paused_s + max(time.time() - kept.get("at_s", time.time()), 0.0)}
