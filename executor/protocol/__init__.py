"""What a training process, its executor and the scheduler say to each other."""
