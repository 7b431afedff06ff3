"""Train a tiny language model with the Trainer of transformers: it learns to count on in steps."""

import coadapt
import torch
from coadapt.integrations.transformers import CoadaptCallback
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class Countings(Dataset):
    """Sequences that count on from a number in equal steps, modulo 32; the first of them is not predicted."""

    def __init__(self, count: int, seed: int) -> None:
        g = torch.Generator().manual_seed(seed)
        start, step = torch.randint(0, 32, (count, 1), generator=g), torch.randint(1, 4, (count, 1), generator=g)
        self.ids = (start + step * torch.arange(12)) % 32
        self.lengths = torch.randint(6, 13, (count,), generator=g)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        labels = self.ids[i].clone()
        labels[self.lengths[i] :] = -100
        return {"input_ids": self.ids[i], "labels": labels}


set_seed(0)
config = GPT2Config(
    vocab_size=32, n_positions=12, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
)
args = TrainingArguments(
    output_dir=str(coadapt.output_dir() / "out"),
    num_train_epochs=6,
    per_device_train_batch_size=16,
    gradient_accumulation_steps=2,
    learning_rate=3e-3,
    warmup_steps=5,
    logging_steps=5,
    eval_strategy="epoch",
    save_strategy="epoch",
    save_total_limit=1,
    disable_tqdm=True,
)
trainer = Trainer(
    model=GPT2LMHeadModel(config),
    args=args,
    train_dataset=Countings(360, seed=1),
    eval_dataset=Countings(64, seed=2),
)
trainer.add_callback(CoadaptCallback(trainer))
trainer.train()
trainer.save_model()
