"""The gateway in front of Prefect: who may do what with its API and pages."""
