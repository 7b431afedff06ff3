"""A number of the paper held if it is the same as far as the paper prints it."""

import pytest
from coadapt.benchmarks import trace_study
from coadapt.benchmarks.trace_study import near


@pytest.mark.parametrize(
    ("paper", "measured", "digit", "holds"),
    [
        (247, 246.708, 1, True),
        (247, 246.4, 1, False),
        (3.72, 3.716, 0.01, True),
        (8, 8, 0, True),
        (27, 24, 0, False),
    ],
)
def test_a_number_holds_within_the_digits_that_are_printed(
    paper: float, measured: float, digit: float, holds: bool
) -> None:
    assert near("x", paper, measured, digit).holds is holds


def test_without_the_data_it_says_where_to_look(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(trace_study, "SUMMARY", tmp_path / "none")
    with pytest.raises(SystemExit, match="none: not there; COADAPT_DATA says where"):
        trace_study.main()
