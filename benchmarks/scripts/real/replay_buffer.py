# kind: 4 a value function learned from a replay buffer that random.sample draws from
# reference: one: a function draws under random numbers of its own
import random
from collections import deque

import coadapt
import torch
import torch.nn.functional as F
from results import save
from torch import nn

random.seed(0)
torch.manual_seed(0)
buffer = deque(maxlen=200)
where = 0.0


def play():
    global where
    action = random.choice([-1.0, 1.0])
    new = max(-5.0, min(5.0, where + action))
    buffer.append((where, action, -abs(new), new))
    where = new


def batch():
    play()
    rows = random.sample(buffer, min(len(buffer), 16))
    return tuple(torch.tensor(column).unsqueeze(1) for column in zip(*rows))


for _ in range(50):
    play()
q = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
slow = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
slow.load_state_dict(q.state_dict())
optimizer = torch.optim.SGD(q.parameters(), lr=0.02)
q, optimizer, batches = coadapt.prepare(q, optimizer, coadapt.batches(batch))
for step in coadapt.steps(40):
    s, a, r, n = next(batches)
    with torch.no_grad():
        left, right = torch.cat([n, -torch.ones_like(n)], 1), torch.cat([n, torch.ones_like(n)], 1)
        best = torch.maximum(slow(left), slow(right))
    loss = F.mse_loss(q(torch.cat([s, a], 1)), r + 0.9 * best)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        slow.load_state_dict(q.state_dict())
save(q)
