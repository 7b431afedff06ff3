# kind: 4 get_batch, learning rate by hand, accumulation by an inner range, evaluation every few steps
import math

import coadapt
import torch
from results import save, saw
from torch import nn

block_size, batch_size, gradient_accumulation_steps, max_iters, eval_interval = 8, 12, 2, 32, 8
torch.manual_seed(1337)
data = torch.randint(0, 16, (2000,))
val = torch.randint(0, 16, (500,))
where = torch.Generator().manual_seed(7)


def get_batch():
    ix = torch.randint(len(data) - block_size, (batch_size,), generator=where)
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    return ix, x, y


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.mlp, self.lm_head = nn.Embedding(16, 16), nn.Linear(16, 16), nn.Linear(16, 16, bias=False)

    def forward(self, idx, targets):
        logits = self.lm_head(torch.tanh(self.mlp(self.wte(idx))))
        return logits, nn.functional.cross_entropy(logits.view(-1, 16), targets.view(-1))


@torch.no_grad()
def estimate_loss():
    model.eval()
    loss = model(val[:-1].view(1, -1), val[1:].view(1, -1))[1].item()
    model.train()
    return loss


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95))
batches = coadapt.batches(get_batch)
model, optimizer, batches = coadapt.prepare(model, optimizer, batches)
best_val_loss, evals = 1e9, []
for iter_num in coadapt.steps(max_iters):
    lr = 1e-2 * 0.5 * (1 + math.cos(math.pi * iter_num / max_iters))
    for param_group in optimizer.param_groups:
        param_group["lr"] = lr
    if iter_num % eval_interval == 0:
        evals.append(estimate_loss())
        best_val_loss = min(best_val_loss, evals[-1])
        coadapt.report(val_loss=evals[-1])
    for micro_step in range(gradient_accumulation_steps):
        ix, X, Y = next(batches)
        saw(ix)
        logits, loss = model(X, Y)
        (loss / gradient_accumulation_steps).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
save(model, best=best_val_loss, evals=evals)
