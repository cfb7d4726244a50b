"""`jobauto export`: files for `jobauto apply`, from what is there."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Url
from jobauto_prefect.errors import Conflict

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client
    from jobauto_prefect.facade.apply.known import Known

Record = Mapping[str, Any]

SHARED = ("calendar", "credential_type", "topic")
"""Kinds of records that are in one file where they belong to no company."""


def export(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="A new folder; else standard output."
        ),
    ] = None,
    company: Annotated[
        list[str] | None,
        typer.Option("--company", metavar="SLUG", help="Only its records, and what they need."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="LABEL", help="Only records that bear this label."),
    ] = None,
    url: Url = None,
) -> None:
    """Write the files that apply would make these records of.

    Secret values are in no file: a comment names those that are missing. In a folder definitions
    are byte for byte as they were imported, and there is a file for each company; on standard
    output everything is one YAML text.

    Examples: jobauto export -o deployments/ · jobauto export --company acme > acme.yaml
    """
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.known import known_of
    from jobauto_prefect.cli.show import printable, say
    from jobauto_prefect.wording import counted

    if output is not None and output.exists() and any(output.iterdir()):
        raise Conflict(f"{output} is not empty; name a new folder")

    async def read(client: Client) -> dict[str, bytes]:
        known = await known_of(client)
        chosen = _chosen(known, company or (), label or ())
        return await _files(client, known, chosen, apart=output is not None)

    files = speak(url, read)
    if output is None:
        typer.echo(files.get("records.yaml", b"").decode(), nl=False)
        return
    for name, content in files.items():
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_bytes(content)
        say(printable(str(output / name)))
    say(counted(len(files), "file"))


def _chosen(
    known: "Known", companies: Iterable[str], labels: Iterable[str]
) -> dict[str, dict[int, Record]]:
    """The records asked for, by kind in the order of writing.

    Raises:
        Conflict: there is no such company.
    """
    wanted, owned = set(companies), set(labels)
    for slug in wanted:
        if known.titled("company", slug) is None:
            raise Conflict(f"there is no company {slug!r}; see: jobauto company list")
    chosen = known.records
    if wanted:
        chosen = _of_companies(known, wanted)
    if owned:
        chosen = {
            kind: {number: one for number, one in records.items() if owned & set(one["labels"])}
            for kind, records in chosen.items()
        }
    return {kind: dict(sorted(records.items())) for kind, records in chosen.items()}


def _of_companies(known: "Known", slugs: set[str]) -> dict[str, dict[int, Record]]:
    """The records of companies, and the applications, credential types, calendars and sources they
    need."""
    from jobauto_prefect.facade.apply.kinds import KINDS, calendars_in

    chosen: dict[str, dict[int, Record]] = {}
    for kind in reversed(list(KINDS)):  # what refers comes before what is referred to
        needed = {
            one[reference.member]
            for other, records in chosen.items()
            for name, reference in KINDS[other].references.items()
            if reference.kind == kind
            for one in records.values()
        }
        named = {
            name
            for other, records in chosen.items()
            for one in records.values()
            for name in (calendars_in(other, one) if kind == "calendar" else ())
        }
        chosen[kind] = {
            number: one
            for number, one in known.records[kind].items()
            if number in needed or _company(kind, one) in slugs or one.get("name") in named
        }
    return {kind: chosen[kind] for kind in KINDS}


def _company(kind: str, record: Record) -> str | None:
    """The company a record belongs to, None: it belongs to none."""
    if kind == "eventrule":
        return str(record["runtemplate"]).partition("/")[0]
    slug: str | None = record.get("slug" if kind == "company" else "company")
    return slug


async def _files(
    client: "Client", known: "Known", chosen: Mapping[str, Mapping[int, Record]], apart: bool
) -> dict[str, bytes]:
    """Name of a file -> its content; not `apart`: all in one."""
    files: dict[str, bytes] = {}
    listed: dict[str, list[str]] = {}
    for kind, records in chosen.items():
        for record in records.values():
            if kind == "app" and apart:
                source = await client.get_raw(f"/app/{record['id']}/definition.json")
                files[_app_file(record, files)] = _owned(source, record)
                continue
            if kind == "app":
                source = await client.get_raw(f"/app/{record['id']}/definition.json")
                text = _yaml(json.loads(_owned(source, record).decode("utf-8-sig")), "")
            else:
                text = _document(known, kind, record)
            listed.setdefault(_file_of(kind, record) if apart else "records.yaml", []).append(text)
    return files | {name: "".join(texts).encode() for name, texts in listed.items()}


def _owned(source: bytes, record: Record) -> bytes:
    """A definition; a company's own says whose it is, and one with topics which, and is not as it
    was imported then.
    """
    definition = json.loads(source.decode("utf-8-sig"))
    ours = {} if record["company"] is None else {"company": record["company"]}
    if record["topics"] and record["topics"] != definition.get("topics"):
        ours["topics"] = record["topics"]
    if not ours:
        return source
    content = {**definition, **ours}
    return json.dumps(content, ensure_ascii=False, indent=2).encode()


def _app_file(record: Record, taken: Mapping[str, bytes]) -> str:
    from jobauto_prefect.facade.apply.kinds import title_of

    name = _plain(title_of("app", record))
    found = f"apps/{name}.app.json"
    return f"apps/{name}-{record['id']}.app.json" if found in taken else found


def _plain(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "application"


def _file_of(kind: str, record: Record) -> str:
    company = _company(kind, record)
    if company is not None:
        return f"companies/{company}.yaml"
    return "shared.yaml" if kind in SHARED else "sources.yaml"


def _document(known: "Known", kind: str, record: Record) -> str:
    content, withheld = as_file(known, kind, record)
    note = f"# secret, and in no file: {', '.join(withheld)}\n" if withheld else ""
    return _yaml(content, note)


def _yaml(content: Any, note: str) -> str:
    from jobauto_prefect.facade.apply.yamls import dump_all

    first, _, rest = dump_all([content]).partition("\n")
    return f"{first}\n{note}{rest}"


def as_file(known: "Known", kind: str, record: Record) -> tuple[dict[str, Any], list[str]]:
    """A record as a file says it, without what goes without saying; and its secret values."""
    from jobauto_prefect.definitions.files import record_schema
    from jobauto_prefect.definitions.masks import MASK
    from jobauto_prefect.facade.apply.kinds import KINDS

    schema, values = record_schema(kind), KINDS[kind].values
    content: dict[str, Any] = {"kind": kind}
    for name, said in schema["properties"].items():
        value = READERS.get(name, _member)(known, record, name)
        needless = value in (None, [], {}) or value == said.get("default")
        if name in schema["required"] or not needless:
            content.setdefault(name, value)
    secret = [name for name, value in (record[values] if values else {}).items() if value == MASK]
    kept = {name: one for name, one in content.get(values or "", {}).items() if name not in secret}
    if values and content.pop(values, None) and kept:
        content[values] = kept
    return content, secret


def _member(_known: "Known", record: Record, name: str) -> Any:
    return record.get(name)


def _app(known: "Known", record: Record, _name: str) -> Any:
    """By its name, where that names it alone."""
    return record["app"] if _is_named(known, record) else None


def _app_uuid(known: "Known", record: Record, _name: str) -> Any:
    return None if _is_named(known, record) else record["application"].get("uuid")


def _is_named(known: "Known", record: Record) -> bool:
    from jobauto_prefect.facade.apply.kinds import meant

    reference = {"app": record["app"], "company": record["company"]}
    found = [app["id"] for app in meant(reference, known.records["app"].values())]
    return found == [record["app_id"]] or not record["application"].get("uuid")


READERS: Mapping[str, Callable[["Known", Record, str], Any]] = {"app": _app, "app_uuid": _app_uuid}
"""Members of files that are not simply the record's."""
