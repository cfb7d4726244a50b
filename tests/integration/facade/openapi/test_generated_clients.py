"""Two public generators make clients of the served document: every operation, without a warning.

Each client drives the tutorial: a company, an application, a run template, a job.
"""

import importlib
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx2 import Client

from jobauto_prefect.facade.openapi.schemas import load_examples
from jobauto_prefect.ledger.store import Ledger
from tests.support.servers import user_token

GENERATOR = "openapi-python-client==0.29.1"
"""Its package asks for an older typer than there is, and works with this one."""

Call = Callable[..., Any]
"""Calls an operation of a client: its id, the schema of its body, the body, and parameters."""


@pytest.fixture(scope="session")
def migrated(migrate_once: Callable[[str], str]) -> tuple[str, str]:
    """One kind of database: what is tested here comes before any."""
    return "sqlite", migrate_once("sqlite")


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the generator and nothing else."""
    folder = tmp_path_factory.mktemp("generator")
    run("pip", "install", "--quiet", "--no-deps", "--target", str(folder), GENERATOR)
    return folder


@pytest.fixture
def served(rest: httpx.Client) -> dict[str, Any]:
    """The document, as the service sends it."""
    document: dict[str, Any] = rest.get("/openapi.json").json()
    return document


def run(*module: str, **environment: str) -> str:
    """What a module of this Python writes; it must succeed."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", *module],
        env={**os.environ, "PATH": programs, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def operation_ids(document: dict[str, Any]) -> dict[str, str]:
    """The operations, each with the group it is shown in."""
    return {
        operation["operationId"]: operation["tags"][0]
        for methods in document["paths"].values()
        for operation in methods.values()
    }


def drive_tutorial(call: Call) -> None:
    """Make what the tutorial makes, and read it."""
    company = call("writeCompany", "CompanyBody", {"slug": "acme", "name": "Acme"})
    example = load_examples()["ApplicationBody"]
    app = call("writeApplication", "ApplicationBody", example)
    template = {"name": "daily", "company_id": company.id, "app_id": app.id}
    runtemplate = call("writeRunTemplate", "TemplateBody", template)
    job = call("writeJob", "JobBody", {"runtemplate_id": runtemplate.id, "note": "by hand"})
    assert (company.created, app.created, runtemplate.created, job.created) == (True,) * 4
    read = call("getJob", jobId=job.id, suffix="json")
    assert (read.id, read.note, read.runtemplate_id) == (job.id, "by hand", runtemplate.id)
    assert call("getApplication", appId=app.id, suffix="json").id == app.id
    for listed, made in (
        ("listCompanies", company), ("listApplications", app), ("listRunTemplates", runtemplate),
        ("listJobs", job),
    ):  # fmt: skip
        records = call(listed, suffix="json")
        assert str(made.id) in records, listed
        assert records[str(made.id)].id == made.id, listed


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).replace(" ", "_").lower()


def test_openapi_python_client(
    served: dict[str, Any],
    generator: Path,
    facade_url: str,
    ledger: Ledger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(served))
    said = run(
        "openapi_python_client", "generate", "--path", str(document), "--meta", "none",
        "--output-path", str(tmp_path / "generated_client"), "--fail-on-warning",
        PYTHONPATH=str(generator),
    )  # fmt: skip
    assert "warning" not in said.lower()
    monkeypatch.syspath_prepend(tmp_path)
    models = importlib.import_module("generated_client.models")
    operations = {
        name: importlib.import_module(f"generated_client.api.{snake(group)}.{snake(name)}")
        for name, group in operation_ids(served).items()
    }
    client = importlib.import_module("generated_client").AuthenticatedClient(
        f"{facade_url}/api/v1", user_token(ledger, "program"), raise_on_unexpected_status=True
    )

    def call(
        operation: str, kind: str = "", body: dict[str, Any] | None = None, **parameters: Any
    ) -> Any:
        given = {"body": getattr(models, kind).from_dict(body)} if body else {}
        if "suffix" in parameters:
            suffix = f"{operation[0].upper()}{operation[1:]}Suffix"
            given["suffix"] = getattr(models, suffix)(parameters.pop("suffix"))
        given |= {snake(name): value for name, value in parameters.items()}
        return operations[operation].sync(client=client, **given)

    drive_tutorial(call)


def test_aiopenapi3(served: dict[str, Any], facade_url: str, ledger: Ledger) -> None:
    from aiopenapi3 import OpenAPI  # takes a second to import

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        address = f"{facade_url}/api/v1/openapi.json"
        client = OpenAPI(address, served, session_factory=Client, use_operation_tags=False)
    assert set(client._) == set(operation_ids(served))
    client.authenticate(bearer=user_token(ledger, "program"))

    def call(
        operation: str, kind: str = "", body: dict[str, Any] | None = None, **parameters: Any
    ) -> Any:
        return getattr(client._, operation)(parameters=parameters, data=body)

    drive_tutorial(call)
