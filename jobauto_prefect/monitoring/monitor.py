"""The metrics and the checks of one process."""

from collections.abc import Iterable, Iterator

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    GCCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobauto_prefect import __version__
from jobauto_prefect.monitoring.families import Family, Read, Sample
from jobauto_prefect.monitoring.health import Check
from jobauto_prefect.monitoring.loops import Loops

disable_created_metrics()  # type: ignore[no-untyped-call]  # a further series that nobody reads

BUILT = ("part", "version")


class _Reading(Collector):
    """What is read on each scrape."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering this does not query the ledger."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        for family in self._read():
            kind = CounterMetricFamily if family.counts else GaugeMetricFamily
            metric = kind(family.name, family.about, labels=family.labels)
            for sample in family.samples:
                metric.add_metric(sample.labels, sample.value)
            yield metric


class Monitor:
    """`checks` say whether the part can do its work, `signs` whether it is alive at all."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, part: str) -> None:
        self.registry = CollectorRegistry()
        self.loops = Loops()
        self.checks: dict[str, Check] = {}
        self.signs: dict[str, Check] = {}
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        built = Sample(1, (part, __version__))
        self.read_by(lambda: [Family("jobauto_build_info", "Part and version.", [built], BUILT)])
        self.read_by(self._loops)

    def read_by(self, read: Read) -> None:
        """Register something to be read on each scrape, in the scraping thread."""
        self.registry.register(_Reading(read))

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' format. It queries the ledger: not for event loops."""
        return generate_latest(self.registry)

    def _loops(self) -> Iterator[Family]:
        loops = list(self.loops.by_name.items())
        for name, about, value in (
            ("jobauto_loop_rounds", "Rounds of a loop.", "rounds"),
            ("jobauto_loop_failures", "Rounds of a loop that failed.", "failures"),
        ):
            samples = [Sample(getattr(loop, value), (key,)) for key, loop in loops]
            yield Family(name, about, samples, ("loop",), counts=True)
        running = [Sample(loop.running_seconds, (key,)) for key, loop in loops]
        about = "How long the current round of a loop has taken; 0 between rounds."
        yield Family("jobauto_loop_running_seconds", about, running, ("loop",))
