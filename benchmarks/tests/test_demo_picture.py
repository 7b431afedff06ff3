"""The picture of the demo shows what its records say, and nothing else."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from coadapt.benchmarks import demo_picture
from coadapt.benchmarks.demo_picture import Held, in_use, joined, lanes, svg

SVG = "{http://www.w3.org/2000/svg}"


def interval(job: str, start_s: float, end_s: float | None, gpu_type: str, gpus: int, **more: object) -> dict:
    told = {"job_id": job, "start_s": start_s, "end_s": end_s, "gpu_type": gpu_type, "gpus": gpus}
    return told | {"batch_size": 32, "lr": 0.1, "phase": "running"} | more


TOLD = {
    "jobs": [
        {"id": "late", "submitted_s": 1030.0, "finished_s": None},
        {"id": "a<b", "submitted_s": 1000.0, "finished_s": 1100.0},
    ],
    "timeline": [
        interval("a<b", 1000.0, 1010.0, "t4", 1, phase="profiling", batch_size=None),
        interval("a<b", 1010.0, 1020.0, "t4", 1),
        interval("a<b", 1020.0, 1040.0, "t4", 1, batch_size=64),
        interval("a<b", 1040.0, 1060.0, "t4", 3, batch_size=64),
        interval("a<b", 1060.0, 1080.0, "t4", 2, batch_size=64),
        interval("a<b", 1080.0, 1100.0, "a100", 2, batch_size=64),
        interval("late", 1090.0, None, "t4", 1),
    ],
}


def test_jobs_stand_in_the_order_of_their_submission_and_their_changes_are_named() -> None:
    first, last = lanes(TOLD)
    assert (first.job, last.job) == ("a<b", "late")
    assert list(first.changes) == [(40.0, "grew"), (60.0, "shrank"), (80.0, "moved")]
    assert first.batches == (32, 64)
    assert (last.start_s, last.end_s) == (30.0, 100.0)


def test_a_change_of_the_batch_alone_leaves_no_seam() -> None:
    spans = [Held(0, 1, "t4", 1), Held(1, 2, "t4", 1), Held(2, 3, "t4", 2), Held(4, 5, "t4", 2)]
    assert joined(spans) == [Held(0, 2, "t4", 1), Held(2, 3, "t4", 2), Held(4, 5, "t4", 2)]


def test_gpus_in_use_are_those_that_jobs_train_and_are_measured_on() -> None:
    assert in_use(lanes(TOLD), "t4") == [(0, 10, 1), (10, 40, 1), (40, 60, 3), (60, 80, 2), (90, 100, 1)]


def test_the_picture_has_a_bar_for_each_span_and_a_mark_for_each_change() -> None:
    root = ElementTree.fromstring(svg(TOLD, "1x a100:2, 1x t4:4"))
    marks = root.findall(f"{SVG}path[@class='mark']")
    legend = 3
    assert len(marks) == legend + 3
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "a<b" in texts
    assert "batch 32 → 64" in texts
    assert "4 x t4" in texts
    assert texts[0] == "2 jobs on 2 a100, 4 t4 (emulated): 3 resizes and moves while they train"


def test_records_without_a_run_are_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    records = tmp_path / "demo.json"
    records.write_text(json.dumps({"jobs": []}))
    with pytest.raises(SystemExit):
        demo_picture.main([str(records), "--out", str(tmp_path / "demo.svg")])
    assert "records: no jobs or no timeline" in capsys.readouterr().err
    assert not (tmp_path / "demo.svg").exists()
