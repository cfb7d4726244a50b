"""What writers of rules are offered."""

from typing import Any

import pytest

from jobauto_prefect.compiler.events.job_outputs import selector_scope
from jobauto_prefect.compiler.events.selectors import selector_fault
from jobauto_prefect.compiler.events.suggestions import (
    Trigger,
    parse_trigger,
    suggest_change_mapping,
    suggest_mapping,
    suggest_selectors,
)
from jobauto_prefect.definitions import Definition, parse
from tests.support.corpus import example, needs_corpus
from tests.support.definitions import PROBE

EXPORT: dict[str, Any] = {
    "environment": {},
    "artifacts": [{"name": "Log", "path": "run.log", "type": "file"}],
    "produces": {
        "invoices": {
            "format": "json",
            "description": {"en": "Issued invoices", "cs": "Vystavené faktury"},
            "fields": {
                "invoice_number": {"type": "string"},
                "total": {"type": "float", "description": "Sum"},
                "paid": {"type": "boolean"},
            },
        },
        "note": {"format": "text"},
    },
}


def definition(**members: Any) -> Definition:
    return parse(PROBE | {"artifacts": []} | members)


@pytest.mark.spec("2.1.38")
def test_every_offered_selector_is_one_that_rules_take() -> None:
    source = definition(**EXPORT)
    offered = suggest_selectors(source, "cs")
    shown = [(one.selector, one.type, one.description) for one in offered]
    assert shown[:7] == [
        ("invoices.invoice_number", "string", ""),
        ("invoices.total", "float", "Sum"),
        ("invoices.paid", "boolean", ""),
        ("invoices", "json", "Vystavené faktury"),
        ("@file:invoices", "file", "Vystavené faktury"),
        ("note", "text", ""),
        ("@file:Log", "file", ""),
    ]
    assert ("job_id", "integer", "") in shown
    offer = selector_scope(source.document)
    assert [selector_fault(one.selector, offer) for one in offered] == [None] * len(offered)


def test_keys_get_what_has_their_name_and_fits() -> None:
    keys = {
        "INVOICE_NUMBER": {"type": "string"},
        "TOTAL": {"type": "integer"},
        "PAID": {"type": "bool"},
        "INPUT": {"type": "file-path"},
        "WHO": {"type": "string"},
    }
    found = suggest_mapping(definition(**EXPORT), definition(environment=keys))
    assert found.env_mapping == {
        "INVOICE_NUMBER": "invoices.invoice_number",
        "PAID": "invoices.paid",
    }
    assert found.flows == {}
    assert found.selectors["INPUT"] == ["@file:invoices", "@file:Log"]
    assert found.selectors["PAID"] == ["invoices.paid"]
    assert found.selectors["TOTAL"] == ["recordid", "job_id", "exitcode"]
    assert "@file:invoices" not in found.selectors["WHO"]


def test_what_flows_needs_no_mapping() -> None:
    keys = {"INPUT": {"type": "file-path"}, "TOTAL": {"type": "float"}}
    fields = {"total": {"target": "TOTAL", "format": "float"}}
    consumes = {"invoices": {"format": "json", "target": "INPUT", "fields": fields}}
    found = suggest_mapping(definition(**EXPORT), definition(environment=keys, consumes=consumes))
    assert found.env_mapping == {}
    assert found.flows == {"INPUT": "@file:invoices", "TOTAL": "invoices.total"}


@needs_corpus
def test_the_published_example_is_offered_the_published_mapping() -> None:
    name = "VitexSoftware__multiflexi-doc-en__source_concepts_job-chaining.rst__{}.json"
    producer, consumer = (definition(**example(name.format(number))) for number in (2, 3))
    assert suggest_mapping(producer, consumer).env_mapping == {
        "INPUT_FILE": "@file:invoices",
        "MIN_AMOUNT": "invoices.total",
    }


@pytest.mark.parametrize(
    ("name", "members", "trigger"),
    [
        ("banka.created", {}, Trigger("banka", "create")),
        ("adresar.update", {}, Trigger("adresar", "update")),
        ("x", {"evidence": "bill", "operation": "delete"}, Trigger("bill", "delete")),
        ("x", {"evidence": "bill", "operation": "burn"}, Trigger("bill", "any")),
        ("bank.statement.downloaded", {}, None),
        ("a.b.created", {}, None),
        ("created", {}, None),
        ("x", {"evidence": 7}, None),
    ],
)
def test_some_consumed_events_are_changes(
    name: str, members: dict[str, Any], trigger: Trigger | None
) -> None:
    assert parse_trigger(name, members) == trigger


def test_columns_of_a_change_go_to_keys_of_their_name() -> None:
    keys = {"RECORD_ID": {"type": "integer"}, "OPERATION": {}, "COUNT": {}}
    assert suggest_change_mapping(definition(environment=keys)) == {
        "RECORD_ID": "recordid",
        "OPERATION": "operation",
    }
