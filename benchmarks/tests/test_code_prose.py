"""The measure of the code's prose counts what a reader of the code reads, and nothing else."""

from __future__ import annotations

from coadapt.benchmarks.code_prose import Prose, comments

SOURCE = '''"""A module may begin with what it is. Two sentences.

    code: is left out. Really

It goes on.
"""

# A comment that goes
# on is one sentence. Another one.
LIMIT = 3  # one of its own


class Shape:
    """A class may, too."""

    @property
    def area(self) -> int:
        """Square metres."""

    def scale(self, factor: int) -> None:  # noqa: ARG002
        """Scale it.

        >>> Shape().scale(2)
        """

    def half(self) -> None:
        """Half of it."""


def test_shapes() -> None:
    """A case of its own."""
'''


def measured(source: str) -> Prose:
    found = Prose()
    found.add("shape.py", source)
    return found


def test_comments_that_follow_each_other_are_one_text() -> None:
    assert list(comments(SOURCE)) == [
        (8, "A comment that goes on is one sentence. Another one."),
        (10, "one of its own"),
    ]


def test_sentences_are_those_of_docstrings_and_comments() -> None:
    assert [one.text for _, one in measured(SOURCE).sentences] == [
        "A module may begin with what it is.",
        "Two sentences.",
        "It goes on.",
        "A class may, too.",
        "A case of its own.",
        "Square metres.",
        "Scale it.",
        "Half of it.",
        "A comment that goes on is one sentence.",
        "Another one.",
        "one of its own",
    ]


def test_each_named_thing_is_a_text_of_its_own() -> None:
    source = '''"""The size of a sheet.

width: metres from side to side,
    without the margin
`top`, `bottom`: margins
paper feed: from where
**rest: goes to the printer

Args:
    count: how many
    paper: of what
"""
'''
    assert [(one.line, one.text) for _, one in measured(source).sentences] == [
        (1, "The size of a sheet."),
        (3, "width: metres from side to side, without the margin"),
        (5, "Code, Code: margins"),
        (6, "paper feed: from where"),
        (7, "rest: goes to the printer"),
        (10, "count: how many"),
        (11, "paper: of what"),
    ]


def test_functions_begin_with_a_verb_and_properties_and_tests_need_not() -> None:
    found = measured(SOURCE)
    assert found.functions == 2
    assert [(where, one.line, one.text) for where, one in found.without_verb] == [("shape.py", 27, "Half of it.")]


def test_a_sentence_is_long_above_25_words() -> None:
    words = " ".join(["Word"] * 25)
    assert not measured(f'"""{words}."""').long
    assert [one.words for _, one in measured(f'"""{words} more. {words}."""').long] == [26]
