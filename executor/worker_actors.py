"""The Ray actors of a job's workers: how they are made, told things, ended, and how they are known to be gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cache
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, OutOfMemoryError
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from ..core.slot import Slot
from .files.job_folder import FolderError
from .gpu_names import GpuNameError
from .protocol.worker_events import Gone
from .provision import Provision
from .requirements import RequirementsError
from .sandbox.line import IsolationError


class WorkerActors:
    """Keep one actor per worker of a job. `ended` is called from a thread of Ray when one is gone."""

    def __init__(self, job_id: str, ended: Callable[[str, Gone], None]) -> None:
        self._job_id, self._ended = job_id, ended
        self._actors: dict[str, Any] = {}
        self._sent: dict[str, int] = {}
        self._slots: dict[str, Slot] = {}  # with the shares that the workers were told
        self._shared = False  # since `alone` was asked
        self._provided: dict[str, Provision] = {}  # what they were told last
        self._provisions = 0  # how many they were told in all

    def __contains__(self, worker: str) -> bool:
        return worker in self._actors

    def start(
        self,
        worker: str,
        kind: type,
        slot: Slot,
        *args: Any,
        secrets: Mapping[str, str] | None = None,
        provision: Provision | None = None,
    ) -> None:
        """Make an actor of a worker class in a slot, and have it run; `args` follow the worker's id.

        Args:
            provision: what `args` tell it of CPUs and memory.
            secrets: variables of its processes. They go with the call: what an actor is made of, Ray keeps.
        """
        actor: Any = (
            actor_class(kind)
            .options(
                name=f"{self._job_id}/{worker}",
                # The whole node is leased, and the scheduler says who has what of it.
                num_gpus=0,
                num_cpus=0,
                max_concurrency=2,  # `run` and, beside it, one `send`
                max_restarts=0,
                scheduling_strategy=_inside(slot),
            )
            .remote(worker, *args)
        )
        self._actors[worker] = actor
        self._sent[worker] = 0
        self._slots[worker] = slot
        self._shared |= slot.share < 1
        if provision is not None:
            self._provided[worker] = provision
        actor.run.remote(dict(secrets or {})).future().add_done_callback(lambda done: self._on_end(worker, done))

    def send(self, worker: str, command: Any) -> None:
        self._actors[worker].send.remote(self._sent[worker], command)
        self._sent[worker] += 1

    def share(self, slots: Sequence[Slot]) -> None:
        """Tell workers that keep their GPUs which part of each they hold from now on."""
        for worker, own in self._slots.items():
            devices = set(own.devices)
            new = next((one for one in slots if one.node_id == own.node_id and devices & set(one.devices)), None)
            if new is not None and new.share != own.share:
                self._slots[worker] = replace(own, share=new.share)
                self._shared |= new.share < 1
                self._actors[worker].share.remote(new.share)

    def alone(self) -> bool:
        """Return whether all workers have had whole GPUs since the last call, so that no partner slowed them."""
        found, self._shared = not self._shared, any(slot.share < 1 for slot in self._slots.values())
        return found

    def provide(self, provisions: Mapping[str, Provision]) -> None:
        """Tell workers which CPUs and memory they have from now on, where that is news to them."""
        for worker, provision in provisions.items():
            if worker in self._actors and self._provided.get(worker) != provision:
                self._provided[worker] = provision
                self._provisions += 1
                self._actors[worker].provide.remote(self._provisions, provision)

    def kill(self, worker: str) -> None:
        if (actor := self._actors.get(worker)) is not None:  # else it is gone already
            ray.kill(actor, no_restart=True)

    def forget(self, worker: str) -> None:
        self._actors.pop(worker, None)
        self._slots.pop(worker, None)
        self._provided.pop(worker, None)

    def _on_end(self, worker: str, done: Future[None]) -> None:
        self._ended(worker, gone(done.exception()))


@cache
def actor_class(kind: type) -> Any:
    """Return a worker class as a Ray actor class, made once so that Ray sends its code once."""
    return ray.remote(kind)


def gone(error: BaseException | None) -> Gone:
    """Return why a worker actor has ended, in words for the job's owner."""
    lines = [line.strip() for line in str(error or "").splitlines() if line.strip()]
    cause = getattr(error, "cause", None)
    if isinstance(cause, RequirementsError):
        return Gone(f"could not set up its environment: {cause}", setup_failed=True)
    if isinstance(cause, IsolationError):
        return Gone(f"could not be set apart: {cause}", setup_failed=True)
    if isinstance(cause, GpuNameError):
        return Gone(f"could not be given its GPUs: {cause}")
    if isinstance(cause, FolderError):
        return Gone(f"could not set up its folder: {cause}", setup_failed=True)
    if isinstance(error, ActorUnavailableError):
        return Gone("was lost: it no longer answers")
    reason = f"was lost with its worker ({lines[0]})" if lines else "was lost with its worker"
    return Gone(reason, out_of_memory=isinstance(error, OutOfMemoryError))


def _inside(slot: Slot) -> PlacementGroupSchedulingStrategy | NodeAffinitySchedulingStrategy:
    """Return the strategy that puts a worker inside the node's lease, or without one on the node."""
    if not slot.lease_id:
        return NodeAffinitySchedulingStrategy(slot.node_id, soft=False)
    lease = PlacementGroup(ray.PlacementGroupID(bytes.fromhex(slot.lease_id)))
    return PlacementGroupSchedulingStrategy(lease, placement_group_bundle_index=0)
