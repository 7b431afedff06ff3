"""`doctor` names packages and checkpoints that active jobs count on and that are missing or torn."""

import shutil
from dataclasses import replace
from pathlib import Path

from coadapt.executor.training.state.checkpoint import CheckpointStore
from coadapt.scheduler.care.file_findings import file_findings
from coadapt.scheduler.jobs.record import Origin

from tests.support.cycles import RUNS, World
from tests.support.packages import kept


def test_a_missing_package_is_named_and_one_of_an_ended_job_is_not(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS)
    job = replace(world.job("a"), package="abc")
    (found,) = file_findings([job], world.settings)
    assert (found.kind, found.job, "its package abc is missing" in found.text) == ("package", "a-1", True)
    kept(world.settings.package_dir, "abc")
    assert file_findings([job], world.settings) == []
    world.play("cancel a\n")
    assert file_findings([replace(world.job("a"), package="gone")], world.settings) == []


def test_a_torn_checkpoint_is_named(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS)
    job = replace(world.job("a"), package=None)
    folder = Path(world.settings.checkpoint_url("a-1", None))
    CheckpointStore(str(folder)).save({"made": 5}, 5)
    assert file_findings([job], world.settings) == []
    (data,) = [path for path in folder.iterdir() if path.suffix != ".json"]
    data.write_bytes(data.read_bytes()[:-1])
    (found,) = file_findings([job], world.settings)
    assert "is torn" in found.text
    data.unlink()
    (found,) = file_findings([job], world.settings)
    assert f"{data.name} is missing" in found.text


def test_a_fork_whose_first_checkpoint_is_gone_is_named(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS)
    url = str(tmp_path / "elsewhere")
    for copied, says in ((False, f"is missing in {url}"), (True, "of b-9, is missing")):
        origin = Origin("b-9", 5, "step-5", url, copied=copied)
        (found,) = file_findings([replace(world.job("a"), package=None, origin=origin)], world.settings)
        assert (found.kind, says in found.text) == ("checkpoint", True)
    CheckpointStore(url).save({"made": 5}, 5)
    origin = replace(origin, copied=False)
    assert file_findings([replace(world.job("a"), package=None, origin=origin)], world.settings) == []
    shutil.rmtree(url)
