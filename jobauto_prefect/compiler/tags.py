"""The tags of flows and deployments: what lists in Prefect are filtered by."""

from collections.abc import Iterable

COMPANY, TOPIC = "company:", "topic:"

MOST_TOPICS = 3
"""Lists of runs show their tags on one line."""


def is_given(tag: str) -> bool:
    """Whether a run has this tag from its deployment."""
    return tag.startswith((COMPANY, TOPIC))


def topic_tags(topics: Iterable[str]) -> tuple[str, ...]:
    """Return the first topics as tags."""
    return tuple(f"{TOPIC}{topic}" for topic in topics)[:MOST_TOPICS]


def template_tags(company_slug: str, topics: Iterable[str]) -> tuple[str, ...]:
    """Return the tags of a run template's deployment; Prefect gives them to each run of it."""
    return (f"{COMPANY}{company_slug}", *topic_tags(topics))
