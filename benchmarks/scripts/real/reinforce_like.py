# kind: 4 policy gradients on episodes that the script plays itself, no data set at all
import coadapt
import numpy as np
import torch
from results import save, saw
from torch import nn

rng = np.random.default_rng(0)


def play(episodes=16):
    states = rng.normal(size=(episodes, 4)).astype(np.float32)
    actions = rng.integers(0, 2, size=episodes)
    rewards = np.where((states.sum(1) > 0) == (actions == 1), 1.0, -1.0).astype(np.float32)
    return states, actions, rewards


torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
episodes = coadapt.batches(play)
policy, optimizer, episodes = coadapt.prepare(policy, optimizer, episodes)
for step in coadapt.steps(32):
    states, actions, rewards = next(episodes)
    saw(torch.from_numpy(states))
    log_probs = torch.log_softmax(policy(torch.from_numpy(states)), 1)
    chosen = log_probs.gather(1, torch.from_numpy(actions)[:, None]).squeeze(1)
    loss = -(chosen * torch.from_numpy(rewards)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
save(policy)
