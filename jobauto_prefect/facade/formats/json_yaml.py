"""JSON and YAML, and records as plain values for the other formats."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from jobauto_prefect.definitions.storable import write_exact
from jobauto_prefect.facade.formats.view import View

Record = dict[str, Any]

CHUNK_BYTES = 64 * 1024  # of a streamed response


def _encode_extra(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_encode_extra
)


def to_json(value: Any) -> bytes:
    """Return JSON in UTF-8; half a surrogate pair, which UTF-8 lacks, is written as its escape."""
    return _ENCODER.encode(value).encode("utf-8", "backslashreplace")


def dump_json(value: Any) -> str:
    """Return compact JSON, where no other form fits."""
    return write_exact(value)


def to_plain(value: Any) -> Any:
    """Return the value after a round trip through JSON, with text that UTF-8 can encode."""
    return json.loads(_ENCODER.encode(value).encode("utf-8", "replace"))


def render_json(view: View) -> bytes:
    """Render the data alone; a change's numbers, which no list shows, keep their digits."""
    data = _data_for_programs(view)
    if view.is_list:
        return to_json(data)
    return write_exact(data, _ENCODER).encode("utf-8", "backslashreplace")


def render_yaml(view: View) -> bytes:
    """Render the data alone, in the same order as JSON."""
    import yaml  # rarely requested

    text = yaml.dump(
        to_plain(_data_for_programs(view)),
        # libyaml is four times as fast; PyYAML may be built without it.
        Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper),
        allow_unicode=True,
        sort_keys=False,
        default_flow_style=False,
        width=120,
    )
    return str(text).encode()


def list_records(view: View) -> list[tuple[str, Record]]:
    """Return keys and plain records, in order; a single record counts as a list of one."""
    data = to_plain(_data_for_people(view))
    pairs = data.items() if view.is_list else [(str(data.get("id", "")), data)]
    return [
        (key, record if isinstance(record, dict) else {"value": record}) for key, record in pairs
    ]


def stream_json(records: Iterable[Mapping[str, Any]], *, as_array: bool = False) -> Iterator[bytes]:
    """Yield an object of records keyed by `id`, or an array, in chunks worth sending."""
    piece = bytearray(b"[" if as_array else b"{")
    separator = b""
    for record in records:
        key = b"" if as_array else b'"%s":' % str(record["id"]).encode()
        piece += separator + key + to_json(record)
        separator = b","
        if len(piece) >= CHUNK_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece + (b"]" if as_array else b"}"))


def _data_for_programs(view: View) -> Any:
    """Return the data for programs: records keyed by id, or an array of them."""
    return list(view.data.values()) if view.as_array else _data_for_people(view)


def _data_for_people(view: View) -> Any:
    """Return the data for people: an empty list is `{}`."""
    return view.data or {} if view.is_list else view.data
