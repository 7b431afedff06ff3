"""Training in a process group: what `torchrun` and managed runs share.

The script drives it: it asks for epochs and steps, takes batches and parts of them, goes backward and makes steps.
What has to be agreed on between replicas is agreed on between two steps.
"""

from __future__ import annotations

import struct
import sys
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from ....core.batch_plan import BatchPlan
from ....core.training_config import Count, TrainingConfig
from ....estimators.pace import Pace
from ...protocol.script_errors import SHARE_DECISIONS
from ..checks.batch_memory import Buffers
from ..checks.batch_watch import GOES_BACK, BatchWatch, Kept, Rows
from ..checks.gradient_check import COMPARED
from ..checks.left_out import check_schedulers, watch_optimizers
from ..collective.group import Group, GroupBroken
from ..data import alone, counted_loops, loader_watch
from ..data.batches import Place, Reader, Source, Unit, another
from ..data.drawn import Batches
from ..data.elastic_loader import make_elastic
from ..data.loader import OrderDiffers, source_of
from ..data.loop_habits import AheadWatch, takes_by_next
from ..data.side_loaders import SideLoaders
from ..data.units import Part, Split
from ..gradients import backward
from ..gradients.gradient_noise import GradientNoise, Preconditioner
from ..gradients.gradients import Gradients, PartPlan
from ..gradients.learning_rate import lr_rule
from ..gradients.noise_meter import NoiseMeter
from ..gradients.step_timer import StepTimer
from ..gradients.stepping import ScaledOptimizers, adapt_scaler, adapt_scheduler
from ..losses.loss_kind import Kind, as_weight
from ..state.beside import Beside
from ..state.prepared import Prepared, rest_ddp
from ..state.training_state import Position, TrainingState
from ..variables import script_random
from ..variables.script_random import GLOBALS
from ..variables.script_undo import Undo
from ..variables.undue import Resumed, Undue
from .metrics import Metrics, combine, weights_of
from .session import check_count
from .step_in_hand import StepInHand

CANNOT_DO_AGAIN = (
    "a batch has to be done again, which a loop that takes its batches by next() cannot do; the training goes on "
    "from its last checkpoint. Where no replica was lost, say what the loss is over the samples of a batch: "
    'coadapt.prepare(…, loss="mean"), "sum" or "batch"'
)
LEFT_BETWEEN = (
    "the loop was left in the midst of a batch that takes several passes; the training goes on from its last "
    "checkpoint, where batches take one pass on each replica"
)
LEFT_UNDONE = (
    "the loop was left after a batch that has to be done again; the training goes on from its last checkpoint. "
    "Where no replica was lost, say what the loss is over the samples of a batch: "
    'coadapt.prepare(…, loss="mean"), "sum" or "batch"'
)
ONE_KIND = "the script has other loops over both coadapt.epochs and coadapt.steps; one job counts by one of them"
# The least progress that a pass lacks to count as a whole one.
ROUNDING = 1e-6


