"""Makes HTML of templates. What users wrote is escaped everywhere: no template marks anything as safe."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from . import words
from .job_page import held
from .predicted import deadline_holds, starts_in

HERE = Path(__file__).parent
STATIC = HERE / "static"
MEDIA = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "asset": asset,
        "count": words.count,
        "held": held,
        "starts_in": starts_in,
        "deadline_holds": deadline_holds,
    }
    made.filters |= {"iso": words.iso, "utc": words.utc, "per_cent": words.per_cent, "short": words.short}
    made.filters |= {"took": words.took, "code": code}
    return made


def code(text: str) -> Markup:
    """Return a sentence in which what stands between backticks is shown as code."""
    parts = str(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )


# What `base.html` shows to somebody who is not signed in.
NOBODY: Mapping[str, Any] = {
    "me": None,
    "signed_in": False,
    "csrf": "",
    "here": "",
    "url": "",
    "live": False,
    "pages": (),
    "has_teams": False,
}


def page(template: str, **shown: Any) -> str:
    """Return the HTML of a template in `templates/`, without its ending. What is not given is as for nobody."""
    return _environment().get_template(f"{template}.html").render({**NOBODY, **shown})


@cache
def assets() -> Mapping[str, tuple[bytes, str, str]]:
    """Return what the page loads: content, media type and digest by path below `static/`."""
    found = {}
    for path in sorted(STATIC.rglob("*")):
        if path.suffix in MEDIA:
            content = path.read_bytes()
            name = path.relative_to(STATIC).as_posix()
            found[name] = content, MEDIA[path.suffix], hashlib.sha256(content).hexdigest()[:12]
    return found


def asset(name: str) -> str:
    """Return the path of a file of the page. It changes with the file, so that browsers keep it for good."""
    return f"/static/{name}?v={assets()[name][2]}"
