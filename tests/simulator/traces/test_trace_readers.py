"""A trace is read whole, or refused with one sentence that names its line, its field and its value."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from coadapt.core.training_config import Adaptivity
from coadapt.simulator.traces.readers import jsonl, read_trace
from coadapt.simulator.traces.workload import TraceJob, Workload

from tests.support.bad_traces import BAD_TRACES, ENDLESS, BadTrace, refusal, refusal_in_little_memory
from tests.support.traces import COPTER, HELIOS, PAI, PHILLY, SIA, written


def test_packed_traces_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(PAI.encode()))
    assert len(read_trace(path)) == 2


def test_own_traces_survive_being_written_and_read(tmp_path: Path) -> None:
    jobs = [TraceJob("a", 0.0, 4, 10.5), TraceJob("b", 1.5, 1, None, "bert", 24, Adaptivity.ADAPTIVE, "vc", "me")]
    jsonl.write(tmp_path / "trace.jsonl", jobs)
    workload, expected = read_trace(tmp_path / "trace.jsonl"), Workload.of(jobs)
    assert workload.ids == expected.ids
    assert workload.applications == expected.applications
    assert workload.adaptivity == expected.adaptivity
    np.testing.assert_array_equal(workload.duration_s, expected.duration_s)


def test_jobs_out_of_order_are_sorted_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="job early was submitted before job late above it"):
        workload = Workload.of([TraceJob("late", 9, 1, 1), TraceJob("early", 3, 1, 1)])
    assert workload.ids == ("early", "late")


def quoted(text: str) -> str:
    return "".join(",".join(f'"{field}"' for field in line.split(",")) + "\n" for line in text.splitlines())


def capitals(text: str) -> str:
    header, rows = text.split("\n", 1)
    return header.replace("_", " ").title() + "\n" + rows


def header_behind_a_hash(text: str) -> str:
    return f"# {text}"


WAYS = {
    "quotes": quoted,
    "spaces": lambda text: text.replace(",", " ,  "),
    "spaces and quotes": lambda text: quoted(text).replace(",", ", "),
    "capitals": capitals,
    "comments": lambda text: "# of mine\n\n" + text.replace("\n", "\n  # one more\n", 1) + "# the end\n",
    "a header behind a hash": header_behind_a_hash,
    "semicolons": lambda text: text.replace(",", ";"),
    "tabs": lambda text: text.replace(",", "\t"),
    "bars": lambda text: text.replace(",", " | "),
    "a byte-order mark": lambda text: "\ufeff" + text,
    "a byte-order mark, tabs and quotes": lambda text: "\ufeff" + quoted(text).replace('","', '"\t"'),
    "a byte-order mark and a comment": lambda text: "\ufeff# of mine\n" + text,
    "ends of lines of other systems": lambda text: text.replace("\n", "\r\n"),
    "empty columns and rows of a spreadsheet": lambda text: text.replace("\n", ",,\n") + ",,,,,\n\n",
    "decimal commas": lambda text: text.replace(",", ";").replace(".", ","),
}


@pytest.mark.parametrize(
    "text", [SIA, HELIOS, PHILLY, PAI, COPTER], ids=["sia", "helios", "philly", "pai", "copter"]
)
@pytest.mark.parametrize("way", WAYS)
def test_a_trace_is_read_as_people_have_it(way: str, text: str, tmp_path: Path) -> None:
    plain = read_trace(written(tmp_path, text, "plain.csv"))
    for encoding in ("utf-8", "utf-16"):
        path = tmp_path / f"{encoding}.csv"
        path.write_bytes(WAYS[way](text).removeprefix("\ufeff" * (encoding == "utf-16")).encode(encoding))
        found = read_trace(path)
        assert (found.applications, found.virtual_clusters) == (plain.applications, plain.virtual_clusters)
        for name in ("submit_s", "gpus", "duration_s", "batch_size"):
            np.testing.assert_array_equal(getattr(found, name), getattr(plain, name))
        if text is not PHILLY:  # whose jobs are named after their lines
            assert found.ids == plain.ids


def test_own_traces_may_have_a_byte_order_mark_and_comments(tmp_path: Path) -> None:
    job = '{"id": "%s", "submit_s": 0, "duration_s": 1}\n'
    text = "\ufeff# mine\n" + job % "a" + "# and\n" + job % "b"
    assert read_trace(written(tmp_path, text, "trace.jsonl")).ids == ("a", "b")


def test_names_may_hold_what_stands_between_columns(tmp_path: Path) -> None:
    text = 'name;time;application;num_replicas;batch_size\n"a; b";5;cifar10;4;512\n"#2";6;cifar10;4;512\n'
    assert read_trace(written(tmp_path, text)).ids == ("a; b", "#2")


def test_lines_of_all_columns_behind_a_hash_are_left_out_with_a_warning(tmp_path: Path) -> None:
    path = written(tmp_path, SIA.replace("b,9.5", "#b,9.5"))
    with pytest.warns(UserWarning, match="1 line of all columns behind a # left out"):
        assert read_trace(path).ids == ("a",)


def test_what_is_wrong_is_told_with_the_line_of_the_file(tmp_path: Path) -> None:
    text = "# mine\n\n" + SIA.replace("a,5", "# no job\na,5").replace("9.5", "soon")
    with pytest.raises(ValueError, match="line 6: time 'soon' is not a number"):
        read_trace(written(tmp_path, text))


@pytest.mark.parametrize("case", BAD_TRACES, ids=lambda case: case.what)
def test_a_bad_trace_gets_its_one_line_at_once(case: BadTrace, tmp_path: Path) -> None:
    assert refusal(case, tmp_path).splitlines() == [case.error]


@pytest.mark.parametrize("case", ENDLESS, ids=lambda case: case.what)
def test_a_file_of_nothing_is_refused_at_once_and_in_little_memory(case: BadTrace, tmp_path: Path) -> None:
    assert refusal_in_little_memory(case, tmp_path).splitlines() == [case.error]


def test_a_file_that_is_missing_packed_wrongly_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        read_trace(tmp_path / "none.csv")
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(PAI.encode() * 1000)[:-20])
    with pytest.raises(ValueError, match="cannot be read"):
        read_trace(cut)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(bytes(range(256)))
    with pytest.raises(ValueError, match="cannot be read"):
        read_trace(binary)
