"""Keeping outputs of a job whose checkpoints lie at a URL: after each checkpoint, every minute or so, at the end.

The worker does it in a thread of its own, so that training never waits for it, and tells how its script ended only
when the outputs are kept.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ...core.errors import OutputError
from .job_folder import alone, machine_name, remove, work_folder
from .output_mirror import Mirror, Place, Pushed
from .site import OUTPUTS, Site

EVERY_S = 60.0
SHARE = 0.05  # of the time that may go into looking for what has changed
LAST_S = 60.0  # the last look of a process takes no longer: what is left is sent when the job has ended
STILL_USED_S = 30.0  # the last processes of a job may just be ending


class OutputKeeper:
    """Keeps a mirrored output folder in step from a thread of its own."""

    def __init__(self, url: str, folder: Path, tell: Callable[[str], None]) -> None:
        self._place = Place(url)
        self._path = folder
        self._tell = tell
        self._told: set[str] = set()
        self._wake = threading.Event()
        self._ending = False

    def start(self) -> None:
        """Fetch what there is. Raises: OSError, OutputError."""
        with alone(_sync_lock(self._path)):
            self._say(self._mirror().pull())
        threading.Thread(target=self._run, name="coadapt-outputs", daemon=True).start()

    def pull(self) -> None:
        try:
            with alone(_sync_lock(self._path), LAST_S):
                self._say(self._mirror().pull())
        except (OSError, OutputError) as error:
            self._say([str(error)])

    def wake(self) -> None:
        self._wake.set()

    def finish(self) -> None:
        """Send what is new within `LAST_S`; a file that takes longer is sent on while the process can."""
        self._ending = True
        self._wake.set()
        until_s = time.monotonic() + LAST_S
        last = threading.Thread(target=self._look, args=(lambda: time.monotonic() < until_s,), daemon=True)
        last.start()
        last.join(LAST_S)

    def _mirror(self) -> Mirror:
        """Made anew each time: other workers on this machine send, too."""
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
            with alone(_sync_lock(self._path), LAST_S):
                self._say(self._mirror().push(going_on).sentences)
        except OutputError as error:
            self._say([f"outputs could not be kept: {error}"])
        except Exception as error:
            self._say([f"outputs could not be kept: {type(error).__name__}: {error}"])

    def _say(self, sentences: Sequence[str]) -> None:
        """Once each: the same is found again at every look."""
        for sentence in sentences:
            if sentence not in self._told:
                self._told.add(sentence)
                self._tell(f"coadapt: {sentence}")


def outputs_folder(work: Path, key: str) -> Path:
    """Where outputs are mirrored on a machine."""
    return work / f"{key}{OUTPUTS}"


def clean(site: Site) -> str:
    """Remove what an ended job has left on this machine; outputs that were not sent yet are sent first.

    Returns a sentence where something had to stay, or "".
    """
    work = work_folder(site.state_dir)
    sentences = _clean_outputs(site, outputs_folder(work, site.key))
    patience_s = time.monotonic() + STILL_USED_S
    while not (removed := remove(work, site.key)) and time.monotonic() < patience_s:
        time.sleep(0.5)
    if not removed:
        sentences.append(f"{work / site.key} on {machine_name()} is still in use and stays")
    return "; ".join(sentences)


def _clean_outputs(site: Site, folder: Path) -> list[str]:
    """Send what was not sent yet and remove the folder, or say why it stays."""
    if not folder.is_dir():
        return []
    with alone(_sync_lock(folder)):
        try:
            pushed = Mirror(Place(site.outputs_url), folder, machine_name()).push()
        except OutputError as error:
            pushed = Pushed(whole=False, sentences=[str(error)])
        if pushed.whole:
            _discard(folder)
            return pushed.sentences
        return [*pushed.sentences, f"outputs that were not sent stay in {folder} on {machine_name()}"]


def _discard(folder: Path) -> None:
    """The note of what was sent goes first: beside an empty folder it would say that all was removed."""
    folder.with_name(f"{folder.name}.json").unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    _sync_lock(folder).unlink(missing_ok=True)


def _sync_lock(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")
