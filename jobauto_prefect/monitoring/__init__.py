"""What a process reports about itself: metrics, health, the management port.

The command line imports nothing of this: `prometheus_client` takes 50 ms to import.
"""
