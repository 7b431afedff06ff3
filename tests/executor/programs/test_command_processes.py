"""The processes of a command on one node are started together, followed, and say how far they are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from coadapt.core.doors import Processes
from coadapt.executor.programs.command_processes import CommandLaunch
from coadapt.executor.protocol.command_events import Begin, Begun, Ended, Located, Refused, Said, Status, Terminate

from tests.support.command_node import CommandNode

BEGIN = Begin(1, 0, 2, 0, 1, "127.0.0.1", 29_500)


def python(code: str, count: int = 1, **fields: object) -> CommandLaunch:
    return CommandLaunch("a-1", (sys.executable, "-c", code), Processes.GPU, count, count, **fields)


def node(launch: CommandLaunch) -> CommandNode:
    made = CommandNode(launch)
    made.processes.send(BEGIN)
    return made


def test_every_rank_runs_and_is_told_which_it_is() -> None:
    say = "from os import environ as e; print(e['RANK'], e['LOCAL_RANK'], e['WORLD_SIZE'], e['X'])"
    made = node(python(say, 2, env={"X": "given"}))
    assert made.ended() == [Ended(0, 0), Ended(1, 0)]
    assert (made.output(0), made.output(1)) == ("0 0 2 given\n", "1 1 2 given\n")
    assert isinstance(made.events[0], Located)
    (begun,) = made.of(Begun)
    assert len(begun.pids) == 2


def test_an_error_comes_with_what_the_output_says_of_it() -> None:
    made = node(python("raise ValueError('no such column')"))
    (ended,) = made.ended()
    assert (ended.code, ended.summary) == (1, "ValueError: no such column")
    assert ended.traceback.startswith("Traceback")


def test_a_program_that_is_not_there_ends_its_rank_with_the_reason() -> None:
    made = node(CommandLaunch("a-1", ("no-such-program",), Processes.NODE, 1, 1))
    assert made.ended() == [Ended(0, 127, "command: no-such-program: No such file or directory")]


def test_nothing_runs_on_a_node_that_is_told_to_end_before_it_has_begun() -> None:
    made = CommandNode(python("print('ran')"))
    made.processes.send(Terminate(1.0))
    assert made.ended() == []
    assert made.output() == ""


def test_all_ranks_are_told_to_end() -> None:
    wait = "import time; print('begun', flush=True); time.sleep(60)"
    made = node(python(wait, 2))
    for rank in (0, 1):
        made.until(lambda event, rank=rank: isinstance(event, Said) and event.rank == rank)
    made.processes.send(Terminate(20.0))
    assert [(event.code, event.overdue) for event in made.ended()] == [(-15, False), (-15, False)]


def test_all_ranks_keep_to_the_cores_of_their_node_and_to_others_later() -> None:
    first, *_, last = sorted(os.sched_getaffinity(0))
    say = "import os, sys, time; print(sorted(os.sched_getaffinity(0)), flush=True)\n"
    wait = f"while os.sched_getaffinity(0) != {{{last}}}: time.sleep(0.01)\n"
    made = CommandNode(python(say + wait, 2))
    made.processes.keep_to((first,))
    made.processes.send(BEGIN)
    for rank in (0, 1):
        made.until(lambda event, rank=rank: isinstance(event, Said) and event.rank == rank)
        assert made.output(rank) == f"[{first}]\n"
    made.processes.keep_to((last,))
    assert made.ended() == [Ended(0, 0), Ended(1, 0)]


REPORT = "import coadapt; coadapt.report(step=3, steps=12, loss=0.5)"
POST = """
import json, os, urllib.request
status = {"trainerStatus": {"progressPercentage": 25, "metrics": [{"name": "loss", "value": "0.5"}]}}
url = os.environ["KUBEFLOW_TRAINER_SERVER_URL"]
request = urllib.request.Request(url, json.dumps(status).encode(), method="POST")
request.add_header("Authorization", "Bearer " + open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read())
urllib.request.urlopen(request).read()
"""
FILE = """open('log.jsonl', 'a').write('{"step": 3, "steps": 12, "loss": 0.5}' + chr(10))"""
CUT = FILE.replace(" + chr(10)", "")
LOG = "print('step 3 of 12, loss 0.5')"
BAR = "print('step 3 of 12, loss 0.5', end='')"
TEXT = "open('log.jsonl', 'a').write('INFO begin' + chr(10) + 'INFO step 3 of 12, loss 0.5' + chr(10))"


@pytest.mark.parametrize(
    "says",
    [REPORT, POST, FILE, CUT, LOG, BAR, TEXT],
    ids=["report", "trainer", "file", "line without end", "log", "bar without end", "file of text"],
)
def test_how_far_a_program_is_comes_from_whatever_it_says_so_by(says: str, tmp_path: Path) -> None:
    pattern = r"step (?P<step>\d+) of (?P<of>\d+), loss (?P<loss>[\d.]+)"
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n')  # of an earlier start
    made = node(python(says, cwd=str(tmp_path), status_file="log.jsonl", pattern=pattern))
    assert [ended.code for ended in made.ended()] == [0], made.output()
    (status,) = made.of(Status)
    assert (status.fraction, status.metrics) == (0.25, {"loss": 0.5})


def test_what_a_trainer_posts_goes_past_the_proxies_of_its_machine() -> None:
    say = "import os; print(os.environ['no_proxy'])"
    made = node(python(say, env={"no_proxy": "example.com", "http_proxy": "http://10.255.255.1:1"}))
    made.ended()
    assert made.output() == "example.com,127.0.0.1\n"
    made = node(python(POST, env={"http_proxy": "http://10.255.255.1:1"}))
    assert [ended.code for ended in made.ended()] == [0], made.output()
    assert len(made.of(Status)) == 1


def test_once_a_program_reports_its_output_is_not_read_for_that_any_more() -> None:
    made = node(python(f"{REPORT}\nprint('step 9 of 12')", pattern=r"step (?P<step>\d+)"))
    made.ended()
    assert [status.step for status in made.of(Status)] == [3]


def test_a_line_of_text_in_the_file_of_progress_is_told_with_what_would_read_it(tmp_path: Path) -> None:
    made = node(python(TEXT, cwd=str(tmp_path), status_file="log.jsonl"))
    made.ended()
    told = [event.sentence for event in made.of(Refused)]
    assert told[0] == "status: 'INFO begin' is no line of JSON; it was left out; progress.pattern would read it"


@pytest.mark.parametrize("line", ['{"step": 1' + 400 * "0" + "}", 100_000 * "["], ids=["huge", "nested"])
def test_no_status_keeps_the_end_of_a_program_from_being_told(line: str, tmp_path: Path) -> None:
    (tmp_path / "line").write_text(line)
    says = "open('log.jsonl', 'w').write(open('line').read())"
    made = node(python(says, cwd=str(tmp_path), status_file="log.jsonl"))
    assert made.ended() == [Ended(0, 0)]
    assert len(made.of(Refused)) == 1


def test_a_line_of_the_output_does_not_tear_one_that_a_file_is_still_given(tmp_path: Path) -> None:
    begun = """import os, time
