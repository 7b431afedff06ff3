"""What others wrote is text on a page, whatever it holds."""

from __future__ import annotations

import re

from coadapt.dashboard.rendering import STATIC, asset, assets, code


def test_what_stands_between_backticks_is_code_and_all_of_it_is_escaped() -> None:
    told = code("a <b>: `coadapt requeue <x>`, `now`")
    assert told == "a &lt;b&gt;: <code>coadapt requeue &lt;x&gt;</code>, <code>now</code>"
    assert code("one ` alone <i>") == "one ` alone &lt;i&gt;"


def test_a_file_that_changes_has_another_address() -> None:
    assert re.fullmatch(r"/static/page\.css\?v=[0-9a-f]{12}", asset("page.css"))
    assert all(content and media.startswith(("text/", "image/")) for content, media, _ in assets().values())


def test_no_file_of_the_page_asks_another_host() -> None:
    for path in STATIC.glob("*.*"):
        found = re.findall(r"https?://[^\s\"')]+", path.read_text())
        assert set(found) <= {"http://www.w3.org/2000/svg"}, path.name
