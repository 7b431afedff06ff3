"""What others wrote is shown as text: it is no markup, moves no cursor, sets no colour and forges no line."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from coadapt.cli import audit, main, metrics, node_orders, rounds, secret, settings, show
from coadapt.cli.plain import MARK, plain, printable
from coadapt.core.audit import AuditRow
from coadapt.core.cluster import Node
from coadapt.core.errors import JobStateError
from coadapt.core.job import JobSpec, JobState, Phase
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.views.cluster_views import node_row
from coadapt.scheduler.views.job_views import job_details

from tests.cli.test_cli import row
from tests.support.listed import Listed

MARKUP = "[red]a[/] [/] [link=http://e.org]b[/link] :smile:"
CONTROL = "\x1b[2J\x1b]0;c\x07\x9b31m\r\b\u202e"
OTHERS = f"{MARKUP}{CONTROL}"
SHOWN = printable(OTHERS)
FORGED = f"{OTHERS}\nforged"
COMMANDS: list[list[str]] = [
    ["list"],
    ["top", "--once"],
    ["describe", "a-1"],
    ["explain", "a-1"],
    ["events"],
    ["rounds"],
    ["audit"],
    ["cluster"],
    ["node", "list"],
    ["node", "cordon", "n0"],
    ["node", "window", "list"],
    ["secret", "list"],
    ["settings"],
    ["metrics", "a-1"],
    ["user", "list"],
    ["token", "list"],
    ["pause", "a-1"],
    ["logs", "a-1", "--follow"],
]


class Others(Listed):
    """A client of a scheduler that others have filled with what they like."""

    def list(self) -> list[dict[str, Any]]:
        told: dict[str, Any] = {"reason": FORGED, "wait_reason": "no_gpus", "metrics": {OTHERS: 0.5}}
        return [row(owner="ann", gpu_type=OTHERS, **told)]

    def describe(self, job: str) -> dict[str, Any]:
        spec = JobSpec(name="a", script="train.py", args=[FORGED])
        record = JobRecord("a-1", 1, spec, JobState(Phase.FAILED, reason=FORGED))
        found: dict[str, Any] = {
            **job_details(record, []),
            "traceback": f"in {OTHERS}\n\traise",
            "habits": [FORGED],
        }
        return found | {"events": [self.event()], "profiles": {"t4": FORGED}}

    def explain(self, job: str) -> dict[str, Any]:
        return {"lines": [OTHERS]}

    def event(self) -> dict[str, Any]:
        told = {"number": 1, "time_s": 0.0, "kind": "error", "job_id": "a-1"}
        return told | {"text": FORGED, "who": OTHERS}

    def events(self, job: str | None, **told: Any) -> list[dict[str, Any]]:
        return [self.event()]

    def rounds(self, **told: Any) -> list[dict[str, Any]]:
        changes: dict[str, Any] = {kind: [] for kind in ("placed", "moved", "stopped", "measured")}
        found = {"number": 1, "round": None, "time_s": 0.0, "seconds": 0.1, "phases": {}, "jobs": None}
        return [found | changes | {"counts": {}, "waiting": {}, "gap": None, "errors": [FORGED]}]

    def audit(self, **told: Any) -> list[dict[str, Any]]:
        return [asdict(AuditRow(1, 0.0, OTHERS, "user", OTHERS, "r", "job.pause", FORGED, FORGED, {}, ""))]

    def cluster(self) -> dict[str, Any]:
        node: dict[str, Any] = {**node_row(Node("n0", "t4", 4), []), "machine": OTHERS, "pool": OTHERS}
        last = {"policy": "sia", "round_interval_s": 60.0, "rounds": 1, "phases": {}, "prices": {}}
        last |= {"solver_s": None, "gap": None, "saved_kwh": None}
        return {"nodes": [node], "asleep": self.machines(), "notes": [FORGED], "events": [self.event()], **last}

    def machines(self) -> Sequence[dict[str, Any]]:
        state = {"state": "failed", "since_s": 0.0, "until_s": None, "keep": False, "leaves": False, "gpus": 4}
        return [{"machine": OTHERS, "reason": FORGED, "pool": "", "gpu_type": "t4", "emulated": False, **state}]

    def cordon(self, node: str, why: str) -> dict[str, Any]:
        return {"changed": True, "told": FORGED}

    def windows(self) -> Sequence[dict[str, Any]]:
        moments = {"begins_s": 0.0, "ends_s": 1.0, "lead_s": 0.0}
        return [{"id": "w1", "nodes": [OTHERS], "gpu_type": "", "who": OTHERS, "why": FORGED, **moments}]

    def secrets(self) -> Sequence[dict[str, Any]]:
        return [{"name": "A", "created_s": 0.0, "changed_s": 0.0, "problem": FORGED}]

    def settings_rows(self) -> Sequence[dict[str, Any]]:
        return [{"name": "a", "value": MARKUP, "default": "", "changed": False, "fixed": False}]

    def metrics(self, job: str) -> dict[str, Any]:
        return {"metrics": {FORGED: [{"value": 0.5}]}}

    def users(self) -> Sequence[dict[str, Any]]:
        return [{"name": OTHERS, "role": "user", "disabled": False, "created_s": 0.0}]

    def tokens(self) -> Sequence[dict[str, Any]]:
        moments = dict.fromkeys(("created_s", "expires_s", "revoked_s", "used_s"))
        return [{"id": "0", "user": "ann", "label": FORGED, **moments}]

    def pause(self, job: str) -> bool:
        raise JobStateError(OTHERS)

    def logs(self, job: str, **told: Any) -> Iterator[str]:
        yield "what a script prints is its own affair\n"


@pytest.fixture(autouse=True)
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "_connect", Others)
    monkeypatch.setattr("coadapt.client.client.connect", Others)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_shows_it_as_it_is_with_marks(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main.run(command)
    told = "".join(capsys.readouterr())
    assert all(word in told for word in MARKUP.split()), told
    assert not [one for one in told if not (one.isprintable() or one in "\n\t")]
    assert not [line for line in told.splitlines() if line.startswith("forged")], "each stays on its line"


def test_a_terminal_gets_no_escape_but_our_own() -> None:
    client, screen = Others(), io.StringIO()
    console = show.PlainConsole(file=screen, force_terminal=True, width=300, color_system=None)
    told: list[Any] = [show.jobs_table(client.list()), show.details(client.describe("a-1"))]
    told += [show.cluster_table(client.cluster()), audit.table(client.audit())]
    told += [secret.table(client.secrets()), settings.table(client.settings_rows())]
    told += [metrics.table(client.metrics("a-1")), node_orders.table(client.windows())]
    for one in (*told, OTHERS, show.Text(OTHERS)):
        console.print(one)
    assert screen.getvalue().count(MARKUP) >= len(told)
    # A table in bold has escapes of our own: they set a style, and nothing else is left of others'.
    left = screen.getvalue()
    for style in ("\x1b[1m", "\x1b[2m", "\x1b[0m", "\x1b[1;2m"):
        left = left.replace(style, "")
    assert not [one for one in left if not (one.isprintable() or one in "\n\t")]


def test_a_live_table_still_moves_the_cursor() -> None:
    from rich.live import Live

    screen = io.StringIO()
    console = show.PlainConsole(file=screen, force_terminal=True, width=80)
    with Live(console=console, auto_refresh=False) as live:
        for _ in range(2):
            live.update(show.jobs_table([row()], bars=True), refresh=True)
    assert "\x1b[1A" in screen.getvalue()


def test_a_round_keeps_each_error_on_its_line() -> None:
    (found,) = Others().rounds()
    assert [line for line in rounds.lines(found) if "error" in line] == [f"  error: {SHOWN}{MARK}forged"]


def test_lines_stay_lines_and_words_stay_words() -> None:
    assert plain("a\n\tb é 漢") == "a\n\tb é 漢"
    assert plain("a\x1b[1mb\r\n") == f"a{MARK}[1mb{MARK}\n"
    assert printable("a\nb") == f"a{MARK}b"


WRITES = {
    "main.py": {"_wait", "check", "logs", "schema"},
    "top.py": {"register", "top"},
    "outputs.py": {"listing"},
}


def test_commands_print_by_nothing_else() -> None:
    """Hold that no command prints by itself; a log is written as it is, and JSON has escapes of its own."""
    for path in sorted(Path(main.__file__).parent.glob("*.py")):
        if path.name == "plain.py":
            continue
        tree = ast.parse(path.read_text())
        for function in [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]:
            for call in [one for one in ast.walk(function) if isinstance(one, ast.Call)]:
                name = ast.unparse(call.func)
                assert name not in ("print", "Console"), f"{path.name}: {function.name} prints by {name}"
                if name in ("sys.stdout.write", "sys.stderr.write"):
                    assert function.name in WRITES.get(path.name, ()), f"{path.name}: {function.name}"
