"""The records of calendars, as responses show them."""

from typing import Any

from pydantic import Field

from jobauto_prefect.facade.models.common import Labelled


class Calendar(Labelled):
    """When windows' jobs do not start."""

    name: str = Field(description="The name for people.")
    timezone: str | None = Field(
        description="IANA name of the zone of its days and times; null: that of each run template."
    )
    country: str | None = Field(
        description="Whose public holidays are closed (ISO 3166-1); null: nobody's."
    )
    subdivision: str | None = Field(description="Whose holidays besides, within the country.")
    days: list[dict[str, Any]] = Field(
        description="Closed days: `date`, `until`, `yearly`, `title`."
    )
    times: list[dict[str, Any]] = Field(
        description="Closed times of day: `from`, `to`, `weekdays`, `title`."
    )
    periods: list[dict[str, Any]] = Field(
        description="Closed periods that come once: `start`, `end`, `title`."
    )
