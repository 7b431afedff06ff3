"""The page as people use it, in headless Chromium: what it does, how fast, for whom, and how it looks.

    python -m benchmarks.dashboard [--pictures FOLDER] [--events 50000] [--no-laptop] [--docs]

The scheduler, its store and the API are real. The executors of a cluster with history, and of one with very many
jobs, are played, in a process of its own; the laptop is a real cluster of emulated nodes.
* first_paint_s, first_load_kib: of the first page and the list of 1,000 jobs, the worse one; medians of 20.
* event_on_page_s: from a change until an open page shows it. frames_per_s: of a timeline of 2,000 jobs.
* axe_serious: what axe-core finds serious or critical on any page, in light, dark and at 360 px; empty, busy and
  in error. wide_pages: pages that are wider than a phone. other_hosts: asked by any page.
* heap_growth_mib: of a page that is fed with events. flows, flows_failed: what people do, and what did not work.
`--docs` takes the pictures of the guide anew.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.support.packages import NAME

from .arguments import at_least
from .dashboard_steps.browser import axe_source, opened
from .dashboard_steps.flows import all_flows
from .dashboard_steps.laptop import on_a_laptop
from .dashboard_steps.pictures import Album, for_docs, take_all
from .dashboard_steps.speed import figures as speed_figures
from .dashboard_steps.subject import played
from .harness import finish, table

ROOT = Path(__file__).resolve().parents[1]
JOBS = 1000
STATES = {"empty": ["--empty"], "busy": ["--teams"], "error": ["--teams"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, help="where pictures of all pages go; by default nowhere")
    parser.add_argument("--events", type=at_least(1000), default=50_000)
    parser.add_argument("--no-laptop", action="store_true", help="without the cluster of real jobs")
    parser.add_argument("--docs", action="store_true", help="only write the pictures of the guide")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="coadapt-page-", dir=_fast()) as folder, opened() as browser:
        where = Path(folder)
        if args.docs:
            with played(where / "busy", "--teams") as subject:
                for_docs(browser, subject, ROOT / "docs" / "pictures")
            return 0
        album = Album(args.pictures, axe_source())
        for state, words in STATES.items():
            with played(where / state, *words) as subject:
                take_all(browser, subject, album, state)
            shutil.rmtree(where / state)
        with played(where / "flows") as subject:
            done = all_flows(browser, subject.url, subject.tokens, NAME)
        with played(where / "many", "--jobs", JOBS) as subject:
            found = speed_figures(browser, subject, args.events)
        hosts = album.seen.hosts | done.seen.hosts
        if not args.no_laptop:
            alone = on_a_laptop(browser)
            done.tried += alone.tried
            done.failed += alone.failed
    for text in [*done.failed, *album.serious, *album.wide, *album.seen.errors, *sorted(hosts)]:
        print(f"wrong: {text}")
    asked = int(found.pop("asked_hosts"))
    found |= {
        "other_hosts": len(hosts) + asked,
        "axe_serious": len(album.serious),
        "wide_pages": len(album.wide),
        "script_errors": len(album.seen.errors) + len(done.seen.errors),
        "pictures": album.taken,
        "flows": len(done.tried),
        "flows_failed": len(done.failed),
    }
    table(f"The page, {JOBS:,} jobs", ["", "measured"], [[name, value] for name, value in found.items()])
    finish("dashboard", found)
    return 1 if done.failed or album.serious or hosts else 0


def _fast() -> str | None:
    """Return a folder in memory, where there is one: stores of three hours are written within seconds."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


if __name__ == "__main__":
    sys.exit(main())
