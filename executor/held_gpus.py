"""The GPUs in one worker's slot while it has them: their locks, their use, and who is beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..core.slot import Slot
from .emulated_gpu import TenantProfile
from .emulated_tenancy import EmulatedTenancy
from .gpu_locks import GpuLocks
from .gpu_names import first_environment, names_on_machine
from .protocol.worker_events import Noticed, Sampled
from .slot_usage import SlotUsage


class HeldGpus:
    """What a worker does about its GPUs, from when it gets them until its processes have ended.

    Args:
        profile: what its job uses of an emulated GPU.
        changed: is called when its speed on an emulated GPU has changed.
        said: is given sentences for the job's log.
        put: takes events for the executor.
        paced: its process keeps to a pace, and says how busy it is.
    """

    def __init__(
        self,
        slot: Slot,
        job: str,
        worker: str,
        profile: TenantProfile,
        changed: Callable[[], None],
        said: Callable[[str], None],
        put: Callable[[Sampled | Noticed], None],
        *,
        paced: bool = False,
    ) -> None:
        if paced and profile.gpu_util is None:
            profile = replace(profile, gpu_util=1.0)  # it works in all the time that its pace says
        self._slot, self._locks = slot, GpuLocks(job, slot.share < 1)
        self._tenancy: EmulatedTenancy | None = None
        if slot.emulated:
            self._tenancy = EmulatedTenancy(
                slot, job, worker, profile, changed, said, lambda text: put(Noticed(text))
            )
        self.usage = SlotUsage(slot, put, profile, self._speed, paced=paced)

    def hold(self) -> Sequence[int]:
        """Wait for the GPUs. Return the file descriptors of their locks.

        Raises: GpuNameError for a GPU that is not seen here.
        """
        return self._locks.hold(names_on_machine(self._slot, first_environment()))

    def enter(self) -> None:
        """Be on the GPUs, where others notice it. Raises: NoRoom where one has too little memory left."""
        if self._tenancy is not None:
            self._tenancy.enter()

    def share(self, part: float) -> None:
        """Hold another part of each GPU from now on."""
        if part < 1:
            self._locks.share()
        self.usage.share(part)

    def end(self) -> None:
        """Be on them no more, as all processes have ended."""
        self.usage.end()
        if self._tenancy is not None:
            self._tenancy.leave()

    @property
    def speed(self) -> tuple[float, float]:
        """The speed over that alone, and since when, on the machine's monotonic clock."""
        return (1.0, 0.0) if self._tenancy is None else (self._tenancy.speed, self._tenancy.since_s)

    def _speed(self) -> float:
        return self.speed[0]
