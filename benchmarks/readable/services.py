"""What the services reach with models one can read, beside boosted trees: schedules by `qssf`, and nodes off."""

from __future__ import annotations

from coadapt.simulator.jobs.lengths import Lengths

from ..harness import table
from ..qssf_replay import Case, run

REFIT_H = 72.0


def figures() -> dict[str, float]:
    """Return the mean JCT on Venus' September with each model, fitted every three days."""
    found = {}
    for model in ("boosted", "additive"):
        services = {"durations": {"model": model, "refit_h": REFIT_H}}
        case = Case(model, "qssf", lengths=Lengths.FORETOLD, services=services)
        found[model] = run(case).figures()["mean_jct_s"]
    table(
        "Mean JCT under qssf with the service durations", ["model", "mean JCT, s"], list(map(list, found.items()))
    )
    return {
        "services/qssf_jct_s_boosted": found["boosted"],
        "services/qssf_jct_s_additive": found["additive"],
        "services/qssf_jct_additive_over_boosted": found["additive"] / found["boosted"],
    }
