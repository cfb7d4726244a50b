"""Notices: what somebody is told of what becomes of jobs, and how that is said in records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from math import ceil
from typing import Any


class Occasion(StrEnum):
    """What notices are about."""

    FAILURE = "failure"  #: a job failed, and no attempt follows
    RECOVERY = "recovery"  #: the first good end after something that was told
    MISSED = "missed"  #: a window passed without an attempt
    SLOW = "slow"  #: a job runs longer than usual
    LATE = "late"  #: a window is not done by its deadline, or when `finished_by` says


class Channel(StrEnum):
    """How somebody is told."""

    MAIL = "mail"
    SLACK = "slack"  #: JSON in the form of Slack's incoming webhooks


TROUBLES = (Occasion.FAILURE, Occasion.MISSED, Occasion.LATE)
"""Those after which a recovery is worth telling."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """Who is told: a mail address, or what a Slack address is known by and the address sealed."""

    channel: Channel
    target: str
    secret: str | None = None


Channels = Mapping[str, Any]
"""The member `notices` of a record: channel -> configuration."""


@dataclass(frozen=True, slots=True)
class Notices:
    """What a record says: `channels` by their names, `secrets` their sealed addresses."""

    channels: Channels
    secrets: Mapping[str, str]


def recipients(occasion: Occasion, template: Notices, company: Notices) -> Iterator[Recipient]:
    """Whom a run template has told of this; a channel it names itself wins over its company's."""
    for channel in Channel:
        said = template if channel in template.channels else company
        config = said.channels.get(channel, {})
        if occasion not in config.get("on", ()):
            continue
        if channel is Channel.MAIL:
            yield from (Recipient(channel, address) for address in config["to"])
        elif channel in said.secrets:
            yield Recipient(channel, config["target"], said.secrets[channel])


def is_wanted(occasion: Occasion, of_template: Channels, of_company: Channels) -> bool:
    """Whether anybody is told of this."""
    return any(
        occasion in of_template.get(channel, of_company.get(channel, {})).get("on", ())
        for channel in Channel
    )


LEAST_JOBS = 5
"""Of fewer good jobs nobody knows how long is usual."""

LEAST_EXCESS = timedelta(minutes=1)
EXCESS = 2.0
USUAL = 0.9
"""Nine in ten jobs are as short as what is usual, or shorter."""


def slow_after(durations: Sequence[timedelta]) -> timedelta | None:
    """How long a job may run, by how long good ones took; None: nobody knows."""
    if len(durations) < LEAST_JOBS:
        return None
    usual = sorted(durations)[ceil(USUAL * len(durations)) - 1]
    return max(EXCESS * usual, usual + LEAST_EXCESS)
