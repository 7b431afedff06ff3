"""The names by which Ray knows the scheduler service."""

NAMESPACE = "coadapt"
SERVICE_NAME = "coadapt-scheduler"
