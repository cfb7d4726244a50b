"""Credentials that name values instead of holding them, and the stock credential types."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from jobauto_prefect.facade.stock_credential_types import add_stock_types, load_stock_types
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import CredentialType, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources import external_values
from tests.support.claims import DEPLOYMENT, claim_of, granted, refused
from tests.support.definitions import PROBE
from tests.support.ledger_rows import entries, fetch_all
from tests.support.records import make_template, post
from tests.support.secrets import secret
from tests.support.vault import ROLE, TOKEN, Vault, vault

PIN = secret("p1n-in-a-file")
CONTENT = f"BANK_PIN='{PIN}' # of the bank\nexport BANK_USER=anna\nHOME_OF=${{HOME}}\nOTHER=1\n"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vault]:
    """A vault that may take long for an answer."""
    monkeypatch.setattr(external_values, "SECONDS", 60)
    with vault() as running:
        yield running


@pytest.fixture
def ledger_settings(ledger_settings: Settings, tmp_path: Path, store: Vault) -> Settings:
    """The files of the first company and one vault may be named."""
    (tmp_path / "env" / "1").mkdir(parents=True)
    (tmp_path / "env" / "1" / "bank.env").write_text(CONTENT)
    named = {"env_files": (str(tmp_path / "env" / "{company_id}"),), "vaults": (store.url,)}
    return ledger_settings.model_copy(update=named)


@pytest.fixture
def types(rest: httpx.Client, ledger: Ledger, ledger_settings: Settings) -> None:
    """The stock types."""
    assert add_stock_types(ledger, ledger_settings)


@pytest.fixture
def reading_template(rest: httpx.Client, ledger: Ledger, types: None) -> dict[str, Any]:
    """Of an application that declares two of the names, and requires three stock types."""
    made = make_template(rest, name="reading")
    app = rest.get(f"/app/{made['app_id']}.json").json()
    definition = {key: app[key] for key in PROBE}
    definition["requirements"] = ["EnvFile", "Vault", "AbraFlexi"]
    definition["environment"] |= {"BANK_USER": {}, "BANK_PIN": {"type": "password"}, "HOME_OF": {}}
    rest.post("/app/", json={**definition, "uuid": app.get("uuid")})
    with ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, made["id"]).deployment_id = DEPLOYMENT
    return made


def name_file(rest: httpx.Client, reading_template: dict[str, Any], path: Path) -> None:
    values = {"ENV_FILE_PATH": str(path)}
    members = {"company": "acme", "credential_type": "EnvFile", "name": "File", "values": values}
    post(rest, "/credential/", **members)
    post(rest, f"/runtemplate/{reading_template['id']}.json", credentials=["File"])


def name_secret(
    rest: httpx.Client, reading_template: dict[str, Any], store: Vault, **values: str
) -> dict[str, Any]:
    values = {"VAULT_ADDR": store.url, "VAULT_PATH": "acme/bank", **values}
    members = {"company": "acme", "credential_type": "Vault", "name": "Vault", "values": values}
    made = post(rest, "/credential/", **members)
    post(rest, f"/runtemplate/{reading_template['id']}.json", credentials=["Vault"])
    return made


def test_a_job_is_given_the_declared_values_of_a_file_and_they_are_kept_nowhere(
    rest: httpx.Client,
    claims: httpx.Client,
    reading_template: dict[str, Any],
    tmp_path: Path,
    ledger_settings: Settings,
) -> None:
    name_file(rest, reading_template, tmp_path / "env" / "1" / "bank.env")
    environment = granted(claims, claim_of())["environment"]
    assert (environment["BANK_PIN"], environment["BANK_USER"]) == (PIN, "anna")
    assert environment["HOME_OF"] == "${HOME}"  # nothing of the service's own environment
    assert "OTHER" not in environment
    assert "ENV_FILE_PATH" not in environment
    (job,) = rest.get("/jobs.json").json().values()
    assert (job["env"]["BANK_PIN"], job["env"]["BANK_USER"]) == ("********", "********")


@pytest.mark.parametrize("place", ["bakery", "acme/../bakery", "link"])
def test_a_file_of_another_company_is_refused(
    rest: httpx.Client, reading_template: dict[str, Any], tmp_path: Path, place: str
) -> None:
    other = tmp_path / "env" / "bakery"
    other.mkdir()
    (other / "bank.env").write_text(CONTENT)
    (tmp_path / "env" / "1" / "link").symlink_to(other)
    path = tmp_path / "env" / ("1/link" if place == "link" else place) / "bank.env"
    members = {"company": "acme", "credential_type": "EnvFile", "name": "File"}
    values = {"ENV_FILE_PATH": str(path)}
    (fault,) = post(rest, "/credential/", 400, **members, values=values)["details"]
    assert fault["pointer"] == "/values/ENV_FILE_PATH"
    assert "is not among JOBAUTO_ENV_FILES" in fault["message"]


def test_who_gets_the_slug_of_another_company_does_not_get_its_files(
    rest: httpx.Client, reading_template: dict[str, Any], tmp_path: Path
) -> None:
    post(rest, f"/company/{reading_template['company_id']}.json", slug="former")
    post(rest, "/company/", slug="acme", name="Another")
    members = {"company": "acme", "credential_type": "EnvFile", "name": "File"}
    values = {"ENV_FILE_PATH": str(tmp_path / "env" / "1" / "bank.env")}
    (fault,) = post(rest, "/credential/", 400, **members, values=values)["details"]
    assert "is not among JOBAUTO_ENV_FILES" in fault["message"]
    post(rest, "/credential/", **members | {"company": "former"}, values=values)


def test_a_link_that_leads_elsewhere_since_is_not_followed(
    rest: httpx.Client, claims: httpx.Client, reading_template: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "env" / "1" / "bank.env"
    name_file(rest, reading_template, path)
    path.unlink()
    path.symlink_to(tmp_path / "ledger.key")
    reason, state, message = refused(claims, claim_of())
    assert (reason, state) == ("not_available", "SCHEDULED")
    assert "is not among JOBAUTO_ENV_FILES" in message


@pytest.mark.parametrize("kind", ["missing", "pipe", "folder", "large", "binary"])
def test_a_job_waits_for_a_file_that_can_not_be_read(
    rest: httpx.Client,
    claims: httpx.Client,
    reading_template: dict[str, Any],
    tmp_path: Path,
    kind: str,
) -> None:
    path = tmp_path / "env" / "1" / "bank.env"
    name_file(rest, reading_template, path)
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(b"\xff" if kind == "binary" else b"A=1\n" * 300_000)
    claim = claim_of()
    reason, state, message = refused(claims, claim)
    assert (reason, state) == ("not_available", "SCHEDULED")
    assert message.startswith(f"the values of File can't be read: {path} ")
    if kind == "missing":
        path.write_text(CONTENT)
        assert granted(claims, claim)["environment"]["BANK_USER"] == "anna"


@pytest.mark.parametrize(
    "sign_in",
    [
        {"VAULT_TOKEN": TOKEN},
        {"VAULT_ROLE_ID": ROLE["role_id"], "VAULT_SECRET_ID": ROLE["secret_id"]},
    ],
    ids=["token", "role"],
)
def test_a_job_is_given_the_values_of_a_secret_as_they_are_at_its_start(
    rest: httpx.Client,
    claims: httpx.Client,
    reading_template: dict[str, Any],
    store: Vault,
    sign_in: dict[str, str],
) -> None:
    name_secret(rest, reading_template, store, VAULT_MOUNT="kv", **sign_in)
    store.secrets["kv/acme/bank"] = {"BANK_PIN": PIN, "BANK_USER": 7}
    environment = granted(claims, claim_of())["environment"]
    assert (environment["BANK_PIN"], environment["BANK_USER"]) == (PIN, "7")
    assert not any(name.startswith("VAULT_") for name in environment)
    store.secrets["kv/acme/bank"] = {"BANK_PIN": PIN, "BANK_USER": 8}
    assert granted(claims, claim_of())["environment"]["BANK_USER"] == "8"


def test_a_job_waits_for_a_vault_that_refuses_and_no_secret_is_told(
    rest: httpx.Client, claims: httpx.Client, reading_template: dict[str, Any], store: Vault
) -> None:
    wrong = secret("hvs.wrong-token")
    name_secret(rest, reading_template, store, VAULT_TOKEN=wrong)
    reason, state, message = refused(claims, claim_of())
    assert (reason, state) == ("not_available", "SCHEDULED")
    assert message == f"the values of Vault can't be read: {store.url} gives no values (Forbidden)"


def test_a_vault_that_the_settings_do_not_name_is_refused(
    rest: httpx.Client, reading_template: dict[str, Any], store: Vault
) -> None:
    values = {"VAULT_ADDR": "http://169.254.169.254", "VAULT_PATH": "x"}
    members = {"company": "acme", "credential_type": "Vault", "name": "V", "values": values}
    (fault,) = post(rest, "/credential/", 400, **members)["details"]
    assert fault["pointer"] == "/values/VAULT_ADDR"
    assert "is not among JOBAUTO_VAULTS" in fault["message"]
    assert store.asked == []


def test_a_type_that_is_read_has_the_fields_that_say_how(rest: httpx.Client) -> None:
    body = {
        "code": "Half",
        "name": "Half",
        "source": "vault",
        "fields": [{"keyword": "VAULT_PATH"}],
    }
    (fault,) = post(rest, "/credential_type/", 400, **body)["details"]
    assert fault["pointer"] == "/source"
    assert "VAULT_ADDR" in fault["message"]


def test_stock_types_come_once_and_only_to_a_new_ledger(
    rest: httpx.Client, ledger: Ledger, ledger_settings: Settings, types: None
) -> None:
    made = rest.get("/credential_types.json").json().values()
    assert {record["code"] for record in made} == {body["code"] for body in load_stock_types()}
    assert all(record["company_id"] is None for record in made)
    assert len(entries(ledger, "CredentialType")) == len(load_stock_types())
    first = min(record["id"] for record in made)
    assert rest.delete(f"/credential_type/{first}.json").status_code in (200, 204)
    assert not add_stock_types(ledger, ledger_settings)
    assert len(rest.get("/credential_types.json").json()) == len(load_stock_types()) - 1


def test_a_ledger_that_is_in_use_gets_no_stock_types(
    rest: httpx.Client, ledger: Ledger, ledger_settings: Settings
) -> None:
    make_template(rest)
    assert not add_stock_types(ledger, ledger_settings)
    assert rest.get("/credential_types.json").json() == {}


def test_a_stock_type_is_required_once_the_company_has_a_credential_of_it(
    rest: httpx.Client, claims: httpx.Client, reading_template: dict[str, Any]
) -> None:
    granted(claims, claim_of())
    values = {"ABRAFLEXI_URL": "https://flexi.example", "ABRAFLEXI_LOGIN": "anna"}
    values |= {"ABRAFLEXI_PASSWORD": PIN, "ABRAFLEXI_COMPANY": "acme"}
    members = {"company": "acme", "credential_type": "abraflexi", "name": "Flexi"}
    post(rest, "/credential/", **members, values=values)
    reason, _, message = refused(claims, claim_of())
    assert reason == "unmet_requirement"
    assert "AbraFlexi" in message


def test_a_stock_type_that_somebody_writes_is_one_like_others(
    rest: httpx.Client, ledger: Ledger, types: None
) -> None:
    (body,) = [body for body in load_stock_types() if body["code"] == "AbraFlexi"]
    assert not post(rest, "/credential_type/", **body)["created"]
    written = fetch_all(ledger, select(CredentialType).where(CredentialType.stock.is_(False)))
    assert [record.code for record in written] == ["AbraFlexi"]
