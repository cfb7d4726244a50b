"""The plan of files to apply, for people and programs."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobauto_prefect.cli.output.terminal import (
    STYLES,
    print_grouped_hints,
    print_hint,
    print_json,
    print_line,
)
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.wording import escape_controls, pluralize

Plan = Mapping[str, Any]
"""As answered by `POST /apply`."""

SHOWN_LENGTH = 60  # characters of a value in the list of changes


def print_plan(planned: Plan) -> None:
    """Print the changes, and the service's warnings on standard error."""
    print_changes(planned["changes"])
    _hint_warnings(planned["warnings"])


def _hint_warnings(warnings: Sequence[Mapping[str, Any]]) -> None:
    print_grouped_hints(
        (KINDS[warning["kind"]].noun, warning["title"], warning["message"]) for warning in warnings
    )


def hint_forbidden(faults: Sequence[Mapping[str, Any]]) -> None:
    """Warn of changes that this user may not make."""
    places = ((":".join(str(fault[name]) for name in ("file", "line") if name in fault), fault)
              for fault in faults)  # fmt: skip
    print_grouped_hints(
        (("change", place, fault["message"]) for place, fault in places), "not permitted"
    )


def hint_new_plan() -> None:
    """Announce the new plan after the records changed meanwhile."""
    print_hint(
        "somebody else changed records meanwhile, and nothing was changed; this is the new plan:"
    )


def print_changes(changes: Sequence[Mapping[str, Any]]) -> None:
    """Print the changes; updates field by field."""
    for change in changes:
        action = change["action"]
        words = f"{action:10}{change['kind']:16}{change['title']}"
        print_line(escape_controls(words), style=STYLES[action])
        for name, values in change["fields"].items():
            words = f"          {name}: {_shorten(values['before'])} → {_shorten(values['after'])}"
            print_line(escape_controls(words))
        for name, values in change["drift"].items():
            before, after = _shorten(values["prefect"]), _shorten(values["record"])
            words = f"          in Prefect {name}: {before} → {after}"
            print_line(escape_controls(words), style=STYLES["restore"])


def _shorten(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 1] + "…"


WORDS: Mapping[str, tuple[str, str]] = {
    "create": ("to create", "created"),
    "update": ("to update", "updated"),
    "restore": ("to restore in Prefect", "restored in Prefect"),
    "delete": ("to delete", "deleted"),
    "unchanged": ("unchanged", "unchanged"),
}
"""Words for an action on a number of changes: before and after."""


def print_counts(planned: Plan, would: bool) -> None:
    """Print how many records were changed, or `would` be, by action."""
    counts = planned["counts"]
    named = [
        f"{counts[action]} {words[not would]}" for action, words in WORDS.items() if counts[action]
    ]
    print_line(", ".join(named) or "the files contain no records: nothing is changed or deleted")
    if planned["prefect_away"] and would:
        print_hint(f"Prefect was not compared: {planned['prefect_away']}")


def print_plan_json(planned: Plan, more: Mapping[str, Any]) -> None:
    """Print a plan and further keys as JSON, its warnings on standard error."""
    _hint_warnings(planned["warnings"])
    names = ("changes", "counts", "prefect_compared")
    print_json({**more, **{name: planned[name] for name in names}})


def hint_waiting(waiting: int) -> None:
    """Report how many changes Prefect lacks, if any."""
    if waiting:
        print_hint(
            f"Prefect does not have {pluralize(waiting, 'change')} yet; the rest follows when it"
            " answers, by jobauto services or jobauto up"
        )
