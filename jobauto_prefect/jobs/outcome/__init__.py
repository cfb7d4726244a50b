"""Ends of jobs: reports, results, retries, losses, cancellations."""
