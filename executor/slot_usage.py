"""The use of the GPUs in one worker's slot, from the start of its processes to their end."""

from __future__ import annotations

from collections.abc import Callable

from ..core.slot import Slot
from ..core.usage import Usage
from .emulated_gpu import TenantProfile
from .gpu_names import first_environment, names_on_machine
from .protocol.worker_events import Sampled
from .usage.emulated_gauge import EmulatedGauge
from .usage.gauge import Gauge
from .usage.nvml_gauge import open_gauge
from .usage.paced_gauge import PacedGauge
from .usage.sampler import Sampler


class SlotUsage:
    """Samples the GPUs of a slot, whatever runs there, and gives sums to `put` now and then.

    Of an emulated slot, that is known which `profile` says the job uses. A `paced` process tells how busy it is;
    of any other, `speed` tells how fast it is beside others.
    """

    def __init__(
        self,
        slot: Slot,
        put: Callable[[Sampled], None],
        profile: TenantProfile,
        speed: Callable[[], float],
        *,
        paced: bool = False,
    ) -> None:
        self._slot, self._put, self._share = slot, put, slot.share
        self._pid = 0
        self._paced: PacedGauge | None = None
        self._emulated: Gauge | None = None
        if slot.emulated and paced:
            self._emulated = self._paced = PacedGauge(slot.gpus, profile.reading)
        elif slot.emulated and (profile.gpu_util is not None or profile.memory_gib is not None):
            self._emulated = EmulatedGauge(slot.gpus, profile.reading, speed)
        self._sampler: Sampler | None = None

    def begin(self, pid: int) -> None:
        """Sample from now on. `pid`: the process whose use counts, with all that it starts."""
        self._pid = pid
        self._sampler = Sampler(self._open, self._tell, self._share)
        self._sampler.start()

    def paced(self, busy_s: float, step_s: float) -> None:
        """Take note of what a paced process says of its emulated GPU, as `PacedGauge.told`."""
        if self._paced is not None:
            self._paced.told(busy_s, step_s)

    def share(self, part: float) -> None:
        """Count for another part of each GPU from now on."""
        self._share = part
        if self._sampler is not None:
            self._sampler.hold(part)

    def end(self) -> None:
        """Give the last sums, and sample no more."""
        if self._sampler is not None:
            self._sampler.close()

    def _open(self) -> Gauge | None:
        slot = self._slot
        if slot.emulated:
            return self._emulated
        return open_gauge(names_on_machine(slot, first_environment()), self._share, self._pid)

    def _tell(self, usage: Usage) -> None:
        self._put(Sampled(self._slot.gpu_type, usage))
