"""Actions of run templates in files: names instead of numbers, and the order of writing."""

from typing import Any

from jobauto_prefect.facade.apply.plans import sort_by_references
from jobauto_prefect.facade.apply.record_kinds import references, to_field_actions, to_file_actions

TITLES = {"runtemplate": {7: "acme/Report"}, "app": {3: "Mailer"}}
RECORD = {
    "ChainRuntemplate": {"runtemplate_id": 7},
    "LaunchJob": {"app_id": 3},
    "Reschedule": {"delay": 60},
    "Stop": {},
    "WebHook": {"uri": "https://h/", "secret": "********"},
}
FILE = {
    "ChainRuntemplate": {"runtemplate": "acme/Report"},
    "LaunchJob": {"app": "Mailer"},
    "Reschedule": {"delay": 60},
    "Stop": {},
    "WebHook": {"uri": "https://h/"},
}


def numbers(kind: str, title: str) -> int | None:
    return {one: number for number, one in TITLES[kind].items()}.get(title)


def test_files_name_what_records_number() -> None:
    assert to_file_actions(RECORD, TITLES) == FILE
    assert to_field_actions(FILE, numbers) == RECORD | {"WebHook": {"uri": "https://h/"}}
    assert to_file_actions({}, TITLES) == to_field_actions({}, numbers) == {}


def test_references_have_their_place() -> None:
    assert list(references({"success": FILE, "fail": {"Stop": {}}})) == [
        ("/success/ChainRuntemplate/runtemplate", "runtemplate", "acme/Report"),
        ("/success/LaunchJob/app", "app", "Mailer"),
    ]


def template(name: str, app: str = "A", **actions: Any) -> dict[str, Any]:
    return {"company": "acme", "name": name, "app": app, "success": actions}


def test_what_is_started_is_written_first() -> None:
    first = template("first", ChainRuntemplate={"runtemplate": "acme/second"})
    second = template("second", LaunchJob={"app": "Mailer"})
    mail = template("mail", "Mailer", ChainRuntemplate={"runtemplate": "acme/elsewhere"})
    ordered = sort_by_references("runtemplate", [first, second, mail], lambda one: one)
    assert [one["name"] for one in ordered] == ["mail", "second", "first"]


def test_of_a_circle_the_service_tells() -> None:
    here = template("here", ChainRuntemplate={"runtemplate": "acme/there"})
    there = template("there", ChainRuntemplate={"runtemplate": "acme/here"})
    assert sort_by_references("runtemplate", [here, there], lambda one: one) == [here, there]
