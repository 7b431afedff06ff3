"""Nodes that are bought and given up, as users are shown them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...core.scaling_settings import ScalingSettings
from ...core.schemas import NodeRequestRow, NodeTypeRow, ScalingView
from ...core.wording import span
from ..scaling.control import ScalingControl
from ..scaling.state import ScalingState

FEW_H = 1.0  # hours of nodes below which a rate of notices is not told


def scaling_view(
    settings: ScalingSettings, state: ScalingState, control: ScalingControl, now: float, trouble: str = ""
) -> ScalingView:
    """Return what is bought and given up.

    Args:
        trouble: why Ray's autoscaler could not be asked.
    """
    leaving = Counter(one.type for one in state.leaving.values())
    offers = {one.type: one for one in control.chosen.offers}
    return ScalingView(
        mode=settings.mode,
        budget_per_h=settings.budget_per_h,
        cost_per_h=settings.cost_per_h(state.all),
        spent=state.spent,
        numbered=state.numbered,
        unmet=state.unmet,
        types=[
            NodeTypeRow(
                type=name,
                gpu_type=type.gpu_type,
                gpus=type.gpus,
                spot=type.spot,
                price_per_h=type.price_per_h,
                here=state.here.get(name, 0),
                asked=state.asked.get(name, 0),
                leaving=leaving[name],
                min=type.min,
                max=type.max,
                notices_per_h=state.notices_per_h(name),
                value=offers[name].value if name in offers else None,
                value_per_dollar=offers[name].per_dollar if name in offers else None,
                left_out=state.left_out[name].reason if name in state.left_out else "",
            )
            for name, type in settings.types.items()
        ],
        requests=[NodeRequestRow(type=r.type, since_s=r.since_s, reason=r.reason) for r in state.requests],
        lines=_lines(settings, state, control, now, trouble),
    )


def _lines(
    settings: ScalingSettings, state: ScalingState, control: ScalingControl, now: float, trouble: str
) -> list[str]:
    """Return what people are told: cost and budget first, then what is under way, then why nothing more is."""
    cost = settings.cost_per_h(state.all)
    part = f"{cost / settings.budget_per_h:.0%}"
    lines = [f"nodes cost {cost:.2f} dollars an hour, {part} of the budget of {settings.budget_per_h:.2f}"]
    if state.spent >= 0.005:
        lines[0] += f"; {state.spent:.2f} so far"
    lines += _asked(state, now)
    for one in state.leaving.values():
        lines.append(f"{one.machine} is given up: {one.reason}")
    for name, out in sorted(state.left_out.items()):
        lines.append(f"no node of type {name} is asked for in {span(max(out.until_s - now, 0.0))}: {out.reason}")
    if control.chosen.held_back:
        lines.append(f"more nodes are needed than may be asked for: {control.chosen.held_back}")
    for name, type in settings.types.items():
        if type.spot and state.node_hours.get(name, 0.0) >= FEW_H and (rate := state.notices_per_h(name)):
            lines.append(f"a node of type {name} is told to go about every {span(3600.0 / rate)}")
    lines += [f"a dry run asks for nothing; it would: {told}" for told in control.would]
    if trouble:
        lines.append(f"{trouble}; it is tried again")
    return lines


def _asked(state: ScalingState, now: float) -> Sequence[str]:
    """Return a line for all nodes of one type that were asked for at one time."""
    found: dict[tuple[str, float, str], int] = {}
    for one in state.requests:
        key = one.type, one.since_s, one.reason
        found[key] = found.get(key, 0) + 1
    return [
        f"{count} of {name} asked for {span(max(now - since_s, 0.0))} ago: {reason}"
        for (name, since_s, reason), count in found.items()
    ]
