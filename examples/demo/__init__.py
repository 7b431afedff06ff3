"""`make demo` (`python -m examples.demo`): real jobs on an emulated cluster, and what the scheduler makes of them.

Six PyTorch jobs of four kinds (the scripts of `examples/`): one that grows while it is alone, and five that come
once it has. What is real: gradients, batch sizes, learning rates, checkpoints, process groups, Ray actors and
restarts. What is emulated: GPUs; each step is paced to the time its GPU type was measured to need, times a
constant that depends on how much this machine carries.

Nothing goes by the clock: jobs come when others have got far enough, and it ends when they have ended.
"""
