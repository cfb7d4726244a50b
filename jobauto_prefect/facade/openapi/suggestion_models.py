"""What writers of rules are offered, as the document has it."""

from pydantic import BaseModel, Field

from jobauto_prefect.facade.kinds.applications import OfferedSelector


class SuggestedMapping(BaseModel):
    """How values of one application's jobs could get to another one."""

    env_mapping: dict[str, str] = Field(
        description="Environment key to selector in the event. Read: an object; written: an "
        "object, or the JSON text of one."
    )
    flows: dict[str, str] = Field(
        description="Environment key to what it gets without a mapping, by `consumes`."
    )
    selectors: dict[str, list[str]] = Field(
        description="Environment key to the selectors that fit it, the most useful first."
    )


class SuggestedRule(BaseModel):
    """A rule as it would be written."""

    event_source_id: int | None = Field(
        default=None,
        description="The event source whose changes it reacts to.",
    )
    runtemplate_source_id: int | None = Field(
        default=None,
        description="The run template whose end it reacts to.",
    )
    runtemplate_id: int = Field(description="The run template.")
    evidence: str | None = Field(
        default=None,
        description="The kind of record whose changes count; null: any.",
    )
    operation: str | None = Field(default=None, description="Which changes count.")
    env_mapping: dict[str, str] = Field(
        description="Environment key to selector in the event. Read: an object; written: an "
        "object, or the JSON text of one."
    )


class Suggestion(BaseModel):
    """A rule for an event that the application of a run template consumes."""

    event: str = Field(description="The event that the application consumes.")
    description: str = Field(description="What it is for.")
    rule: SuggestedRule = Field(description="What to write to `/eventrule/`.")


class Suggestions(BaseModel):
    """Rules that could be written; nothing starts by them."""

    suggestions: list[Suggestion] = Field(description="The rules.")


SHAPES: tuple[type[BaseModel], ...] = (OfferedSelector, SuggestedMapping, Suggestions)
