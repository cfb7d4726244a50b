"""Who may open which page of the console, and send which of its forms."""

import re

from tests.support.permission_table import (
    CREATORS,
    EDITORS,
    OWNERS,
    PEOPLE,
    READERS,
    SIGNED_IN,
    WIDE,
)

OWNERS_SOMEWHERE = OWNERS | {"member admin elsewhere"}
CREATORS_SOMEWHERE = (CREATORS | OWNERS_SOMEWHERE) | {
    "editor elsewhere",
    "user elsewhere",
    "managing member elsewhere",
}

CONSOLE: dict[tuple[str, str], set[str]] = {
    ("GET", "/"): SIGNED_IN,
    ("GET", "/console"): SIGNED_IN,
    ("GET", "/console/"): SIGNED_IN,
    ("GET", "/login.html"): set(PEOPLE),
    ("POST", "/login.html"): set(PEOPLE),
    ("POST", "/logout"): set(PEOPLE),
    ("GET", "/console/static/htmx.js"): SIGNED_IN,
    ("GET", "/console/runtemplates"): SIGNED_IN,
    ("GET", "/console/runtemplates/{runtemplate:int}"): READERS,
    ("POST", "/console/runtemplates/{runtemplate:int}/pause"): CREATORS,
    ("POST", "/console/runtemplates/{runtemplate:int}/resume"): CREATORS,
    ("GET", "/console/runtemplates/{runtemplate:int}/run"): CREATORS,
    ("POST", "/console/runtemplates/{runtemplate:int}/run"): CREATORS,
    ("GET", "/console/runtemplates/{runtemplate:int}/edit"): CREATORS,
    ("POST", "/console/runtemplates/{runtemplate:int}/edit"): CREATORS,
    ("GET", "/console/events"): SIGNED_IN,
    ("GET", "/console/events/{event:int}"): READERS,
    ("POST", "/console/events/{event:int}/replay"): EDITORS,
    ("GET", "/console/rules"): SIGNED_IN,
    ("GET", "/console/rules/new"): CREATORS_SOMEWHERE,
    ("POST", "/console/rules/new"): CREATORS_SOMEWHERE,
    ("GET", "/console/rules/{eventrule:int}"): READERS,
    ("GET", "/console/rules/{eventrule:int}/edit"): CREATORS,
    ("POST", "/console/rules/{eventrule:int}/edit"): CREATORS,
    ("GET", "/console/sources"): SIGNED_IN,
    ("GET", "/console/sources/new"): OWNERS_SOMEWHERE,
    ("POST", "/console/sources/new"): WIDE,  # without a company it is shared
    ("GET", "/console/sources/{eventsource:int}"): READERS,
    ("GET", "/console/sources/{eventsource:int}/edit"): EDITORS,
    ("POST", "/console/sources/{eventsource:int}/edit"): EDITORS,
    ("POST", "/console/sources/{eventsource:int}/test"): EDITORS,
    ("GET", "/console/workers"): SIGNED_IN,
    ("GET", "/console/workers/{worker:path}"): READERS,
    ("GET", "/console/workers/{worker:path}/lost"): WIDE,
    ("POST", "/console/workers/{worker:path}/lost"): WIDE,
    ("GET", "/console/parts"): WIDE,
    ("GET", "/console/topics"): SIGNED_IN,
    ("GET", "/console/topics/{topic:int}"): SIGNED_IN,
    ("GET", "/console/topics/{topic:int}/edit"): WIDE,
    ("POST", "/console/topics/{topic:int}/edit"): WIDE,
    ("GET", "/console/topics/new"): WIDE,
    ("POST", "/console/topics/new"): WIDE,
    ("GET", "/console/calendars"): SIGNED_IN,
    ("GET", "/console/calendars/{calendar:int}"): SIGNED_IN,
    ("GET", "/console/calendars/{calendar:int}/edit"): WIDE,
    ("POST", "/console/calendars/{calendar:int}/edit"): WIDE,
    ("GET", "/console/calendars/new"): WIDE,
    ("POST", "/console/calendars/new"): WIDE,
    ("GET", "/console/credentialtypes"): SIGNED_IN,
    ("GET", "/console/credentialtypes/{credential_type:int}"): SIGNED_IN,
    ("GET", "/console/credentialtypes/{credential_type:int}/edit"): WIDE,
    ("POST", "/console/credentialtypes/{credential_type:int}/edit"): WIDE,
    ("GET", "/console/credentialtypes/new"): WIDE,
    ("POST", "/console/credentialtypes/new"): WIDE,
    ("GET", "/console/audit"): SIGNED_IN,
    ("GET", "/console/audit/{entry:int}"): WIDE,
    ("GET", "/console/users"): SIGNED_IN,
    ("GET", "/console/users/{user:int}/tokens"): WIDE,
    ("POST", "/console/users/{user:int}/tokens"): {"super_admin"},
    ("POST", "/console/users/{user:int}/tokens/{token:int}/revoke"): WIDE,
    ("GET", "/console/users/{user:int}/password"): set(),  # it is for one's own
    ("POST", "/console/users/{user:int}/password"): set(),
    ("GET", "/console/users/new"): WIDE,
    ("POST", "/console/users/new"): WIDE,
    ("GET", "/console/users/{user:int}"): WIDE,
    ("GET", "/console/users/{user:int}/edit"): WIDE,
    ("POST", "/console/users/{user:int}/edit"): WIDE,
    ("GET", "/console/runtemplates/new"): EDITORS,
    ("POST", "/console/runtemplates/new"): EDITORS,
    ("GET", "/console/jobs/{job_id:int}"): READERS,
    ("GET", "/console/jobs/{job_id:int}/log"): READERS,
    ("GET", "/console/jobs/{job_id:int}/log.txt"): READERS,
    ("POST", "/console/jobs/{job_id:int}/cancel"): EDITORS,
    ("POST", "/console/jobs/{job_id:int}/retry"): READERS,  # to whom it says that the job waits
    ("POST", "/console/jobs/{job_id:int}/excuse"): set(),  # the job is for no window
    ("GET", "/console/artifacts/{artifact_id:int}"): READERS,
    ("GET", "/console/tasks"): SIGNED_IN,
    ("GET", "/console/tasks/calendar"): SIGNED_IN,
    ("GET", "/console/tasks/{task_id:int}"): READERS,
    ("POST", "/console/tasks/{task_id:int}/retry"): EDITORS,
    ("POST", "/console/tasks/{task_id:int}/excuse"): READERS,  # to whom it says: with a reason
    ("GET", "/console/companies"): SIGNED_IN,
    ("GET", "/console/companies/{company:int}"): READERS,
    ("GET", "/console/companies/{company:int}/edit"): EDITORS,
    ("POST", "/console/companies/{company:int}/edit"): EDITORS,
    ("GET", "/console/companies/new"): WIDE,
    ("POST", "/console/companies/new"): WIDE,
    ("GET", "/console/members"): OWNERS,
    ("POST", "/console/members"): OWNERS,
    ("GET", "/console/credentials"): SIGNED_IN,
    ("GET", "/console/credentials/{credential:int}"): READERS,
    ("GET", "/console/credentials/{credential:int}/edit"): EDITORS,
    ("POST", "/console/credentials/{credential:int}/edit"): EDITORS,
    ("GET", "/console/credentials/new"): OWNERS,
    ("POST", "/console/credentials/new"): OWNERS,
    ("GET", "/console/applications"): SIGNED_IN,
    ("GET", "/console/applications/{app:int}"): SIGNED_IN,
    ("GET", "/console/jobs"): SIGNED_IN,
    ("POST", "/console/jobs/searches/add"): SIGNED_IN,
    ("POST", "/console/jobs/searches/remove"): SIGNED_IN,
    ("POST", "/console/jobs/selected"): SIGNED_IN,  # it says that nothing was selected
}
"""The console's own routes, and who may.

`{kind:int}`, `{kind_id:int}`, `{kind:path}`: the company's record.
"""

CONSOLE_QUERIES = {
    "/console/events/{event:int}/replay": "eventrule_id={eventrule}",
    "/console/members": "company_id={company}",
    "/console/runtemplates/new": "company_id={company}&app_id={app}",
    "/console/credentials/new": "company_id={company}&credential_type_id={credential_type}",
}
"""With which queries they are asked."""


def console_address(path: str, ids: dict[str, int]) -> str:
    """The address of a route of the console."""
    query = CONSOLE_QUERIES.get(path)
    whole = re.sub("(_id)?:(int|path)}", "}", path) + (f"?{query}" if query else "")
    return whole.format(**ids)
