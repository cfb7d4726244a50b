"""All pages of the console: who adds one adds it here."""

from fastapi import FastAPI

from jobauto_prefect.facade.console import page_response, sign_in_page, start_page
from jobauto_prefect.facade.console.activity import (
    audit_pages,
    event_pages,
    rule_form_page,
    rules,
    source_pages,
    worker_pages,
)
from jobauto_prefect.facade.console.definitions import (
    calendar_pages,
    credential_type_pages,
    topic_pages,
)
from jobauto_prefect.facade.console.jobs import job_list_page, job_page, log_page, selected_jobs
from jobauto_prefect.facade.console.records import (
    application_pages,
    company_pages,
    credential_pages,
    member_pages,
    token_pages,
    user_pages,
)
from jobauto_prefect.facade.console.run_templates import (
    run_form_page,
    template_form_page,
    template_list_page,
    template_page,
)
from jobauto_prefect.facade.console.tasks import calendar, task_list_page, task_page

PAGES = (
    page_response,
    sign_in_page,
    start_page,
    template_list_page,
    template_page,
    run_form_page,
    template_form_page,
    job_list_page,
    selected_jobs,
    job_page,
    log_page,
    application_pages,
    company_pages,
    credential_pages,
    member_pages,
    task_list_page,
    task_page,
    calendar,
    event_pages,
    rules,
    rule_form_page,
    source_pages,
    worker_pages,
    topic_pages,
    calendar_pages,
    credential_type_pages,
    audit_pages,
    token_pages,
    user_pages,
)
"""The modules that have routes."""


def add_pages(app: FastAPI) -> None:
    """Add the console's routes to the facade."""
    page_response.add_error_pages(app)
    for page in PAGES:
        app.router.routes.extend(page.router.routes)
