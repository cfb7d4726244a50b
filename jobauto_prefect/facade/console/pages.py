"""All pages of the console; new ones are registered here."""

from fastapi import FastAPI

from jobauto_prefect.facade.console import page_response, parts_page, sign_in_page, start_page
from jobauto_prefect.facade.console.jobs import (
    job_list_page,
    job_page,
    log,
    selected_jobs,
    tasks,
    window_calendar,
    workers,
)
from jobauto_prefect.facade.console.records import (
    applications,
    audit,
    calendars,
    companies,
    credential_types,
    credentials,
    events,
    members,
    rules,
    sources,
    topics,
    users,
)
from jobauto_prefect.facade.console.run_templates import pages, run_form

PAGES = (
    *(page_response, sign_in_page, start_page),
    *(pages, run_form, job_list_page, selected_jobs, job_page, log, tasks, window_calendar),
    *(events, rules, sources, workers, parts_page, topics, calendars, applications, companies),
    *(members, credentials, credential_types, users, audit),
)
"""The modules that have routes."""


def add_pages(app: FastAPI) -> None:
    """Add the console's routes to the facade."""
    page_response.add_error_pages(app)
    for page in PAGES:
        app.router.routes.extend(page.router.routes)
