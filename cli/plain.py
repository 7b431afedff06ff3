"""What others wrote, shown as text: nothing in it moves a cursor, sets a colour or forges a line."""

from __future__ import annotations

import sys

MARK = "�"  # in place of a character that cannot be shown
_LAID_OUT = str.maketrans("", "", "\n\t")


def printable(text: str) -> str:
    """Return a text on one line, with a mark for each character that cannot be printed."""
    return text if text.isprintable() else "".join(one if one.isprintable() else MARK for one in text)


def plain(text: str) -> str:
    """Return a text of any number of lines, with a mark for each character that is neither printed nor layout."""
    if text.translate(_LAID_OUT).isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else MARK for one in text)


def say(text: str = "", *, error: bool = False, flush: bool = False) -> None:
    """Print lines as they are. Colours that others put into them, and the like, reach no terminal.

    error: on stderr.
    """
    print(plain(text), file=sys.stderr if error else sys.stdout, flush=flush)
