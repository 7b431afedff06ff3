"""Scaling files that are wrong, each with the one sentence that the user of `coadapt up --scaling` reads."""

from __future__ import annotations

from tests.support.answers import Started, Way

FIELDS = (
    "mode, budget_per_h, types, rounds, least_value_per_dollar, idle_s, keep_s, request_limit_s, leave_out_s, "
    "boot_s, cluster"
)
TYPE_FIELDS = "gpu_type, gpus, price_per_h, min, max, spot, cpus, memory_gib, pool"
GOOD = "gpu_type: t4, gpus: 4, price_per_h: 2.0, max: 3"


def file(what: str, text: str, error: str) -> tuple[str, Way, str]:
    return what, Started(scaling=text), f"--scaling: {{dir}}/scaling.yaml: {error}"


def kind(what: str, fields: str, error: str) -> tuple[str, Way, str]:
    """Return the row of one type t4 with these fields instead of, or beside, good ones."""
    given = dict(one.split(": ", 1) for one in f"{GOOD}, {fields}".split(", "))
    text = ", ".join(f"{name}: {value}" for name, value in given.items())
    return file(what, f"budget_per_h: 20\ntypes:\n  t4: {{{text}}}\n", error)


NO_PRICE = "is no price; give dollars an hour of one node, more than 0 and finite"

# What is wrong, how it is reached, and the sentence.
BAD_SCALING_FILES: list[tuple[str, Way, str]] = [
    kind("a node for nothing", "price_per_h: 0", f"types.t4.price_per_h: 0 {NO_PRICE}"),
    kind("a price below nothing", "price_per_h: -1.5", f"types.t4.price_per_h: -1.5 {NO_PRICE}"),
    kind("a price that is no number", "price_per_h: .nan", f"types.t4.price_per_h: nan {NO_PRICE}"),
    kind("a price without end", "price_per_h: .inf", f"types.t4.price_per_h: inf {NO_PRICE}"),
    kind("a price that is text", "price_per_h: cheap", "types.t4.price_per_h: cheap is not a number"),
    kind("more nodes at least than at most", "min: 4", "types.t4: min 4 is more than max 3"),
    kind("a node without GPUs", "gpus: 0", "types.t4.gpus: 0 is not a number of at least 1"),
    kind("an unknown field of a node type", "cost: 3", f"types.t4.cost: unknown field; known: {TYPE_FIELDS}"),
    file("no budget", f"types: {{t4: {{{GOOD}}}}}\n", "budget_per_h: missing"),
    file(
        "a budget below one node",
        f"budget_per_h: 1.5\ntypes: {{t4: {{{GOOD}}}}}\n",
        "budget_per_h: 1.5 buys no node; the cheapest type, t4, costs 2 an hour",
    ),
    file(
        "a budget below the least nodes",
        f"budget_per_h: 5\ntypes: {{t4: {{{GOOD}, min: 3}}}}\n",
        "budget_per_h: 5 is less than the nodes of all `min` cost, 6 an hour",
    ),
    file(
        "a budget of nothing",
        f"budget_per_h: 0\ntypes: {{t4: {{{GOOD}}}}}\n",
        "budget_per_h: 0 is not a number above 0",
    ),
    file(
        "no types",
        "budget_per_h: 5\ntypes: {}\n",
        "types: names none; give one with gpu_type, gpus, price_per_h and max",
    ),
    file(
        "an unknown field of scaling",
        f"budget_per_h: 5\ntypes: {{t4: {{{GOOD}}}}}\nspend: 3\n",
        f"spend: unknown field; known: {FIELDS}",
    ),
    file("scaling that is a list", "- t4\n", "is not a mapping of fields, such as budget_per_h: 40"),
    (
        "a type that also sleeps",
        Started(scaling=f"budget_per_h: 20\ntypes: {{t4: {{{GOOD}}}}}\n", power="adapter: emulated\n"),
        "scaling: GPU type t4 is put to sleep by the power settings, too; a type is either put to sleep or given "
        "up, and `types` of the power file says which ones sleep",
    ),
    ("a dry run of nothing", Started("--dry-run"), "--dry-run: goes with --scaling FILE.yaml"),
]
