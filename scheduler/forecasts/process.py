"""The process beside the service that forecasts. It may end or hang at any moment, and is then started anew."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from contextlib import suppress

from ...forecasts.questions import ANSWER, QUESTION, Answer, Question

MODULE = f"{__package__.split('.')[0]}.simulator.live_process"  # named here and imported by nobody above it
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
_CHUNK = 1 << 16


class ForecastProcess:
    """Asks a process of its own, which begins with the first question. One question at a time.

    Args:
        timeout_s: longest to wait for an answer; the process is then taken to hang, and ended.
        module: what it runs.
        nice: how much it stands back behind other processes.
    """

    def __init__(self, timeout_s: float = 180.0, module: str = MODULE, nice: int = 10) -> None:
        self._timeout_s, self._module, self._nice = timeout_s, module, nice
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def runs(self) -> bool:
        """Whether it has begun and not ended. If not, the next question begins a new one, which knows no past."""
        return self._process is not None and self._process.poll() is None

    def ask(self, question: Question) -> Answer:
        """Return its answer. Raises: ProcessLost, in one sentence, where it ends or does not answer."""
        with self._lock:
            process = self._process if self.runs and self._process is not None else self._start()
            try:
                assert process.stdin is not None
                process.stdin.write(QUESTION.dump_json(question) + b"\n")
                process.stdin.flush()
                return ANSWER.validate_json(self._line(process))
            except ProcessLost:
                self._end(process)
                raise
            except (OSError, ValueError) as error:
                code = process.poll()
                self._end(process)
                told = f"ended with {code}" if code is not None else f"cannot be asked: {error}"
                raise ProcessLost(f"the process that forecasts {told}") from None

    def rest(self) -> None:
        """End the process once it has answered; the next question begins another one."""
        with self._lock:
            self.stop()

    def stop(self) -> None:
        """End the process, if there is one."""
        process = self._process
        if process is not None:
            self._end(process)

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([*(one for one in sys.path if one), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module, str(self._nice)],
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        return self._process

    def _line(self, process: subprocess.Popen[bytes]) -> bytes:
        """Return the next line. Raises: ProcessLost."""
        assert process.stdout is not None
        descriptor, found = process.stdout.fileno(), bytearray()
        while not found.endswith(b"\n"):
            ready, _, _ = select.select([descriptor], [], [], self._timeout_s)
            if not ready:
                raise ProcessLost(f"the process that forecasts did not answer for {self._timeout_s:g} s")
            part = os.read(descriptor, _CHUNK)
            if not part:
                raise ProcessLost(f"the process that forecasts ended with {process.wait(10)}")
            found += part
        return bytes(found)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(OSError):
            process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        if self._process is process:
            self._process = None


class ProcessLost(RuntimeError):
    """The process has ended or hangs; one sentence."""
