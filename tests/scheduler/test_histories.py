"""Whatever happens, and in whatever order: no job is lost, no GPU is used twice, and everything ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.histories import History

NODES = "1x a100:4, 1x t4:4, 1x t4:2"


@pytest.mark.parametrize("policy", ["fifo", "las", "sia"])
@pytest.mark.parametrize("seed", range(4))
def test_a_random_history_loses_no_job_and_uses_no_gpu_twice(policy: str, seed: int, tmp_path: Path) -> None:
    History(seed, policy, NODES, tmp_path).play(acts=40)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["fifo", "las", "srtf", "gavel", "sia", "coadapt"])
@pytest.mark.parametrize("seed", range(100, 150))
def test_many_random_histories_lose_no_job_and_use_no_gpu_twice(policy: str, seed: int, tmp_path: Path) -> None:
    History(seed, policy, NODES, tmp_path).play(acts=60)
