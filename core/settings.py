"""What an operator may set: how often rounds run, which policy decides, where state is kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from .api_settings import ApiSettings
from .cloud import Cloud
from .home import default_home
from .isolation import Isolation
from .logs import LogFormat
from .power_settings import PowerSettings
from .retention_settings import RetentionSettings
from .rewards import MOST_WORTH
from .scaling_settings import ScalingSettings
from .webhook_settings import WebhookSettings

EXAMPLE_URL = "postgresql+psycopg://coadapt@db.example.com/coadapt"


class Settings(BaseModel):
    """Options of the scheduler service. `settings_change.py` says which of them may change while it runs.

    Seconds unless the name says otherwise. `state_dir` is a folder of the node that runs the service.
    It holds the job store, logs, packages and, without `checkpoint_root`, checkpoints. A cluster of several
    machines needs a `checkpoint_root` that every node reaches.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    policy: str = "sia"
    policy_options: dict[str, Any] = {}
    round_interval_s: float = Field(default=60.0, gt=0)
    # A submit, an end or a lost node starts a round early, after so long for others to join it.
    debounce_s: float = Field(default=0.5, ge=0)
    state_dir: str = Field(default_factory=default_home)
    checkpoint_root: str | None = None
    # Where jobs are stored: a URL of PostgreSQL; None: a SQLite file in `state_dir`.
    store_url: str | None = None

    # Backups of the store that the service writes by itself; 0: none.
    backup_hours: float = Field(default=24.0, ge=0)
    backups_kept: int = Field(default=7, ge=1)
    # How long what is over is kept, and how much of it.
    retention: RetentionSettings = RetentionSettings()

    # Profile runs hold at most this share of a GPU type's GPUs (one run is always allowed).
    profile_share: float = Field(default=0.5, gt=0, le=1)
    # With one GPU type measured, a job waits so long for the others before it queues without them.
    profile_patience_s: float = Field(default=300.0, ge=0)
    # A profile run that has not ended by then is given up.
    profile_timeout_s: float = Field(default=600.0, gt=0)

    # What a restart is taken to cost until a start of the job's own has been measured.
    restart_cost_s: float = Field(default=30.0, ge=0)
    # A job that does not leave its slots in this time has its executor restarted, which ends its workers.
    release_timeout_s: float = Field(default=120.0, gt=0)
    # A job that is cancelled while it trains has so long to save; then it ends all the same.
    cancel_save_s: float = Field(default=60.0, ge=0)
    # The executor of a job that holds nothing is ended after so long; the job's next command makes another one.
    executor_idle_s: float = Field(default=30.0, ge=0)

    # Multiplies every job's own time scale on emulated nodes: 10 is ten times faster than the measured GPUs.
    time_scale: float = Field(default=1.0, gt=0)
    # A CSV file of pair speeds, as of `coadapt simulate --pairs`, by which jobs slow each other that share an
    # emulated GPU. Its jobs are models of core/pace_profiles.json. None: as foretold by what both use of a GPU.
    pair_speeds: str | None = None
    node_refresh_s: float = Field(default=1.0, gt=0)
    # CPUs of a leased GPU node that stay outside the lease, for Ray's own and other people's small actors.
    spare_cpus: float = Field(default=1.0, ge=0)
    # Options of each service that runs beside rounds, by its name.
    services: dict[str, dict[str, Any]] = {}
    # How machines are powered off and on; None: they never are.
    power: PowerSettings | None = None
    # Which nodes are bought of Ray's autoscaler, and given up; None: none is.
    scaling: ScalingSettings | None = None
    # Which cloud's metadata service each node asks whether it is taken away. `{machine}` in the URL, which tests
    # set, stands for the node's machine.
    cloud: Cloud = Cloud.NONE
    metadata_url: str = Field(default="", pattern=r"^(https?://[^\s]+)?$")
    metadata_every_s: float = Field(default=2.0, ge=0.1, le=60)
    # Seconds of one core a minute for telling when jobs start and end; 0: nobody does.
    forecast_cpu_s: float = Field(default=20.0, ge=0, le=60)
    # Where the HTTP API listens.
    api: ApiSettings = ApiSettings()
    # To which addresses events are sent, and when they are given up.
    webhooks: WebhookSettings = WebhookSettings()
    # Logs of ended jobs are removed after so many days, and the oldest before while all take more than so much.
    log_keep_days: float = Field(default=90.0, gt=0)
    log_keep_gib: float = Field(default=100.0, gt=0)
    # A file with the keys of secrets, in a folder of the node that runs the service; None: one in `state_dir`.
    secret_key_file: str | None = None
    # How scheduler, API and executors write their own logs: as text, or as one JSON object a line.
    log_format: LogFormat = LogFormat.TEXT
    # How far jobs' processes are kept from each other and from the cluster (docs/security.md).
    isolation: Isolation = Isolation.NONE
    # Folders beside their own that jobs may write, with the isolation `namespace`.
    isolation_paths: list[str] = []
    # Variables of nodes that jobs are given; `AWS_*` names all that begin so.
    pass_env: list[str] = []
    # The most that ending a job in time may be worth, where a job file says so itself.
    most_worth: float = Field(default=MOST_WORTH, ge=MOST_WORTH)
    max_package_mib: Annotated[int, Field(ge=1, le=500)] = 100

    def take(self, other: Settings) -> None:
        """Become like other settings. Whoever holds this object sees them from then on."""
        self.__dict__.update(other.__dict__)

    @field_validator("state_dir")
    @classmethod
    def _absolute(cls, path: str) -> str:
        if not path.strip():
            raise ValueError("state_dir is empty; give the path of a folder")
        return str(Path(path).expanduser().absolute())

    @field_validator("pair_speeds")
    @classmethod
    def _whole_path(cls, path: str | None) -> str | None:
        return None if path is None or not path.strip() else str(Path(path).expanduser().absolute())

    @field_validator("store_url")
    @classmethod
    def _without_password(cls, url: str | None) -> str | None:
        if url is None or not url.strip():
            return None
        if not url.startswith(("postgresql+psycopg://", "postgresql://")):
            raise ValueError(f"{url.split('://')[0]} is no store; give a URL such as {EXAMPLE_URL}")
        if re.match(r"[^:]+://[^/@]*:[^/@]+@", url) or re.search(r"[?&]password=", url, re.IGNORECASE):
            raise ValueError("it has a password, which all users would see; put it into ~/.pgpass")
        return url.replace("postgresql://", "postgresql+psycopg://", 1)

    @field_validator("scaling")
    @classmethod
    def _sleeps_or_is_given_up(cls, found: ScalingSettings | None, info: ValidationInfo) -> ScalingSettings | None:
        power: PowerSettings | None = info.data.get("power")
        both = [] if found is None or power is None else sorted(filter(power.sleeps, found.gpu_types))
        if both:
            raise ValueError(
                f"GPU type {both[0]} is put to sleep by the power settings, too; a type is either put to sleep or "
                "given up, and `types` of the power file says which ones sleep"
            )
        return found

    @property
    def store_path(self) -> Path:
        return Path(self.state_dir) / "jobs.sqlite"

    @property
    def store(self) -> Path | str:
        """Return where jobs are stored, a path or a URL."""
        return self.store_url or self.store_path

    @property
    def secret_keys(self) -> Path:
        """Return where the keys of secrets are. No backup holds them."""
        return Path(self.secret_key_file or Path(self.state_dir) / "secret_keys").expanduser()

    @property
    def backup_dir(self) -> Path:
        """Return where backups of the store lie."""
        return Path(self.state_dir) / "backups"

    @property
    def package_dir(self) -> Path:
        """Return where packages of working directories lie."""
        return Path(self.state_dir) / "packages"

    @property
    def learned_dir(self) -> Path:
        """Where models lie that are learned from jobs that have ended."""
        return Path(self.state_dir) / "learned"

    def log_dir(self, job_id: str) -> Path:
        return Path(self.state_dir) / "logs" / job_id

    @property
    def checkpoints(self) -> str:
        """The path or URL below which jobs have their checkpoints."""
        return self.checkpoint_root or str(Path(self.state_dir) / "checkpoints")

    def checkpoint_url(self, job_id: str, url: str | None) -> str:
        """Return the job's own checkpoint URL, else a folder below the cluster's."""
        root = url or self.checkpoints
        return f"{root.rstrip('/')}/{job_id}"

    def outputs_url(self, job_id: str, url: str | None) -> str:
        """Return where a job's outputs are kept: with its checkpoints."""
        return f"{self.checkpoint_url(job_id, url)}/outputs"
