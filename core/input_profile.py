"""How fast the input of a job would be on the machine that an emulated node stands for."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

Above0 = Annotated[float, Field(gt=0)]


class InputProfile(BaseModel):
    """The preparation and the storage of a job's samples, for emulated nodes."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    cpus: Annotated[list[Above0], Field(min_length=1)]
    """Numbers of CPUs of one GPU, ascending."""
    prepared: Annotated[list[Above0], Field(min_length=1)]
    """Samples per second that so many CPUs prepare for one GPU, one for each of `cpus`."""
    dataset_gib: float = Field(default=1.0, gt=0)
    """Size of all samples, in GiB."""
    samples: int | None = Field(default=None, ge=1)
    """How many samples that is; by default as many as the script has."""
    storage_gib_per_s: float | None = Field(default=None, gt=0)
    """Bandwidth of the storage, in GiB per second; by default reading takes no time."""

    @model_validator(mode="after")
    def _fits(self) -> InputProfile:
        if len(self.prepared) != len(self.cpus):
            raise ValueError(
                f"prepared: has {len(self.prepared)} rates for {len(self.cpus)} CPU counts; "
                "one for each is accepted"
            )
        if any(b <= a for a, b in zip(self.cpus, self.cpus[1:], strict=False)):
            raise ValueError(f"cpus: {self.cpus} does not ascend; each number must be above the one before")
        return self
