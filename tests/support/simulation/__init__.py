"""Weeks of windows on a simulated clock: an installation, its world and the matcher."""
