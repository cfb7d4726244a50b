"""The records of companies and their members, as responses show them."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from jobauto_prefect.definitions.records.notices import Occasion
from jobauto_prefect.facade.auth.permissions import Membership
from jobauto_prefect.facade.models.common import Labelled

CompanyBound = Literal[
    "jobs_days", "jobs_count", "output_days", "runs_days", "tasks_days", "events_days"
]


class MailNotices(BaseModel):
    """Who is told by mail, and of what."""

    on: list[Occasion] = Field(description="The occasions; none: nobody is told by mail.")
    to: list[str] = Field(description="The mail addresses.")


class SlackNotices(BaseModel):
    """What a webhook in Slack's form is told."""

    on: list[Occasion] = Field(description="The occasions; none: nobody is told there.")
    uri: Literal["********"] | None = Field(description="Masked; null: there is none yet.")


class Notices(BaseModel):
    """Who is told of what becomes of jobs; a channel that is left out is not said."""

    mail: MailNotices | None = Field(default=None, description="Mail to these addresses.")
    slack: SlackNotices | None = Field(default=None, description="A webhook in Slack's form.")
    finished_by: str | None = Field(
        default=None,
        description="When a window is late: so long after its start (`+3h`), or when the clock of "
        "its zone next shows a time (`06:30`); without it, at its deadline.",
    )


class Company(Labelled):
    """A company; `env` are its values for all its run templates, secret ones masked."""

    slug: str = Field(description="Short name, unique: letters, digits, `_` and `-`.")
    name: str = Field(description="The name for people.")
    enabled: bool = Field(description="Whether it may be used.")
    ic: str | None = Field(title="Registration number", description="Registration number.")
    email: str | None = Field(description="Address for mail.")
    logo: str | None = Field(description="An image: its address, or a data URL.")
    settings: str | None = Field(description="Free text for clients.")
    customer: int | None = Field(description="The number of the customer in another system.")
    timezone: str | None = Field(
        description="IANA name of the zone of its schedules; null: that of the service."
    )
    topics: list[str] = Field(
        description="The names of the topics attached to it. Written: names or ids; a name means "
        "the company's own topic first, then the shared one."
    )
    calendars: list[str] = Field(
        description="The names of the calendars by which windows are closed. Written: names or ids."
    )
    retention: dict[CompanyBound, int] = Field(
        description="Bounds of what is kept that it sets itself, 0 for none: the days that ended "
        "jobs (`jobs_days`), their output (`output_days`), their flow runs in Prefect "
        "(`runs_days`), tasks and events stay, and how many ended jobs of a run template "
        "(`jobs_count`)."
    )
    notices: Notices = Field(
        description="Who is told of what becomes of its jobs, by channel; of a run template, a "
        "channel that is left out is as its company says. Written as a whole."
    )
    env: dict[str, str] = Field(
        title="Environment",
        description="Values by environment key; secret ones are masked in answers. null removes a "
        "value.",
    )
    prefect_url: str = Field(
        description="Its page in Prefect's UI; null: Prefect does not know of it yet."
    )


class Member(BaseModel):
    """A user's membership of a company."""

    id: int = Field(description="The number of the record.")
    company_id: int = Field(description="The company.")
    user_id: int = Field(description="The user.")
    role: Membership = Field(description="The role in the company.")
    login: str | None = Field(description="The login of the user.")
    created_at: datetime = Field(description="When it was made.")
