"""The actions of run templates in files: what starts is named there, not numbered."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jobauto_prefect.definitions.records.actions import Action, ActionMode

Record = Mapping[str, Any]
REFERENCES: Mapping[str, tuple[str, str, str]] = {
    Action.CHAIN: ("runtemplate", "runtemplate_id", "runtemplate"),
    Action.LAUNCH: ("app", "app_id", "app"),
}
"""Action -> its field in files, its field in records, and the kind of record it names."""

MODES = tuple(map(str, ActionMode))
Titles = Mapping[str, Mapping[int, str]]


def to_file_actions(actions: Record, titles: Titles) -> dict[str, Any]:
    """Return a record's actions as files have them, no secrets; `titles`: kind -> id -> title."""
    in_file: dict[str, Any] = {}
    for name, config in actions.items():
        in_file[name] = {key: value for key, value in config.items() if key != "secret"}
        if name in REFERENCES:
            member, numbered, kind = REFERENCES[name]
            in_file[name] = {member: titles[kind].get(config[numbered])}
    return in_file


def to_field_actions(
    actions: Record, number_of: Callable[[str, str], int | str | None]
) -> dict[str, Any]:
    """Return a file's actions as the facade takes them; `number_of`: kind, title -> id."""
    fields = dict(actions)
    for name, (member, numbered, kind) in REFERENCES.items():
        if name in fields:
            fields[name] = {numbered: number_of(kind, fields[name][member])}
    return fields


def references(content: Record) -> Iterator[tuple[str, str, str]]:
    """Yield what the actions of a run template start: pointer, kind, title."""
    for mode in MODES:
        for name, config in content.get(mode, {}).items():
            if name in REFERENCES:
                member, _, kind = REFERENCES[name]
                yield f"/{mode}/{name}/{member}", kind, config[member]
