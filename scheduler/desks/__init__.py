"""What the API may ask the scheduler: a class a file, whose public methods are all that it answers."""
