"""What is refused of an input profile, in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.core.input_profile import InputProfile
from pydantic import ValidationError


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"prepared": [1.0]}, "prepared: has 1 rates for 2 CPU counts; one for each is accepted"),
        ({"cpus": [2.0, 1.0]}, "cpus: [2.0, 1.0] does not ascend; each number must be above the one before"),
        ({"prepared": [1.0, -1.0]}, "greater than 0"),
        ({"prepared": [1.0, float("nan")]}, "finite number"),
        ({"storage_gib_per_s": 0.0}, "greater than 0"),
        ({"dataset_gib": -1.0}, "greater than 0"),
        ({"samples": 0}, "greater than or equal to 1"),
    ],
)
def test_an_input_profile_that_cannot_be_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as refused:
        InputProfile.model_validate({"cpus": [1.0, 2.0], "prepared": [10.0, 20.0], **given})
    assert sentence in str(refused.value)
