"""YAML from strangers is plain data within bounds; whatever else it is, one sentence says so."""

from __future__ import annotations

import math
from typing import Any

import pytest
from coadapt.core.safe_yaml import MAX_BYTES, YamlProblem, read, told


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("True", True),
        ("false", False),
        ("010", 10),
        ("0x1f", 31),
        ("0o17", 15),
        ("-3", -3),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        ("+.5", 0.5),
        ("2.", 2.0),
        ("-.inf", -math.inf),
        ("~", None),
        ("", None),
        ("'12'", "12"),
        ("=", "="),
    ],
)
def test_a_scalar_is_what_yaml_1_2_says(text: str, value: Any) -> None:
    found = read(f"a: {text}\n".encode())["a"]
    assert (found, type(found)) == (value, type(value))


def test_nan_is_a_number() -> None:
    assert math.isnan(read(b"a: .nan")["a"])


def test_lists_mappings_and_aliases_are_read() -> None:
    assert read(b"a: &x {b: [1, two]}\nc: *x\n") == {"a": {"b": [1, "two"]}, "c": {"b": [1, "two"]}}
    assert read("\ufeffname: ü\n".encode()) == {"name": "ü"}


def test_below_text_fields_numbers_stay_as_they_are_written() -> None:
    found = read(b"env: {A: 010, B: [1.50, no], C: ~}\nn: 010\n", text_fields=("env",))
    assert found == {"env": {"A": "010", "B": ["1.50", "no"], "C": None}, "n": 10}


BOMB = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 6))
CHAIN = "a0: &a0 1\n" + "".join(f"a{n}: &a{n} {'[' * 14}*a{n - 1}{']' * 14}\n" for n in range(1, 37))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"a: 1\na: 2\n", "line 2: a is given twice"),
        (b"a: {b: 1, b: 2}\n", r"line 1: a\.b is given twice"),
        (b"? [a]\n: 1\n", "line 1: a key must be text"),
        (b"a: !!python/name:os.system ''\n", "the tag tag:yaml.org,2002:python/name:os.system is not accepted"),
        (b"a: !!int x\n", "line 1: x is not a int"),
        (b"a: " + b"1" * 31, "a number of 31 digits is too large"),
        (b"a: 1\n---\nb: 2\n", "a second document; a job file holds exactly one"),
        (b"\ta: 1\n", "line 1: a tab; YAML is indented with spaces"),
        (b"a: [1\n", "line 2: not YAML"),
        (b"a: \x07\n", "the character at position 3 is not allowed in YAML"),
        (b"a: \xff\n", "byte 3 is not UTF-8 text; save the file as UTF-8"),
        (b"# nothing\n", "the file is empty"),
        (b"#" * (MAX_BYTES + 1), f"{MAX_BYTES + 1} bytes is too large; at most {MAX_BYTES} bytes are accepted"),
        (b"[" * 17 + b"]" * 17, "line 1: nested more than 16 deep"),
        (BOMB.encode(), "its aliases expand to more than 10000 values"),
        (b"a: &a [*a]\n", "line 1: an anchor that contains itself"),
        (CHAIN.encode(), "line 3: its aliases nest more than 16 deep"),
    ],
)
def test_what_is_not_accepted_is_told_in_one_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(YamlProblem, match=sentence) as error:
        read(data)
    assert "\n" not in str(error.value)


def test_depth_up_to_the_limit_is_accepted_also_through_aliases() -> None:
    assert read(b"[" * 16 + b"]" * 16)
    assert read(b"a: &a [[[[[[[1]]]]]]]\nb: [[[[[[[*a]]]]]]]\n")


def test_a_file_of_another_kind_is_named_as_what_it_is() -> None:
    with pytest.raises(YamlProblem) as empty:
        read(b"")
    assert told(empty.value, "cluster file") == "the file is empty"
    with pytest.raises(YamlProblem) as twice:
        read(b"a: 1\n---\nb: 2\n")
    assert told(twice.value, "cluster file").endswith("a second document; a cluster file holds exactly one")
