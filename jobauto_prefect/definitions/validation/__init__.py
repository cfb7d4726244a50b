"""Validation of documents: limits, schema, lint, and the place of every error."""
