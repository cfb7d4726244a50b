"""Running one job: environment, command, executors, output, artifacts, outcome."""
