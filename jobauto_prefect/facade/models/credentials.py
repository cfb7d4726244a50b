"""The records of credentials and their types, as responses show them."""

from typing import Any

from pydantic import BaseModel, Field

from jobauto_prefect.facade.models.common import Labelled

Localized = str | dict[str, str]


class CredentialTypeField(BaseModel):
    """One field of a credential type; `keyword` is the environment key it fills."""

    keyword: str = Field(description="The environment key.")
    type: str = Field(description="The type of the value.")
    name: Localized | None = Field(default=None, description="The name for people.")
    description: Localized | None = Field(default=None, description="What it is for.")
    hint: Localized | None = Field(
        default=None,
        description="An example or advice for the person who fills it in.",
    )
    default_value: Any = Field(default=None, description="Used where a credential says nothing.")
    required: bool = Field(description="Whether it must have a value.")
    options: dict[str, Any] | list[Any] | None = Field(
        default=None,
        description="The values to choose from: an object of value and label, or an array of "
        "values.",
    )


class Availability(BaseModel):
    """How to find out whether what a credential opens is there."""

    url: str | None = Field(
        default=None,
        description="It is there when this answers with 2xx; `{KEYWORD}` is a field.",
    )
    command: list[str] | None = Field(
        default=None,
        description="It is there when this argument vector ends with 0.",
    )
    timeout_seconds: float = Field(description="Seconds until it counts as not there.")
    retry_seconds: float = Field(description="Seconds until a job that waits asks again.")


class CredentialType(Labelled):
    """A kind of credential: which values it has, and which of them are secret."""

    company_id: int | None = Field(
        description="The company it belongs to, and whose run templates alone use it; null: it is "
        "shared."
    )
    uuid: str | None = Field(description="Identifies it in all installations.")
    code: str = Field(description="Short name, unique.")
    name: str = Field(description="The name for people.")
    description: str | None = Field(description="What it is for.")
    version: str | None = Field(description="Its version.")
    url: str | None = Field(description="Address of what it signs in to.")
    homepage: str | None = Field(description="Where it is at home.")
    logo: str | None = Field(description="An image: its address, or a data URL.")
    translations: dict[str, dict[str, str]] = Field(
        description="The texts in several languages: field, language, text."
    )
    tags: list[str] = Field(description="Keywords.")
    fields: list[CredentialTypeField] = Field(description="Its fields.")
    availability: Availability | None = Field(
        description="How to find out whether what a credential opens is there; null: it always is."
    )
    source: str | None = Field(
        description="Where further values come from when a job starts; null: there are none."
    )
    stock: bool = Field(
        description="Whether it came with the first start, and nobody has written it since."
    )
    prefect_url: str | None = Field(
        description="The page of its block type in Prefect's UI; null: Prefect does not know of it "
        "yet."
    )


class Credential(Labelled):
    """Values of a credential type that belong to a company; secret ones are masked."""

    name: str = Field(description="The name for people.")
    company_id: int = Field(description="The company.")
    credential_type_id: int = Field(description="The credential type.")
    max_jobs: int | None = Field(
        description="How many jobs may use it at a time; null: as many as like."
    )
    values: dict[str, str] = Field(
        description="Its values by keyword; secret ones are masked in answers, and blank or "
        "masked ones stay as they are."
    )
    prefect_url: str | None = Field(
        description="The page of its block in Prefect's UI; null: Prefect does not know of it yet."
    )
