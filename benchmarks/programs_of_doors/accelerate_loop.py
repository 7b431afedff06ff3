"""Train with Accelerate; save every ten steps and on SIGTERM, and go on from what was saved."""

import argparse
import os
import signal
import time

import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import ProjectConfiguration, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 16


class Step:
    """How many steps are done; a part of each checkpoint."""

    done = 0

    def state_dict(self):
        return {"done": self.done}

    def load_state_dict(self, state):
        self.done = state["done"]


parser = argparse.ArgumentParser()
parser.add_argument("--folder", default="accelerate")
args = parser.parse_args()
project = ProjectConfiguration(args.folder, automatic_checkpoint_naming=False)
accelerator = Accelerator(cpu=True, project_config=project)
signal.signal(signal.SIGTERM, lambda number, frame: accelerator.set_trigger())
set_seed(0)
x = torch.randn(960, 8)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=BATCH // accelerator.num_processes)
model = nn.Linear(8, 1)
model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.02), loader)
step = Step()
accelerator.register_for_checkpointing(step)
saved = os.path.join(args.folder, "saved")
if os.path.exists(os.path.join(saved, "complete")):
    accelerator.load_state(saved)
    loader = skip_first_batches(loader, step.done)
for inputs, target in loader:
    time.sleep(0.15)  # its data comes from slow storage
    loss = nn.functional.mse_loss(model(inputs), target)
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    step.done += 1
    mean = accelerator.reduce(loss.detach(), "mean").item()
    accelerator.print(f"step {step.done}/60 loss {mean:.5f}", flush=True)
    stop = accelerator.check_trigger()
    if stop or step.done % 10 == 0:
        accelerator.save_state(saved)
        if accelerator.is_main_process:
            open(os.path.join(saved, "complete"), "w").close()
        accelerator.wait_for_everyone()
    if stop:
        break
else:
    accelerator.print(f"final loss {mean:.6f}", flush=True)
accelerator.end_training()
