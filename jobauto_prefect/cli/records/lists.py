"""`list` for the kinds of records, made from tables: columns, filters, JSON."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from jobauto_prefect.cli.options import Columns, Json, Lang, Limit, Url
from jobauto_prefect.cli.output.terminal import format_time, print_hint, print_json, print_table
from jobauto_prefect.cli.records.lookup import find_id
from jobauto_prefect.kinds import Kind

Record = Mapping[str, Any]
Names = Mapping[str, Mapping[int, Record]]
"""Collection -> id -> record: the records that a table's rows refer to."""

DEFAULT_ROWS = 25
DEFAULT_LANGUAGE = "en"


@dataclass(frozen=True, slots=True)
class Filter:
    """An option of a list, and its query parameter in the REST contract.

    `kind` is the kind of record that its value names, by id or name; `flag` is for yes or no.
    """

    parameter: str
    help: str
    metavar: str = "TEXT"
    kind: str | None = None
    flag: bool = False


@dataclass(frozen=True, slots=True)
class ListedKind:
    """How a kind is listed. `columns` are those of its table; `refers` names the collections its
    rows need; `filters` are by option. A `localized` kind has names in several languages; of a
    paged kind JSON has the newest ones only where no limit is said.
    """

    kind: Kind
    columns: Mapping[str, Callable[[Record, Names], Any]]
    refers: tuple[str, ...] = ()
    filters: Mapping[str, Filter] = field(default_factory=dict)
    localized: bool = False


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The values of a list's options; None: not given."""

    as_json: bool = False
    url: str | None = None
    limit: int | None = None
    columns: str | None = None
    lang: str | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)


def key_column(name: str) -> Callable[[Record, Names], Any]:
    return lambda record, _names: record.get(name)


def time_column(name: str) -> Callable[[Record, Names], str]:
    """Make a column with an instant."""

    def of(record: Record, _names: Names) -> str:
        return format_time(record.get(name))

    return of


def reference_column(collection: str, key: str, name: str) -> Callable[[Record, Names], Any]:
    """Make a column with a key of the record it refers to."""

    def of(record: Record, names: Names) -> Any:
        referred = names.get(collection, {}).get(record[key])
        return referred[name] if referred else record[key]

    return of


def template_column(key: str) -> Callable[[Record, Names], Any]:
    """Make a column with `company/name` of a run template; it needs both collections."""

    def of(record: Record, names: Names) -> Any:
        template = names["runtemplates"].get(record[key])
        if template is None:
            return record[key]
        company = names["companies"].get(template["company_id"], {}).get("slug", "?")
        return f"{company}/{template['name']}"

    return of


def add_list(group: typer.Typer, listed: ListedKind) -> None:
    """Add `list` to a group."""

    def command(**given: Any) -> None:
        common = {name: given[name] for name in COMMON}
        list_records(
            listed, ListOptions(**common, filters={name: given[name] for name in listed.filters})
        )

    options = {name: _option(name, filter_) for name, filter_ in listed.filters.items()}
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
    kind = listed.kind
    command.__doc__ = (
        f"List {kind.nouns}, the newest first.\n\nColumns: {', '.join(listed.columns)}. Every field"
        " of the records can be a column, too.\n\n"
        f"Example: jobauto {kind.command} list {kind.listed}"
    )
    group.command("list")(command)


COMMON = ("as_json", "url", "limit", "columns", "lang")


def _option(name: str, filter_: Filter) -> Any:
    word = name.rstrip("_").replace("_", "-")
    if filter_.flag:
        return Annotated[bool | None, typer.Option(f"--{word}/--not-{word}", help=filter_.help)]
    return Annotated[
        str | None, typer.Option(f"--{word}", metavar=filter_.metavar, help=filter_.help)
    ]


def list_records(listed: ListedKind, asked: ListOptions) -> None:
    """Print the records of a kind, as a table or as the contract's JSON."""
    from jobauto_prefect.cli.connection.client import Client, call_facade

    rows = asked.limit or (None if asked.as_json and not listed.kind.paged else DEFAULT_ROWS)

    async def read(client: Client) -> tuple[dict[int, Any], Names]:
        query = {}
        for name, value in asked.filters.items():
            filter_ = listed.filters[name]
            if value is not None:
                wanted = await find_id(client, filter_.kind, value) if filter_.kind else value
                query[filter_.parameter] = str(wanted).lower() if filter_.flag else wanted
        records = await client.newest(listed.kind.collection, rows, **query)
        needed = () if asked.as_json else listed.refers
        return records, {name: await client.list(name) for name in needed}

    records, names = call_facade(asked.url, read)
    if asked.as_json:
        print_json(records)
        return
    if listed.localized or "apps" in names:
        records = _localize(records, asked.lang)
        names = {name: _localize(referred, asked.lang) for name, referred in names.items()}
    columns = _columns(listed, asked.columns, records)
    cells = [[of(record, names) for of in columns.values()] for record in records.values()]
    print_table(list(columns), cells)
    if not records:
        print_hint("there are none" + (" of that kind" if any(asked.filters.values()) else " yet"))
    elif rows is not None and len(records) >= rows:
        print_hint(f"these are the newest {len(records)}; more with --limit")


def _columns(
    listed: ListedKind, asked: str | None, records: Mapping[int, Record]
) -> dict[str, Callable[[Record, Names], Any]]:
    if asked is None:
        return dict(listed.columns)
    members = {name: key_column(name) for record in records.values() for name in record}
    available = {**members, **listed.columns}
    wanted = [name.strip() for name in asked.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in available]
    if unknown and records:  # fields that these records lack, such as optional ones of definitions
        from jobauto_prefect.facade.kinds.registry import BY_ITEM

        fields = BY_ITEM[listed.kind.item].answer.field_names()
        unknown = [name for name in unknown if name not in fields]
    if unknown and records:
        raise typer.BadParameter(
            f"there is no column {unknown[0]!r}; there are {', '.join(sorted(available))}",
            param_hint="--columns",
        )
    return {name: available.get(name, key_column(name)) for name in wanted}


def _localize(records: Mapping[int, Record], language: str | None) -> dict[int, Record]:
    from jobauto_prefect.definitions.model import pick_text
    from jobauto_prefect.variables import variable

    asked = language or variable("JOBAUTO_LANGUAGE") or DEFAULT_LANGUAGE
    return {
        number: {**record, "name": pick_text(record["name"], asked)} if "name" in record else record
        for number, record in records.items()
    }


def key_columns(names: Sequence[str]) -> dict[str, Callable[[Record, Names], Any]]:
    """Make columns with keys as they are."""
    return {name: key_column(name) for name in names}
