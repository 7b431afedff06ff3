"""A framework that is missing, or of an untested version, is told in one sentence; the extras say the same."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError

import pytest
from coadapt.integrations import versions

from tests.support.layout import ROOT


def installed(monkeypatch: pytest.MonkeyPatch, found: str | None) -> None:
    def version(package: str) -> str:
        if found is None:
            raise PackageNotFoundError(package)
        return found

    monkeypatch.setattr(versions, "version", version)


@pytest.mark.parametrize("found", ["1.15.0", "1.15.3.dev0"])
def test_a_tested_version_is_accepted(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    installed(monkeypatch, found)
    versions.require("accelerate")


@pytest.mark.parametrize("found", ["1.14.9", "1.16.0", "2.0"])
def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    installed(monkeypatch, found)
    with pytest.raises(ImportError) as error:
        versions.require("accelerate")
    assert str(error.value) == (
        f"coadapt.integrations.accelerate: accelerate {found} is not one that it was tested with; 1.15 up to, but "
        "not 1.16 is accepted: pip install 'coadapt[accelerate]'"
    )


def test_a_missing_package_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, None)
    with pytest.raises(ImportError) as error:
        versions.require("lightning")
    assert str(error.value) == (
        "coadapt.integrations.lightning: lightning is not installed; pip install 'coadapt[lightning]'"
    )


def test_each_extra_installs_what_is_accepted() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for package, (first, below, extra) in versions.TESTED.items():
        wanted = next(line for line in extras[extra] if re.match(rf"{package}\b", line))
        assert wanted.endswith(f">={'.'.join(map(str, first))},<{'.'.join(map(str, below))}"), wanted
