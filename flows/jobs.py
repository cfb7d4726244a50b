"""The flow of the deployment in `deployments/prefect.yaml`: it runs a job of a run template."""

from jobauto_prefect.engine.job_flow import run_job  # noqa: F401
