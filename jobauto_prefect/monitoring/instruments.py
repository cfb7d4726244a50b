"""Instruments of the facade and of the gateway: what only the process itself knows."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from jobauto_prefect.monitoring.monitor import Monitor

SHORT = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15)
"""Upper bounds of durations of milliseconds."""

LONG = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
"""Upper bounds of durations that may include waiting for a worker or for the end of an outage."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WEBSOCKET"})
OTHER = "other"
"""Label of an unknown method, or of a path without a route: the number of labels is bounded."""


class Requests:
    """Requests by route: the route's template, not the path."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "jobauto_request_seconds",
            "Time from a request to the end of its answer.",
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
        """Count one request; status None: the client disconnected."""
        method = method if method in METHODS else OTHER
        self._count.labels(method, route or OTHER, str(status or "hung up")).inc()
        if method != "WEBSOCKET":  # they may be open for days
            self._seconds.labels(method, route or OTHER).observe(seconds)


class Latencies:
    """Durations of the steps of a job."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.start = Histogram(
            "jobauto_job_start_seconds",
            "Time from when a job existed and was due until a worker got it, by what created it.",
            ("schedule_type",),
            buckets=LONG,
            registry=registry,
        )
        self.claim = Histogram(
            "jobauto_claim_seconds",
            "Duration of the decision about a claim, by its result.",
            ("answer",),
            buckets=SHORT,
            registry=registry,
        )
        self.outcome = Histogram(
            "jobauto_outcome_seconds",
            "Time from the end of a job's process until the ledger had its outcome.",
            buckets=LONG,
            registry=registry,
        )


class GatewayMonitor(Monitor):
    """Metrics of the gateway."""

    def __init__(self) -> None:
        super().__init__("prefect")
        self.requests = Requests(self.registry)


class FacadeMonitor(Monitor):
    """Metrics of a facade, and of the services in its process."""

    def __init__(self) -> None:
        super().__init__("facade")
        self.requests = Requests(self.registry)
        self.latencies = Latencies(self.registry)
