"""`coadapt calibrate`: options of a policy, chosen by replaying a trace, with the table of what was tried."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .exit_codes import Interrupted
from .options import by_option
from .plain import say
from .replay_options import Estimates, Events, Format, Pairs, RoundInterval, Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from ..simulator.calibration.calibrate import Calibration, Tried
    from ..simulator.conditions import Conditions


def register(app: typer.Typer, show: Callable[[Any, bool], None], default_cluster: str) -> None:
    """Add the command. `show`: prints data or a renderable. `default_cluster`: nodes in words."""

    @app.command()
    def calibrate(
        trace: Annotated[Path, typer.Argument(metavar="TRACE", help="Jobs to replay, as for `coadapt simulate`.")],
        policy: Annotated[str, typer.Option(help="The policy; an unknown one lists all.")],
        cluster: Annotated[
            str, typer.Option(help='Nodes such as "6x t4:4, 2x a100:8", or a YAML or CSV file.')
        ] = default_cluster,
        trials: Annotated[int, typer.Option(help="Replays of the first part, the defaults among them.")] = 20,
        seed: Annotated[
            int, typer.Option(min=0, help="Seed of everything drawn; the same one tries the same.")
        ] = 0,
        held_out: Annotated[
            float, typer.Option(help="Part of the jobs, the last ones, that check the choice.")
        ] = 0.3,
        range_: Annotated[
            list[str] | None,
            typer.Option(
                "--range",
                metavar="NAME=LOW:HIGH",
                help="Search an option between these, or among words with commas between; repeatable.",
            ),
        ] = None,
        set_: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="NAME=VALUE", help="Keep an option at a value; repeatable."),
        ] = None,
        format: Format = None,
        profiles: Annotated[
            Path | None, typer.Option(help="Measured profiles, as for `coadapt simulate`.")
        ] = None,
        round_interval: RoundInterval = 60.0,
        events: Events = False,
        lengths: Annotated[
            str, typer.Option(help="What policies are told of durations, as for `coadapt simulate`.")
        ] = "told",
        estimates: Estimates = None,
        pairs: Pairs = None,
        usage: Usage = None,
        out: Annotated[
            Path | None,
            typer.Option(metavar="FILE.yaml", help="Write the choice there, for `coadapt up --settings`."),
        ] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
    ) -> None:
        """Choose a policy's options by replaying a trace, and check them on jobs that they were not chosen by."""
        from ..simulator.calibration.calibrate import Calibration
        from ..simulator.conditions import Conditions
        from ..simulator.engine.engine import Timing
        from ..simulator.engine.errors import RunFailed
        from ..simulator.jobs.lengths import Lengths

        if lengths not in list(Lengths):
            raise typer.BadParameter(f"--lengths: {lengths!r}; accepted: {', '.join(Lengths)}")
        found = Calibration(0, 0)
        try:
            under = Conditions(
                timing=Timing(round_interval, events),
                seed=seed,
                lengths=Lengths(lengths),
                estimates=estimates,
                pairs=pairs,
                usage=usage,
            )
            searched = named(range_, "--range", lambda text: text), named(set_, "--set", _value)
            search(trace, format, policy, cluster, profiles, under, trials, held_out, *searched, found)
        except KeyboardInterrupt:
            pass
        except (ValueError, RunFailed) as error:
            hint = "; COADAPT_DEBUG=1 shows where" if error.__cause__ else ""
            raise typer.BadParameter(by_option(str(error)) + hint) from error.__cause__
        text = settings_text(policy, found) if found.trials else ""
        if out is not None and text and found.default_s is not None:
            _write(out, text)
        if as_json:
            show(document(policy, found), True)
        elif found.trials:
            show(table(found), False)
            say("\n" + verdict(found))
            say(f"\n{text}" if out is None else f"written: {out}" if found.default_s is not None else "")
        if found.default_s is None:
            raise Interrupted(f"interrupted after {len(found.trials)} trials; nothing was chosen")


