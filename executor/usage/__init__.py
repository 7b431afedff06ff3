"""How much a process uses its GPUs, seen from outside: by the driver, or by what an emulated GPU is said to do."""
