"""What writers of rules are offered, as the document has it."""

from pydantic import BaseModel


class OfferedSelector(BaseModel):
    """A selector; `type` is that of a field, the format of a whole value, or `file`."""

    selector: str
    type: str
    description: str


class SuggestedMapping(BaseModel):
    """How values of one application's jobs could get to another one."""

    env_mapping: dict[str, str]
    flows: dict[str, str]
    selectors: dict[str, list[str]]


class SuggestedRule(BaseModel):
    """A rule as it would be written."""

    event_source_id: int | None = None
    runtemplate_source_id: int | None = None
    runtemplate_id: int
    evidence: str | None = None
    operation: str | None = None
    env_mapping: dict[str, str]


class Suggestion(BaseModel):
    """A rule for an event that the application of a run template consumes."""

    event: str
    description: str
    rule: SuggestedRule


class Suggestions(BaseModel):
    """Rules that could be written; nothing starts by them."""

    suggestions: list[Suggestion]


SHAPES: tuple[type[BaseModel], ...] = (OfferedSelector, SuggestedMapping, Suggestions)
