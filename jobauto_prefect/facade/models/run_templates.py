"""The records of run templates, as responses show them."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from jobauto_prefect.definitions import Backoff, ContactLost, Misfire, OnClosed, Overlap
from jobauto_prefect.definitions.records.actions import Action
from jobauto_prefect.facade.models.common import Labelled
from jobauto_prefect.facade.models.companies import Notices

Bound = Literal["jobs_days", "jobs_count", "output_days", "runs_days", "tasks_days"]


class TemplateBlock(BaseModel):
    """A block of other people in Prefect, and which of its fields become variables."""

    block: str = Field(description="Slug of the type of a block in Prefect, a slash, and its name.")
    env: dict[str, str] = Field(
        description="Variable to field of the block; `a.b` is the field b of a."
    )


class RunTemplate(Labelled):
    """How a company runs an application: when, where and with which values."""

    app_id: int = Field(description="The application.")
    company_id: int = Field(description="The company.")
    name: str = Field(description="The name for people.")
    active: bool = Field(description="Whether it runs at all.")
    interv: Literal["n", "i", "h", "d", "w", "m", "y", "c"] = Field(
        title="Interval",
        description="How often: n never, i each minute, h hour, d day, w week, m month, y year, c "
        "as `cron` says.",
    )
    cron: str | None = Field(
        description="Five fields of cron, or a nickname like `@daily`, for the interval `c`."
    )
    timezone: str | None = Field(
        description="IANA name of the zone of schedules; null: the company's, else the service's."
    )
    delay: int = Field(description="Seconds from the start of a window to the start of its job.")
    executor: str = Field(
        description="What runs the command: one of these, or one that a package adds."
    )
    executors: list[str] = Field(
        description="Those that a job may name instead of `executor`; none: its own alone."
    )
    executor_settings: dict[str, Any] = Field(
        description="What executors are told; each takes its own, so that `executor` alone has to "
        "be changed. Replaced as a whole."
    )
    pool: str | None = Field(description="The work pool; null: the service's default.")
    queue: str | None = Field(description="The work queue of its work pool; null: the default one.")
    queue_priority: int | None = Field(
        description="The priority that its queue is given: the lowest number comes first where "
        "workers are full; null: as it is."
    )
    timeout_seconds: float | None = Field(
        description="Seconds it may run; null: the service's default."
    )
    deadline_offset: str | None = Field(
        description="Deadline of a window: so long after its start (`+3h`, `+1h30m`), or when the "
        "clock next shows a time (`HH:MM`); null: the end of the window."
    )
    allow_late: bool = Field(
        description="Whether a success after the deadline counts: `fulfilled_late`, not `failed`."
    )
    max_attempts: int | None = Field(
        description="How many attempts a window has in all; null: 3 of what is worth another."
    )
    retry_backoff: Backoff = Field(
        description="How the waits between attempts grow: `none` and `fixed` not at all, `linear` "
        "by the gap, `exponential` twofold."
    )
    retry_min_gap: int = Field(description="Seconds between two attempts, at least.")
    retry_undeclared: bool = Field(
        description="Whether a non-zero exit code that the definition does not declare is worth "
        "another attempt."
    )
    overlap: Overlap = Field(
        description="When a window opens while a job of an earlier one runs: `wait` for it, "
        "`skip` the window, or run in `parallel`."
    )
    misfire: Misfire = Field(
        description="What runs of the windows that passed in an outage: the `latest` one, `all`, "
        "or none (`skip`)."
    )
    on_contact_lost: ContactLost = Field(
        description="A job whose worker has no contact with the service for one lease: let it "
        "`finish`, or `stop` it."
    )
    on_closed: OnClosed = Field(
        description="Windows whose jobs would start in closed time: `excuse` them, or `move` the "
        "newest one to its end (with `misfire` `all` each one)."
    )
    note: str | None = Field(description="Free text.")
    topics: list[str] = Field(
        description="The names of the topics attached to it. Written: names or ids; a name means "
        "the company's own topic first, then the shared one."
    )
    calendars: list[str] = Field(
        description="The names of the calendars by which windows are closed. Written: names or ids."
    )
    all_topics: list[str] | None = Field(
        default=None,
        description="Its own topics, its application's and its company's, without doubles; only "
        "in the record itself.",
    )
    retention: dict[Bound, int] = Field(
        description="Bounds of what is kept that it sets itself, 0 for none: the days that ended "
        "jobs (`jobs_days`), their output (`output_days`), their flow runs in Prefect "
        "(`runs_days`), tasks and events stay, and how many ended jobs of a run template "
        "(`jobs_count`)."
    )
    notices: Notices = Field(
        description="Who is told of what becomes of its jobs, by channel; of a run template, a "
        "channel that is left out is as its company says. Written as a whole."
    )
    success: dict[Action, dict[str, Any]] = Field(
        description="Actions after a success or a warning, by their names."
    )
    fail: dict[Action, dict[str, Any]] = Field(
        description="Actions after an error, by their names."
    )
    env: dict[str, str] = Field(
        title="Environment",
        description="Values by environment key; secret ones are masked in answers. null removes a "
        "value.",
    )
    credentials: list[int] = Field(
        description="The credentials whose values its jobs get; of one name the later one counts."
    )
    blocks: list[TemplateBlock] = Field(
        description="Blocks of other people in Prefect; naming them needs `system.config`."
    )
    prefect_url: str | None = Field(
        description="Its page in Prefect's UI; null: Prefect does not know of it yet."
    )
