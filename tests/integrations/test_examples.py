"""The example of each framework passes `coadapt check`, runs as a job on a cluster, and differs in four lines."""

from __future__ import annotations

import difflib

import pytest
from coadapt.cli import main
from coadapt.cli.exit_codes import Exit
from coadapt.executor.rehearsal import check

from tests.support.framework_runs import EXAMPLES
from tests.support.warm_group import WarmGroup

FRAMEWORKS = ("transformers_trainer", "accelerate_loop", "lightning_module", "ray_train")


@pytest.mark.parametrize("example", FRAMEWORKS)
def test_an_example_passes_the_check(
    example: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "TrainingGroup", WarmGroup)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code = main.run(["check", str(EXAMPLES / example / "job.yaml")])
    said = capfd.readouterr().out
    assert code == Exit.OK, said
    assert "with one replica, two replicas, two replicas in two passes and batches of" in said


@pytest.mark.parametrize("example", FRAMEWORKS)
def test_an_example_has_at_most_four_changed_lines(example: str) -> None:
    plain, changed = ((EXAMPLES / example / name).read_text().splitlines() for name in ("plain.py", "train.py"))
    lines = [line for line in difflib.ndiff(plain, changed) if line.startswith("+ ")]
    assert len(lines) <= 4, lines
