"""Kubernetes, systemd and shells take the files of `deploy/`, and they call Coadapt as it is called."""

from __future__ import annotations

import configparser
import copy
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from coadapt.cli.main import app
from coadapt.core.settings import Settings
from coadapt.core.settings_change import parsed, typed

from tests.support.manifests import (
    KUBERAY,
    ROOT,
    SLURM,
    STARTS,
    SYSTEMD,
    container,
    options_of_up,
    ray_cluster,
    wrong_core_kinds,
    wrong_ray_cluster,
)

DATA = Path(os.environ.get("COADAPT_DATA", ROOT.parent / "shared" / "data")) / "kuberay"
UNITS = sorted(SYSTEMD.glob("*.service"))
SCRIPTS = [SLURM, ROOT / "deploy" / "cloud" / "state_volume.sh"]


def needs(program: str, package: str) -> pytest.MarkDecorator:
    why = f"{program} is not there; `apt-get install {package}` brings it"
    return pytest.mark.skipif(shutil.which(program) is None, reason=why)


@pytest.mark.parametrize("path", STARTS, ids=lambda path: path.name)
def test_the_scheduler_is_started_with_options_and_settings_that_exist(path: Path, tmp_path: Path) -> None:
    command: Any = typer.main.get_command(app)
    calls = options_of_up(path)
    assert calls
    for words in calls:
        context = command.commands["up"].make_context("up", list(words))
        given = context.params["given"] or []
        assert typed(Settings(state_dir=str(tmp_path)), parsed(given))


def test_kubernetes_takes_its_own_kinds() -> None:
    assert wrong_core_kinds() == []


@pytest.mark.skipif(not DATA.is_dir(), reason="KubeRay's definitions are not there; COADAPT_DATA says where")
def test_kuberay_takes_the_cluster() -> None:
    assert wrong_ray_cluster(DATA) == []
    typo = copy.deepcopy(ray_cluster())
    typo["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["comand"] = []
    typo["spec"]["workerGroupSpecs"][0]["minReplicas"] = "two"
    assert len(wrong_ray_cluster(DATA, typo)) == 2, "a wrong one would be found"


def test_the_state_of_a_pod_that_dies_is_that_of_the_next_one() -> None:
    head = container("head")
    mounts = {mount["mountPath"]: mount["name"] for mount in head["volumeMounts"]}
    home = next(one["value"] for one in head["env"] if one["name"] == "COADAPT_HOME")
    volumes = ray_cluster()["spec"]["headGroupSpec"]["template"]["spec"]["volumes"]
    (state,) = (one for one in volumes if one["name"] == mounts[home])
    assert state["persistentVolumeClaim"]["claimName"] == "coadapt-state"
    assert "auth_token" in KUBERAY.read_text(), "the key under which KubeRay reads the token"


def test_kuberay_is_told_labels_where_it_takes_them() -> None:
    spec = ray_cluster()["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        assert "labels" not in group["rayStartParams"], "its operator refuses them there"
        assert group["labels"]


@needs("systemd-analyze", "systemd")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_takes_the_units(unit: Path, tmp_path: Path) -> None:
    for path in UNITS:
        text = path.read_text().replace("/opt/coadapt/venv", sys.prefix)
        (tmp_path / path.name).write_text(text)
    told = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / unit.name)], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stderr) == (0, "")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_each_unit_returns_after_a_reboot_and_after_a_failure(path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(path.read_text())
    assert unit["Install"]["WantedBy"] == "multi-user.target"
    assert unit["Service"]["Restart"] in ("always", "on-failure")
    assert unit["Unit"]["StartLimitIntervalSec"] == "0", "else systemd gives up after five tries"
    assert not {"PrivateTmp", "PrivateDevices", "MemoryDenyWriteExecute", "ProtectProc"} & set(unit["Service"])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shells_read_the_scripts(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True)


@needs("shellcheck", "shellcheck")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_finds_nothing(script: Path) -> None:
    told = subprocess.run(["shellcheck", str(script)], capture_output=True, text=True, check=False)
    assert told.stdout == ""


def test_shells_read_what_containers_run(tmp_path: Path) -> None:
    for group in ("head", "a100", "t4"):
        found = container(group)
        assert found["command"] == ["/bin/bash", "-c"]
        (tmp_path / "args").write_text(found["args"][0])
        subprocess.run(["bash", "-n", str(tmp_path / "args")], check=True)
