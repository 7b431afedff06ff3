"""Errors name fields; a user is told the options that were typed."""

from __future__ import annotations

import re

# The option of each field that errors name.
OPTIONS = {
    "began": "--began",
    "boot_s": "--boot",
    "cluster": "--cluster",
    "early_s": "--early",
    "emulate": "--emulate",
    "format": "--format",
    "interval_s": "--round-interval",
    "jobs": "--jobs",
    "jobs_per_hour": "--rate",
    "mean_up_s": "--node-mtbf",
    "noise": "--noise",
    "policy": "--policy",
    "profiles": "--profiles",
    "profiling_s": "--profiling-cost",
    "repair_s": "--node-repair",
    "round_interval_s": "--round-interval",
    "sizes": "--sizes",
    "split": "--split",
    "store_url": "--store",
    "time_scale": "--time-scale",
    "trace": "--trace",
}
_POLICY_OPTION = re.compile(r"policy \w+: ")


def by_option(message: str) -> str:
    """Return an error's message with the option that the user typed in place of the field's name."""
    field, colon, rest = message.partition(":")
    if colon and field in OPTIONS:
        return f"{OPTIONS[field]}:{rest}"
    return f"--policy-option: {message}" if _POLICY_OPTION.match(message) else message
