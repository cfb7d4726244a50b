"""The processes of a service on one machine: prepared, started, supervised."""
