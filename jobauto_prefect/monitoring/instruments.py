"""Instruments of the facade and of the gateway: what only the process itself knows."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from jobauto_prefect.monitoring.monitor import Monitor

SHORT = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15)
"""Upper bounds of what takes milliseconds."""

LONG = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
"""Upper bounds of what may wait for a worker, or for an outage to end."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WEBSOCKET"})
OTHER = "other"
"""A method nobody knows, or a path that is no route's: labels are of a bounded number."""


class Requests:
    """Requests by route: the route's template, never a path."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "jobauto_request_seconds",
            "From a request to the end of its answer.",
            ("method", "route"),
            buckets=SHORT,
            registry=registry,
        )
        self._count = Counter(
            "jobauto_requests",
            "Requests by their answer's status.",
            ("method", "route", "status"),
            registry=registry,
        )

    def note(self, method: str, route: str | None, status: int | None, seconds: float) -> None:
        """Count one request; status None: the client hung up."""
        method = method if method in METHODS else OTHER
        self._count.labels(method, route or OTHER, str(status or "hung up")).inc()
        if method != "WEBSOCKET":  # they may be open for days
            self._seconds.labels(method, route or OTHER).observe(seconds)


class Latencies:
    """What the steps of a job's way take."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.start = Histogram(
            "jobauto_job_start_seconds",
            "From when a job was made and due to when a worker was granted it, by what made it.",
            ("schedule_type",),
            buckets=LONG,
            registry=registry,
        )
        self.claim = Histogram(
            "jobauto_claim_seconds",
            "What the decision about a claim takes, by what came of it.",
            ("answer",),
            buckets=SHORT,
            registry=registry,
        )
        self.outcome = Histogram(
            "jobauto_outcome_seconds",
            "From the end of a job's process to when the ledger had its outcome.",
            buckets=LONG,
            registry=registry,
        )


class GatewayMonitor(Monitor):
    """What the gateway tells of itself."""

    def __init__(self) -> None:
        super().__init__("prefect")
        self.requests = Requests(self.registry)


class FacadeMonitor(Monitor):
    """What a facade tells of itself, and of the services in its process."""

    def __init__(self) -> None:
        super().__init__("facade")
        self.requests = Requests(self.registry)
        self.latencies = Latencies(self.registry)
