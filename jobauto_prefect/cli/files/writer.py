"""Files of records: how `jobauto export` and other commands write them."""

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobauto_prefect.errors import Conflict

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client
    from jobauto_prefect.facade.apply.record_index import RecordIndex


Record = Mapping[str, Any]


SHARED = ("calendar", "credential_type", "topic")
"""Kinds of records that share a file if they belong to no company."""


def select_records(
    index: "RecordIndex", companies: Iterable[str], labels: Iterable[str]
) -> dict[str, dict[int, Record]]:
    """Select the records to export, by kind, in writing order.

    Raises:
        Conflict: the company does not exist.
    """
    wanted, owned = set(companies), set(labels)
    for slug in wanted:
        if index.find_by_title("company", slug) is None:
            raise Conflict(f"there is no company {slug!r}; see: jobauto company list")
    chosen = index.records
    if wanted:
        chosen = _select_of_companies(index, wanted)
    if owned:
        chosen = {
            kind: {
                number: record
                for number, record in records.items()
                if owned & set(record["labels"])
            }
            for kind, records in chosen.items()
        }
    return {kind: dict(sorted(records.items())) for kind, records in chosen.items()}


def _select_of_companies(index: "RecordIndex", slugs: set[str]) -> dict[str, dict[int, Record]]:
    """Select the records of companies, and what they need.

    Those are applications, credential types, calendars and sources.
    """
    from jobauto_prefect.facade.apply.record_kinds import FILES
    from jobauto_prefect.kinds import FILE_KINDS, KINDS

    chosen: dict[str, dict[int, Record]] = {}
    for kind in reversed(list(FILE_KINDS)):  # referring records come before those they refer to
        needed = {
            record[reference.field]
            for referrer, records in chosen.items()
            for name, reference in KINDS[referrer].named_in_files.items()
            if reference.kind == kind
            for record in records.values()
        }
        listed = {
            number
            for referrer, records in chosen.items()
            for reference in KINDS[referrer].references
            # Records without an owner, such as calendars, go along with those that refer to them.
            if reference.many and reference.kind == kind and not KINDS[kind].owner
            for record in records.values()
            for named in FILES[referrer].listed(reference, record)
            for number in index.find_named(named)
        }
        chosen[kind] = {
            number: record
            for number, record in index.records[kind].items()
            if number in needed | listed or FILES[kind].company(record) in slugs
        }
    return {kind: chosen[kind] for kind in FILE_KINDS}


async def write_records(
    client: "Client", index: "RecordIndex", chosen: Mapping[str, Mapping[int, Record]], apart: bool
) -> dict[str, bytes]:
    """Write records as files: contents by name; without `apart`, all in one file."""
    files: dict[str, bytes] = {}
    listed: dict[str, list[str]] = {}
    for kind, records in chosen.items():
        for record in records.values():
            if kind == "app":
                source = await client.get_raw(f"/app/{record['id']}/definition.json")
                definition = _add_owner(source, record)
                if apart:
                    files[_app_file(record, files)] = definition
                    continue
                text = _dump_yaml(json.loads(definition.decode("utf-8-sig")), "")
            else:
                content, withheld = file_content(index, kind, record)
                note = f"# secret, and in no file: {', '.join(withheld)}\n" if withheld else ""
                text = _dump_yaml(content, note)
            listed.setdefault(_file_of(kind, record) if apart else "records.yaml", []).append(text)
    return files | {name: "".join(texts).encode() for name, texts in listed.items()}


def _add_owner(source: bytes, record: Record) -> bytes:
    """Add owner and topics to a definition that has them; otherwise leave it as imported."""
    definition = json.loads(source.decode("utf-8-sig"))
    ours = {} if record["company"] is None else {"company": record["company"]}
    topics = record.get("topics")
    if topics and topics != definition.get("topics"):
        ours["topics"] = topics
    if not ours:
        return source
    content = {**definition, **ours}
    return json.dumps(content, ensure_ascii=False, indent=2).encode()


def _app_file(record: Record, taken: Mapping[str, bytes]) -> str:
    from jobauto_prefect.facade.apply.record_kinds import APPS

    name = re.sub(r"[^a-z0-9]+", "-", APPS.title(record).lower()).strip("-") or "application"
    path = f"apps/{name}.app.json"
    return f"apps/{name}-{record['id']}.app.json" if path in taken else path


def _file_of(kind: str, record: Record) -> str:
    from jobauto_prefect.facade.apply.record_kinds import FILES

    company = FILES[kind].company(record)
    if company is not None:
        return f"companies/{company}.yaml"
    return "shared.yaml" if kind in SHARED else "sources.yaml"


def _dump_yaml(content: Any, note: str) -> str:
    from jobauto_prefect.facade.apply.yaml_parser import dump_all

    first, _, others = dump_all([content]).partition("\n")
    return f"{first}\n{note}{others}"


def file_content(
    index: "RecordIndex", kind: str, record: Record
) -> tuple[dict[str, Any], list[str]]:
    """Convert a record to its form in files; also return the names of its secret values."""
    from jobauto_prefect.definitions.validation.record_files import record_schema
    from jobauto_prefect.definitions.values import MASK
    from jobauto_prefect.kinds import KINDS

    schema, values = record_schema(kind), KINDS[kind].values
    content: dict[str, Any] = {"kind": kind}
    for name, property_ in schema["properties"].items():
        value = READERS[name](index, record) if name in READERS else record.get(name)
        needless = value in (None, [], {}) or value == property_.get("default")
        if name in schema["required"] or not needless:
            content.setdefault(name, value)
    secret = [name for name, value in (record[values] if values else {}).items() if value == MASK]
    kept = {
        name: value for name, value in content.get(values or "", {}).items() if name not in secret
    }
    if values and content.pop(values, None) and kept:
        content[values] = kept
    return content, secret


def _is_unambiguous(index: "RecordIndex", record: Record) -> bool:
    from jobauto_prefect.facade.apply.record_kinds import Named

    matching = index.find_named(Named("/app", "app", str(record["app"]), record["company"]))
    return matching == [record["app_id"]] or not record["application"].get("uuid")


READERS: Mapping[str, Callable[["RecordIndex", Record], Any]] = {
    "app": lambda index, record: record["app"] if _is_unambiguous(index, record) else None,
    "app_uuid": lambda index, record: (
        None if _is_unambiguous(index, record) else record["application"].get("uuid")
    ),
}
"""Fields of files that differ from the record's: an ambiguous name gives way to the UUID."""


def write_new(path: Path, content: bytes) -> None:
    """Write a new file.

    Raises:
        Conflict: it exists.
    """
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        raise Conflict(f"{path} already exists, and is not overwritten") from None


def replace_file(path: Path, content: bytes) -> None:
    """Replace the content of a file atomically; keep its permissions."""
    path = path.resolve()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(path.stat().st_mode & 0o7777)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
