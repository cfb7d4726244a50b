"""The records of event sources and event rules, as responses show them."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from jobauto_prefect.facade.models.common import Labelled

Operation = Literal["any", "create", "update", "delete"]


class EventSource(Labelled):
    """A database that webhooks write changes into; its password is masked."""

    name: str = Field(description="The name for people.")
    company_id: int | None = Field(description="The company.")
    adapter_type: str = Field(description="What writes the changes into the database.")
    db_connection: Literal["mysql", "pgsql", "sqlite"] = Field(description="The kind of database.")
    db_host: str = Field(description="Its host.")
    db_port: str = Field(description="Its port; empty in a body means the usual one.")
    db_database: str = Field(description="Name of the database; of SQLite the path of its file.")
    db_username: str | None = Field(description="Its user.")
    db_password: Literal["********"] | None = Field(
        description="Its password, masked in answers; blank or masked: stays as it is."
    )
    enabled: bool = Field(description="Whether it may be used.")
    poll_interval: int = Field(description="Seconds between two looks.")
    consume: Literal["delete", "keep"] = Field(
        description="What becomes of changes that were stored: they are deleted from the adapter "
        "database, or kept."
    )
    last_processed_id: int = Field(
        description="The highest change that was read; written: the one to begin after."
    )
    poll_error: str | None = Field(description="Why the last look failed; null: it did not.")
    polled_at: datetime | None = Field(description="When it was last looked at; null: never.")


class EventRule(Labelled):
    """What a change, or the end of another run template, starts."""

    event_source_id: int | None = Field(description="The event source whose changes it reacts to.")
    runtemplate_source_id: int | None = Field(
        title="After run template", description="The run template whose end it reacts to."
    )
    runtemplate_id: int = Field(description="The run template.")
    evidence: str | None = Field(description="The kind of record whose changes count; null: any.")
    operation: Operation = Field(description="Which changes count.")
    on: Literal["success", "warning", "failure", "any"] = Field(description="Which ends count.")
    fan_out: bool = Field(
        description="Whether there is a job for each element of the one list among the mapped "
        "values."
    )
    enabled: bool = Field(description="Whether it may be used.")
    priority: int = Field(description="Rules with a higher one come first.")
    env_mapping: dict[str, Any] = Field(
        description="Environment key to selector in the event. Read: an object; written: an "
        "object, or the JSON text of one."
    )
    prefect_url: str | None = Field(
        description="The page of its automation in Prefect's UI; null: Prefect does not know of it "
        "yet."
    )
