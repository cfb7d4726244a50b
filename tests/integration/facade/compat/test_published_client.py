"""The published Python client, 1.1.0, drives the service through every operation it offers.

It is older than the document the dialect follows. What it expects of an earlier one is listed by
name below; those operations succeed, too, and their answers are what the document says now.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import multiflexi_client
import pytest
from multiflexi_client.configuration import Configuration
from pydantic import ValidationError

from jobauto_prefect.facade.compat.translation import PREFIXES
from tests.support.records import ok
from tests.support.secrets import secret

PASSWORD = secret("long horse: battery 17")

APIS = ("AppApi", "CompanyApi", "DefaultApi", "GdprApi", "JobApi", "RuntemplateApi", "UserApi")
VARIANTS = ("_with_http_info", "_without_preload_content")

OUTDATED: Mapping[str, tuple[type[Exception], str]] = {
    "list_apps": (ValueError, "apps are an object by id, not an array"),
    "listjobs": (ValueError, "jobs are an object by id, not an array"),
    "list_run_templates": (ValueError, "run templates are an object by id, not an array"),
    "get_app_by_id": (ValidationError, "tags are one text, exit codes an object by code"),
    "set_app_by_id": (ValidationError, "tags are one text, exit codes an object by code"),
    "getjob_by_id": (ValidationError, "env is an object, launched_by a number"),
    "setjob_by_id": (ValidationError, "env is an object, launched_by a number"),
}
"""Operations whose answers the client can't read, with what it raises and why."""


@pytest.fixture(scope="session")
def migrated(migrate_once: Callable[[str], str]) -> tuple[str, str]:
    """One kind of database: what is tested here comes before any."""
    return "sqlite", migrate_once("sqlite")


@pytest.fixture
def published(
    facade_url: str,
    rest: httpx.Client,
    everything: dict[str, int],
) -> Iterator[Any]:
    """The client as its documents set it up, and the Authorization header where it sends none."""
    user = {"login": "program", "password": PASSWORD, "roles": ["super_admin"]}
    ok(rest.post("/user/", json=user), 201)
    ok(rest.post("/app/", json={"id": everything["app"], "tags": ["bank", "daily"]}), 201)
    signed = Configuration(host=f"{facade_url}{PREFIXES[0]}", username="program", password=PASSWORD)
    with multiflexi_client.ApiClient(signed) as client:
        client.set_default_header("Authorization", signed.get_basic_auth_token())
        yield client


def calls(ids: Mapping[str, int], token: str) -> dict[str, tuple[dict[str, Any], Any]]:
    """Every operation: what it is called with, and the type of what comes back."""
    models = multiflexi_client
    whole = {"suffix": "json", "limit": 20}
    page = {**whole, "offset": 0, "order": "-id"}
    change = models.UpdateRunTemplateByIdRequest(id=ids["runtemplate"], active=0, note="x")
    export = models.RequestDataExportPostRequest(action="status", format="json")
    exported = models.RequestDataExport200Response
    signing = {**whole, "username": "program", "password": PASSWORD}
    return {
        "list_apps": (page, dict),
        "get_app_by_id": ({**whole, "app_id": ids["app"]}, dict),
        "set_app_by_id": ({"app_id": ids["app"], "limit": 20}, dict),
        "list_companies": (page, models.Company),
        "get_company_by_id": ({**whole, "company_id": ids["company"]}, models.Company),
        "set_company_by_id": ({"company_id": ids["company"], "limit": 20}, models.Company),
        "listjobs": (page, dict),
        "getjob_by_id": ({**whole, "job_id": ids["job"]}, dict),
        "setjob_by_id": ({"job_id": ids["job"], "limit": 20}, dict),
        "list_run_templates": (page, dict),
        "get_run_template_by_id": (
            {**whole, "run_template_id": ids["runtemplate"]},
            models.RunTemplate,
        ),
        "set_run_template_by_id": (
            {"run_template_id": ids["runtemplate"], "limit": 20},
            models.RunTemplate,
        ),
        "update_run_template_by_id": (
            {
                **whole,
                "run_template_id": ids["runtemplate"],
                "update_run_template_by_id_request": change,
            },
            models.RunTemplate,
        ),
        "list_users": (page, models.User),
        "get_user_by_id": ({**whole, "user_id": ids["user"]}, models.User),
        "set_user_by_id": ({"user_id": ids["user"], "limit": 20}, models.User),
        "get_all_credential_types": (page, models.CredentialType),
        "get_credential_type": (
            {**whole, "credential_type_id": ids["credential_type"]},
            models.GetCredentialType200Response,
        ),
        "update_credential_type": (
            {**whole, "credential_type_id": ids["credential_type"]},
            models.GetCredentialType200Response,
        ),
        "get_all_topics": (page, models.Topic),
        "get_topic": ({**whole, "topic_id": ids["topic"]}, models.GetTopic200Response),
        "update_topic": ({**whole, "topic_id": ids["topic"]}, models.GetTopic200Response),
        "get_all_user_credentials": (page, models.Credential),
        "get_credential": (
            {**whole, "token": "", "credential_id": ids["credential"]},
            models.Credential,
        ),
        "update_credentials": (
            {**whole, "token": "", "credential_id": ids["credential"]},
            models.UpdateCredentials201Response,
        ),
        "status_suffix_get": (whole, models.Status),
        "get_jobs_status": (whole, models.JobsStatus),
        "request_data_export": ({"action": "export", "format": "json"}, exported),
        "request_data_export_post": ({"request_data_export_post_request": export}, exported),
        "download_data_export": ({"token": "any"}, models.DataExportData),
        "get_api_index": (whole, type(None)),
        "ping_suffix_get": (whole, type(None)),
        "root_get": ({"limit": 20}, type(None)),
        "login_suffix_get": (signing, type(None)),
        "login_suffix_post": (signing, type(None)),
        "logout_post": (
            {"logout_post_request": models.LogoutPostRequest(token=token)},
            type(None),
        ),
    }


