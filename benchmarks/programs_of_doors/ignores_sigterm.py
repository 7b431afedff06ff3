"""Count up to a number, and save after each step. Nothing but SIGKILL stops it."""

import os
import signal
import sys
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
folder = sys.argv[1]
path = os.path.join(folder, "saved")
total = float(open(path).read()) if os.path.exists(path) else 0.0
while total < 60:
    time.sleep(0.15)
    total += 1
    print(f"step {total:.0f}", flush=True)
    with open(path + ".new", "w") as file:
        file.write(str(total))
    os.replace(path + ".new", path)
print(f"final sum {total}")
