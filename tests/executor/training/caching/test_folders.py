"""Folders of caches go when nobody uses them, also after a crash."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.synchronize import Event
from pathlib import Path

from coadapt.executor.training.caching import folders


def _use(folder: Path, ready: Event) -> None:
    folders.use(folder)
    ready.set()
    signal.pause()


def test_what_a_killed_process_has_left_is_removed_and_what_is_used_stays(tmp_path: Path) -> None:
    here, there = (folders.folder_of("job", life, "node", tmp_path) for life in (0, 1))
    context, users = multiprocessing.get_context("fork"), []
    for folder in (here, there):
        ready = context.Event()
        user = context.Process(target=_use, args=(folder, ready))
        user.start()
        assert ready.wait(30)
        (folder / "data").write_bytes(b"x" * 100)
        users.append(user)
    assert folders.remove_unused(folders.home(tmp_path)) == []
    os.kill(users[0].pid or 0, signal.SIGKILL)
    users[0].join()
    assert folders.remove_unused(folders.home(tmp_path)) == [here]
    assert (not here.exists(), there.exists()) == (True, True)
    users[1].kill()
    users[1].join()


def test_a_folder_that_was_just_removed_is_made_anew(tmp_path: Path) -> None:
    folder = folders.folder_of("job", 0, "node", tmp_path)
    os.close(folders.use(folder))
    assert folders.remove_unused(folders.home(tmp_path)) == [folder]
    file = folders.use(folder)
    assert folders.remove_unused(folders.home(tmp_path)) == []
    os.close(file)


def test_the_homes_of_all_users_are_found(tmp_path: Path) -> None:
    folders.home(tmp_path).mkdir()
    assert folders.homes(tmp_path) == [folders.home(tmp_path)]
