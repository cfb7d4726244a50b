"""`jobauto plan`, `apply`, `export` and the commands of records: whose a definition is."""

import json
from typing import Any

from tests.support.definitions import PROBE
from tests.support.record_files import FilesHome, app, company, template

FIELDS = [{"keyword": "BANK_USER"}]


def bank(**members: Any) -> dict[str, Any]:
    return {"kind": "credential_type", "code": "bank", "name": "Bank", "fields": FIELDS, **members}


def credential(slug: str) -> dict[str, Any]:
    return {"kind": "credential", "company": slug, "name": "Main", "credential_type": "bank"}


def test_names_in_files_mean_the_companys_own_first_then_the_shared_one(files: FilesHome) -> None:
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


def test_an_owner_that_is_not_said_stays(files: FilesHome) -> None:
    files.apply(company("acme"), bank(company="acme"), app("Probe", company="acme"))
    files.write_records(bank(description="new"), app("Probe", category="Tools"), credential("acme"))
    assert files.actions() == {
        "credential_type acme/bank": "update",
        "app Probe": "update",
        "credential acme/Main": "create",
    }
    files.told("apply", "files.yaml", "--yes")
    assert [*files.owners("credential-type").values()] == ["acme"]
    assert [*files.owners("app").values()] == ["acme"]


def test_an_owner_is_given_and_taken_by_files(files: FilesHome) -> None:
    """A uuid says which record it is, whosesoever."""
    known = bank(uuid="7b3d7e5f-41f5-4a7c-8e7f-8d9be0a3c101"), app("Probe", uuid=PROBE["uuid"])
    files.apply(company("acme"), *known)
    for owner in ("acme", None):
        files.apply(*({**document, "company": owner} for document in known))
        assert [*files.owners("credential-type").values()] == [owner]
        assert [*files.owners("app").values()] == [owner]


def test_what_is_another_companys_is_not_there_for_files(files: FilesHome) -> None:
    files.apply(
        company("acme"), company("globex"), bank(company="acme"), app("Probe", company="acme")
    )
    files.write_records(credential("globex"), template("globex"))
    done = files.run("plan", "files.yaml", "--json")
    assert done.returncode == 1
    assert "there is no credential type 'bank'" in done.stderr
    assert "there is no application 'Probe'" in done.stderr
    files.write_records(bank(company="nobody"), app("Other", company="nobody"))
    done = files.run("plan", "files.yaml")
    assert done.stderr.count("there is no company 'nobody'") == 2


def test_an_import_says_whose_a_definition_is(files: FilesHome) -> None:
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
