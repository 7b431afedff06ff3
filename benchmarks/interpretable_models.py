"""Models that one can read: exactness, accuracy, search, speed, distillation, robustness, and a correction.

    python -m benchmarks.interpretable_models
    python -m benchmarks.interpretable_models --only exactness,speed

Six tasks: arrivals and lengths of jobs on Venus, speeds of pairs of jobs on one GPU, and three tables that
scikit-learn ships. Peers are a random forest, LightGBM, XGBoost and a perceptron at their defaults, on the same
rows and features, divided by time where there are times. Lucid's tables are for measuring only: nothing that was
fitted to them is kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from .arguments import some_of
from .harness import finish, needs
from .readable import accuracy, distilling, exactness, nodes, robustness, searching, services, speed
from .readable.tasks import NEEDED

PARTS: Mapping[str, Callable[[], dict[str, float]]] = {
    "exactness": exactness.figures,
    "accuracy": accuracy.figures,
    "search": searching.figures,
    "trials": searching.trials,
    "speed": speed.figures,
    "distil": distilling.figures,
    "robustness": robustness.figures,
    "correction": robustness.correction,
    "services": services.figures,
    "nodes": nodes.figures,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=some_of(tuple(PARTS)), default=list(PARTS), metavar="PART,…",
                        help=f"parts to run, of {', '.join(PARTS)}")  # fmt: skip
    only = parser.parse_args().only
    needs(*NEEDED)
    figures: dict[str, float] = {}
    for part in only:
        figures |= PARTS[part]()
    finish("interpretable_models", {name: float(f"{value:.6g}") for name, value in figures.items()})


if __name__ == "__main__":
    main()
