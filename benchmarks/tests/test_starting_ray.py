"""A benchmark that starts a cluster of its own connects to it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "name", ["chaos", "deploy", "drain", "head", "laptop", "load", "security", "soak", "upgrade"]
)
def test_a_benchmark_that_starts_ray_does_not_load_it_before(name: str) -> None:
    """Ray reads its token once, when it is loaded: who loads it first connects to no cluster of its own."""
    code = f"import sys, benchmarks.{name}; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
