"""Arguments of benchmarks that make no sense are refused in one sentence, before anything is measured."""

import argparse
from collections.abc import Callable

import pytest
from coadapt.benchmarks.arguments import at_least, file, numbers, share, some_of

WRONG: list[tuple[Callable[[str], object], str, str]] = [
    (at_least(1), "0", "'0': a whole number of at least 1 is accepted"),
    (at_least(1), "1.5", "'1.5': a whole number of at least 1 is accepted"),
    (numbers(at_least(0)), "4,,8", "'': a whole number of at least 0 is accepted"),
    (share, "1.01", "'1.01': a number from 0 to 1 is accepted"),
    (share, "nan", "'nan': a number from 0 to 1 is accepted"),
    (share, "some", "'some': a number from 0 to 1 is accepted"),
    (some_of(["one", "two"]), "one,three", "'three' is unknown; accepted: one, two"),
    (file, "nowhere.graphml", "'nowhere.graphml' is no file"),
]


@pytest.mark.parametrize(("kind", "text", "message"), WRONG)
def test_what_makes_no_sense_is_refused(kind: Callable[[str], object], text: str, message: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as error:
        kind(text)
    assert str(error.value) == message


def test_what_makes_sense_is_taken() -> None:
    assert at_least(0)("0") == 0
    assert numbers(at_least(0))("0,8,4,8") == [0, 8, 4]
    assert share("1") == 1.0
    assert some_of(["one", "two"])("two,one") == ["two", "one"]
    assert file(__file__).samefile(__file__)
