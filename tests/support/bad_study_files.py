"""Study files that are refused, each with the sentence that says why."""

from __future__ import annotations

from typing import Any

GOOD: dict[str, Any] = {
    "name": "digits",
    "job": "job.yaml",
    "space": {"lr": {"log": [0.001, 1.0]}},
    "metric": "val_acc",
    "mode": "max",
    "trials": 48,
    "epochs": 20,
}
LR = {"log": [0.001, 1.0]}

# What is changed of a good file -> the sentence.
BAD: list[tuple[dict[str, Any], str]] = [
    ({"space": {}}, "space: it is empty; a name with"),
    ({"space": {"lr": 0.1}}, "space: every name has one value, so nothing is searched"),
    ({"space": {"lr": {"uniform": [1, 0]}}}, "space: lr.uniform: 1 is above 0; the lower end comes first"),
    ({"space": {"lr": {"uniform": [1, 1]}}}, "space: lr.uniform: both ends are 1; write one value plainly"),
    ({"space": {"lr": {"log": [0, 1]}}}, "space: lr.log: 0 has no logarithm; a lower end above 0 is accepted"),
    ({"space": {"lr": {"log": [-1, 1]}}}, "space: lr.log: -1 has no logarithm"),
    ({"space": {"n": {"int": [1, 2.5]}}}, "space: n.int: [1, 2.5] are not two whole numbers"),
    ({"space": {"n": {"int": [1, 9], "step": 0.5}}}, "space: n.step: 0.5 is not a whole number"),
    (
        {"space": {"m": {"uniform": [0, 1], "step": 2}}},
        "space: m.step: 2 is coarser than the range, which is 1 wide",
    ),
    ({"space": {"m": {"uniform": [0, 1], "step": 0}}}, "space: m.step: 0 is not a number above 0"),
    (
        {"space": {"m": {"uniform": [0, float("inf")]}}},
        "space: m.uniform: [0, Infinity] is not a list of two finite",
    ),
    ({"space": {"m": {"uniform": [0]}}}, "space: m.uniform: [0] is not a list of two finite numbers"),
    ({"space": {"m": {"normal": [0, 1]}}}, 'space: m: {"normal": [0, 1]} is no range'),
    ({"space": {"m": {"uniform": [0, 1], "log": [1, 2]}}}, "space: m: "),
    ({"space": {"m": [1, 2]}}, "space: m: [1, 2] is neither a value nor a range"),
    ({"space": {"b": {"choice": []}}}, "space: b.choice: [] is not a list of 2 to 1000 values"),
    ({"space": {"b": {"choice": [1, 1]}}}, "space: b.choice: 1 is given twice"),
    ({"space": {"b": {"choice": [1, [2]]}}}, "space: b.choice: [2] is not a number, a text, true or false"),
    ({"space": {"b": {"choice": [1, 2], "step": 1}}}, "space: b.step: a choice has no step"),
    ({"space": {"my lr": LR}}, "space: my lr is not a name that a script can ask for"),
    ({"space": {"lr": LR, "weight_decay": LR}}, "space.weight_decay: the best value of a narrow model is not"),
    ({"space": {"lr": LR, "dropout": {"uniform": [0, 0.5]}}}, "space.dropout: the best value of a narrow model"),
    ({"space": {"lr": LR, "attn_dropout_p": {"uniform": [0, 0.5]}}}, "space.attn_dropout_p: the best value"),
    ({"trials": 0}, "trials: 0 is not a number of at least 1"),
    ({"trials": 100_001}, "trials: 100001 is not a number of at most 100000"),
    ({"space": {"b": {"choice": [1, 2]}}}, "trials: 48 is more than the 2 that the space has"),
    ({"epochs": 0}, "epochs: 0 is not a number of at least 1"),
    ({"mode": "best"}, "mode: best is not one of min, max"),
    ({"metric": ""}, "metric: "),
    ({"algorithm": "pbt"}, "algorithm: pbt is not one of random, tpe, gp, halving, hyperband, asha"),
    ({"algorithm": {"asha": {"grace": 0}}}, "algorithm.grace: 0 is not a number of at least 1"),
    ({"algorithm": {"asha": {"reduction": 1}}}, "algorithm.reduction: 1 is not a number of at least 2"),
    ({"algorithm": {"asha": {"grace": 21}}}, "algorithm.grace: 21 epochs are more than a whole training has, 20"),
    ({"algorithm": {"random": {"grace": 2}}}, "algorithm: random.grace: unknown option; random has no options"),
    ({"algorithm": {"tpe": {"grace": 2}}}, "algorithm: tpe.grace: unknown option; known: wave"),
    ({"shrink": 0}, "shrink: 0 is not a number of at least 1"),
    ({"fuse": 0}, "fuse: 0 is not true, false, or the largest number of trials in a group"),
    ({"fuse": "yes"}, "fuse: yes is not true, false, or the largest number"),
    ({"deadline": 0}, "deadline: 0 is in the past"),
    ({"deadline": "soon"}, "deadline: soon is no span of time"),
    ({"promote": 0}, "promote: 0 is not a number of at least 1"),
    ({"eager": 0}, "eager: 0 is not a number above 0"),
    ({"eager": 1.5}, "eager: 1.5 is not a number of at most 1"),
    ({"widths": [2]}, "widths: [2] are not divisors that fall to 1"),
    ({"widths": [16, 1]}, "widths: 16 is not below shrink, which is 8"),
    ({"apart": ["depth"]}, "apart: depth is not in the space, which has lr"),
    ({"seed": -1}, "seed: -1 is not a number of at least 0"),
    ({"job": {}}, "job: it is empty; the path of a job file, or its fields, are accepted"),
    ({"job": 3}, "job: 3 is neither the path of a job file nor its fields"),
    ({"name": "a b"}, "name: a b is not a name of 1 to 63 letters"),
    ({"trails": 3}, "trails: unknown field; known: name, job, space"),
]
