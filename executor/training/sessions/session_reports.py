"""Tells the executor of the training: heartbeats and measurements."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ....core.completion import fraction_done
from ....core.reports import Habits, Progress
from ....core.training_config import TrainingConfig
from ...protocol import messages
from ..data.batches import Source
from ..gradients.gradient_noise import GradientNoise
from ..gradients.gradients import Gradients
from ..state.prepared import Prepared
from .channel import Channel
from .loop_state import LoopState
from .metrics import Metrics
from .peers import Peers
from .script_calls import ScriptCalls
from .script_progress import ROUNDING, ScriptProgress
from .step_scale import StepScale

HEARTBEAT_INTERVAL_S = 1.0
# The first reports come after so long, and then twice as long, so that whoever waits for a job sees it train.
REPORT_FIRST_S = 2.0


@dataclass(eq=False)
class SessionReports:
    """Sends reports at the intervals of the job's configuration; only rank 0 measures for the job."""

    config: TrainingConfig
    channel: Channel
    gpu_type: str
    prepared: Prepared
    metrics: Metrics
    loop: LoopState
    scale: StepScale
    progress: ScriptProgress
    calls: ScriptCalls
    gradients: Gradients
    noise: GradientNoise
    peers: Peers
    source: Source

    def __post_init__(self) -> None:
        self._sent_s = self._heartbeat_s = time.monotonic()
        self._interval_s = REPORT_FIRST_S
        self._workers = self.source.workers  # when the last report was sent

    def tell(self, generation: int) -> None:
        """Send a heartbeat and a report where they are due."""
        now = time.monotonic()
        if now - self._heartbeat_s >= HEARTBEAT_INTERVAL_S:
            self._heartbeat_s = now
            self.channel.send(messages.Heartbeat(generation, self.loop.position.steps))
        if now - self._sent_s >= min(self.config.report_interval_s, self._interval_s):
            self._interval_s *= 2
            self.send()

    def send(self) -> None:
        """Send rank 0's measurements since the last report."""
        self._sent_s = time.monotonic()
        rows = self.gradients.timer.rows()
        before, self._workers = self._workers, self.source.workers
        group = self.peers.group
        if group is None or group.rank != 0:
            return
        optimizer, scale, noise = self.prepared.optimizers[0], self.scale, self.noise
        split, metrics = scale.split, self.metrics.combined or dict(self.metrics.values)
        self.channel.send(
            messages.Report(
                generation=group.generation,
                gpu_type=self.gpu_type,
                nodes=group.nodes,
                replicas=group.replicas,
                rows=rows,
                grad_sqr=noise.sqr if noise.settled else None,
                grad_var=noise.var if noise.settled else None,
                batch_size=scale.full_batch_size,
                local_bsz=scale.local_bsz,
                accumulation=split.passes * scale.units_per_step - 1,
                lr=float(optimizer.param_groups[0]["lr"]) * self.calls.lr_factor(optimizer),
                gain=scale.gain,
                progress=self._progress(),
                metrics=metrics,
                habits=self._habits(),
                measured_at={name: self.metrics.at[name] for name in metrics if name in self.metrics.at},
                loader_workers=before if before == self._workers else 0,
            )
        )

    def _habits(self) -> Habits:
        position, weights, loop, scale = self.loop.position, self.gradients.weights, self.loop, self.scale
        return Habits(
            per_step=position.per_step,
            whole_batches=position.whole,
            one_pass=loop.one_pass,
            undivided=weights.whole or weights.counted or loop.by_next,
            least_local_bsz=scale.script_batch if weights.whole else scale.least_local_bsz,
        )

    def _progress(self) -> Progress:
        position, count, done = self.loop.position, self.loop.epoch_count, self.progress
        if self.loop.step_count is not None:  # its steps count what is to be counted
            asked, progress, passes = self.loop.step_count, position.script_steps, position.script_steps
        else:
            asked, progress, passes = count or 0, done.progress_epochs, done.passes_done
        return Progress(
            epoch=int(done.epochs_done + ROUNDING),
            epochs=None if count is None else round(count),
            fraction=fraction_done(self.config.count, asked, progress, passes),
            steps=position.steps,
            samples=position.samples,
            progress_samples=position.progress_samples,
        )
