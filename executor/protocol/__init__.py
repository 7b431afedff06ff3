"""The messages between a training process, its executor and the scheduler."""
