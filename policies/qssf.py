"""Quasi-shortest service first: least expected GPU-time first, without preemption (Helios, SC'21, Algorithm 1)."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from .backfilling import Backfill, backfilling
from .contract.round import JobColumns, Plan, Round
from .contract.traits import PolicyTraits
from .provisioning.options import provisioned
from .queueing import ProvisionedOptions, TimeLeftPolicy
from .registry import register


class QssfOptions(ProvisionedOptions):
    """What an operator may set.

    backfill: `none` is the paper: no job overtakes another. With `fill` whoever finds room starts; with `reserve`
        the first that finds none has a place kept.
    patience_h: with backfill, the job that has waited longest comes first once it has waited so long; None: never.
    """

    backfill: Backfill = Backfill.NONE
    patience_h: float | None = Field(default=24.0, ge=0)


@register("qssf")
class QssfPolicy(TimeLeftPolicy):
    """Starts the waiting job with the least expected GPU-time. Jobs of unknown length come last."""

    Options = QssfOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=False, needs_expected=True)
    options: QssfOptions
    rule = "The least expected GPU-time comes first."

    def __init__(self, options: QssfOptions | None = None) -> None:
        self.options = options or QssfOptions()
        self.traits = provisioned(self.traits, self.options)

    def plan(self, round: Round) -> Plan:
        """Serve jobs in order, with backfill where that is asked for."""
        if self.options.backfill is Backfill.NONE:
            return super().plan(round)
        columns, patience_h = round.columns, self.options.patience_h
        order = columns.by(self.key(columns))
        patience_s = None if patience_h is None else 3600.0 * patience_h
        return backfilling(round, order, self.options.backfill, patience_s, type_blind=self.options.type_blind)

    def service(self) -> str:
        """Say in a sentence whether jobs overtake others."""
        if self.options.backfill is Backfill.NONE:
            return super().service()
        if self.options.backfill is Backfill.FILL:
            overtakes = "Nothing that runs is stopped, and a job overtakes others where they have no room."
        else:
            overtakes = "Nothing that runs is stopped. The first job without room has a place kept."
        if self.options.patience_h is None:
            return overtakes
        return f"{overtakes} Whoever has waited longest, for more than {self.options.patience_h:g} h, is first."

    def key(self, columns: JobColumns) -> np.ndarray:
        return columns.gpus * super().key(columns)
