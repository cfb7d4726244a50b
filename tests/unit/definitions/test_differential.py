"""The schema and a second reading of the format find the same faults in mutated definitions."""

import copy
import json
import random
from typing import Any

import pytest

from jobauto_prefect.definitions import check
from tests.support.definition_rules import errors
from tests.support.documents import RICHEST, SMALLEST

ROUNDS = 1000  # documents of each seed

JUNK: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    1.0,
    2.5,
    3600,
    3601,
    -1,
    10**20,
    "",
    " ",
    "a",
    "A",
    "é",
    "\uff11",  # a digit, but no ASCII one
    "A\n",
    "low\n",
    "1.2.3",
    "1.2.3\n",
    "01.2",
    "1.2.3.4.5",
    "1..2",
    "\u0661.\u0662",
    "file",
    "File",
    "json",
    "boolean",
    "bool",
    "critical",
    "API",
    "any",
    "oci://",
    "oci://host/a:1",
    "oci://host/a b",
    "repo/chart",
    "repo/.chart",
    "repo/chart/x",
    "./chart",
    "../chart",
    "/",
    ".../chart",
    "./a\nb",
    "-a",
    "a-",
    "a-1",
    "a" * 63,
    "a" * 64,
    "docker.io/a/b:1.0",
    "docker.io/a@sha256:1",
    ":",
    "http://x",
    "http://[::1]:80/%7e",
    "http://[fe80::1%25en0]/",
    "http://[v1.a:b]/",
    "http://[1::2::3]/",
    "http://a/%zz",
    "http://a b/",
    "http://u:p@h:1/p?q/?#f/?",
    "http://h:port/",
    "urn:a:b",
    "mailto:a@example.org",
    "//a/b",
    "1http://a",
    "http://příklad/",
    "x:",
    "775ed801-2489-4981-bc14-d8a01cba1938",
    "775ed8012489-4981-bc14-d8a01cba19380",
    "{775ed801-2489-4981-bc14-d8a01cba1938}",
    "775ed801-2489-4981-bc14-d8a01cba193g",
    [],
    ["a"],
    [1],
    [{}],
    [None],
    {},
    {"en": "x"},
    {"en": 1},
    {"EN": "x"},
    {"xx": "x"},
    {"description": "x"},
    {"format": "json"},
    {"type": "file"},
    {"target": "X"},
    {"helm": {}},
    {"helm": {"enabled": True}},
    {"enabled": 1},
)
KEYS = (
    *("", "a", "A", "A1_", "a-b", "a.b", "A\n", "é", "0", "00", "256", "-1", "1\n", "a b", "a/b~c"),
    *("en", "xx", "description", "format", "type", "target", "fields", "required", "retry"),
    *("severity", "enabled", "chart", "helm", "emits", "consumes", "options", "path", "name"),
)
SECTIONS = [name for name in RICHEST if name not in SMALLEST or RICHEST[name] != SMALLEST[name]]


def compare(document: Any) -> bool:
    """Whether a document is valid; fails where the two readings differ."""
    found = {fault.pointer for fault in check(document).faults}
    assert found == errors(document), json.dumps(document, ensure_ascii=False)
    return not found


def containers(value: Any) -> list[Any]:
    """Every object and array of a document that is not empty."""
    children = value.values() if isinstance(value, dict) else value
    below = [
        found for child in children if isinstance(child, dict | list) for found in containers(child)
    ]
    return [value, *below] if value else below


def mutate(chance: random.Random, document: dict[str, Any]) -> None:
    container = chance.choice(containers(document))
    step = chance.choice(list(container) if isinstance(container, dict) else range(len(container)))
    junk = copy.deepcopy(chance.choice(JUNK))
    action = chance.random()
    if action < 0.55:
        container[step] = junk
    elif action < 0.7:
        del container[step]
    elif isinstance(container, list):
        container.append(junk)
    elif action < 0.85:
        container[chance.choice(KEYS)] = container[step]
    else:
        container[chance.choice(KEYS)] = junk


def mutant(chance: random.Random) -> dict[str, Any]:
    chosen = chance.sample(SECTIONS, k=chance.randint(1, 6))
    document = copy.deepcopy(SMALLEST | {name: RICHEST[name] for name in chosen})
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        mutate(chance, document)
    return document


@pytest.mark.parametrize("section", RICHEST)
def test_both_readings_agree_on_any_value_and_any_key_in_any_place(section: str) -> None:
    document = copy.deepcopy(SMALLEST | {section: RICHEST[section]})
    holder = {section: document[section]}
    for container in containers(holder):
        for step in list(container) if isinstance(container, dict) else range(len(container)):
            value = container[step]
            for junk in JUNK:
                container[step] = junk
                compare(document | holder)
            container[step] = value
        for key in KEYS if isinstance(container, dict) and container is not holder else ():
            if key not in container:
                container[key] = value
                compare(document | holder)
                del container[key]


@pytest.mark.parametrize("seed", range(4))
def test_both_readings_find_the_same_errors_in_mutated_definitions(seed: int) -> None:
    chance = random.Random(seed)
    valid = sum(compare(mutant(chance)) for _ in range(ROUNDS))
    assert ROUNDS // 20 < valid < ROUNDS, "the mutations must leave some documents valid, not all"


def test_both_readings_accept_a_document_with_every_field() -> None:
    assert compare(RICHEST)


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_both_readings_judge_any_value_as_a_document_alike(junk: Any) -> None:
    compare(junk)
