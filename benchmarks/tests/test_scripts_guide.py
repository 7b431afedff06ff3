"""Each line of docs/guide/scripts.md is true: what works is tried, what is refused says so in one sentence."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from coadapt.benchmarks.real.heads import REFUSED, RIGHT, scripts
from coadapt.benchmarks.real.trials import Trials
from coadapt.executor.protocol.messages import Crashed, Finished
from coadapt.executor.training import api
from coadapt.executor.training.data.drawn import Batches
from coadapt.executor.training.state.prepared import identify
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.support.warm_group import WarmGroup

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "scripts.md"
NAME = re.compile(r"`([a-z_0-9]+)`")
NAMES_ALONE = re.compile(r"\s+(`[a-z_0-9]+`,?\s*)+$")


def lines_of(heading: str) -> list[tuple[str, list[str]]]:
    """Return each item of the lists under a heading: what it says, and the scripts that its last lines name."""
    text = GUIDE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    found = []
    for item in re.split(r"^\* ", text, flags=re.MULTILINE)[1:]:
        lines = item.split("\n\n")[0].splitlines()
        said = [line.strip() for line in lines if not NAMES_ALONE.match(line)]
        named = [name for line in lines if NAMES_ALONE.match(line) for name in NAME.findall(line)]
        found.append((" ".join(said), named))
    return found


WORKS = [*lines_of("Works as it is"), *lines_of("Works with one more line")]


def test_every_line_names_scripts_that_are_tried() -> None:
    known = scripts()
    for line, names in WORKS:
        assert names, line
        assert set(names) <= known.keys(), line


def test_the_guide_speaks_of_every_script_that_is_tried() -> None:
    assert set(scripts()) == set(NAME.findall(GUIDE.read_text())) & set(scripts())


@pytest.mark.slow
@pytest.mark.parametrize(("line", "names"), WORKS)
def test_what_works_is_right_whatever_happens_to_the_job(tmp_path: Path, line: str, names: list[str]) -> None:
    for name in names:
        verdict = Trials(scripts()[name], tmp_path).verdict("chain")
        assert (verdict.outcome, verdict.problems) == (RIGHT, ()), line


# --- what is refused ----------------------------------------------------------------------------------------


def parts() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader]:
    model = nn.Linear(2, 1)
    data = TensorDataset(torch.zeros(8, 2), torch.zeros(8, 1))
    return model, torch.optim.SGD(model.parameters(), 0.1), DataLoader(data, batch_size=4)


def sharded() -> nn.Module:
    """Make a model whose weight is a DTensor, in a process of its own group of one."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, distribute_tensor

    model = nn.Linear(2, 1)
    mesh = init_device_mesh("cpu", (1,))
    model.weight = nn.Parameter(distribute_tensor(model.weight.detach(), mesh, [Replicate()]))
    return model


def refusal_of_prepare(kind: str) -> str:
    model, optimizer, loader = parts()
    objects: list[object] = {
        "LBFGS": [model, torch.optim.LBFGS(model.parameters()), loader],
        "sparse gradients": [nn.Embedding(3, 2, sparse=True), optimizer, loader],
        "lazy modules": [nn.LazyLinear(2), optimizer, loader],
        "two training loaders": [model, optimizer, loader, Batches(lambda: torch.zeros(2))],
    }[kind]
    with pytest.raises(ValueError, match=r"prepare: .+") as caught:
        identify(objects)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("LBFGS", "use another optimizer"),
        ("sparse gradients", "use sparse=False"),
        ("lazy modules", "run a lazy module once"),
        ("two training loaders", "2 DataLoaders given"),
    ],
)
def test_prepare_refuses_in_one_sentence(kind: str, said: str) -> None:
    sentence = refusal_of_prepare(kind)
    assert said in sentence
    assert "\n" not in sentence


def test_sharded_models_are_refused_by_name_where_replicas_are_one_process() -> None:
    code = (
        "import torch.distributed as dist\n"
        "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)\n"
        "from coadapt.benchmarks.tests.test_scripts_guide import parts, sharded\n"
        "from coadapt.executor.training.state.prepared import identify\n"
        "_, optimizer, loader = parts()\n"
        "identify([sharded(), optimizer, loader])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    told = "ValueError: prepare: weight is sharded (fully_shard), but the job's replicas are one process each"
    assert told in ran.stderr.splitlines()[-1]


def test_prepare_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_session", None)
    api.prepare(*parts())
    with pytest.raises(RuntimeError, match="prepare: called twice; give everything to one call"):
        api.prepare(*parts())


SCRIPT = """
import coadapt, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(64, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
BEFORE
for epoch in coadapt.epochs(3):
    for a, b in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    AFTER
"""


def test_a_step_outside_of_the_loop_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("BEFORE", "model(x).sum().backward(); optimizer.step()").replace("AFTER", ""))
    with WarmGroup(script, tmp_path) as job:
        (member,) = job.start(1)
        job.join([member], wait=False)
        crashed = member.wait(Crashed)
    assert crashed.summary.startswith("RuntimeError: SGD.step is called outside of")


