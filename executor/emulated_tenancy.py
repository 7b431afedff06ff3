"""A worker on the emulated GPUs of its slot: it enters, looks who is beside it, and leaves."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from ..core.gpu_memory import gpu_memory_gib
from ..core.process_start import started_of
from ..core.slot import Slot
from .emulated_gpu import FOLDER, EmulatedGpu, NoRoom, Tenant, TenantProfile
from .emulated_pairs import pair_speed
from .gpu_names import names_on_machine

LOOK_S = 0.02  # between looks while somebody is beside it: a partner that is killed slows it no longer than so
ALONE_LOOK_S = 0.1


class EmulatedTenancy:
    """Keeps a worker on emulated GPUs, and tells it how fast it is there.

    On several GPUs it is as fast as on the slowest.

    Args:
        changed: is called when its speed has changed, from a thread of its own.
        said: is given a sentence for the job's log at each change.
        told: is given a sentence for the event log where the state of a GPU had to be made anew.
    """

    def __init__(
        self,
        slot: Slot,
        job: str,
        worker: str,
        profile: TenantProfile,
        changed: Callable[[], None],
        said: Callable[[str], None],
        told: Callable[[str], None],
        folder: Path = FOLDER,
    ) -> None:
        self._slot, self.profile, self._changed, self._said = slot, profile, changed, said
        pid = os.getpid()
        self._tenant = Tenant(f"{job}/{worker}", job, pid, started_of(pid) or 0, profile)
        memory_gib = gpu_memory_gib(slot.gpu_type)
        names = zip(slot.devices, names_on_machine(slot, {}), strict=True)
        self._gpus = [EmulatedGpu(name, at, memory_gib, pair_speed, told, folder) for at, name in names]
        self._ended = threading.Event()
        self._leaving = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="coadapt-emulated-gpu", daemon=True)
        self.speed, self.since_s = 1.0, 0.0  # over that alone, and since when, on the monotonic clock
        self._beside: Sequence[str] = ()

    def enter(self) -> None:
        """Be on all GPUs of the slot. Raises: NoRoom, and it is on none of them then."""
        entered = list[EmulatedGpu]()
        try:
            for gpu in self._gpus:
                gpu.enter(self._tenant)
                entered.append(gpu)
        except NoRoom:
            for gpu in entered:
                gpu.leave(self._tenant.id)
            raise
        self._look()
        self._thread.start()

    def leave(self) -> None:
        """Be on none of them any more; the others are faster at once."""
        with self._leaving:
            if self._ended.is_set():
                return
            self._ended.set()
            for gpu in self._gpus:
                gpu.leave(self._tenant.id)

    def _run(self) -> None:
        while not self._ended.wait(LOOK_S if self._beside else ALONE_LOOK_S):
            with self._leaving:
                if not self._ended.is_set():
                    self._look()

    def _look(self) -> None:
        found = [gpu.look(self._tenant) for gpu in self._gpus]
        slowest = min((own for own, _ in found), key=lambda own: own.speed)
        beside = sorted({other.job for _, others in found for other in others})
        if slowest.speed != self.speed:
            self.speed, self.since_s = slowest.speed, slowest.since_s
            self._changed()
        if beside != list(self._beside):
            self._beside = beside
            self._said(self._sentence(beside, slowest))

    def _sentence(self, beside: Sequence[str], own: Tenant) -> str:
        gpus = f"emulated GPU{'s' * (len(self._gpus) > 1)} {', '.join(map(str, self._slot.devices))}"
        if not beside:
            return f"coadapt: it is alone on {gpus} again, at full speed"
        return (
            f"coadapt: it shares {gpus} with {', '.join(beside)}, at {own.speed:.0%} of its speed ({own.source})"
        )
