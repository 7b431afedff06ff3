"""What the API asks is found by its name, and only what a desk means to answer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from coadapt.scheduler.access.audit import AuditLog
from coadapt.scheduler.desks.table import Desks
from coadapt.scheduler.runtime.clock import SystemClock
from coadapt.scheduler.runtime.degraded import StoreWatch
from coadapt.scheduler.service import SchedulerService

from tests.support.api import Served, service_of
from tests.support.cycles import World
from tests.support.layout import ROOT

ASKING = {"ask", "change", "call"}  # functions of the API whose first text is the name of a method


@pytest.fixture
def service(tmp_path: Path) -> Served:
    return service_of(World(tmp_path, "1x t4:4"))


def asked() -> Iterator[str]:
    """Yield the methods that the API asks for."""
    for path in sorted((ROOT / "api").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _name(node.func) in ASKING:
                texts = [one.value for one in node.args if isinstance(one, ast.Constant)]
                yield from (one for one in texts[:1] if isinstance(one, str))


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def test_a_desk_answers_whatever_the_api_asks(service: Served) -> None:
    names = set(asked())
    assert len(names) > 50
    assert names <= set(service.desks.methods)


def test_the_actor_still_answers_whoever_starts_or_ends_it(service: Served) -> None:
    """`coadapt up` and `down` may be of the version before."""
    own = {name for name in vars(SchedulerService) if not name.startswith("_")}
    assert own - set(service.desks.methods) == {"ask", "on_event", "others", "shutdown"}


@pytest.mark.parametrize("method", ["submitt", "_order", "__init__", "parts"])
def test_what_no_desk_has_is_refused_by_name(service: Served, method: str) -> None:
    sentence = f"^method: '{method}' is unknown; no desk of the scheduler has it$"
    for call in (lambda: service.desks.ask(method), lambda: service.desks.audited({}, method, ())):
        with pytest.raises(AttributeError, match=sentence):
            call()


def test_two_desks_do_not_answer_to_the_same_name(tmp_path: Path) -> None:
    class Desk:
        def prune(self) -> None:
            """Do nothing."""

    clock = SystemClock()
    audit = AuditLog(World(tmp_path, "1x t4:4").store, clock, StoreWatch(clock))
    with pytest.raises(ValueError, match=r"^prune: two desks"):
        Desks(audit, [Desk(), Desk()])
