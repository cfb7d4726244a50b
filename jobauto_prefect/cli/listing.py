"""`list` of the record kinds, made from tables: columns, filters, JSON."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Columns, Json, Lang, Limit, Url

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client

Record = Mapping[str, Any]
Names = Mapping[str, Mapping[int, Record]]
"""Collection -> id -> record: what the rows of a table refer to."""

DEFAULT_ROWS = 25
DEFAULT_LANGUAGE = "en"


@dataclass(frozen=True, slots=True)
class Filter:
    """An option of a list, and the query parameter of the REST contract it is.

    `kind` is the record kind its value names, by id or name; `flag` is for a yes or no.
    """

    parameter: str
    help: str
    metavar: str = "TEXT"
    kind: str | None = None
    flag: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """A record kind. `columns` are of its table; `refers` names the collections its rows need;
    `filters` are by option. A `localized` kind has names in several languages; of one that is
    not `whole` JSON has the newest ones only where no limit is said.
    """

    item: str
    collection: str
    many: str
    columns: Mapping[str, Callable[[Record, Names], Any]]
    refers: tuple[str, ...] = ()
    filters: Mapping[str, Filter] = field(default_factory=dict)
    localized: bool = False
    whole: bool = True
    example: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """How a list is asked for; None: nothing is said of it."""

    as_json: bool = False
    url: str | None = None
    limit: int | None = None
    columns: str | None = None
    lang: str | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)


def member(name: str) -> Callable[[Record, Names], Any]:
    """A column with a member as it is."""
    return lambda record, _names: record.get(name)


def time_of(name: str) -> Callable[[Record, Names], str]:
    """A column with an instant."""

    def of(record: Record, _names: Names) -> str:
        from jobauto_prefect.cli.show import moment

        return moment(record.get(name))

    return of


def referred(collection: str, key: str, name: str) -> Callable[[Record, Names], Any]:
    """A column with a member of the record that is referred to."""

    def of(record: Record, names: Names) -> Any:
        found = names.get(collection, {}).get(record[key])
        return found[name] if found else record[key]

    return of


def template_title(key: str) -> Callable[[Record, Names], Any]:
    """A column with `company/name` of a run template; it needs both collections."""

    def of(record: Record, names: Names) -> Any:
        template = names["runtemplates"].get(record[key])
        if template is None:
            return record[key]
        company = names["companies"].get(template["company_id"], {}).get("slug", "?")
        return f"{company}/{template['name']}"

    return of


def add_list(group: typer.Typer, kind: Kind) -> None:
    """Give a group its `list`."""

    def command(**given: Any) -> None:
        common = {name: given[name] for name in COMMON}
        list_records(kind, Asked(**common, filters={name: given[name] for name in kind.filters}))

    options = {name: _option(name, one) for name, one in kind.filters.items()}
    options |= {"as_json": Json, "columns": Columns, "url": Url, "limit": Limit, "lang": Lang}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # typer looks at it
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if name == "as_json" else None,
                annotation=annotation,
            )
            for name, annotation in options.items()
        ]
    )
    command.__doc__ = (
        f"List {kind.many}, the newest first.\n\nColumns: {', '.join(kind.columns)}; and every "
        f"member of the records.\n\n{kind.example}"
    )
    group.command("list")(command)


COMMON = ("as_json", "url", "limit", "columns", "lang")


def _option(name: str, one: Filter) -> Any:
    word = name.rstrip("_").replace("_", "-")
    if one.flag:
        return Annotated[bool | None, typer.Option(f"--{word}/--not-{word}", help=one.help)]
    return Annotated[str | None, typer.Option(f"--{word}", metavar=one.metavar, help=one.help)]


def list_records(kind: Kind, asked: Asked) -> None:
    """Print the records of a kind: as a table, or as the contract's JSON."""
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.show import hint, print_json, print_table

    rows = asked.limit or (None if asked.as_json and kind.whole else DEFAULT_ROWS)

    async def read(client: Client) -> tuple[dict[int, Any], Names]:
        query = await _query(client, kind, asked.filters)
        records = await client.newest(kind.collection, rows, **query)
        needed = () if asked.as_json else kind.refers
        return records, {name: await client.list(name) for name in needed}

    records, names = speak(asked.url, read)
    if asked.as_json:
        print_json(records)
        return
    if kind.localized or "apps" in names:
        records = _in_one_language(records, asked.lang)
        names = {name: _in_one_language(found, asked.lang) for name, found in names.items()}
    columns = _columns(kind, asked.columns, records)
    cells = [[of(each, names) for of in columns.values()] for each in records.values()]
    print_table(list(columns), cells)
    if not records:
        hint("there are none" + (" of that kind" if any(asked.filters.values()) else " yet"))
    elif rows is not None and len(records) >= rows:
        hint(f"these are the newest {len(records)}; more with --limit")


async def _query(client: "Client", kind: Kind, filters: Mapping[str, Any]) -> dict[str, Any]:
    from jobauto_prefect.cli.lookup import number_of

    query = {}
    for name, value in filters.items():
        one = kind.filters[name]
        if value is not None:
            wanted = await number_of(client, one.kind, value) if one.kind else value
            query[one.parameter] = str(wanted).lower() if one.flag else wanted
    return query


def _columns(
    kind: Kind, asked: str | None, records: Mapping[int, Record]
) -> dict[str, Callable[[Record, Names], Any]]:
    if asked is None:
        return dict(kind.columns)
    members = {name: member(name) for record in records.values() for name in record}
    known = {**members, **kind.columns}
    wanted = [name.strip() for name in asked.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in known]
    if unknown and records:
        raise typer.BadParameter(
            f"there is no column {unknown[0]!r}; there are {', '.join(sorted(known))}",
            param_hint="--columns",
        )
    return {name: known.get(name, member(name)) for name in wanted}


def _in_one_language(records: Mapping[int, Record], language: str | None) -> dict[int, Record]:
    from jobauto_prefect.definitions.localized import text
    from jobauto_prefect.variables import variable

    asked = language or variable("JOBAUTO_LANGUAGE") or DEFAULT_LANGUAGE
    return {
        number: {**record, "name": text(record["name"], asked)} if "name" in record else record
        for number, record in records.items()
    }


def columns_of(names: Sequence[str]) -> dict[str, Callable[[Record, Names], Any]]:
    """Columns with members as they are."""
    return {name: member(name) for name in names}
