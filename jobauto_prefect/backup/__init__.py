"""Backups: one file of a whole installation, and a new installation made of one."""
