"""What was measured of one job, and the models fitted to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

from ..core.reports import Habits, JobInfo, MeasuredInput, ProfileProgress, Report, StepRow
from ..core.training_config import Adaptivity, TrainingConfig
from .efficiency import noise_scale
from .goodput import BatchLimits, JobModel
from .profile import Profile
from .throughput import ThroughputModel, ThroughputParams, fit, spread_of

EVERY_TYPE = "*"  # in gpus_per_replica: the same count on every GPU type
ON_ALL = ""  # instead of a GPU type: what is so on all of them


@dataclass(frozen=True, eq=False)
class Measurements:
    """Step times per GPU type, what fits its memory, the gradient noise, and the job's own facts.

    Values are never changed, only replaced (`with_…`). Fitted parameters are carried along as warm starts. They
    are fitted again only for a GPU type whose profile is a new one.
    """

    profiles: Mapping[str, Profile] = field(default_factory=dict)  # GPU type -> step times
    largest_local_bsz: Mapping[str, int] = field(default_factory=dict)  # GPU type -> measured to fit
    out_of_memory: Mapping[str, int] = field(default_factory=dict)  # GPU type -> least that did not fit
    grad_sqr: float | None = None
    grad_var: float | None = None
    info: JobInfo | None = None
    input: MeasuredInput | None = None  # one for all GPU types; None: not measured
    # GPU type -> (the profile the fit is of, the fit, its spread if that was asked for). One thread may fit while
    # another writes or sends a value: whoever walks over it takes a copy first.
    _fits: dict[str, tuple[Profile, ThroughputParams, float | None]] = field(default_factory=dict, repr=False)

    def __eq__(self, other: object) -> bool:
        """Return whether both say the same; fits are only a warm start and do not count."""
        if self is other or not isinstance(other, Measurements):
            return self is other
        return self._facts == other._facts and all(
            mine.same_as(other.profiles[gpu_type]) for gpu_type, mine in self.profiles.items()
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def _facts(self) -> tuple[object, ...]:
        sizes = dict(self.largest_local_bsz), dict(self.out_of_memory)
        return self.profiles.keys(), *sizes, self.grad_sqr, self.grad_var, self.info, self.input

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fits": dict(self._fits)}

    @property
    def noise_scale(self) -> float | None:
        """Preconditioned gradient noise scale in samples; None until it is measured."""
        if self.grad_sqr is None or self.grad_var is None:
            return None
        return noise_scale(self.grad_sqr, self.grad_var)

    def with_info(self, said: JobInfo) -> Measurements:
        """Take in what a process says at `prepare`; what training has shown of the same script stays known."""
        known = self.info
        if known is not None and known.fingerprint == said.fingerprint:
            said = replace(
                said,
                per_step=known.per_step,
                whole_batches=known.whole_batches,
                one_pass=known.one_pass,
                undivided=known.undivided,
                least_local_bsz=max(known.least_local_bsz, said.least_local_bsz),
                asked_samples=known.asked_samples,
            )
        return replace(self, info=said)

    def with_habits(self, habits: Habits) -> Measurements:
        if self.info is None:
            return self
        info = replace(
            self.info,
            per_step=habits.per_step,
            whole_batches=habits.whole_batches,
            one_pass=habits.one_pass,
            undivided=habits.undivided,
            least_local_bsz=max(self.info.least_local_bsz, habits.least_local_bsz),
        )
        return self if info == self.info else replace(self, info=info)

    def of_another_run(self, *, same_script: bool = False) -> Measurements:
        """Return what also holds for another script that trains the same model, or for another run of it."""
        info = self.info
        if info is not None:
            info = JobInfo(
                info.fingerprint,
                info.initial_batch_size,
                info.parameters,
                info.dataset_size,
                info.adam_type,
                asked_samples=info.asked_samples if same_script else None,
            )
        return replace(self, grad_sqr=None, grad_var=None, info=info, input=self.input if same_script else None)

    def with_rows(
        self, gpu_type: str, rows: Sequence[StepRow], densest: Mapping[tuple[int, int], int] | None = None
    ) -> Measurements:
        """Add measured steps; rows of the same shape are averaged by their counts.

        `densest` maps (nodes, replicas) to the replicas on the fullest node, where they are not spread evenly.
        Where the job's input was measured by itself, times are those of the GPU's steps alone.
        Raises ValueError for a row that no step can have measured.
        """
        if not rows:
            return self
        if self.input is not None:
            rows = [row.without_wait() for row in rows]
        even = [-(-row.replicas // row.nodes) for row in rows]
        known = densest or {}
        new = Profile.of(
            rows, [known.get((row.nodes, row.replicas), e) for row, e in zip(rows, even, strict=True)]
        )
        old = self.profiles.get(gpu_type)
        largest = max([row.local_bsz for row in rows] + [self.largest_local_bsz.get(gpu_type, 0)])
        return replace(
            self,
            profiles={**self.profiles, gpu_type: new if old is None else old.merge(new)},
            largest_local_bsz={**self.largest_local_bsz, gpu_type: largest},
        )

    def with_profile(self, gpu_type: str, progress: ProfileProgress) -> Measurements:
        """Add what a profile run found out; raises ValueError as `with_rows` does."""
        measured = progress.input is not None and progress.input.rows
        updated = replace(self, input=progress.input) if measured else self
        updated = updated.with_rows(gpu_type, progress.rows)
        if progress.floor > 1 and updated.info is not None:
            least = max(updated.info.least_local_bsz, progress.floor)
            updated = replace(updated, info=replace(updated.info, least_local_bsz=least))
        if progress.asked_samples is not None and updated.info is not None:
            updated = replace(updated, info=replace(updated.info, asked_samples=progress.asked_samples))
        if not progress.failed:
            return updated
        least = min([*progress.failed, *([known] if (known := self.out_of_memory.get(gpu_type)) else [])])
        return replace(updated, out_of_memory={**self.out_of_memory, gpu_type: least})

    def without_room_for(self, gpu_type: str, local_bsz: int) -> Measurements:
        """Note that training ran out of memory at a local batch size: what was measured below it is all that fits.

        Unchanged where nothing was.
        """
        profile = self.profiles.get(gpu_type)
        smaller = [] if profile is None else profile.local_bsz[profile.local_bsz < local_bsz].tolist()
        if not smaller:
            return self
        return replace(
            self,
            largest_local_bsz={**self.largest_local_bsz, gpu_type: max(smaller)},
            out_of_memory={
                **self.out_of_memory,
                gpu_type: min(local_bsz, self.out_of_memory.get(gpu_type, local_bsz)),
            },
        )

    def with_report(
        self, report: Report, densest: Mapping[tuple[int, int], int] | None = None, *, alone: bool = True
    ) -> Measurements:
        """Add what a training report measured; raises ValueError as `with_rows` does.

        Args:
            alone: whether the job had whole GPUs. Steps beside a partner tell of that one, too, and are left out.
        """
        updated = self
        if alone:
            updated = self.with_rows(report.gpu_type, report.rows, densest)
            if self.input is not None and (shown := self.input.with_training(report)) is not self.input:
                updated = replace(updated, input=shown)
        if report.habits is not None:
            updated = updated.with_habits(report.habits)
        if report.grad_var is None or not report.grad_sqr:
            return updated  # no estimate yet, or for the moment nothing but noise
        return replace(updated, grad_sqr=report.grad_sqr, grad_var=report.grad_var)

    def sharing(self, other: Measurements) -> Measurements:
        """Return the same measurements with the profiles of `other` where they are the same.

        Comparing the two costs nothing from then on, and fits of the same profile are kept.
        """
        same = {t for t, mine in self.profiles.items() if t in other.profiles and mine.same_as(other.profiles[t])}
        if not same:
            return self
        profiles = {t: other.profiles[t] if t in same else mine for t, mine in self.profiles.items()}
        fits, theirs = dict(self._fits), dict(other._fits)
        for t in same:
            mine = fits.get(t)
            if mine is not None and mine[0] is self.profiles[t]:
                fits[t] = profiles[t], mine[1], mine[2]
            elif t in theirs:
                fits[t] = theirs[t]
        return replace(self, profiles=profiles, _fits=fits)

    def same_but_noise(self, other: Measurements) -> bool:
        """Return whether both share their profiles and differ in the gradient noise at most."""
        return (
            self.profiles.keys() == other.profiles.keys()
            and all(mine is other.profiles[t] for t, mine in self.profiles.items())
            and self.largest_local_bsz == other.largest_local_bsz
            and self.out_of_memory == other.out_of_memory
            and self.info == other.info
            and self.input == other.input
        )

    def completed_by(self, other: Measurements) -> Measurements:
        """Return these with what only `other` has measured: GPU types, and rows of those that both know."""
        if not self.profiles:
            return other
        both = [t for t in self.profiles if t in other.profiles]  # no sets, whose order differs between processes
        missing = [t for t in other.profiles if t not in self.profiles]
        profiles = {t: self.profiles[t].completed_by(other.profiles[t]) for t in both}
        return replace(
            self,
            profiles={**{t: other.profiles[t] for t in missing}, **self.profiles, **profiles},
            largest_local_bsz={
                **{t: other.largest_local_bsz[t] for t in missing},
                **self.largest_local_bsz,
                **{t: self._largest_with(other, t) for t in both},
            },
            out_of_memory={
                **{t: size for t, size in other.out_of_memory.items() if t in missing},
                **self.out_of_memory,
            },
            info=self._info_with(other),
            input=_wider(self.input, other.input),
            _fits={**{t: fit for t, fit in dict(other._fits).items() if t in missing}, **self._fits},
        )

    def _info_with(self, other: Measurements) -> JobInfo | None:
        """Return what the script says of itself; what it asks for also where only the other run has seen that."""
        if self.info is None or other.info is None or self.info.asked_samples is not None:
            return self.info or other.info
        asked = other.info.asked_samples
        return self.info if asked is None else replace(self.info, asked_samples=asked)

    def _largest_with(self, other: Measurements, gpu_type: str) -> int:
        """Return the largest size that fits: that of the other job too, unless this one knows better."""
        mine, theirs = self.largest_local_bsz[gpu_type], other.largest_local_bsz[gpu_type]
        return max(mine, theirs) if theirs < self.out_of_memory.get(gpu_type, theirs + 1) else mine

    def job_model(
        self, training: TrainingConfig, gpus_per_replica: Mapping[str, int], fewest_replicas: int = 1
    ) -> JobModel | None:
        """Return the goodput model of what is measured so far; None before the batch size of the job is known.

        `gpus_per_replica` maps the GPU types the job may use to the GPUs of one replica there; "*" stands
        for every type that was measured. `fewest_replicas`: that the job asks for.
        """
        limits = self.batch_limits(training, fewest_replicas)
        if limits is None:
            return None
        return JobModel(
            throughput={gpu_type: self._throughput(gpu_type, training) for gpu_type in self.profiles},
            noise_scale=self.noise_scale,
            limits=limits,
            gpus_per_replica=self._per_replica(gpus_per_replica),
        )

    def batch_limits(self, training: TrainingConfig, fewest_replicas: int = 1) -> BatchLimits | None:
        """Return the batch sizes the job may use; None before its initial batch size is known.

        A model or loss with statistics over the batch keeps its local batches large. The fewest replicas and the
        user's own limit bound that.
        """
        batch = self._script_batch(training)
        if batch is None:
            return None
        info = self.info or JobInfo("", batch, 0, None, adam_type=False)
        initial = batch * info.per_step
        fixed = training.adaptivity is not Adaptivity.ADAPTIVE or info.one_pass
        divided = batch if info.whole_batches else initial
        least = min(info.least_local_bsz, max(divided // fewest_replicas, 1))
        if (users := training.max_local_batch_size) is not None and not info.undivided:
            least = min(least, *(users.values() if isinstance(users, dict) else [users]))
        return BatchLimits(
            initial_batch_size=initial,
            max_batch_size=initial if fixed else max(initial, training.max_batch_size or initial),
            min_local_bsz=max(training.min_local_batch_size, least),
            accumulation=training.gradient_accumulation and not info.one_pass,
            fixed=fixed,
            unit=batch if info.whole_batches else None,
            undivided=info.undivided,
        )

    def _script_batch(self, training: TrainingConfig) -> int | None:
        """Return samples of one batch of the script's loop; None: not known yet."""
        return training.initial_batch_size or (self.info.initial_batch_size if self.info else None)

    def _per_replica(self, gpus_per_replica: Mapping[str, int]) -> dict[str, int]:
        everywhere = gpus_per_replica.get(EVERY_TYPE)
        named = {gpu_type: gpus for gpu_type, gpus in gpus_per_replica.items() if gpu_type != EVERY_TYPE}
        return named if everywhere is None else {**dict.fromkeys(self.profiles, everywhere), **named}

    def _throughput(self, gpu_type: str, training: TrainingConfig) -> ThroughputModel:
        profile = self.profiles[gpu_type]
        of, params, spread = self._fits.get(gpu_type, (None, None, None))
        if params is None or of is not profile:
            params = fit(profile, params, parameters=self.info.parameters if self.info else None)
            spread = None
        if spread is None:
            spread = spread_of(params, profile)
            self._fits[gpu_type] = (profile, params, spread)
        return ThroughputModel(
            params=params,
            max_local_bsz=self.max_local_bsz(gpu_type, training),
            max_replicas_measured=int(profile.replicas.max()),
            spread=spread,
        )

    def max_local_bsz(self, gpu_type: str, training: TrainingConfig) -> int:
        """Return the user's limit for this GPU type, else the largest local batch that was seen to fit.

        Where memory ran out within that, only what was seen to fit. A batch that cannot be divided is tried whole,
        unless memory is known not to hold it.
        """
        limit = training.max_local_batch_size
        limit = limit.get(gpu_type) if isinstance(limit, dict) else limit
        fits = self.largest_local_bsz[gpu_type]
        most = fits if limit is None else limit
        if self.info is not None and (self.info.undivided or self.info.one_pass):
            most = max(most, self._script_batch(training) or 1)
        too_many = self.out_of_memory.get(gpu_type)
        return most if too_many is None or most < too_many else fits

    # --- fits by another process ------------------------------------------------------------------------------

    def unfitted(self) -> dict[str, Any]:
        """Return what `fits_of` needs for the models that are not fitted yet, as JSON's own values; {}: none."""
        fits = dict(self._fits)
        asked = {
            gpu_type: [profile.to_json(), None if gpu_type not in fits else fits[gpu_type][1].to_json()]
            for gpu_type, profile in self.profiles.items()
            if gpu_type not in fits or fits[gpu_type][0] is not profile
        }
        return {"profiles": asked, "parameters": self.info.parameters if self.info else None} if asked else {}

    def take_fits(self, fits: Mapping[str, Any]) -> None:
        """Take over what `fits_of` has answered to `unfitted`."""
        for gpu_type, params in fits.items():
            self._fits[gpu_type] = (self.profiles[gpu_type], ThroughputParams.from_json(params), None)

    # --- JSON -----------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return all of it as one text."""
        return json.dumps({gpu_type: json.loads(text) for gpu_type, text in self.to_rows().items()})

    @classmethod
    def from_json(cls, text: str) -> Measurements:
        """Return what `to_json` wrote, in this version or an earlier one. Raises: as `from_rows`."""
        data: dict[str, Any] = json.loads(text)
        if ON_ALL not in data:
            data = _rows_of_earlier(data)
        return cls.from_rows({gpu_type: json.dumps(row) for gpu_type, row in data.items()})

    def to_rows(self) -> dict[str, str]:
        """Return a JSON text per GPU type, and under `ON_ALL` what is so on all of them."""
        return {gpu_type: self.row(gpu_type) for gpu_type in (ON_ALL, *self.gpu_types)}

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """Return the GPU types of which something is known."""
        return tuple(dict.fromkeys((*self.profiles, *self.largest_local_bsz, *self.out_of_memory)))

    def row(self, gpu_type: str) -> str:
        """Return the JSON text of one GPU type, or of `ON_ALL`."""
        if gpu_type == ON_ALL:
            info = None if self.info is None else self.info.__dict__
            row = {"grad_sqr": self.grad_sqr, "grad_var": self.grad_var, "info": info}
            return json.dumps(row if self.input is None else row | {"input": asdict(self.input)})
        profile, fit = self.profiles.get(gpu_type), self.fit_of(gpu_type)
        row = {
            "profile": None if profile is None else profile.to_json(),
            "largest_local_bsz": self.largest_local_bsz.get(gpu_type),
            "out_of_memory": self.out_of_memory.get(gpu_type),
            "fit": None if fit is None else fit.to_json(),
        }
        return json.dumps({name: value for name, value in row.items() if value is not None})

    def fit_of(self, gpu_type: str) -> ThroughputParams | None:
        """Return what was fitted to the profile of a GPU type; None: nothing yet."""
        profile, params, _ = self._fits.get(gpu_type, (None, None, None))
        return params if profile is not None and self.profiles.get(gpu_type) is profile else None

    def same_row(self, other: Measurements, gpu_type: str) -> bool:
        """Return whether both know the same of a GPU type, or of `ON_ALL`, fits aside."""
        if gpu_type == ON_ALL:
            mine, theirs = ((one.grad_sqr, one.grad_var, one.info, one.input) for one in (self, other))
            return mine == theirs
        return (
            self.profiles.get(gpu_type) is other.profiles.get(gpu_type)
            and self.largest_local_bsz.get(gpu_type) == other.largest_local_bsz.get(gpu_type)
            and self.out_of_memory.get(gpu_type) == other.out_of_memory.get(gpu_type)
        )

    @classmethod
    def from_rows(cls, rows: Mapping[str, str]) -> Measurements:
        """Return what `to_rows` wrote. Raises: ValueError, KeyError or TypeError for anything else."""
        on_all = json.loads(rows.get(ON_ALL, "{}"))
        read = {gpu_type: _read(text) for gpu_type, text in rows.items() if gpu_type != ON_ALL}
        of_types = {gpu_type: row for gpu_type, (row, _) in read.items()}
        profiles = {gpu_type: profile for gpu_type, (_, profile) in read.items() if profile is not None}
        info = on_all.get("info")
        return cls(
            profiles=profiles,
            largest_local_bsz=_of_each(of_types, "largest_local_bsz"),
            out_of_memory=_of_each(of_types, "out_of_memory"),
            grad_sqr=on_all.get("grad_sqr"),
            grad_var=on_all.get("grad_var"),
            info=None if info is None else JobInfo(**{name: info[name] for name in _INFO if name in info}),
            input=None if (read_in := on_all.get("input")) is None else MeasuredInput.of_dict(read_in),
            _fits={
                t: (profiles[t], ThroughputParams.from_json(row["fit"]), None)
                for t, row in of_types.items()
                if "fit" in row and t in profiles
            },
        )


