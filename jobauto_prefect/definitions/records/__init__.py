"""Validation of records other than applications: policies, retries, notices, values."""
