"""Layers, macros, refusals and secrets of a job's environment."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.definitions import Definition, parse
from jobauto_prefect.runtime.launch.environment import (
    Environment,
    Layer,
    Source,
    resolve_environment,
)


def definition(**environment: Mapping[str, Any]) -> Definition:
    return parse(
        {"name": "probe", "description": "", "executable": "probe", "environment": environment}
    )


def resolved(
    of: Definition,
    *,
    company: Layer | None = None,
    credentials: Layer | None = None,
    template: Layer | None = None,
    overrides: Layer | None = None,
    injected: Mapping[str, str] | None = None,
    extra: Collection[str] = (),
) -> Environment:
    return resolve_environment(
        of,
        company=company or Layer(),
        credentials=credentials,
        template=template or Layer(),
        overrides=overrides or Layer(),
        injected=injected or {},
        extra=extra,
    )


def test_a_later_source_wins_over_an_earlier_one() -> None:
    keys = ["A", "B", "C", "D", "E", "F"]
    environment = resolved(
        definition(**{key: {"defval": "definition"} for key in keys}),
        company=Layer(dict.fromkeys(keys[1:], "company")),
        credentials=Layer(dict.fromkeys(keys[2:], "credential")),
        template=Layer(dict.fromkeys(keys[3:], "template")),
        overrides=Layer(dict.fromkeys(keys[4:], "job")),
        injected=dict.fromkeys(keys[5:], "injected"),
    )
    assert list(environment.variables().values()) == [str(source) for source in Source]
    assert [value.source for value in environment.values.values()] == list(Source)


def test_the_page_lists_the_sources_in_their_order() -> None:
    page = Path("docs/concepts.md").read_text().partition("## Where values come from")[2]
    rows = re.findall(r"^\| [1-9] \| `([a-z]+)` \|", page, re.MULTILINE)
    assert rows == list(Source)


def test_values_of_credentials_have_no_macros_and_their_secrets_are_masked() -> None:
    environment = resolved(
        definition(TOWN={"defval": "Prague"}, PLAIN={}, PIN={}),
        credentials=Layer({"PLAIN": "{TOWN}"}, {"PIN": "{TOWN}-1234"}),
    )
    assert environment.variables() == {"TOWN": "Prague", "PLAIN": "{TOWN}", "PIN": "{TOWN}-1234"}
    assert environment.secrets == ("{TOWN}-1234",)
    assert environment.masked()["PIN"] == "********"


def test_typed_defaults_become_text_and_null_is_no_value() -> None:
    environment = resolved(
        definition(
            A={"defval": True}, B={"defval": 3.0}, C={"defval": None}, D={}, E={"defval": ""}
        )
    )
    assert environment.variables() == {"A": "true", "B": "3", "E": ""}


@pytest.mark.parametrize(
    ("kind", "default", "text"),
    [
        ("bool", "False", "false"),
        ("bool", "YES", "true"),
        ("bool", 1, "true"),
        ("bool", " ", ""),
        ("bool", "perhaps", "perhaps"),
        ("string", "False", "False"),
        ("integer", "007", "007"),
        ("float", "1.50", "1.50"),
    ],
)
def test_a_default_keeps_its_spelling_unless_it_is_a_bool(
    kind: str, default: Any, text: str
) -> None:
    environment = resolved(definition(A={"type": kind, "defval": default}))
    assert environment.variables() == {"A": text}


def test_required_keys_without_a_value_are_missing_all_at_once() -> None:
    environment = resolved(
        definition(
            A={"required": True},
            B={"required": True, "defval": "b"},
            C={"required": True, "defval": ""},
            D={"required": False},
            E={"required": True, "defval": "e"},
        ),
        overrides=Layer({"E": ""}),
    )
    assert environment.missing == ("A", "C", "E")


def test_a_name_that_may_not_be_given_is_left_out_and_said() -> None:
    bad = Layer({"PATH": "/evil", "JOBAUTO_JOB_ID": "7", "FINE": "x"}, {"LD_PRELOAD": "evil.so"})
    for layers in ({"credentials": bad}, {"template": bad}, {"overrides": bad}):
        environment = resolved(definition(FINE={}), injected={"JOBAUTO_JOB_ID": "1"}, **layers)
        assert environment.variables() == {"FINE": "x", "JOBAUTO_JOB_ID": "1"}
        assert environment.left_out == ("JOBAUTO_JOB_ID", "LD_PRELOAD", "PATH")


def test_undeclared_names_are_left_out_and_said() -> None:
    environment = resolved(
        definition(A={}), template=Layer({"A": "1", "X": "2"}), injected={"JOBAUTO_JOB_ID": "3"}
    )
    assert environment.variables() == {"A": "1", "JOBAUTO_JOB_ID": "3"}
    assert environment.left_out == ("X",)


def test_values_of_a_company_reach_only_who_declares_them_and_nothing_is_said_of_the_others() -> (
    None
):
    environment = resolved(
        definition(A={}, B={"defval": "{X}"}), company=Layer({"A": "1", "X": "2"}, {"Y": "3"})
    )
    assert environment.variables() == {"B": "{X}", "A": "1"}
    assert environment.left_out == ()


def test_an_administrator_adds_names_for_all_but_none_that_changes_how_programs_are_loaded() -> (
    None
):
    extra = ("TRACE_ID", "BASH_ENV")
    given = Layer({"TRACE_ID": "7", "BASH_ENV": "$(evil)"})
    for layers in ({"credentials": given}, {"template": given}, {"overrides": given}):
        environment = resolved(definition(), extra=extra, **layers)
        assert environment.variables() == {"TRACE_ID": "7"}
        assert environment.left_out == ("BASH_ENV",)


def test_a_source_gives_the_names_it_is_granted() -> None:
    credential = Layer({"HOST": "db", "HOME": "/evil"}, {"PIN": "1234"}, {"HOST", "PIN", "HOME"})
    environment = resolved(definition(), credentials=credential, template=Layer({"HOST": "x"}))
    assert environment.variables() == {"HOST": "db", "PIN": "1234"}
    assert environment.left_out == ("HOME", "HOST")


def test_a_value_with_nul_or_a_lone_surrogate_is_said_to_be_invalid() -> None:
    overrides = Layer({"A": "x\0y", "B": "\ud800", "C": "fine"})
    environment = resolved(definition(A={}, B={}, C={}), overrides=overrides)
    assert environment.invalid == ("A", "B")


def test_macros_are_expanded_once_in_definition_company_and_template() -> None:
    environment = resolved(
        definition(A={"defval": "<{B}>"}, B={"defval": "{C}"}, C={"defval": "c"}, X={}, Y={}, Z={}),
        company=Layer({"X": "{C}-{JOBAUTO_JOB_ID}"}),
        template=Layer({"Y": "${C}/{NOBODY}/{}/{C", "Z": "{Z}"}),
        injected={"JOBAUTO_JOB_ID": "5"},
    )
    texts = environment.variables()
    assert texts["A"] == "<{C}>"
    assert texts["B"] == "c"
    assert texts["X"] == "c-5"
    assert texts["Y"] == "c/{NOBODY}/{}/{C"
    assert texts["Z"] == "{Z}"


def test_macros_in_job_values_and_in_what_they_put_in_stay_text() -> None:
    environment = resolved(
        definition(
            A={"defval": "[{X}]"}, PASSWORD={"type": "password", "defval": "geheim"}, X={}, Y={}
        ),
        overrides=Layer({"X": "{PASSWORD}", "Y": "{X}"}),
        injected={"Z": "{PASSWORD}"},
    )
    texts = environment.variables()
    assert (texts["X"], texts["Y"], texts["Z"]) == ("{PASSWORD}", "{X}", "{PASSWORD}")
    assert texts["A"] == "[{PASSWORD}]"


def test_a_declared_key_without_a_value_expands_to_nothing() -> None:
    environment = resolved(definition(A={"defval": "a{B}"}, B={}))
    assert environment.variables() == {"A": "a"}


def test_a_value_that_takes_in_a_secret_is_a_secret() -> None:
    environment = resolved(
        definition(
            KEY={"defval": "probe-{PASSWORD}"},
            AGAIN={"defval": "{KEY}"},
            PASSWORD={"type": "password"},
        ),
        template=Layer(secrets={"PASSWORD": "hunter2!"}),
    )
    assert environment.variables()["KEY"] == "probe-hunter2!"
    assert environment.masked() == {
        "KEY": "********",
        "AGAIN": "probe-{PASSWORD}",
        "PASSWORD": "********",
    }
    assert environment.secrets == ("hunter2!", "probe-hunter2!")


def test_a_published_password_default_is_masked_but_not_searched_for() -> None:
    environment = resolved(
        definition(P={"type": "password", "defval": "donotcare"}, K={"defval": "k-{P}"})
    )
    assert environment.masked() == {"P": "********", "K": "********"}
    assert environment.secrets == ()


def test_a_password_key_is_a_secret_in_every_layer() -> None:
    for layer in ("company", "template", "overrides"):
        of = definition(P={"type": "password"})
        environment = resolved(of, **{layer: Layer({"P": "hunter2"})})
        assert environment.secrets == ("hunter2",)
        assert environment.masked() == {"P": "********"}


def test_a_plain_value_that_contains_a_secret_is_shown_without_it() -> None:
    environment = resolved(
        definition(URL={}, P={}),
        template=Layer({"URL": "db://u:hunter2@h/x"}, {"P": "hunter2"}),
    )
    assert environment.masked()["URL"] == "db://u:********@h/x"


def test_secrets_are_in_no_repr() -> None:
    layer = Layer(secrets={"P": "hunter2"})
    environment = resolved(definition(P={"type": "password"}), template=layer)
    assert "hunter2" not in repr(layer) + repr(environment)


NAMES = st.sampled_from(["A", "B", "C", "X", "Y"])
TEXTS = st.text(alphabet="{}$ABX \n'\"\\é", max_size=12)


@given(st.dictionaries(NAMES, TEXTS), st.dictionaries(NAMES, TEXTS))
def test_job_values_reach_the_process_unchanged(
    below: dict[str, str], overrides: dict[str, str]
) -> None:
    environment = resolved(
        definition(A={"defval": "{X}"}, B={}, C={}, X={}, Y={}),
        template=Layer(below),
        overrides=Layer(overrides),
    )
    assert {name: environment.variables()[name] for name in overrides} == overrides
