"""A Trainer of transformers that saves on SIGTERM by itself and goes on from there. No coadapt."""

from __future__ import annotations

import sys
import time

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint


class Countings(Dataset):
    """Sequences that count on from a number in equal steps, modulo 32."""

    def __init__(self) -> None:
        first = torch.arange(64)[:, None]
        self.ids = (first + (first % 3 + 1) * torch.arange(12)) % 32

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class Pace(TrainerCallback):
    """Says each step, after some seconds."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s

    def on_step_end(self, args, state, control, **kwargs) -> None:
        time.sleep(self._step_s)  # so that it is stopped in the midst of its steps
        print("step", state.global_step, flush=True)


def main() -> None:
    folder, steps, step_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    set_seed(0)
    config = GPT2Config(vocab_size=32, n_positions=12, n_embd=16, n_layer=1, n_head=2)
    args = TrainingArguments(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=8,
        learning_rate=3e-3,
        save_strategy="no",
        logging_steps=2,
        disable_tqdm=True,
        report_to="none",
        use_cpu=True,
        enable_jit_checkpoint=True,
    )
    trainer = Trainer(GPT2LMHeadModel(config), args=args, train_dataset=Countings(), callbacks=[Pace(step_s)])
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))
    if trainer.state.global_step == steps:
        print("final", sum(p.double().sum().item() for p in trainer.model.parameters()), flush=True)


if __name__ == "__main__":
    main()
