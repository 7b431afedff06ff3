"""Which errors of a script are the same, and when trying again is over."""

import pytest
from coadapt.executor.reconciling.failures import NO_OTHER_END, OUTAGES, SAME_TWICE, FailureBudget, fault_of
from coadapt.executor.training.process import summary_of
from coadapt.executor.training.state.checkpoint_errors import CheckpointError

LIBRARY = "/usr/lib/python3.11/site-packages/torch/nn/functional.py"


def trace(*frames: tuple[str, int]) -> str:
    lines = "".join(f'  File "{file}", line {line}, in f\n    x()\n' for file, line in frames)
    return f"Traceback (most recent call last):\n{lines}ValueError: no\n"


@pytest.mark.parametrize(
    ("summary", "traceback", "fault"),
    [
        ("ValueError: no", trace(("/a/train.py", 3), ("/a/model.py", 9)), "ValueError: no model.py:9"),
        ("ValueError: no", trace(("/a/train.py", 3), (LIBRARY, 900)), "ValueError: no train.py:3"),
        ("ValueError: no", trace(("/b/c/train.py", 3), ("<frozen runpy>", 1)), "ValueError: no train.py:3"),
        ("ValueError: no", trace((LIBRARY, 900)), "ValueError: no functional.py:900"),
        ("KeyError: <T object at 0x7f12ab>", "", "KeyError: <T object at 0x…>"),
        ("train.py exited with status 3", "", "train.py exited with status 3"),
        (
            "ExceptionGroup: two (2 sub-exceptions)",
            "  + Exception Group Traceback (most recent call last):\n"
            + '  |   File "/a/train.py", line 7, in <module>\n',
            "ExceptionGroup: two (2 sub-exceptions) train.py:7",
        ),
    ],
)
def test_an_error_is_told_by_what_it_says_and_where_in_the_script_it_was_raised(
    summary: str, traceback: str, fault: str
) -> None:
    assert fault_of(summary, traceback) == fault


class Silent(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "summary"),
    [
        (RuntimeError("my bug:\nthe second line says more"), "RuntimeError: my bug:"),
        (RuntimeError("\n  In addition, see the manual\n"), "RuntimeError: In addition, see the manual"),
        (ValueError(), "ValueError"),
        (KeyError("x"), "KeyError: 'x'"),
        (Silent("no"), f"{Silent.__module__}.Silent: no"),
        (CheckpointError("checkpoint: holds 2 models"), "checkpoint: holds 2 models"),
        (ValueError("x" * 10_000), "ValueError: " + "x" * 487 + "…"),
    ],
)
def test_a_reason_is_the_exceptions_type_and_first_line_or_a_sentence_of_ours(
    error: Exception, summary: str
) -> None:
    assert summary_of(error) == summary


@pytest.mark.parametrize(
    ("errors", "why"),
    [
        ([("a", "a", 0, 0)], ""),
        ([("a", "a", 0, 0), ("a", "a", 0, 0)], SAME_TWICE),
        ([("a", "a", 100, 20), ("a", "a", 115, 20)], SAME_TWICE),  # both in step 118, by what was heard last
        ([("a", "a", 100, 20), ("a", "a", 150, 20)], ""),
        ([("a", "a:3", 9, 0), ("a", "a:8", 9, 0)], ""),
        ([("a", "a", 9, 0), ("b", "b", 9, 0), ("a", "a", 9, 0)], SAME_TWICE),
        ([("out of memory", None, 9, 0)] * 3, ""),
        ([("out of memory", None, 9, 0)] * 4, "4 errors, of 3 that max_failures allows"),
        ([("t.py never called coadapt.prepare", "t", 0, 0)], NO_OTHER_END),
        ([("SyntaxError: invalid syntax (m.py, line 3)", "s", 0, 0)], NO_OTHER_END),
        ([("ModuleNotFoundError: No module named 'x'", "m t.py:1", 0, 0)], ""),
        ([("ModuleNotFoundError: No module named 'x'", "m t.py:1", 0, 0)] * 2, SAME_TWICE),
    ],
)
def test_trying_again_is_over_when_it_cannot_help(
    errors: list[tuple[str, str | None, int, int]], why: str
) -> None:
    budget = FailureBudget(max_failures=3)
    assert [budget.user_error(*error) for error in errors][-1] == why
    assert budget.failures == len(errors)


def test_losses_with_progress_between_them_never_end_a_job() -> None:
    budget = FailureBudget(max_failures=0)
    assert not any(budget.loss(steps=10 * i, made=10) for i in range(1, 100))


def test_outages_count_from_the_last_new_step_on_and_are_no_errors_of_the_script() -> None:
    budget = FailureBudget(max_failures=0)
    assert not any(budget.outage(50) for _ in range(OUTAGES))
    assert not budget.outage(51)
    assert (budget.outages, budget.failures) == (1, 0)
    assert not any(budget.outage(51) for _ in range(OUTAGES - 1))
    assert budget.outage(20)
