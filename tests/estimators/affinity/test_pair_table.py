"""Tables of pairs as files: what is read is what was written, and bad tables are refused in one sentence."""

from pathlib import Path

import numpy as np
import pytest
from coadapt.estimators.affinity import pair_table
from coadapt.estimators.affinity.pair_table import PairTable

HEAD = "job,partner,speed,partner_speed,gpu_util_percent,partner_gpu_util_percent\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "pairs.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.csv.gz"])
def test_table_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    speeds = np.array([[0.9, 0.8, np.nan], [0.7, np.nan, 0.65], [np.nan, 1.02, np.nan]])
    uses = np.array([[0.5, 0.25, 2.0, 1.0], [0.75, np.nan, 3.5, 0.0], [0.1, np.nan, np.nan, np.nan]])
    pair_table.write(tmp_path / name, PairTable(("a", "b", "c"), speeds, uses))
    again = pair_table.read(tmp_path / name)
    assert again.names == ("a", "b", "c")
    np.testing.assert_array_equal(again.speeds, speeds)
    np.testing.assert_allclose(again.uses, uses)
    assert again.speeds_of("b", "a") == (0.7, 0.8)
    assert again.speeds_of("a", "c") is None
    assert again.speeds_of("a", "unknown") is None
    assert [ends.tolist() for ends in again.pairs] == [[0, 0, 1], [0, 1, 2]]


def test_use_of_a_job_may_stand_in_any_line(tmp_path: Path) -> None:
    pairs = pair_table.read(written(tmp_path, HEAD + "a,b,0.9,0.8,,60\nb,a2,1,1,,\na,a2,1,0.9,40,20\n"))
    np.testing.assert_allclose(pairs.uses[:, 0], [0.4, 0.6, 0.2])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("job,speed,partner_speed\na,1,1\n", "column 'partner' is missing"),
        (HEAD + "a,,0.9,0.8,,\n", "line 2: the partner is missing"),
        (HEAD + ",b,0.9,0.8,,\n", "line 2: the job is missing"),
        (HEAD + "a,b,0.9,,,\n", "line 2: partner_speed is missing"),
        (HEAD + "a,b,0,0.8,,\n", "line 2: speed: 0 is not accepted, must be above 0"),
        (HEAD + "a,b,0.9,-1,,\n", "line 2: partner_speed: -1 is not accepted"),
        (HEAD + "a,b,0.9,nan,,\n", "line 2: partner_speed: nan is not accepted"),
        (HEAD + "a,b,fast,1,,\n", "line 2: speed: 'fast' is no number"),
        (HEAD + "a,b,0.9,0.8,,\nb,a,0.8,0.9,,\n", "line 3: the pair b and a is there twice"),
        (HEAD + "a,b,0.9,0.8,101,\n", "line 2: gpu_util: 101 % is not accepted"),
        (HEAD + "a,b,0.9,0.8,,nan\n", "line 2: partner_gpu_util: nan %"),
        (HEAD + "a,b,0.9,0.8,30,\na,c,1,1,40,\n", "line 3: gpu_util of a differs"),
        (HEAD + "a,b,0.9,0.8\n", "line 2 has not as many values"),
        (HEAD, "holds no pair"),
        ("job,partner,speed,partner_speed,colour\n", "column 'colour' is unknown"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as raised:
        pair_table.read(written(tmp_path, text))
    assert "\n" not in str(raised.value)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read as CSV"):
        pair_table.read(tmp_path / "none.csv")
