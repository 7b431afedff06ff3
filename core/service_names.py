"""The names by which Ray knows the scheduler service and the API."""

NAMESPACE = "coadapt"
SERVICE_NAME = "coadapt-scheduler"
API_NAME = "coadapt-api"
