"""The use of the GPUs in one worker's slot, from the start of its processes to their end."""

from __future__ import annotations

from collections.abc import Callable

from ..core.slot import Slot
from ..core.usage import Usage
from .gpu_names import first_environment, names_on_machine
from .protocol.worker_events import Sampled
from .usage.gauge import Gauge
from .usage.nvml_gauge import open_gauge
from .usage.paced_gauge import PacedGauge
from .usage.sampler import Sampler


class SlotUsage:
    """Samples the GPUs of a slot, whatever runs there, and gives sums to `put` now and then.

    Of an emulated slot something is known only if its process is `paced`, and says so itself.
    """

    def __init__(self, slot: Slot, put: Callable[[Sampled], None], *, paced: bool = False) -> None:
        self._slot = slot
        self._put = put
        self._pid = 0
        self._paced = PacedGauge(slot.gpus) if paced and slot.emulated else None
        self._sampler: Sampler | None = None

    def begin(self, pid: int) -> None:
        """Sample from now on. `pid`: the process whose use counts, with all that it starts."""
        self._pid = pid
        self._sampler = Sampler(self._open, self._tell, self._slot.share)
        self._sampler.start()

    def paced(self, busy_s: float, step_s: float) -> None:
        """Take note of what a paced process says of its emulated GPU, as `PacedGauge.told`."""
        if self._paced is not None:
            self._paced.told(busy_s, step_s)

    def end(self) -> None:
        """Give the last sums, and sample no more."""
        if self._sampler is not None:
            self._sampler.close()

    def _open(self) -> Gauge | None:
        slot = self._slot
        if slot.emulated:
            return self._paced
        return open_gauge(names_on_machine(slot, first_environment()), slot.share, self._pid)

    def _tell(self, usage: Usage) -> None:
        self._put(Sampled(self._slot.gpu_type, usage))
