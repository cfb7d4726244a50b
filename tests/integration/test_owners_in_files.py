"""`jobauto plan`, `apply`, `export` and the commands of records: whose a definition is."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.test_app_commands import Here, prepared
from tests.support.definitions import PROBE

__all__ = ["prepared"]

FIELDS = [{"keyword": "BANK_USER"}]


class Files(Here):
    """A home whose commands say what they did as JSON."""

    def told(self, *words: str, code: int = 0) -> Any:
        done = self.run(*words, "--json")
        assert done.returncode == code, (done.stdout, done.stderr)
        return json.loads(done.stdout)

    def write(self, *documents: dict[str, Any]) -> None:
        (self.path / "files.yaml").write_text(yaml.safe_dump_all(documents, sort_keys=False))

    def actions(self, code: int = 3) -> dict[str, str]:
        planned = self.told("plan", "files.yaml", code=code)
        return {f"{one['kind']} {one['title']}": one["action"] for one in planned["changes"]}

    def apply(self, *documents: dict[str, Any]) -> None:
        self.write(*documents)
        self.told("apply", "files.yaml", "--yes")

    def owners(self, group: str) -> dict[str, Any]:
        """Owner (slug) of each record, by its id."""
        slugs = {one["id"]: one["slug"] for one in self.told("company", "list").values()}
        return {
            number: slugs.get(one["company_id"]) for number, one in self.told(group, "list").items()
        }


@pytest.fixture
def files(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """Nobody waits for Prefect, which is away."""
    monkeypatch.setattr("jobauto_prefect.cli.connection.client.PATIENCE_SECONDS", 0.0)
    shutil.copytree(prepared, tmp_path / "home")
    return Files(tmp_path)


def company(slug: str) -> dict[str, Any]:
    return {"kind": "company", "slug": slug, "name": slug.title()}


def bank(**members: Any) -> dict[str, Any]:
    return {"kind": "credential_type", "code": "bank", "name": "Bank", "fields": FIELDS, **members}


def app(name: str, **members: Any) -> dict[str, Any]:
    definition = {key: value for key, value in PROBE.items() if key != "uuid"}
    return {**definition, "name": name, **members}


def credential(slug: str) -> dict[str, Any]:
    return {"kind": "credential", "company": slug, "name": "Main", "credential_type": "bank"}


def template(slug: str, **members: Any) -> dict[str, Any]:
    return {"kind": "runtemplate", "company": slug, "name": "t", "app": "Probe", **members}


def test_names_in_files_mean_the_companys_own_first_then_the_shared_one(files: Files) -> None:
    files.apply(
        company("acme"), company("globex"),
        bank(), bank(company="acme"), app("Probe"), app("Probe", company="acme"),
        {"kind": "topic", "name": "money"}, {"kind": "topic", "name": "money", "company": "acme"},
        credential("acme"), credential("globex"), template("acme"), template("globex"),
    )  # fmt: skip
    for group, referring, member in (
        ("credential-type", "credential", "credential_type_id"),
        ("app", "template", "app_id"),
    ):
        owners = files.owners(group)
        assert sorted(owners.values(), key=str) == [None, "acme"]
        records = files.told(referring, "list").values()
        by_company = {one["company_id"]: owners[str(one[member])] for one in records}
        assert sorted(by_company.values(), key=str) == [None, "acme"]
    assert sorted(files.owners("topic").values(), key=str) == [None, "acme"]
    shown = files.told("credential-type", "show", "acme/bank")
    assert shown["company_id"] == 1
    exported = files.run("export").stdout
    (files.path / "files.yaml").write_text(exported)
    assert set(files.actions(code=0).values()) == {"unchanged"}
    only = files.run("export", "--company", "globex").stdout
    assert "acme" not in only
    files.run("export", "-o", "folder")
    planned = files.told("plan", "folder", code=0)
    assert {one["action"] for one in planned["changes"]} == {"unchanged"}


def test_an_owner_that_is_not_said_stays(files: Files) -> None:
    files.apply(company("acme"), bank(company="acme"), app("Probe", company="acme"))
    files.write(bank(description="new"), app("Probe", category="Tools"), credential("acme"))
    assert files.actions() == {
        "credential_type acme/bank": "update",
        "app Probe": "update",
        "credential acme/Main": "create",
    }
    files.told("apply", "files.yaml", "--yes")
    assert [*files.owners("credential-type").values()] == ["acme"]
    assert [*files.owners("app").values()] == ["acme"]


def test_an_owner_is_given_and_taken_by_files(files: Files) -> None:
    """A uuid says which record it is, whosesoever."""
    known = bank(uuid="7b3d7e5f-41f5-4a7c-8e7f-8d9be0a3c101"), app("Probe", uuid=PROBE["uuid"])
    files.apply(company("acme"), *known)
    for owner in ("acme", None):
        files.apply(*({**document, "company": owner} for document in known))
        assert [*files.owners("credential-type").values()] == [owner]
        assert [*files.owners("app").values()] == [owner]


def test_what_is_another_companys_is_not_there_for_files(files: Files) -> None:
    files.apply(
        company("acme"), company("globex"), bank(company="acme"), app("Probe", company="acme")
    )
    files.write(credential("globex"), template("globex"))
    done = files.run("plan", "files.yaml", "--json")
    assert done.returncode == 1
    assert "there is no credential type 'bank'" in done.stderr
    assert "there is no application 'Probe'" in done.stderr
    files.write(bank(company="nobody"), app("Other", company="nobody"))
    done = files.run("plan", "files.yaml")
    assert done.stderr.count("there is no company 'nobody'") == 2


def test_an_import_says_whose_a_definition_is(files: Files) -> None:
    files.apply(company("acme"))
    (files.path / "own.json").write_text(json.dumps(app("Own", company="acme")))
    vendor = app("Vendor", company="Vendor, Inc.")  # no slug: a member of the definition's own
    (files.path / "vendor.json").write_text(json.dumps(vendor))
    files.told("app", "import", "own.json", "vendor.json")
    assert sorted(files.owners("app").values(), key=str) == [None, "acme"]
    assert files.told("app", "show", "Vendor")["company"] == "Vendor, Inc."
    assert "company" not in files.told("app", "show", "Own")
    (files.path / "none.json").write_text(json.dumps(app("None", company="nobody")))
    assert "there is no such company" in files.run("app", "import", "none.json").stderr
