"""The prepared model: DDP whose inside is replaced at each regroup, and how its gradients are combined."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from .gradient_noise import ConsecutiveGradients, GradientNoise, Preconditioner, flat_sqnorm, total
from .group import Group, GroupBroken
from .step_timer import StepTimer

# Since torch 2.13 the option of this meaning has another name.
_BUFFER_OPTION = (
    "forward_sync_buffers"
    if "forward_sync_buffers" in inspect.signature(DistributedDataParallel.__init__).parameters
    else "broadcast_buffers"
)


class ElasticModel(nn.Module):
    """Stands for the user's module and runs it through the DDP of the current group.

    `state_dict`, parameter and buffer names are the bare module's, and so are attributes
    that this class does not have.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        object.__setattr__(self, "_parallel", None)  # not a submodule: its parameters are the module's

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inner = self._parallel if self._parallel is not None and torch.is_grad_enabled() else self.module
        return inner(*args, **kwargs)

    def run_in(self, parallel: DistributedDataParallel | None) -> None:
        object.__setattr__(self, "_parallel", parallel)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.load_state_dict(*args, **kwargs)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Parameter]]:
        return self.module.named_parameters(*args, **kwargs)

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Tensor]]:
        return self.module.named_buffers(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


@dataclass(frozen=True)
class DdpOptions:
    """What a script that already used DDP had asked of it."""

    find_unused_parameters: bool = False
    static_graph: bool = False

    @classmethod
    def of(cls, parallel: DistributedDataParallel) -> DdpOptions:
        return cls(bool(parallel.find_unused_parameters), bool(parallel.static_graph))


@dataclass
class PassPlan:
    """One pass of a step on this rank: `samples` (0: padding) of the step's `batch_size`."""

    samples: int
    batch_size: int
    parts: int  # of the whole step that hold samples, over all ranks and passes
    last: bool
    passes: int


@dataclass
class _Measurement:
    """Norms of one step, still on the device. Gradients were multiplied by `loss_scale`."""

    batch_size: int
    parts: int
    preconditioned: bool
    loss_scale: float
    sum_m_sqnorm: Tensor | None = None
    mean_sqnorm: Tensor | None = None
    consecutive: Tensor | None = None


@dataclass
class _Bucket:
    flat: Tensor
    scale: Tensor | None


@dataclass
class Gradients:
    """Combines the gradients of one optimizer step over passes and replicas, and measures their noise.

    The step's gradient is `sum over parts of samples x mean gradient of the part / batch size`: the mean over all
    its samples, however unevenly they are split. Earlier passes are stashed, so that meanwhile `.grad` is None and
    the script's `optimizer.step()` has nothing to do. When a collective fails the gradients become None, too,
    and `undone` is set.
    """

    module: nn.Module
    noise: GradientNoise
    preconditioner: Preconditioner
    timer: StepTimer
    group: Group | None = None
    undone: bool = False
    loss_scale: float = 1.0
    _plan: PassPlan | None = None
    _measured: _Measurement | None = None
    _pending: _Measurement | None = None
    _stash: dict[Tensor, Tensor] = field(default_factory=dict)
    _local: list[Tensor] = field(default_factory=list)  # samples x squared norm, of parts of this rank
    _buckets: list[_Bucket] = field(default_factory=list)
    _works: list[Any] = field(default_factory=list)
    _norm_work: tuple[Any, Tensor] | None = None
    _consecutive: ConsecutiveGradients = field(default_factory=ConsecutiveGradients)
    _consecutive_scale: float = 1.0
    _pass_hooks: list[Any] = field(default_factory=list)
    _parallel: DistributedDataParallel | None = None

    def attach(self, group: Group, options: DdpOptions) -> DistributedDataParallel:
        """The module's DDP in `group`, all ranks holding the same parameters already."""
        self.group = group
        self.forget_step()
        self._consecutive.clear()
        self._pending = None
        no_buffers: dict[str, Any] = {_BUFFER_OPTION: False}
        with group.collective():
            parallel = DistributedDataParallel(
                self.module,
                device_ids=[group.device] if group.device.type == "cuda" and not spans_gpus(self.module) else None,
                **no_buffers,
                init_sync=False,
                find_unused_parameters=options.find_unused_parameters,
                static_graph=options.static_graph,
            )
        parallel.register_comm_hook(self, lambda gradients, bucket: gradients._on_bucket(bucket))
        self._parallel = parallel
        return parallel

    def settle_buckets(self) -> None:
        """Let DDP agree on its final buckets here, where a failure can be handled, and not inside `forward`."""
        if self._parallel is not None and self.group is not None:
            with self.group.collective():
                self._parallel.reducer._rebuild_buckets()

    def begin_pass(self, plan: PassPlan, first: bool, measure: bool, loss_scale: float) -> None:
        """The next backward is that of `plan`."""
        self._plan = plan
        if first:
            self.forget_step()
            self.loss_scale = loss_scale
            if measure and plan.parts <= plan.batch_size:
                self._measured = _Measurement(plan.batch_size, plan.parts, self.preconditioner.ready, loss_scale)
            if not measure:
                self._consecutive.clear()
        if self._parallel is not None:
            self._parallel.require_backward_grad_sync = plan.last
        if not plan.last and not self._pass_hooks:
            self._pass_hooks = [
                parameter.register_post_accumulate_grad_hook(self._on_accumulated)
                for parameter in self.module.parameters()
                if parameter.requires_grad
            ]
        elif plan.passes == 1 and self._pass_hooks:
            self._remove_pass_hooks()

    def forget_step(self) -> None:
        """Drop what is left of a step that did not come to its end."""
        self.undone = False
        self._measured = self._norm_work = None
        self._stash, self._local, self._buckets, self._works = {}, [], [], []

    @property
    def partial(self) -> bool:
        """Whether the running pass is one before the last of its step."""
        return self._plan is not None and not self._plan.last

    def update_noise(self) -> None:
        """Hand the norms of the finished step to the estimator. Waits for the device when it was measured."""
        taken, self._pending = self._pending, None
        if taken is None:
            return
        factor = taken.loss_scale**2
        if taken.consecutive is not None:
            diff, total = (taken.consecutive / factor).tolist()
            self.noise.update_consecutive(diff, total, taken.batch_size, taken.preconditioned)
        elif taken.sum_m_sqnorm is not None and taken.mean_sqnorm is not None:
            self.noise.update(
                float(taken.sum_m_sqnorm) / factor,
                taken.parts,
                taken.batch_size,
                float(taken.mean_sqnorm) / factor,
                taken.preconditioned,
            )

    def detach(self) -> None:
        self._remove_pass_hooks()
        self._parallel = None

    def _remove_pass_hooks(self) -> None:
        for handle in self._pass_hooks:
            handle.remove()
        self._pass_hooks = []

    @torch.no_grad()
    def _on_accumulated(self, parameter: Tensor) -> None:
        plan, grad = self._plan, parameter.grad
        if plan is None or plan.last or grad is None:
            return
        parameter.grad = None
        if plan.samples == 0:
            return
        if self._measured is not None:
            scale = self.preconditioner.scale(parameter) if self._measured.preconditioned else None
            self._local.append(flat_sqnorm(grad, scale) * plan.samples)
        stashed = self._stash.get(parameter)
        if stashed is None:
            self._stash[parameter] = grad.mul_(plan.samples)
        else:
            stashed.add_(grad, alpha=plan.samples)

    @torch.no_grad()
    def _on_bucket(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        if bucket.index() == 0:
            # Runs before DDP copies the buckets back into `.grad`, since DDP asks later.
            torch.autograd.Variable._execution_engine.queue_callback(self._finish_backward)
        flat = bucket.buffer()
        with suppress(GroupBroken):
            self._combine(bucket, flat)
        done: torch.futures.Future[Tensor] = torch.futures.Future()
        done.set_result(flat)
        return done

    def _combine(self, bucket: dist.GradBucket, flat: Tensor) -> None:
        plan, group = self._plan, self.group
        if plan is None or group is None:
            raise RuntimeError("backward outside of the training loop: iterate the loader that prepare returned")
        scale = None
        if self._measured is not None:
            if self._measured.preconditioned:
                scale = self.preconditioner.flat_scale(flat, bucket.parameters(), bucket.gradients())
            if plan.samples and plan.parts > 1:
                self._local.append(flat_sqnorm(flat, scale) * plan.samples)
        if plan.samples == 0:
            flat.zero_()  # not times 0: the padding's gradient may be infinite
        elif plan.samples != plan.batch_size:
            flat.mul_(plan.samples / plan.batch_size)
        if self._stash:
            for parameter, grad in zip(bucket.parameters(), bucket.gradients(), strict=True):
                stashed = self._stash.pop(parameter, None)
                if stashed is not None:
                    grad.add_(stashed, alpha=1 / plan.batch_size)
        self._buckets.append(_Bucket(flat, scale))
        if group.world_size == 1:
            return
        with group.collective():
            self._works.append(dist.all_reduce(flat, async_op=True))
            if bucket.is_last() and self._measured is not None and plan.parts > 1:
                total = self._local_norm(flat.device)
                self._norm_work = dist.all_reduce(total, async_op=True), total

    def _local_norm(self, device: torch.device) -> Tensor:
        if not self._local:
            return torch.zeros((), dtype=torch.float64, device=device)
        return total(self._local).to(device)

    @torch.no_grad()
    def _finish_backward(self) -> None:
        """After the last gradient of the backward: wait for the others, then measure or undo."""
        group = self.group
        if group is None:
            return
        self.timer.backward_done()
        try:
            if self._works:
                with group.collective():
                    for work, bucket in zip(self._works, self._buckets, strict=True):
                        group.wait(work, bucket.flat)
                    if self._norm_work is not None:
                        group.wait(*self._norm_work)
                    _wait_for_devices(group, {bucket.flat.device for bucket in self._buckets})
            elif group.broken:
                raise GroupBroken
        except GroupBroken:
            self.undone = True
            self._measured = None
            torch.autograd.Variable._execution_engine.queue_callback(self._undo)
        self.timer.sync_done()
        if self._measured is not None:
            self._measure(self._measured)
        self._works, self._buckets, self._measured = [], [], None

    def _measure(self, measured: _Measurement) -> None:
        if measured.parts > 1:
            measured.sum_m_sqnorm = (
                self._norm_work[1]
                if self._norm_work is not None
                else self._local_norm(self._buckets[0].flat.device)
            )
            measured.mean_sqnorm = total([flat_sqnorm(bucket.flat, bucket.scale) for bucket in self._buckets])
        else:
            if self._consecutive_scale != measured.loss_scale:
                self._consecutive.clear()
                self._consecutive_scale = measured.loss_scale
            for index, bucket in enumerate(self._buckets):
                self._consecutive.push(index, bucket.flat, measured.batch_size, bucket.scale)
            measured.consecutive = self._consecutive.take(measured.batch_size)
        self._pending = measured

    def _undo(self) -> None:
        """Runs after DDP's own end of the backward."""
        for parameter in self.module.parameters():
            parameter.grad = None


def spans_gpus(module: nn.Module) -> bool:
    """Whether a replica is cut into stages on GPUs of their own."""
    return len({parameter.device for parameter in module.parameters()}) > 1


def _wait_for_devices(group: Group, devices: Iterable[torch.device]) -> None:
    """With NCCL a failed all-reduce raises nothing: see it through before the optimizer uses its result."""
    for device in devices:
        if device.type != "cuda":
            continue
        done = torch.cuda.current_stream(device).record_event()
        while not done.query():
            if group.broken:
                raise GroupBroken
            time.sleep(2e-5)
