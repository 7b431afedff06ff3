"""Alerts and board ask for metrics that exist, and each alert says what to do about it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from coadapt.api.metrics import ApiMetrics

from tests.test_docs import anchors

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
}
TESTS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]
BOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "coadapt.json").read_text())
PAGE = "docs/guide/alerts.md"
promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not there; `apt-get install prometheus` brings it"
)


class Nobody:
    """A scheduler that is not asked."""

    async def call(self, method: str, *args: Any) -> Any:
        raise AssertionError(method)


def series() -> set[str]:
    """Return the names of all series that Prometheus stores of us."""
    found = set()
    for family in ApiMetrics(Nobody(), lambda: 0).registry.collect():
        ends = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",)}.get(family.type, ("",))
        found |= {family.name + end for end in ends}
    return found


def asked(text: str) -> set[str]:
    return set(re.findall(r"\bcoadapt_\w+", text))


def expressions() -> list[str]:
    panels = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", ())]
    return [rule["expr"] for rule in RULES.values()] + panels + [v["query"] for v in BOARD["templating"]["list"]]


def test_alerts_and_board_ask_for_metrics_that_exist() -> None:
    known = series()
    for expression in expressions():
        assert asked(expression) <= known, expression
    for test in TESTS:
        for row in test["input_series"]:
            assert asked(row["series"]) <= known, row["series"]


def test_each_alert_leads_to_what_to_do_about_it() -> None:
    headings = set(re.findall(r"^### (Coadapt\w+)$", (ROOT / PAGE).read_text(), re.MULTILINE))
    assert headings == set(RULES)
    for name, rule in RULES.items():
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert (page, anchor) == (PAGE, name.lower())
        assert anchor in anchors(ROOT / page)
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"]


def test_each_alert_is_tried_both_quiet_and_firing() -> None:
    tried = {row["alertname"]: set[bool]() for test in TESTS for row in test["alert_rule_test"]}
    for test in TESTS:
        for row in test["alert_rule_test"]:
            tried[row["alertname"]].add(bool(row["exp_alerts"]))
    assert tried == {name: {False, True} for name in RULES}


@promtool
@pytest.mark.parametrize("words", [("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")])
def test_prometheus_takes_the_rules(words: tuple[str, ...]) -> None:
    done = subprocess.run(["promtool", *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_of_the_board_do_not_lie_on_each_other() -> None:
    cells: dict[tuple[int, int], str] = {}
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert x < 24
                assert cells.setdefault((x, y), panel["title"]) == panel["title"]
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
