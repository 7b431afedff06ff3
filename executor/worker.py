"""The worker actor: one thin Ray actor per replica, beside the training process it runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import ray

from ..core.slot import Slot
from .core_board import CoreBoard, claimed
from .emulated_gpu import UNKNOWN_PROFILE, NoRoom, TenantProfile
from .event_relay import EventRelay
from .files.site import Site
from .files.workplace import Workplace
from .gpu_names import first_environment, given_by
from .held_gpus import HeldGpus
from .in_order import InOrder
from .package_parts import part_of
from .processes.left_overs import remove_left_overs
from .processes.replica import ReplicaProcesses, free_port, shard_environment
from .processes.template_wire import Owner
from .processes.training_process import Launch, TrainingProcess
from .protocol.messages import (
    CACHE_BYTES,
    CORES,
    DEVICES,
    JOB_ID,
    LOADER_WORKERS,
    NO_ROOM,
    OUTPUT_DIR,
    PACE_JSON,
    PART_CPUS,
    SHARDS,
    Beside,
    Command,
    Crashed,
    Event,
    Finished,
    Join,
    Joined,
    Left,
    Paced,
    Provide,
    Ready,
    Saved,
)
from .protocol.worker_events import Exited, Output, Started, WorkerEvent
from .provision import NOTHING_KNOWN, Provision
from .requirements import installed


class Worker:
    """Run one training process, relay commands down and events up, and end with it.

    `AdaptiveExecutor` makes it a Ray actor, inside the node's lease and in the job's runtime environment. `run` is
    called once and never returns; its reference fails when the actor is gone, for whatever reason. `slot` says its
    GPUs and CPUs. Without one, or in an emulated one, the process sees what `launch` says.
    """

    def __init__(
        self,
        worker_id: str,
        launch: Launch,
        site: Site,
        executor: Any,
        slot: Slot | None = None,
        profile: TenantProfile = UNKNOWN_PROFILE,
        provision: Provision = NOTHING_KNOWN,
    ) -> None:
        self._id = worker_id
        self._launch = launch
        self._site = site
        self._executor = executor
        self._slot = slot
        self._provision = self._first_provision = provision
        self._provided_last = 0
        self._cores = None if slot is None or slot.emulated else CoreBoard()
        self._relay = EventRelay(worker_id, executor, self._kill)
        self._place: Workplace | None = None
        self._process: TrainingProcess | ReplicaProcesses | None = None
        self._gpus: HeldGpus | None = None
        if slot is not None:
            job, paced = launch.env.get(JOB_ID, ""), PACE_JSON in launch.env
            self._gpus = HeldGpus(
                slot, job, worker_id, profile, self._tell_speed, self._tell, self._relay.put, paced=paced
            )
        self._ending, self._telling_speed = threading.Lock(), threading.Lock()
        self._join: Join | None = None  # the newest
        self._leads = False  # its process has trained as rank 0
        self._commands: InOrder[Command] = InOrder(self._pass_on)

    def run(self, secrets: Mapping[str, str] | None = None) -> None:
        """Run the process to its end, with secrets of its job's user as variables.

        Raises: FolderError if the job's folder cannot be made here, GpuNameError for a GPU that is not seen here,
            RequirementsError, IsolationError.
        """
        place = self._place = Workplace(self._site, partial(part_of, self._executor), self._tell)
        launch = self._placed(place, secrets or {})
        if self._gpus is not None:
            self._gpus.hold()
            try:
                self._gpus.enter()
            except NoRoom as error:
                launch = replace(launch, env={**launch.env, NO_ROOM: str(error)})
        process = self._process = self._processes(launch)
        self._relay.start()
        try:
            process.run()
            self._relay.join()
        finally:
            process.kill()
            if self._gpus is not None:
                self._gpus.end()
            if self._cores is not None:
                self._cores.claim(0)
            remove_left_overs()
            place.close()
            ray.actor.exit_actor()

    def send(self, index: int, command: Command) -> None:
        """Relay the `index`-th command; concurrent actor calls may arrive in any order."""
        self._commands.put(index, command)

    def share(self, part: float) -> None:
        """Hold another part of each GPU from now on, as a partner comes or goes."""
        if self._gpus is not None:
            self._gpus.share(part)

    def provide(self, number: int, provision: Provision) -> None:
        """Have other CPUs and memory between two steps, unless a later call came before."""
        if number > self._provided_last:
            self._provided_last, self._provision = number, provision
            self._tell_provision()

    def _tell_provision(self) -> None:
        provision = self._provision
        if self._process is not None and provision is not self._first_provision:
            self._process.send(Provide(self._claimed(), provision.workers, provision.cache_bytes))

    def _claimed(self) -> tuple[int, ...]:
        return claimed(self._cores, self._provision.cpus, self._relay.put)

    def _provided(self) -> dict[str, str]:
        """Return the variables that give a process its CPUs and memory from the beginning."""
        self._first_provision = provision = self._provision
        cores = self._claimed()
        given = {CORES: ",".join(map(str, cores))} if cores else {}
        if provision.workers:
            given[LOADER_WORKERS] = str(provision.workers)
        if provision.part_cpus:
            given[PART_CPUS] = str(provision.part_cpus)
        if provision.cache_bytes is not None:
            given[CACHE_BYTES] = str(provision.cache_bytes)
        return given

    def _tell_speed(self) -> None:
        with self._telling_speed:
            if self._process is not None and self._gpus is not None:
                self._process.send(Beside(*self._gpus.speed))

    def _pass_on(self, command: Command) -> None:
        if self._process is None or self._place is None:
            return  # nothing is sent to a process before it has said something
        if isinstance(command, Join):
            # Others may have written outputs: before it first trains, and while another worker was rank 0.
            if self._join is None or (command.rank == 0 and not self._leads):
                self._place.joins()
            self._join = command
        self._process.send(command)

    def _processes(self, launch: Launch) -> TrainingProcess | ReplicaProcesses:
        """Return what runs the script: one process, or one for each GPU of a sharded replica."""
        if self._slot is None or SHARDS not in launch.env:
            return TrainingProcess(launch, self._emit)
        slot, port, launches = self._slot, free_port(), []
        for shard, device in enumerate(slot.devices):
            own = replace(slot, devices=(device,), cpus=slot.cpus / slot.gpus)
            environment = {
                **launch.env,
                **given_by(own, self._launch.env, first_environment()),
                **shard_environment(shard, slot.gpus, port),
                DEVICES: str(device),
            }
            launches.append(replace(launch, env=environment))
        return ReplicaProcesses(launches, self._emit)

    def _placed(self, place: Workplace, secrets: Mapping[str, str]) -> Launch:
        """Return the launch with what only this machine knows."""
        owner = Owner(ray.get_runtime_context().gcs_address, os.getppid())
        outputs = {} if place.outputs is None else {OUTPUT_DIR: str(place.outputs)}
        given = {} if self._slot is None else given_by(self._slot, self._launch.env, first_environment())
        sandbox = place.sandbox()
        sandbox.check()
        env = {**secrets, **self._launch.env, **outputs, **given, **self._provided()}
        launch = replace(self._launch, env=env, owner=owner, sandbox=sandbox)
        if place.cwd is not None:
            launch = replace(launch, cwd=place.cwd, paths=(place.cwd,))
        if not launch.pip:
            return launch
        python = installed(launch.pip, place.own_path, sandbox, env, launch.cwd or os.getcwd())
        return replace(launch, python=python)

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _tell(self, sentence: str) -> None:
        self._relay.put(Output(f"{sentence}\n"))

    def _emit(self, event: Event | WorkerEvent) -> None:
        """Pass an event on. The end of the script waits until its outputs are kept: others go on from them."""
        assert self._place is not None
        if isinstance(event, Paced):
            if self._gpus is not None:
                self._gpus.usage.paced(event.busy_s, event.step_s)
            return
        if isinstance(event, Joined) and self._join is not None and event.generation == self._join.generation:
            self._leads = self._join.rank == 0
        if isinstance(event, Saved):
            self._place.saved()
        if isinstance(event, Left | Finished | Crashed | Exited):
            with self._ending:  # the exit comes last, also where the rest takes longer
                if self._gpus is not None:
                    self._gpus.end()
                self._place.ended()
                self._relay.put(event)
        else:
            self._relay.put(event)
        if self._gpus is None:
            return
        if isinstance(event, Started):
            self._gpus.usage.begin(event.pid)
            self._tell_provision()  # it may have changed while the process was started
        if isinstance(event, Started | Ready) and self._gpus.speed[0] < 1:
            self._tell_speed()
