"""Topics: the list, the page of one with its run templates, and its form."""

from jobauto_prefect.facade.console.records.cells import (
    COMPANY,
    OWNER,
    Column,
    Record,
    clipped,
    colour,
    name,
)
from jobauto_prefect.facade.console.records.forms import FieldGroup
from jobauto_prefect.facade.console.records.pages import SHARED, RecordPages, related_templates
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.kinds import KINDS


def _templates_with(topic: Record) -> dict[str, str]:
    """Return the query for the run templates with a topic; a company's topic applies only there."""
    owner = topic["company_id"]
    return {"topic": topic["name"]} | ({} if owner is None else {"company_id": str(owner)})


class TopicPages(RecordPages):
    """The pages of topics."""

    kind, new = KINDS["topic"], Text("New topic")
    columns = (name("topic"), "color", Column(Text("Description"), clipped("description")), OWNER)
    empty = Text("There are no topics yet. Topics group run templates.")
    about = (colour,)
    facts = (OWNER, "description")
    tables = (
        related_templates(_templates_with, (COMPANY,), Text("No run template has this topic.")),
    )
    form = (FieldGroup(Text("Topic"), ("name", "description", "color")),)
    identity = ("name",)
    fixed = SHARED


router = TopicPages().router()
