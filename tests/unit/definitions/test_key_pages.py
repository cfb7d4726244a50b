"""The pages of keys say what the schemas say, and their tables what the code does."""

import copy
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pytest

from jobauto_prefect.compiler.deployments import TemplateFacts, deployment_plan
from jobauto_prefect.compiler.parameters import parameters
from jobauto_prefect.definitions import (
    EVENT_VARIABLES,
    INJECTED,
    check,
    parse,
    pick_text,
    schema,
    to_text,
)
from jobauto_prefect.definitions.records.value_rules import ValueRules
from jobauto_prefect.definitions.validation.record_files import check_record, record_schema
from jobauto_prefect.errors import InvalidInput
from jobauto_prefect.facade.apply.yaml_parser import load_all
from jobauto_prefect.runtime.executors.native import INHERITED
from jobauto_prefect.runtime.launch.environment import Layer
from jobauto_prefect.runtime.launch.preparation import Prepared, prepare
from scripts.key_pages import BECOMES, DOCS, PAGES, WRITERS, Key, example_of, keys, reference

DEFINITIONS = list(keys(schema()))
RUN_TEMPLATES = list(keys(record_schema("runtemplate")))
NOTHING = "Nothing."
STARTS_NOT = "the job does not start"


@pytest.mark.parametrize("file", PAGES)
def test_a_page_of_keys_is_that_of_the_schema(file: str) -> None:
    page = (DOCS / file).read_text()
    assert page == PAGES[file](page), "make publish"


@pytest.mark.parametrize("key", [*DEFINITIONS, *RUN_TEMPLATES], ids=lambda key: key.name)
def test_a_key_has_a_meaning_and_an_example_and_says_what_becomes_of_it(key: Key) -> None:
    assert key.rules["description"].endswith(".")
    assert key.rules["examples"]
    if len(key.path) == 1:
        assert key.rules.keys() & BECOMES.keys()


def placed(document: Any, key: Key, value: Any, known: Sequence[Key]) -> Any:
    """The document with this value of a key, in the first place where the key may be."""
    document = copy.deepcopy(document)
    inner, path = document, key.path
    for number, step in enumerate(path[:-1], 1):
        if step == "[]":
            inner = inner[0]
        elif step == "*":
            inner = next(iter(inner.values()))
        else:
            if step not in inner:
                (above,) = [each for each in known if each.path == path[:number]]
                inner[step] = copy.deepcopy(above.rules["examples"][0])
            inner = inner[step]
    inner[path[-1]] = value
    return document


def launch(document: Any, **values: str) -> Prepared:
    return prepare(
        parse(document),
        directory="/srv/job-1",
        company=Layer(),
        template=Layer(values),
        overrides=Layer(),
        values={"JOB_ID": "1"},
    )


@pytest.mark.parametrize("key", DEFINITIONS, ids=lambda key: key.name)
def test_an_example_makes_a_definition_that_is_valid_and_starts(key: Key) -> None:
    for value in key.rules["examples"]:
        document = placed(example_of(schema()), key, value, DEFINITIONS)
        report = check(document)
        assert (report.faults, report.warnings) == ((), ())
        assert launch(document, ACCOUNT="2000123456").argv[0] == "bank-statements"
        assert parameters(parse(document)).schema["properties"]


def test_prefect_shows_the_texts_of_which_the_page_says_so() -> None:
    facts = TemplateFacts(1, "Main", 1, "Acme", "acme", "jobauto")
    shown = str(asdict(deployment_plan(facts, parse(example_of(schema())))))
    for key in DEFINITIONS:
        example = key.rules["examples"][0]
        is_text = isinstance(example, str) or reference(key.rules) == "localized"
        if len(key.path) == 1 and is_text and key.name != "uuid":
            said = key.rules.get("x-prefect", NOTHING) != NOTHING
            assert (pick_text(example) in shown) == said, key.name


SMALLEST = {"kind": "runtemplate", "company": "acme", "app": "Bank statements", "name": "Main"}


def run_templates(key: Key) -> Iterator[Any]:
    """A run template with each of a key's examples."""
    for value in key.rules["examples"]:
        record = placed(SMALLEST, key, value, RUN_TEMPLATES)
        if key.name == "app_uuid":
            del record["app"]
        yield record


