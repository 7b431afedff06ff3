"""Train a tiny causal language model with Hugging Face's Trainer, from its newest checkpoint if there is one."""

import argparse
import os
import time

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

BATCH = 8


class Tokens(Dataset):
    """Sequences that count upwards, from slow storage."""

    def __len__(self):
        return 480

    def __getitem__(self, index):
        time.sleep(0.02)
        tokens = (torch.arange(16) + index) % 64
        return {"input_ids": tokens, "labels": tokens}


parser = argparse.ArgumentParser()
parser.add_argument("--output_dir", default="output")
args = parser.parse_args()
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
)
trainer = Trainer(
    model=LlamaForCausalLM(config),
    args=TrainingArguments(
        args.output_dir,
        per_device_train_batch_size=BATCH // int(os.environ.get("WORLD_SIZE", 1)),
        num_train_epochs=1,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_steps=10,
        save_total_limit=2,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
    ),
    train_dataset=Tokens(),
)
os.makedirs(args.output_dir, exist_ok=True)
trainer.train(resume_from_checkpoint=get_last_checkpoint(args.output_dir))
if trainer.is_world_process_zero():
    steps = [row for row in trainer.state.log_history if "loss" in row]
    print(f"final loss {steps[-1]['loss']:.6f}", flush=True)