class GroupSession:
    """Training in a process group: the part that `torchrun` and managed runs share."""

    def __init__(self, prepared: Prepared, config: TrainingConfig, loss: Kind = Kind.UNKNOWN) -> None:
        self.config = config
        self.prepared = prepared
        self.device = prepared.device
        self.script_batch = config.initial_batch_size or prepared.batch_size
        self.script_seed = torch.initial_seed() % 2**62  # rank 0's counts, also for those that come later
        self.noise = GradientNoise(initial_batch_size=self.script_batch)
        self.position = Position(schedule_credit=[0.0] * len(prepared.schedulers))
        self.source: Source = source_of(prepared.loader, self.epoch_seed, self.script_batch)
        self.state = TrainingState(prepared, self.noise, self.position)
        self.state.extras["source"] = self.source.state_dict, self.source.load_state_dict
        self.timer = StepTimer(self.device)
        self.preconditioner = Preconditioner(*prepared.optimizers)
        self.meter = NoiseMeter(self.noise, self.preconditioner)
        self.gradients = Gradients(
            prepared.parameters, self.meter, self.timer, self.tell, self, loss, self.before_backward
        )
        self.sides = SideLoaders(self)
        self.state.extras["sides"] = self.sides.capture, self.sides.load
        self.state.extras["seed"] = lambda: self.script_seed, self._take_seed
        self.state.extras["learned"] = lambda: self.learned, self.learn
        self.state.extras["batches"] = lambda: self._watch.found, lambda found: self._watch.take_over(found)
        self.group: Group | None = None
        self.pace: Pace | None = None  # only on emulated nodes
        self.plan = BatchPlan(self.script_batch)
        self.metrics = Metrics()
        self.epoch_count: float | None = None  # asked for by all loops until now
        self.step_count: float | None = None
        self._loops_begun = 0  # over `epochs` or `steps`
        self.in_iteration = False
        self.partial = False
        self.schedule_calls = [0] * len(prepared.schedulers)
        self.least_local_bsz = prepared.least_local_bsz
        self._rules = {id(optimizer): lr_rule(config, optimizer) for optimizer in prepared.optimizers}
        self._held = prepared.held_count()
        self._loops_seen = 0
        self._in_loop = False  # of epochs or steps
        self._told: set[str] = set()
        self._step = StepInHand()
        self._redos = 0  # times that something had to be done again
        self._batches_here = 0  # since the running pass or step began in this process
        self.one_pass = False  # the script makes several steps per batch
        self.by_next = False  # it takes its batches by calls, and so counts them
        self._ahead_watch: AheadWatch | None = None
        self._watch: BatchWatch = BatchWatch(prepared, self.gradients, self, loss)
        self._given = 0  # batches of the running loop that the script was given in this process
        self._read_by: Split | None = None  # how the batches are cut that are read now
        self._failure: BaseException | None = None
        self._split_of: tuple[Any, ...] = ()
        self._split = Split(1, self.script_batch)
        self._local_samples = 0  # that this replica was given in the running pass
        # The same without batches that all replicas computed whole: by these, what they have is weighed.
        self._samples_apart = 0
        self._samples_since = 0  # and since replicas have come or gone
        self._shared: int | None = None
        self._counts_itself = counted_loops.is_taken_before()
        self._aligned = -1  # the generation of the group whose members have begun alike
        self._adapt()

    def tell(self, sentence: str) -> None:
        """Say something to the script's owner, once."""
        if sentence not in self._told:
            self._told.add(sentence)
            if self.rank == 0:
                print(f"coadapt: {sentence}", file=sys.stderr, flush=True)

    # --- what the script calls -------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        return self.group.rank if self.group is not None else 0

    @property
    def world_size(self) -> int:
        return self.group.world_size if self.group is not None else 1

    def epochs(self, count: int) -> Iterator[int]:
        """Epochs that are still to do; the end of a pass over the data is passed by all ranks together.

        Where the batch is adapted an epoch is one of progress: it may take more than one pass, and all but the
        first have numbers that equal nothing.
        """
        check_count("epochs", count)
        if self.step_count is not None:
            raise RuntimeError(f"epochs: {ONE_KIND}")
        position = self.position
        if (before := self._begin_phase(self._epochs_done)) is None:
            return
        self.epoch_count = before + count
        self.begin_script()
        while not self.completed:
            epoch, self._loops_seen = position.epoch, 0
            self._begin_pass()
            number = self._show(self._epochs_done - before, count)
            yield from self._guarded(number)
            self._end_epoch(epoch)

    def steps(self, count: int) -> Iterator[int]:
        """Steps of the script that are still to do, counted by progress where the batch is adapted."""
        check_count("steps", count)
        if self.epoch_count is not None:
            raise RuntimeError(f"steps: {ONE_KIND}")
        position = self.position
        if (before := self._begin_phase(position.script_steps)) is None:
            return
        self.step_count = before + count
        self.begin_script()
        self._begin_pass()
        self._loops_seen = position.loop
        while not self.completed or (self._step.ahead and not position.ended):  # none is left half done
            self._begin_script_step()
            number = self._show(position.script_steps - before, count)
            yield from self._guarded(number)
            # As in `zip(steps, loader)`: a batch of several passes.
            while self._step.running is not None and self.partial:
                yield from self._guarded(number)
            self._end_script_step()

    def _begin_phase(self, done: float) -> float | None:
        """The script begins another loop over `epochs` or `steps`, when so many are done.

        Returns how many were before it; None where it was over before this process came in or was started again.
        """
        position, number = self.position, self._loops_begun
        self._loops_begun += 1
        if number > len(position.ends):
            position.ends.append(done)
            position.ended, position.shown = False, -1
        if number < len(position.ends):
            return None
        return position.ends[-1] if position.ends else 0.0

    def _guarded(self, number: int) -> Iterator[int]:
        self._in_loop = True
        try:
            yield number
        except GeneratorExit:
            self.position.ended = True  # unless by an exception, which ends the script as well
            raise
        finally:
            self._in_loop = False

    def _show(self, progress: float, count: int) -> int:
        """The number of an epoch or step.

        One that was given before equals nothing. In a process that comes in or starts again in the midst of it, it
        does so up to the first batch: what a script does before that at certain numbers was done.
        """
        position = self.position
        resumed, position.begun = position.begun, True
        self._batches_here = 0
        if not resumed:
            number = min(int(progress + ROUNDING), count - 1)
            position.again, position.shown = number == position.shown, number
        if position.again:
            return Undue(position.shown)
        return Resumed(position.shown, lambda: self._batches_here > 0) if resumed else position.shown

    @property
    def _by_progress(self) -> bool:
        return self.config.count is Count.PROGRESS

    @property
    def completed(self) -> bool:
        """Whether what was asked for is done or the target is reached."""
        position = self.position
        if position.target_reached or position.ended:
            return True
        if self.step_count is not None:
            return position.script_steps >= self.step_count - ROUNDING
        return self.epoch_count is not None and self._epochs_done >= self.epoch_count - ROUNDING

    @property
    def _epochs_done(self) -> float:
        return self.position.epochs_done if self._by_progress else float(self.position.epoch)

    def begin_script(self) -> None:
        """The script has set itself up; training begins, or goes on."""
        check_schedulers(self.prepared)

    def report(self, metrics: dict[str, Any], how: dict[str, str]) -> None:
        self.metrics.add(metrics, how)

    def combine(self, value: Any, how: str) -> Any:
        """The value over all replicas, now; every replica calls it. Raises ValueError for an unknown `how`."""
        group = self.group
        if group is None or group.world_size == 1:
            return combine([value], [1.0], how)
        everyone = group.gather_objects([value, self._samples_weight(), self._mean_over(value)])
        values, samples, over = zip(*everyone, strict=True)
        return combine(values, weights_of(samples, over), how)

    def _mean_over(self, value: Any) -> float | None:
        """What a mean is over, where that is seen."""
        return None

    def combined(self, value: float) -> float:
        """What a scheduler that goes by a metric is given."""
        return float(self.combine(value, "mean"))

    def weigh(self, weight: Any) -> None:
        unit, part = self._step.running or (None, None)
        of_part = unit is not None and part is not None and part.samples < unit.samples
        self.gradients.weights.weigh(as_weight(weight, of_part))

    def _samples_weight(self) -> float:
        return float(max(self._samples_apart, 1))

    # --- what the script's optimizers, schedulers and scalers ask (`stepping.Stepping`) ------------------

    @property
    def schedule_credit(self) -> list[float]:
        return self.position.schedule_credit

    @property
    def step_happens(self) -> bool:
        return not (self.gradients.hidden or self.gradients.undone or self._step.void)

    @property
    def initial_batch_size(self) -> int:
        """Samples of one of the script's own steps."""
        return self.script_batch * self.position.per_step

    @property
    def step_batch_size(self) -> int:
        """What the running step counts as: the rest of an epoch by its samples, at least as the initial batch."""
        full = self.full_batch_size
        done = self._step.samples
        return min(full, max(done, self.initial_batch_size)) if self._step.ahead else full

    @property
    def full_batch_size(self) -> int:
        split = self.split
        return split.unit * split.merged * (self.position.per_step if self.position.whole else 1)

    @property
    def scale(self) -> float:
        """Batch size over initial batch size."""
        return self.step_batch_size / self.initial_batch_size

    @property
    def gain(self) -> float:
        """Progress of the running step in steps of the initial batch size."""
        size, initial = self.step_batch_size, self.initial_batch_size
        return 1.0 if size <= initial else self.noise.gain(size, initial)

    @property
    def step_progress(self) -> float:
        """What each of the script's steps in the running one counts for."""
        return self.gain / self.split.merged

    @property
    def pass_progress(self) -> float:
        return self.position.last_pass if self._by_progress else 1.0

    @property
    def schedule_place(self) -> float | None:
        return self.progress_epochs if self._by_progress and self.split.merged > 1 else None

    def lr_factor(self, optimizer: torch.optim.Optimizer) -> float:
        return self._rules[id(optimizer)].factor(self.scale, self.gain, self.progress_epochs)

    @property
    def _share_of_progress(self) -> float:
        """Progress of a sample of the running step, of one at the initial batch size."""
        return self._share_of(self.step_batch_size)

    def _share_of(self, size: int) -> float:
        """The same of a step of `size` samples."""
        initial = self.initial_batch_size
        return 1.0 if size <= initial else min(1.0, self.noise.gain(size, initial) * initial / size)

    def ask_step(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._in_loop:
            raise RuntimeError(
                f"{type(optimizer).__name__}.step is called outside of `for … in coadapt.epochs(n)` and "
                "`coadapt.steps(n)`; a job trains inside of one of them"
            )
        self._step.asked_in_part.add((self.gradients.backwards, id(optimizer)))
        self._step.asked_of[optimizer] = None
        if not self.partial:
            self._step.asked, self._step.unstepped = True, False
            self._watch.step_asked()

    def before_backward(self) -> bool:
        """Called by `gradients`. A step between two backwards of a batch cannot be put off to a later part.

        Returns False where the batch has to be done again, in one pass.
        """
        if self._ahead_watch is not None:
            self._ahead_watch.trained()
        self._watch.before_backward()
        if not self._step.asked_in_part:
            return True
        self.one_pass = True
        return self._read_by is None or (self._read_by.passes == 1 and self._read_by.merged == 1)

    def before_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.gradients.before_step([p for group in optimizer.param_groups for p in group["params"]])

    def count_step(self) -> None:
        self._step.stepped = True

    # --- what must be alike on all replicas (`gradients.Guard`) -------------------------------------------

    def words(self) -> Sequence[int]:
        rates = self._rates()
        packed = zlib.crc32(struct.pack(f"{len(rates)}d", *rates))
        position = self.position
        return packed & 0xFFF, (packed >> 12) & 0xFFF, position.steps & 0xFFF, self._number_in_loop() & 0xFFF

    def differs(self, word: int) -> str:
        where = f"in batch {self._number_in_loop()} of epoch {self.position.epoch}"
        if word < 2:
            rates = ", ".join(f"{rate:.6g}" for rate in self._rates())
            return (
                f"replicas have different learning rates {where}: {rates} on replica {self.rank}; give prepare a "
                "scheduler that decides by a value, and set a rate by hand from values that all share, such as "
                "coadapt.combine(value)"
            )
        if word == 2:
            return f"replicas have made different numbers of steps {where}: {self.position.steps} on {self.rank}"
        return (
            f"replicas are at different batches: replica {self.rank} is {where}; where one of them leaves a batch "
            f"out, {SHARE_DECISIONS}"
        )

    def _rates(self) -> list[float]:
        """Learning rates as the script set them; those on a GPU are left out, since reading them would wait."""
        return [
            float(group["lr"])
            for optimizer in self.prepared.optimizers
            for group in optimizer.param_groups
            if "lr" in group and not (isinstance(group["lr"], Tensor) and group["lr"].is_cuda)
        ]

    # --- what the prepared loader asks (`elastic_loader.Loop`) ---------------------------------------------

    @property
    def split(self) -> Split:
        """How a batch is divided now."""
        position = self.position
        weights = self.gradients.weights
        whole, undivided = weights.whole or weights.trial, weights.undivided or self.by_next
        of = self.plan, self.world_size, position.per_step, position.whole, whole, undivided, self.one_pass
        if of != self._split_of:
            self._split_of = of
            split = Split.of(
                self.plan,
                self.world_size,
                self.script_batch,
                per_step=position.per_step,
                fused=not position.whole,
                undivided=undivided,
                single=self.one_pass,
            )
            least = split.unit if whole else min(self.least_local_bsz, split.local_bsz)
            self._split = replace(split, least=least)
        return self._split

    def batch_count(self) -> int:
        loader = self.prepared.loader
        if self.script_batch == self.prepared.loader.batch_size or self.source.size is None:
            return len(loader)
        samples = self.source.size
        return samples // self.script_batch if loader.drop_last else -(-samples // self.script_batch)

    @property
    def batch_number(self) -> int:
        """Of the batch that was handed out last."""
        return max(self._number_in_loop() - 1, 0)

    @property
    def pass_number(self) -> int:
        return self._watch.parts

    def next_number(self) -> int:
        number = self._number_in_loop()
        if self._step.running is not None:
            partial, redos = self.partial, self._redos
            self._close_part()
            number = self._number_in_loop() - int(partial and redos == self._redos)
        return number

    def _number_in_loop(self) -> int:
        """Batches of the running loop that were handed out, the running one included."""
        return self.position.batch + len(self._step.ahead)

    # --- what loaders beside it ask (`side_loaders.Loop`) --------------------------------------------------

    @property
    def batch_key(self) -> tuple[int, int, int]:
        return self.position.epoch, self.position.loop, self._number_in_loop()

    @property
    def in_loop(self) -> bool:
        return self._in_loop

    @property
    def in_script_step(self) -> bool:
        return self._in_loop and self.step_count is not None

    @property
    def trained(self) -> bool:
        return self.gradients.backwards > 0

    @property
    def samples_shared(self) -> int | None:
        return self._shared

    def note_counting(self, how: str) -> None:
        self.position.counted = True

    def epoch_seed(self, epoch: int) -> int:
        """Of the order of an epoch's samples, which is a `DistributedSampler`'s whose seed is the sum of both."""
        return self.config.seed + self.script_seed + epoch

    def _take_seed(self, seed: int) -> None:
        self.script_seed = seed

    @property
    def progress_epochs(self) -> float:
        """Epochs of progress so far, the running pass by its samples."""
        position, size = self.position, self.source.size
        if not size or position.loop or self.step_count is not None:
            return position.epochs_done
        return position.epochs_done + min(position.pass_progress / size, 1.0)

    @property
    def passes_done(self) -> float:
        """Passes over the data so far, the running one by its samples."""
        position, size = self.position, self.source.size
        if not size or position.loop:
            return float(position.epoch)
        return position.epoch + min(position.pass_samples / size, 1.0)

    def batches(self) -> Iterator[Any]:
        """The batches of one loop over the training data, from where the training is."""
        self.raise_failure()
        if not self._in_loop:
            for batch in self.prepared.loader:  # a look at the data before training
                yield batch
                if self._in_loop:
                    raise RuntimeError(AheadWatch.SENTENCE)
            return
        if self._loops_seen < self.position.loop:  # done before this process joined or was restarted
            self._loops_seen += 1
            return
        here = self.position.epoch, self.position.loop
        try:
            while (yield from self._read_on()):
                self._step.ahead = []
        except GeneratorExit:
            if self._in_loop and self.step_count is None and (self.position.epoch, self.position.loop) == here:
                self._left_early(self._end_loop)
            raise

    def _read_on(self) -> Generator[Any, None, bool]:
        """Batches to the end of the loop; returns whether what follows has to be read anew."""
        position = self.position
        here = position.epoch, position.loop
        reader: Reader | None = None
        self._note_taking()
        entered = False
        while True:
            try:
                # The end of the data is no control point: whoever went on from there would run what follows the
                # loop without having been in it.
                if reader is None or reader.has_next:
                    if not self._step.ahead and self._control_point():
                        reader = None
                    if (position.epoch, position.loop) != here:
                        self._loops_seen += 1
                        return False  # the others were already further
                    if not self._step.ahead:
                        self._watch.before_batch()
                    if reader is None or (not self._step.ahead and self.split != self._read_by):
                        reader = self._begin_reading()
                if entered or not self._is_behind:
                    self._arrive()
                unit = reader.take()
                if unit is None:
                    self._end_loop()
                    return False
                last = not self._ahead_is_enough(reader)
                if not entered:
                    unit, entered = (yield from self._enter_loop(unit)), True
            except GroupBroken:  # in data that one replica reads for all
                if self._step.ahead:
                    self._undo_step()
                    yield from self._void_parts()
                return True
            if not (yield from self._unit(unit, last)):
                return True

    def _note_taking(self) -> None:
        """How the loop takes its batches, seen when it asks for the first one."""
        if takes_by_next() and not self.by_next:
            self.by_next = True
            self.note_counting("next")
            self._ahead_watch = AheadWatch()
        self.sides.begin_loop(self.by_next)

    @property
    def _is_behind(self) -> bool:
        """Whether the script has to be brought to where the others are in this loop."""
        return False

    def _enter_loop(self, unit: Unit) -> Generator[Any, None, Unit]:
        """The script is given the first batch of a loop next, perhaps in its midst."""
        return unit
        yield

    def _arrive(self) -> None:
        """The script is where the training is, and has its variables as they are there."""

    def _ahead_is_enough(self, reader: Reader) -> bool:
        """Whether gradients may be kept back after this batch: there is another one to bring them."""
        return len(self._step.ahead) + 1 < self._units_per_step and reader.has_next

    @property
    def _units_per_step(self) -> int:
        """Batches whose gradients are combined together."""
        merged = self.split.merged
        return merged * self.position.per_step if merged > 1 else 1

    @property
    def _added_up(self) -> int:
        """Of batches whose gradients are combined together, those that the script adds up to a step of its own."""
        return self.position.per_step if self.split.merged > 1 else 1

    def _begin_reading(self) -> Reader:
        position = self.position
        place = Place(position.epoch, position.loop, position.batch, position.offset)
        self._read_by = self.split
        try:
            return self.source.begin(place, self.split, self.rank, self.group)
        except OrderDiffers as differs:
            self.tell(
                f"{differs} gives another order of samples after a restart than before; this epoch begins anew"
            )
            position.batch = position.offset = 0
            self.source.load_state_dict({})
            return self.source.begin(replace(place, batch=0, offset=0), self.split, self.rank, self.group)

    def _end_loop(self) -> None:
        position = self.position
        if self._is_left_between:
            self.one_pass = True
            self.found_out()
            raise RuntimeError(LEFT_BETWEEN)
        if self._step.asked:
            self._close_part()
            if self.gradients.undone:
                raise RuntimeError(LEFT_UNDONE)
        if self._step.running is not None:  # it was given a batch and has left before it trained on it
            self.gradients.forget_step()
        elif self._step.ahead and self._step.asked_of and not self.gradients.undone:
            self._make_up_for_steps()
        self._step.running, self.in_iteration, self.partial = None, False, False
        if self.world_size > 1 or self._local_samples != position.pass_samples:
            self._shared = self._local_samples
        self._done_with_ahead()
        self._step.since_step = self._given = 0
        self.gradients.end_loop()
        position.loop += 1
        position.batch = position.offset = 0
        self._loops_seen += 1
        self._after_loop()

    @property
    def _is_left_between(self) -> bool:
        """Whether the script has a batch that it has trained on in some passes only."""
        running = self._step.running
        if running is None or self._step.void or len(running[0].parts) == 1 or not self._watch.has_trained():
            return False
        return self.partial or not self.trained

    def _after_loop(self) -> None:
        """What follows a loop, such as a validation, sees the same model on all replicas."""

    def _left_early(self, end: Callable[[], None]) -> None:
        """Python drops what is raised while a generator is closed: keep it for the script's next call."""
        try:
            end()
        except BaseException as error:
            self._failure = error

    def raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _begin_pass(self) -> None:
        self._local_samples, self._samples_apart, self._samples_since, self._shared = 0, 0, 0, None
        self.position.pass_samples, self.position.pass_progress = 0, 0.0

    def _unit(self, unit: Unit, last: bool) -> Generator[Any, None, bool]:
        """Yield the passes of one batch to the script; returns False when it has to be done again."""
        split, unit = self.split, self._by_turns(unit)
        if not self._step.ahead:
            self._begin_step(split, unit)
        self.sides.open(begins_step=not self._step.ahead and self.step_count is None)
        self._open_unit(unit)
        self._watch.begin(divided=not last or len(unit.parts) > 1, first=self._given == 0)
        self._step.ahead.append(unit)
        self._batches_here += 1
        self._given += 1
        if self._ahead_watch is not None:
            self._ahead_watch.taken()
        self._step.asked = self._step.stepped = False
        redos = self._redos
        for number, part in enumerate(unit.parts):
            try:
                batch = unit.fetch()
            except GroupBroken:
                self._undo_step()
                yield from self._void_parts()
                return False
            self._step.batch = another(batch)
            self.partial = number < len(unit.parts) - 1
            self.gradients.begin_part(
                PartPlan(
                    part.samples,
                    unit.samples,
                    part.copies,
                    split.merged,
                    self._step.parts,
                    self.full_batch_size,
                    visible=last and not self.partial,
                    last=not self.partial,
                    per_step=self._added_up,
                )
            )
            self._place_group()
            self._step.asked_in_part = set()
            self._before_part(part)
            self._watch.begin_part(batch, part.samples)
            self.sides.begin_part()
            self.in_iteration, self._step.running = True, (unit, part)
            yield batch
            self._close_part()
            if self._redos != redos:  # perhaps seen at the end of a step of the script
                yield from self._void_parts()
                return False
        return True

    def _by_turns(self, unit: Unit) -> Unit:
        """A batch that all replicas compute whole counts as one replica's, by turns: each has sums of its own."""
        if self.world_size == 1 or unit.parts[0].count > 1:
            return unit
        counts = self._number_in_loop() % self.world_size == self.rank
        return replace(unit, parts=tuple(replace(part, counts=counts) for part in unit.parts))

    @property
    def learned(self) -> list[bool]:
        """What was found out about the script's losses and steps, for those who come later."""
        compared = [number < self._watch.check.done for number in range(len(COMPARED))]
        return [*self.gradients.weights.learned, *compared, self.one_pass]

    def learn(self, found: Sequence[bool]) -> None:
        *of_losses, one_pass = found
        compared, of_losses = of_losses[-len(COMPARED) :], of_losses[: -len(COMPARED)]
        self._watch.check.done = max(self._watch.check.done, sum(compared))
        self.gradients.weights.learn(*of_losses)
        self.one_pass |= one_pass

    @property
    def divides(self) -> bool:
        """Whether the script is given other batches than its own."""
        return not self.gradients.weights.whole and (self.world_size > 1 or self.split.passes > 1)

    def found_out(self) -> None:
        """Something about the script that whoever starts it again should know."""

    @property
    def can_do_again(self) -> bool:
        """Whether a batch that comes next can be given again, and nothing else with it.

        A function that draws batches may go by variables of the loop.
        """
        draws = isinstance(self.prepared.loader, Batches)
        return not (draws or self._counts_itself or (self.by_next if self.step_count is None else self._step.done))

    def all_say(self, mine: bool) -> bool:
        """Whether all replicas say so; every one of them calls this. Raises GroupBroken."""
        return all(says for (says,) in self.told_by_all([int(mine)]))

    def told_by_all(self, mine: Sequence[int]) -> Sequence[Sequence[int]]:
        """What all replicas tell; every one of them calls this. Raises GroupBroken."""
        group = self.group
        return [mine] if group is None or group.world_size == 1 else group.gather_ints(list(mine))

    def kept_beside(self) -> Sequence[Kept]:
        """What else the script changes with each batch."""
        return [*self._models_beside(), Undo(several=True)]

    def _models_beside(self) -> list[Kept]:
        models = [*self.prepared.modules, *self.prepared.companions]
        return [Beside(self.prepared, full=True), Buffers(models)]

    def mark_rows(self) -> Rows:
        """Tensors of the script that may hold something of each sample."""
        return ()

    def _void_parts(self) -> Iterator[Any]:
        """The last batch again, for nothing, until a step that has to be done again is over."""
        while self._step.void:
            self.gradients.begin_part(PartPlan(1, 1, visible=False, void=True))
            yield another(self._step.batch)

    def _close_part(self) -> None:
        """The script is done with the part it was given last; nothing where that was told before."""
        running, self._step.running = self._step.running, None
        if running is None:
            return
        unit, part = running
        partial, self.in_iteration = self.partial, False
        self.raise_failure()
        if not self._step.void:
            self._watch.end_part(
                part,
                unit.samples,
                last=not partial,
                alone=len(self._step.ahead) == 1,
                steps=len(self._step.asked_in_part),
                loop=self.position.loop,
            )
        if self.gradients.undone:
            self._undo_step()
            if not self._watch.restore() and self._step.stepped:
                self.found_out()
                raise RuntimeError(
                    f"a step of the script was made before a batch had to be done again; {GOES_BACK}"
                )
            return
        self._after_part(part)
        self.partial = False
        if not partial:
            self._end_unit(unit)

    def _open_unit(self, unit: Unit) -> None:
        """The script is given a batch next."""

    def _before_part(self, part: Part) -> None:
        """The script is given a part of a batch next."""

    def _after_part(self, part: Part) -> None:
        """The script is done with a part, and nothing of it has to be done again."""

    def _place_group(self) -> None:
        if self.group is not None:
            self.group.place = "backward", 0, self._number_in_loop() - 1, self.position.epoch

    def _begin_step(self, split: Split, unit: Unit) -> None:
        measured = self._measures_noise()
        units = self._units_per_step
        self._step.parts = units * split.passes_for(unit.samples) * split.replicas
        if measured and split.part_count(split.unit) == split.replicas * split.passes:
            # Measured on the gradient of a whole step of the script, of which this may be one batch of several.
            share = 1.0 if self.gradients.weights.sums else self._added_up / self.position.per_step
            self.meter.begin(
                split.unit * units if unit.samples == split.unit else unit.samples,
                self._step.parts,
                self._loss_scale() * share,
            )
        else:
            self.meter.skip()
        self.timer.start_step()
        self._step.started_s = time.perf_counter()
        self._step.before, self._step.unstepped_before = self._samples_counted(), self._step.unstepped
        self._step.credit = list(self.position.schedule_credit)

    def _samples_counted(self) -> tuple[int, int, int, int]:
        return self._local_samples, self._samples_apart, self._samples_since, self._step.since_step

    def _undo_step(self) -> None:
        """What was under way is done again, from the first batch of its step.

        A loop in steps does its whole step again, and until that is over whatever it does is void.
        """
        if self.by_next and self.step_count is None:
            raise RuntimeError(CANNOT_DO_AGAIN)
        self._step.ahead, self._step.asked_of = [], {}
        self._local_samples, self._samples_apart, self._samples_since, self._step.since_step = self._step.before
        self._step.unstepped = self._step.unstepped_before
        self.position.schedule_credit = list(self._step.credit)
        self._redos += 1
        self.gradients.forget_step()
        self.gradients.undone = True
        self._step.void = self.step_count is not None and self._batches_here > 0
        self.schedule_calls = [0] * len(self.schedule_calls)

    def _begin_script_step(self) -> None:
        """A step of a loop in steps begins, perhaps one that will be done again."""
        if not self._step.ahead:
            self._step.begun, self._step.begun_with = asdict(self.position), self._samples_counted()
            self.sides.begin_step()

    def _do_step_again(self) -> None:
        """Go back to where the step began that was undone."""
        self._step.void, self._step.done = False, 0
        self.position.load(self._step.begun)
        self._local_samples, self._samples_apart, self._samples_since, _ = self._step.begun_with
        self.sides.again()
        self.gradients.forget_step()
        self.gradients.load_accumulated({})
        self._step.unstepped, self._step.since_step = False, 0

    def _end_unit(self, unit: Unit) -> None:
        """The script is done with a batch, and goes on to the next."""
        position = self.position
        given = sum(part.samples for part in unit.parts if part.counts)
        self._local_samples += given
        if any(part.copies == 1 or part.samples < unit.samples for part in unit.parts):
            self._samples_apart += given
            self._samples_since += given
        self._step.since_step += 1
        if self._step.asked:
            if self.gradients.backwards:
                position.per_step = self._step.since_step
            self._step.since_step = 0
        elif self.gradients.backwards:
            self._step.unstepped = True
        if self.step_count is not None:
            self._step.done += 1
        if self.gradients.hidden:
            return
        self._end_step(unit)

    def _end_step(self, unit: Unit) -> None:
        """The gradients of all batches since the last time are combined."""
        position, split = self.position, self.split
        done = self._step.samples
        full = done == self.full_batch_size or (self._units_per_step == 1 and unit.samples == split.unit)
        passes = sum(len(ahead.parts) for ahead in self._step.ahead)
        sync_time_s = self._pace_step(passes)
        if full:
            shape = self._nodes, self.world_size, split.local_bsz, passes - 1
            self.timer.end_step(*shape, sync_time_s=sync_time_s)
        share = self._share_of_progress
        position.batch += len(self._step.ahead)
        position.offset += done
        position.samples += done
        position.pass_samples += done
        position.pass_progress += done * share
        position.iterations += 1
        self._step.progress_ahead += done * share
        if self._step.stepped:
            position.steps += 1
            position.progress_samples += self._step.progress_ahead
        if self._step.asked:
            self._step.progress_ahead = 0.0
        self._done_with_ahead()
        self._step.asked_of = {}
        self.meter.update()

    def _make_up_for_steps(self) -> None:
        """The loop has been left in the midst of a merged step: make it of what there is."""
        self.meter.drop()
        self.gradients.begin_part(PartPlan(1, self.world_size, per_step=self._added_up))
        self.in_iteration = True
        for optimizer in list(self._step.asked_of):
            if self.prepared.scalers:
                self.prepared.scalers[0].step(optimizer)
            else:
                optimizer.step()
            optimizer.zero_grad()
        for scaler in self.prepared.scalers:
            scaler.update()
        self._end_step(self._step.ahead[-1])

    def _done_with_ahead(self) -> None:
        if self.step_count is None:
            for _ in self._step.ahead:
                self.source.done_with()
        self._step.ahead = []

    def _end_script_step(self) -> None:
        """A step of a loop in steps is done."""
        self.raise_failure()
        self._close_part()
        if self._step.void:
            self._do_step_again()
            return
        if not self._step.ahead:
            for _ in range(self._step.done):
                self.source.done_with()
            self._step.done = 0
        # Of the whole step that it is part of, of which only some may be done.
        self.position.script_steps += self._share_of(self.full_batch_size) if self._by_progress else 1.0
        self.position.begun = False

    def _measures_noise(self) -> bool:
        return False

    def _loss_scale(self) -> float:
        return float(self.prepared.scalers[0].get_scale()) if self.prepared.scalers else 1.0

    def _pace_step(self, passes: int) -> float | None:
        """On an emulated node, wait until its GPU type would be done; the part of that spent on all-reduce, s."""
        if self.pace is None:
            return None
        shape = self._nodes, self.world_size, self.split.local_bsz, passes - 1
        self.pace.wait(self._step.started_s, *shape)
        return self.pace.sync_time_s(*shape)

    @property
    def _nodes(self) -> int:
        return self.group.nodes if self.group is not None else 1

    def _control_point(self) -> bool:
        """Do what the ranks agree on before the next batch. True when group, batch plan or position changed."""
        return False

    def _align(self, group: Group) -> None:
        """Before the first step: have replica 0's weights, and what it draws next.

        A script may set weights at random between `prepare` and its loop.
        """
        if self.position.iterations or self._aligned == group.generation:
            return
        self._aligned = group.generation
        if group.world_size == 1:
            return
        prepared = self.prepared
        beside = [t for module in prepared.companions for t in (*module.parameters(), *module.buffers())]
        group.broadcast_tensors([*prepared.parameters(), *prepared.buffers(), *beside], 0)
        mine = [script_random.state_of(generator) for generator in GLOBALS]
        for generator, state in zip(GLOBALS, group.gather_objects(mine)[0], strict=True):
            script_random.put_back(generator, state)

    def _look_at_parameters(self) -> None:
        """Take in parameters that the script has given an optimizer since, as they are on replica 0."""
        held, self._held = self._held, self.prepared.held_count()
        if held == self._held:
            return
        added = self.gradients.parameters_changed()
        if self.group is not None and added:
            self.group.broadcast_tensors(added, 0)

    def _end_epoch(self, epoch: int) -> None:
        """The script is done with a pass over the data."""
        self.raise_failure()
        self._close_part()
        position = self.position
        made = position.pass_progress / position.pass_samples if position.pass_samples else 1.0
        position.last_pass = made if self._by_progress else 1.0
        position.epochs_done += made
        position.epoch, position.loop, position.batch, position.offset = epoch + 1, 0, 0, 0
        position.begun, self._given = False, 0
        position.last_samples, position.pass_samples, position.pass_progress = position.pass_samples, 0, 0.0

    def _adapt(self) -> None:
        ScaledOptimizers(self.prepared.optimizers, self)
        for index, scheduler in enumerate(self.prepared.schedulers):
            adapt_scheduler(scheduler, index, self)
        for scaler in self.prepared.scalers:
            adapt_scaler(scaler, self)
        for item in self.prepared.objects:
            if isinstance(item, DataLoader | Batches):
                make_elastic(item, self)
            elif isinstance(item, DistributedDataParallel):
                rest_ddp(item)
        backward.watch(self.gradients)
        loader_watch.watch(self.sides)
        counted_loops.count_batches(self)
        watch_optimizers(self.prepared, lambda: self._batches_here if self._in_loop else None)
        alone.install()

    @property
    def objects(self) -> tuple[Any, ...]:
        return tuple(self.prepared.objects)
