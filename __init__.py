"""Coadapt: goodput-optimising training of many PyTorch jobs on one mixed-GPU Ray cluster."""
