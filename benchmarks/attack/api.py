"""What an API answers to whoever means it ill: any request it describes, damaged bodies, damaged packages."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coadapt.api.arriving_package import ArrivingPackage
from coadapt.core.errors import PackageError

from tests.support.api import JOB, Api
from tests.support.packages import entry, name_of, packed

ROUTES = "tests/api/test_access.py"
Damage = Callable[[random.Random, bytes], bytes]


def wrong_answers() -> int:
    """Return how many cells of the table of routes, roles and owners are answered otherwise than it says."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", ROUTES, "--tb=no"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{ROUTES} was not run: {done.stdout[-500:]}")
    return sum(line.startswith("FAILED") for line in done.stdout.splitlines())


def answers_5xx(examples: int) -> int | None:
    """Return how many requests that fit its own description it answers with 5xx; None: no schemathesis here."""
    if importlib.util.find_spec("schemathesis") is None:
        return None
    import hypothesis
    import schemathesis

    found = 0
    with tempfile.TemporaryDirectory() as folder:
        api = Api(Path(folder))
        schema = schemathesis.openapi.from_asgi("/openapi.json", api.app)
        headers = {"Authorization": f"Bearer {api.tokens['ops']}"}
        for result in schema.get_all_operations():
            operation = result.ok()
            if operation.path == "/v1/events" or operation.path.endswith("/follow"):
                continue  # its answer never ends

            @hypothesis.settings(
                max_examples=examples,
                deadline=None,
                database=None,
                derandomize=True,
                suppress_health_check=list(hypothesis.HealthCheck),
            )
            @hypothesis.given(case=operation.as_strategy())
            def asked(case: Any) -> None:
                nonlocal found
                answer = case.call(headers=headers)
                if answer.status_code >= 500:
                    found += 1
                    print(f"{answer.status_code}: {case.method} {case.formatted_path}: {answer.text[:200]}")

            asked()
        api.world.store.close()
    return found


def broken_bodies(count: int, damaged: Damage, seed: int = 54) -> int:
    """Return how many of so many damaged bodies were answered with a failure of the service."""
    draw, found = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        api = Api(Path(folder))
        whole = json.dumps(JOB).encode()

        async def send(client: Any) -> int:
            failures = 0
            for at in range(count):
                headers = {"Idempotency-Key": f"k{at}"}
                answer = await client.post("/v1/jobs", content=damaged(draw, whole), headers=headers)
                if answer.status_code >= 500:
                    failures += 1
                    print(f"body: {answer.status_code}: {answer.text[:200]}")
            return failures

        found = api.run(send, "ann")
        api.world.store.close()
    return found


def broken_packages(count: int, damaged: Damage, seed: int = 54) -> int:
    """Return how many of so many damaged packages were neither taken nor refused in a sentence."""
    draw, found = random.Random(seed), 0
    whole = packed([entry("train.py", 500), entry("a" * 150, 700), entry("data/x", 10)])
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            content = damaged(draw, whole)
            try:
                with ArrivingPackage(Path(folder), name_of(content), 1) as package:
                    package.add(content)
                    package.keep()
            except PackageError:
                continue
            except Exception as error:
                found += 1
                print(f"package: {type(error).__name__}: {error}")
        left = [path for path in Path(folder).iterdir() if path.suffix == ".part"]
        found += len(left)
    return found


def known_faults() -> tuple[int | None, str]:
    """Return how many installed packages have a known fault that a release mends, and a sentence on the look."""
    if importlib.util.find_spec("pip_audit") is None:
        return None, "pip-audit is not installed here"
    words = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--skip-editable"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    try:
        told = json.loads(done.stdout)
    except ValueError:
        why = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        return None, f"pip-audit could not reach its database: {why[:200]}"
    looked_up = [one for one in told["dependencies"] if "skip_reason" not in one]
    if not looked_up:
        return None, "pip-audit found none of the installed packages in its database, or could not reach it"
    faulty = [
        f"{one['name']} {one['version']}: {fault['id']}, mended in {', '.join(fault['fix_versions'])}"
        for one in looked_up
        for fault in one.get("vulns", ())
        if fault["fix_versions"]
    ]
    return len(faulty), "\n".join(
        faulty
    ) or f"of {len(looked_up)} packages pip-audit knows no fault that a release mends"
