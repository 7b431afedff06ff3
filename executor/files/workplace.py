"""Where a training process works on its machine: the job's folder and its output folder.

Outputs at a path are written there directly; at any other URL they are mirrored (`output_keeper.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import OutputError
from .job_folder import Fetch, FolderError, JobFolder, profile_key, work_folder
from .site import OUTPUTS, Site

if TYPE_CHECKING:
    from .output_keeper import OutputKeeper


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
            # Most workers need no file systems of others.
            from .output_keeper import OutputKeeper, outputs_folder

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
