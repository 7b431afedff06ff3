"""`coadapt node`: machines are listed, powered off and on, and kept; each refusal is one sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from coadapt.cli import main, show
from coadapt.cli.exit_codes import Exit
from coadapt.client.client import RequestError, UnknownJobError
from coadapt.core.cluster import Node
from coadapt.core.errors import PowerError
from coadapt.core.schemas import MachineRow, OrderView, WindowRow
from coadapt.scheduler.views.cluster_views import node_row


def row(machine: str, state: str = "on", **more: Any) -> MachineRow:
    known: dict[str, Any] = {"machine": machine, "node": None, "state": state, "since_s": None, "until_s": None}
    known |= {
        "closed": "",
        "leaves": False,
        "deadline_s": None,
        "keep": False,
        "reason": "",
        "gpu_type": "a100",
        "pool": "",
        "gpus": 4,
        "cpus": 8.0,
    }
    found: Any = known | {"memory_gib": 64.0, "emulated": True} | more
    return MachineRow(**found)


class Client:
    """A client whose service knows m0, which may not sleep, and m1."""

    def machines(self) -> list[MachineRow]:
        return [row("m0", keep=True), row("m1", "asleep", since_s=0.0, until_s=10.0, reason="nobody needs it")]

    def drain(self, node: str, deadline_s: float | None = None, why: str = "") -> OrderView:
        if node == "m7":
            raise UnknownJobError("no node m7; `coadapt node list` shows all")
        if node == "m1":
            return OrderView(changed=False, told="m1 is drained already")
        left = "" if deadline_s is None else f" in {deadline_s:.0f} s"
        return OrderView(changed=True, told=f"{node} is drained{left}: {why}")

    def add_window(
        self, begins_s: float, ends_s: float, nodes: list[str], gpu_type: str, lead_s: float | None, why: str
    ) -> WindowRow:
        if not nodes and not gpu_type:
            raise RequestError("nodes: none is named; name machines, or a GPU type by --gpu-type")
        lead_s = 600.0 if lead_s is None else lead_s
        return WindowRow(
            id="w1",
            nodes=nodes,
            gpu_type=gpu_type,
            begins_s=begins_s,
            ends_s=ends_s,
            lead_s=lead_s,
            who="",
            why=why,
        )

    def power(self, verb: str, machine: str) -> bool:
        if machine == "m7":
            raise UnknownJobError("no machine m7; `coadapt node list` shows all")
        if (verb, machine) == ("sleep", "m0"):
            raise PowerError("m0 is not powered off: a-1 is there")
        return (verb, machine) != ("sleep", "m1")


@pytest.fixture(autouse=True)
def _client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "_connect", Client)


def test_machines_are_listed_with_their_states(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["node", "list"]) == Exit.OK
    out = capsys.readouterr().out
    assert "on (kept)" in out
    assert "nobody needs it" in out
    assert "a100 (emulated)" in out
    assert main.run(["node", "list", "--json"]) == Exit.OK
    assert [one["state"] for one in json.loads(capsys.readouterr().out)] == ["on", "asleep"]


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (["wake", "m1"], Exit.OK, "m1 is woken\n", ""),
        (["keep", "m2"], Exit.OK, "m2 is never powered off until `coadapt node keep m2 --undo`\n", ""),
        (
            ["keep", "m1"],
            Exit.OK,
            "m1 is never powered off until `coadapt node keep m1 --undo`; "
            "it sleeps, and `coadapt node wake m1` wakes it\n",
            "",
        ),
        (["keep", "m1", "--undo"], Exit.OK, "m1 may be powered off again\n", ""),
        (["sleep", "m1"], Exit.OK, "m1 sleeps already, or is about to\n", ""),
        (["forget", "m1"], Exit.OK, "m1 is forgotten\n", ""),
        (
            ["sleep", "m0", "m1"],
            Exit.USAGE,
            "m1 sleeps already, or is about to\n",
            "coadapt: m0 is not powered off: a-1 is there\n",
        ),
        (["wake", "m7"], Exit.NOT_FOUND, "", "coadapt: no machine m7; `coadapt node list` shows all\n"),
        (
            ["wake", "m7", "m1"],
            Exit.NOT_FOUND,
            "m1 is woken\n",
            "coadapt: no machine m7; `coadapt node list` shows all\n",
        ),
    ],
    ids=str,
)
def test_each_verb_says_what_became_of_each_machine(
    words: list[str], code: Exit, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["node", *words]) == code
    assert capsys.readouterr() == (out, err)


def test_with_json_each_machine_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["node", "sleep", "m0", "m1", "--json"]) == Exit.USAGE
    assert json.loads(capsys.readouterr().out) == [
        {"machine": "m0", "done": False, "refused": "m0 is not powered off: a-1 is there"},
        {"machine": "m1", "done": False},
    ]
    assert main.run(["node", "wake", "m7", "m1", "--json"]) == Exit.NOT_FOUND
    assert [row["done"] for row in json.loads(capsys.readouterr().out)] == [False, True]


def test_the_cluster_names_the_machine_of_each_node(capsys: pytest.CaptureFixture[str]) -> None:
    cluster: Any = {
        "nodes": [node_row(Node("n" * 40, "a100", 4, machine="m0"), [])],
        "asleep": [],
        "saved_kwh": None,
    }
    cluster |= {"round_interval_s": 60.0, "rounds": 1, "phases": {}, "prices": {}, "solver_s": None, "gap": None}
    show.console().print(show.cluster_table(cluster | {"notes": [], "events": [], "policy": "sia"}))
    head, first, *_ = capsys.readouterr().out.splitlines()
    assert (head.split()[:2], first.split()[:2]) == (["NODE", "MACHINE"], ["n" * 12, "m0"])


def test_the_cluster_shows_who_sleeps_since_when_and_what_it_saves(capsys: pytest.CaptureFixture[str]) -> None:
    cluster: Any = {"nodes": [], "asleep": Client().machines()[1:], "saved_kwh": 1.25, "policy": "sia"}
    cluster |= {"round_interval_s": 60.0, "rounds": 1, "phases": {}, "prices": {}, "solver_s": None, "gap": None}
    show.console().print(show.cluster_table(cluster | {"notes": [], "events": []}))
    out = capsys.readouterr().out
    assert "no GPU nodes are awake" in out
    assert "m1" in out
    assert "machines that slept have saved about 1.25 kWh" in out


MOMENT = "2030-01-02T03:04"
ORDERS: list[tuple[list[str], Exit, str, str]] = [
    (["drain", "m0", "--deadline", "10m", "--why", "a fan"], Exit.OK, "m0 is drained in 600 s: a fan\n", ""),
    (["drain", "m1"], Exit.OK, "m1 is drained already\n", ""),
    (
        ["drain", "m7", "m0"],
        Exit.NOT_FOUND,
        "m0 is drained: \n",
        "coadapt: no node m7; `coadapt node list` shows all\n",
    ),
    (
        ["drain", "m0", "--deadline", "2020-01-01"],
        Exit.USAGE,
        "",
        "coadapt: --deadline: 2020-01-01 is in the past; it must be after now, such as 10m\n",
    ),
    (
        ["drain", "m0", "--deadline", "soon"],
        Exit.USAGE,
        "",
        "coadapt: --deadline: soon is no moment; it is a time from now such as 10m or 2h, or a moment such as "
        "2026-12-01T22:00\n",
    ),
    (
        ["window", "add", "m0", "--gpu-type", "t4", "--from", MOMENT, "--to", "2030-01-02 05:00", "--lead", "4m"],
        Exit.OK,
        "w1: m0, all t4 nodes from 2030-01-02 03:04 to 2030-01-02 05:00; jobs leave from 2030-01-02 03:00 on\n",
        "",
    ),
    (
        ["window", "add", "--from", MOMENT, "--to", MOMENT],
        Exit.USAGE,
        "",
        "coadapt: nodes: none is named; name machines, or a GPU type by --gpu-type\n",
    ),
]


@pytest.mark.parametrize(("words", "code", "out", "err"), ORDERS, ids=[" ".join(words) for words, *_ in ORDERS])
def test_an_order_for_nodes_is_told_in_a_line(
    words: list[str], code: Exit, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["node", *words]) == code
    assert capsys.readouterr() == (out, err)
