"""A training process of several trials of a study, which train as one (`fused/`).

It is alone on one GPU for good, so nothing is divided among replicas, and the script's own loader gives the
batches. Between two batches it answers its executor. At the end of each epoch it reports a metric of each trial
and saves; a process that starts later goes on from there.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch.utils.data import DataLoader

from ....core.reports import Progress, TrialRow
from ....core.training_config import TrainingConfig
from ....core.trials import Trial
from ...protocol import messages
from ...protocol.messages import Join, Keep, Leave, Save, SetBatch, Stop
from ..data.drawn import Batches
from ..fused.errors import CannotFuse
from ..fused.group import TrialGroup
from ..fused.of_trials import of_trial
from ..fused.one_trial import OneTrial
from ..gradients.step_timer import StepTimer
from ..losses.loss_kind import as_weight
from ..state.checkpoint import CheckpointStore
from ..state.checkpoint_errors import CheckpointError
from ..state.prepared import Prepared
from ..state.training_state import Position
from ..state.trial_states import TrialStates
from ..tracking.forwarding import Trackers
from .channel import Channel
from .emulated_use import pace_of_process
from .gpu_memory import memory_gib
from .membership import Leaving
from .metrics import Metrics, combine
from .session import check_count
from .session_reports import HEARTBEAT_INTERVAL_S, REPORT_FIRST_S
from .start_up import ready
from .trial_metrics import TrialMetrics

NARROW = 1.4  # power of the divisor of widths by which a step takes less of an emulated GPU
IN_EPOCHS = "trials that train as one count by coadapt.epochs, once, so that they can go on elsewhere"


class TrialsSession:
    """Trains a group of trials, as its executor commands.

    Args:
        notes: sentences that the study's user is told.

    Raises: CannotFuse, for what cannot train as one.
    """

    rank, world_size = 0, 1
    disagreement = ""

    def __init__(
        self,
        prepared: Prepared,
        config: TrainingConfig,
        channel: Channel,
        trials: Sequence[Trial],
        sources: Mapping[str, str],
        trackers: Trackers | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        if len(trials) > 1 and (prepared.scalers or prepared.strays()):
            what = "a GradScaler" if prepared.scalers else "an optimizer that steps parameters of no model"
            raise CannotFuse(f"prepare: {what} cannot train several trials as one")
        self.objects = tuple(prepared.objects)
        self.position, self.metrics = Position(), Metrics()
        self.leaving: Leaving | None = None
        self._prepared, self._config, self._channel = prepared, config, channel
        self._trackers = trackers or Trackers()
        self._batch_size = config.initial_batch_size or prepared.batch_size
        self._told = ready(prepared, self._batch_size, None, False)
        self._count: int | None = None  # epochs that the script asks for
        self._until = 0  # the epoch after which the group ends
        self._timer, self._pace = StepTimer(prepared.device), pace_of_process(channel)
        url = os.environ.get(messages.CHECKPOINT_URL) or config.checkpoint.url
        store = CheckpointStore(url, config.checkpoint.keep) if url else None
        parts = [*prepared.modules, *prepared.companions], prepared.optimizers, prepared.schedulers
        group = OneTrial(*parts) if len(trials) == 1 else TrialGroup(*parts, len(trials))
        kept = {int(one) for one in os.environ.get(messages.KEPT_EPOCHS, "").split(",") if one}
        self._states = TrialStates(prepared, group, trials, sources, store, self.position, kept)
        self._reported = TrialMetrics()
        self._generation, self._pass_samples = -1, 0
        self._unstepped = False
        self._leave_then: Keep | None = None  # at the end of the epoch
        now = time.monotonic()
        self._heartbeat_s, self._sent_s, self._interval_s = now, now, REPORT_FIRST_S
        self._rows = [TrialRow(0, self._states.numbers, notes=tuple(notes))] if notes else []
        for optimizer in prepared.optimizers:
            optimizer.register_step_post_hook(self._stepped)
        for item in prepared.objects:
            if isinstance(item, DataLoader | Batches):
                _watch(item, self)

    def start(self) -> None:
        """Say `Ready`, wait to be let in, and take over the state there is. Raises `Leaving` where it is not."""
        self._channel.send(replace(self._told, fingerprint=self._fingerprint(self._told.fingerprint)))
        command = self._channel.wait_for_membership(-1)
        if not isinstance(command, Join):
            self._leave()
        assert isinstance(command, Join)
        source = self._states.take_over()
        self._join(command, source)

    # --- what the script calls ------------------------------------------------------------------------------

    def epochs(self, count: int) -> Iterator[int]:
        """Yield the epochs that are still to do. Raises: CannotFuse for a second loop."""
        check_count("epochs", count)
        if self._count is not None:
            raise CannotFuse(f"epochs: the script has another loop over epochs; {IN_EPOCHS}")
        self._count, position = count, self.position
        until = min(count, int(os.environ.get(messages.UNTIL_EPOCH, count)))
        self._until = until
        while position.epoch < until and not position.ended:
            self._states.begin_epoch()
            try:
                yield position.epoch
            except GeneratorExit:  # the script has left by `break`
                position.ended = True
                self._end_epoch()
                raise
            self._end_epoch()

    def steps(self, count: int) -> Iterator[int]:
        raise CannotFuse(f"steps: {IN_EPOCHS}")

    def report(self, metrics: dict[str, Any], how: dict[str, str]) -> None:
        self._reported.add(metrics, how, len(self._states.numbers))

    def combine(self, value: Any, how: str) -> Any:
        return combine([value], [1.0], how)

    def weigh(self, weight: Any) -> None:
        as_weight(weight)

    # --- what the process that runs the script asks ---------------------------------------------------------

    @property
    def counts(self) -> bool:
        """Whether the script has asked for epochs."""
        return self._count is not None

    @property
    def done(self) -> bool:
        """Whether all that was asked for is done; else the script ends by itself."""
        return self._count is not None and self.position.epoch >= self._until

    @property
    def where(self) -> str:
        """How far the training is, in words."""
        return f"epoch {self.position.epoch} of {self._count}"

    def finish(self) -> None:
        """Report what came last; the state was saved at the end of its epoch."""
        self._tell_row()
        self._send()

    # --- between two batches --------------------------------------------------------------------------------

    def batches(self, inner: Iterator[Any]) -> Iterator[Any]:
        """Yield the script's own batches, and answer the executor between them."""
        for batch in inner:
            self._between()
            started_s = time.perf_counter() if self._pace is None else self._pace.clock()
            self._timer.start_step()
            self._unstepped = True
            yield batch
            if self._unstepped:  # it evaluates, or more batches go into the step
                continue
            self._pass_samples += self._batch_size
            if self._pace is not None:
                self._pace.wait(started_s, 1, 1, self._paced_samples, 0)
            self._timer.end_step(1, 1, self._batch_size, 0)

    @property
    def _paced_samples(self) -> int:
        """Samples of the whole model that take an emulated GPU as long as a step of these trials.

        Measured of ResNet-18 on an A100 (Hydro, Figure 3.8): at S = 8 a step of 100 trials takes 6.3 times one
        trial's at S = 1, and one of 220 trials 13.2 times.
        """
        shrink = int(os.environ.get(messages.SHRINK, "1"))
        return math.ceil(self._batch_size * len(self._states.numbers) / shrink**NARROW)

    def _stepped(self, *_: Any) -> None:
        if self._unstepped:
            self._unstepped = False
            self.position.steps += 1
            self.position.samples += self._batch_size

    def _between(self) -> None:
        """Tell that it lives, and do what the executor asks, as far as that is not for the end of an epoch."""
        now = time.monotonic()
        if now - self._heartbeat_s >= HEARTBEAT_INTERVAL_S:
            self._heartbeat_s = now
            self._channel.send(messages.Heartbeat(self._generation, self.position.steps))
        if now - self._sent_s >= min(self._config.report_interval_s, self._interval_s):
            self._interval_s *= 2
            self._send()
        if not self._channel.waiting:
            return
        self._channel.discard(SetBatch, messages.Provide)
        command = self._channel.membership(self._generation)
        if self._channel.take(Stop) is not None or isinstance(command, Leave):
            self._leave()
        if isinstance(command, Join):
            self._join(command, "peer")
        if not self._unstepped and (keep := self._channel.take(Keep)) is not None:
            self._drop(keep)

    def _drop(self, keep: Keep) -> None:
        """Let trials leave now; those whose states are kept leave at the end of the epoch."""
        if keep.with_state:
            self._leave_then = keep
        else:
            self._states.keep(keep.trials, False)
            self._timer.regrouped()

    def _join(self, join: Join, source: str) -> None:
        self._generation = join.generation
        os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1")
        self._timer.regrouped()
        self._channel.send(messages.Joined(join.generation, self.position.steps, source))

    def _leave(self) -> None:
        """Leave the job with what was saved at the end of the last epoch. Raises `Leaving`."""
        if self._generation >= 0:
            self._send()
        self.leaving = Leaving(self._states.saved)
        raise self.leaving

    # --- epochs ---------------------------------------------------------------------------------------------

    def _end_epoch(self) -> None:
        """Report and save, and let trials leave. What is told first is told again after a kill in between."""
        position = self.position
        position.epoch += 1
        self._pass_samples = 0
        self._states.keep_for_others()  # whoever is told of the epoch may ask for its states
        self._tell_row()
        self._send()
        self._channel.discard(Save)
        keep, self._leave_then = self._channel.take(Keep) or self._leave_then, None
        if keep is not None:
            self._states.keep(keep.trials, keep.with_state)
            self._timer.regrouped()
        if self._save() and keep is not None:  # others may go on from it now
            self._rows.append(TrialRow(position.epoch, self._states.numbers, {}, self._states.left))
            self._send()

    def _save(self) -> bool:
        """Write a checkpoint, and return whether it is there; where storage fails, the last good one stays."""
        began_s = time.monotonic()
        try:
            path = self._states.save()
        except CheckpointError as error:
            print(f"coadapt: {error}; training goes on", file=sys.stderr, flush=True)
            return False
        if path is not None:
            self._channel.send(messages.Saved(path, self.position.steps, time.monotonic() - began_s))
        return path is not None

    def _tell_row(self) -> None:
        """Have what trials reported in this epoch told, and handed on to trackers."""
        if not (found := self._reported.taken()):
            return
        memory = memory_gib(self._prepared.device)
        row = TrialRow(self.position.epoch, self._states.numbers, found, self._states.left, *memory)
        self._rows.append(row)
        self.metrics.combined = row.means()
        self._trackers.tell(
            {
                f"{name}/{number}": value
                for name, values in found.items()
                for number, value in zip(row.trials, values, strict=True)
            },
            self.position.steps,
        )

    def _send(self) -> None:
        self._sent_s = time.monotonic()
        rows, self._rows = self._rows, []
        rate = of_trial(self._prepared.optimizers[0].param_groups[0]["lr"], 0)
        self._channel.send(
            messages.Report(
                generation=self._generation,
                gpu_type=os.environ.get(messages.GPU_TYPE, "cpu"),
                nodes=1,
                replicas=1,
                rows=self._timer.rows(),
                grad_sqr=None,
                grad_var=None,
                batch_size=self._batch_size,
                local_bsz=self._batch_size,
                accumulation=0,
                lr=float(rate),
                gain=1.0,
                progress=self._progress(),
                metrics=self.metrics.combined,
                trials=tuple(rows),
            )
        )

    def _progress(self) -> Progress:
        position, count = self.position, self._until
        size = _samples_of(self._prepared.loader)
        begun = min(self._pass_samples / size, 1.0) if size else 0.0
        return Progress(
            epoch=position.epoch,
            epochs=self._count,
            fraction=min((position.epoch + begun) / count, 1.0) if count else 0.0,
            steps=position.steps,
            samples=position.samples,
            progress_samples=float(position.samples),
        )

    def _fingerprint(self, own: str) -> str:
        """Return what groups have in common that are as fast: the model, and how many trials there are."""
        return f"{own}-{len(self._states.numbers)}"


def _watch(loader: Any, session: TrialsSession) -> None:
    """Let a script's own loader tell the session of its batches. It keeps its class's name and attributes."""
    kind = type(loader)

    def iterate(self: Any) -> Iterator[Any]:
        return session.batches(kind.__iter__(self))

    loader.__class__ = type(kind.__name__, (kind,), {"__iter__": iterate, "__module__": kind.__module__})


def _samples_of(loader: Any) -> int | None:
    try:
        return len(loader.dataset)
    except (AttributeError, TypeError):
        return None
