"""What Sia's evaluation says: tables 3.3 and 3.4 and what the text says of its figures, and its public simulator.

Section, table and figure numbers are those of the thesis (S. Jayaram Subramanya, CMU-CS-25-136, 2025), whose
chapter 3 is the paper of SOSP'23. Hours, unless a name says otherwise; a pair is mean and ± of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """A figure of the paper. `spread`: what stands behind its ±; 0: nothing does."""

    mean: float
    spread: float = 0.0


POLICIES = ("sia", "pollux", "shockwave", "themis", "gavel")
# In the order of table 3.3's columns; names are those of `simulator.metrics`, and `max_contention`.
TABLE_3_3_FIGURES = (
    "mean_jct_h", "p99_jct_h", "makespan_h", "gpu_hours_per_job", "mean_contention", "max_contention",
    "restarts_per_job",
)  # fmt: skip
_TABLE_3_3 = {
    ("philly", "sia"): ((0.6, 0.1), 9.5, (14.2, 1.9), (4.0, 0.7), 6.9, 31, 2.9),
    ("philly", "pollux"): ((1.0, 0.1), 14.9, (24.5, 7.9), (5.6, 1.1), 7.2, 42, 5.8),
    ("philly", "gavel"): ((1.9, 0.3), 30.0, (33.8, 8.6), (9.0, 6.3), 9.9, 56, 5.7),
    ("helios", "sia"): ((0.7, 0.1), 10.9, (14.9, 1.7), (4.8, 0.7), 7.4, 32, 3.4),
    ("helios", "pollux"): ((1.0, 0.2), 15.0, (25.5, 8.0), (5.9, 0.7), 6.9, 47, 5.3),
    ("helios", "gavel"): ((2.5, 0.9), 38.7, (43.0, 10.9), (12.1, 3.7), 9.2, 48, 7.5),
    ("newtrace", "sia"): ((0.7, 0.1), 4.6, (52.2, 1.3), (3.0, 0.1), 13, 69, 5.0),
    ("newtrace", "pollux"): ((1.5, 0.2), 10.3, (62.3, 4.6), (3.4, 0.2), 22, 85, 5.4),
    ("newtrace", "gavel"): ((11.3, 3.0), 98.1, (110, 21.5), (6.4, 1.1), 96, 243, 4.5),
}
TABLE_3_4_FIGURES = ("mean_jct_h", "p99_jct_h", "makespan_h", "gpu_hours_per_job")
_TABLE_3_4 = {
    "sia": (1.9, 18.1, 21.4, 8.4),
    "pollux": (2.0, 19.3, 21.7, 8.6),
    "shockwave": (3.6, 32.8, 35.0, 12.5),
    "themis": (5.4, 44.7, 49.7, 17.2),
    "gavel": (4.3, 37.1, 44.3, 15.3),
}


def _said(value: float | tuple[float, float]) -> Said:
    return Said(*value) if isinstance(value, tuple) else Said(value)


TABLE_3_3 = {
    row: dict(zip(TABLE_3_3_FIGURES, map(_said, values), strict=True)) for row, values in _TABLE_3_3.items()
}
TABLE_3_4 = {
    policy: dict(zip(TABLE_3_4_FIGURES, map(_said, values), strict=True)) for policy, values in _TABLE_3_4.items()
}
TABLE_3_4["sia"]["restarts_per_job"], TABLE_3_4["pollux"]["restarts_per_job"] = Said(2.6), Said(5.1)

# Section 3.5.5, on the mixed cluster with the Helios traces.
FIGURE_3_7 = {
    "sia": {"worst_rho": Said(1.2), "unfair_fraction": Said(0.003)},
    "pollux": {"worst_rho": Said(4.6), "unfair_fraction": Said(0.28)},
    "gavel": {"worst_rho": Said(27.8), "unfair_fraction": Said(0.15)},
    "shockwave": {"worst_rho": Said(3.3), "unfair_fraction": Said(0.14)},
}
# Section 3.5.7: milliseconds per round on 64 GPUs with the Helios traces.
POLICY_TIME = {
    "sia": {"policy_median_ms": Said(96), "policy_p95_ms": Said(426)},
    "pollux": {"policy_median_ms": Said(2200), "policy_p95_ms": Said(4800)},
    "gavel": {"policy_median_ms": Said(13), "policy_p95_ms": Said(28)},
}

# The first trace of each set, run through Sia's public simulator (siasosp23/artifacts @ aaf7a0d).
PUBLISHED_SIMULATOR = {
    ("philly", "sia"): {"mean_jct_h": 0.5416, "p99_jct_h": 7.840, "makespan_h": 15.531,
                        "gpu_hours_per_job": 4.027, "restarts_per_job": 4.256},
    ("philly", "gavel"): {"mean_jct_h": 1.6712, "p99_jct_h": 27.562, "makespan_h": 35.629,
                          "gpu_hours_per_job": 10.271, "restarts_per_job": 6.419},
    ("helios", "sia"): {"mean_jct_h": 0.5809, "p99_jct_h": 7.545, "makespan_h": 12.461,
                        "gpu_hours_per_job": 3.612, "restarts_per_job": 4.119},
    ("helios", "pollux"): {"mean_jct_h": 0.880, "p99_jct_h": 11.16, "makespan_h": 20.38,
                           "gpu_hours_per_job": 4.33, "restarts_per_job": 5.1},
    ("helios", "gavel"): {"mean_jct_h": 1.7984, "p99_jct_h": 21.767, "makespan_h": 27.274,
                          "gpu_hours_per_job": 7.143, "restarts_per_job": 3.719},
}  # fmt: skip
# Its policy's milliseconds per round on the first Helios trace.
PUBLISHED_POLICY_TIME = {
    "sia": {"policy_median_ms": 13.8, "policy_p95_ms": 39.7},
    "pollux": {"policy_median_ms": 830.0, "policy_p95_ms": 1160.0},
    "gavel": {"policy_median_ms": 16.9, "policy_p95_ms": 106.0},
}