_INFO = tuple(one.name for one in fields(JobInfo))


def _wider(own: MeasuredInput | None, other: MeasuredInput | None) -> MeasuredInput | None:
    """Return the input that was measured on more CPUs, which is the own one where both are alike."""
    if own is None or (other is not None and own.rows and other.most > own.most):
        return other
    return own


@lru_cache(maxsize=1024)
def _read(text: str) -> tuple[Mapping[str, Any], Profile | None]:
    """Return the row of a GPU type with its profile. Most reports bring those of the report before."""
    row = json.loads(text)
    return row, Profile.from_json(row["profile"]) if "profile" in row else None


def _of_each(rows: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    return {gpu_type: row[name] for gpu_type, row in rows.items() if name in row}


def _rows_of_earlier(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return measurements of the time when they were one JSON object, by GPU type."""
    parts = {"profile": "profiles", "largest_local_bsz": "largest_local_bsz", "out_of_memory": "out_of_memory"}
    parts["fit"] = "fits"
    known = {part: data.get(name, {}) for part, name in parts.items()}
    gpu_types = dict.fromkeys(gpu_type for of in known.values() for gpu_type in of)
    rows: dict[str, Any] = {
        gpu_type: {part: of[gpu_type] for part, of in known.items() if gpu_type in of} for gpu_type in gpu_types
    }
    return {ON_ALL: {name: data.get(name) for name in ("grad_sqr", "grad_var", "info")}, **rows}


def fits_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Fit the models that `Measurements.unfitted` asks for. Raises: ValueError, KeyError for anything else."""
    found: dict[str, Any] = {}
    for gpu_type, (profile, before) in asked["profiles"].items():
        previous = None if before is None else ThroughputParams.from_json(before)
        fitted = fit(Profile.from_json(profile), previous, parameters=asked["parameters"])
        found[gpu_type] = fitted.to_json()
    return found
