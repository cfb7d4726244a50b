"""Topics: a list, a page with the run templates that bear one, and a form."""

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


def bearers(topic: Record) -> dict[str, str]:
    """Return what chooses those that bear it: a company's topic counts in its company only."""
    owner = topic["company_id"]
    return {"topic": topic["name"]} | ({} if owner is None else {"company_id": str(owner)})


class TopicPages(RecordPages):
    """The pages of topics."""

    kind, new = KINDS["topic"], Text("New topic")
    columns = (name("topic"), "color", Column(Text("Description"), clipped("description")), OWNER)
    empty = Text("There is no topic yet. Run templates are found by the topics they bear.")
    about = (colour,)
    facts = (OWNER, "description")
    tables = (related_templates(bearers, (COMPANY,), Text("No run template bears it.")),)
    form = (FieldGroup(Text("Topic"), ("name", "description", "color")),)
    identity = ("name",)
    fixed = SHARED


router = TopicPages().router()
