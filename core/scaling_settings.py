"""What an operator says of buying nodes: which types there are, what they cost, and how much may be spent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


def _price(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool) and not 0 < value < math.inf:
        raise ValueError(f"{value!r} is no price; give dollars an hour of one node, more than 0 and finite")
    return value


class NodeType(BaseModel):
    """Nodes that Ray's autoscaler can start, all alike. Spot and on-demand are types of their own.

    The autoscaler knows them by the label `coadapt.io/node-type`, which is the type's name.

    price_per_h: dollars an hour of one node.
    min, max: nodes of it that there are at least and at most.
    spot: whether the cloud may take them away.
    cpus, memory_gib: of a node; 0: not stated, so that jobs which ask for them count as fitting.
    pool: the pool that its nodes belong to; "": none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    gpu_type: str = Field(min_length=1)
    gpus: int = Field(ge=1)
    price_per_h: Annotated[float, BeforeValidator(_price)]
    min: int = Field(default=0, ge=0)
    max: int = Field(ge=0)
    spot: bool = False
    cpus: float = Field(default=0.0, ge=0)
    memory_gib: float = Field(default=0.0, ge=0)
    pool: str = ""

    @model_validator(mode="after")
    def _min_is_below_max(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is more than max {self.max}")
        return self


class ScalingSettings(BaseModel):
    """Which nodes are bought and given up. Seconds unless the name says otherwise.

    mode: `act`, or `dry_run`, which asks for nothing and tells what it would do.
    budget_per_h: dollars an hour that the nodes of all types cost together at most.
    rounds: for so many rounds a need lasts before nodes are asked for.
    least_value_per_dollar: what a price of a policy must come to, in units of its objective; waiting jobs always
        count. 0: any price above 0.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    mode: Literal["act", "dry_run"] = "act"
    budget_per_h: float = Field(gt=0)
    types: dict[str, NodeType]
    rounds: int = Field(default=3, ge=1)
    least_value_per_dollar: float = Field(default=0.0, ge=0)
    # A node on which nothing ran for so long is given up.
    idle_s: float = Field(default=600.0, gt=0)
    # A node stays for so long after it came, idle or not.
    keep_s: float = Field(default=900.0, ge=0)
    # A request that is not met by then is given up, and its type is left out for a while.
    request_limit_s: float = Field(default=900.0, gt=0)
    leave_out_s: float = Field(default=3600.0, gt=0)
    # What users are told, and a simulated cluster goes by, of how long a node takes to come.
    boot_s: float = Field(default=300.0, ge=0)

    @model_validator(mode="after")
    def _can_buy(self) -> Self:
        if not self.types:
            raise ValueError("types: names none; give one with gpu_type, gpus, price_per_h and max")
        name, cheapest = min(self.types.items(), key=lambda one: (one[1].price_per_h, one[0]))
        if cheapest.price_per_h > self.budget_per_h:
            raise ValueError(
                f"budget_per_h: {self.budget_per_h:g} buys no node; the cheapest type, {name}, costs "
                f"{cheapest.price_per_h:g} an hour"
            )
        if (least := sum(one.min * one.price_per_h for one in self.types.values())) > self.budget_per_h:
            raise ValueError(
                f"budget_per_h: {self.budget_per_h:g} is less than the nodes of all `min` cost, {least:g} an hour"
            )
        return self

    @property
    def gpu_types(self) -> frozenset[str]:
        """Return the GPU types of all node types."""
        return frozenset(one.gpu_type for one in self.types.values())

    def cost_per_h(self, nodes: Mapping[str, int]) -> float:
        """Return what nodes cost an hour. `nodes`: how many, by type."""
        return sum(count * self.types[name].price_per_h for name, count in nodes.items() if name in self.types)
