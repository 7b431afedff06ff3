"""`coadapt tune` and `coadapt studies`: hyper-parameters searched by trials on the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .exit_codes import Exit
from .plain import printable, say

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ..client.client import Client
    from ..core.job import JobSpec

LOOK_S = 2.0
MOST_SHOWN = 10  # trials, the best first
OVER = ("done", "failed", "cancelled")
MADE_BY = "# Made by coadapt tune: the job with the best values that it found."


def register(app: typer.Typer, connect: Callable[[], Client], show: Callable[[Any, bool], None]) -> None:
    """Add the commands. `show`: prints data or a renderable."""

    @app.command()
    def tune(
        file: Annotated[Path, typer.Argument(metavar="STUDY.yaml", help="The study.")],
        check: Annotated[bool, typer.Option("--check", help="Only say what is wrong with it.")] = False,
        detach: Annotated[bool, typer.Option("--detach", "-d", help="Return once it has begun.")] = False,
        write: Annotated[
            Path | None,
            typer.Option(metavar="JOB.yaml", help="Where the best job goes; by default beside the study."),
        ] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
    ) -> int:
        """Search a script's best hyper-parameters by many small trials, and write the job that has them."""
        values, job = read(file)
        client = connect()
        id = client.begin_study(values, job, tell=lambda text: say(printable(text), error=True), dry_run=check)
        if id is None:
            say(f"{file}: nothing is wrong with it")
            return Exit.OK
        if detach:
            show({"id": id}, True) if as_json else say(id)
            return Exit.OK
        if not as_json:
            say(f"{id} has begun; Ctrl-C leaves it running, `coadapt cancel {id}` ends it")
        view = followed(client, id, (lambda text: None) if as_json else say)
        if view["best_job"] is not None:
            path = write or file.with_name(f"{values['name']}.best.yaml")
            path.write_text(job_text(view["best_job"], job), encoding="utf-8")
            view["written"] = str(path)
        show(view if as_json else details(view), as_json)
        if view.get("written") and not as_json:
            say(f"wrote {view['written']}; `coadapt submit {view['written']}` trains with these values")
        return Exit.OK if view["status"] == "done" else Exit.JOB_FAILED

    @app.command()
    def studies(
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
    ) -> None:
        """Show your studies: how far each is, and the best so far."""
        rows = connect().studies()
        if as_json or rows:
            show(rows if as_json else table(rows), as_json)
        else:
            say("no studies yet; `coadapt tune study.yaml` begins one")


def is_study(name: str) -> bool:
    """Return whether a name is the id of a study, as digits:1; no job's name has a colon."""
    return ":" in name


def read(file: Path) -> tuple[dict[str, Any], JobSpec]:
    """Return the fields of a study's file, and the job of its trials. Raises: JobFileError, in one sentence."""
    from ..client import jobfile
    from ..core import safe_yaml
    from ..tuning.live.check import names_problem
    from ..tuning.study_file import StudyFileError, parse

    try:
        data = file.read_bytes()
        study = parse(data)
    except OSError as error:
        raise jobfile.JobFileError(str(file), [f"cannot be read: {error.strerror or error}"]) from None
    except StudyFileError as error:
        raise jobfile.JobFileError(str(file), [str(error)]) from None
    if isinstance(study.job, str):
        job = jobfile.load(file.parent / study.job)
    else:
        job = jobfile.locate(jobfile.from_mapping(study.job, "job"), file.parent)
    if job.script and (problem := names_problem(study, Path(job.working_dir) / job.script)):
        raise jobfile.JobFileError(str(file), [problem])
    return safe_yaml.read(data, ("name",)), job


def followed(client: Client, id: str, tell: Callable[[str], None]) -> dict[str, Any]:
    """Return a study once it is over; meanwhile tell how far it is whenever that has changed."""
    told: tuple[Any, ...] = ()
    noted = set[str]()
    while True:
        view = client.study(id)
        for note in view["notes"]:
            if note not in noted:
                noted.add(note)
                tell(printable(note))
        # A better metric of the same trial alone is no news: there is one in each epoch.
        news = tuple(view[name] for name in ("status", "trials_over", "trials_running", "best_trial"))
        if news != told:
            told = news
            tell(progress(view))
        if view["status"] in OVER:
            return view
        time.sleep(LOOK_S)


