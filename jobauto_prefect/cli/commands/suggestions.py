"""`jobauto rule suggest`: suggests rules and mappings, without writing any."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Url
from jobauto_prefect.cli.output.results import call_and_print
from jobauto_prefect.cli.output.terminal import print_hint, print_json, print_line, print_table
from jobauto_prefect.cli.records.lookup import find_id

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client

Record = Mapping[str, Any]
Names = Mapping[str, Mapping[int, Record]]
NAMED = ("companies", "runtemplates", "eventsources")
KEYS = ("key", "suggested", "that fit")
RULES = ("event", "when", "mapping")
MEMBERS = (
    "runtemplate_source", "event_source", "evidence", "operation", "runtemplate", "env_mapping",
)  # fmt: skip
"""Keys of a rule in a file, in the order shown."""
FEW = 4  # selectors shown besides the suggested one

First = Annotated[
    str,
    typer.Argument(metavar="A", help="Source: company/name of a run template, or application."),
]
Second = Annotated[
    str | None, typer.Argument(metavar="B", help="Target. Without it, suggest rules that start A.")
]


def suggest(first: First, second: Second = None, as_json: Json = False, url: Url = None) -> None:
    """Suggest how to pass values from A to B.

    A and B are run templates (company/name) or applications (number, UUID or name). Without B, it
    suggests rules for the events that the run template A consumes. Nothing is written.

    Example: jobauto rule suggest acme/Export acme/Process
    """
    if second is None:
        from jobauto_prefect.cli.connection.client import call_facade

        async def ask(client: "Client") -> tuple[Any, Names]:
            number = await find_id(client, "runtemplate", first)
            answer = await client.get(f"/runtemplate/{number}/suggestions.json")
            names = {name: await client.list(name) for name in (() if as_json else NAMED)}
            return answer, names

        answer, names = call_facade(url, ask)
        if as_json:
            print_json(answer)
        else:
            _print_rules(
                [_name_references(suggestion, names) for suggestion in answer["suggestions"]]
            )
    else:

        async def fetch(client: "Client") -> Any:
            source, target = await _find_app(client, first), await _find_app(client, second)
            return await client.get(f"/app/{target}/mapping.json", source_app_id=source)

        call_and_print(url, fetch, as_json, lambda mapping: _print_mapping(mapping, first, second))


async def _find_app(client: "Client", word: str) -> int:
    if "/" not in word:
        return await find_id(client, "app", word)
    number = await find_id(client, "runtemplate", word)
    app_id: int = (await client.get(f"/runtemplate/{number}.json"))["app_id"]
    return app_id


def _print_mapping(suggestion: Record, first: str, second: str) -> None:
    rows = []
    for key, fitting in suggestion["selectors"].items():
        chosen = suggestion["env_mapping"].get(key, "")
        flows = suggestion["flows"].get(key)
        shown = f"{flows} (flows without a mapping)" if flows else chosen
        others = [selector for selector in fitting if selector != chosen]
        more = f" and {len(others) - FEW} more" if len(others) > FEW else ""
        rows.append((key, shown, ", ".join(others[:FEW]) + more))
    print_table(KEYS, rows)
    if not suggestion["env_mapping"]:
        print_hint("no names are the same; choose among the values that fit")
    elif "/" in first and "/" in second:
        members = [f"runtemplate_source={first}", f"runtemplate={second}"]
        mapping = f"env_mapping={json.dumps(suggestion['env_mapping'], ensure_ascii=False)}"
        print_hint(f"jobauto rule create {shlex.join([*members, mapping])}")


def _name_references(suggestion: Record, names: Names) -> Record:
    """Give the rule of a suggestion the keys used in files: names instead of ids."""
    from jobauto_prefect.cli.records.lists import template_column

    rule = dict(suggestion["rule"])
    for member in ("runtemplate_source_id", "runtemplate_id"):
        if member in rule:
            rule[member.removesuffix("_id")] = template_column(member)(rule, names)
    if "event_source_id" in rule:
        rule["event_source"] = names["eventsources"][rule["event_source_id"]]["name"]
    members = {name: value for name, value in rule.items() if not name.endswith("_id")}
    return {**suggestion, "rule": members}


def _print_rules(suggestions: Sequence[Record]) -> None:
    if not suggestions:
        print_hint(
            "nothing to suggest: nothing provides what its application consumes, or the rule exists"
        )
        return
    print_table(RULES, [_rule_row(suggestion) for suggestion in suggestions])
    print_line("")
    for suggestion in suggestions:
        print_line(f"jobauto rule create {shlex.join(_rule_words(suggestion['rule']))}")


def _rule_row(suggestion: Record) -> Sequence[str]:
    rule = suggestion["rule"]
    if "event_source" in rule:
        when = f"{rule['operation']} of {rule['evidence']} in {rule['event_source']}"
    else:
        when = f"{rule['runtemplate_source']} ends with success"
    mapping = ", ".join(f"{key}={value}" for key, value in rule["env_mapping"].items())
    return suggestion["event"], when, mapping


def _rule_words(rule: Record) -> Iterator[str]:
    for name in MEMBERS:
        value = rule.get(name)
        if not value:
            continue
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
        yield f"{name}={text}"
