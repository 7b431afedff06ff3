"""What an executor is told of its job when it is made; `assign` tells it later where to run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.doors import Door
from ...core.job import JobSpec, RestartPolicy
from ...core.service_names import NAMESPACE, SERVICE_NAME
from ...core.settings import Settings
from ...estimators.measurements import EVERY_TYPE
from ...executor.command_job import CommandJob
from ...executor.commands.reconciler import Rules
from ...executor.executor_job import ExecutorJob
from ...executor.reconciling.failures import FIXED, POLICY
from ..access.lines import line_of
from ..files.packages import PackageStore
from ..jobs.record import JobRecord
from .emulated_use import emulated_use


def executor_job(
    job: JobRecord, settings: Settings, packages: PackageStore, gpu_types: Sequence[str], head_node: str = ""
) -> ExecutorJob:
    """Return what an executor is told of its job when it is made. `assign` tells it later where to run."""
    spec = job.spec
    own = settings.checkpoint_url(job.id, spec.training.checkpoint.url)
    return ExecutorJob(
        id=job.id,
        life=job.life,
        script=spec.script,
        args=tuple(spec.args),
        package=str(packages.find(job.package)) if job.package is not None else "",
        folder=job.folder,
        state_dir=settings.state_dir,
        env=spec.env,
        pip=tuple(spec.pip),
        trackers=tuple(one.value for one in spec.trackers),
        training=spec.training,
        trials=tuple(spec.trials),
        trial_sources={source.job_id: source.url_for(own) for source in job.trial_sources},
        until_epoch=spec.until_epoch,
        kept_epochs=tuple(spec.kept_epochs),
        shrink=spec.shrink,
        checkpoint_url=own,
        outputs_url=settings.outputs_url(job.id, spec.training.checkpoint.url),
        log_dir=str(settings.log_dir(job.id)),
        head_node=head_node,
        pace={
            "profile": spec.emulation.profile,
            "time_scale": spec.emulation.time_scale * settings.time_scale,
            **({"input": given.model_dump()} if (given := spec.emulation.input) is not None else {}),
        },
        emulated=emulated_use(spec, settings.pair_speeds),
        gpus_per_replica=gpus_per_replica(spec, gpu_types),
        sharded=spec.is_sharded,
        fewest_replicas=spec.fewest_replicas,
        max_failures=spec.max_failures,
        restarts=spec.restarts,
        measurements=job.measurements,
        line=line_of(job.id, settings),
        kept=job.kept,
        log_format=settings.log_format,
        service_name=SERVICE_NAME,
        service_namespace=NAMESPACE,
    )


def command_job(job: JobRecord, settings: Settings, packages: PackageStore, head_node: str = "") -> CommandJob:
    """Return what the executor of a job that never calls `coadapt.prepare` is told when it is made."""
    spec, restarts = job.spec, job.spec.restarts
    errors, losses = restarts is RestartPolicy.ON_FAILURE, restarts is not RestartPolicy.NEVER
    return CommandJob(
        id=job.id,
        life=job.life,
        script=spec.script,
        command=tuple(spec.command or spec.args),
        processes=spec.processes_on_node,
        rules=Rules(
            spec.grace_s,
            retries_errors=errors,
            retries_losses=losses,
            why_not=FIXED if spec.restart_policy is None else POLICY,
        ),
        measured=spec.door is Door.RESTARTING,
        max_failures=spec.max_failures,
        package=str(packages.find(job.package)) if job.package is not None else "",
        working_dir=spec.working_dir if job.package is None else "",
        folder=job.folder,
        state_dir=settings.state_dir,
        env=spec.env,
        pip=tuple(spec.pip),
        trackers=tuple(one.value for one in spec.trackers),
        outputs_url=settings.outputs_url(job.id, spec.training.checkpoint.url),
        log_dir=str(settings.log_dir(job.id)),
        head_node=head_node,
        batch_size=spec.training.initial_batch_size,
        total_steps=spec.progress.total_steps,
        starts=job.starts,
        status_file=spec.progress.file or "",
        pattern=spec.progress.pattern or "",
        pause_profile=spec.emulation.profile if spec.emulation.pause else "",
        emulated=emulated_use(spec, settings.pair_speeds),
        fingerprint=spec.fingerprint or job.script_key or job.id,
        report_interval_s=spec.training.report_interval_s,
        measurements=job.measurements,
        line=line_of(job.id, settings),
        kept=job.kept,
        log_format=settings.log_format,
        service_name=SERVICE_NAME,
        service_namespace=NAMESPACE,
    )


def gpus_per_replica(spec: JobSpec, gpu_types: Sequence[str]) -> dict[str, int]:
    """Return the GPUs of a replica by GPU type that the job may use. `EVERY_TYPE` stands for all types."""
    if spec.resources.gpu_types is None and isinstance(spec.resources.gpus_per_replica, int):
        return {EVERY_TYPE: spec.resources.gpus_per_replica}
    named = set(spec.resources.gpu_types or ()) | set(gpu_types)
    return {t: gpus for t in sorted(named) if (gpus := spec.gpus_per_replica(t)) is not None}
