"""The records of topics, as responses show them."""

from pydantic import Field

from jobauto_prefect.facade.models.common import Labelled


class Topic(Labelled):
    """A tag with a colour."""

    company_id: int | None = Field(
        description="The company it belongs to, and whose run templates alone use it; null: it is "
        "shared."
    )
    name: str = Field(description="The name for people.")
    description: str | None = Field(description="What it is for.")
    color: str = Field(title="Colour", description="Six hexadecimal digits.")
    prefect_url: str = Field(
        description="Its page in Prefect's UI; null: Prefect does not know of it yet."
    )
