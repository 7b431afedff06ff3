"""The `coadapt` command. Each command imports what is heavy only when it runs."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.cloud import Cloud
from ..core.isolation import Isolation
from ..core.refused_values import why_refused
from . import access, arrays, model_fit, models
from . import audit as audit_verb
from . import browser as open_verb
from . import calibrate as calibrate_verb
from . import down as down_verb
from . import events as events_verb
from . import metrics as metric_verbs
from . import node_orders as node_order_verbs
from . import rounds as rounds_verb
from . import secret as secret_verbs
from . import settings as settings_verbs
from . import standing as standing_verbs
from . import store as store_verbs
from . import studies as studies_verbs
from . import teams as teams_verbs
from . import top as top_verb
from . import usage as usage_verb
from . import webhook as webhook_verbs
from . import whatif as whatif_verb
from .exit_codes import AmbiguousJob, Exit, Interrupted, JobNotFound, code_of
from .plain import printable, say
from .replay_options import (
    AtOnce,
    Deadlines,
    Estimates,
    Events,
    ForeseesOption,
    Format,
    LengthNoise,
    NodeSpeeds,
    Pairs,
    RestartScale,
    RoundInterval,
    Sizes,
    Split,
    Usage,
)

if TYPE_CHECKING:
    from ..client.client import Client
    from ..core.schemas import DeadlineView, JobDetails
    from ..core.settings import Settings

MOST_GUESSED = 500  # jobs, the newest, of which one may have been meant

app = typer.Typer(
    name="coadapt",
    help="Train many PyTorch jobs on one mixed-GPU Ray cluster, each with the GPUs that serve all best.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
node_app = typer.Typer(help="Show machines, drain them, and power them off and on.", rich_markup_mode=None)
app.add_typer(node_app, name="node")
models.app.command()(model_fit.fit)
app.add_typer(models.app, name="models")
access.register(app)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
INTERRUPTED = "interrupted; submitted jobs go on"
Machines = Annotated[list[str], typer.Argument(metavar="NAME…", help="Names of machines.")]
Job = Annotated[str, typer.Argument(metavar="JOB", help="A job's id, or its name where only one job has it.")]


def main() -> None:
    """Run the command line. An error that a user can cause is one line on stderr and an exit status of `Exit`."""
    warnings.formatwarning = lambda message, *_, **__: f"coadapt: warning: {message}\n"
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Run the command of these arguments and return its exit status. Report errors on stderr."""
    try:
        status = int(app(list(args) or ["--help"], prog_name="coadapt", standalone_mode=False) or Exit.OK)
        # The option parser turns Ctrl-C into a bare status, so we add what it means for jobs.
        return _fail(INTERRUPTED, Exit.INTERRUPTED) if status == Exit.INTERRUPTED else status
    except typer.Abort:
        return _fail(INTERRUPTED, Exit.INTERRUPTED)
    except BrokenPipeError:  # the reader has what it wanted, as in `coadapt list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except (Exception, KeyboardInterrupt) as error:
        message = getattr(error, "format_message", None)  # the option parser's own errors
        if message is not None:
            if os.environ.get("COADAPT_DEBUG") and error.__cause__ is not None:
                traceback.print_exception(error.__cause__)
            return _fail(_misuse(error) or message(), Exit.USAGE)
        code = code_of(error)
        if code is None and os.environ.get("COADAPT_DEBUG"):
            raise
        if code is None:
            hint = "please report it; COADAPT_DEBUG=1 shows where"
            return _fail(f"{type(error).__name__}: {error} ({hint})", Exit.JOB_FAILED)
        return _fail(str(error) or INTERRUPTED, code)


def _misuse(error: BaseException) -> str | None:
    """Return what is wrong with an option's value as `--option: what`; None for other errors of the parser."""
    if not isinstance(error, typer.BadParameter) or error.param_hint is not None:
        return None
    if error.param is None:  # raised by a command, which has named the field
        return error.message
    option = error.param.opts[0] if error.param.opts else ""
    message = _refused(error.__cause__) or error.message
    return f"{option}: {message}" if option.startswith("-") and message else None


def _refused(cause: BaseException | None) -> str | None:
    """Return what the parser did not accept and what it would have; None if its own message says so."""
    errors = getattr(cause, "errors", None)  # pydantic's, by which newer parsers check without naming the value
    return why_refused(errors()[0]).rstrip(".") if errors is not None else None


def _tell(text: str) -> None:
    say(f"coadapt: {text}", error=True)


def _note(name: str, text: str) -> None:
    _tell(f"{name}: {text}")


def _fail(message: str, code: Exit) -> int:
    say("\n".join(f"coadapt: {line}" for line in message.splitlines()), error=True)
    return int(code)


def _connect() -> Client:
    from ..client.client import connect

    return connect()


def _print(document: Any, as_json: bool) -> None:
    """Print a rich renderable, or data as JSON."""
    if as_json:
        from ..core.json_numbers import answer_text

        say(answer_text(document, indent=2))
    else:
        from .show import console

        console().print(document)


def _resolve(client: Client, name: str) -> str:
    """Return a job's id from its id or its name.

    Raise JobNotFound if no job has it, and AmbiguousJob if several jobs have the name.
    """
    from difflib import get_close_matches

    found = client.jobs(name=name)
    if any(row["id"] == name for row in found):
        return name
    named = [row["id"] for row in found]
    if len(named) == 1:
        return named[0]
    if named:
        raise AmbiguousJob(f"{name}: {len(named)} jobs have this name; give one id of {', '.join(named)}")
    near = get_close_matches(name, [row["id"] for row in client.jobs(most=MOST_GUESSED)], 1)
    hint = f"; did you mean {near[0]}?" if near else "; `coadapt list --all` shows every job"
    raise JobNotFound(f"no job {name}{hint}")


