"""Credential types and credentials on the command line and in files."""

import json
import shlex
from typing import Any

import pytest

from tests.support.corpus import CORPUS, needs_corpus
from tests.support.prefect_home import PrefectHome
from tests.support.secrets import secret

TYPES = CORPUS / "credential-types"
SECRET = secret("s3cret-p1n")


@needs_corpus
def test_every_type_of_the_corpus_is_imported_older_spellings_included(
    place: PrefectHome,
) -> None:
    imported = place.told("credential-type", "import", str(TYPES))["imported"]
    files = {path.name for path in TYPES.glob("*.json")}
    assert {entry["file"].rpartition("/")[2] for entry in imported} == files
    assert {entry["action"] for entry in imported} <= {"created", "updated", "unchanged"}
    codes = {
        str(json.loads(path.read_text()).get("code") or "realpad").lower()
        for path in TYPES.glob("*.json")
    }
    known = place.told("credential-type", "list", "--limit", "100")
    assert {one["code"].lower() for one in known.values()} == codes
    by_code = {one["code"].lower(): one for one in known.values()}
    sql = {one["keyword"]: one for one in by_code["sql"]["fields"]}
    assert sql["DATABASE_TYPE"]["type"] == "set"
    assert sql["DATABASE_TYPE"]["default_value"] == "MySQL"
    assert sql["DATABASE_PORT"]["type"] == "integer"
    ipex = {one["keyword"]: one for one in by_code["ipex"]["fields"]}
    assert ipex["IPEX_URL"]["name"] == "IPEX API URL"
    assert by_code["sql"]["translations"]["name"]["cs"] == "Přihlašovací údaje k databázi"
    again = place.told("credential-type", "import", str(next(TYPES.glob("*__test.*"))))
    assert [one["action"] for one in again["imported"]] == ["unchanged"]


def test_a_type_with_errors_stops_the_import_with_their_places(place: PrefectHome) -> None:
    good = {"code": "Good", "name": "Good", "fields": []}
    bad = {"code": "b", "name": "Bad", "fields": [{"id": "1 A", "type": "odd"}]}
    place.write(good_json=json.dumps(good), bad_json=json.dumps(bad))
    ran = place.run("credential-type", "import", "files")
    assert ran.returncode == 1
    for pointer in ("/code", "/fields/0/keyword", "/fields/0/type"):
        assert pointer in ran.stderr
    assert place.told("credential-type", "list") == {}


def bank(place: PrefectHome) -> list[dict[str, Any]]:
    return [
        {
            "kind": "credential_type",
            "code": f"Bank-{place.slug}",
            "name": {"en": "Bank", "cs": "Banka"},
            "fields": [{"keyword": "USER"}, {"keyword": "PIN", "type": "password"}],
            "availability": {"url": "https://bank.example/{USER}"},
        },
        place.company(),
        {
            "kind": "credential",
            "company": place.slug,
            "credential_type": f"Bank-{place.slug}",
            "name": "Main",
            "values": {"USER": "anna"},
        },
    ]


def test_files_name_credentials_and_what_is_exported_changes_nothing(
    place: PrefectHome,
) -> None:
    place.records(
        *bank(place),
        place.template("One", credentials=["Main"]),
        app_json=place.definition(),
    )
    place.apply()
    template = next(iter(place.told("template", "list").values()))
    credential = next(iter(place.told("credential", "list").values()))
    assert template["credentials"] == [credential["id"]]
    assert set(place.actions().values()) == {"unchanged"}
    ran = place.run("credential", "set", f"{place.slug}/Main", "--secret", "PIN", stdin=SECRET)
    assert ran.returncode == 0, ran.stderr
    ran = place.run("export", "-o", "out")
    assert ran.returncode == 0, ran.stderr
    text = "".join(path.read_text() for path in (place.path / "out").rglob("*.yaml"))
    assert "credentials:\n- Main" in text.replace("  - ", "- ")
    assert "Banka" in text
    assert SECRET not in text
    planned = place.told("plan", "out")
    assert {one["action"] for one in planned["changes"]} == {"unchanged"}
    place.records(*bank(place), place.template("One", credentials=["Other"]))
    ran = place.run("plan", "files")
    assert "/credentials/0: there is no credential" in ran.stderr


@pytest.mark.parametrize("asked", [(), ("--yes",)])
def test_secrets_are_revealed_to_who_says_so(place: PrefectHome, asked: tuple[str, ...]) -> None:
    place.records(*bank(place))
    place.apply()
    named = f"{place.slug}/Main"
    assert place.run("credential", "set", named, "--secret", "PIN", stdin=SECRET).returncode == 0
    assert SECRET not in place.run("credential", "show", named).stdout
    shown = place.run("credential", "show", named, "--reveal", *asked)
    assert (SECRET in shown.stdout, shown.returncode) == (bool(asked), 0 if asked else 2)
    entries = place.told("audit", "list", "--entity", "Credential", "--action", "reveal")
    assert len(entries) == len(asked)


def test_an_address_in_a_file_changes_together_with_its_secret_on_the_command_line(
    place: PrefectHome,
) -> None:
    def files(host: str, url: str) -> None:
        kind, company, credential = bank(place)
        kind["fields"].append({"keyword": "BANK_URL"})
        credential["values"]["BANK_URL"] = url
        source = {"kind": "eventsource", "name": f"erp {place.slug}", "db_database": "d"}
        place.records(kind, company, credential, source | {"db_host": host, "db_port": "3306"})

    files("a.example", "https://a.example/")
    place.apply()
    named, source = f"{place.slug}/Main", f"erp {place.slug}"
    place.run("credential", "set", named, "--secret", "PIN", stdin=SECRET)
    place.run("source", "set", source, "--secret", "db_password", stdin=SECRET)
    assert set(place.actions().values()) == {"unchanged"}

    files("b.example", "https://b.example/")
    refused = place.run("apply", "files", "--yes").stderr
    assert "2 errors" in refused
    of_source = f"jobauto source set '{source}' db_host=… --secret db_password"
    of_credential = f"jobauto credential set '{named}' --env BANK_URL=… --secret PIN"
    assert f"db_host; change them together: {of_source}" in refused
    assert f"BANK_URL; change them together: {of_credential}" in refused
    for command, value in ((of_source, "b.example"), (of_credential, "https://b.example/")):
        ran = place.run(*shlex.split(command.replace("…", value))[1:], stdin=SECRET)
        assert ran.returncode == 0, ran.stderr
    assert set(place.actions().values()) == {"unchanged"}
