"""The gateway before Prefect: who may do what with its API and pages."""
