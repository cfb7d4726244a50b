"""Each text of a page has its translation, and each translation its text."""

import ast
import json
import re
import string
from collections.abc import Iterator
from typing import get_args

import pytest

from jobauto_prefect.facade.auth.permissions import ROLE_DESCRIPTIONS
from jobauto_prefect.facade.console.jobs.job_list_page import ORDERS, SINCE
from jobauto_prefect.facade.console.jobs.labels import ORIGINS
from jobauto_prefect.facade.console.jobs.saved_searches import PREDEFINED
from jobauto_prefect.facade.console.jobs.selected_jobs import TITLES
from jobauto_prefect.facade.console.jobs.window_calendar import TONES
from jobauto_prefect.facade.console.jobs.window_calendar import WEEKDAYS as WEEKDAY_NAMES
from jobauto_prefect.facade.console.jobs.workers import TONES as WORKER_STATES
from jobauto_prefect.facade.console.navigation import MENU
from jobauto_prefect.facade.console.notifications import NOTIFICATIONS
from jobauto_prefect.facade.console.records.events import TONES as EVENT_STATES
from jobauto_prefect.facade.console.run_templates.schedules import INTERVALS, WEEKDAYS
from jobauto_prefect.facade.console.success_chart import MONTHS
from jobauto_prefect.facade.formats.html.page_language import LANGUAGES, load_catalog
from jobauto_prefect.facade.kinds.audit_entries import AuditAction
from jobauto_prefect.facade.kinds.event_rules import End, Operation
from jobauto_prefect.facade.kinds.jobs import Severity
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger.events.deliveries import EventKind
from jobauto_prefect.ledger.states import DeliveryState, JobState, TaskState
from tests.support.paths import ROOT

FACADE = ROOT / "jobauto_prefect/facade"
IN_TEMPLATES = re.compile(r"""\b_\(\s*(?:"([^"]+)"|'([^']+)')""")


def _texts_of_templates() -> Iterator[str]:
    for folder in ("console/templates", "formats/html/templates"):
        for template in (FACADE / folder).rglob("*.html"):
            for double, single in IN_TEMPLATES.findall(template.read_text("utf-8")):
                yield double or single


def _texts_of_code() -> Iterator[str]:
    for folder in ("console", "kinds", "writes"):
        for module in sorted(FACADE.glob(f"{folder}/**/*.py")):
            for node in ast.walk(ast.parse(module.read_text("utf-8"))):
                if isinstance(node, ast.Call):
                    for text in node.args[: _count_texts(node.func)]:
                        yield from _literals(text)


def _count_texts(function: ast.expr) -> int:
    """How many of its arguments are translated, at once or where they are shown."""
    if isinstance(function, ast.Call):
        return int(ast.unparse(function.func) == "translator")
    name = ast.unparse(function)
    return 2 if name == "Shown" else int(name in ("translate", "visit.translate", "Text"))


def _literals(argument: ast.expr | ast.AST) -> Iterator[str]:
    """The texts that an argument may be; what is looked up by a key is none of them."""
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        yield argument.value
    if not isinstance(argument, ast.Subscript):
        for part in ast.iter_child_nodes(argument):
            yield from _literals(part)


def _texts_by_name() -> Iterator[str]:
    """Texts that are looked up by what records and tables say."""
    yield from (page.label for entry in MENU for page in (entry, *entry.pages))
    yield from NOTIFICATIONS.values()
    yield from MONTHS
    yield from (*INTERVALS.values(), *WEEKDAYS)
    yield from (kind.many for kind in KINDS.values())
    yield from ("Status", "Index")
    yield from (str(state) for state in (*JobState, *TaskState))
    yield from WORKER_STATES
    yield from (*get_args(Severity), *ORIGINS.values(), "an event", "somebody")
    yield from (
        *get_args(AuditAction),
        *get_args(Operation),
        *get_args(End),
        *EVENT_STATES,
        *EventKind,
    )
    yield from (str(state) for state in DeliveryState)
    yield from ROLE_DESCRIPTIONS.values()
    yield from (label for label, _ in SINCE.values())
    yield from (*TONES, *WEEKDAY_NAMES)
    yield from (*ORDERS.values(), *TITLES.values(), *(search.name for search in PREDEFINED))


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_each_text_of_a_page_has_its_translation_and_no_other_is_kept(language: str) -> None:
    kept = set(load_catalog(language))
    said = {*_texts_of_templates(), *_texts_of_code(), *_texts_by_name()}
    folder = f"facade/formats/html/translations/{language}/"
    assert not said - kept, f"translate in {folder}: {sorted(said - kept)}"
    assert not kept - said, f"no page says this, delete it in {folder}: {sorted(kept - said)}"


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_a_translation_is_filled_in_with_the_same_values(language: str) -> None:
    for text, translated in load_catalog(language).items():
        assert _fields(translated) == _fields(text), text


def _fields(text: str) -> set[str | None]:
    return {name for _, name, _, _ in string.Formatter().parse(text)} - {None}


def test_no_text_is_translated_twice() -> None:
    for language in LANGUAGES[1:]:
        files = (FACADE / "formats/html/translations" / language).glob("*.json")
        texts = [text for file in files for text in json.loads(file.read_text("utf-8"))]
        assert sorted(texts) == sorted(set(texts))


def test_the_catalogs_are_those_of_the_languages() -> None:
    catalogs = (FACADE / "formats/html/translations").iterdir()
    assert {catalog.name for catalog in catalogs} == set(LANGUAGES[1:])
