"""Notices to people about jobs: occasions, channels, recipients, and when a job is slow."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from math import ceil
from typing import Any


class Occasion(StrEnum):
    """The occasion of a notice."""

    FAILURE = "failure"  #: a job failed, and no attempt follows
    RECOVERY = "recovery"  #: the first success after something was notified
    MISSED = "missed"  #: a window passed without an attempt
    SLOW = "slow"  #: a job runs longer than usual
    LATE = "late"  #: a window is not done by its deadline, or by `finished_by`


class Channel(StrEnum):
    """How a notice is sent."""

    MAIL = "mail"
    SLACK = "slack"  #: JSON in the form of Slack's incoming webhooks


TROUBLES = (Occasion.FAILURE, Occasion.MISSED, Occasion.LATE)
"""Occasions that a recovery notice may follow."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """A recipient: a mail address, or the name of a Slack address and the encrypted address."""

    channel: Channel
    target: str
    secret: str | None = None


Channels = Mapping[str, Any]
"""The field `notices` of a record: channel -> configuration."""


@dataclass(frozen=True, slots=True)
class Notices:
    """The notices of a record: `channels` by name, `secrets` their encrypted addresses."""

    channels: Channels
    secrets: Mapping[str, str]


def recipients(occasion: Occasion, template: Notices, company: Notices) -> Iterator[Recipient]:
    """Yield the recipients of an occasion; a template's own channel replaces its company's."""
    for channel in Channel:
        notices = template if channel in template.channels else company
        config = notices.channels.get(channel, {})
        if occasion not in config.get("on", ()):
            continue
        if channel is Channel.MAIL:
            yield from (Recipient(channel, address) for address in config["to"])
        elif channel in notices.secrets:
            yield Recipient(channel, config["target"], notices.secrets[channel])


def is_wanted(occasion: Occasion, of_template: Channels, of_company: Channels) -> bool:
    """Whether an occasion has any recipient."""
    return any(
        occasion in of_template.get(channel, of_company.get(channel, {})).get("on", ())
        for channel in Channel
    )


LEAST_JOBS = 5
"""Successful jobs needed to determine the usual duration."""

LEAST_EXCESS = timedelta(minutes=1)
EXCESS = 2.0
USUAL = 0.9
"""Share of jobs that take the usual duration or less."""


def slow_after(durations: Sequence[timedelta]) -> timedelta | None:
    """Return the duration after which a job is slow, by successful ones; None if too few."""
    if len(durations) < LEAST_JOBS:
        return None
    usual = sorted(durations)[ceil(USUAL * len(durations)) - 1]
    return max(EXCESS * usual, usual + LEAST_EXCESS)
