"""Each rule of the specification for definitions: what keeps it is valid, what breaks it is not."""

import copy
from typing import Any

import pytest

from jobauto_prefect.definitions import check, parse, parse_exit_codes, parse_kubernetes, schema
from tests.support.documents import RICHEST, smallest

TEXTS: tuple[list[Any], list[Any]] = (["x", ""], [1, None, ["x"], {"en": "x"}])
LOCALIZED: tuple[list[Any], list[Any]] = (
    ["x", {"en": "x"}, {"cs": "x", "he": "y"}],
    [1, None, {}, {"xx": "x"}, {"en": 1}, ["x"]],
)
FLAGS: tuple[list[Any], list[Any]] = ([True, False], ["true", 1, None])
LABELS: tuple[list[Any], list[Any]] = (
    ["a", "a-1", "1a"],
    ["", "-a", "a-", "A", "a_b", "a.b", 7],
)
FORMATS: tuple[list[Any], list[Any]] = (
    ["file", "json", "text", "url", "custom"],
    ["xml", "JSON", None, 1],
)
ITEM_TYPES: tuple[list[Any], list[Any]] = (
    ["string", "integer", "float", "boolean"],
    ["bool", "number", None],
)
GONE = object()

RULES: list[Any] = [
    # number, where, what is valid there, what is not
    ("2.1.6", "$schema", ["https://example.org/a.json"], [GONE, "not a uri", 7]),
    ("2.1.7", "image", *TEXTS),
    ("2.1.8", "title", *LOCALIZED),
    ("2.1.9", "name", LOCALIZED[0], [*LOCALIZED[1], GONE]),
    ("2.1.10", "description", LOCALIZED[0], [*LOCALIZED[1], GONE]),
    ("2.1.11", "author", *TEXTS),
    ("2.1.12", "license", *TEXTS),
    ("2.1.13", "category", *TEXTS),
    ("2.1.14", "tags", [[], ["a", "b"]], ["a,b", [1], None]),
    ("2.1.15", "homepage", ["https://example.org/"], ["home page", 7]),
    ("2.1.16", "uuid", ["775ed801-2489-4981-bc14-d8a01cba1938"], ["775ed801", 7]),
    (
        "2.1.17",
        "version",
        ["1", "1.2", "1.2.3", "0.0.10.4"],
        ["", "1.", "01", "1.02", "1.2.3.4.5", "v1", "1.2-beta", 1.2],
    ),
    ("2.1.18", "schemaVersion", *TEXTS),
    (
        "2.1.19",
        "ociimage",
        ["docker.io/owner/app:1.0", "app", "app:latest"],
        ["app image", "a@b", 7],
    ),
    ("2.1.20", "executable", ["true"], [GONE, 7, None]),
    ("2.1.21", "cmdparamsTemplate", ["--x ${LEVEL}", ""], [7, ["x"]]),
    ("2.1.22", "environment", [{}], [GONE, [], None]),
    ("2.1.23", "artifacts", [[]], [{}, ["x"], None]),
    ("2.1.24", "produces", [{}], [[], "x"]),
    ("2.1.24", "consumes", [{}], [[], "x"]),
    ("2.1.24", "events", [{}], [[], "x"]),
    ("2.1.24", "exitCodes", [{}], [[], "x"]),
    ("2.1.24", "kubernetes", [{"helm": {}}], [[], "x"]),
    ("2.1.25", "requirements", [[], ["Database"]], ["Database", [1]]),
    ("2.1.26", "environment", [{"A_1": {}, "1": {}, "_": {}}], [{"a": {}}, {"A-B": {}}, {"": {}}]),
    ("2.1.27", "environment/LEVEL", [{"own": [1]}, {}], ["x", None, []]),
    (
        "2.1.28",
        "environment/LEVEL/type",
        [
            "string",
            "file-path",
            "email",
            "url",
            "integer",
            "float",
            "bool",
            "password",
            "set",
            "text",
        ],
        ["boolean", "String", 7],
    ),
    (
        "2.1.29",
        "environment/LEVEL/category",
        ["API", "Database", "Behavior", "Security", "Other"],
        ["api", "Mail", 7],
    ),
    ("2.1.30", "environment/LEVEL/description", *LOCALIZED),
    ("2.1.30", "environment/LEVEL/hint", *LOCALIZED),
    ("2.1.31", "environment/LEVEL/defval", ["x", 1, 1.5, True, None, [1], {"a": 1}], []),
    ("2.1.32", "environment/LEVEL/required", *FLAGS),
    ("2.1.33", "environment/LEVEL/options", [{}, {"a": "A"}, [], ["a"]], ["a,b", 7]),
    ("2.1.34", "artifacts/0/name", *LOCALIZED),
    ("2.1.34", "artifacts/0/name", [], [GONE]),
    ("2.1.34", "artifacts/0/path", ["r.json"], [GONE, 7]),
    ("2.1.34", "artifacts/0/type", ["file"], [GONE, 7]),
    ("2.1.34", "artifacts/0/description", [*LOCALIZED[0], GONE], LOCALIZED[1]),
    ("2.1.34", "artifacts/0/own", [], [1]),
    (
        "2.1.35",
        "produces",
        [{"a-B_1": {"format": "json"}}],
        [{"a.b": {"format": "json"}}, {"a b": {"format": "json"}}],
    ),
    ("2.1.36", "produces/report-1/description", *LOCALIZED),
    ("2.1.36", "produces/report-1/patterns", [[], ["*.json"]], ["*.json", [1]]),
    ("2.1.37", "produces/report-1/format", FORMATS[0], [*FORMATS[1], GONE]),
    (
        "2.1.39",
        "produces/report-1/fields",
        [{"a-B_1": {"type": "string"}}],
        [{"a.b": {"type": "string"}}, [], {"a": 1}],
    ),
    ("2.1.39", "produces/report-1/fields/total_sum/type", ITEM_TYPES[0], [*ITEM_TYPES[1], GONE]),
    ("2.1.40", "produces/report-1/fields/total_sum/description", *LOCALIZED),
    ("2.1.40", "produces/report-1/fields/total_sum/path", ["$.a[*].b"], ["$.a[", 7]),
    (
        "2.1.41",
        "consumes",
        [{"a-B_1": {"format": "json"}}],
        [{"a.b": {"format": "json"}}, {"a b": {"format": "json"}}],
    ),
    ("2.1.41", "consumes/input/description", *LOCALIZED),
    ("2.1.42", "consumes/input/required", [*FLAGS[0], GONE], FLAGS[1]),
    ("2.1.43", "consumes/input/format", FORMATS[0], [*FORMATS[1], GONE]),
    ("2.1.44", "consumes/input/target", ["LEVEL", GONE], [7, None]),
    (
        "2.1.45",
        "consumes/input/fields",
        [{"a-B_1": {"target": "LEVEL"}}],
        [{"a.b": {"target": "LEVEL"}}, []],
    ),
    ("2.1.45", "consumes/input/fields/line/target", ["LEVEL"], [GONE, 7]),
    ("2.1.45", "consumes/input/fields/line/format", [*ITEM_TYPES[0], GONE], ITEM_TYPES[1]),
    (
        "2.1.46",
        "exitCodes",
        [{"0": {"description": "x"}, "255": {"description": "x"}}],
        [{"-1": {"description": "x"}}, {"x": {"description": "x"}}, {"": {"description": "x"}}],
    ),
    ("2.1.46", "exitCodes/0/own", [], [1]),
    ("2.1.47", "exitCodes/0/description", LOCALIZED[0], [*LOCALIZED[1], GONE]),
    (
        "2.1.48",
        "exitCodes/0/severity",
        ["success", "info", "warning", "error", "critical", GONE],
        ["Error", "fatal", None],
    ),
    ("2.1.49", "exitCodes/0/retry", [*FLAGS[0], GONE], FLAGS[1]),
    ("2.1.50", "kubernetes/helm", [{}], [GONE, []]),
    ("2.1.50", "kubernetes/own", [], [1]),
    ("2.1.51", "kubernetes/helm/enabled", [*FLAGS[0], GONE], FLAGS[1]),
    ("2.1.51", "kubernetes/helm/own", [], [1]),
    ("2.1.52", "kubernetes/helm/releaseName", *LABELS),
    ("2.1.53", "kubernetes/helm/namespace", *LABELS),
    (
        "2.1.54",
        "kubernetes/helm/chart",
        ["oci://registry.example.org/charts/x", "repo/chart", "./chart", "../chart", "/srv/chart"],
        ["chart", "a/b/c", "https://example.org/chart", "", 7],
    ),
    ("2.1.55 8.2", "kubernetes/helm/valuesFiles", [["a.yaml"], ["a", "b"], GONE], [[], "a", [1]]),
    (
        "2.1.56",
        "kubernetes/helm/set",
        [{}, {"a": "x", "b": 1, "c": 1.5, "d": True}],
        [{"a": None}, {"a": [1]}, {"a": {}}, []],
    ),
    ("2.1.57", "kubernetes/helm/upgradeInstall", [*FLAGS[0], GONE], FLAGS[1]),
    ("2.1.58 8.1", "kubernetes/helm/timeoutSeconds", [1, 3600], [0, 3601, 1.5, "60", -1]),
    ("2.1.59", "kubernetes/helm/atomic", [*FLAGS[0], GONE], FLAGS[1]),
    ("2.1.59", "kubernetes/helm/wait", [*FLAGS[0], GONE], FLAGS[1]),
    ("2.1.60", "kubernetes/helm/chart", [], [GONE]),
    ("2.1.60", "kubernetes/helm/releaseName", [], [GONE]),
    ("2.1.60", "kubernetes/helm", [{"enabled": False}, {}], [{"enabled": True}]),
    ("2.1.61", "kubernetes/artifacts/enabled", [*FLAGS[0], GONE], FLAGS[1]),
    ("2.1.61", "kubernetes/artifacts/keepPodOnFailure", [*FLAGS[0], GONE], FLAGS[1]),
    ("2.1.61", "kubernetes/artifacts/outputPath", ["/out", GONE], [7]),
    ("2.1.61", "kubernetes/artifacts/own", [], [1]),
    ("6.1", "events/own", [], [{}]),
    ("6.1", "events/emits", [{"a.B_1-c": {}}, {}], [{"a b": {}}, {"a/b": {}}, []]),
    ("6.2", "events/emits/rich.done/description", *LOCALIZED),
    ("6.2", "events/emits/rich.done/evidence", ["report"], [7]),
    ("6.2", "events/emits/rich.done/own", [1], []),
    (
        "6.3",
        "events/emits/rich.done/operation",
        ["create", "update", "delete", "any"],
        ["read", "Create", None],
    ),
    ("6.4", "events/consumes", [{"a.B_1-c": {}}, {}], [{"a b": {}}, {"a/b": {}}, []]),
    ("6.5", "events/consumes/rich.wanted/description", *LOCALIZED),
    ("6.5", "events/consumes/rich.wanted/format", [*FORMATS[0], GONE], FORMATS[1]),
    ("6.5", "events/consumes/rich.wanted/own", [1], []),
    ("9.2", "schemaVersion", ["3.4.0", "2.0.1", GONE], [3]),
    ("9.2", "version", ["7.1", GONE], [7]),
]


