"""The error that ended a program is found in what it has written."""

from __future__ import annotations

import pytest
from coadapt.executor.programs.errors import error_in, summary_of_end, why_not_started

PLAIN = """step 1
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    raise ValueError("no such column")
ValueError: no such column
"""
TORCHRUN = f"""[rank1]: {PLAIN[7:].strip().replace(chr(10), chr(10) + "[rank1]: ")}
W1 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 12 closing signal SIGTERM
Traceback (most recent call last):
  File "/v/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/v/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 300, in wrapper
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
"""


def test_the_last_traceback_is_the_reason() -> None:
    summary, traceback = error_in(f"{PLAIN}\nagain\n{PLAIN.replace('column', 'row')}Killed\n")
    assert summary == "ValueError: no such row"
    assert traceback.startswith("Traceback (most recent call last):")
    assert traceback.endswith("no such row\n")


def test_a_starter_s_own_error_does_not_hide_that_of_the_script() -> None:
    summary, traceback = error_in(TORCHRUN)
    assert summary == "ValueError: no such column"
    assert "[rank1]" not in traceback


def test_an_error_inside_of_torch_s_collectives_is_the_script_s() -> None:
    inside = PLAIN.replace("train.py", "/v/torch/distributed/distributed_c10d.py").replace("column", "peer")
    assert error_in(inside + TORCHRUN[TORCHRUN.index("W1 ") :])[0] == "ValueError: no such peer"


@pytest.mark.parametrize(
    ("exitcode", "why"),
    [
        (2, "a process of torchrun exited with status 2: python: can't open file 'trian.py'"),
        (-9, "a process of torchrun was killed by SIGKILL"),
    ],
)
def test_where_a_starter_alone_tells_of_an_error_its_process_is_the_reason(exitcode: int, why: str) -> None:
    output = (
        "python: can't open file 'trian.py'\n"
        f"E1129 15:17:20.97 27574 torch/distributed/elastic/api.py:1002] failed (exitcode: {exitcode})"
        " local_rank: 0 (pid: 27768) of binary: /v/bin/python\n" + TORCHRUN[TORCHRUN.index("Traceback", 99) :]
    )
    assert summary_of_end("torchrun", 1, "exited with status 1", output)[0] == why


def test_an_error_that_the_program_handled_is_not_called_the_reason() -> None:
    summary, _ = summary_of_end("train.py", -11, "was killed by SIGSEGV", PLAIN + "went on without it\n")
    assert summary == "train.py was killed by SIGSEGV; the last error in its output is ValueError: no such column"


def test_a_program_without_a_traceback_is_known_by_its_last_line_and_status() -> None:
    assert summary_of_end("run.sh", 3, "exited with status 3", "one\ndisk is full\n\n") == (
        "run.sh exited with status 3: disk is full",
        "",
    )
    assert summary_of_end("run.sh", 3, "exited with status 3", "") == ("run.sh exited with status 3", "")
    assert summary_of_end("t", -9, "was killed by SIGKILL", "step 5\n")[0] == "t was killed by SIGKILL"


@pytest.mark.parametrize(
    ("command", "reason", "why"),
    [
        (["prog", "x"], "No such file or directory", "prog: No such file or directory"),
        (["python a.py"], "No such file or directory", "give each word by itself, as in [python, train.py]"),
        (["LR=3", "python"], "No such file or directory", "give variables in env, and the program first"),
        (["cd", "x"], "No such file or directory", "a shell knows it, so give [bash, -c, '…']"),
        (["./run.sh"], "Permission denied", "give what runs it first, as in [bash, run.sh]"),
        (["./run.sh"], "Exec format error", "give what runs it first, as in [bash, run.sh]"),
    ],
)
def test_a_command_that_cannot_be_started_is_told_with_what_to_do(
    command: list[str], reason: str, why: str
) -> None:
    told = why_not_started(command, reason)
    assert told.startswith(f"command: {command[0]}: {reason}")
    assert told.endswith(why)
