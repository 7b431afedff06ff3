"""The error that ended a program is found in what it has written."""

from __future__ import annotations

from coadapt.executor.programs.errors import error_in, summary_of_end

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


def test_a_program_without_a_traceback_is_known_by_its_last_line_and_status() -> None:
    assert summary_of_end("run.sh", 3, "exited with status 3", "one\ndisk is full\n\n") == (
        "run.sh exited with status 3: disk is full",
        "",
    )
    assert summary_of_end("run.sh", 3, "exited with status 3", "") == ("run.sh exited with status 3", "")
    assert summary_of_end("t", -9, "was killed by SIGKILL", "step 5\n")[0] == "t was killed by SIGKILL"
