"""How well arrivals of the next ten minutes, and of those an hour ahead, are foretold.

    python -m benchmarks.arrival_forecast

GPU jobs of Venus by ten minutes (Helios, SC'21). All are fitted to April to August of 2020 and judged by 1 to 28
September, by what was before each slot alone. Peers are the forecast that Lucid's authors published of the same
slots (ASPLOS'23, Table 4.7), the last value, the median of the months before. A random forest, LightGBM, XGBoost
and a perceptron stand beside them at their defaults, on our features.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from datetime import UTC, datetime

import numpy as np
from coadapt.estimators import arrivals
from coadapt.estimators.arrivals import ArrivalSeries, Quantity
from coadapt.estimators.interpretable.table import Floats
from coadapt.estimators.node_features import Calendar

from .harness import DATA, finish, needs, table
from .readable.fits import PEERS, peer

COUNTS = DATA / "lucid" / "venus_cluster_throughput_10min.csv.gz"
PUBLISHED = DATA / "lucid" / "venus_throughput_pred.csv"
TASKS: tuple[tuple[str, Quantity, int], ...] = (("jobs", "jobs", 1), ("gpus", "gpus", 1), ("jobs_1h", "jobs", 6))


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def read() -> tuple[ArrivalSeries, int, dict[str, Floats]]:
    """Return the series, the slot at which September begins, and what was published of each slot from there on."""
    with gzip.open(COUNTS, "rt") as file:
        counts = list(csv.DictReader(file))
    with PUBLISHED.open() as file:
        said = list(csv.DictReader(file))
    jobs, gpus = (np.array([float(row[name]) for row in counts]) for name in ("submit_gpu_job", "submit_gpu_num"))
    first = [row["time"] for row in counts].index(said[0]["time"])
    if [row["time"] for row in counts[first:]] != [row["time"] for row in said]:
        raise SystemExit(f"{PUBLISHED}: is of other slots than {COUNTS}")
    published = {
        quantity: np.array([float(row[name]) for row in said])
        for quantity, name in (("jobs", "pred_gpu_job"), ("gpus", "pred_gpu_num"))
    }
    return ArrivalSeries(seconds(counts[0]["time"]), jobs, gpus), first, published


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    needs(COUNTS, PUBLISHED)
    series, first, published = read()
    calendar, past = Calendar(), series.of(0, first)
    shown, figures = list[list[object]](), dict[str, float]()
    for name, quantity, ahead in TASKS:
        counts = series.jobs if quantity == "jobs" else series.gpus
        truth = counts[first:]
        judged = arrivals.rows(series, quantity, ahead, calendar)[first - ahead + 1 : len(series) - ahead + 1]
        began = time.perf_counter()
        model = arrivals.fit_one(past, quantity, ahead, calendar)
        figures[f"fit_s_{name}"] = time.perf_counter() - began
        said = {
            "": np.maximum(model.predict(judged), 0.0),
            "published": published[quantity],  # by what was known an hour before, as its authors tell
            "last_value": counts[first - ahead : len(series) - ahead],
            "median": np.full(len(truth), np.median(counts[:first])),
        }
        taught = arrivals.table_of(past, quantity, ahead, calendar)
        for other in PEERS:
            said[other] = np.maximum(peer(other, taught)(judged), 0.0)
        for who, values in said.items():
            error = float(np.abs(values - truth).mean())
            figures[f"mae_{name}_{who}" if who else f"mae_{name}"] = error
            shown.append([name, who or "ours", error])
        figures[f"scores_{name}"] = model.numbers
    table("Mean absolute error, September", ["what", "forecast", "error"], shown)
    finish("arrival_forecast", {name: round(value, 4) for name, value in figures.items()})


if __name__ == "__main__":
    main()
