"""Sentences for people have the right number."""

from __future__ import annotations

from coadapt.core.wording import n_gpus


def test_one_gpu_is_no_gpus() -> None:
    assert [n_gpus(count) for count in (0, 1, 2)] == ["0 GPUs", "1 GPU", "2 GPUs"]
