"""The worker actor of a command: one per node, beside the processes it runs there."""

from __future__ import annotations

import os
import sys
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
from .programs.command_processes import CommandLaunch, CommandProcesses
from .programs.environment import with_output_dir
from .protocol.command_events import Begin, Begun, CommandEvent, CommandOrder, Ended, Said
from .protocol.messages import OUTPUT_DIR
from .protocol.worker_events import Exited
from .provision import NOTHING_KNOWN, Provision
from .requirements import installed


class CommandWorker:
    """Run the processes of one node once, relay orders down and events up, and end with them.

    `CommandExecutor` makes it a Ray actor, inside the node's lease and in the job's runtime environment. `run` is
    called once and never returns; its reference fails when the actor is gone, for whatever reason.
    """

    def __init__(
        self,
        worker_id: str,
        launch: CommandLaunch,
        site: Site,
        executor: Any,
        slot: Slot,
        profile: TenantProfile = UNKNOWN_PROFILE,
        provision: Provision = NOTHING_KNOWN,
    ) -> None:
        self._launch, self._site, self._executor, self._slot = launch, site, executor, slot
        self._provision, self._provided_last = provision, 0
        self._cores = None if slot.emulated else CoreBoard()
        self._relay = EventRelay(worker_id, executor, self._kill)
        self._gpus = HeldGpus(
            slot, launch.job_id, worker_id, profile, self._keep_pace, self._tell, self._relay.put
        )
        self._orders: InOrder[CommandOrder] = InOrder(self._pass_on)
        self._place: Workplace | None = None
        self._processes: CommandProcesses | None = None
        self._ended = 0
        self._leads = False  # whether the first process of all is here

    def run(self, secrets: Mapping[str, str] | None = None) -> None:
        """Run all processes to their ends, with secrets of their job's user as variables.

        Raises: FolderError if the job's folder cannot be made here, GpuNameError for a GPU that is not seen here,
            RequirementsError, IsolationError.
        """
        place = self._place = Workplace(self._site, partial(part_of, self._executor), self._tell)
        launch = self._placed(place, secrets or {})
        # The processes keep the locks as well: none of them is alive when the next job gets these GPUs.
        locks, no_room = self._gpus.hold(), ""
        try:
            self._gpus.enter()
        except NoRoom as error:
            no_room = str(error)
        processes = self._processes = CommandProcesses(
            launch, self._emit, keep=locks, no_room=no_room, cores=self._claimed()
        )
        self._keep_pace()
        self._relay.start()
        try:
            processes.run(ray.util.get_node_ip_address())
            self._relay.join()
        finally:
            processes.kill()
            self._gpus.end()
            if self._cores is not None:
                self._cores.claim(0)
            place.close()
            ray.actor.exit_actor()

    def send(self, index: int, order: CommandOrder) -> None:
        """Relay the `index`-th order; concurrent actor calls may arrive in any order."""
        self._orders.put(index, order)

    def share(self, part: float) -> None:
        """Hold another part of each GPU from now on, as a partner comes or goes."""
        self._gpus.share(part)

    def provide(self, number: int, provision: Provision) -> None:
        """Have other CPUs from now on, unless a later call came before."""
        if number > self._provided_last:
            self._provided_last, self._provision = number, provision
            if self._processes is not None:
                self._processes.keep_to(self._claimed())

    def _claimed(self) -> tuple[int, ...]:
        return claimed(self._cores, self._provision.cpus, self._relay.put)

    def _keep_pace(self) -> None:
        if self._processes is not None:
            self._processes.slow(self._gpus.speed[0])

    def _pass_on(self, order: CommandOrder) -> None:
        if self._processes is None or self._place is None:
            return  # nothing is sent to a worker before it has said where it is
        if isinstance(order, Begin):
            self._place.joins()  # other machines may have written outputs since
            self._place.put_back()
            self._leads = order.first_rank == 0
        self._processes.send(order)

    def _placed(self, place: Workplace, secrets: Mapping[str, str]) -> CommandLaunch:
        """Return the launch with what only this machine knows."""
        command, status_file, outputs = self._launch.command, self._launch.status_file, {}
        if place.outputs is not None:
            outputs = {OUTPUT_DIR: str(place.outputs)}
            command = tuple(with_output_dir(word, str(place.outputs)) for word in command)
            status_file = with_output_dir(status_file, str(place.outputs))
        given = given_by(self._slot, self._launch.env, first_environment())
        sandbox = place.sandbox()
        sandbox.check()
        env = {**secrets, **self._launch.env, **outputs, **given}
        cwd, folders = place.cwd or self._launch.cwd, list[str]()
        if pip := self._launch.pip:
            python = installed(pip, place.own_path, sandbox, env, cwd or os.getcwd())
            command = tuple(python if word == sys.executable else word for word in command)
            folders = [os.path.dirname(python)]
        # `python` and `torchrun` are those of the environment that this worker runs in.
        path = os.pathsep.join([*folders, os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
        return replace(
            self._launch,
            command=command,
            status_file=status_file,
            env={"PATH": path, **env},
            cwd=cwd,
            sandbox=sandbox,
        )

    def _kill(self) -> None:
        if self._processes is not None:
            self._processes.kill()

    def _tell(self, sentence: str) -> None:
        self._relay.put(Said(0, f"{sentence}\n"))

    def _emit(self, event: CommandEvent | Exited) -> None:
        """Pass an event on. The end of the last process waits until outputs are kept: others go on from them."""
        if isinstance(event, Ended):
            self._ended += 1
            if self._ended == self._launch.count and self._place is not None:
                self._gpus.end()
                if self._leads:
                    self._place.keep()
                self._place.ended()
        if isinstance(event, Exited):
            self._gpus.end()
        self._relay.put(event)
        if isinstance(event, Begun):
            self._gpus.usage.begin(os.getpid())  # all processes are below this one