file = open('log.jsonl', 'a', buffering=1)
file.write('{"step": 3, '); file.flush()
print('step 1', flush=True)
while not os.path.exists('heard'):
    time.sleep(0.01)
file.write('"steps": 12}' + chr(10)); file.close()
"""
    made = node(python(begun, cwd=str(tmp_path), status_file="log.jsonl", pattern=r"step (?P<step>\d+)"))
    made.until(lambda event: isinstance(event, Status))
    (tmp_path / "heard").touch()
    made.ended()
    assert made.of(Refused) == []
    assert [status.step for status in made.of(Status)] == [1, 3]


def test_a_torn_status_or_one_of_another_job_is_told_and_left_out(tmp_path: Path) -> None:
    lines = """open('log.jsonl', 'w').write('{"step": 3\\n{"job_id": "b-2", "step": 9}\\n{"step": 4}\\n')"""
    made = node(python(lines, cwd=str(tmp_path), status_file="log.jsonl"))
    made.ended()
    assert [status.step for status in made.of(Status)] == [4]
    torn, foreign = (event.sentence for event in made.of(Refused))
    assert torn.startswith("status: '{\"step\": 3' is no line of JSON")
    assert foreign == "status: it is of job b-2, and this is a-1; it was left out"


def test_of_many_refused_statuses_a_few_are_told_and_all_are_counted(tmp_path: Path) -> None:
    made = node(python("open('log.jsonl', 'w').write('no\\n' * 100)", cwd=str(tmp_path), status_file="log.jsonl"))
    made.ended()
    refused = made.of(Refused)
    assert [event.total for event in refused if event.logged] == [1, 2, 3, 4, 5]
    assert refused[4].sentence.endswith("; further ones are left out without a word")
    assert [event.total for event in refused[5:]] == [8, 16, 32, 64, 100]
    last = [event for event in made.events if isinstance(event, Refused | Ended)][-1]
    assert isinstance(last, Ended), "all are counted before the end"