@app.command()
def up(
    emulate: Annotated[
        str | None, typer.Option(help='Start a cluster of emulated nodes here, such as "1x a100:4, 2x t4:4".')
    ] = None,
    address: Annotated[str | None, typer.Option(help='Serve a Ray cluster that runs; "auto" finds it.')] = None,
    round_interval: RoundInterval = 60.0,
    policy: Annotated[
        str, typer.Option(help="The policy, such as sia, coadapt, srtf or fifo; an unknown one lists all.")
    ] = "sia",
    policy_option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the policy, such as p=-1; repeatable."),
    ] = None,
    time_scale: Annotated[
        float, typer.Option(help="Emulated nodes only: how many times faster than measured.")
    ] = 1.0,
    checkpoints: Annotated[
        str | None, typer.Option(help="Folder or URL of checkpoints that every node reaches.")
    ] = None,
    service: Annotated[
        list[str] | None,
        typer.Option(help="A service beside rounds, such as durations; repeatable; an unknown one lists all."),
    ] = None,
    service_option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME.KEY=VALUE", help="An option of a service, such as durations.decay=0.5."),
    ] = None,
    power: Annotated[
        Path | None, typer.Option(metavar="FILE.yaml", help="How machines are powered off and on.")
    ] = None,
    scaling: Annotated[
        Path | None, typer.Option(metavar="FILE.yaml", help="Which nodes may be bought, their prices, the budget.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --scaling: ask for no node, and tell what would be asked for.")
    ] = False,
    cloud: Annotated[
        Cloud, typer.Option(help="Whose spot notices nodes listen for; auto: each finds out which cloud it is in.")
    ] = Cloud.NONE,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="A PostgreSQL database for jobs; else a SQLite file.")
    ] = None,
    isolation: Annotated[
        Isolation, typer.Option(help="How far jobs are kept from each other and from the cluster.")
    ] = Isolation.NONE,
    isolation_path: Annotated[
        list[str] | None, typer.Option(help="A folder that jobs in a namespace may write; repeatable.")
    ] = None,
    secret_keys: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Where the keys of secrets are; else beside the store."),
    ] = None,
    pass_env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help='A variable of nodes that jobs are given, or "AWS_*"; repeatable.'),
    ] = None,
    settings_file: Annotated[
        Path | None,
        typer.Option("--settings", metavar="FILE.yaml", help="Settings, as `coadapt calibrate` writes them."),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting, such as log_format=json; repeatable."),
    ] = None,
) -> None:
    """Start the scheduler: on a cluster emulated on this machine, or on a Ray cluster that runs."""
    from pydantic import ValidationError

    from ..core.emulated_nodes import parse
    from ..core.errors import SettingError
    from ..core.settings import Settings
    from ..core.settings_change import parsed, typed
    from ..deploy import local_cluster
    from ..estimators.affinity.pair_table import read as read_pairs
    from ..policies.catalogue import live_policy
    from . import show
    from .options import by_option
    from .services import services_of

    if (emulate is None) == (address is None):
        raise typer.BadParameter('give either --emulate "1x a100:4, 2x t4:4" or --address auto')
    options = _policy_options(policy_option)
    chosen: dict[str, Any] = {"policy": policy, "policy_options": options}
    chosen |= {"round_interval_s": round_interval, "time_scale": time_scale}
    chosen |= {"isolation": isolation, "isolation_paths": isolation_path or [], "pass_env": pass_env or []}
    chosen |= {"cloud": cloud} if cloud is not Cloud.NONE else {}
    chosen |= {"checkpoint_root": checkpoints} if checkpoints is not None else {}
    chosen |= {"store_url": store} if store is not None else {}
    chosen |= {"secret_key_file": str(Path(secret_keys).absolute())} if secret_keys is not None else {}
    try:
        chosen["services"] = services_of(service or (), service_option or ())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if power is not None:
        chosen["power"] = _power(power, emulate is not None)
    if scaling is not None:
        chosen["scaling"] = _scaling(scaling, dry_run)
    elif dry_run:
        raise typer.BadParameter("--dry-run: goes with --scaling FILE.yaml")
    try:
        settings = Settings(**chosen)
    except ValidationError as error:
        first = error.errors()[0]
        raise typer.BadParameter(by_option(f"{first['loc'][0]}: {why_refused(first)}")) from None
    if settings_file is not None:
        settings = _with_file(settings, settings_file)
    try:
        settings = typed(settings, parsed(given or ()))
    except SettingError as error:
        raise typer.BadParameter(f"--set: {error}") from None
    try:
        live_policy(settings.policy, **settings.policy_options)
        if emulate is not None:
            parse(emulate)
        if settings.pair_speeds is not None:
            read_pairs(Path(settings.pair_speeds))
    except ValueError as error:
        raise typer.BadParameter(by_option(str(error))) from None
    client = local_cluster.up(emulate=emulate, address=address, settings=settings, tell=_tell, rounds=False)
    _print(show.cluster_table(client.cluster()), False)
    if emulate is not None or sys.stdout.isatty():
        say(f"page: {open_verb.link(client)}\n(signs you in once; `coadapt open` opens it again)")
    else:  # the log of a unit is no place for a key
        say(f"page: {client.url}; `coadapt open` opens it signed in")


DEFAULT_CLUSTER = "6x t4:4, 3x rtx:8, 2x a100:8"  # of a simulation


def _power(path: Path, emulated: bool) -> Any:
    """Read a power file. Raise BadParameter for one that cannot be used."""
    from ..deploy import power_file

    try:
        settings = power_file.load(path)
    except power_file.PowerFileError as error:
        raise typer.BadParameter(f"--power: {error}") from None
    if settings.adapter == "emulated" and not emulated:
        raise typer.BadParameter(f"--power: {path}: adapter: emulated is only for --emulate")
    return settings


