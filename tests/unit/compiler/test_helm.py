"""What helm is called with, member by member of the specification's table."""

import csv
import json
import shutil
import string
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.compiler.helm import helm_argv
from jobauto_prefect.definitions import Helm, check, parse
from tests.support.documents import RICHEST, smallest

HELM = shutil.which("helm")


def of(**members: Any) -> list[str]:
    """The arguments for a valid `helm` section with these members."""
    members = {"enabled": True, "releaseName": "shop", "chart": "stable/shop"} | members
    document = smallest(kubernetes={"helm": members})
    assert check(document).valid, check(document).faults
    return helm_argv(parse(document).kubernetes.helm)


BARE = ["helm", "upgrade", "--install", "shop", "stable/shop", "--create-namespace"]


@pytest.mark.spec("2.1.55", "2.1.56", "2.1.57", "2.1.58", "2.1.59")
@pytest.mark.parametrize(
    ("members", "argv"),
    [
        ({}, [*BARE, "--wait"]),
        ({"releaseName": "a-1"}, [*BARE[:3], "a-1", *BARE[4:], "--wait"]),
        (
            {"namespace": "erp"},
            [*BARE[:5], "--namespace", "erp", "--create-namespace", "--wait"],
        ),
        ({"upgradeInstall": True}, [*BARE, "--wait"]),
        (
            {"upgradeInstall": False},
            ["helm", "install", "shop", "stable/shop", "--create-namespace", "--wait"],
        ),
        ({"timeoutSeconds": 1}, [*BARE, "--timeout", "1s", "--wait"]),
        ({"timeoutSeconds": 3600}, [*BARE, "--timeout", "3600s", "--wait"]),
        ({"atomic": True}, [*BARE, "--atomic", "--wait"]),
        ({"atomic": False, "wait": False}, BARE),
        (
            {"valuesFiles": ["b.yaml", "./a b.yaml", "/etc/c,d.yaml"]},
            [
                *BARE,
                *("--values", "b.yaml", "--values", "./a b.yaml", "--values", '"/etc/c,d.yaml"'),
                "--wait",
            ],
        ),
        (
            {"set": {"replicas": 2, "image.tag": "1.0", "on": True, "off": False, "share": 0.5}},
            [
                *BARE,
                *("--set", "replicas=2", "--set-string", "image.tag=1.0"),
                *("--set", "on=true", "--set", "off=false", "--set-json", "share=0.5"),
                "--wait",
            ],
        ),
    ],
    ids=str,
)
def test_each_field_becomes_its_arguments(members: dict[str, Any], argv: list[str]) -> None:
    assert of(**members) == argv


@pytest.mark.spec("2.1.54")
@pytest.mark.parametrize(
    "chart",
    [
        "oci://registry.example.org:5000/charts/shop:1.2.3",
        "stable/shop",
        "./charts/shop",
        "../shop",
        "/srv/charts/my shop",
    ],
)
def test_a_chart_is_one_argument_whatever_its_shape(chart: str) -> None:
    assert of(chart=chart)[4] == chart


def test_all_fields_together() -> None:
    assert helm_argv(parse(RICHEST).kubernetes.helm) == [
        "helm",
        "install",
        "rich-1",
        "oci://registry.example.org/charts/rich:1.0",
        *("--namespace", "default", "--create-namespace", "--values", "values.yaml"),
        *("--set", "replicas=1", "--set-string", "name=x"),
        *("--set", "on=true", "--set-json", "share=0.5"),
        *("--timeout", "3600s", "--atomic"),
    ]


def test_a_definition_without_the_section_wants_no_release() -> None:
    found = parse(smallest()).kubernetes
    assert found.helm == Helm()
    assert not found.helm.enabled
    assert not found.artifacts.enabled


# what Helm makes of it


def until(text: str, stop: str) -> tuple[str, str]:
    """Up to one of these characters, as Helm reads it: a backslash takes the next one along."""
    taken, rest = [], iter(text)
    for character in rest:
        if character in stop:
            return "".join(taken), character + "".join(rest)
        taken.append(next(rest) if character == "\\" else character)
    return "".join(taken), ""


def as_helm_reads(flag: str, argument: str) -> tuple[str, Any]:
    """Key and value of a set argument by the rules of Helm's `strvals`; one pair only."""
    key, rest = until(argument, "=,")
    assert rest.startswith("="), f"no value: {argument}"
    if flag == "--set-json":
        return key, json.loads(rest[1:])
    assert not rest.startswith("={"), f"a list: {argument}"
    text, more = until(rest[1:], ",")
    assert not more, f"more than one value: {argument}"
    if flag == "--set-string":
        return key, text
    if text.lower() in ("true", "false"):
        return key, text.lower() == "true"
    assert text == "0" or not text.startswith("0")
    return key, int(text)


settings = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    | st.text(",{}[]\\=.\"'$`\n 0", max_size=8)
    | st.sampled_from(["true", "null", "007", "1e3", "{a,b}"])
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
)


@given(value=settings)
def test_any_value_reaches_helm_as_it_is_and_keeps_its_type(value: str | float) -> None:
    flag, argument = helm_argv(Helm(set={"key": value}, wait=False))[-2:]
    read = as_helm_reads(flag, argument)
    assert read == ("key", value)
    assert isinstance(read[1], bool) is isinstance(value, bool)
    assert isinstance(read[1], str) is isinstance(value, str)


@given(key=st.text(string.ascii_letters + ",=\\{ ", min_size=1, max_size=6))
def test_no_key_smuggles_in_another_value(key: str) -> None:
    flag, argument = helm_argv(Helm(set={key: "mine"}, wait=False))[-2:]
    assert as_helm_reads(flag, argument)[1] == "mine"


def test_the_path_in_a_key_is_helms() -> None:
    assert of(set={"hosts[0].name": "a", "labels.a\\.b": "c"})[6:-1] == [
        *("--set-string", "hosts[0].name=a", "--set-string", "labels.a\\.b=c")
    ]


@given(path=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n")))
def test_a_values_file_is_one_file_whatever_its_name(path: str) -> None:
    argument = helm_argv(Helm(values_files=(path,), wait=False))[-1]
    assert next(csv.reader([argument], strict=True)) == [path]


@pytest.mark.skipif(HELM is None, reason="there is no helm")
def test_a_real_helm_renders_the_values_with_their_types(tmp_path: Path) -> None:
    values = {"text": "a,b{c}", "number": 12345678, "share": 0.5, "on": True, "digits": "007"}
    chart = tmp_path / "shop"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: shop\nversion: 1.0.0\n")
    (chart / "templates" / "all.yaml").write_text("all: {{ .Values | toJson }}\n")
    upgrade = helm_argv(Helm(release_name="shop", chart=str(chart), set=values, wait=False))
    argv = ["helm", "template", *upgrade[3:]]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert json.loads(told.split("all: ")[1])["text"] == values["text"]
    assert json.loads(told.split("all: ")[1]) == values
