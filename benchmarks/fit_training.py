"""Fit `simulator/jobs/training.json`: epochs, steps and gradient noise over training, and step times of pipelines.

Usage: python -m benchmarks.fit_training [output]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from coadapt.simulator.jobs.applications import EPOCHS, Application
from coadapt.simulator.jobs.extrapolation import ExtrapolatedStepTimes
from coadapt.simulator.jobs.pipeline import PIPELINES
from coadapt.simulator.jobs.training_statistics import TrainingStatistics

from .harness import finish
from .measured_profiles import PARAMETERS, SOURCE, TRACES, measured

OUTPUT = Path(__file__).resolve().parents[1] / "simulator" / "jobs" / "training.json"
KNOTS = 11


def training(model: str) -> tuple[dict[str, object], float]:
    """Return a model's entry, and the median relative error of its gains at all batch sizes and epochs."""
    statistics = TrainingStatistics.read(TRACES / model)
    pipeline = PIPELINES.get(model)
    if pipeline is not None:
        statistics = statistics.from_batch_size(pipeline.micro_batches)
    epochs = min(EPOCHS[model], statistics.epochs)
    first = statistics.initial_batch_size
    ends = (np.arange(epochs) + 1) / epochs
    with np.errstate(divide="ignore"):
        phi = statistics.grad_var[:, :epochs] / statistics.grad_sqr[:, :epochs] * first
    # Of each epoch the middle of all batch sizes, in knots over the training.
    middle = np.median(np.where(np.isfinite(phi) & (phi > 0), phi, np.nan), axis=0)
    at = np.linspace(ends[0], 1.0, min(KNOTS, epochs))
    width = (ends[-1] - ends[0]) / max(len(at) - 1, 1) / 2 + 1e-9
    knots = [float(np.nanmedian(middle[np.abs(ends - x) <= width])) for x in at]
    fitted = np.exp(np.interp(ends, at, np.log(knots)))
    errors = []
    for size in statistics.batch_sizes:
        for epoch in range(epochs):
            gain = size / first * (fitted[epoch] + first) / (fitted[epoch] + size)
            errors.append(abs(gain / statistics.gain(size, epoch) - 1))
    entry: dict[str, object] = {
        "epochs": epochs,
        "progress": round(float(statistics.boundaries[epochs - 1]), 1),
        "initial_batch_size": first,
        "max_batch_size": statistics.max_batch_size,
        "min_local_bsz": _least_local_bsz(model) if pipeline is None else pipeline.micro_batches,
        "at": [round(float(x), 4) for x in at],
        "noise_scale": [float(f"{x:.4g}") for x in knots],
        "median_rel_err_of_gain": round(float(np.median(errors)), 4),
    }
    if pipeline is not None:
        entry["gpus_per_replica"] = dict(pipeline.stages)
        entry["throughput"], entry["median_rel_err_of_step"] = throughput(model)
    return entry, float(np.median(errors))


def throughput(model: str) -> tuple[dict[str, dict[str, float]], float]:
    """Return parameters of a pipeline by GPU type, and the median relative error of its step times."""
    known = Application.read(TRACES / model, PIPELINES[model].stages).step_times
    fitted, errors = {}, []
    for gpu_type, times in known.items():
        assert isinstance(times, ExtrapolatedStepTimes)
        fitted[gpu_type] = {name: float(f"{x:.6g}") for name, x in times.fitted.params.to_json().items()}
        for shape, size in times.samples():
            errors.append(abs(times.fitted.at(shape, size).step_s / times.at(shape, size).step_s - 1))
    return fitted, round(float(np.median(errors)), 5)


def _least_local_bsz(model: str) -> int:
    return min(int(measured(model, t).profile.local_bsz.min()) for t in ("t4", "a100", "rtx"))


def main() -> None:
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    fitted = {model: training(model) for model in (*PARAMETERS, *PIPELINES)}
    content = {"source": SOURCE, "models": {model: entry for model, (entry, _) in fitted.items()}}
    output.write_text(json.dumps(content, indent=1) + "\n")
    print(f"wrote {output}")
    finish("fit_training", {f"{model}_gain_rel_err": error for model, (_, error) in fitted.items()})


if __name__ == "__main__":
    main()
