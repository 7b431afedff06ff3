"""`make performance`: run every benchmark and rewrite docs/results/performance.md from their last lines.

    python -m benchmarks.performance                      all of them
    python -m benchmarks.performance --only policy_time   one; the figures of the others stay
    python -m benchmarks.performance --only copter_table --log "--scales 100" FILE
    python -m benchmarks.performance --render             none; write the page from the kept figures

`--log` takes what a run printed from a file: one of hours, or with other arguments than those here, which the page
tells. Given several times, figures of all stand there, and of those of one name the last.

Figures, machine and date of the latest good run of each benchmark are kept in docs/results/performance.json. One
that fails is marked on the page with the reason, beside its last good figures. Output goes to out/performance/.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs" / "results" / "performance.json"
PAGE = ROOT / "docs" / "results" / "performance.md"
PAGE_WIDTH = 106  # characters of a line of text


@dataclass(frozen=True)
class Figure:
    """One measured number: `target` is what was promised of it ("<= 0.03"), or "" for context."""

    name: str
    meaning: str
    target: str = ""

    def met(self, value: Any) -> bool | None:
        """Return whether the target is met; None where nothing was promised or nothing measured."""
        if not self.target or not isinstance(value, int | float):
            return None
        sign, bound = self.target.split()
        return {"<=": value <= float(bound), ">=": value >= float(bound), "=": value == float(bound)}[sign]


@dataclass(frozen=True)
class Benchmark:
    """One command, `python -m benchmarks.<name> <arguments>`, and what its last line holds."""

    name: str
    claim: str
    figures: Sequence[Figure]
    timeout_s: float = 900.0
    arguments: Sequence[str] = ()
    rest: bool = True  # the page has figures that are not named here as well


SHARD_METHODS = tuple(
    part
    for name in ("heuristic", "lp_relaxed", "lp_relaxed_keeping", "ours_removing")
    for part in ("--method", name)
)
FLOW_METHODS = ("--method", "ours_loose", "--method", "lp_top", "--method", "pop128")

BENCHMARKS = (
    Benchmark(
        "demo",
        "Six real jobs on an emulated cluster of three GPU types show six phenomena and reach their targets, "
        "also beside 4 and 8 busy processes.",
        (
            Figure("jobs", "jobs submitted", ">= 6"),
            Figure("jobs_at_target", "jobs that reached their target metric", ">= 6"),
            Figure("promises_kept", "of six phenomena, seen", "= 6"),
            Figure("promises_kept_busy_4", "the same beside 4 busy processes", "= 6"),
            Figure("promises_kept_busy_8", "the same beside 8 busy processes", "= 6"),
            Figure("wall_s", "whole command, s", "<= 240"),
            Figure("wall_s_busy_4", "beside 4 busy processes, s", "<= 900"),
            Figure("wall_s_busy_8", "beside 8 busy processes, s", "<= 900"),
            Figure("cores", "cores' worth of work that the machine carried beside what it did already"),
            Figure("mean_jct_s", "mean job completion time, s"),
            Figure("pauses", "times a job paused and went on"),
        ),
        timeout_s=3600.0,
        arguments=("--busy", "0,4,8"),
    ),
    Benchmark(
        "equivalence",
        "Resized training computes what plain PyTorch computes.",
        (
            Figure(
                "max_abs_param_diff",
                "largest difference of a parameter to plain DDP",
                "<= 1e-5",
            ),
            Figure("samples_repeated", "samples seen more than once in an epoch", "= 0"),
            Figure("samples_skipped", "samples of an epoch not seen", "= 0"),
            Figure("adascale_rel_err", "AdaScale gain against a float64 reference", "<= 0.05"),
            Figure("pgns_rel_err", "gradient noise scale against its closed form", "<= 0.05"),
        ),
    ),
    Benchmark(
        "real_scripts",
        "Scripts as people write them end as they do alone, whatever happens to their job, or are refused.",
        (
            Figure("scripts", "scripts, each in ten scenarios", ">= 60"),
            Figure("right", "scripts that end as alone in all of them", ">= 48"),
            Figure("refused", "scripts that say in one sentence what they cannot do, and are right otherwise"),
            Figure("wrong", "scripts that end otherwise than alone in any", "= 0"),
            Figure("hangs", "scripts that stand still in any", "= 0"),
            Figure("unexpected", "pairs that are not as the script's head says", "= 0"),
            Figure("wall_s", "whole command, s", "<= 1500"),
        ),
        timeout_s=2400.0,
    ),
    Benchmark(
        "end_quality",
        "With batches four times as large the four examples end as well as alone; five seeds each.",
        (
            Figure("worse", "examples that end worse than alone by more than the spread of runs alone", "= 0"),
            *(
                figure
                for name, metric in (
                    ("classifier", "best accuracy"),
                    ("language_model", "loss on held-out words"),
                    ("vae", "loss on held-out pictures"),
                    ("gan", "distance from held-out points"),
                )
                for figure in (
                    Figure(f"{name}_alone", f"{name}: {metric}, alone"),
                    Figure(f"{name}_adapted", "with larger batches"),
                    Figure(f"{name}_spread", "standard deviation of the runs alone"),
                    Figure(f"{name}_worse_by", "difference to the worse side, in these"),
                    Figure(f"{name}_samples", "samples it took, in those of a run alone"),
                )
            ),
            Figure("wall_s", "whole command, s", "<= 300"),
        ),
    ),
    Benchmark(
        "estimator_accuracy",
        "Step times of measured jobs are predicted from part of their measurements.",
        (
            Figure("median_rel_err", "fitted to half the placements, predicting the others: median", "<= 0.05"),
            Figure("p95_rel_err", "the same, 95th percentile", "<= 0.20"),
            Figure("median_rel_err_from_4", "fitted to 4 replicas, predicting up to 16: median", "<= 0.10"),
            Figure("kendall_tau", "rank agreement of predicted and measured goodput", ">= 0.9"),
        ),
    ),
    Benchmark(
        "two_gpu_speed",
        "Step times on 3 to 16 GPUs by what one and two GPUs have shown, beside UniSched's Equation 2.",
        (
            Figure("placements", "measured placements of `sia` and `titan` that are predicted"),
            Figure("median_rel_err", "relative error of the house's model, median", "<= 0.15"),
            Figure("mean_rel_err", "the same, mean"),
            Figure("formula_mean_rel_err", "that of Equation 2, mean"),
            Figure("mean_over_formula", "the house's mean over the formula's", "<= 0.5"),
            Figure("share_underestimated", "steps that took longer than predicted"),
            Figure("share_above_high", "steps that took longer than the upper end of the band of 80 %"),
        ),
    ),
    Benchmark(
        "learning_curves",
        "When a metric reaches 99 % of its best, asked of 34 measured curves after a part of the way there; "
        "[learning curves](learning-curves.md) says more.",
        (
            Figure("median_rel_err_at_20", "with one earlier run of the model, after 20 %: median", "<= 0.15"),
            Figure("median_rel_err_at_40", "after 40 %"),
            Figure("median_rel_err_at_60", "after 60 %", "<= 0.10"),
            Figure("median_rel_err_at_80", "after 80 %", "<= 0.10"),
            Figure("alone_worse_than_maximum", "times that a job's own curve does worse than the maximum", "= 0"),
            Figure("alone_median_rel_err_at_80", "by a job's own curve, after 80 %: median"),
            Figure("maximum_median_rel_err_at_80", "planning with all epochs: median"),
            Figure("alone_answer_ms", "time of an answer by a job's own curve, median, ms"),
            Figure("published_answer_ms", "that of the published families by iterated least squares"),
            Figure("saving_at_best", "epochs saved by ending at the best value (Figure 1: up to 0.22)"),
            Figure("saving_at_99", "epochs saved by ending at 99 % of it (Figure 1: up to 0.31)"),
        ),
    ),
    Benchmark(
        "session_overhead",
        "What a step costs more than with plain DDP.",
        (
            Figure("overhead_1_worker", "1 worker, fraction of the step time", "<= 0.03"),
            Figure("overhead_2_workers", "2 workers (gloo), fraction of the step time", "<= 0.03"),
        ),
    ),
    Benchmark(
        "doors",
        "Public kinds of programs do as jobs what they do by hand, also where they are stopped and killed.",
        (
            Figure("programs", "kinds of programs"),
            Figure("ran", "that ran as by hand: same exit, error and result", ">= 20"),
            Figure("not_as_by_hand", "that did not", "= 0"),
            Figure("not_installed", "of a framework that is not installed here"),
            Figure("changed_lines_max", "changed lines of a program", "<= 4"),
            Figure("unchanged_lines_max", "the same of plain and restarting programs", "= 0"),
            Figure("steps_lost_max", "steps made again, beyond what a program's own checkpoints allow", "= 0"),
        ),
        timeout_s=2400.0,
    ),
    Benchmark(
        "restart_elastic",
        "Commands that restart at other sizes, beside native jobs, end sooner than at fixed sizes.",
        (
            Figure("jobs", "jobs, half of them commands"),
            Figure("mean_jct_s", "commands that restart: mean JCT, s"),
            Figure("fixed_mean_jct_s", "the same commands at fixed sizes: mean JCT, s"),
            Figure("mean_jct_ratio", "the one over the other", "<= 0.8"),
            Figure("all_jct_ratio", "of all jobs, native ones included"),
            Figure("restarts", "starts of commands at another size"),
            Figure("steps_wrong", "steps that a command made twice or not at all", "= 0"),
        ),
    ),
    Benchmark(
        "plain_overhead",
        "A program runs as fast as a plain job as by hand.",
        (
            Figure("plain_overhead", "wall time as a job over that by hand, less one", "<= 0.01"),
            Figure("worker_cpu", "CPU of its worker, in cores"),
        ),
    ),
    Benchmark(
        "usage_overhead",
        "Sampling the use of a node's GPUs once a second takes hardly any CPU.",
        (
            Figure("gpus", "GPUs of the node, each with a worker of its own"),
            Figure("emulated_core", "emulated GPUs: part of a core", "<= 0.005"),
            Figure("code_core", "our code around NVML: part of a core", "<= 0.005"),
            Figure("nvml_core", "NVML included, where the machine has GPUs: part of a core", "<= 0.005"),
        ),
    ),
    Benchmark(
        "sharded",
        "Sharded replicas come and go as if the model were whole; pauses of replicas of two processes, medians.",
        (
            Figure("max_abs_param_diff", "largest difference of a parameter from the plain script", "<= 1e-4"),
            Figure("samples_repeated", "samples repeated by resizes", "= 0"),
            Figure("samples_skipped", "samples skipped", "= 0"),
            Figure("noise_rel_err", "noise scale, relative difference from whole gradients'", "<= 0.02"),
            Figure("warm_s", "warm resize of a whole replica, s"),
            Figure("recovery_s", "a replica that loses a process is left behind, s"),
            Figure("cold_s", "cold restart from a checkpoint, s"),
            Figure("torchrun_s", "peer: torchrun's restart from a distributed checkpoint, s"),
        ),
    ),
    Benchmark(
        "resize_pause",
        "From the last step before a resize to the first step after it, and a process's start; medians.",
        (
            Figure("warm_s", "warm resize, s", "<= 0.3"),
            Figure("recovery_s", "recovery in place from a killed worker, s", "<= 1.0"),
            Figure("cold_s", "cold restart from a checkpoint, s", "<= 1.0"),
            Figure("start_cpu_s", "a process's start up to its script's first line, s of CPU", "<= 0.3"),
            Figure("plain_start_cpu_s", "the same without a template, s of CPU"),
            Figure("torchrun_s", "peer: torchrun's elastic restart, s"),
            Figure("ray_train_s", "peer: Ray Train's failure restart, s"),
        ),
    ),
    Benchmark(
        "sample_cache",
        "Samples that `coadapt.cached` keeps: fixed hits, nothing shared between jobs, the same results.",
        (
            Figure("hits_per_epoch_off", "largest difference from the hits that a budget has room for", "<= 0"),
            Figure("changed_off", "the same after the cache shrank and grew while training", "<= 0"),
            Figure("shared_between_jobs", "samples of another job with the same keys", "<= 0"),
            Figure("loss_diff", "largest difference of a loss with the cache and without", "<= 0"),
            Figure("slowdown_over_memory", "a kept sample over one in a list, both prepared, less one", "<= 0.05"),
            Figure("hit_us", "a hit of 110 kB alone, µs"),
        ),
    ),
    Benchmark(
        "provide_pause",
        "CPUs, loader workers and cache of a job of two replicas changed 100 times while it trains.",
        (
            Figure("restarts", "groups beyond the first", "<= 0"),
            Figure("samples_lost", "samples that were skipped", "<= 0"),
            Figure("samples_twice", "samples that were seen twice in an epoch", "<= 0"),
            Figure("pause_p95_s", "95 % of pauses are shorter, s", "<= 0.2"),
            Figure("pause_longest_s", "longest pause, s"),
            Figure("pause_median_s", "median pause, s"),
        ),
    ),
    Benchmark(
        "synergy_profiler",
        "Speed of a job's input with CPUs and memory that a profile run has not measured.",
        (
            Figure("cpu_points", "numbers of CPUs that were measured, of 24", "<= 8"),
            Figure("median_rel_err", "median error of the estimate", "<= 0.03"),
            Figure("worst_rel_err", "worst error of the estimate", "<= 0.05"),
            Figure("seconds_per_job", "what a profile run spends on it, s"),
        ),
    ),
    Benchmark(
        "slo_live",
        "A dozen strict, soft and best-effort jobs each under `unisched` on two emulated nodes of four GPUs, with "
        "leases of 10 and 20 s. The service and a node are killed; then the recorded trace is replayed.",
        (
            Figure("miss_points_off", "points of worth missed, live less replayed (UniSched: 2.57)", "<= 4.2"),
            Figure("jct_rel_err", "mean JCT replayed against live (UniSched: 0.0538)", "<= 0.10"),
            Figure("answers_right", "first answers on deadlines that came true", ">= 0.9"),
            Figure("answers", "such answers"),
            Figure("answers_at_risk", "of these `at risk`, whose band held the end"),
            Figure("answers_changed_wrongly", "answers changed after a kill that did not come true", "= 0"),
            Figure("jobs_lost", "jobs that did not succeed", "= 0"),
            Figure("samples_lost", "samples not trained exactly once", "= 0"),
            Figure("measured_samples_lost", "of jobs that were measured by training", "= 0"),
            Figure("steps_again_max", "steps that a job did again whose node was not killed"),
            Figure("ended_by_metric", "jobs that a metric has ended, of `with_metric`"),
            Figure("live_miss_rate", "part of all worth that was missed, live"),
        ),
        timeout_s=1800.0,
    ),
    Benchmark(
        "synergy_live",
        "12 jobs of 1 GPU at once, four of which wait for input, on two emulated nodes of 4 GPUs and 12 CPUs "
        "under `fifo`; the recorded submissions are then simulated.",
        (
            Figure("mean_jct_ratio", "mean JCT under `proportional` over that under `tune`", ">= 1.3"),
            Figure("simulated_ratio", "the same, simulated"),
            Figure("live_vs_simulated", "mean JCT simulated against live, the worse of both", "<= 0.10"),
            Figure("jobs_lost", "jobs that did not succeed", "= 0"),
            Figure("restarts", "restarts of all jobs", "= 0"),
        ),
        timeout_s=1800.0,
    ),
    Benchmark(
        "lease_program",
        "Who gets leases, in which cells and when: 120 nodes of 8 GPUs, 600 jobs, 24 slots of time.",
        (
            Figure("p99_s", "99 % of solves, s", "<= 1"),
            Figure("gap", "proven gap, the largest", "<= 0.01"),
            Figure("highs_median_s", "HiGHS on the printed program, repaired, median, s"),
            Figure("short_of_highs", "part by which HiGHS' plan brings more, the largest"),
            Figure("small/gap", "12 nodes, 60 jobs: proven gap, the largest", "= 0"),
            Figure("small/max_s", "12 nodes: longest solve, s"),
        ),
    ),
    Benchmark(
        "slo_evaluation",
        "Jobs with deadlines: what UniSched misses, and how long others take, beside its peers.",
        tuple(
            figure
            for mix, peer, themis, optimus in (
                ("p_slo", "<= 0.855", "", ""),
                ("p_mix1", "<= 1", "<= 0.146", "<= 0.497"),
                ("p_mix2", "<= 1", "<= 0.497", "<= 0.497"),
            )
            for figure in (
                Figure(f"{mix}/load", f"{mix}: GPU-hours asked for, over those there"),
                Figure(f"{mix}/unisched/miss_rate", f"{mix}: the part of all worth that was missed"),
                Figure(f"{mix}/miss_over_laxity", f"{mix}: missed, over `laxity`", "<= 1"),
                Figure(f"{mix}/miss_over_published", f"{mix}: missed, over as published", "<= 1"),
                Figure(f"{mix}/miss_over_themis", f"{mix}: missed, over `themis`", themis),
                Figure(f"{mix}/miss_over_optimus", f"{mix}: missed, over `optimus`", optimus),
                Figure(
                    f"{mix}/miss_over_best_deadline_peer",
                    f"{mix}: missed, over the best peer",
                    peer,
                ),
                *(
                    Figure(f"{mix}/be_jct_over_{other}", f"{mix}: best-effort JCT, over `{other}`", wanted)
                    for other, wanted in (
                        ("laxity", "<= 1.01"),
                        ("published", "<= 0.9"),
                        ("three_sigma", "<= 0.848"),
                        ("hydra", "<= 0.848"),
                        ("genie", "<= 0.848"),
                    )
                    if mix != "p_slo"
                ),
            )
        ),
        timeout_s=14_400.0,
    ),
    Benchmark(
        "anticipatory_helios",
        "15 teams of Venus, September 2020, lend idle GPUs; beside strict order with nothing lent.",
        (
            Figure("anticipatory/perfect/geomean", "speed-up of jobs, perfect forecast", ">= 4"),
            Figure("anticipatory/perfect/slowed_percent", "jobs that end later, perfect forecast", "= 0"),
            Figure("blocking/always/geomean", "speed-up, blocking reservations, as much as of late"),
            Figure("blocking/always/slowed_percent", "jobs that end later there"),
            Figure("stops_borrowers/mean_jct_h", "mean JCT with borrowers that may be stopped, h"),
            Figure("stops_borrowers/slowdown_worst_min", "worst slowdown there, min"),
            Figure("max_min/slowed_percent", "jobs that end later under max-min"),
            Figure("anticipatory/learned_over_perfect", "speed-up after 12 days that are learned from", ">= 0.97"),
            Figure("anticipatory/learned/learned_days/slowdown_total_min", "slowdowns after them, min", "= 0"),
            Figure("anticipatory/perfect/decision_median_ms", "a decision, median, ms", "<= 5"),
        ),
        timeout_s=7200.0,
    ),
    Benchmark(
        "anticipatory_live",
        "Thirty live jobs of three teams, nothing lent or under `anticipatory`; the service is killed twice.",
        (
            Figure("mean_speedup", "JCT with nothing lent over JCT, mean of jobs", ">= 1.3"),
            Figure("ratio_of_means", "mean JCT with nothing lent over mean JCT"),
            Figure("worst_slowdown_over_start", "latest end, over how long GPUs take to be handed over", "<= 2"),
            Figure("borrowers_forgotten", "borrowers that a killed service has forgotten", "= 0"),
            Figure("borrowed", "jobs that borrowed"),
            Figure("reclaimed", "jobs that gave GPUs back"),
            Figure("samples_lost", "samples that were not trained exactly once", "= 0"),
            Figure("jobs_lost", "jobs that did not succeed", "= 0"),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "tuning_simulated",
        "Studies of ResNet-18 in virtual time, from Hydro's measured profile, beside Ray Tune.",
        (
            Figure("resnet18/random_1000/speedup", "1,000 random trials on 8 GPUs, over Ray Tune", ">= 16.0"),
            Figure("resnet18/asha_1000/speedup", "1,000 trials by ASHA on 4 GPUs", ">= 9"),
            Figure("resnet18/asha_1000/merged/speedup", "the same with merging and refilling", ">= 11"),
            Figure("artifact_50/rel_err", "makespans of the authors' 50 trials, the worse error", "<= 0.15"),
            Figure("artifact_50/top1_regret", "the best three promoted, points behind the best", "<= 0.5"),
            Figure("artifact_50/best_alone_regret", "the best narrow model alone, the same"),
        ),
        timeout_s=1800.0,
    ),
    Benchmark(
        "tuning_market",
        "Twenty studies on simulated A100 and V100 nodes: blind to types, by Hydro's rules, beside others' jobs.",
        (
            Figure("hetero/jct_ratio", "mean JCT of studies, blind to GPU types, over ours", ">= 1.3"),
            Figure("hetero/jct_ratio_worst", "the same of the worst seed"),
            Figure("hetero/jct_ratio_thesis", "mean JCT of studies under the thesis' rules, over ours", ">= 1"),
            Figure("others_jct_ratio", "mean JCT of others beside studies, over beside trials apart", "<= 1.0"),
            Figure("ours/jct_s", "mean JCT of studies, s"),
            Figure("ours/makespan_s", "until the last study ends, s"),
            Figure("ours/gpu_h", "GPU-hours of studies"),
            Figure("blind/gpu_h", "blind: the same"),
            Figure("ours/light_on_v100", "share of light groups' GPU-seconds on V100"),
            Figure("blind/light_on_v100", "blind: the same"),
            Figure("apart/gpu_h", "trials apart: GPU-hours until others' jobs have ended"),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "tuning_live",
        "A study of 48 trials on digits, beside Ray Tune with a process for each, on the same two cores.",
        (
            Figure("study_s", "the study: groups at an eighth of the width, the best three promoted, s"),
            Figure("ray_tune_s", "Ray Tune, s"),
            Figure("unfused_s", "a study that neither fuses nor shrinks, s"),
            Figure("makespan_over_ray_tune", "Ray Tune's makespan over the study's", ">= 5"),
            Figure("over_unfused", "that without fusion over the study's", ">= 3"),
            Figure("target_quality_diff", "accuracy of the target less Ray Tune's best", ">= -0.003"),
            Figure("deadline/quality_gain", "accuracy at a deadline less that without fusion", ">= 0"),
            Figure("jobs_lost", "trials lost as actor, scheduler and a worker are killed", "= 0"),
            Figure("same_values", "the same best values after these kills", "= 1"),
            Figure("long_s", "a long study, s", ">= 600"),
            Figure("overhead_profiling", "of its GPU-seconds: measuring", "<= 0.008"),
            Figure("overhead_defusion", "of its GPU-seconds: starts of groups that go on from others", "<= 0.005"),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "bubbles",
        "Trials in the bubbles of a pipeline: simulated studies, and processes that share emulated GPUs.",
        (
            Figure("makespan_ratio", "1,000 random trials, one GPU: without bubbles over with them", ">= 2.7"),
            Figure("asha_1000/makespan_ratio", "1,000 trials by ASHA: the same"),
            Figure("overlap_s", "kernels of pipeline and groups at once, s", "= 0"),
            Figure("owner_slowdown", "iterations of the pipeline over those alone, less one", "<= 0.01"),
            Figure("naive_slowdown", "the same where groups do not wait for bubbles"),
            Figure("guest_part", "steps of groups in bubbles, over those on GPUs of their own"),
            Figure("sizes", "numbers of trials that groups have by stage", ">= 2"),
            Figure("refused", "a trial too large for its stage is refused", "= 1"),
        ),
        timeout_s=1800.0,
    ),
    Benchmark(
        "fusion_equivalence",
        "Four trials that train as one, against the same alone: a CNN, an MLP and a Transformer.",
        (
            Figure("max_param_diff", "parameters in double precision, largest difference", "<= 1e-8"),
            Figure("max_param_diff_after_events", "the same after drop, split, merge and a kill", "<= 1e-8"),
            Figure("max_loss_diff", "losses in single precision, largest difference", "<= 1e-3"),
            Figure("max_param_diff_20", "parameters after 20 steps of SGD in single precision", "<= 1e-5"),
            Figure("nan_reached", "trials that a NaN of another one has reached", "= 0"),
            Figure("mean_loss_fails", "the mean of losses is told apart from their sum", "= 1"),
            Figure("fused_over_alone/8", "8 trials as one: trained in the same time, over one alone"),
            Figure("fused_over_alone/128", "128 trials as one: the same"),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "width_transfer",
        "Settings that are best for a narrow model, on the wide one: an MLP, a Transformer and a CNN of digits.",
        (
            Figure("lr_argmin_shift", "best learning rate at S = 2, 4, 8, steps of 2 from that at S = 1", "<= 1"),
            Figure("standard/lr_argmin_shift", "the same of models narrowed without rules", ">= 2"),
            Figure("activation_diff", "sizes of activations over S, largest relative difference", "<= 0.15"),
            Figure("spearman", "losses of 12 settings at S = 1 and 8, rank correlation", ">= 0.95"),
            Figure("top1_equal", "the best setting is the same one", "= 1"),
            Figure("wider_is_better", "share of settings with which the target is better"),
            Figure("mlp/lr_regret", "MLP: loss of the target with the best rate of S = 8, over its own best"),
            Figure("transformer/lr_regret", "Transformer: the same"),
            Figure("standard/mlp/lr_regret", "MLP: the same, narrowed without rules"),
            Figure("standard/transformer/lr_regret", "Transformer: the same, narrowed without rules"),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "anticipatory_synthetic",
        "Made-up bursts of teams: who is slowed by lending, with perfect and with wrong forecasts.",
        tuple(
            figure
            for variant in ("base", "more_queues", "higher_load")
            for figure in (
                Figure(f"{variant}/anticipatory/slowed_percent", f"{variant}: jobs that end later", "= 0"),
                Figure(f"{variant}/anticipatory/geomean", f"{variant}: speed-up of jobs"),
                Figure(f"{variant}/blocking/geomean", f"{variant}: the same, blocking reservations"),
                Figure(f"{variant}/max_min/geomean", f"{variant}: the same, max-min"),
            )
        ),
        timeout_s=7200.0,
    ),
    Benchmark(
        "anticipatory_predictors",
        "Will jobs of a team of Venus arrive within a window: learned from 12 days, asked of the rest; Table 20.",
        tuple(
            figure
            for minutes, least in ((5, ".49"), (60, ".69"), (720, ".86"))
            for figure in (
                Figure(f"{minutes}/f", f"{minutes} min: F, best features", f">= {least}"),
                Figure(f"{minutes}/precision", f"{minutes} min: precision"),
                Figure(f"{minutes}/recall", f"{minutes} min: recall"),
                Figure(f"{minutes}/by_pool/median_f", f"{minutes} min: F of the median team"),
                Figure(f"{minutes}/by_hour/median_f", f"{minutes} min: F of the median hour of a team"),
            )
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "forecast_service",
        "Arrivals of teams are learned from a store of 26 days while rounds go on; bad files and drift.",
        (
            Figure("train_s", "from the first round to the model in use, s", "<= 60"),
            Figure("begin_s", "first round, told of all jobs of the store, s"),
            Figure("round_median_ms", "a round while it is fitted, median, ms"),
            Figure("round_idle_median_ms", "a round after that, ms"),
            Figure("refused", "bad models of 3 that are refused in one sentence", ">= 3"),
            Figure("drift/off_after_h", "hours from unusual arrivals until the forecast is not heeded", "<= 24"),
            Figure("drift/on_after_h", "hours from usual arrivals until it is heeded again"),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "anticipatory_pools",
        "Teams drawn at random from Venus and Philly lend idle GPUs; beside strict order with nothing lent.",
        (
            Figure("draws", "draws of 4 teams"),
            Figure("perfect/slowed_percent", "jobs that end later, perfect forecast, worst draw", "= 0"),
            Figure("perfect/geomean", "speed-up of jobs, perfect forecast"),
            Figure("always/geomean", "the same, as much as of late"),
            Figure("always/slowdown_over_max_min", "slowdown, as much as of late, over max-min's", "<= 0.01"),
            Figure("learned/slowdown_over_max_min", "slowdown, learned forecast, over max-min's", "<= 0.01"),
            Figure("max_min/geomean", "speed-up of jobs, max-min"),
            Figure("max_min/slowed_percent", "jobs that end later under max-min, worst draw"),
        ),
        timeout_s=14_400.0,
    ),
    Benchmark(
        "anticipatory_oracle",
        "A virtual clock beside the best starts that are possible, on small traces of which all is known.",
        (
            Figure("traces", "traces that were solved to the optimum", ">= 40"),
            Figure("delay_ratio", "waiting under the virtual clock, over the least", "<= 1.2"),
            Figure("oracle_late", "jobs that start later than with nothing lent", "= 0"),
            Figure("virtual_clock_late", "the same under the virtual clock", "= 0"),
            Figure("time_ratio", "time of the program over that of all decisions of the clock"),
            Figure("blocking_delay_ratio", "waiting with blocking reservations, over the least"),
            Figure("anticipatory_delay_ratio", "waiting with bulk reservations, over the least"),
        ),
        timeout_s=7200.0,
    ),
    Benchmark(
        "anticipatory_locality",
        "Teams whose guarantees are whole nodes lend them on Venus; beside HiveD without preemption.",
        (
            Figure("reference/mean_jct_s", "mean JCT with nothing lent, s"),
            Figure("mean_jct_over_reference", "mean JCT, perfect forecast, over that", "<= 0.5"),
            Figure("locality_slowdowns_over_hived", "jobs with quota and no cell, over HiveD's", "<= 0.1"),
            Figure("perfect/slowed_percent", "jobs that end later, perfect forecast"),
            Figure("hived/locality_slowdowns", "jobs with quota and no cell under HiveD"),
        ),
        timeout_s=14_400.0,
    ),
    Benchmark(
        "anticipatory_ablation",
        "What wrong forecasts cost teams that lend idle GPUs: minutes of slowdown, medians over seeds.",
        (
            Figure("exact/slowdown_total_min", "loads and lengths are known", "= 0"),
            Figure("true_arrivals/slowdown_total_min", "whether jobs come is known"),
            Figure("random_arrivals/slowdown_total_min", "whether jobs come is tossed for"),
            Figure("both_random/slowdown_total_min", "lengths are tossed for, too"),
            Figure("max_min/slowdown_total_min", "no forecast: max-min"),
            Figure("steps_in_order", "of three steps, how many cost no less than the one before", "= 3"),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "anticipatory_time",
        "How long policies of teams take: decisions with 600 waiting jobs of 15 teams, and a month of Venus.",
        (
            Figure("blocking/perfect/decision_median_ms", "a decision, blocking reservations, CPU ms", "<= 5"),
            Figure("anticipatory/perfect/decision_median_ms", "the same, bulk reservations", "<= 5"),
            Figure("max_min/decision_median_ms", "the same, max-min", "<= 5"),
            Figure("virtual_clock/decision_median_ms", "the same, virtual clock"),
            Figure("blocking/perfect/september_s", "the trace with blocking reservations, CPU s"),
            Figure("max_min/september_s", "the trace under max-min, CPU s"),
        ),
        timeout_s=14_400.0,
    ),
    Benchmark(
        "better_than_anticipatory",
        "Blocking reservations and borrowers that may be stopped, beside lending as published.",
        (
            Figure("geomean_ratio", "speed-up, blocking over bulk, same forecast, least", ">= 1"),
            Figure("slowdown_ratio", "slowdown, blocking over bulk, same forecast, most", "<= 1"),
            Figure(
                "venus/stops/mean_jct_ratio",
                "stoppable: mean JCT over bulk, perfect",
                "<= 0.9",
            ),
            Figure("venus/stops/slowdown_worst_restarts", "the latest job there, in restarts", "<= 1"),
            Figure("venus/stops/restarts", "restarts of all jobs there"),
        ),
        timeout_s=14_400.0,
    ),
    Benchmark(
        "slo_trends",
        "How UniSched behaves as one thing changes, beside what its paper says of that.",
        (
            Figure("statements", "statements of the paper"),
            Figure("statements_held", "of these, held"),
            Figure("duration_rel_err_mid", "error of lengths told at half of training (7d)", "<= 0.1"),
            Figure("duration_rel_err_mid_metric", "of jobs that a metric ends"),
            Figure("measuring_wait_max_s", "longest wait to be measured, s"),
            Figure("measuring_wait_over_static", "over that with two nodes kept for measuring", "<= 0.4"),
            Figure("suspensions_slo", "stops per job with a deadline"),
            Figure("suspensions_be", "stops per job without one"),
        ),
        timeout_s=14_400.0,
    ),
    Benchmark(
        "shares_exact",
        "Plans with teams keep caps, meet guarantees as the exact program does, and prove their gaps.",
        (
            Figure("instances", "random small rounds of teams, against the exact program by HiGHS", ">= 2000"),
            Figure("caps_exceeded", "plans beyond a cap or a limit", "= 0"),
            Figure("guarantees_missed", "plans in which guarantees lack more than in the exact program", "= 0"),
            Figure("objective_outside_gap", "optima outside what is proven", "= 0"),
            Figure("share_gap_within_1pct", "plans within 1 % of the optimum", ">= 0.99"),
        ),
    ),
    Benchmark(
        "shares_scale",
        "How long a round with teams takes, beside one without. Teams without terms change nothing.",
        (
            Figure("round_p99_s", "25,000 GPUs, 5,000 jobs, 50 teams: p99 of the policy, s", "<= 1.5"),
            Figure("over_without_teams", "median over that without teams", "<= 3"),
            Figure("policy_p99_ms", "64 GPUs, 8 teams: p99 of the policy, ms", "<= 20"),
            Figure("plans_changed_without_teams", "plans that teams without terms change", "= 0"),
        ),
    ),
    Benchmark(
        "fairness",
        "With guarantees a team is about as well off as alone on them, and most are far better off.",
        (
            Figure("sia/worst_team_jct_ratio", "sia: mean JCT of the worst team, shared over alone", "<= 1.05"),
            Figure("sia/median_team_jct_ratio", "sia: of the median team", "<= 0.9"),
            Figure("sia/all_jobs_jct_ratio", "sia: of all jobs", "<= 0.7"),
            Figure("coadapt/worst_team_jct_ratio", "coadapt: mean JCT of the worst team", "<= 1.05"),
            Figure("coadapt/median_team_jct_ratio", "coadapt: of the median team", "<= 0.9"),
            Figure("coadapt/all_jobs_jct_ratio", "coadapt: of all jobs", "<= 0.7"),
            Figure("sia/lent_rounds", "sia: rounds until an idle guarantee is lent", "<= 2"),
            Figure("sia/back_rounds", "sia: rounds until it is back, beyond the lease of a job", "<= 2"),
            Figure("sia/flood_ratio", "sia: others' JCT in a flood of 100 times, over 10 times", "<= 1.05"),
            Figure("sia/flood_worst_over_alone", "sia: the worst of them then, over what it has alone", "<= 1"),
            Figure("coadapt/lent_rounds", "coadapt: rounds until an idle guarantee is lent", "<= 2"),
            Figure("coadapt/back_rounds", "coadapt: rounds until it is back", "<= 2"),
            Figure("coadapt/flood_ratio", "coadapt: others' mean JCT in a flood", "<= 1.05"),
            Figure("coadapt/flood_worst_over_alone", "coadapt: the worst of these teams over alone", "<= 1"),
            Figure("venus_worst_jct_ratio", "Venus under qssf: mean JCT of the worst team", "<= 1.05"),
            Figure("venus_median_wait_ratio", "Venus under qssf: wait of the median team", "<= 0.5"),
        ),
    ),
    Benchmark(
        "fairness_live",
        "Three teams on an emulated cluster of three GPU types, as its store tells afterwards.",
        (
            Figure("lent_rounds", "most rounds that an idle guarantee was free while others waited", "<= 2"),
            Figure("back_rounds", "most rounds that one that was asked for lacked, beyond leases", "<= 2"),
            Figure("caps_exceeded", "events after which a team held more than its cap", "= 0"),
            Figure("steps_lost_max", "most steps that a reclaimed job did again", "<= 1"),
            Figure("jobs_lost", "jobs that did not end as they should", "= 0"),
            Figure("reclaimed", "jobs that gave way", ">= 1"),
            Figure("lent", "GPUs of idle guarantees that were lent"),
            Figure("guarantees_asked", "times that a guarantee was asked for and lacked GPUs"),
            Figure("back_s_max", "longest that one lacked GPUs, leases included, s"),
        ),
    ),
    Benchmark(
        "exactness",
        "Plans of the structured solver are feasible, their proven gaps hold; the engine's LPs are exact.",
        (
            Figure("instances", "random small instances, against the exact program by HiGHS", ">= 10000"),
            Figure("gap_violations", "optima outside the proven bounds", "= 0"),
            Figure("infeasible_plans", "plans beyond a capacity or of what is not allowed", "= 0"),
            Figure(
                "lp_max_rel_err",
                "LPs by the continual engine: largest relative error",
                "<= 1e-4",
            ),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "small_scale",
        "On a 64-GPU cluster sia with the structured solver schedules as well as with the exact program.",
        (
            Figure("mean_jct_ratio", "mean JCT, structured over exact", "<= 1.01"),
            Figure("policy_time_ratio", "policy time, structured over exact", "<= 0.2"),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "allocation_scaling",
        "Rounds of 10,000 GPUs and 2,000 jobs by every solver; those of the structured one are promised.",
        (
            Figure("structured_p50_s", "structured: median, s"),
            Figure("structured_p99_s", "structured: 99th percentile, s", "<= 0.25"),
            Figure("structured_gap", "structured: largest proven gap", "<= 1e-3"),
            Figure("continual_p50_s", "continual engine: median, s"),
            Figure("highs_hot_p50_s", "HiGHS simplex, hot: median, s"),
            Figure("highs_ipm_p50_s", "HiGHS interior point, from scratch: median, s"),
            Figure("pop_ray_p50_s", "POP-16, by Ray: median, s"),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "copter_table",
        "COpter's table 4.1: the PAI trace's day on 2,560 to 25,600 GPUs; [scaling](scaling.md) says more. "
        "Figures of 2,560, 10,240 and 25,600 GPUs begin with 10, 40 and 100, COpter's scales.",
        (
            *(
                figure
                for scale, size, most_s in (
                    (40, "10,240 GPUs, 40,000 jobs", "0.25"),
                    (100, "25,600 GPUs, 100,000 jobs", "1"),
                )
                for figure in (
                    Figure(f"{scale}_structured_mean_jct_h", f"{size}: mean JCT, structured, h"),
                    Figure(f"{scale}_structured_mean_jct_over_lp", "over that of LP*", "<= 1.02"),
                    Figure(f"{scale}_structured_makespan_over_lp", "makespan over that of LP*", "<= 1.02"),
                    Figure(f"{scale}_structured_solver_p50_s", "solving, structured: median, s"),
                    Figure(f"{scale}_structured_solver_p99_s", "99th percentile, s", f"<= {most_s}"),
                    Figure(f"{scale}_structured_decided_p99_s", "with changes of the program, s", f"<= {most_s}"),
                    Figure(f"{scale}_structured_worst_gap", "largest proven gap", "<= 1e-3"),
                    Figure(f"{scale}_next_over_structured_solver_p50", "the next, times as long, p50", ">= 10"),
                    Figure(f"{scale}_next_over_structured_solver_p99", "99th percentile", ">= 10"),
                    Figure(f"{scale}_next_over_structured_decided_p50", "with changes and shims, p50", ">= 10"),
                    Figure(f"{scale}_next_over_structured_decided_p99", "99th percentile", ">= 10"),
                    Figure(f"{scale}_peer_over_structured_solver_p50", "the next not ours, p50", ">= 10"),
                    Figure(f"{scale}_peer_over_structured_solver_p99", "99th percentile", ">= 10"),
                    Figure(f"{scale}_scratch_over_continual_solver_p50", "HiGHS over engine, p50", ">= 10"),
                    Figure(f"{scale}_scratch_over_continual_solver_p99", "99th percentile", ">= 10"),
                    Figure(f"{scale}_scratch_over_continual_decided_p50", "with changes and shims, p50", ">= 10"),
                    Figure(f"{scale}_scratch_over_continual_decided_p99", "99th percentile", ">= 10"),
                    Figure(f"{scale}_highs-hot_solver_p99_s", "HiGHS simplex, hot, 99th percentile, s"),
                    Figure(f"{scale}_highs-ipm_solver_p99_s", "LP*, s"),
                )
            ),
            Figure("10_structured_worst_gap", "2,560 GPUs, 10,000 jobs: largest proven gap", "<= 1e-3"),
            Figure("10_next_over_structured_solver_p50", "the next, times as long, p50", ">= 10"),
            Figure("10_next_over_structured_solver_p99", "99th percentile", ">= 10"),
            Figure("10_peer_over_structured_solver_p50", "the next not ours, p50", ">= 10"),
            Figure("10_peer_over_structured_solver_p99", "99th percentile", ">= 10"),
            Figure("10_scratch_over_continual_solver_p50", "HiGHS over engine, p50", ">= 10"),
            Figure("10_scratch_over_continual_solver_p99", "99th percentile", ">= 10"),
        ),
        arguments=("--scales", "10,40,100", "--methods", "structured,highs-hot,highs-ipm,continual"),
        timeout_s=7200.0,
    ),
    Benchmark(
        "whole_round",
        "A whole round at 25,000 GPUs and 5,000 jobs: incremental goodput, program and placing.",
        (
            Figure("p50_s", "median, s"),
            Figure("p99_s", "99th percentile, s", "<= 2"),
            Figure("first_s", "the first round, from nothing, s"),
            Figure("solver_p50_s", "of it the solver: median, s"),
            Figure("worst_gap", "largest proven gap", "<= 1e-3"),
            Figure("peak_gib", "peak memory, GiB"),
        ),
    ),
    Benchmark(
        "service_round",
        "A whole round of the service: the real cycle, store and policy, 10,000 GPUs on 1,750 nodes and 2,000 "
        "jobs that train and report.",
        (
            Figure("round_p50_ms", "round: median, ms"),
            Figure("round_p99_ms", "99th percentile, ms", "<= 250"),
            Figure("tick_p99_ms", "tick with nothing new: 99th percentile, ms", "<= 20"),
            Figure("report_cpu_ms", "one report: mean, ms of CPU", "<= 2"),
            Figure("snapshot_p99_ms", "of the round, what wants GPUs as one value: 99th percentile, ms"),
            Figure("plan_p99_ms", "the policy, ms"),
            Figure("place_p99_ms", "devices and slots, ms"),
            Figure("diff_p99_ms", "which commands may be sent, ms"),
            Figure("apply_p99_ms", "records written and commands sent, ms"),
            Figure("round_p99_ms_sia", "the same under `sia`: round, 99th percentile, ms"),
            Figure("round_p99_ms_25000_gpus", "25,000 GPUs, 5,000 jobs: 99th percentile, ms", "<= 800"),
            Figure("round_p50_ms_25000_gpus", "their median, ms"),
        ),
        timeout_s=1800.0,
    ),
    Benchmark(
        "house",
        "Counts from the code and its pages.",
        (
            Figure("allocation_lines", "lines of `optimizer/allocation`", "<= 3000"),
            Figure("kernels", "compiled kernels of it", "<= 90"),
            Figure("compile_cpu_s", "CPU to compile those of `coadapt` from an empty cache, s", "<= 20"),
            Figure("circles", "circles of imports between rooms", "= 0"),
            Figure("upward_imports", "imports from a room above", "= 0"),
            Figure("longest_class_lines", "lines of the longest class", "<= 350"),
            Figure("docs_mean_sentence_words", "words of a sentence of the pages, mean", "<= 20"),
            Figure("docs_longest_line", "characters of their longest line", "<= 110"),
            Figure("modules_without_a_test", "modules without a test of their name"),
        ),
    ),
    Benchmark(
        "placer_speed",
        "Placing on 64 to 250,000 GPUs.",
        (
            Figure("5pc_change_s_64_gpus", "one job in 20 to be placed: 64 GPUs, s"),
            Figure("5pc_change_s_2000_gpus", "2,000 GPUs, s"),
            Figure("5pc_change_s_25000_gpus", "25,000 GPUs, s"),
            Figure("5pc_change_s_250000_gpus", "250,000 GPUs, s"),
            Figure("scattered_s_250000_gpus", "the same, free GPUs scattered over nodes, s"),
        ),
        timeout_s=1800.0,
    ),
    Benchmark(
        "shard_balancing",
        "2,048 shards over 256 servers, COpter's figure 5.3; others: [shards and flows](shards-and-flows.md).",
        (
            Figure("shards_2048_stateless_ours_all_movements", "replicas started, ours, stateless loads"),
            Figure("shards_2048_stateless_lp_relaxed_keeping_all_movements", "LP-Relaxed under the same rule"),
            Figure("shards_2048_stateless_ours_imbalance", "imbalance, ours", "<= 0.1001"),
            Figure("shards_2048_stateless_ours_s", "a round, ours, CPU s"),
            Figure("shards_2048_stateless_lp_relaxed_keeping_s", "a round, LP-Relaxed, CPU s"),
        ),
        arguments=("--size", "2048", "--rounds", "6", "--skip", "1", *SHARD_METHODS),
        timeout_s=3600.0,
    ),
    Benchmark(
        "traffic_engineering",
        "3 million flows on 8,558 links, COpter's figures 5.5, 5.6; [shards and flows](shards-and-flows.md).",
        (
            Figure("te_asn_poisson_ours_flow", "total flow, ours, Poisson demands"),
            Figure("te_asn_poisson_pop128_flow", "POP-128"),
            Figure("te_asn_poisson_ours_s", "a round, ours, one core, CPU s"),
            Figure("te_asn_poisson_pop128_s", "POP-128 on 64 cores, s"),
            Figure("te_asn_poisson_pop128_two_cores_s", "POP-128 on two cores, s"),
            Figure("te_asn_bimodal_ours_flow", "total flow, ours, Bimodal demands"),
            Figure("te_asn_bimodal_pop128_flow", "POP-128"),
            Figure("te_kdl_poisson_ours_loose_flow", "Kdl, Poisson, 570,000 flows: total, ours to 1 %"),
            Figure("te_kdl_poisson_pop64_flow", "POP-64"),
            Figure("te_kdl_poisson_ours_loose_s", "a round, ours to 1 %, one core, CPU s"),
            Figure("te_kdl_poisson_pop64_s", "POP-64 on 64 cores, s"),
            Figure("te_kdl_poisson_pop64_two_cores_s", "POP-64 on two cores, s"),
            Figure("te_kdl_bimodal_ours_flow", "total flow, ours, Bimodal demands"),
            Figure("te_kdl_bimodal_pop64_flow", "POP-64"),
        ),
        arguments=("--full", "--topology", "asn", "--rounds", "2", "--skip", "1", "--threads", "1", *FLOW_METHODS),
        timeout_s=3600.0,
    ),
    Benchmark(
        "policy_time",
        "One scheduling decision: goodput matrix, program, placement.",
        (
            Figure("p50_ms_64_gpus", "64 GPUs, 47 jobs: median, ms", "<= 15"),
            Figure("p95_ms_64_gpus", "64 GPUs, 47 jobs: 95th percentile, ms"),
            Figure("p50_ms_2048_gpus", "2,048 GPUs, 1,500 jobs, 3 types: median, ms", "<= 1000"),
            Figure("solver_share_64_gpus", "share of the solver in it, 64 GPUs"),
            Figure("solver_share_2048_gpus", "share of the solver in it, 2,048 GPUs"),
            Figure("lucid/fit_s", "lengths and arrivals fitted to 100,000 jobs, s", "<= 60"),
            Figure("lucid/fit_additive_s", "the same, lengths by an additive model, s"),
        ),
    ),
    Benchmark(
        "allocation_growth",
        "How the structured solver's time grows; [scaling](scaling.md) has the plots that this draws.",
        (
            Figure("gpus_exponent", "GPUs, five a job, from 1,000 on: exponent of the warm time"),
            Figure("gpus_lp_exponent", "the same without searches"),
            Figure("warm_s_at_most_gpus", "250,000 GPUs, 50,000 jobs: changes and solution, warm, s"),
            Figure("jobs_exponent", "jobs on 25,000 GPUs, 500 to 20,000"),
            Figure("types_exponent", "GPU types, 1 to 20, 10,000 GPUs, 2,000 jobs"),
            Figure("change_exponent", "part of the rows that changed, from 1 % on, 10,000 GPUs, 2,000 jobs"),
            Figure("warm_s_at_0.1_percent", "0.1 % changed, s"),
            Figure("warm_s_at_100_percent", "all changed, s"),
        ),
        arguments=("--pictures", "docs/results/scaling"),
    ),
    Benchmark(
        "attribution",
        "LP relaxations of rounds on 10,000 GPUs: what the solver, changes alone and a warm start bring, over "
        "HiGHS from scratch (COpter, figure 4.6); [scaling](scaling.md) says what each method is.",
        (
            Figure("highs_from_scratch_p50_s", "HiGHS from scratch: median, s"),
            Figure("structured_solver_alone_speedup_mean", "structured, solver alone: mean speedup (COpter: 5)"),
            Figure("structured_with_differential_speedup_mean", "and told what changed alone (COpter: 17.5)"),
            Figure("structured_with_warm_start_speedup_mean", "and from the last prices (COpter: 24)"),
            Figure("continual_with_warm_start_speedup_mean", "continual engine, all three"),
            Figure("highs_differential_and_warm_speedup_mean", "HiGHS, kept model and basis"),
        ),
        rest=False,
    ),
    Benchmark(
        "goodput_matrix",
        "Goodput of every job on every configuration at its best batch size, one core.",
        (Figure("pairs_per_s", "(job, configuration) pairs per second", ">= 5e6"),),
    ),
    Benchmark(
        "kill_tests",
        "SIGKILL of workers, executors, the scheduler, emulated nodes and checkpoint writers under running jobs.",
        (
            Figure("kills", "processes killed", ">= 30"),
            Figure("jobs_lost", "jobs that did not finish", "= 0"),
            Figure("samples_wrong", "samples skipped, or repeated beyond the replayed tail", "= 0"),
            Figure("steps_left_out", "steps of commands that were never made", "= 0"),
            Figure("run_twice", "copies of a command that ran beside it", "= 0"),
            Figure("gpus_used_twice", "GPUs that too many processes were on at one moment", "= 0"),
            Figure("shares_exceeded", "moments at which jobs held more of a GPU than there is", "= 0"),
        ),
    ),
    Benchmark(
        "shared_gpu",
        "Pairs of two example jobs and a plain script on one emulated GPU, live under `lucid`.",
        (
            Figure("pair_speed_rel_err", "speeds of pairs against the table that paces them", "<= 0.05"),
            Figure("survivor_steps", "steps begun after a partner's SIGKILL before one at full speed", "<= 1"),
            Figure("memory_refused", "a job without room got an out-of-memory error", "= 1"),
        ),
    ),
    Benchmark(
        "lucid_live",
        "40 jobs under `lucid`, a third of them plain programs, on emulated nodes of 8 GPUs in two pools; the "
        "service is killed twice. The recorded trace is then replayed.",
        (
            Figure("mean_jct_rel_err", "mean JCT of replays against the live one", "<= 0.10"),
            Figure("jobs_lost", "jobs that did not succeed", "= 0"),
            Figure("shares_exceeded", "moments with more of a GPU held than there is", "= 0"),
            Figure("pairs", "pairs of jobs that shared GPUs"),
            Figure("measured", "jobs that were measured first"),
            Figure("borrowed", "nodes that were borrowed for measuring"),
            Figure("modes", "modes of packing that the log shows"),
        ),
        timeout_s=2400.0,
    ),
    Benchmark(
        "head",
        "Memory that a job costs the head and all nodes together, on a small cluster of emulated nodes.",
        (
            Figure("mib_per_running_job", "executor and its share of the machine's helper, MiB", "<= 90"),
            Figure(
                "head_mib_per_running_job", "what of that is on the head, and its writer's share, MiB", "<= 20"
            ),
            Figure("mib_per_other_job", "executors of jobs that wait or are paused, MiB", "= 0"),
        ),
    ),
    Benchmark(
        "scaling_up",
        "Nodes that are bought of Ray's autoscaler with its fake provider (real raylets) as jobs come, and given "
        "up; simulated, load that doubles and comes back beside a fixed cluster of the dearest moment.",
        (
            Figure("cheapest_chosen", "requests for the cheapest node that was to be had", "= 1"),
            Figure("budget_exceeded", "times that nodes cost more than the budget", "= 0"),
            Figure("request_late_rounds", "most rounds that a request came late", "<= 1"),
            Figure("release_late_rounds", "most rounds that a node was given up late", "<= 1"),
            Figure("cost_ratio", "cost of progress, relative to the fixed cluster, worst policy", "<= 0.8"),
            Figure("jct_ratio", "mean job completion time, relative to the fixed cluster"),
        ),
        timeout_s=5400.0,
    ),
    Benchmark(
        "faults",
        "A store whose disk is full, locked, read-only or slow; a clock that is set; Ray's control plane that "
        "stands still; garbled pages.",
        (
            Figure("lines_mended", "faults of an earlier version whose tests hold now, of 11", "= 11"),
            Figure("full/degraded_told_s", "a full disk is told, s", "<= 5"),
            Figure("locked/degraded_told_s", "a lock that is held, s", "<= 5"),
            Figure("slow/healed_s", "a slow disk: from its end to the next change, s", "<= 5"),
            Figure("control_plane/healed_s", "Ray's control plane: until a new job trains, s", "<= 20"),
            Figure("garbled/named", "garbled pages that doctor names, of 20", "= 20"),
            Figure("garbled/restored", "times that the last backup came back, of 20", "= 20"),
            Figure("jobs_lost", "jobs that were confirmed and are not there", "= 0"),
            Figure("jobs_run_twice", "jobs that are there twice", "= 0"),
        ),
        timeout_s=1800.0,
    ),
    Benchmark(
        "load",
        "100,000 ended, 10,000 queued and 500 running jobs of four teams (stub executors); 10 submits and "
        "20 pages of the list a second, 100 event streams, 20 log followers, 20 browsers. Clients share the "
        "two cores.",
        (
            Figure("submit_p99_ms", "a submit, p99, ms", "<= 50"),
            Figure("list_page_p99_ms", "a page of the list, p99, ms", "<= 50"),
            Figure("event_p99_ms", "an event reaches its stream, p99, ms", "<= 500"),
            Figure("page_anew_p99_ms", "an open page comes anew, p99, ms"),
            Figure("tick_p99_ms", "a tick without a round, p99, ms", "<= 50"),
            Figure("report_ms", "an executor's event, CPU, ms", "<= 5"),
            Figure("tick_growth", "a tick with 100,000 ended jobs over one without", "<= 1.2"),
            Figure("service_core_share", "of a core that the scheduler takes", "<= 0.25"),
            Figure("api_core_share", "of a core that the API takes"),
            Figure("service_mib", "memory of the scheduler, MiB", "<= 600"),
            Figure("api_mib", "memory of the API, MiB"),
            Figure("service_start_s", "until the scheduler answers after it was killed, s", "<= 5"),
            Figure("list_cpu_s", "`coadapt list`, CPU, s", "<= 0.3"),
        ),
        timeout_s=1200.0,
    ),
    Benchmark(
        "delivery",
        "10,000 events to a webhook whose receiver fails 30 % of calls and is away for ten minutes, while the "
        "scheduler is killed three times (stub executors).",
        (
            Figure("ids_missing", "events that never arrived", "= 0"),
            Figure("ids_accepted_twice", "events that were accepted twice", "= 0"),
            Figure("out_of_order", "events accepted after a later one of their job", "= 0"),
            Figure("tick_p99_ratio", "a tick, p99, over one without webhooks", "<= 1.2"),
            Figure("tick_p99_ms", "a tick, p99, ms"),
            Figure("tick_p99_without_ms", "without webhooks, ms"),
            Figure("requests", "tries"),
            Figure("after_return_s", "until all had arrived after the receiver was back, s"),
            Figure("sender_mib", "memory of the sender, MiB"),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "soak",
        "An hour of jobs that come and go under retention: memory of scheduler and API, and the state folder.",
        (
            Figure("memory_slope", "growth of memory an hour, relative", "<= 0.02"),
            Figure("disk_slope", "growth of the state folder an hour, relative", "<= 0.02"),
            Figure("submitted", "jobs"),
        ),
        timeout_s=4500.0,
    ),
    Benchmark(
        "chaos",
        "Seeded faults under ten jobs that train and under jobs of stub executors: SIGKILL of anything, also of "
        "the head, dropped connections, storage errors.",
        tuple(
            Figure(f"{name}_{world}", f"{meaning} ({world})", promise)
            for world in ("real", "stub")
            for name, meaning, promise in (
                ("faults", "faults", ""),
                ("jobs_lost", "jobs that did not finish", "= 0"),
                ("jobs_duplicated", "jobs that are there twice", "= 0"),
                ("samples_wrong", "samples skipped or repeated", "= 0"),
                ("doctor_findings", "what doctor found", "= 0"),
                ("absence_p99_s", "scheduler away where the head lived, p99, s", "<= 10"),
                ("head_back_p95_s", "from the head's death to an answer, p95, s", "<= 60"),
            )
        ),
        timeout_s=9000.0,
    ),
    Benchmark(
        "dashboard",
        "The page in headless Chromium: 1,000 jobs, a timeline of 2,000, all pages in three looks and states.",
        (
            Figure("first_paint_s", "first paint with 1,000 jobs, median of 20, s", "<= 0.5"),
            Figure("first_load_kib", "first load, KiB", "<= 200"),
            Figure("event_on_page_s", "from a change until an open page shows it, median, s", "<= 1"),
            Figure("frames_per_s", "frames of the timeline a second", ">= 30"),
            Figure("other_hosts", "other hosts that were asked", "= 0"),
            Figure("axe_serious", "serious findings of axe-core", "= 0"),
            Figure("wide_pages", "pages wider than 360 px", "= 0"),
            Figure("heap_growth_mib", "growth of a page's heap by 50,000 events, MiB", "<= 10"),
            Figure("flows", "things that people did"),
            Figure("flows_failed", "of these, those that did not work", "= 0"),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "laptop",
        "What somebody on a laptop notices of all that, against the version before it.",
        (
            Figure("demo_time_ratio", "`make demo`, time over that before", "<= 1.1"),
            Figure("up_extra_s", "`up`, more than before, s", "<= 3"),
            Figure("memory_extra_mib", "all processes with two jobs, more than before, MiB", "<= 150"),
            Figure("list_time_ratio", "`list`, time over that before", "<= 1"),
            Figure("submit_time_ratio", "`submit`, time over that before", "<= 1"),
            Figure("questions_asked", "questions", "= 0"),
        ),
        timeout_s=2400.0,
    ),
    Benchmark(
        "upgrade",
        "Stores of released versions that go up, down and up, and a service exchanged under five training jobs.",
        (
            Figure("stores_unchanged", "stores that held all they had held, one of each released version", "= 3"),
            Figure("steps_lost", "steps done twice or left out", "= 0"),
            Figure("processes_restarted", "training processes that began anew", "= 0"),
            Figure("longest_step_s", "from one step to the next while the service was exchanged, s"),
            Figure("usual_step_s", "the same before, median, s"),
            Figure("away_s", "from the end of the old service until the new one answered, s"),
        ),
    ),
    Benchmark(
        "deploy",
        "What Prometheus, systemd, KubeRay's definitions and Slurm say of deploy/, and clusters that it starts.",
        (
            Figure("failed", "checks that did not hold", "= 0"),
            Figure("held", "checks that held", ">= 12"),
            Figure("not_run", "checks that this machine cannot make"),
            Figure("kuberay_up_s", "from the commands of KubeRay's containers until the scheduler answered, s"),
            Figure("kuberay_back_s", "from another head on the same volume until it knew the jobs, s"),
            Figure("boot_up_s", "from the first process of systemd until the scheduler answered, s"),
            Figure("ray_back_s", "from the end of Ray's control plane until the job ran again, s"),
            Figure("slurm_up_s", "from sbatch until the scheduler answered, s"),
        ),
    ),
    Benchmark(
        "drain",
        "Spot notices to nodes of a training job, by a metadata server on loopback, 20 of 30 s and 20 of 120 s.",
        (
            Figure("steps_lost_max", "steps done again after a notice that a checkpoint fits", "<= 1"),
            Figure("left_30_max_s", "from a notice of 30 s until the job has left, at most, s"),
            Figure("left_120_max_s", "the same of 120 s"),
            Figure("pause_median_s", "without a step, median, s"),
            Figure("unfit_told", "a checkpoint that does not fit its notice is told", "= 1"),
            Figure("unfit_steps_lost", "steps done again after that"),
        ),
        timeout_s=1500.0,
    ),
    Benchmark(
        "bad_input",
        "Malformed job files, scripts and clusters, each answered with its one line.",
        (
            Figure("cases", "cases in the table", ">= 40"),
            Figure("wrong", "cases answered otherwise", "= 0"),
        ),
    ),
    Benchmark(
        "replay_fidelity",
        "Traces replayed under published simulators' semantics; relative differences to their figures.",
        (
            Figure("A/saturn-1/sia/rel_err_mean_jct_h", "Sia's artifact, saturn-1, sia: mean JCT"),
            Figure("A/saturn-1/sia/rel_err_makespan_h", "the same: makespan"),
            Figure("A/saturn-1/sia/rel_err_gpu_hours_per_job", "the same: GPU-hours per job"),
            Figure("A/philly-1/sia/rel_err_mean_jct_h", "Sia's artifact, philly-1, sia: mean JCT"),
            Figure("A/philly-1/sia/rel_err_makespan_h", "the same: makespan"),
            Figure("A/philly-1/sia/rel_err_gpu_hours_per_job", "the same: GPU-hours per job"),
            Figure("A/saturn-1/gavel/rel_err_mean_jct_h", "Sia's artifact, saturn-1, gavel: mean JCT"),
            Figure("B/venus/fifo/rel_err_mean_jct_h", "Lucid's simulator, Helios Venus, fifo: mean JCT"),
            Figure("B/venus/las/rel_err_mean_jct_h", "the same, las: mean JCT"),
            Figure(
                "C/physical/max_min_fairness_perf/rel_err_mean_jct_h",
                "max-min in Gavel's: mean JCT",
            ),
        ),
    ),
    Benchmark(
        "simulator_speed",
        "Sia's artifact trace under sia, and 40,000 jobs on 10,240 GPUs of 7 types over 24 hours under las.",
        (
            Figure("saturn1_sia_s", "saturn-1 under sia, CPU s", "<= 8"),
            Figure("pai40k_las_s", "40,000 jobs under las, s", "<= 300"),
            Figure("pai40k_peak_gib", "the same, peak memory, GiB", "<= 4"),
        ),
    ),
    Benchmark(
        "sia_evaluation",
        "Table 3.3 of Sia's paper, from the runs `python -m benchmarks.sia_evaluation` has kept; first traces "
        "are run if missing. [evaluation](evaluation.md) has more, and the paper's figures.",
        (
            Figure("table_3_3/orderings_that_hold", "orderings of the paper that hold", ">= 12"),
            Figure("table_3_3/orderings", "orderings looked at"),
            *(
                Figure(f"table_3_3/{key}/{policy}/{figure}", f"{name}, {policy}: {meaning}")
                for key, name in (("philly", "Philly"), ("helios", "Helios"), ("newtrace", "newTrace"))
                for policy in ("sia", "pollux", "gavel")
                for figure, meaning in (
                    ("mean_jct_h", "mean JCT, h"),
                    ("p99_jct_h", "p99 JCT, h"),
                    ("makespan_h", "makespan, h"),
                    ("gpu_hours_per_job", "GPU-hours per job"),
                    ("traces", "traces"),
                )
            ),
        ),
        timeout_s=3600.0,
        arguments=("--run", "1", "--only", "table_3_3"),
        rest=False,
    ),
    Benchmark(
        "better_than_sia",
        "Policy coadapt over policy sia, means over 14 traces of Sia's evaluation.",
        (
            Figure("mean_jct_ratio", "mean JCT", "<= 0.85"),
            Figure("p99_jct_ratio", "p99 JCT", "<= 1"),
            Figure("makespan_ratio", "makespan", "<= 1"),
            Figure("worst_rho_ratio", "worst FTF ratio", "<= 1"),
            Figure("as_live/mean_jct_ratio", "mean JCT, where sia too has early rounds and the profile cache"),
        ),
        timeout_s=1800.0,
    ),
    Benchmark(
        "whatif",
        "Short jobs under real Ray: predicted ends, and foreseen effects of changes, beside what came.",
        (
            Figure("end_error_median", "error of a predicted end, over the time then left", "<= 0.15"),
            Figure("band_holds", "ends within their band of 80 %, at most 0.9", ">= 0.7"),
            Figure("whatif_error_median", "the same error under a change that was then made", "<= 0.2"),
            Figure("with_job_error", "of these, with one job more"),
            Figure("nodes_error", "of these, with more nodes"),
            Figure("answer_p95_s", "an answer with 200 live jobs, s", "<= 8"),
            Figure("answer_cpu_p95_s", "the same, s of one core"),
            Figure("jobs", "jobs"),
            Figure("first_time_at_submission", "of these, with a new script"),
            Figure("first_time_told", "of these, with a predicted end before they were measured"),
        ),
        timeout_s=7200.0,
    ),
    Benchmark(
        "live_vs_simulated",
        "The demo's jobs run live, then their recorded trace is replayed.",
        (
            Figure("mean_jct_off", "simulated mean JCT, off the live one by", "<= 0.10"),
            Figure("mean_jct_rel_err", "simulated over live mean JCT, less one"),
            Figure("live_mean_jct_s", "live mean JCT, s"),
            Figure("simulated_mean_jct_s", "mean JCT of replays with jobs up to 1 s later, s"),
            Figure("mean_jct_sd_s", "its standard deviation over the replays, s"),
            Figure("exact_rel_err", "the same of one replay without delays"),
        ),
    ),
    Benchmark(
        "lucid_replay",
        "Lucid on Venus' September of 2020, in its published semantics, has the figures of the thesis.",
        (
            Figure("venus/mean_jct_s", "mean JCT, s (Table 4.6: 12,886)"),
            Figure("venus/rel_err_mean_jct", "its relative difference from Table 4.6", "<= 0.02"),
            Figure("venus/rel_err_mean_queue", "mean queue: relative difference from Table 4.6", "<= 0.2"),
            Figure("venus/rel_err_p99_9_queue", "99.9th percentile of queues: from Table 4.4", "<= 0.05"),
            Figure("finished_in_profiler_error", "parts that end in the profiler: from Table 4.6", "<= 0.001"),
            Figure("profiling_queue_s", "wait for the profiler, s (Table 4.6: 73)", "<= 100"),
            Figure("jct_over_fifo", "mean JCT of `fifo` over that of `lucid`", ">= 5.0"),
            Figure("jct_over_las", "mean JCT of `las` over that of `lucid`", ">= 1.13"),
            Figure("venus/rel_err_large_jct", "mean JCT of jobs of more than 8 GPUs: from Table 4.5", "<= 0.05"),
            Figure("venus/rel_err_small_jct", "mean JCT of the others: from Table 4.5", "<= 0.05"),
            Figure("utilisation_over_las", "use of held GPUs over that under `las`"),
            Figure("memory_over_las", "memory in use of held GPUs over that under `las`"),
            Figure("lucid/short_jobs_queued", "jobs of at most 60 s that wait for more than a second"),
            Figure("las/short_jobs_queued", "the same under `las`"),
        ),
        timeout_s=1800.0,
    ),
    Benchmark(
        "better_than_lucid",
        "`packed` ends jobs sooner than `lucid` with the same estimates, also where it stops nothing.",
        (
            Figure("preemptive/jct_ratio", "mean JCT of `packed` over that of `lucid`", "<= 0.95"),
            Figure("preemptive/mean_jct_s", "mean JCT of `packed`, s", "<= 12600"),
            Figure("preemptive/p99_9_queue_ratio", "99.9th percentile of queues", "<= 1.0"),
            Figure("preemptive/short_jobs_queued_ratio", "waits of jobs of at most 60 s", "<= 1.0"),
            Figure("non_intrusive/jct_ratio", "mean JCT where `packed` stops nothing", "<= 0.98"),
            Figure("non_intrusive/p99_9_queue_ratio", "99.9th percentile of queues there"),
            Figure("non_intrusive/short_jobs_queued_ratio", "waits of jobs of at most 60 s there"),
            Figure("lucid/mean_jct_s", "mean JCT of `lucid`, s"),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "packing_time",
        "A round of `lucid` with 2,048 waiting jobs takes a few milliseconds.",
        (
            Figure("lucid/decision_ms_2048", "`lucid`, median, ms", "<= 3"),
            Figure("packed/decision_ms_2048", "`packed`, median, ms"),
            Figure("columns_ms_2048", "to read the columns of a round from views of jobs, ms"),
        ),
    ),
    Benchmark(
        "synergy_replay",
        "Published traces of CPUs and memory come out as published (Synergy, Table 5).",
        (
            Figure("static_fifo/prop/makespan_h", "100 jobs at once, shares, h; paper 15.67"),
            Figure("static_fifo/tune/makespan_h", "`tune` as the paper says, h; paper 11.33"),
            Figure("static_fifo/opt/makespan_h", "one ideal machine, h; paper 11.01"),
            Figure("static_fifo/tune_leftovers/makespan_h", "`tune`, h"),
            Figure("static_fifo/greedy/makespan_h", "`greedy`, h"),
            Figure("static_fifo/priced/makespan_h", "`priced`, h"),
            Figure("static_fifo/prop/off_paper", "shares, off the paper by", "<= 0.05"),
            Figure("static_fifo/tune/off_paper", "`tune`, off the paper by", "<= 0.05"),
            Figure("static_fifo/opt/off_paper", "ideal, off the paper by", "<= 0.05"),
            Figure("static_fifo/prop_over_tune", "shares over `tune` as the paper says", ">= 1.36"),
            Figure("static_fifo/prop_over_tune_leftovers", "shares over `tune`", ">= 1.40"),
            Figure("dynamic_srtf/prop_over_tune_mean", "100 jobs over time, SRTF, mean JCT", ">= 1.24"),
            Figure("dynamic_srtf/prop_over_tune_p99", "the same, 99th percentile", ">= 1.40"),
        ),
    ),
    Benchmark(
        "synergy_load",
        "Mean completion times over loads on 128 GPUs, with CPUs and memory by gain.",
        (
            Figure("fifo_single/tune/ratio_at_baseline_81h", "shares over `tune`, FIFO, 1 GPU, at 81 h", ">= 2.2"),
            Figure("fifo_single/priced/ratio_at_baseline_81h", "shares over `priced`", ">= 2.7"),
            Figure(
                "fifo_single/saturated/ratio_at_baseline_81h", "shares over all that jobs gain by: the ceiling"
            ),
            Figure("fifo_single/priced/best_ratio", "shares over `priced`, best load", ">= 2.9"),
            Figure("tune/worst_ratio", "shares over `tune`, least of all policies and loads", ">= 0.99"),
            Figure("priced/worst_ratio", "shares over `priced`, least of all policies and loads", ">= 0.99"),
            Figure("las_multi/tune/best_ratio", "LAS, 1 to 16 GPUs, best load; paper 1.6"),
            Figure("las_multi/tune/p95_long_ratio", "LAS, 95th percentile of long jobs; paper 2"),
            Figure("srtf_multi/tune/best_ratio", "SRTF, 1 to 16 GPUs; paper 1.6"),
            Figure("ftf_multi/tune/best_ratio", "FTF, 1 to 16 GPUs; paper 2"),
        ),
        timeout_s=7200.0,
    ),
    Benchmark(
        "synergy_ratio",
        "What is gained where servers have more CPUs for each GPU.",
        tuple(
            figure
            for name in ("tune", "priced")
            for figure in (
                *(
                    Figure(f"{name}/gain_at_{cpus}", f"`{name}`, {cpus} CPUs for each GPU")
                    for cpus in (3, 4, 5, 6)
                ),
                Figure(f"{name}/falls", f"`{name}`: the gain falls with every CPU more", "= 1"),
            )
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "synergy_splits",
        "Few or all jobs are sensitive to CPUs and memory.",
        (
            *(
                Figure(f"{split}/tune/over_proportional", f"split {split}: `tune` over shares", "<= 1.0")
                for split in ("20-70-10", "33-33-33", "50-0-50")
            ),
            Figure("50-0-50/greedy/over_proportional", "`greedy` over shares, where all are sensitive", ">= 1.0"),
            Figure("50-0-50/greedy/idle_gpus_with_queue", "`greedy`: rounds with idle GPUs and a queue", ">= 1"),
            Figure("50-0-50/tune/idle_gpus_with_queue", "`tune`: the same", "= 0"),
            Figure("low_load/cpu_use_over_proportional", "low load: CPUs used, `tune` over shares", ">= 1.3"),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "synergy_philly",
        "Philly's own jobs, with models drawn.",
        (
            Figure("srtf/mean_ratio", "SRTF: shares over `tune`; paper 1.15"),
            Figure("srtf/short_p99_ratio", "the same, 99th percentile of short jobs; paper 2.2"),
            Figure("srtf/best_job", "best job; paper 9"),
        ),
        timeout_s=7200.0,
    ),
    Benchmark(
        "synergy_big_data",
        "Fixed demands of DRF and Tetris against the same orders with `tune`.",
        tuple(
            Figure(f"{split}/{policy}/gain", f"{split}: {policy}, naive over `tune`", ">= 1.0")
            for split in ("w1", "w2")
            for policy in ("drf", "tetris")
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "better_than_tune",
        "`priced` against `tune` with what is left over handed out.",
        (
            Figure("fifo_single_81h/mean_jct_ratio", "FIFO, 1 GPU, shares at 81 h: mean JCT", "<= 0.85"),
            Figure("fifo_single_9.5/mean_jct_ratio", "FIFO, 1 GPU, 9.5 jobs/h: mean JCT", "<= 0.85"),
            Figure("worst_mean_jct_ratio", "worst of all traces", "<= 1.0"),
            Figure("fifo_single_81h/over_bound", "mean JCT over one ideal machine's", "<= 1.01"),
            Figure("fifo_single_9.5/over_bound", "the same, 9.5 jobs/h", "<= 1.01"),
            Figure("worst_job_over_proportional", "least speed of a job over that at its share", ">= 1.0"),
            Figure("worst_moves_ratio", "moves of jobs over those of `tune`, worst trace", "<= 1.0"),
        ),
        timeout_s=7200.0,
    ),
    Benchmark(
        "provisioned_goodput",
        "`sia` and `coadapt` hand out CPUs and memory by gain, on Sia's traces with jobs that wait for input.",
        tuple(
            figure
            for policy in ("sia", "coadapt")
            for figure in (
                Figure(f"{policy}/mean_jct_ratio", f"`{policy}`: mean JCT, `priced` over shares", "<= 0.9"),
                Figure(f"{policy}/waiting_ratio", "the same of jobs that gain by more than their share"),
                Figure(f"{policy}/others_ratio", "the same of the others"),
                Figure(f"{policy}/philly/mean_jct_ratio", "the same on Philly's trace, 20 jobs/h"),
                Figure(f"{policy}/rate_50/mean_jct_ratio", "the same at 50 jobs/h"),
                Figure(f"{policy}/restarts_ratio", "restarts over those with shares"),
            )
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "synergy_time",
        "A round that chooses CPUs, memory and nodes is short.",
        (
            Figure("tune_ms_128", "`tune`, 128 GPUs, ms", "<= 20"),
            Figure("priced_ms_128", "`priced`, 128 GPUs, ms"),
            Figure("optimal_ms_128", "`optimal`, 128 GPUs, ms"),
            Figure("tune_s_25000", "`tune`, 25,000 GPUs, s", "<= 3"),
            Figure("priced_s_25000", "`priced`, 25,000 GPUs, s"),
        ),
        timeout_s=1800.0,
    ),
    Benchmark(
        "lucid_ablations",
        "What each part of Lucid is worth in the same run; ratios are over the whole of it.",
        (
            Figure("space_aware_ratio", "profiler's queue by arrival over that by least GPUs", ">= 5"),
            *(
                figure
                for key, what in (
                    ("no_binder", "any pair that fits, at any time"),
                    ("any_pair_that_fits", "any scores, other rules of pairs stay"),
                    ("no_sharing", "nothing is shared"),
                    ("no_estimator", "all jobs are expected to take as long"),
                    ("exact_lengths", "lengths are known"),
                    ("never_refit", "our estimates, never refitted"),
                    ("refit_weekly", "our estimates, refitted weekly"),
                    ("refit_daily", "our estimates, refitted daily"),
                    ("sums_refit_weekly", "our additive estimates"),
                    ("sums_monotone_GPUs", "our additive estimates, more GPUs never shorten"),
                )
                for figure in (
                    Figure(f"{key}/jct_ratio", f"{what}: JCT"),
                    Figure(f"{key}/queue_ratio", f"{what}: queue"),
                )
            ),
            Figure("thresholds/jct_spread", "JCT over nine pairs of thresholds, largest over least, less one"),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "packing_estimator",
        "Pairs of jobs that do not slow each other down are told from others, by what each uses alone.",
        (
            Figure("precision", "of admitted pairs, those at 0.85 or more; five parts of pairs", ">= 0.98"),
            Figure("recall", "of the pairs at 0.85 or more, those admitted", ">= 0.88"),
            Figure("precision_nested", "the same, admitted from where the pairs of the fit say: precision"),
            Figure("recall_nested", "and recall"),
            Figure("recall_lomo", "recall at precision 0.97, a whole model left out", ">= 0.85"),
            Figure("precision_lomo_nested", "the same, admitted from where the other models say: precision"),
            Figure("recall_lomo_nested", "and recall"),
            Figure("stored_labels_precision", "stored labels of Lucid's authors: precision"),
            Figure("stored_labels_recall", "and recall"),
            Figure("sum_of_utils_precision", "GPU utilisations of at most 120 % together: precision"),
            Figure("sum_of_utils_recall", "and recall"),
            Figure("shipped_precision", "numbers of the package, fitted to Gavel's pairs: precision"),
            Figure("shipped_recall", "and recall"),
            Figure("tree_accuracy_stored", "tree on the stored labels, each job left out once"),
            Figure("tree_accuracy_stored_fit", "tree on the stored labels that it was fitted to"),
            Figure("tree_accuracy_rule_own", "tree on the rule's labels, each job left out once"),
            Figure("tree_accuracy_rule_own_fit", "tree on the rule's labels that it was fitted to"),
        ),
    ),
    Benchmark(
        "arrival_forecast",
        "Arrivals of jobs and GPUs are foretold, Venus, September 2020.",
        (
            Figure("mae_jobs", "jobs of the next ten minutes, mean absolute error", "<= 3.3"),
            Figure("mae_gpus", "GPUs of the next ten minutes, mean absolute error", "<= 36"),
            Figure("mae_jobs_1h", "jobs of ten minutes an hour ahead, mean absolute error", "<= 3.9"),
            Figure("mae_jobs_published", "the published forecast, jobs"),
            Figure("mae_gpus_published", "the published forecast, GPUs"),
            Figure("mae_jobs_last_value", "the last value, jobs"),
            Figure("mae_gpus_last_value", "the last value, GPUs"),
            Figure("mae_jobs_median", "the median, jobs"),
            Figure("mae_gpus_median", "the median, GPUs"),
        ),
        timeout_s=1800.0,
    ),
    Benchmark(
        "duration_estimator",
        "Lengths learned from jobs that ended before, judged by the schedule they make, 8 to 26 September.",
        (
            Figure("qssf_jct_ratio", "mean JCT under strict qssf over that by the published sums", "<= 1.18"),
            Figure("qssf_jct_ratio_lgb", "the same over that by the published trees", "<= 1.0"),
            Figure("spearman", "rank correlation with true lengths", ">= 0.55"),
            Figure("mae", "mean absolute error, s"),
            Figure("r2", "R2 of the mean lengths"),
            Figure("mae_published_additive", "mean absolute error of the published sums, s"),
            Figure("r2_published_additive", "their R2"),
            Figure("spearman_published_additive", "their rank correlation"),
            Figure("qssf_jct_ratio_profile", "as the first, with what profiles say"),
            Figure("spearman_profile", "rank correlation with what profiles say"),
            Figure("share_within", "lengths within the band of 80 %"),
        ),
        timeout_s=3600.0,
    ),
    Benchmark(
        "interpretable_models",
        "Models that one can read: exact, accurate, small and quick, and better after a correction.",
        (
            Figure("additivity_max_err", "largest difference between a prediction and its sum", "<= 1e-9"),
            Figure("file_diff", "difference that writing and reading a model makes", "= 0"),
            Figure("refit_diff", "difference between two fits with one seed", "= 0"),
            Figure("arrivals/beaten_peers", "of four peers at their defaults, beaten on arrivals", "= 4"),
            Figure("durations/beaten_peers", "the same on lengths of jobs", "= 4"),
            Figure("durations/qssf_jct_over_best_peer", "JCT by its estimates over the best peer's", "<= 1.02"),
            Figure("tree/bo_gain_median", "less error of trees by searched settings, median of six", ">= 0.05"),
            Figure("additive/bo_gain_median", "the same of sums, of four tasks", ">= 0"),
            Figure("bo_trials_over_random", "trials to what chance has after 50, over 50", "<= 0.83"),
            Figure("pruned_nodes_ratio", "nodes of a searched tree of lengths over a whole one's", "<= 0.1"),
            Figure("additive_us_per_row", "a prediction in a batch of 100,000, µs", "<= 0.2"),
            Figure("additive_batch_2048_ms", "2048 predictions, ms", "<= 0.4"),
            Figure("tree_us", "a tree of 64 leaves as C, µs", "<= 0.1"),
            Figure("fit_s/durations_1e5", "fit to 100,000 jobs, s", "<= 60"),
            Figure("fit_s/tree", "fit of a tree to pair speeds, s", "<= 1"),
            Figure("distil/rule_agreement", "agreement with three rules on fresh states", ">= 0.99"),
            Figure("distil/jct_ratio", "JCT of a tree in place of shockwave, over shockwave's", "<= 1.05"),
            Figure("distil/policy_time_ratio", "its time over shockwave's", "<= 0.05"),
            Figure("distil/leaves", "its leaves", "<= 64"),
            Figure("distil/minutes", "its making, minutes", "<= 4"),
            Figure("quantised_diff", "difference that whole thresholds make for whole features", "= 0"),
            Figure("monotone/r2_gain", "R2 by monotone gpus, relative"),
            Figure("monotone/qssf_jct_ratio", "JCT by monotone gpus over before"),
            Figure("correction_survives_refit", "whether a correction outlives a fit", "= 1"),
            Figure("services/qssf_jct_additive_over_boosted", "JCT by additive lengths over boosted ones"),
            Figure("services/nodes_off_additive_over_boosted", "nodes off by sums over boosted ones, least"),
        ),
        timeout_s=3600.0,
    ),
)


@dataclass(frozen=True)
class Result:
    """The latest run of a benchmark. `failure` "" after a good one; else `figures` are of the last good one."""

    figures: Mapping[str, Any] = field(default_factory=dict)
    machine: str = ""
    wall_s: float = 0.0
    failure: str = ""


def run(benchmark: Benchmark, previous: Result) -> Result:
    """Run the command; its last good figures outlive a failure."""
    log = ROOT / "out" / "performance" / f"{benchmark.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    started_s = time.monotonic()
    command = [sys.executable, "-m", f"benchmarks.{benchmark.name}", *benchmark.arguments]
    try:
        with log.open("w") as file:
            done = subprocess.run(
                command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, timeout=benchmark.timeout_s, check=False
            )
        lines = log.read_text(errors="replace").splitlines()
        figures, machine = parse(lines, benchmark.name)
        reason = f"exit status {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired:
        return failed(previous, f"did not end in {benchmark.timeout_s:.0f} s")
    except ValueError as error:
        return failed(previous, str(error))
    if reason:
        return failed(previous, f"{reason}; its figures were {json.dumps(figures)}")
    return Result(figures, machine, round(time.monotonic() - started_s, 1))


def of_logs(name: str, logs: Sequence[tuple[str, str]]) -> Result:
    """Read the outputs of runs: (arguments, file) of each. Raises OSError, and ValueError as `parse`."""
    figures: dict[str, Any] = {}
    machines = []
    for arguments, path in logs:
        found, machine = parse(Path(path).read_text(errors="replace").splitlines(), name)
        figures |= found
        machines.append(f"`{' '.join([name, arguments]).strip()}`: {machine}")
    return Result(figures, "; ".join(machines))


def failed(previous: Result, reason: str) -> Result:
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Result(previous.figures, previous.machine, previous.wall_s, f"{when}: {reason}")


def parse(lines: Sequence[str], name: str) -> tuple[dict[str, Any], str]:
    """Return figures and machine from a benchmark's output. Raises ValueError without a last line of JSON."""
    machine = next(
        (line.removeprefix("machine: ") for line in reversed(lines) if line.startswith("machine: ")), ""
    )
    try:
        last = json.loads(lines[-1])
        figures = last["figures"]
        if last["benchmark"] != name or not isinstance(figures, dict):
            raise ValueError
    except (IndexError, ValueError, KeyError, TypeError):
        said = lines[-1].strip()[:200] if lines else "nothing"
        raise ValueError(f"no line of JSON at the end of its output; it said: {said}") from None
    return figures, machine


