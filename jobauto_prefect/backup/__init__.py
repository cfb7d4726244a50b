"""Backups: one file of a whole installation, and a new installation from such a file."""
