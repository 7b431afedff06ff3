"""Fit `core/pace_profiles.json`: step times of five models on five GPU types, for pacing emulated nodes.

Usage: python -m benchmarks.fit_pace_profiles [output]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from coadapt.estimators.throughput import fit, step_time_s

from .harness import finish
from .measured_profiles import (
    GPU_TYPES,
    PARAMETERS,
    SOURCE,
    initial_batch_size,
    max_batch_size,
    measured,
    noise_scale,
)

OUTPUT = Path(__file__).resolve().parents[1] / "core" / "pace_profiles.json"


def pace_profiles() -> tuple[dict[str, object], float]:
    """Return the file's content, and the median relative error of its models on the rows they fit."""
    models: dict[str, object] = {}
    profiles: dict[str, object] = {}
    errors = []
    for model, parameters in PARAMETERS.items():
        gpu_types = {}
        for gpu_type in GPU_TYPES:
            data = measured(model, gpu_type)
            rows = data.profile
            params = fit(rows)
            predicted = step_time_s(params, rows.nodes, rows.replicas, rows.local_bsz, 0, rows.densest)
            error = np.abs(predicted / rows.step_time_s - 1)
            errors.append(error)
            gpu_types[gpu_type] = {
                "params": {name: float(f"{value:.6g}") for name, value in params.to_json().items()},
                "max_local_bsz": data.max_local_bsz,
                "median_rel_err": round(float(np.median(error)), 4),
                "rows": len(rows),
            }
        models[model] = {
            "parameters": parameters,
            "initial_batch_size": initial_batch_size(model),
            "max_batch_size": max_batch_size(model),
            "noise_scale": round(noise_scale(model), 1),
        }
        profiles[model] = gpu_types
    return {"source": SOURCE, "models": models, "profiles": profiles}, float(np.median(np.concatenate(errors)))


def main() -> None:
    content, error = pace_profiles()
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    output.write_text(json.dumps(content, indent=1) + "\n")
    print(f"wrote {output.name}")
    finish("fit_pace_profiles", {"median_rel_err": error})


if __name__ == "__main__":
    main()
