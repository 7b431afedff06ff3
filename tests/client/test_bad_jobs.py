"""Whatever is wrong with a job file, its user reads one line that says what, where and what is accepted."""

import pytest
from coadapt.client import jobfile
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.bad_jobs import BAD_JOBS, BadJob, one_line


@pytest.mark.parametrize("case", BAD_JOBS, ids=lambda case: case.what)
def test_a_malformed_job_gets_its_one_line(case: BadJob, tmp_path) -> None:
    if case.error.startswith("emulation.") and not jobfile.PACE_PROFILES.exists():
        pytest.skip("no measured profiles in this checkout")
    assert one_line(case, tmp_path) == f"{tmp_path}/job.yaml: {case.error.replace('{dir}', str(tmp_path))}"


def test_the_table_is_long_enough() -> None:
    assert len(BAD_JOBS) >= 40
    assert len({case.what for case in BAD_JOBS}) == len(BAD_JOBS)


def problems(read, data) -> tuple[str, ...]:
    """Return what is wrong. Only a JobFileError may be raised."""
    try:
        read(data)
    except jobfile.JobFileError as error:
        return error.problems
    return ()


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_any_bytes_give_a_job_or_a_sentence(data: bytes) -> None:
    assert all(problem and "\n" not in problem for problem in problems(jobfile.parse, data))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["name", "script", "resources", "training", "env", "args", "pip", "reservation", "emulation"]
)
INNER = st.sampled_from(
    [
        "min_gpus",
        "gpu_types",
        "gpus_per_replica",
        "max_local_batch_size",
        "lr_scaling",
        "target",
        "checkpoint",
        "gpu",
    ]
)


@settings(max_examples=300)
@given(st.dictionaries(FIELDS, JSON | st.dictionaries(INNER, JSON, max_size=3), max_size=5))
def test_any_values_give_a_job_or_sentences_that_name_the_field(values: dict) -> None:
    values = {"name": "demo", "script": "train.py"} | values
    for problem in problems(jobfile.from_mapping, values):
        field = problem.split(":")[0].split(".")[0].split("[")[0]
        assert "\n" not in problem
        assert field in values
