"""Connects this process to a Ray cluster. Only `up`, `down` and what runs within the cluster need that."""

from __future__ import annotations

import logging
import os
import socket
from types import ModuleType

from ..client.client import NoClusterError
from ..client.cluster_record import ClusterRecord
from ..core.ray_noise import without_ray_noise
from ..core.service_names import NAMESPACE

REACH_S = 10.0


def _reach(address: str) -> None:
    """Check that someone listens at `host:port`; Ray itself tries a dead address for many minutes, aloud.

    Raises: NoClusterError.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:  # "auto" and the like: Ray finds out by itself
        return
    try:
        socket.create_connection((host, int(port)), timeout=REACH_S).close()
    except (OSError, OverflowError) as error:
        raise NoClusterError(f"no Ray cluster answers at {address}: {error}") from None


def connected_ray(record: ClusterRecord) -> ModuleType:
    """Return Ray, connected to the cluster. Raises: NoClusterError."""
    if record.auth_mode:
        os.environ.update(record.environment())
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    if ray.is_initialized():
        here = ray.get_runtime_context().gcs_address
        if record.address not in (here, "auto"):
            raise NoClusterError(f"this process is connected to the Ray cluster at {here}, not {record.address}")
        return ray
    _reach(record.address)
    try:
        with without_ray_noise():
            ray.init(address=record.address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        hint = (
            "" if os.environ.get("RAY_AUTH_MODE") == "token" else "; if it takes a token, set RAY_AUTH_MODE=token"
        )
        raise NoClusterError(f"no Ray cluster answers at {record.address}: {reason}{hint}") from None
    from ..scheduler.runtime.ray_private import without_worker_logs

    # Ray prints pages to every driver's terminal when any worker of the cluster dies. A job's events say the same
    # in a line.
    without_worker_logs()
    return ray


def address_of(record: ClusterRecord) -> str:
    """Connect to the cluster; return where it really is. Raises: NoClusterError where none answers."""
    return str(connected_ray(record).get_runtime_context().gcs_address)


def leave_ray() -> None:
    """Disconnect this process from its cluster."""
    import ray

    ray.shutdown()
