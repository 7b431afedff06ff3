"""For the site: links to files outside docs/ become plain names, as its readers do not have the files."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s:]+)(?:#[^)\s]*)?\)")
_NAMED = re.compile(r"^\[([^\]]+)\]:\s+([^\s:]+)$", re.MULTILINE)  # where a link of two parts leads


def without_outside_links(markdown: str, page: str) -> str:
    """Return a page's text in which links that leave docs/ are their words. `page`: its path below docs/."""

    def is_outside(link: str) -> bool:
        return posixpath.normpath(posixpath.join(posixpath.dirname(page), link)).startswith("..")

    text = _LINK.sub(lambda found: found[1] if is_outside(found[2]) else found[0], markdown)
    for name, link in _NAMED.findall(text):
        if is_outside(link):
            text = text.replace(f"][{name}]", "]").replace(f"[{name}]: {link}", "")
    return re.sub(r"\[(`[^`]+`)\](?![\[(:])", r"\1", text) if text != markdown else text


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Do so for each page; mkdocs calls this."""
    return without_outside_links(markdown, page.file.src_uri)
