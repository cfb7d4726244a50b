"""The field `retention` of companies and run templates: how long what their jobs leave is kept."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict  # pydantic reads the standard one from Python 3.12 on

from jobauto_prefect.definitions.records.retention import LONGEST_DAYS, NO_BOUND
from jobauto_prefect.errors import Forbidden
from jobauto_prefect.facade.http.field_types import READ_INTEGER, OrText
from jobauto_prefect.facade.writes.base import WriteRequest
from jobauto_prefect.ledger.records import Company, RunTemplate

Days = Annotated[
    int, Field(ge=NO_BOUND, le=LONGEST_DAYS), READ_INTEGER, OrText(r"^(0|[1-9][0-9]{0,4})$")
]
Count = Annotated[int, Field(ge=NO_BOUND, le=10**9), READ_INTEGER, OrText(r"^(0|[1-9][0-9]{0,8})$")]


class RetentionBody(TypedDict, total=False):
    """Bounds of what is kept, 0 for none; what is left out is as the company or the settings say.

    `jobs_count` is the number of ended jobs of each run template, the others are days.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    jobs_days: Annotated[Days, Field(description="Days an ended job is kept.")]
    jobs_count: Annotated[Count, Field(description="Ended jobs of a run template that are kept.")]
    output_days: Annotated[
        Days, Field(description="Days output and artifacts of an ended job are kept.")
    ]
    runs_days: Annotated[
        Days,
        Field(description="Days Prefect keeps the flow run of an ended job, and its logs."),
    ]
    tasks_days: Annotated[Days, Field(description="Days after its deadline an ended task is kept.")]


class CompanyRetentionBody(RetentionBody, total=False):
    """Bounds of what is kept of a company: those of its run templates, and of its events."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    events_days: Annotated[
        Days, Field(description="Days an event is kept, with its deliveries and actions.")
    ]


def authorize_retention(
    write: WriteRequest, record: Company | RunTemplate, body: Any, company_id: int
) -> None:
    """Require that who changes the bounds of a record may delete the jobs that go by them.

    Raises:
        Forbidden: they may not.
    """
    given = body.retention if "retention" in body.model_fields_set else record.retention
    if (given or {}) != (record.retention or {}) and not write.who.rights.may(
        "jobs.delete", company_id
    ):
        raise Forbidden(
            "retention deletes jobs: to change it needs the permission jobs.delete; leave it as it "
            "is, or ask an administrator"
        )
