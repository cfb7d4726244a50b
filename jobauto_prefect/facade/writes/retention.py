"""The field `retention` of companies and run templates: how long data of their jobs is kept."""

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
    """Retention limits; 0: no limit. If a limit is left out, the company's or the service's limit
    applies.

    `jobs_count` is the number of ended jobs of each run template; the other limits are days.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    jobs_days: Annotated[Days, Field(description="Days to keep an ended job.")]
    jobs_count: Annotated[
        Count, Field(description="How many ended jobs of a run template to keep.")
    ]
    output_days: Annotated[
        Days, Field(description="Days to keep the output and artifacts of an ended job.")
    ]
    runs_days: Annotated[
        Days,
        Field(description="Days to keep an ended job's flow run and its logs in Prefect."),
    ]
    tasks_days: Annotated[Days, Field(description="Days after its deadline to keep an ended task.")]


class CompanyRetentionBody(RetentionBody, total=False):
    """Retention limits of a company: those of its run templates, and of its events."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    events_days: Annotated[
        Days, Field(description="Days to keep an event with its deliveries and actions.")
    ]


def authorize_retention(
    write: WriteRequest, record: Company | RunTemplate, body: Any, company_id: int
) -> None:
    """Require the permission to delete jobs for a change of retention limits.

    Raises:
        Forbidden: the user lacks it.
    """
    given = body.retention if "retention" in body.model_fields_set else record.retention
    if (given or {}) != (record.retention or {}) and not write.who.rights.may(
        "jobs.delete", company_id
    ):
        raise Forbidden(
            "retention deletes jobs, so changing it needs the permission jobs.delete; leave it as "
            "it is, or ask an administrator"
        )
