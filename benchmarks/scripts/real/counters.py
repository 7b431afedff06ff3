steps = 0
samples = 0


def note(count):
    global steps, samples
    steps += 1
    samples += count
