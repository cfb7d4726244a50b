"""Real definitions: verdicts, faults, upgrades."""

import json

import pytest

from jobauto_prefect.definitions import check, parse, upgrade, validate
from tests.support.corpus import needs_corpus, source, verdicts

pytestmark = needs_corpus

ENTRIES = verdicts()
every_file = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["file"])
every_readable_file = pytest.mark.parametrize(
    "name", [entry["file"] for entry in ENTRIES if entry["verdict"] != "not-json"]
)

LEFT_OVER = {
    "Spoje-NET__fiobank-statement-tools__rb_transaction_report.multiflexi.app.json": {
        ("/homepage", "format")
    },
    "VitexSoftware__Pohoda-Digest__weekly_digest.multiflexi.app.json": {("/uuid", "format")},
    "VitexSoftware__abraflexi-raiffeisenbank__abraflexi_raiffeisenbank_statements"
    ".multiflexi.app.json": {("/environment", "pattern")},
}
"""What an upgrade leaves to a person: no other file has anything left."""


@every_file
def test_the_verdict_is_the_expected_one_and_every_expected_error_is_reported(
    entry: dict[str, object],
) -> None:
    report = validate(source(str(entry["file"])))
    if entry["verdict"] == "not-json":
        assert [fault.rule for fault in report.faults] == ["syntax"]
        return
    assert report.valid == (entry["verdict"] == "valid")
    found = {(fault.pointer or "/", fault.rule) for fault in report.faults}
    assert found >= {(fault["at"], fault["rule"]) for fault in entry["errors"]}  # type: ignore[attr-defined]


@every_readable_file
def test_every_error_of_a_text_is_on_the_line_that_a_person_would_look_at(name: str) -> None:
    lines = source(name).decode().splitlines()
    for fault in validate(source(name)).faults:
        assert fault.line is not None
        member = fault.pointer.rsplit("/", 1)[-1]
        if fault.rule in ("type", "enum", "format"):
            assert f'"{member}"' in lines[fault.line - 1]


@every_readable_file
def test_an_upgrade_makes_a_definition_valid_or_says_what_is_left(name: str) -> None:
    done = upgrade(json.loads(source(name)))
    assert {(fault.pointer, fault.rule) for fault in done.undecided} == LEFT_OVER.get(name, set())
    report = check(done.document)
    assert report.valid == (name not in LEFT_OVER)
    if report.valid:
        assert parse(done.document).document == done.document


@every_readable_file
def test_a_second_upgrade_changes_nothing(name: str) -> None:
    once = upgrade(json.loads(source(name)))
    assert upgrade(once.document).changes == ()
