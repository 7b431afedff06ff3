"""Run scripts in processes that have torch already: forks of one Python that imported it.

Importing torch takes seconds, a fork milliseconds. What a script sees is what `python script args…` gives it.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

# The first optimizer of a process imports torch._dynamo; most examples train on sklearn's digits.
IMPORTED = ("torch._dynamo", "torch.utils.data", "torch.nn.parallel", "sklearn.datasets")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Script:
    """Name a script, its arguments and what its environment has beside the tests' own."""

    path: Path
    args: Sequence[str] = ()
    env: Mapping[str, str] | None = None


def run_together(scripts: Sequence[Script]) -> list[str]:
    """Run scripts side by side to their ends; return what each printed. AssertionError if one fails."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder) / str(number) for number in range(len(scripts))]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("COADAPT")}
        requests = [
            {**asdict(script), "path": str(script.path), "output": str(output), "cwd": os.getcwd()}
            | {"env": {**environment, **ONE_THREAD, **(script.env or {})}}
            for script, output in zip(scripts, outputs, strict=True)
        ]
        statuses = _ask(requests)
        for status, output in zip(statuses, outputs, strict=True):
            assert status == 0, output.with_suffix(".err").read_text()
        return [output.read_text() for output in outputs]


def _ask(requests: Sequence[Mapping[str, Any]]) -> list[int]:
    process = _warm()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(requests) + "\n")
    process.stdin.flush()
    statuses: list[int] = json.loads(process.stdout.readline())
    return statuses


@cache
def _warm() -> subprocess.Popen[str]:
    """Start the process that is forked; it ends when its standard input does, with the tests."""
    return subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **ONE_THREAD},
    )


# In the process that is forked


def serve() -> None:
    """Answer each line, a list of requests, with a line of exit statuses."""
    for name in IMPORTED:
        importlib.import_module(name)
    for line in sys.stdin:
        children = [_fork(request) for request in json.loads(line)]
        print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children], flush=True)


def _fork(request: Mapping[str, Any]) -> int:
    child = os.fork()
    return child or _become(request)


def _become(request: Mapping[str, Any]) -> NoReturn:
    status: object = 1
    try:
        for descriptor, path in enumerate((os.devnull, request["output"], request["output"] + ".err")):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), descriptor)
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        tempfile.tempdir = None
        sys.argv = [request["path"], *request["args"]]
        sys.path[0] = os.path.dirname(request["path"])
        runpy.run_path(request["path"], run_name="__main__")
        status = 0
    except SystemExit as leaving:
        status = leaving.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)


if __name__ == "__main__":
    serve()
