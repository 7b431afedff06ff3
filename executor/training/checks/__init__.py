"""Finding out what a script does with a batch that cannot be given to it in parts."""
