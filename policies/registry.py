"""Policies by name, with validated options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel

from ..core.options import options_of
from .contract.policy import Policy
from .contract.traits import PolicyTraits

PolicyClass = TypeVar("PolicyClass", bound=type)
_POLICIES: dict[str, type[Policy]] = {}


def register(name: str) -> Callable[[PolicyClass], PolicyClass]:
    """Offer a policy under a name. Its class takes one argument, an instance of its own `Options` (pydantic).

    Raises:
        ValueError: for a name that is taken.
        TypeError: for a class without `Options`, `traits` or `explain`, and for one with an abstract method.
    """

    def add(policy: PolicyClass) -> PolicyClass:
        if name in _POLICIES:
            raise ValueError(f"policy: {name!r} is registered twice")
        if not issubclass(getattr(policy, "Options", object), BaseModel):
            raise TypeError(f"policy: {name!r} has no pydantic model named Options")
        if not isinstance(getattr(policy, "traits", None), PolicyTraits):
            raise TypeError(f"policy: {name!r} declares no traits; its class needs `traits = PolicyTraits(...)`")
        if not callable(getattr(policy, "explain", None)):
            raise TypeError(f"policy: {name!r} has no explain; derive its class from contract.policy.Policy")
        if missing := sorted(getattr(policy, "__abstractmethods__", ())):
            raise TypeError(f"policy: {name!r} must define {' and '.join(missing)}")
        _POLICIES[name] = policy
        return policy

    return add


def policy_names() -> tuple[str, ...]:
    return tuple(sorted(_POLICIES))


def policy_class(name: str) -> type[Policy]:
    """Return the class of a policy. Raises ValueError for an unknown name."""
    policy = _POLICIES.get(name)
    if policy is None:
        raise ValueError(f"policy: {name!r} is unknown; accepted: {', '.join(policy_names())}")
    return policy


def name_of(policy: object) -> str:
    """Return the name under which a policy's class is registered, or else the name of the class."""
    kind = type(policy)
    return next((name for name, known in _POLICIES.items() if known is kind), kind.__name__)


def options_model(name: str) -> type[BaseModel]:
    """Return the model of a policy's options. Raises ValueError for an unknown name."""
    model: type[BaseModel] = policy_class(name).Options  # type: ignore[attr-defined]  # `register` checked it
    return model


def live_policy(name: str, **options: Any) -> Policy:
    """Return a new policy for a cluster that runs. Raises ValueError as `make_policy`, and for one that cannot."""
    made = make_policy(name, **options)
    if made.traits.foresees_all:
        raise ValueError(f"policy: {name} must know all jobs to come, so it is for simulations only")
    return made


def make_policy(name: str, **options: Any) -> Policy:
    """Return a new policy.

    Raises:
        ValueError: for an unknown name, an unknown option or a value that is not accepted.
    """
    policy = policy_class(name)
    chosen = options_of(options_model(name), f"policy {name}", options)
    made: Policy = policy(chosen)  # type: ignore[call-arg]  # a class takes its own Options
    return made