def offered(client: Any) -> dict[str, Any]:
    """The operations of all its classes."""
    return {
        name: getattr(api, name)
        for api in (getattr(multiflexi_client, name)(client) for name in APIS)
        for name in dir(api)
        if not name.startswith("_") and not name.endswith(VARIANTS) and name != "api_client"
    } | {
        f"{name}{variant}": getattr(api, f"{name}{variant}")
        for api in (getattr(multiflexi_client, name)(client) for name in APIS)
        for name in dir(api)
        for variant in VARIANTS
        if hasattr(api, f"{name}{variant}")
    }


def test_every_operation_works_and_what_it_misreads_is_known(
    published: Any,
    everything: dict[str, int],
) -> None:
    operations = offered(published)
    table = calls(everything, sign_in(operations))
    assert {name for name in operations if not name.endswith(VARIANTS)} == set(table)
    for name, (arguments, expected) in table.items():
        if name in OUTDATED:
            with pytest.raises(OUTDATED[name][0]):
                operations[name](**arguments)
            answer = operations[f"{name}_without_preload_content"](**arguments)
            assert answer.status in (200, 201), name
            assert isinstance(json.loads(answer.data), expected), name
        else:
            found = operations[name](**arguments)
            for one in found if isinstance(found, list) else [found]:
                assert isinstance(one, expected), name
            assert found != [], name


def sign_in(operations: dict[str, Any]) -> str:
    """A token; the client reads none of what signing in answers."""
    answer = operations["login_suffix_post_without_preload_content"](
        suffix="json", username="program", password=PASSWORD
    )
    token: str = json.loads(answer.data)["token"]
    return token


def test_its_models_hold_what_the_service_holds(
    published: Any,
    everything: dict[str, int],
) -> None:
    operations = offered(published)
    (company,) = operations["list_companies"]("json")
    assert (company.code, company.enabled, company.name) == ("acme", True, "Acme")
    assert company.dat_create is not None
    template = operations["get_run_template_by_id"](everything["runtemplate"], "json")
    assert (template.app_id, template.active, template.interv) == (everything["app"], True, "n")
    credential = operations["get_credential"]("", everything["credential"], "json")
    assert (credential.type, credential.value) == ("password", None)
    status = operations["status_suffix_get"]("json")
    assert (status.companies, status.credentialtypes) == (1, 1)
    (topic,) = operations["get_all_topics"]("json")
    assert topic.color == "#00ff00"


def test_its_errors_are_those_of_the_document(
    published: Any,
    everything: dict[str, int],
) -> None:
    operations = offered(published)
    with pytest.raises(multiflexi_client.exceptions.NotFoundException):
        operations["get_company_by_id"](99999, "json")
    other = multiflexi_client.UpdateRunTemplateByIdRequest(id=99, active=1)
    with pytest.raises(multiflexi_client.exceptions.BadRequestException) as refused:
        operations["update_run_template_by_id"](everything["runtemplate"], "json", other)
    refusal = refused.value.data
    assert refusal is not None
    assert (refusal.error, refusal.expected) == ("ID mismatch", everything["runtemplate"])


def test_where_it_sends_no_credentials_by_itself_it_is_refused(
    facade_url: str,
    everything: dict[str, int],
) -> None:
    configured = Configuration(
        host=f"{facade_url}{PREFIXES[0]}", username="program", password=PASSWORD
    )
    with multiflexi_client.ApiClient(configured) as client:
        for name in ("get_all_topics", "status_suffix_get", "get_jobs_status", "get_api_index"):
            with pytest.raises(multiflexi_client.exceptions.UnauthorizedException):
                offered(client)[name]("json")