@pytest.mark.parametrize("key", RUN_TEMPLATES, ids=lambda key: key.name)
def test_an_example_makes_a_valid_run_template_and_is_read_as_it_is_shown(key: Key) -> None:
    for record in run_templates(key):
        assert check_record("runtemplate", record) == ()
    for value in key.rules["examples"]:
        ((shown, _),) = load_all(WRITERS["yaml"](key.path[-1], value))
        assert shown == {key.path[-1]: value}


def test_the_whole_documents_on_the_pages_are_valid() -> None:
    definitions = blocks("definition-format.md", "json")
    assert len(definitions) > 1
    for definition in definitions:
        report = check(json.loads(definition))
        assert (report.faults, report.warnings) == ((), ())
    (record,) = blocks("run-templates.md", "yaml")
    ((shown, _),) = load_all(record)
    assert check_record("runtemplate", shown) == ()


def blocks(file: str, language: str) -> list[str]:
    """The blocks that are a whole document."""
    fence = re.compile(rf"^```{language}\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    texts = fence.findall((DOCS / file).read_text())
    return [text for text in texts if text.startswith(("{", "kind:"))]


def rows(head: str) -> Iterator[list[str]]:
    """The rows of all tables of the definition's page that begin with this head."""
    lines = iter((DOCS / "definition-format.md").read_text().splitlines())
    for line in lines:
        if line.startswith(f"| {head} |"):
            next(lines)
            for row in lines:
                if not row.startswith("|"):
                    break
                yield [_cell(cell) for cell in row.removeprefix("|").removesuffix("|").split("|")]


def _cell(text: str) -> str:
    text = text.strip(" ")
    return text[1:-1] if text.startswith("`") else text


VALUES = list(rows("definition of `NAME`"))
COMMANDS = list(rows("`cmdparamsTemplate`"))


def document_with(template: str, **environment: Any) -> Any:
    return {
        "name": "n",
        "description": "",
        "executable": "p",
        "cmdparamsTemplate": template,
        "environment": environment,
    }


@pytest.mark.parametrize("row", VALUES, ids=" ".join)
def test_a_value_comes_to_the_job_as_the_table_says(row: list[str]) -> None:
    declared, given, expected, *argument = row
    document = document_with("${NAME}", NAME=json.loads(declared))
    values = {} if given == "none" else {"NAME": json.loads(given)}
    if any(ValueRules(parse(document)).faults(values, values)):
        assert expected == "refused"
        return
    texts = {name: to_text(value) for name, value in values.items()}
    if expected == STARTS_NOT:
        with pytest.raises(InvalidInput, match="missing required values: NAME"):
            launch(document, **texts)
        return
    prepared = launch(document, **texts)
    got = prepared.environment.get("NAME")
    assert {None: "unset", "": "empty"}.get(got, got) == expected
    if argument:
        assert [text or '""' for text in prepared.argv[1:]] == argument


@pytest.mark.parametrize("row", COMMANDS, ids=" ".join)
def test_a_command_line_is_split_as_the_table_says(row: list[str]) -> None:
    template, expected = row
    document = document_with(template, A={}, EMPTY={})
    if expected == STARTS_NOT:
        with pytest.raises(InvalidInput):
            launch(document, A="x y")
    else:
        assert launch(document, A="x y").argv[1:] == json.loads(expected)


def test_the_page_of_the_environment_lists_the_variables_that_there_are() -> None:
    page = (DOCS / "environment.md").read_text()
    listed = re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \|", page, re.MULTILINE)
    names = {who: {name for name, each in listed if each == who} for _, who in listed}
    ours = names["every job"] - {"TMPDIR"}
    twins = {name.replace("JOBAUTO_", "MULTIFLEXI_") for name in ours - {"JOBAUTO_JOB_DIR"}}

    assert ours | twins | {"MULTIFLEXI_TMP"} == INJECTED
    assert names["jobs that an event started"] == {*EVENT_VARIABLES}
    assert names["executor Native"] == {*INHERITED}


def test_the_tables_are_found() -> None:
    assert len(VALUES) > 20
    assert len(COMMANDS) > 10
