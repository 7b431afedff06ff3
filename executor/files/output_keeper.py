"""Send outputs of a job to a URL: after each checkpoint, about once a minute, and at the end.

The worker does so in its own thread, so that training never waits. It reports how its script ended only after the
outputs are kept.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ...core.errors import OutputError
from ..sandbox.ownership import acting_as
from .job_folder import alone, machine_name, remove, work_folder
from .output_mirror import Mirror, Place, Pushed
from .own_folder import own_folder
from .site import OUTPUTS, Site

EVERY_S = 60.0
SHARE = 0.05  # of the time, at most, goes into looking for changes
LAST_S = 60.0  # bounds the last look of a process; the rest is sent when the job has ended
STILL_USED_S = 30.0  # how long the last processes of a job may take to end


class OutputKeeper:
    """Keep a mirrored output folder up to date, from its own thread. `uid`: of the job, for which it acts."""

    def __init__(self, url: str, folder: Path, tell: Callable[[str], None], uid: int | None = None) -> None:
        self._uid = uid
        with acting_as(uid):  # also the thread of its own that some file systems start here
            self._place = Place(url)
        self._path = folder
        self._tell = tell
        self._told: set[str] = set()
        self._wake = threading.Event()
        self._ending = False

    def start(self) -> None:
        """Fetch the outputs there are and begin to send. Raises: OSError, OutputError."""
        with acting_as(self._uid), alone(_sync_lock(self._path)):
            self._say(self._mirror().pull())
        threading.Thread(target=self._run, name="coadapt-outputs", daemon=True).start()

    def pull(self) -> None:
        try:
            with acting_as(self._uid), alone(_sync_lock(self._path), LAST_S):
                self._say(self._mirror().pull())
        except (OSError, OutputError) as error:
            self._say([str(error)])

    def wake(self) -> None:
        self._wake.set()

    def finish(self) -> None:
        """Send what is new within `LAST_S`; a file that takes longer goes on while the process lives."""
        self._ending = True
        self._wake.set()
        until_s = time.monotonic() + LAST_S
        last = threading.Thread(target=self._look, args=(lambda: time.monotonic() < until_s,), daemon=True)
        last.start()
        last.join(LAST_S)

    def _mirror(self) -> Mirror:
        """Return the mirror, read again each time since other workers on this machine send, too."""
        return Mirror(self._place, self._path, machine_name())

    def _run(self) -> None:
        wait_s = EVERY_S
        while True:
            self._wake.wait(wait_s)
            self._wake.clear()
            if self._ending:
                return
            began_s = time.monotonic()
            self._look(lambda: not self._ending)
            wait_s = max(EVERY_S, (time.monotonic() - began_s) / SHARE)

    def _look(self, going_on: Callable[[], bool]) -> None:
        try:
            with acting_as(self._uid), alone(_sync_lock(self._path), LAST_S):
                self._say(self._mirror().push(going_on).sentences)
        except OutputError as error:
            self._say([f"outputs could not be kept: {error}"])
        except Exception as error:
            self._say([f"outputs could not be kept: {type(error).__name__}: {error}"])

    def _say(self, sentences: Sequence[str]) -> None:
        """Pass on each sentence once, since every look finds it again."""
        for sentence in sentences:
            if sentence not in self._told:
                self._told.add(sentence)
                self._tell(f"coadapt: {sentence}")


def outputs_folder(work: Path, site: Site) -> Path:
    """Return the folder in which outputs are mirrored on a machine: the job's own, where it has a user."""
    return work / f"{site.key}{OUTPUTS}" if site.line.uid is None else own_folder(work, site.key) / "outputs"


def clean(site: Site) -> str:
    """Remove what an ended job has left on this machine, after sending outputs that were not sent yet.

    Return a sentence if something has to stay, or "".
    """
    work = work_folder(site.state_dir)
    sentences = _clean_outputs(site, outputs_folder(work, site))
    patience_s = time.monotonic() + STILL_USED_S
    while not (removed := remove(work, site.key)) and time.monotonic() < patience_s:
        time.sleep(0.5)
    if not removed:
        sentences.append(f"{work / site.key} on {machine_name()} is still in use and stays")
    return "; ".join(sentences)


def _clean_outputs(site: Site, folder: Path) -> list[str]:
    """Send what was not sent yet and remove the folder, or return why it stays."""
    if not folder.is_dir():
        return []
    with acting_as(site.line.uid), alone(_sync_lock(folder)):
        try:
            pushed = Mirror(Place(site.outputs_url), folder, machine_name()).push()
        except OutputError as error:
            pushed = Pushed(whole=False, sentences=[str(error)])
        if pushed.whole:
            _discard(folder)
            return pushed.sentences
        return [*pushed.sentences, f"outputs that were not sent stay in {folder} on {machine_name()}"]


def _discard(folder: Path) -> None:
    """Remove the folder, after its note: beside an empty folder the note would say that all was removed."""
    folder.with_name(f"{folder.name}.json").unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    _sync_lock(folder).unlink(missing_ok=True)


def _sync_lock(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")