def page(results: Mapping[str, Result]) -> str:
    """Return the whole of docs/results/performance.md."""
    parts = [
        "# Performance",
        conclusion(results),
        "`make performance` writes this page; do not edit it. `python -m benchmarks.performance --only NAME`\n"
        "renews one section, and `python -m benchmarks.performance --render` writes the page from kept figures.\n"
        "Where a command stands below a table, its figures are of that run.\n"
        "Emulated nodes run on CPU at the pace of their GPU type. Peers are measured in the same run,\n"
        "unless the lines below a table name several.",
    ]
    return "\n\n".join(parts + [section(b, results.get(b.name, Result())) for b in BENCHMARKS]) + "\n"


def conclusion(results: Mapping[str, Result]) -> str:
    """Return how many targets are met, which are missed, and which benchmarks failed."""
    judged = {
        benchmark.name: {
            figure: met
            for figure in benchmark.figures
            if (met := figure.met(results[benchmark.name].figures.get(figure.name))) is not None
        }
        for benchmark in BENCHMARKS
        if benchmark.name in results
    }
    missed = {name: [figure for figure, met in of.items() if not met] for name, of in judged.items()}
    count, lost = sum(map(len, judged.values())), sum(map(len, missed.values()))
    told = [f"{count - lost} of {count} targets are met."]
    for name, figures in missed.items():
        if len(figures) == 1:
            (figure,) = figures
            value = shown(results[name].figures[figure.name])
            told.append(f"`{name}` missed one: `{figure.name}` was {value}, promised {signs(figure.target)}.")
        elif figures:
            told.append(f"`{name}` missed {len(figures)} of {len(judged[name])}.")
    told += [f"The last run of `{name}` failed." for name, result in results.items() if result.failure]
    return wrapped(" ".join(told))


