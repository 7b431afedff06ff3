"""The measure of the pages counts what a reader reads, and nothing else."""

from pathlib import Path

import pytest
from coadapt.benchmarks import prose

from tests.support.prose import longest_line, mean_words, sentences

PAGE = """# A heading is no sentence. Nor is this

One sentence here. Another one,
over two lines.

* An item
  that goes on. And one more.
* Last item

| a table | is left out. Really |
|---|---|

```
code. Is not read
```

    indented code. Is not read either

![a picture](there.png)
<!-- marker -->
[there]: https://example.org/a.long.address
`one`, `two`, `three`
"""


def texts(page: str) -> list[str]:
    return [one.text for one in sentences(page)]


def test_only_running_text_and_items_are_sentences() -> None:
    assert texts(PAGE) == [
        "One sentence here.",
        "Another one, over two lines.",
        "An item that goes on.",
        "And one more.",
        "Last item",
    ]


def test_a_sentence_knows_where_its_paragraph_begins() -> None:
    assert [one.line for one in sentences(PAGE)] == [3, 3, 6, 6, 8]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Two words.", 2),
        ("A [link of four words](there.md) counts by its text.", 9),
        ("Run `coadapt submit job.yaml` now.", 3),
        ("It takes 0.3 s, e.g. here.", 6),
        ("Signs such as → and – are no words.", 7),
        ("**Bold** and *slanted* words.", 4),
    ],
)
def test_words_are_counted_as_they_are_read(text: str, words: int) -> None:
    (one,) = sentences(text)
    assert one.words == words


def test_numbers_and_abbreviations_do_not_end_a_sentence() -> None:
    assert texts("It took 1.5 s, i.e. less. Then `it` ended.") == ["It took 1.5 s, i.e. less.", "Then Code ended."]


def test_names_with_underscores_stay_whole() -> None:
    assert texts("The field max_local_bsz stays.") == ["The field max_local_bsz stays."]


def test_an_indented_paragraph_of_an_item_is_read() -> None:
    assert texts("* One item.\n\n    Its second paragraph.\n") == ["One item.", "Its second paragraph."]


def test_the_longest_line_is_of_all_lines() -> None:
    assert longest_line("short\n| " + "x" * 100 + " |\n") == 104
    assert longest_line("") == 0


def test_the_mean_is_over_sentences() -> None:
    assert mean_words(sentences("One two. One two three four.")) == 3
    assert mean_words([]) == 0


def test_the_command_lists_the_longest_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.md").write_text("Short one. This one has six words here.\n")
    assert prose.main(["--worst", "1", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "6 words, line 1: This one has six words here." in out
    assert "Short one" not in out


def test_a_path_that_does_not_exist_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        prose.main(["nowhere"])
    assert "paths: nowhere does not exist" in capsys.readouterr().err