def progress(row: Mapping[str, Any]) -> str:
    """Return how far a study is, in a line."""
    text = f"{row['status']}: {row['trials_over']} of {row['trials_asked']} trials over"
    if row["trials_running"]:
        text += f", {row['trials_running']} train"
    return text + (f"; best {best_of(row)}" if row["best"] is not None else "")


def best_of(row: Mapping[str, Any]) -> str:
    """Return the best metric so far, and the values that gave it."""
    values = ", ".join(f"{name} {shown(value)}" for name, value in (row["best_values"] or {}).items())
    return f"{row['metric']} {shown(row['best'])} by trial {row['best_trial']} ({values})"


def shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return studies in a line each."""
    found = _table("STUDY", "STATUS", "TRIALS", "BEST", "VALUES", "GPU-MINUTES")
    for row in rows:
        values = ", ".join(f"{name} {shown(one)}" for name, one in (row["best_values"] or {}).items()) or "-"
        best = "-" if row["best"] is None else f"{row['metric']} {shown(row['best'])}"
        over = f"{row['trials_over']}/{row['trials_asked']}"
        found.add_row(row["id"], row["status"], over, best, values, f"{row['gpu_s'] / 60:.1f}")
    return found


def details(view: Mapping[str, Any]) -> RenderableType:
    """Return a study with its best trials and their curves."""
    from rich.console import Group
    from rich.text import Text

    lines = [f"{view['id']} ({view['owner']}): {progress(view)}"]
    lines.append(f"{view['algorithm']}, {view['mode']} {view['metric']}, {view['gpu_s'] / 60:.1f} GPU-minutes")
    lines += [view["why"]] if view["why"] else []
    lines += view["notes"]
    most = view["mode"] == "max"
    trials = sorted(view["trials"], key=lambda row: _order(row, most))
    names = list(dict.fromkeys(name for row in trials for name in row["values"]))
    found = _table("TRIAL", "WIDTH", "STATE", *names, "EPOCHS", view["metric"], "CURVE", "GPU-S", "JOB")
    for row in trials[:MOST_SHOWN]:
        points = [value for _, value in view["curves"].get(str(_run(row)), [])]
        found.add_row(
            str(row["trial"]),
            "1" if row["shrink"] == 1 else f"1/{row['shrink']}",
            row["state"],
            *(shown(row["values"].get(name, "-")) for name in names),
            str(row["epochs"]),
            "-" if row["last"] is None else shown(row["last"]),
            spark(points),
            f"{row['gpu_s']:.0f}",
            row["job"] or "-",
        )
    more = [] if len(trials) <= MOST_SHOWN else [Text(f"and {len(trials) - MOST_SHOWN} more; --json has all")]
    return Group(*(Text(printable(line)) for line in lines), Text(""), found, *more)


def spark(values: Sequence[float], width: int = 12) -> str:
    """Return a curve in one line of blocks."""
    if not values:
        return "-"
    step = max(len(values) / width, 1.0)
    picked = [values[min(int((i + 1) * step) - 1, len(values) - 1)] for i in range(min(width, len(values)))]
    low, high = min(picked), max(picked)
    blocks = "▁▂▃▄▅▆▇█"
    return "".join(blocks[int((one - low) / (high - low or 1.0) * (len(blocks) - 1))] for one in picked)


def job_text(best: Mapping[str, Any], job: JobSpec) -> str:
    """Return the job file that trains with the best values. `job`: that of the trials, whose folder it keeps."""
    import yaml

    fields = {**best, "working_dir": job.working_dir}
    return f"{MADE_BY}\n{yaml.safe_dump(fields, sort_keys=False)}"


def _table(*columns: str) -> Table:
    from rich.table import Table

    found = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        found.add_column(column)
    return found


def _order(row: Mapping[str, Any], most: bool) -> tuple[Any, ...]:
    last = row["last"]
    return row["shrink"], last is None, -(last or 0.0) if most else (last or 0.0), row["trial"]


def _run(row: Mapping[str, Any]) -> int:
    found: int = row["run"]
    return found