def wrapped(text: str, indent: str = "") -> str:
    """Break a text into lines of the page's width; words and commands stay whole."""
    return textwrap.fill(
        text, PAGE_WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def section(benchmark: Benchmark, result: Result) -> str:
    """Return one benchmark's claim, its figures beside their targets, other figures, and the machine."""
    lines = [f"## {benchmark.name}", "", wrapped(benchmark.claim), ""]
    if result.failure:
        failure = result.failure.replace("|", "/")
        lines += [wrapped(f"**Failed** {failure}. Figures below are of the last good run."), ""]
    if not result.figures:
        return "\n".join([*lines, "No figures yet."])
    if benchmark.figures:
        lines += ["| figure | meaning | measured | target | |", "|---|---|--:|--:|---|"]
    for figure in benchmark.figures:
        value = result.figures.get(figure.name)
        verdict = {True: "met", False: "**missed**", None: ""}[figure.met(value)]
        lines.append(
            f"| `{figure.name}` | {figure.meaning} | {shown(value)} | {signs(figure.target)} | {verdict} |"
        )
    known = {figure.name for figure in benchmark.figures}
    others = [name for name in result.figures if benchmark.rest and name not in known]
    if others:
        lines += ["", f"<details><summary>{len(others)} other figures</summary>", ""]
        lines += ["| figure | measured |", "|---|--:|"]
        lines += [f"| `{name}` | {shown(result.figures[name])} |" for name in others]
        lines += ["", "</details>"]
    runs = [wrapped(f"* {run}.", "  ") for run in re.split(r"; (?=`)", result.machine)]
    took = [f"* The run took {result.wall_s:g} s."] if result.wall_s else []
    return "\n".join([*lines, "", *runs, *took])


def signs(target: str) -> str:
    return target.replace("<=", "≤").replace(">=", "≥")


def shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value + 0.0:.3g}"  # + 0.0: no -0
    return f"{value:,}" if isinstance(value, int) else str(value if value is not None else "-")


