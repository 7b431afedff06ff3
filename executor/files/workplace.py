"""The folders in which a training process works: the job's and that of its outputs.

Outputs at a path are written there directly. For any other URL they are mirrored (`output_keeper.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import OutputError
from . import working_files
from .job_folder import Fetch, FolderError, JobFolder, profile_key, work_folder
from .site import OUTPUTS, Site

if TYPE_CHECKING:
    from .output_keeper import OutputKeeper


def local_path(url: str) -> Path | None:
    """Return the path that a URL names on this machine; None for any other file system."""
    protocol, separator, path = url.rpartition("://")
    if not separator:
        return Path(url)
    return Path(path) if protocol in ("file", "local") else None


class Workplace:
    """Hold the folders of one worker, from before its process starts until after it has ended.

    `tell` receives sentences for the job's log. Raises: FolderError.
    """

    def __init__(self, site: Site, fetch: Fetch, tell: Callable[[str], None]) -> None:
        self._site, self._tell = site, tell
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
            # Nobody wants a profile run's outputs: they are removed with its folder.
            folder = None if self._folder is None else self._folder.path / OUTPUTS
        elif not site.outputs_url:
            return None
        elif (path := local_path(site.outputs_url)) is not None:
            folder = path
        else:
            # Most workers need no other file systems.
            from .output_keeper import OutputKeeper, outputs_folder

            folder = outputs_folder(work, site.key)
            self._keeper = OutputKeeper(site.outputs_url, folder, tell)
            self._keeper.start()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    # --- what happens to the process ------------------------------------------------------------------------

    def joins(self) -> None:
        """Fetch outputs before it trains with others: they may have trained on another machine since."""
        if self._keeper is not None:
            self._keeper.pull()

    def saved(self) -> None:
        """Send outputs after a checkpoint, so that they are as new."""
        if self._keeper is not None:
            self._keeper.wake()

    def put_back(self) -> None:
        """Put what an earlier start of the program wrote into the working folder, where it is missing."""
        if self._folder is not None and self.outputs is not None:
            try:
                working_files.put_back(self.outputs / working_files.KEPT, self._folder.path)
            except (OSError, OutputError) as error:
                self._tell(f"what the program wrote before could not be put into its working folder: {error}")

    def keep(self) -> None:
        """Keep what the program wrote into the working folder among its outputs."""
        if self._folder is not None and self.outputs is not None:
            working_files.keep(self._folder.path, self.outputs / working_files.KEPT, self._tell)

    def ended(self) -> None:
        """Send outputs of a process that is gone; return when they are kept, or after `LAST_S`."""
        if self._keeper is not None:
            self._keeper.finish()

    def close(self) -> None:
        if self._folder is not None:
            self._folder.remove() if self._site.profile else self._folder.close()
            self._folder = None
