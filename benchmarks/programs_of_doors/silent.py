"""Sort numbers into a file, and say nothing."""

import random
import sys

random.seed(0)
numbers = sorted(random.random() for _ in range(200_000))
with open(sys.argv[1], "w") as file:
    file.write("\n".join(f"{number:.9f}" for number in numbers[::2000]) + "\n")
