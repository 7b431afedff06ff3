"""`coadapt settings` shows what counts, and `settings set` changes it or says why not."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from coadapt.cli import main
from coadapt.cli.exit_codes import Exit
from coadapt.core.settings import Settings
from coadapt.core.settings_change import changed, differing


class Client:
    """A client of a scheduler with default settings."""

    def settings_rows(self) -> list[dict[str, Any]]:
        row = {"name": "policy", "value": "fifo", "default": "sia", "changed": True, "fixed": ""}
        return [row, {"name": "state_dir", "value": "/x", "default": "/x", "changed": False, "fixed": "a place"}]

    def change_settings(self, wanted: Mapping[str, Any]) -> list[str]:
        now = Settings(state_dir="/x")
        return differing(now, changed(now, wanted))


@pytest.fixture(autouse=True)
def _client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "_connect", Client)


def test_settings_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["settings"]) == Exit.OK
    out = capsys.readouterr().out
    assert ["policy", '"fifo"', '"sia"', "changed"] in [line.split() for line in out.splitlines()]
    assert ["state_dir", '"/x"', "fixed"] in [line.split() for line in out.splitlines()]
    assert main.run(["settings", "--json"]) == Exit.OK
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["policy", "state_dir"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["round_interval_s=30", "policy=fifo"], Exit.OK, "changed: policy, round_interval_s\n"),
        (["round_interval_s=60"], Exit.OK, "all of that was so before\n"),
        (["round_interval_s=0"], Exit.USAGE, "coadapt: round_interval_s: 0 is not a number above 0\n"),
        (["state_dir=/y"], Exit.USAGE, "coadapt: state_dir: cannot change while the scheduler runs: it names"),
        (["colour=red"], Exit.USAGE, "coadapt: colour: unknown setting; known: "),
        (["colour"], Exit.USAGE, "coadapt: colour is not of the form KEY=VALUE"),
        ([], Exit.USAGE, "coadapt: "),
    ],
)
def test_settings_are_set_or_refused(
    words: list[str], code: Exit, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["settings", "set", *words]) == code
    told = capsys.readouterr()
    assert (told.out or told.err).startswith(says)
    assert len((told.out or told.err).splitlines()) == 1
