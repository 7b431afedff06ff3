"""What the service keeps is closed to all other users of its machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.core.isolation import Isolation
from coadapt.core.settings import Settings
from coadapt.scheduler.care.private_folders import close_folders, unreachable


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}


@pytest.mark.parametrize("isolation", [Isolation.NONE, Isolation.NAMESPACE])
def test_all_folders_are_closed(tmp_path: Path, isolation: Isolation) -> None:
    state = tmp_path / "state"
    (state / "logs").mkdir(parents=True)  # of an earlier version
    close_folders(Settings(state_dir=str(state), isolation=isolation))
    assert set(modes(state).values()) == {0o700}
    assert {"logs", "packages", "work", "checkpoints"} <= set(modes(state))


def test_jobs_with_users_of_their_own_pass_through_to_their_folders_and_see_no_other(tmp_path: Path) -> None:
    state = tmp_path / "state"
    close_folders(Settings(state_dir=str(state), isolation=Isolation.USER))
    found = modes(state)
    assert {name for name, mode in found.items() if mode == 0o711} == {"state", "work", "checkpoints"}
    assert {found["logs"], found["packages"]} == {0o700}


def test_a_state_folder_that_jobs_could_not_reach_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    settings = Settings(state_dir=str(tmp_path / "home" / "state"), isolation=Isolation.USER)
    assert unreachable(settings).startswith("isolation: user: ")
    assert unreachable(settings).endswith("COADAPT_HOME names another folder")
    assert unreachable(settings.model_copy(update={"isolation": Isolation.NAMESPACE})) == ""


def test_a_folder_of_all_users_stays_so(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    close_folders(Settings(state_dir=str(shared)))
    assert shared.stat().st_mode & 0o7777 == 0o1777
