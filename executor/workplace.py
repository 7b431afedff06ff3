"""Where a training process works on its machine: the job's folder, its output folder, and what keeps that.

Outputs at a path are written there directly. Outputs at any other URL are mirrored by the worker, in a thread of
its own: after each checkpoint, every minute or so, and at the end, before anyone hears of it.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .job_folder import Fetch, FolderError, JobFolder, alone, machine_name, profile_key, remove, work_folder
from .output_mirror import Mirror, OutputError, Place

EVERY_S = 60.0
SHARE = 0.05  # of the time that may go into looking for what has changed
LAST_S = 60.0  # the last look of a process takes no longer: what is left is sent when the job has ended
STILL_USED_S = 30.0  # the last processes of a job may just be ending
OUTPUTS = ".outputs"  # beside the job's folder


@dataclass(frozen=True)
class Site:
    """What a worker is told of the places of its job.

    `key` names the job's folder on each machine; `state_dir` is the service's, used where it is on this machine.
    """

    key: str
    state_dir: str = ""
    package: bool = True  # whether it has a folder of its own; else it runs where its script is
    outputs_url: str = ""
    profile: str = ""  # the worker of a profile run, which has folders of its own


def local_path(url: str) -> Path | None:
    """The path that a URL names on this machine; None for any other file system."""
    protocol, separator, path = url.rpartition("://")
    if not separator:
        return Path(url)
    return Path(path) if protocol in ("file", "local") else None


class Workplace:
    """The folders of one worker, from before its process starts until after it has ended.

    tell: is given sentences for the job's log. Raises: FolderError.
    """

    def __init__(self, site: Site, fetch: Fetch, tell: Callable[[str], None]) -> None:
        self._site = site
        self._folder: JobFolder | None = None
        self._keeper: OutputKeeper | None = None
        work = work_folder(site.state_dir)
        if site.package:
            key = profile_key(site.key, site.profile) if site.profile else site.key
            self._folder = JobFolder(work, key, fetch)
        try:
            self.outputs = self._outputs(work, tell)
        except (OSError, OutputError) as error:
            self.close()
            raise FolderError(f"the output folder cannot be made: {error}") from error

    @property
    def cwd(self) -> str | None:
        return None if self._folder is None else str(self._folder.path)

    def _outputs(self, work: Path, tell: Callable[[str], None]) -> Path | None:
        site = self._site
        if site.profile:
            # A profile run's outputs are nobody's: they go with its folder.
            folder = None if self._folder is None else self._folder.path / OUTPUTS
        elif not site.outputs_url:
            return None
        elif (path := local_path(site.outputs_url)) is not None:
            folder = path
        else:
            folder = outputs_folder(work, site.key)
            self._keeper = OutputKeeper(site.outputs_url, folder, tell)
            self._keeper.start()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    # --- what happens to the process ------------------------------------------------------------------------

    def joins(self) -> None:
        """It is about to train with others, who may have come from another machine since it started."""
        if self._keeper is not None:
            self._keeper.pull()

    def saved(self) -> None:
        """A checkpoint was written: outputs are to be as new."""
        if self._keeper is not None:
            self._keeper.wake()

    def ended(self) -> None:
        """The process is gone; returns when its outputs are kept, or after `LAST_S`."""
        if self._keeper is not None:
            self._keeper.finish()

    def close(self) -> None:
        if self._folder is not None:
            self._folder.remove() if self._site.profile else self._folder.close()
            self._folder = None


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
            self._mirror().pull()
        threading.Thread(target=self._run, name="coadapt-outputs", daemon=True).start()

    def pull(self) -> None:
        try:
            with alone(_sync_lock(self._path), LAST_S):
                self._mirror().pull()
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
    sentences = []
    folder = outputs_folder(work, site.key)
    if folder.is_dir():
        with alone(_sync_lock(folder)):
            pushed = Mirror(Place(site.outputs_url), folder, machine_name()).push()
            sentences += pushed.sentences
            if pushed.whole:
                _discard(folder)
            else:
                sentences.append(f"outputs that were not sent stay in {folder} on {machine_name()}")
    patience_s = time.monotonic() + STILL_USED_S
    while not (removed := remove(work, site.key)) and time.monotonic() < patience_s:
        time.sleep(0.5)
    if not removed:
        sentences.append(f"{work / site.key} on {machine_name()} is still in use and stays")
    return "; ".join(sentences)


def _discard(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for left in (folder.with_name(f"{folder.name}.json"), _sync_lock(folder)):
        left.unlink(missing_ok=True)


def _sync_lock(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")
