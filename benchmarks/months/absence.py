"""Asks the scheduler all the time, and notes for how long it did not answer."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from itertools import pairwise

import urllib3
from coadapt.client.cluster_record import ClusterRecord

EVERY_S, ANSWER_S = 0.1, 5.0


class Absence:
    """A thread that asks the scheduler through the API how it is, by the record of its cluster."""

    def __init__(self, state_dir: str) -> None:
        self._state_dir, self._stop = state_dir, threading.Event()
        self._answered_s = [time.monotonic()]
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="absence", daemon=True)
        self._thread.start()

    def since(self, moment_s: float) -> float:
        """Return the longest time without an answer since a moment of the monotonic clock."""
        with self._lock:
            after = [at for at in self._answered_s if at >= moment_s]
            self._answered_s = self._answered_s[-1:]
        ends = [moment_s, *after, time.monotonic()]
        return max(later - earlier for earlier, later in pairwise(ends))

    def until_answered(self, moment_s: float, patience_s: float) -> bool:
        """Wait until it has answered after a moment; return whether it has."""
        deadline_s = time.monotonic() + patience_s
        while time.monotonic() < deadline_s:
            with self._lock:
                if self._answered_s[-1] > moment_s:
                    return True
            time.sleep(EVERY_S)  # between two questions
        return False

    def close(self) -> None:
        """Ask no more."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with urllib3.PoolManager(retries=False, timeout=ANSWER_S) as http:
            while not self._stop.wait(EVERY_S):
                record = ClusterRecord.load(self._state_dir)
                if record is None or not record.url:
                    continue
                with suppress(urllib3.exceptions.HTTPError, OSError):
                    headers = {"Authorization": f"Bearer {record.token()}"}
                    if http.request("GET", f"{record.url}/v1/jobs?limit=1", headers=headers).status == 200:
                        with self._lock:
                            self._answered_s.append(time.monotonic())
