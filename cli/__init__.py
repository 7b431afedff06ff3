"""The `coadapt` command."""