def _scaling(path: Path, dry_run: bool) -> Any:
    """Read a scaling file. Raise BadParameter for one that cannot be used."""
    from ..deploy import scaling_file

    try:
        settings = scaling_file.load(path)
    except scaling_file.ScalingFileError as error:
        raise typer.BadParameter(f"--scaling: {error}") from None
    return settings.model_copy(update={"mode": "dry_run"}) if dry_run else settings


def _with_file(settings: Settings, path: Path) -> Settings:
    """Return the settings with those of a file. Raise BadParameter for a file that cannot be used."""
    from ..core.errors import SettingError
    from ..deploy import settings_file

    try:
        return settings_file.with_file(settings, path)
    except SettingError as error:
        raise typer.BadParameter(f"--settings: {error}") from None


def _policy_options(texts: Sequence[str] | None) -> dict[str, Any]:
    """Parse `p=-1` into {"p": -1}. A value that is not JSON is text.

    Raise BadParameter for a text without a `=`, and for an option that is given twice.
    """
    found: dict[str, Any] = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not (name and separator):
            raise typer.BadParameter(f"--policy-option: {text} is not of the form NAME=VALUE")
        if name in found:
            raise typer.BadParameter(f"--policy-option: {name} is given twice; each is accepted once")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


@app.command()
def submit(
    jobs: Annotated[
        list[Path], typer.Argument(metavar="JOB.yaml…", help="Job files, or one script that lacks its own.")
    ],
    wait: Annotated[bool, typer.Option("--wait", help="Wait for all of them; exit 1 unless all succeed.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print the output of a single job; implies --wait.")
    ] = False,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway",
            help="Submit also jobs that the cluster cannot run now, which wait for such nodes, and scripts that "
            "never call coadapt.prepare as far as can be seen.",
        ),
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Given a Python script: write a job file for it, and submit nothing.")
    ] = False,
    only_check: Annotated[
        bool, typer.Option("--check", help="Say what would happen, and submit nothing; exit 2 if it is refused.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Submit jobs. Nothing is submitted unless every job file is good and every folder can be sent."""
    from ..client import jobfile
    from ..client.client import cluster_of
    from ..client.script_check import mistaken
    from ..client.unshared_decisions import unshared_decisions
    from .deadline_answers import answers

    if follow and len(jobs) > 1:
        raise typer.BadParameter("--follow takes one job; use --wait for several")
    if follow and as_json:
        raise typer.BadParameter("--json prints one document; use --wait with it")
    if len(jobs) == 1 and jobfile.is_script(jobs[0]):
        from .offer import answer

        _tell(answer(jobs[0], write))
        return Exit.OK
    if write:
        raise typer.BadParameter("--write takes one Python script, for which it writes a job file")
    if only_check and (wait or follow):
        raise typer.BadParameter("--check submits nothing that could be waited for")
    if only_check:
        return _would_submit(jobs, anyway, as_json)
    specs = [jobfile.load(path) for path in jobs]
    if not anyway:
        _refuse(jobs, [[told] if (told := mistaken(spec)) else [] for spec in specs])
    client = _connect()
    if not anyway:
        nodes = cluster_of(client.cluster())
        _refuse(jobs, [jobfile.misfits(spec, nodes) for spec in specs])
    for spec in (spec for spec in specs if spec.door == "native"):
        for decision in unshared_decisions(Path(spec.working_dir) / spec.script):
            _note(spec.name, f"{spec.script}, {decision}")
    ids = client.submit_all(specs, tell=_note)
    if not (wait or follow):
        if as_json:
            _print([{"id": job} for job in ids], True)
            return Exit.OK
        say("\n".join(ids))
        due = [job for job, spec in zip(ids, specs, strict=True) if spec.deadline is not None and not spec.array]
        for job, line in answers(client, due).items():
            _note(job, line)
        return Exit.OK
    ids = arrays.expanded(client, ids, lambda _, one: one, True)
    if follow and len(ids) > 1:
        raise typer.BadParameter("--follow takes one job, and no array; use --wait")
    return _wait(client, ids, follow, as_json)


def _wait(client: Client, ids: Sequence[str], follow: bool, as_json: bool) -> int:
    """Wait for jobs and tell how they ended. `follow`: print the output of the only one meanwhile."""
    from . import follow as following

    say("\n".join(ids), error=True)

    try:
        if follow:
            for text in client.logs(ids[0], follow=True):
                sys.stdout.write(text)
                sys.stdout.flush()
        rows = following.wait(client, ids, quiet=as_json or follow)
    except KeyboardInterrupt:
        raise Interrupted(following.interrupted(ids)) from None
    if as_json:
        _print(rows, True)
    failed = [row for row in rows if row["phase"] != "succeeded"]
    for row in failed:
        more = f"; `coadapt describe {row['id']}` tells more" if row["phase"] == "failed" else ""
        say(printable(f"coadapt: {row['id']} {row['phase']}: {row['reason']}{more}"), error=True)
    return Exit.JOB_FAILED if failed else Exit.OK


def _refuse(jobs: Sequence[Path], problems: Sequence[Sequence[str]]) -> None:
    """Raise JobFileError for the first job file with problems that the user may overrule."""
    from ..client.jobfile import JobFileError

    for path, found in zip(jobs, problems, strict=True):
        if found:
            raise JobFileError(str(path), [f"{problem} (--anyway submits it still)" for problem in found])


def _would_submit(jobs: Sequence[Path], anyway: bool, as_json: bool) -> int:
    """Say what would happen to job files, also where no cluster runs."""
    from ..client.client import NoClusterError, cluster_of
    from . import submit_check

    nodes, settings, secrets, teams, deadline, no_cluster = None, None, None, None, None, ""
    try:
        client = _connect()
        nodes, settings = cluster_of(client.cluster()), client.settings
        secrets, teams = client.secrets, client.team_check

        def deadline(path: Path) -> DeadlineView:
            return client.deadline(submit=path)

    except NoClusterError as error:
        no_cluster = str(error)
    views = submit_check.views(jobs, nodes, settings, anyway, secrets, teams, deadline)
    if as_json:
        _print(views, True)
    else:
        say("\n".join(line for view in views for line in submit_check.lines(view, no_cluster)))
    return Exit.USAGE if any(view["refused"] for view in views) else Exit.OK


@app.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run_command(
    words: Annotated[list[str], typer.Argument(metavar="[--] COMMAND…", help="The program with its arguments.")],
    gpus: Annotated[
        int | None, typer.Option(min=1, help="GPUs of the program; of one that calls coadapt.prepare, the most.")
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(metavar="N,N…", help="GPU counts at which it can be started again; it saves on SIGTERM."),
    ] = None,
    gpu_type: Annotated[list[str] | None, typer.Option(help="A GPU type that it may run on; repeatable.")] = None,
    name: Annotated[str | None, typer.Option(help="The job's name; else that of the script.")] = None,
    pip: Annotated[list[str] | None, typer.Option(help="A requirement of it; repeatable.")] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A variable of its environment; repeatable.")
    ] = None,
    secret: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]SECRET", help="A secret that it gets; repeatable.")
    ] = None,
    pool: Annotated[str | None, typer.Option(help="The pool of nodes that it runs in.")] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print the job's id and do not wait.")] = False,
    as_json: Json = False,
) -> int:
    """Run a command of this folder as a job and follow it; exit 1 unless it succeeds."""
    from ..client import jobfile
    from ..client.client import cluster_of
    from ..client.command_line import fields_of, spec_of

    fields = fields_of(sizes=sizes, gpu_types=gpu_type, name=name, pip=pip, env=env, pool=pool)
    if secret:
        pairs = [one.partition("=") for one in secret]
        fields["secrets"] = {variable: named or variable for variable, _, named in pairs}
    spec = spec_of(words, Path.cwd(), fields, gpus)
    client = _connect()
    if misfits := jobfile.misfits(spec, cluster_of(client.cluster())):
        raise jobfile.JobFileError("run", misfits)
    ids = client.submit_all([spec], tell=_note)
    if not detach:
        return _wait(client, ids, not as_json, as_json)
    if as_json:
        _print({"id": ids[0]}, True)
    else:
        say(ids[0])
    return Exit.OK


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
def check(
    path: Annotated[Path, typer.Argument(metavar="SCRIPT.py|JOB.yaml", help="A training script, or a job file.")],
    args: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]…", help="Arguments of the script.", show_default=False)
    ] = None,
    limit: Annotated[float, typer.Option(min=1, help="Seconds that it may take.")] = 120.0,
    output: Annotated[bool, typer.Option("--output", help="Print what the script wrote, too.")] = False,
    as_json: Json = False,
) -> int:
    """Try a few steps of a script as a job, here and without a cluster; options go before the script."""
    from ..client.jobfile import is_script
    from ..executor.rehearsal.check import said
    from .check import checked

    if args and not is_script(path):
        raise typer.BadParameter("a job file has the arguments of its script; options go before it")
    try:
        name, verdict = checked(path, args or [], limit, partial(_note, path.name))
    except KeyboardInterrupt:
        raise Interrupted("interrupted; nothing of the check goes on") from None
    if output and verdict.output:
        sys.stderr.write(verdict.output)
    if as_json:
        from dataclasses import asdict

        _print({"works": verdict.works, "script": name, **asdict(verdict)}, True)
    else:
        say("\n".join([said(verdict, name), *(f"  {note}" for note in verdict.notes)]))
    return Exit.OK if verdict.works else Exit.JOB_FAILED


