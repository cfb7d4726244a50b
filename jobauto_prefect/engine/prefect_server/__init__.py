"""Prefect's server on this machine: its process, application, database and encryption."""
