"""`jobauto rule suggest`: rules and mappings that could be written; nothing is."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Url

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client

Record = Mapping[str, Any]
Names = Mapping[str, Mapping[int, Record]]
NAMED = ("companies", "runtemplates", "eventsources")
KEYS = ("key", "suggested", "that fit")
RULES = ("event", "when", "mapping")
MEMBERS = (
    "runtemplate_source", "event_source", "evidence", "operation", "runtemplate", "env_mapping",
)  # fmt: skip
"""Of a rule in a file, in the order of telling."""
FEW = 4  # selectors shown beside the one that is suggested

First = Annotated[
    str,
    typer.Argument(metavar="A", help="What ends: company/name of a run template, or application."),
]
Second = Annotated[
    str | None, typer.Argument(metavar="B", help="What is started; without it rules that start A.")
]


def suggest(first: First, second: Second = None, as_json: Json = False, url: Url = None) -> None:
    """Suggest how values get from A to B; without B, rules for the events that A consumes.

    A and B are run templates (company/name) or applications (number, UUID or name); alone, A is a
    run template. Nothing is written.

    Example: jobauto rule suggest acme/Export acme/Process
    """
    if second is None:
        _suggest_rules(first, as_json, url)
    else:
        _suggest_mapping(first, second, as_json, url)


def _suggest_rules(word: str, as_json: bool, url: str | None) -> None:
    from jobauto_prefect.cli.client import speak
    from jobauto_prefect.cli.lookup import number_of
    from jobauto_prefect.cli.show import print_json

    async def ask(client: "Client") -> tuple[Any, Names]:
        number = await number_of(client, "runtemplate", word)
        found = await client.get(f"/runtemplate/{number}/suggestions.json")
        names = {name: await client.list(name) for name in (() if as_json else NAMED)}
        return found, names

    found, names = speak(url, ask)
    if as_json:
        print_json(found)
    else:
        _print_rules([_as_file(one, names) for one in found["suggestions"]])


def _suggest_mapping(first: str, second: str, as_json: bool, url: str | None) -> None:
    from jobauto_prefect.cli.client import speak
    from jobauto_prefect.cli.show import print_json

    found = speak(url, lambda client: _mapping(client, first, second))
    if as_json:
        print_json(found)
    else:
        _print_mapping(found, first, second)


async def _mapping(client: "Client", first: str, second: str) -> Any:
    source, target = await _app_of(client, first), await _app_of(client, second)
    return await client.get(f"/app/{target}/mapping.json", source_app_id=source)


async def _app_of(client: "Client", word: str) -> int:
    from jobauto_prefect.cli.lookup import number_of

    if "/" not in word:
        return await number_of(client, "app", word)
    number = await number_of(client, "runtemplate", word)
    app_id: int = (await client.get(f"/runtemplate/{number}.json"))["app_id"]
    return app_id


def _print_mapping(found: Record, first: str, second: str) -> None:
    from jobauto_prefect.cli.show import hint, print_table

    print_table(KEYS, _key_rows(found))
    if not found["env_mapping"]:
        hint("no value goes by a name that both have; choose among those that fit")
    elif "/" in first and "/" in second:
        members = [f"runtemplate_source={first}", f"runtemplate={second}"]
        mapping = f"env_mapping={json.dumps(found['env_mapping'], ensure_ascii=False)}"
        hint(f"jobauto rule create {shlex.join([*members, mapping])}")


def _key_rows(found: Record) -> Iterator[Sequence[str]]:
    for key, fitting in found["selectors"].items():
        chosen = found["env_mapping"].get(key, "")
        flows = found["flows"].get(key)
        shown = f"{flows} (flows without a mapping)" if flows else chosen
        others = [one for one in fitting if one != chosen]
        more = f" and {len(others) - FEW} more" if len(others) > FEW else ""
        yield key, shown, ", ".join(others[:FEW]) + more


def _as_file(suggestion: Record, names: Names) -> Record:
    """A suggestion whose rule has the members that files have."""
    from jobauto_prefect.cli.listing import template_title

    rule = dict(suggestion["rule"])
    for member in ("runtemplate_source_id", "runtemplate_id"):
        if member in rule:
            rule[member.removesuffix("_id")] = template_title(member)(rule, names)
    if "event_source_id" in rule:
        rule["event_source"] = names["eventsources"][rule["event_source_id"]]["name"]
    members = {name: value for name, value in rule.items() if not name.endswith("_id")}
    return {**suggestion, "rule": members}


def _print_rules(suggestions: Sequence[Record]) -> None:
    from jobauto_prefect.cli.show import hint, print_table, say

    if not suggestions:
        hint("nothing to suggest: nobody tells what its application consumes, or its rule is there")
        return
    print_table(RULES, [_rule_row(one) for one in suggestions])
    say("")
    for one in suggestions:
        say(f"jobauto rule create {shlex.join(_members(one['rule']))}")


def _rule_row(suggestion: Record) -> Sequence[str]:
    rule = suggestion["rule"]
    if "event_source" in rule:
        when = f"{rule['operation']} of {rule['evidence']} in {rule['event_source']}"
    else:
        when = f"{rule['runtemplate_source']} ends with success"
    mapping = ", ".join(f"{key}={value}" for key, value in rule["env_mapping"].items())
    return suggestion["event"], when, mapping


def _members(rule: Record) -> Iterator[str]:
    for name in MEMBERS:
        value = rule.get(name)
        if not value:
            continue
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
        yield f"{name}={text}"