def search(
    trace: Path,
    format: str | None,
    policy: str,
    cluster: str,
    profiles: Path | None,
    under: Conditions,
    trials: int,
    held_out: float,
    ranges: Mapping[str, str],
    fixed: Mapping[str, Any],
    found: Calibration,
) -> None:
    """Read what is to be replayed, and fill `found`. Raise ValueError, in one sentence, for bad input."""
    from ..policies.catalogue import make_policy, options_model
    from ..policies.warm_up import warm_up
    from ..simulator.calibration.calibrate import calibrate
    from ..simulator.calibration.space import space_of
    from ..simulator.replay import simulation, source_of
    from ..simulator.run import Simulation
    from ..simulator.traces.cluster_file import read_cluster
    from ..simulator.traces.readers import read_trace
    from ..simulator.traces.workload import Workload

    space = space_of(options_model(policy), f"policy {policy}", ranges, fixed)
    make_policy(policy, **space.defaults())
    workload, nodes = read_trace(trace, format), read_cluster(cluster)
    source = source_of(bool(workload.steps.any()), profiles, nodes)
    warm_up(policy, dict(space.defaults()))

    def replay(jobs: Workload, options: Mapping[str, Any]) -> Simulation:
        return simulation(jobs, nodes, policy, options, source, under, whole=workload)

    def tell(found: Calibration) -> None:
        last = found.trials[-1]
        said = last.problem or f"mean JCT {last.mean_jct_s:.0f} s"
        say(
            f"coadapt: trial {len(found.trials)} of {trials}: {said}; best {found.best.mean_jct_s:.0f} s",
            error=True,
        )

    calibrate(workload, space, replay, trials, seed=under.seed, held_out=held_out, found=found, tell=tell)


def named(texts: Sequence[str] | None, option: str, value: Callable[[str], Any]) -> dict[str, Any]:
    """Return what `NAME=VALUE` texts say. Raise ValueError, in one sentence, for another form."""
    found: dict[str, Any] = {}
    for text in texts or ():
        name, equals, said = text.partition("=")
        if not (name and equals):
            raise ValueError(f"{option}: {text} is not of the form NAME=VALUE")
        if name in found:
            raise ValueError(f"{option}: {name} is given twice; each is accepted once")
        found[name] = value(said)
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def table(found: Calibration) -> Table:
    """Return what was tried, the best marked."""
    from rich.table import Table

    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("trial", justify="right")
    view.add_column("mean JCT (s)", justify="right")
    view.add_column("options beside the defaults", overflow="fold")
    for at, tried in enumerate(found.trials, start=1):
        mark = "*" if tried is found.best else ""
        told = f"failed: {tried.problem}" if tried.problem else shown(tried)
        view.add_row(f"{mark}{at}", "-" if tried.problem else f"{tried.mean_jct_s:.0f}", told)
    return view


def shown(tried: Tried) -> str:
    """Return the options of a trial in words."""
    return ", ".join(f"{name}={value}" for name, value in _flat(tried.options)) or "none"


def _flat(options: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in options.items():
        found += _flat(value, f"{before}{name}.") if isinstance(value, Mapping) else [(f"{before}{name}", value)]
    return found


def verdict(found: Calibration) -> str:
    """Say how the best did on the jobs that were held out, and what is chosen."""
    if found.default_s is None or found.chosen_s is None:
        return "Interrupted before the choice was checked; the defaults stay."
    told = f"The last {found.held_out_jobs} jobs were held out: mean JCT {found.default_s:.0f} s by default"
    if found.best is found.trials[0]:
        return f"{told}. Nothing that was tried is better than the defaults, so they stay."
    told += f", {found.chosen_s:.0f} s with the best options ({found.chosen_s / found.default_s - 1:+.1%})."
    return f"{told} They are no better there, so the defaults stay." if found.keeps_defaults else told


def settings_text(policy: str, found: Calibration) -> str:
    """Return the choice as a piece of settings YAML."""
    import yaml

    chosen = {"policy": policy, "policy_options": dict(found.options)}
    return (
        f"# chosen by replaying {found.jobs} jobs, checked on {found.held_out_jobs} later ones\n"
        + yaml.safe_dump(chosen, sort_keys=False)
    )


def document(policy: str, found: Calibration) -> dict[str, Any]:
    """Return all of it as JSON values."""
    return {
        "policy": policy,
        "policy_options": dict(found.options) if found.trials else {},
        "keeps_defaults": found.keeps_defaults,
        "jobs": found.jobs,
        "held_out_jobs": found.held_out_jobs,
        "held_out_mean_jct_s": {"default": found.default_s, "best": found.chosen_s},
        "trials": [
            {
                "options": dict(one.options),
                "mean_jct_s": None if one.problem else one.mean_jct_s,
                "problem": one.problem,
            }
            for one in found.trials
        ],
    }


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise typer.BadParameter(f"--out: {path}: cannot be written: {error.strerror or error}") from None
