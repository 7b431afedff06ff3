"""A GPU allocation that is solved again every round, from where the last round ended.

Run it, or step through its cells:

    python examples/continual_program.py
"""

# %% A cluster of three GPU types, and jobs that may take 1, 2, 4 or 8 GPUs of one of them
import numpy as np
from coadapt.optimizer.copter.engine import ContinualProgram, Row, Solution

GPU_TYPES = {"a100": 96.0, "rtx": 160.0, "t4": 240.0}  # GPUs of each type
SPEED = {"a100": 4.0, "rtx": 1.8, "t4": 1.0}
COUNTS = np.array([1.0, 2.0, 4.0, 8.0])
rng = np.random.default_rng(0)


def goodputs() -> np.ndarray:
    """Draw the goodputs (configurations,) of a new job.

    Faster GPUs and more of them help, each job differently.
    """
    scaling = rng.uniform(0.4, 0.95)
    return np.concatenate([speed * rng.lognormal(0, 0.2) * COUNTS**scaling for speed in SPEED.values()])


USES = {t: (np.arange(4) + 4 * i, COUNTS) for i, t in enumerate(GPU_TYPES)}
AT_MOST_ONE = [Row(1.0, upper=1.0)]  # a job uses at most one configuration

program = ContinualProgram(maximise=True)
for gpu_type, gpus in GPU_TYPES.items():
    program.set_capacity(gpu_type, gpus)
for job in range(200):
    program.add_request(f"job-{job}", goodputs(), USES, AT_MOST_ONE)

# %% The first round
first = program.solve()
print(f"round 1: goodput {first.objective:.1f}, at most {first.bound:.1f}; {first.iterations} iterations")
print({gpu_type: round(first.price(gpu_type), 3) for gpu_type in GPU_TYPES}, "is what one more GPU is worth")

# %% The next round: two jobs end, three arrive, one has another goodput, and two rtx nodes fail
program.remove_request("job-3")
program.remove_request("job-77")
for job in range(200, 203):
    program.add_request(f"job-{job}", goodputs(), USES, AT_MOST_ONE)
program.change_request("job-10", cost=1.2 * goodputs())
program.set_capacity("rtx", 144.0)
second = program.solve()
print(f"round 2: goodput {second.objective:.1f}, at most {second.bound:.1f}; {second.iterations} iterations")


# %% From fractions to whole GPUs: each job gets the configuration of its largest share that still fits
def largest_share(solution: Solution) -> np.ndarray:
    """Round a solution. Jobs with the largest share of a configuration choose first (COpter, section 4.4.1)."""
    shares = solution.values.reshape(-1, 12)
    gpu_type, gpus = np.repeat(np.arange(3), 4), np.tile(COUNTS, 3)
    left = np.array([96.0, 144.0, 240.0])
    chosen = np.zeros_like(shares)
    for row in np.argsort(-shares.max(axis=1), kind="stable"):
        for choice in np.argsort(-shares[row], kind="stable"):
            if shares[row, choice] > 1e-3 and gpus[choice] <= left[gpu_type[choice]]:
                left[gpu_type[choice]] -= gpus[choice]
                chosen[row, choice] = 1.0
                break
    return chosen.ravel()


whole = program.solve(shim=largest_share)
assert whole.integral is not None
value = -program.linear_program().cost @ whole.integral
print(f"whole GPUs: goodput {value:.1f}, {100 * value / whole.bound:.2f} % of the proven bound")

# %% An infeasible program is proven so: each of 30 jobs wants its own a100 node of 8
for job in range(20, 50):
    program.add_constraint(f"node for {job}", {(f"job-{job}", 3): 1.0}, lower=1.0)
print("30 nodes of a100 for 30 jobs:", program.solve().status)
for job in range(20, 50):
    program.remove_constraint(f"node for {job}")
again = program.solve()
print(f"without that: {again.status}, goodput {again.objective:.1f}")