def test_an_optimizer_that_is_made_later_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    late = "optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)"
    script.write_text(SCRIPT.replace("BEFORE", late).replace("AFTER", ""))
    with WarmGroup(script, tmp_path) as job:
        (member,) = job.start(1)
        job.join([member], wait=False)
        crashed = member.wait(Crashed)
    assert crashed.summary.startswith(
        "RuntimeError: the script's SGD was not given to prepare, and steps parameters"
    )


def test_an_optimizer_of_a_model_that_was_not_given_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    other = "other = nn.Linear(4, 1); step = torch.optim.SGD(other.parameters(), 0.1)"
    late = "optimizer.step(); step.zero_grad(); other(a).mean().backward(); step.step()"
    script.write_text(SCRIPT.replace("BEFORE", other).replace("AFTER", "").replace("optimizer.step()", late))
    with WarmGroup(script, tmp_path) as job:
        (member,) = job.start(1)
        job.join([member], wait=False)
        crashed = member.wait(Crashed)
    assert crashed.summary.startswith(
        "RuntimeError: the script's SGD and what it trains were not given to prepare"
    )


def test_an_optimizer_that_is_made_for_a_batch_may_train_what_is_made_for_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    inner = "a = nn.Parameter(a); inner = torch.optim.SGD([a], 0.1); model(a).mean().backward(); inner.step()"
    text = SCRIPT.replace("BEFORE", "").replace("AFTER", "")
    script.write_text(text.replace("        optimizer.zero_grad()", f"        {inner}; optimizer.zero_grad()"))
    with WarmGroup(script, tmp_path) as job:
        (member,) = job.start(1)
        job.join([member], wait=False)
        assert member.wait(Finished).steps == 24


def test_a_batch_that_was_taken_before_the_loop_is_no_batch_of_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = SCRIPT.replace("BEFORE", "batches = iter(loader); a, b = next(batches)").replace("AFTER", "")
    script.write_text(text.replace("in loader", "in batches"))
    with WarmGroup(script, tmp_path) as job:
        (member,) = job.start(1)
        job.join([member], wait=False)
        crashed = member.wait(Crashed)
    assert crashed.summary.startswith("RuntimeError: the loop asks for its next batch before it has trained")


@pytest.mark.parametrize(("first", "then"), [("epochs", "steps"), ("steps", "epochs")])
def test_loops_of_both_kinds_are_refused(tmp_path: Path, first: str, then: str) -> None:
    script = tmp_path / "train.py"
    text = SCRIPT.replace("BEFORE", "").replace("    AFTER", "").replace("coadapt.epochs", f"coadapt.{first}")
    script.write_text(f"{text}\nlist(coadapt.{then}(2))\n")
    with WarmGroup(script, tmp_path) as job:
        (member,) = job.start(1)
        job.join([member], wait=False)
        crashed = member.wait(Crashed)
    assert crashed.summary.startswith(f"RuntimeError: {then}: the script has other loops over both")


def test_a_newcomer_cannot_take_over_parameters_that_it_does_not_have(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    late = "if epoch == 0: optimizer.add_param_group({'params': [nn.Parameter(torch.zeros(1))]})"
    script.write_text(SCRIPT.replace("BEFORE", "").replace("AFTER", late).replace("epochs(3)", "epochs(10**6)"))
    with WarmGroup(script, tmp_path) as job:
        first, second = job.start(2)
        job.join([first])
        first.reached(20)
        job.join([first, second], wait=False)
        crashed = second.wait(Crashed)
    assert crashed.unfit
    assert "parameters that the model did not have when prepare was called" in crashed.summary


def test_every_refused_line_is_tried_here() -> None:
    tried = {
        "**A loop that takes its next batch": "read_ahead",
        "**`zip(other, loader)`": "side_loader_first",
        "**LBFGS": "",
        "**An optimizer that steps in a hook": "step_in_backward",
        "**Parameters that follow losses": "zeroth_order",
        "**Sparse gradients": "",
        "**Models that are sharded in part": "",
        "**A hidden state that goes on": "truncated_bptt",
        "**Lazy modules": "",
        "**Two training loaders": "",
        "**A step outside": "",
        "**An LR scheduler that is not given": "scheduler_late",
        "**An optimizer that is made later": "",
        "**An optimizer and a model that are not given": "",
        "**Loops over both": "",
        "**An optimizer that is given parameters": "",
        "**A newcomer, where a variable": "",
        "**`prepare` called twice": "",
    }
    refused = lines_of("Refused, and why")
    assert len(refused) == len(tried)
    for start, script in tried.items():
        (named,) = [names for line, names in refused if line.startswith(start)]
        assert not script or script in named
    for name in filter(None, tried.values()):
        assert Trials(scripts()[name], Path()).head.outcome("shrink") == REFUSED