@app.command("list")
def list_jobs(
    active: Annotated[bool, typer.Option("--active", help="Only jobs that have not ended.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Every job, also those that ended long ago; --json has them all.")
    ] = False,
    array: Annotated[
        str | None, typer.Option(metavar="ARRAY", help="Every job of one array, such as sweep+7.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the jobs: what each is doing, GPUs, batch size, progress, when it may end."""
    from .listing import every_job, jobs_of_now
    from .show import jobs_table

    client, now = _connect(), time.time()
    if array is not None:
        rows = arrays.rows_of(client, array)
        _print(rows if as_json else jobs_table(rows, now), as_json)
    elif as_json:
        _print(every_job(client, active), True)
    elif every:
        _print(jobs_table(every_job(client, active), now), False)
    else:
        rows, missing = jobs_of_now(client, active, now)
        rows = arrays.folded(rows, lambda one: client.jobs(array=one))
        _print(jobs_table(rows, now, missing=missing), False)


@app.command()
def describe(
    job: Job,
    as_json: Json = False,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Draw the trials of a study there.", show_default=False),
    ] = None,
) -> None:
    """Show all that is known of one job or study, with what happened to it."""
    client = _connect()
    if studies_verbs.is_study(job):
        study = client.study(job)
        if picture is not None:
            from .study_picture import picture as drawn

            picture.write_bytes(drawn(study))
        _print(study if as_json else studies_verbs.details(study), as_json)
        return
    if picture is not None:
        raise typer.BadParameter(f"--picture: {job} is no study; `coadapt studies` shows yours")
    found = client.describe(_resolve(client, job))
    if as_json:
        _print(found, True)
    else:
        from .show import details

        _print(details(found), False)


@app.command()
def logs(
    job: Job,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    rank: Annotated[
        str, typer.Option(metavar="N|all", help="Of this worker, as it was written; of all, line by line.")
    ] = "0",
    measuring: Annotated[
        bool, typer.Option("--measuring", help="Of the runs that measured the job before it trained.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(metavar="N", help="Begin with the newest N lines.", show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Begin with what was written in the last 90s, 10m, 2h or 1d."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what the job's script wrote: rank 0, another rank, all of them, or while it was measured."""
    if tail is not None and tail < 0:
        raise typer.BadParameter(f"--tail: {tail} is no number of lines; it must be 0 or more")
    from .spans import span_s

    since_s = None if since is None else span_s("--since", since)
    if follow and as_json:
        raise typer.BadParameter("--json prints one document; it cannot be followed")
    if rank != "all" and not rank.isdecimal():
        raise typer.BadParameter(f"--rank: {rank} is neither a rank, 0 or more, nor all")
    client = _connect()
    found = _resolve(client, job)
    texts = client.logs(
        found,
        follow=follow,
        rank="all" if rank == "all" else int(rank),
        measuring=measuring,
        tail=tail,
        since_s=since_s,
    )
    if as_json:
        _print({"id": found, "text": "".join(texts)}, True)
        return
    anything = False
    for text in texts:
        anything = True
        sys.stdout.write(text)
        sys.stdout.flush()
    if not anything:
        asked = "its profile runs" if measuring else "any rank" if rank == "all" else f"rank {rank}"
        sources = client.log_sources(found)
        if tail == 0 or (since is not None and f"rank-{rank}" in sources and not measuring):
            recently = "" if since is None else f" in the last {since}"
            _tell(f"{found}: {asked} has written nothing{recently}")
        else:
            _tell(_where_its_output_is(found, sources, asked))
    if follow:
        _tell(_how_it_ended(client.describe(found)))


def _how_it_ended(job: JobDetails) -> str:
    """Return a sentence on a job that was followed until its end."""
    why = f": {job['reason']}" if job["reason"] else ""
    return printable(f"{job['id']} has ended ({job['phase']}{why})")


def _where_its_output_is(job: str, sources: Sequence[str], asked: str) -> str:
    """Return a sentence that says where output is, for a user who asked for output that is not there.

    `asked`: whose output was asked for, as "rank 3".
    """
    if not sources:
        return f"{job} has written nothing"
    if all(source.startswith("profile-") for source in sources):
        return f"{job} has written nothing but while it was measured: `coadapt logs {job} --measuring`"
    return f"{job}: nothing was written by {asked}; there is output of {', '.join(sources)}"


@app.command()
def outputs(
    job: Job,
    dest: Annotated[
        Path | None,
        typer.Argument(metavar="[DEST]", help="Folder to fetch them into; else they are listed."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List or fetch what a job's script wrote to its output folder."""
    from . import outputs as showing

    client = _connect()
    found = _resolve(client, job)
    if dest is None:
        showing.listing(client, found, as_json)
    else:
        showing.fetched(client, found, dest, as_json, _tell)


@app.command()
def cancel(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB…", help="Jobs to end.")],
    now: Annotated[bool, typer.Option("--now", help="End them at once; nothing is saved.")] = False,
    as_json: Json = False,
) -> None:
    """End jobs, or studies with their jobs; those that train save first. Their checkpoints stay."""
    from .verbs import cancelled

    client = _connect()
    for study in filter(studies_verbs.is_study, jobs):
        changed = client.cancel_study(study)
        if not as_json:
            say(f"{study}: {'ends, with its jobs' if changed else 'it was over'}")
    jobs = [job for job in jobs if not studies_verbs.is_study(job)]
    if not jobs:
        return
    ids = arrays.expanded(client, jobs, _resolve, False)
    cancelled(client, ids, now=now, show=partial(_print, as_json=True) if as_json else None)


@app.command()
def pause(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB…", help="Jobs to hold.")], as_json: Json = False
) -> int:
    """Hold jobs: they save, give up their GPUs and get none until they are resumed."""
    client = _connect()
    return _each(client, jobs, client.pause, "paused", as_json)


@app.command()
def resume(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB…", help="Jobs to let go on.")],
    file: Annotated[
        Path | None, typer.Option(metavar="JOB.yaml", help="A changed job file, for one paused or ended job.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Let paused jobs take part again, and failed or cancelled ones go on from their checkpoints."""
    if file is not None and len(jobs) > 1:
        raise typer.BadParameter("--file goes with one job")
    client = _connect()
    resumed = client.resume if file is None else partial(client.resume, job=file, tell=partial(_note, jobs[0]))
    return _each(client, jobs, resumed, "resumed", as_json)


@app.command()
def requeue(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB…", help="Jobs to put back.")], as_json: Json = False
) -> int:
    """Have jobs give up their GPUs now and wait again; those that have ended run again."""
    client = _connect()
    return _each(client, jobs, client.requeue, "requeued", as_json)


@app.command()
def fork(
    job: Annotated[
        str,
        typer.Argument(
            metavar="JOB[@STEP]", help="A job, and the step of one of its checkpoints; else the newest."
        ),
    ],
    file: Annotated[
        Path | None, typer.Argument(metavar="[JOB.yaml]", help="A changed job file; else the same job again.")
    ] = None,
    named_file: Annotated[
        Path | None, typer.Option("--file", metavar="JOB.yaml", help="The same, as `resume` has it.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The new job's name.")] = None,
    only_check: Annotated[
        bool, typer.Option("--check", help="Say what would happen, and submit nothing; exit 2 if it is refused.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Submit a job that starts from a checkpoint of another one."""
    source, at, step = job.partition("@")
    if at and not step.isdecimal():
        raise typer.BadParameter(
            f"JOB@STEP: {step or 'nothing'} is not the number of a step, such as {source}@300"
        )
    if file is not None and named_file is not None:
        raise typer.BadParameter(f"--file: {file} is given, too; a fork takes one job file")
    file, steps = file or named_file, int(step) if at else None
    client = _connect()
    forked = _resolve(client, source)
    if only_check:
        from . import submit_check

        view = client.check_fork(forked, steps, file)
        if as_json:
            _print(view, True)
        else:
            say("\n".join(submit_check.lines(view, "")))
        return Exit.USAGE if view["refused"] else Exit.OK
    found = client.fork(forked, steps, file, name=name, tell=partial(_note, source))
    if as_json:
        _print({"id": found}, True)
    else:
        say(found)
    return Exit.OK


def _each(client: Client, jobs: Sequence[str], verb: Callable[[str], bool], done: str, as_json: bool) -> int:
    from .verbs import each

    show = partial(_print, as_json=True) if as_json else None
    ids = arrays.expanded(client, jobs, _resolve, done in ("resumed", "requeued"))
    return each(ids, verb, done, show)


@app.command()
def cluster(as_json: Json = False) -> None:
    """Show the nodes, what runs on them, and the last round."""
    view = _connect().cluster()
    if as_json:
        _print(view, True)
    else:
        from .show import cluster_table

        _print(cluster_table(view), False)


@node_app.command("list")
def list_machines(as_json: Json = False) -> None:
    """Show every machine: on, leaving, asleep, waking or failed, since when, and why."""
    rows = _connect().machines()
    if as_json:
        _print(rows, True)
    else:
        from .show import machines_table

        _print(machines_table(rows, time.time()) if rows else "no machines", False)


@node_app.command("sleep")
def sleep_machines(names: Machines, as_json: Json = False) -> int:
    """Power machines off on which nothing runs."""
    return _power_each("sleep", names, as_json)


@node_app.command("wake")
def wake_machines(names: Machines, as_json: Json = False) -> int:
    """Power machines on, also those that have failed to come back."""
    return _power_each("wake", names, as_json)


@node_app.command("keep")
def keep_machines(
    names: Machines,
    undo: Annotated[bool, typer.Option("--undo", help="They may be powered off again.")] = False,
    as_json: Json = False,
) -> int:
    """Never power machines off. One that sleeps stays asleep until it is woken."""
    return _power_each("unkeep" if undo else "keep", names, as_json)


@node_app.command("forget")
def forget_machines(names: Machines, as_json: Json = False) -> int:
    """Forget machines that sleep or have failed and will never come back."""
    return _power_each("forget", names, as_json)


def _power_each(verb: str, names: list[str], as_json: bool) -> int:
    from .node import each

    return each(_connect(), verb, names, partial(_print, as_json=True) if as_json else None)


@app.command()
def explain(job: Job, as_json: Json = False) -> None:
    """Say why a job has the GPUs it has, by the rules of the policy that runs."""
    client = _connect()
    found = client.explain(_resolve(client, job))
    if as_json:
        _print(found, True)
    else:
        say("\n".join(found["lines"]))
        from .deadline_answers import what_would_give

        for line in what_would_give(client, found["job_id"]):
            say(printable(line))


@app.command()
def trace() -> None:
    """Print the jobs that succeeded as JSON lines, to be replayed by `coadapt simulate --trace`."""
    lines = _connect().trace()
    for line in lines:
        say(line)
    if not lines:
        say("no job has succeeded yet", error=True)


@app.command()
def simulate(
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Jobs to replay: JSON lines, CSV of Sia, COpter, Helios, Philly, PAI, Chronus, ElasticFlow or "
            "Synergy, or Gavel's."
        ),
    ] = None,
    format: Format = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help='Nodes such as "6x t4:4, 2x a100:8", or a YAML or CSV file that describes them; by default '
            '"6x t4:4, 3x rtx:8, 2x a100:8", or with --scaling none but those that are bought.'
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="A policy, by default sia; repeatable, to compare; an unknown one lists all."),
    ] = None,
    policy_option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the policy, where only one is given; repeatable."),
    ] = None,
    round_interval: RoundInterval = 60.0,
    events: Events = False,
    early: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="Rounds also S seconds after a job arrives or ends, as live; policies may want them."
        ),
    ] = None,
    profiles: Annotated[
        Path | None,
        typer.Option(
            help="Measured profiles: a folder a model, a file of Gavel's, or a folder of goodput tables, with "
            "which jobs adapt under policies that choose sizes. A file of Synergy's says how fast jobs are with "
            "given CPUs and memory."
        ),
    ] = None,
    knows: Annotated[
        str | None,
        typer.Option(
            help="What jobs know before they run: oracle, bootstrap, profile-cache or no-profile; by default "
            "bootstrap, and profile-cache under policies that count on it."
        ),
    ] = None,
    lengths: Annotated[
        str,
        typer.Option(
            help="What policies are told of jobs that have a duration: told, learned from earlier runs of the "
            "same user, unknown, foretold by the service durations, perturbed as Helios' estimates, or estimated."
        ),
    ] = "told",
    estimates: Estimates = None,
    service: Annotated[
        list[str] | None,
        typer.Option(help="A service that runs beside the policy; repeatable; an unknown one lists all."),
    ] = None,
    service_option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME.KEY=VALUE", help="An option of a service, such as durations.decay=0.5."),
    ] = None,
    noise: Annotated[
        float, typer.Option(help="Relative deviation of what jobs measure or their goodput tables say.")
    ] = 0.0,
    profiling_cost: Annotated[
        float,
        typer.Option(
            help="With --knows bootstrap or profile-cache: seconds that a job's profile runs take before its "
            "first run."
        ),
    ] = 20.0,
    node_mtbf: Annotated[
        float | None,
        typer.Option(min=0, help="Hours a node runs on average until it fails; by default none fails."),
    ] = None,
    node_repair: Annotated[float, typer.Option(min=0, help="Hours until a failed node is back.")] = 1.0,
    boot: Annotated[
        float, typer.Option(metavar="S", help="With --service energy: seconds until a node that wakes is back.")
    ] = 300.0,
    scaling: Annotated[
        Path | None, typer.Option(metavar="FILE.yaml", help="Nodes that are bought and given up; adds costs.")
    ] = None,
    same_conditions: Annotated[
        bool,
        typer.Option(
            "--same-conditions",
            help="What the other options leave open is for every policy as in the live service: rounds also 0.5 s "
            "after a job arrives or ends, and jobs know what earlier ones of their script measured.",
        ),
    ] = False,
    shares: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file of teams, whose terms hold; adds the figures of each team. A job is of the team that its "
            "virtual cluster names, or of its user's.",
        ),
    ] = None,
    foresees: ForeseesOption = None,
    pairs: Pairs = None,
    usage: Usage = None,
    deadlines: Deadlines = None,
    node_speeds: NodeSpeeds = None,
    length_noise: LengthNoise = 0.0,
    restart_scale: RestartScale = 1.0,
    jobs: Annotated[int, typer.Option(help="Without --trace: jobs to make up.")] = 160,
    rate: Annotated[float, typer.Option(help="Without --trace: jobs submitted per hour.")] = 20.0,
    split: Split = None,
    sizes: Sizes = "single",
    at_once: AtOnce = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything drawn.")] = 0,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="JOB",
            help="Instead of figures, say why this job has what it has in its last round, or at --at.",
        ),
    ] = None,
    at: Annotated[
        float | None,
        typer.Option(metavar="S", help="With --explain: the first round with the job at or after S seconds."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Save every run in a folder here, for `coadapt report`, and go on with what was interrupted; "
            "adds fairness."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Replay a trace of jobs under one or more policies in virtual time, without a cluster."""
    from ..policies.warm_up import COMPILING, telling
    from ..simulator.conditions import Conditions
    from ..simulator.derived import asked_by
    from ..simulator.engine.engine import Timing
    from ..simulator.engine.errors import RunFailed
    from ..simulator.engine.outages import Failures
    from ..simulator.jobs.knowledge import Knows
    from ..simulator.jobs.lengths import Lengths
    from ..simulator.traces.deadlines import rule_of
    from . import simulate as simulation
    from .options import by_option
    from .replay_options import foreseen_by
    from .services import services_of

    names = policy or ["sia"]
    options = _policy_options(policy_option)
    if options and len(names) > 1:
        raise typer.BadParameter("--policy-option goes with one --policy")
    if at is not None and explain is None:
        raise typer.BadParameter("--at goes with --explain")
    if explain is not None and out is not None:
        raise typer.BadParameter("--explain saves nothing; give it without --out")
    if knows is not None and knows not in list(Knows):
        raise typer.BadParameter(f"--knows: {knows!r}; accepted: {', '.join(Knows)}")
    if lengths not in list(Lengths):
        raise typer.BadParameter(f"--lengths: {lengths!r}; accepted: {', '.join(Lengths)}")
    try:
        under = Conditions(
            timing=Timing(round_interval, events, early_s=early),
            knows=None if knows is None else Knows(knows),
            noise=noise,
            seed=seed,
            failures=None if node_mtbf is None else Failures(node_mtbf * 3600, node_repair * 3600, seed),
            profiling_s=profiling_cost,
            lengths=Lengths(lengths),
            same=same_conditions,
            shares=shares,
            foresees=foreseen_by(foresees),
            estimates=estimates,
            services=services_of(service or (), service_option or ()),
            boot_s=boot,
            scaling=None if scaling is None else _scaling(scaling, False),
            pairs=pairs,
            usage=usage,
            node_speeds=node_speeds,
            length_noise=length_noise,
            restart_scale=restart_scale,
        )
        if trace is not None and split is not None:
            raise typer.BadParameter("--split: makes jobs up, so it goes without --trace")
        derived, rule = (
            asked_by(split, sizes, at_once, jobs, rate),
            None if deadlines is None else rule_of(deadlines),
        )
        asked = simulation.AskedTrace(trace, format, jobs, rate, derived, rule)
        nodes = cluster if cluster is not None or scaling is not None else DEFAULT_CLUSTER
        compared = simulation.Comparison(asked, nodes, dict.fromkeys(names, options), under, profiles)
        with telling(lambda: _tell(COMPILING)):
            if explain is not None:
                said = compared.explain(explain, at)
            else:
                figures = compared.run() if out is None else compared.run_kept(out)
    except KeyboardInterrupt:
        kept = "the same command goes on" if out else "with --out the same command would go on later"
        raise Interrupted(f"interrupted; {kept}") from None
    except (ValueError, RunFailed) as error:
        hint = "; COADAPT_DEBUG=1 shows where" if error.__cause__ else ""  # a policy has raised
        raise typer.BadParameter(by_option(str(error)) + hint) from error.__cause__
    if explain is not None and as_json:
        _print({name: {"round_s": part.time_s} | part.explanation.to_dict() for name, part in said.items()}, True)
    elif explain is not None:
        say(simulation.explained(said))
    elif as_json:  # JSON has no nan
        _print(
            {
                name: {key: value if value == value else None for key, value in found.items()}
                | {"conditions": compared.conditions[name]}
                | ({"teams": compared.teams[name]} if name in compared.teams else {})
                for name, found in figures.items()
            },
            True,
        )
    else:
        _print(simulation.table(figures), False)
        for name, of_teams in compared.teams.items():
            _print(simulation.team_table(name, of_teams), False)
        _print(simulation.conditions(compared.conditions, same_conditions), False)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Saved runs, or folders of them.")],
    out: Annotated[Path, typer.Option(help="The page; its pictures are written beside it too.")] = Path(
        "report.html"
    ),
    top: Annotated[int, typer.Option(help="Jobs in the pictures of allocations, those with most GPU-hours.")] = 25,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Instead of a page, compare the runs with this one of the same jobs, job by job: speed-ups, and "
            "who ends later.",
        ),
    ] = None,
    after: Annotated[
        float, typer.Option(metavar="H", help="With --against: jobs of the first hours do not count.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Compare saved runs on one HTML page: distributions, allocations over time, and tables with differences."""
    if against is not None:
        from . import against as comparing
        from .show import console

        try:
            found = comparing.found(runs, against, after)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        if as_json:
            say(json.dumps(found))
        else:
            console().print(comparing.table(found, str(against), comparing.workloads(against)))
        return
    if as_json or after:
        raise typer.BadParameter("--json and --after go with --against")
    from . import report as reporting

    try:
        written = reporting.write(runs, out, top)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    say("\n".join(str(path) for path in written))


@app.command()
def study(
    trace: Annotated[
        Path, typer.Argument(metavar="TRACE", help="A trace, as for `coadapt simulate`, or a saved run.")
    ],
    format: Format = None,
    cluster: Annotated[
        str | None,
        typer.Option(help='The nodes of the trace, such as "6x t4:4, 2x a100:8", or a YAML or CSV file.'),
    ] = None,
    began: Annotated[
        str | None,
        typer.Option(metavar="TIME", help='When second 0 of a trace without dates was: "2020-03-18 03:59:08".'),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The page, by default study.html; its pictures are written beside it too."),
    ] = None,
    no_page: Annotated[bool, typer.Option("--no-page", help="Write no page; needs no matplotlib.")] = False,
    as_json: Json = False,
) -> None:
    """Say what a trace tells of its jobs, users and cluster, and which implications of Helios hold there."""
    from . import study as studying
    from .options import by_option

    if no_page and out is not None:
        raise typer.BadParameter("--out names a page; give it without --no-page")
    try:
        found = studying.studied(trace, format, cluster, began)
        written = [] if no_page else studying.write(found, out or Path("study.html"))
    except ValueError as error:
        # The trace is an argument here, so its errors keep the name of the field.
        message = str(error)
        raise typer.BadParameter(message if message.startswith("trace:") else by_option(message)) from None
    if as_json:
        from ..simulator.study.as_json import as_json as plain

        _print(plain(found), True)
    else:
        _print(studying.answer(found), False)
        if written:
            say(f"\nthe page: {written[0]}")


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE.yaml", help="Policies, traces, clusters and seeds.")],
    out: Annotated[Path, typer.Option(help="Folder of the runs; those that are there are not run again.")] = Path(
        "sweep"
    ),
    no_ray: Annotated[bool, typer.Option("--no-ray", help="One run after the other, in this process.")] = False,
    num_cpus: Annotated[int | None, typer.Option(help="Runs at a time; by default one per CPU.")] = None,
    as_json: Json = False,
) -> int:
    """Simulate every policy on every trace, cluster and seed of a file, on all CPUs; goes on where it stopped."""
    from . import sweep as sweeping

    try:
        swept = sweeping.run(file, out, not no_ray, num_cpus, _tell)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; the same command goes on with what is missing in {out}") from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if as_json:
        columns = {
            label: {
                name: {"mean": mean, "std": deviation} if mean == mean else None
                for name, (mean, deviation) in found.items()
            }
            | {"conditions": swept.conditions[label]}
            for label, found in swept.figures.items()
        }
        _print(columns, True)
    elif swept.figures:
        from .simulate import conditions

        _print(sweeping.table(swept.figures), False)
        _print(conditions(swept.conditions, swept.same), False)
    for problem in swept.failed:
        say(f"coadapt: {problem}", error=True)
    return Exit.JOB_FAILED if swept.failed else Exit.OK


@app.command()
def schema(
    answers: Annotated[
        bool, typer.Option("--answers", help="Of what --json prints, instead of job files.")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="Rewrite the published file in a checkout.")] = False,
) -> None:
    """Print the JSON schema of job files, or of what --json prints."""
    from ..client import answers_schema, jobfile

    of = answers_schema if answers else jobfile
    if write:
        of.SCHEMA_PATH.write_text(of.schema_text())
        say(of.SCHEMA_PATH)
    else:
        sys.stdout.write(of.schema_text())


down_verb.register(app)
store_verbs.register(app)
metric_verbs.register(app, lambda: _connect(), _resolve, _print)
settings_verbs.register(app, lambda: _connect(), _print)
audit_verb.register(app, lambda: _connect(), _print)
secret_verbs.register(app, lambda: _connect(), _print)
studies_verbs.register(app, lambda: _connect(), _print)
standing_verbs.register(app, lambda: _connect(), lambda *args: _each(*args))
usage_verb.register(app, lambda: _connect(), _print)
teams_verbs.register(app, lambda: _connect(), _print)
webhook_verbs.register(app, lambda: _connect(), _print)
events_verb.register(app, lambda: _connect(), _resolve, _print)
top_verb.register(app, lambda: _connect())
open_verb.register(app, lambda: _connect())
rounds_verb.register(app, lambda: _connect(), _print)
calibrate_verb.register(app, _print, DEFAULT_CLUSTER)
whatif_verb.register(app, lambda: _connect(), _print, _policy_options)
node_order_verbs.register(node_app, lambda: _connect(), _print)

if __name__ == "__main__":
    main()
