"""What a process tells of itself: metrics, health, the management port.

Nothing here is imported by the command line: `prometheus_client` takes 50 ms to import.
"""
