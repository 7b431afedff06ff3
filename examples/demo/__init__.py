"""`make demo` (`python -m examples.demo`): real jobs on an emulated cluster, and what the scheduler does.

There are six PyTorch jobs of four kinds, the scripts of `examples/`. One grows while it is alone, and five come
once it has grown. Gradients, batch sizes, learning rates, checkpoints, process groups, Ray actors and restarts
are real. GPUs are emulated. Each step takes the measured time of its GPU type, times a constant that depends on
how much work this machine can carry.

No job comes at a fixed time. Jobs come when others have progressed far enough, and the demo ends when all have
ended.
"""
