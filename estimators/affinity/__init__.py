"""How well two jobs go together on one GPU, by what each uses of it alone."""
