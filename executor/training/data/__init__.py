"""The script's batches: their order, their parts, and how far each loop is."""
