"""Training in a process group: what `torchrun`, managed and profiled runs share.

The script drives it: it asks for epochs and steps, takes batches and parts of them, goes backward and makes
steps. Replicas agree between two steps on what they have to agree on.
A session puts together the pieces that do this, and hears of their events.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from ....core.batch_plan import BatchPlan
from ....core.training_config import TrainingConfig
from ....estimators.pace import Pace
from ..checks.batch_memory import Buffers
from ..checks.batch_watch import BatchWatch, Kept
from ..checks.left_out import check_schedulers, watch_optimizers
from ..collective.group import Group
from ..data import alone, counted_loops, loader_watch
from ..data.batches import Source
from ..data.drawn import Batches
from ..data.elastic_loader import make_elastic
from ..data.loader import source_of
from ..data.side_loaders import SideLoaders
from ..gradients import backward
from ..gradients.gradient_noise import GradientNoise, Preconditioner
from ..gradients.gradients import Gradients
from ..gradients.noise_meter import NoiseMeter
from ..gradients.step_timer import StepTimer
from ..gradients.stepping import ScaledOptimizers, adapt_scaler, adapt_scheduler
from ..losses.loss_kind import Kind, as_weight
from ..sharding.models import add_up_gradients, take_place
from ..state.beside import Beside
from ..state.prepared import Prepared, rest_ddp
from ..state.training_state import Position, TrainingState
from ..variables.script_undo import Undo
from .batch_loop import BatchLoop
from .batch_parts import BatchParts
from .findings import Findings
from .loop_events import LoopEvents
from .loop_state import LoopState
from .metrics import Metrics
from .peers import Peers
from .same_parameters import SameParameters
from .sample_counts import SampleCounts
from .script_calls import ScriptCalls
from .script_loops import ScriptLoops
from .script_progress import ScriptProgress
from .script_steps import ScriptSteps
from .step_course import StepCourse
from .step_guard import StepGuard
from .step_in_hand import StepInHand
from .step_scale import StepScale


class GroupSession(LoopEvents):
    """Trains in a process group, with the pieces that all ways to run share; each way adds its own.

    It is a `Session` for the script, the `ScriptEvents` of its loops, and what is `Watched` of a batch.
    """

    def __init__(self, prepared: Prepared, config: TrainingConfig, loss: Kind = Kind.UNKNOWN) -> None:
        self.config = config
        self.prepared = prepared
        self.device = prepared.device
        if prepared.shards is not None:
            take_place(prepared.modules, prepared.shards)
            add_up_gradients(prepared.modules)
        self.script_seed = torch.initial_seed() % 2**62  # rank 0's counts, also for those that come later
        self.metrics = Metrics()
        self.peers = Peers()
        script_batch = config.initial_batch_size or prepared.batch_size
        self.noise = GradientNoise(initial_batch_size=script_batch)
        schedules = len(prepared.schedulers)
        self.position = Position(schedule_credit=[0.0] * schedules)
        self.step = StepInHand(schedule_calls=[0] * schedules)
        self.loop = LoopState(self.position, self.step, counts_itself=counted_loops.is_taken_before())
        self.samples = SampleCounts()
        self.source: Source = source_of(prepared.loader, self.epoch_seed, script_batch)
        self.progress = ScriptProgress(config.count, self.loop, self.source)
        self.preconditioner = Preconditioner(*prepared.optimizers)
        self.guard = StepGuard(prepared, self.loop, self.peers)
        self.gradients = Gradients(
            prepared.parameters,
            NoiseMeter(self.noise, self.preconditioner),
            StepTimer(self.device),
            self.peers.tell,
            self.guard,
            loss,
            self._before_backward,
        )
        self.scale = StepScale(
            script_batch, prepared.least_local_bsz, self.loop, self.peers, self.gradients.weights, self.noise
        )
        self.watch = BatchWatch(prepared, self.gradients, self, loss)
        self.findings = Findings(self.gradients.weights, self.watch, self.loop)
        self.calls = ScriptCalls(
            prepared, config, self.loop, self.scale, self.progress, self.gradients, self.watch, self._mean_of_all
        )
        self.sides = SideLoaders(self.loop)
        self.same = SameParameters(prepared, self.position, self.gradients, self.peers)
        self.course = StepCourse(
            prepared, self.loop, self.samples, self.scale, self.peers, self.gradients, self.source, self
        )
        self.parts = BatchParts(
            self.loop, self.scale, self.peers, self.gradients, self.watch, self.sides, self.course, self
        )
        self.batch_loop = BatchLoop(
            prepared,
            self.source,
            self.loop,
            self.samples,
            self.scale,
            self.peers,
            self.gradients,
            self.watch,
            self.sides,
            self.course,
            self.parts,
            self,
        )
        self.script_steps = ScriptSteps(
            self.loop,
            self.samples,
            self.scale,
            self.progress,
            self.gradients,
            self.sides,
            self.source,
            self.parts,
            self,
        )
        self.script_loops = ScriptLoops(self.loop, self.progress, self)
        self.state = TrainingState(prepared, self.noise, self.position)
        self.state.extras |= {
            "source": (self.source.state_dict, self.source.load_state_dict),
            "sides": (self.sides.capture, self.sides.load),
            "seed": (self._seed, self._take_seed),
            "learned": (self.findings.learned, self.findings.learn),
            "batches": (self._found_of_batches, self.watch.take_over),
        }
        self._adapt()

    def _adapt(self) -> None:
        """Let the script's own objects, and Python's, go through the session."""
        ScaledOptimizers(self.prepared.optimizers, self.calls)
        for index, scheduler in enumerate(self.prepared.schedulers):
            adapt_scheduler(scheduler, index, self.calls)
        for scaler in self.prepared.scalers:
            adapt_scaler(scaler, self.calls)
        for item in self.prepared.objects:
            if isinstance(item, DataLoader | Batches):
                make_elastic(item, self.batch_loop)
            elif isinstance(item, DistributedDataParallel):
                rest_ddp(item)
        backward.watch(self.gradients)
        loader_watch.watch(self.sides)
        counted_loops.count_batches(self.batch_loop)
        watch_optimizers(self.prepared, self._batches_in_loop)
        alone.install()

    def _batches_in_loop(self) -> int | None:
        return self.loop.batches_here if self.loop.in_loop else None

    # --- what the script calls (`session.Session`) ----------------------------------------------------------

    @property
    def objects(self) -> tuple[Any, ...]:
        return tuple(self.prepared.objects)

    @property
    def rank(self) -> int:
        return self.peers.rank

    @property
    def world_size(self) -> int:
        return self.peers.world_size

    def epochs(self, count: int) -> Iterator[int]:
        return self.script_loops.epochs(count)

    def steps(self, count: int) -> Iterator[int]:
        return self.script_loops.steps(count)

    def report(self, metrics: dict[str, Any], how: dict[str, str]) -> None:
        self.metrics.add(metrics, how, self.progress.here)

    def combine(self, value: Any, how: str) -> Any:
        """Return the value over all replicas, now. All of them call this. Raises ValueError for an unknown way."""
        over = self.mean_over(value) if self.world_size > 1 else None
        return self.peers.combine(value, how, self.samples.weight, over)

    def _mean_of_all(self, value: float) -> float:
        return float(self.combine(value, "mean"))

    def weigh(self, weight: Any) -> None:
        unit, part = self.step.running or (None, None)
        of_part = unit is not None and part is not None and part.samples < unit.samples
        self.gradients.weights.weigh(as_weight(weight, of_part))

    # --- what the process that runs the script asks ---------------------------------------------------------

    @property
    def group(self) -> Group | None:
        return self.peers.group

    @property
    def one_pass(self) -> bool:
        return self.loop.one_pass

    @one_pass.setter
    def one_pass(self, is_so: bool) -> None:
        self.loop.one_pass = is_so

    @property
    def pace(self) -> Pace | None:
        """The pace of an emulated node; None on a real device."""
        return self.course.pace

    @property
    def plan(self) -> BatchPlan:
        """The batch plan in force."""
        return self.scale.plan

    def raise_failure(self) -> None:
        """Raise what was raised while Python closed one of the script's loops."""
        self.parts.raise_failure()

    # --- what begins and ends (`script_loops.ScriptEvents`) -------------------------------------------------

    @property
    def completed(self) -> bool:
        """Whether what was asked for is done or the target is reached."""
        return self.progress.completed

    def begin_script(self) -> None:
        check_schedulers(self.prepared)

    def begin_pass(self) -> None:
        self.batch_loop.begin_pass()

    def end_pass(self, epoch: int) -> None:
        self.batch_loop.end_pass(epoch, self.progress.by_progress)

    def begin_script_step(self) -> None:
        self.script_steps.begin()

    def end_script_step(self) -> None:
        self.script_steps.end()

    def show(self, progress: float, count: int) -> int:
        return self.progress.show(progress, count)

    def read_on(self) -> Generator[Any, None, bool]:
        return self.batch_loop.read_on()

    # --- what the checks of a batch ask (`batch_watch.Watched`) ---------------------------------------------

    @property
    def by_next(self) -> bool:
        return self.loop.by_next

    @property
    def divides(self) -> bool:
        """Whether the script is given other batches than its own."""
        return not self.gradients.weights.whole and (self.world_size > 1 or self.scale.split.passes > 1)

    @property
    def can_do_again(self) -> bool:
        """Whether the batch that comes next can be given again, and nothing else with it.

        A function that draws batches may depend on variables of the loop.
        """
        loop = self.loop
        draws = isinstance(self.prepared.loader, Batches)
        return not (draws or loop.counts_itself or (self.step.done if loop.by_steps else loop.by_next))

    def tell(self, sentence: str) -> None:
        self.peers.tell(sentence)

    def all_say(self, mine: bool) -> bool:
        return self.peers.all_say(mine)

    def told_by_all(self, mine: Sequence[int]) -> Sequence[Sequence[int]]:
        return self.peers.told_by_all(mine)

    def kept_beside(self) -> Sequence[Kept]:
        return [*self.models_beside(), Undo(several=True)]

    def models_beside(self) -> list[Kept]:
        """Keep what batches change in the models, as it is now."""
        models = [*self.prepared.modules, *self.prepared.companions]
        return [Beside(self.prepared, full=True), Buffers(models)]

    def _before_backward(self) -> bool:
        return self.calls.before_backward()

    # --- what others go on with -----------------------------------------------------------------------------

    def mean_over(self, value: Any) -> float | None:
        """Return what a mean is over, where that is seen."""
        return None

    def epoch_seed(self, epoch: int) -> int:
        """Return the seed of an epoch's order, which is the sum that a `DistributedSampler` would seed with."""
        return self.config.seed + self.script_seed + epoch

    def _seed(self) -> int:
        return self.script_seed

    def _take_seed(self, seed: int) -> None:
        self.script_seed = seed

    def _found_of_batches(self) -> dict[str, Any]:
        return self.watch.found
