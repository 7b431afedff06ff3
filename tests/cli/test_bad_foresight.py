"""Whatever is wrong with foresight and power, its user reads one sentence that says what, where and what is
accepted.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from coadapt.cli.main import run
from coadapt.simulator.traces.final_state import FinalState
from coadapt.simulator.traces.readers import jsonl
from coadapt.simulator.traces.workload import TraceJob

from tests.support.bad_foresight import BAD_FORESIGHT, BadForesight


@pytest.mark.parametrize("case", BAD_FORESIGHT, ids=lambda case: case.what)
def test_what_is_wrong_gets_its_one_sentence_and_nothing_is_started(case: BadForesight, tmp_path: Path) -> None:
    assert case.reached.answer(tmp_path) == case.error.replace("{dir}", str(tmp_path))
    assert not (tmp_path / "home").exists()


def test_every_row_is_another_one_and_each_answer_is_one_line() -> None:
    assert len({case.what for case in BAD_FORESIGHT}) == len(BAD_FORESIGHT)
    assert all(case.error and "\n" not in case.error for case in BAD_FORESIGHT)


def test_how_jobs_ended_is_no_feature_of_those_that_come_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Jobs are served in the same order whatever is written of their ends."""
    found = []
    for state in (FinalState.COMPLETED, FinalState.FAILED):
        trace = tmp_path / "trace.jsonl"
        lengths_s = [60.0 + n % 7 * 100 for n in range(60)]
        jobs = [TraceJob(f"j{n}", 90.0 * n, 1, s, user="ab"[n % 2], state=state) for n, s in enumerate(lengths_s)]
        jsonl.write(trace, jobs)
        words = ["simulate", "--trace", str(trace), "--cluster", "1x any:2", "--policy", "qssf", "--json"]
        assert run([*words, "--service", "durations"]) == 0
        told = json.loads(capsys.readouterr().out)["qssf"]
        found.append({name: told[name] for name in ("mean_jct_h", "p50_jct_h", "p90_jct_h", "makespan_h")})
    assert found[0]["mean_jct_h"] > 0.3, "most jobs wait"
    assert found[0] == found[1]
