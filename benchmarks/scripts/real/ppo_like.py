# kind: 4 PPO: a rollout is drawn, then several passes of minibatches over it, within one step of the loop
import coadapt
import torch
from results import save
from torch import nn

torch.manual_seed(0)
draw = torch.Generator().manual_seed(1)


def rollout():
    states = torch.randn(32, 4, generator=draw)
    actions = torch.randint(0, 2, (32,), generator=draw)
    returns = states[:, 0] * (2.0 * actions - 1)
    return states, actions, returns


policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(policy.parameters(), lr=0.05)
policy, optimizer, rollouts = coadapt.prepare(policy, optimizer, coadapt.batches(rollout))
for step in coadapt.steps(32):
    s, a, r = next(rollouts)
    with torch.no_grad():
        old = torch.distributions.Categorical(logits=policy(s)).log_prob(a)
    for _ in range(2):
        ratio = (torch.distributions.Categorical(logits=policy(s)).log_prob(a) - old).exp()
        loss = -torch.min(ratio * r, ratio.clamp(0.8, 1.2) * r).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(policy)
