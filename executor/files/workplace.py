"""The folders in which a training process works: the job's and that of its outputs.

Outputs at a path are written there directly. For any other URL they are mirrored (`output_keeper.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import OutputError
from ..sandbox.line import Sandbox
from ..sandbox.ownership import acting_as, let_pass, make_private
from . import working_files
from .job_folder import Fetch, FolderError, JobFolder, profile_key, work_folder
from .own_folder import OwnFolder
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
        self._site, self._tell, self._uid = site, tell, site.line.uid
        self._folder: JobFolder | None = None
        self._keeper: OutputKeeper | None = None
        self.own: OwnFolder | None = None
        work = work_folder(site.state_dir)
        if site.package:
            key = profile_key(site.key, site.profile) if site.profile else site.key
            self._folder = JobFolder(work, key, fetch, self._uid)
        try:
            self.own = OwnFolder(work, site.key, site.package, self._uid)
        except OSError as error:
            self.close()
            raise FolderError(f"the job's home cannot be made: {error}") from error
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
            return self._made(path)
        else:
            # Most workers need no other file systems.
            from .output_keeper import OutputKeeper, outputs_folder

            folder = outputs_folder(work, site)
            self._keeper = OutputKeeper(site.outputs_url, folder, tell, self._uid)
            self._keeper.start()
        if folder is not None:
            with acting_as(self._uid):
                folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _made(self, outputs: Path) -> Path:
        """Make the folder of outputs and the one around it, of checkpoints, which only the job enters.

        Where the job has a user, the service's own folders are made for it, and others by itself.
        """
        ours = any(outputs.is_relative_to(root) for root in self._site.line.roots)
        if self._uid is None:
            make_private(outputs)
            return outputs
        if ours:
            make_private(outputs.parent, self._uid)
            let_pass(outputs.parent.parent)
        with acting_as(self._uid):
            make_private(outputs)
        return outputs

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
                with acting_as(self._uid):
                    working_files.put_back(self.outputs / working_files.KEPT, self._folder.path)
            except (OSError, OutputError) as error:
                self._tell(f"what the program wrote before could not be put into its working folder: {error}")

    def keep(self) -> None:
        """Keep what the program wrote into the working folder among its outputs."""
        if self._folder is not None and self.outputs is not None:
            with acting_as(self._uid):
                working_files.keep(self._folder.path, self.outputs / working_files.KEPT, self._tell)

    def ended(self) -> None:
        """Send outputs of a process that is gone; return when they are kept, or after `LAST_S`."""
        if self._keeper is not None:
            self._keeper.finish()

    def close(self) -> None:
        if self._folder is not None:
            self._folder.remove() if self._site.profile else self._folder.close()
            self._folder = None
        if self.own is not None:
            self.own.close()

    # --- what the process may reach ---------------------------------------------------------------------------

    @property
    def own_path(self) -> Path:
        """The job's folder beside its working folder."""
        assert self.own is not None
        return self.own.path

    def sandbox(self) -> Sandbox:
        """Return the line around a process that works here."""
        assert self.own is not None
        outputs = () if self.outputs is None else (str(self.outputs), str(self.outputs.parent))
        own = (str(self.own.path), *outputs)
        return Sandbox(self._site.line, str(self.own.home), str(self.own.tmp), own)