def load() -> dict[str, Result]:
    if not KEPT.exists():
        return {}
    return {name: Result(**row) for name, row in json.loads(KEPT.read_text()).items()}


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text)
    beside.replace(path)


def save(results: Mapping[str, Result]) -> None:
    rows = {name: vars(result) for name, result in sorted(results.items())}
    write(KEPT, json.dumps(rows, indent=1, default=dict) + "\n")
    write(PAGE, page(results))


def main(arguments: Sequence[str] | None = None) -> int:
    names = [benchmark.name for benchmark in BENCHMARKS]
    parser = argparse.ArgumentParser(prog="benchmarks.performance", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", action="append", choices=names, metavar="NAME", help=f"one of {', '.join(names)}"
    )
    parser.add_argument(
        "--log",
        action="append",
        nargs=2,
        metavar=("ARGUMENTS", "FILE"),
        help="take the output of a run from a file",
    )
    parser.add_argument("--render", action="store_true", help="run nothing")
    options = parser.parse_args(arguments)
    results = load()
    if options.log:
        if len(options.only or []) != 1:
            parser.error("--log: name the one benchmark that it is of with --only")
        try:
            results[options.only[0]] = of_logs(options.only[0], options.log)
        except (OSError, ValueError) as error:
            parser.error(f"--log: {error}")
        save(results)
        return 0
    chosen = [] if options.render else [b for b in BENCHMARKS if not options.only or b.name in options.only]
    for benchmark in chosen:
        print(f"{benchmark.name} …", flush=True)
        results[benchmark.name] = run(benchmark, results.get(benchmark.name, Result()))
        print(f"  {results[benchmark.name].failure or dict(results[benchmark.name].figures)}", flush=True)
        save(results)  # after each: an interrupted run keeps what it has measured
    if not chosen:
        save(results)
    return 1 if any(results[benchmark.name].failure for benchmark in chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