def changed(path: str, value: Any) -> dict[str, Any]:
    """The document with every member, and another value at a place; `GONE`: without it."""
    document = copy.deepcopy(RICHEST)
    *steps, last = path.split("/")
    holder: Any = document
    for step in steps:
        holder = holder[int(step) if step.isdigit() and isinstance(holder, list) else step]
    if value is GONE:
        holder.pop(last, None)
    else:
        holder[last] = value
    return document


@pytest.mark.spec(
    "2.1.6",
    "2.1.7",
    "2.1.8",
    "2.1.9",
    "2.1.10",
    "2.1.11",
    "2.1.12",
    "2.1.13",
    "2.1.14",
    "2.1.15",
    "2.1.16",
    "2.1.17",
    "2.1.18",
    "2.1.19",
    "2.1.20",
    "2.1.21",
    "2.1.22",
    "2.1.23",
    "2.1.24",
    "2.1.25",
    "2.1.26",
    "2.1.27",
    "2.1.28",
    "2.1.29",
    "2.1.30",
    "2.1.31",
    "2.1.32",
    "2.1.33",
    "2.1.34",
    "2.1.35",
    "2.1.36",
    "2.1.37",
    "2.1.39",
    "2.1.40",
    "2.1.41",
    "2.1.42",
    "2.1.43",
    "2.1.44",
    "2.1.45",
    "2.1.46",
    "2.1.47",
    "2.1.48",
    "2.1.49",
    "2.1.50",
    "2.1.51",
    "2.1.52",
    "2.1.53",
    "2.1.54",
    "2.1.55",
    "2.1.56",
    "2.1.57",
    "2.1.58",
    "2.1.59",
    "2.1.60",
    "2.1.61",
    "6.1",
    "6.2",
    "6.3",
    "6.4",
    "6.5",
    "8.1",
    "8.2",
    "9.2",
)
@pytest.mark.parametrize(
    ("path", "good", "bad"),
    [pytest.param(*rule[1:], id=f"{rule[0]} {rule[1]}") for rule in RULES],
)
def test_what_keeps_a_rule_is_valid_and_what_breaks_it_is_not(
    path: str, good: list[Any], bad: list[Any]
) -> None:
    for value in good:
        assert check(changed(path, value)).faults == (), value
    top = path.split("/", maxsplit=1)[0]
    for value in bad:
        faults = check(changed(path, value)).faults
        assert faults != (), value
        about = [fault.pointer for fault in faults if fault.pointer.startswith(f"/{top}")]
        assert about or value is GONE, faults


