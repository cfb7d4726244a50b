"""Job automation on Prefect."""

__version__ = "1.0.0"
