"""Takes pictures of every page: light, dark and narrow; empty, busy and in error. axe-core looks at each, too."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError

from .browser import NARROW, WIDE, Seen, person, serious, settled
from .flows import Api
from .subject import Subject

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LOOKS = {"light": (WIDE, False), "dark": (WIDE, True), "narrow": (NARROW, False)}


@dataclass
class Album:
    """Where pictures go, and what was found on the way."""

    folder: Path | None
    axe: str
    seen: Seen = field(default_factory=Seen)
    serious: list[str] = field(default_factory=list)
    wide: list[str] = field(default_factory=list)  # pages that are wider than a phone
    taken: int = 0

    def take(self, page: Page, name: str, look: str) -> None:
        """Take a picture, and note what is wrong with the page."""
        settled(page)
        over = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if over > 0:
            self.wide.append(f"{name} {look}: by {over} px")
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=self.folder / f"{name}-{look}.png", full_page=True)
        self.serious += [f"{name} {look}: {text}" for text in serious(page, self.axe)]
        self.taken += 1


def pages_of(subject: Subject, state: str) -> dict[str, str]:
    """Return the paths of all pages by name, as an operator has them."""
    found = {
        "cluster": "/",
        "jobs": "/jobs",
        "timeline": "/timeline",
        "rounds": "/rounds",
        "teams": "/teams",
        "nodes": "/nodes",
        "what-if": "/what-if",
        "audit": "/audit",
        "tokens": "/tokens",
    }
    if state != "empty":
        found |= {f"job-{name}": f"/jobs/{subject.jobs[name]}" for name in SHOWN[state]}
    return found


NODES_ASKED = {"empty": "+1x t4:1", "busy": "+1x a100:4", "error": "+10000x a100:8"}


def ask_what_if(page: Page, nodes: str) -> None:
    """Ask on the page What-if for other nodes, and wait for the answer."""
    page.get_by_label("Nodes that come or go").fill(nodes)
    button = page.get_by_role("button", name="Work it out")
    button.click()
    page.locator("#question button:not([disabled])").wait_for()


def change_something(subject: Subject) -> None:
    """Have people do what the audit log tells of: changes of jobs and nodes, and one that is refused."""
    ops, ann, vic = (Api(subject.url, subject.tokens[user]) for user in ("ops", "ann", "vic"))
    ann.ask("POST", f"/v1/jobs/{subject.jobs['resnet-imagenet']}/priority", {"priority": "high"})
    node = ops.ask("GET", "/v1/cluster")["nodes"][-1]["machine"]
    ops.ask("POST", f"/v1/nodes/{node}/cordon", {"why": "a fan is loud"})
    ops.ask("POST", f"/v1/nodes/{node}/uncordon")
    with suppress(HTTPError):
        vic.ask("POST", f"/v1/jobs/{subject.jobs['segmentation']}/cancel")


SHOWN = {
    "busy": ("resnet-imagenet", "segmentation", "gan-faces", "detector"),
    "error": ("resnet-imagenet",),
}


def take_all(browser: Browser, subject: Subject, album: Album, state: str) -> None:
    """Take every page in every look, as an operator sees it. The sign-in comes before all trouble."""
    with person(browser, subject.url, subject.tokens["ops"], seen=album.seen) as window:
        signed_in = window.storage_state()
    if state == "busy":
        change_something(subject)
    if state == "error":
        subject.tell("trouble")
    for look, (size, dark) in LOOKS.items():
        kept = {"size": size, "dark": dark, "seen": album.seen, "signed_in": signed_in}
        with person(browser, subject.url, "", **kept) as window:
            for name, path in pages_of(subject, state).items():
                page = window.new_page()
                page.goto(f"{subject.url}{path}")
                album.take(page, f"{state}-{name}", look)
                if name == "what-if":
                    ask_what_if(page, NODES_ASKED[state])
                    album.take(page, f"{state}-what-if-asked", look)
                page.close()
        with person(browser, subject.url, "", size=size, dark=dark, seen=album.seen) as window:
            if state == "empty":
                page = window.new_page()
                page.goto(f"{subject.url}/sign-in")
                album.take(page, "sign-in", look)


DOCS = {
    "page-cluster": "/",
    "page-jobs": "/jobs?which=all",
    "page-timeline": "/timeline",
    "page-rounds": "/rounds",
    "page-teams": "/teams",
    "page-nodes": "/nodes",
    "page-what-if": "/what-if",
    "page-audit": "/audit",
    "page-tokens": "/tokens",
}
WHOLE = ("page-job", "page-what-if")  # others as far as a screen shows them
MOST_BYTES, SHADES = 100 * 1024, 256  # bytes and colours of a picture


def for_docs(browser: Browser, subject: Subject, folder: Path) -> None:
    """Write the pictures that the guide shows, each below 100 KiB. Raises: ValueError for a larger one."""
    from PIL import Image

    change_something(subject)
    with person(browser, subject.url, subject.tokens["ops"], size=(1200, 760)) as window:
        for name, path in {**DOCS, "page-job": f"/jobs/{subject.jobs['vit-small']}"}.items():
            page = window.new_page()
            page.goto(f"{subject.url}{path}")
            if name == "page-what-if":
                ask_what_if(page, NODES_ASKED["busy"])
            settled(page)
            page.locator("#told, #cut").first.wait_for(state="hidden")
            where = folder / f"{name}.png"
            page.screenshot(path=where, full_page=name in WHOLE)
            page.close()
            # Of few colours, but with the rare ones that mean something: those of GPU types, and red.
            few = Image.open(where).convert("RGB").quantize(SHADES, method=Image.Quantize.MAXCOVERAGE)
            few.save(where, optimize=True)
            if where.stat().st_size > MOST_BYTES:
                raise ValueError(
                    f"{where.name}: {where.stat().st_size} bytes, and a picture has at most {MOST_BYTES}"
                )
