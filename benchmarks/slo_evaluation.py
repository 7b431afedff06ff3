"""What jobs with deadlines miss, and how long others take: UniSched beside its peers on traces with deadlines.

    python -m benchmarks.slo_evaluation [--mixes p_mix1 h_mix1 …] [--days 4-7] [--policies …] [--seeds 1]
    python -m benchmarks.slo_evaluation --render --write      run nothing; renew docs/results/slo.md

`p_slo`, `p_mix1`, `p_mix2`: Chronus' three Philly traces on 120 nodes of 8 GPUs.
`h_slo`, `h_mix1`, `h_mix2`: jobs of Helios Venus of 20 minutes and more, on 96 nodes of 8, with deadlines by the
paper's rule: strict only; 70 % strict; 26 % strict and 65 % soft.
Of each trace some days are replayed (`--days`, of Venus also `--venus-days`). Every policy has rounds every five
minutes, lengths as they are, and 30 s for each restart. Philly's jobs are slower on more nodes, as Chronus
measured; Venus' are not.
Runs are kept in out/slo_evaluation/ and not run again, so an interrupted benchmark goes on; `--again` runs them.

`<mix>/<policy>/miss_rate`: the part of all worth that was not earned (equation 15, its sign put right).
`<mix>/<policy>/be_jct_h`: mean JCT of jobs without a deadline, h.
`<mix>/load`: GPU-hours asked for, over those there. `<mix>/jobs`: how many jobs.
`<mix>/miss_over_<policy>`, `be_jct_over_<policy>`: `unisched` over the peer; 0 over 0 counts as 1.
`<mix>/miss_over_best_deadline_peer`: over the one of `three_sigma`, `hydra` and `genie` that misses least.
`statements_held` of `statements`: what the paper says, and what is promised here.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from .arguments import at_least
from .evaluation.page import between
from .harness import finish, machine, needs, table
from .slo import page
from .slo.mixes import CHRONUS, MIXES, PHILLY, RULES, VENUS
from .slo.runs import POLICIES, Run, found, made, run_all, simulated
from .slo.statements import OWN, Means, least_missing, ratio, statements

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "results" / "slo.md"


def means_of(done: Mapping[Run, Mapping[str, float]]) -> dict[str, dict[str, dict[str, float]]]:
    """Return mix -> policy -> figure -> its mean over seeds."""
    groups: dict[str, dict[str, list[Mapping[str, float]]]] = {}
    for run, own in done.items():
        groups.setdefault(run.mix, {}).setdefault(run.policy, []).append(own)
    return {
        mix: {
            policy: {key: float(np.mean([one[key] for one in runs])) for key in runs[0]}
            for policy, runs in policies.items()
        }
        for mix, policies in groups.items()
    }


def figures_of(means: Means) -> dict[str, float]:
    """Return the figures that are logged."""
    figures: dict[str, float] = {}
    for mix, policies in means.items():
        for policy, own in policies.items():
            figures |= {f"{mix}/{key}": own[key] for key in ("load", "jobs")}
            figures |= {
                f"{mix}/{policy}/{key}": value for key, value in own.items() if key not in ("load", "jobs")
            }
            if policy != OWN and OWN in policies:
                figures[f"{mix}/miss_over_{policy}"] = ratio(means, mix, "miss_rate", policy)
                figures[f"{mix}/be_jct_over_{policy}"] = ratio(means, mix, "be_jct_h", policy)
        if OWN in policies and (best := least_missing(means, mix)):
            figures[f"{mix}/miss_over_best_deadline_peer"] = ratio(means, mix, "miss_rate", best)
    counted = [one for one in statements(means) if one.counts]
    figures |= {"statements": len(counted), "statements_held": sum(one.holds for one in counted)}
    return {key: value for key, value in figures.items() if not math.isnan(value)}


def shown(means: Means) -> None:
    """Print a table per mix, and one of the statements."""
    for mix, policies in means.items():
        rows = [[policy, *(own[key] for key, _, _ in page.COLUMNS)] for policy, own in policies.items()]
        first = next(iter(policies.values()))
        title = f"{mix}: load {first['load']:.3g}, {first['jobs']:,.0f} jobs"
        table(title, ["", *(key for key, _, _ in page.COLUMNS)], rows)
    rows = [
        [one.row, one.mix, one.what, one.paper, one.aim, one.value, "yes" if one.holds else "NO"]
        for one in statements(means)
        if one.counts
    ]
    table("What is stated", ["figure", "mix", "what", "paper", "at most", "ours", "held"], rows)


def written(means: Means, runs: Sequence[Run], folder: Path) -> None:
    """Renew the page."""
    loads = {mix: next(iter(policies.values()))["load"] for mix, policies in means.items()}
    first, last = made(runs, folder)
    sections = {
        "machine": f"{machine()};\nruns of {first} to {last}.",
        "mixes": page.mixes(means),
        "statements": page.statements(statements(means), loads),
    }
    text = PAGE.read_text()
    for key, content in sections.items():
        text = between(text, key, content)
    PAGE.write_text(text)


def _days(own: str | None, all_mixes: str) -> tuple[float, float]:
    """Return the first and the last day."""
    first, _, last = (own or all_mixes).partition("-")
    return float(first), float(last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mixes", nargs="+", choices=MIXES, default=list(MIXES))
    parser.add_argument("--policies", nargs="+", choices=list(POLICIES), default=list(POLICIES))
    parser.add_argument("--days", default="0-15", help="which days of each trace, as FIRST-LAST")
    parser.add_argument("--venus-days", help="of the mixes of Venus; as --days by default")
    parser.add_argument("--seeds", type=at_least(1), default=3, help="of the mixes that are drawn")
    parser.add_argument("--processes", type=at_least(1), default=1)
    parser.add_argument("--render", action="store_true", help="run nothing, show what is there")
    parser.add_argument("--again", action="store_true", help="run what is there anew")
    parser.add_argument("--write", action="store_true", help="renew docs/results/slo.md")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "slo_evaluation")
    options = parser.parse_args()
    runs = [
        Run(mix, policy, *_days(options.venus_days if mix in RULES else None, options.days), seed)
        for seed in range(options.seeds)  # the first seed of all mixes comes first
        for mix in options.mixes
        if seed == 0 or mix in RULES
        for policy in options.policies
    ]
    if not options.render:
        needs(*({CHRONUS} if set(options.mixes) & set(PHILLY) else ()), VENUS)
        if options.again:
            for run in runs:
                (options.out / run.name).unlink(missing_ok=True)
        run_all(runs, options.out, options.processes, simulated)
    means = means_of(found(runs, options.out))
    shown(means)
    if options.write:
        written(means, runs, options.out)
    finish("slo_evaluation", figures_of(means))


if __name__ == "__main__":
    main()
