"""Job automation on Prefect."""

__version__ = "0.1.0"
