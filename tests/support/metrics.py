"""What Prometheus would read."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]


class Scraped:
    """All samples of an answer, by name and labels."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples: dict[tuple[str, Labels], float] = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        """One sample; None: it is not there."""
        return self.samples.get((name, frozenset(labels.items())))

    def by(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """The samples of a name that are not zero, by these labels."""
        return {
            tuple(dict(known)[label] for label in labels): value
            for (own, known), value in self.samples.items()
            if own == name and value
        }


def scraped(answer: httpx.Response) -> Scraped:
    """An answer that is metrics."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return Scraped(answer.text)
