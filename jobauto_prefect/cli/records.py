"""`list` and `show` of the record kinds, from one table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Limit, Url

Record = Mapping[str, Any]
Names = Mapping[str, Mapping[int, Record]]
"""Collection -> id -> record: what the rows of a table refer to."""

DEFAULT_ROWS = 25

companies = typer.Typer(help="Companies: who applications are run for.", no_args_is_help=True)
templates = typer.Typer(
    help="Run templates: how a company runs an application.", no_args_is_help=True
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A record kind. `columns` are of its table; `refers` names the collections its rows need."""

    item: str
    collection: str
    noun: str
    columns: Mapping[str, Callable[[Record, Names], Any]]
    refers: tuple[str, ...] = ()


def _member(name: str) -> Callable[[Record, Names], Any]:
    return lambda record, _names: record.get(name)


def _referred(collection: str, key: str, member: str) -> Callable[[Record, Names], Any]:
    def of(record: Record, names: Names) -> Any:
        found = names.get(collection, {}).get(record[key])
        return found[member] if found else record[key]

    return of


APPS = Kind(
    "app",
    "apps",
    "application",
    {
        "id": _member("id"),
        "name": _member("name"),
        "version": _member("version"),
        "enabled": _member("enabled"),
        "executable": _member("executable"),
        "uuid": _member("uuid"),
    },
)
COMPANIES = Kind(
    "company",
    "companies",
    "company",
    {name: _member(name) for name in ("id", "slug", "name", "enabled", "ic", "email")},
)
TEMPLATES = Kind(
    "runtemplate",
    "runtemplates",
    "run template",
    {
        "id": _member("id"),
        "company": _referred("companies", "company_id", "slug"),
        "name": _member("name"),
        "application": _referred("apps", "app_id", "name"),
        "active": _member("active"),
        "interval": lambda record, _names: _interval(record),
        "pool": _member("pool"),
    },
    refers=("companies", "apps"),
)

INTERVALS: Mapping[str, str] = {
    "n": "never",
    "i": "each minute",
    "h": "hourly",
    "d": "daily",
    "w": "weekly",
    "m": "monthly",
    "y": "yearly",
}


def _interval(template: Record) -> str:
    code = template["interv"]
    return template["cron"] or "never" if code == "c" else INTERVALS.get(code, code)


def add_reads(group: typer.Typer, kind: Kind) -> None:
    """Give a group its `list` and `show`."""

    def show_all(as_json: Json = False, url: Url = None, limit: Limit = None) -> None:
        list_records(kind, as_json, url, limit)

    def show_one(
        number: Annotated[int, typer.Argument(metavar="ID", min=1)],
        as_json: Json = False,
        url: Url = None,
    ) -> None:
        show_record(kind, number, as_json, url)

    group.command("list", help="List them, the newest first.")(show_all)
    group.command("show", help=f"Show one {kind.noun}.")(show_one)


def list_records(
    kind: Kind, as_json: bool, url: str | None, limit: int | None, language: str | None = None
) -> None:
    """Print the records of a kind: as a table, or as the contract's JSON.

    Names in several languages are shown in `language`, None: the one of the settings.
    """
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.show import hint, print_json, print_table

    rows = limit or (None if as_json else DEFAULT_ROWS)

    async def read(client: Client) -> tuple[dict[int, Any], Names]:
        records = await client.list(kind.collection, rows)
        needed = () if as_json else kind.refers
        return records, {name: await client.list(name) for name in needed}

    records, names = speak(url, read)
    shown = dict(list(records.items())[:rows])
    if as_json:
        print_json(shown)
        return
    named = {name: _in_one_language(found, language) for name, found in names.items()}
    rows_shown = _in_one_language(shown, language).values()
    cells = [[value(each, named) for value in kind.columns.values()] for each in rows_shown]
    print_table(list(kind.columns), cells)
    if not shown:
        hint("there are none yet")
    elif rows is not None and len(records) >= rows:
        hint(f"these are the newest {len(shown)}; more with --limit")


def _in_one_language(records: Mapping[int, Record], language: str | None) -> dict[int, Record]:
    from jobauto_prefect.definitions import text
    from jobauto_prefect.settings import load_settings

    asked = language or load_settings().language
    return {
        number: {**record, "name": text(record["name"], asked)} if "name" in record else record
        for number, record in records.items()
    }


def show_record(kind: Kind, number: int, as_json: bool, url: str | None) -> None:
    """Print one record."""
    from jobauto_prefect.cli.client import speak
    from jobauto_prefect.cli.show import print_json, print_members

    record = speak(url, lambda client: client.get(f"/{kind.item}/{number}.json"))
    if as_json:
        print_json(record)
    else:
        print_members(record)


add_reads(companies, COMPANIES)
add_reads(templates, TEMPLATES)
