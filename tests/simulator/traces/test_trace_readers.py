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

SIA = "name,time,application,num_replicas,batch_size\na,5,cifar10,4,512\nb,9.5,bert,1,12\n"
HELIOS = (
    "job_id,user,vc,gpu_num,cpu_num,state,submit_time,duration\n"
    "7,u,vcA,8,8,COMPLETED,2020-09-01 00:00:03,97\n8,u,vcB,1,1,FAILED,2020-09-01 00:01:03,0\n"
)
PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n"
    "2017-10-09 07:01:55,66.0,1,66.0,x\n2017-10-09 07:01:50,10.0,2,20.0,y\n"
)
COPTER = "name,time,category,application\na,1.5,SiaJob,bert\nb,2,BatchInferenceJob,llama\n"
PAI = "job_id,arrival_s,service_sec,gpu_count\nj1,10,100,1\nj2,20,50,2\n"


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_sia_workloads_name_applications_and_what_a_user_asked_for(tmp_path: Path) -> None:
    workload = read_trace(written(tmp_path, SIA))
    assert workload.applications == ("cifar10", "bert")
    assert workload.submit_s.tolist() == [5.0, 9.5]
    assert workload.gpus.tolist() == [4, 1]
    assert workload.batch_size.tolist() == [512, 12]
    assert set(workload.adaptivity) == {Adaptivity.ADAPTIVE}
    assert np.isnan(workload.duration_s).all()


def test_a_category_says_what_may_be_adapted(tmp_path: Path) -> None:
    header = "name,time,application,num_replicas,batch_size,category\n"
    workload = read_trace(written(tmp_path, header + "a,0,bert,1,12,rigid\nb,1,bert,1,12,scale-gpus\n"))
    assert workload.adaptivity == (Adaptivity.RIGID, Adaptivity.STRONG_SCALING)


def test_cluster_logs_count_from_their_first_job(tmp_path: Path) -> None:
    helios = read_trace(written(tmp_path, HELIOS))
    assert helios.submit_s.tolist() == [0.0, 60.0]
    assert helios.clock_s == 3.0  # its first job came at 00:00:03
    assert helios.virtual_clusters == ("vcA", "vcB")
    assert helios.duration_s.tolist() == [97.0, 0.0]
    philly = read_trace(written(tmp_path, PHILLY))
    assert philly.ids == ("line-3", "line-2")  # the file is in no order of time
    assert philly.submit_s.tolist() == [0.0, 5.0]
    assert read_trace(written(tmp_path, PAI)).gpus.tolist() == [1, 2]


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


def test_jobs_without_a_whole_gpu_are_left_out_with_one_warning(tmp_path: Path) -> None:
    rows = "7,vcA,0,2020-09-01 00:00:03,97\n8,vcB,1,2020-09-01 00:01:03,50\n9,vcB,0.5,2020-09-01 00:02:03,50\n"
    path = written(tmp_path, "# Helios\njob_id,vc,gpu_num,submit_time,duration\n" + rows)
    with pytest.warns(UserWarning, match="left out") as told:
        workload = read_trace(path)
    assert workload.ids == ("8",)
    assert [str(one.message) for one in told] == [
        f"{path}: 1 job without a GPU left out and 1 job with part of a GPU left out, the first in line 3"
    ]


def test_where_a_log_rounds_parts_of_gpus_up_they_are(tmp_path: Path) -> None:
    path = written(tmp_path, PAI.replace("100,1", "100,0.25").replace("50,2", "50,2.5") + "j3,30,5,0\n")
    with pytest.warns(UserWarning, match="left out") as told:
        workload = read_trace(path)
    assert (workload.ids, workload.gpus.tolist()) == (("j1", "j2"), [1, 3])
    assert [str(one.message) for one in told] == [
        f"{path}: 1 job without a GPU left out and 2 jobs with part of a GPU rounded up to whole ones, "
        "the first in line 2"
    ]


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
