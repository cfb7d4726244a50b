"""The door before Prefect: who may do what with Prefect's own API and pages."""
