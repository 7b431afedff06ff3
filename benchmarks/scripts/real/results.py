"""What a run was given and what it ended with, written down as a person would, to be compared with other runs."""

import os
import zlib
from pathlib import Path

import torch

OUT = Path(os.environ.get("OUT", "."))
ME = os.environ.get("COADAPT_MEMBER", os.environ.get("RANK", "0"))


def saw(samples, epoch=0):
    """Note the samples of a batch before it is trained on: numbers, or the rows of a tensor."""
    if isinstance(samples, torch.Tensor):
        samples = samples.tolist()
    names = [str(s) if isinstance(s, int | str) else f"{zlib.crc32(repr(s).encode()):08x}" for s in samples]
    with open(OUT / f"seen-{ME}.txt", "a") as file:
        file.write(f"{int(epoch)} {' '.join(names)}\n")


def save(model, **facts):
    """Keep the parameters of a model, or of several by name, and whatever else should be alike."""
    models = model if isinstance(model, dict) else {"model": model}
    weights = {
        f"{name}.{key}": value.detach().clone()
        for name, one in models.items()
        for key, value in (one.state_dict() if hasattr(one, "state_dict") else one).items()
        if isinstance(value, torch.Tensor)
    }
    buffers = {f"{name}.{key}" for name, one in models.items() for key, _ in getattr(one, "named_buffers", list)()}
    torch.save({"model": weights, "buffers": buffers, "facts": facts}, OUT / f"final-{ME}.pt")