def test_every_rule_that_is_marked_has_its_rows() -> None:
    (marked,) = (
        mark.args
        for mark in test_what_keeps_a_rule_is_valid_and_what_breaks_it_is_not.pytestmark
        if mark.name == "spec"
    )
    assert set(marked) == {number for rule in RULES for number in rule[0].split()}


@pytest.mark.spec("2.1.1", "9.2")
def test_the_schema_is_draft_07_and_says_its_version() -> None:
    assert schema()["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert schema()["version"] == "3.4.0"


@pytest.mark.spec("2.1.2")
def test_additional_fields_are_allowed_at_the_top() -> None:
    own = smallest(id=7, created_at=None, enabled="x", repository={"any": [1]})
    assert check(own).faults == ()
    assert parse(own).document == own


@pytest.mark.spec("2.1.3")
def test_five_fields_are_required() -> None:
    faults = check({}).faults
    messages = " ".join(fault.message for fault in faults)
    assert len(faults) == 5
    for name in ("$schema", "name", "description", "executable", "environment"):
        assert name in messages


@pytest.mark.spec("2.1.4", "2.1.5")
def test_texts_are_plain_or_in_one_of_32_languages() -> None:
    codes = [
        "en",
        "cs",
        "sk",
        "de",
        "fr",
        "es",
        "it",
        "pl",
        "nl",
        "pt",
        "sv",
        "fi",
        "da",
        "no",
        "hu",
        "ro",
        "bg",
        "el",
        "tr",
        "hr",
        "sl",
        "et",
        "lt",
        "lv",
        "ru",
        "uk",
        "ja",
        "zh",
        "ko",
        "ar",
        "he",
        "hi",
    ]
    assert len(codes) == 32
    assert check(smallest(title=dict.fromkeys(codes, "x"))).faults == ()
    for code in codes:
        assert check(smallest(title={code: "x"})).faults == ()
    for wrong in ({}, {"en": 1}, {"eo": "x"}, {"en": "x", "EN": "x"}, {"en-US": "x"}):
        assert check(smallest(title=wrong)).faults != (), wrong


@pytest.mark.spec("2.1.6")
def test_the_default_of_the_schemas_location_is_the_public_one() -> None:
    assert schema()["properties"]["$schema"]["default"].startswith("https://")


@pytest.mark.spec("2.1.48", "2.1.49")
def test_an_exit_code_is_an_error_without_a_retry_where_nothing_is_said() -> None:
    (code,) = parse_exit_codes({"7": {"description": "x"}}).values()
    assert (code.severity, code.retry) == ("error", False)


@pytest.mark.spec("2.1.51", "2.1.57", "2.1.59", "2.1.61")
def test_defaults_of_the_cluster_are_the_specifications() -> None:
    section = parse_kubernetes({"helm": {}})
    helm, artifacts = section.helm, section.artifacts
    assert (helm.enabled, helm.upgrade_install, helm.atomic, helm.wait) == (
        False,
        True,
        False,
        True,
    )
    assert (artifacts.enabled, artifacts.keep_pod_on_failure) == (False, False)
