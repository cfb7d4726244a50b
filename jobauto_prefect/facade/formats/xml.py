"""XML, well-formed whatever keys and characters a record has."""

import re
from typing import Any
from xml.etree import ElementTree as ET

from jobauto_prefect.facade.formats.json_yaml import list_records, to_plain
from jobauto_prefect.facade.formats.view import View
from jobauto_prefect.kinds import KINDS

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_UNFIT_NAME = re.compile(r"[^A-Za-z0-9_.-]", re.ASCII)
_UNFIT_TEXT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_xml(view: View) -> bytes:
    """Render the data under an element named after the record kind, or for a list the collection.

    Fields are elements. A key that can't name one is kept in the attribute `key`; numeric keys
    and the entries of arrays are repeated elements. null is an empty element with `nil="true"`.
    """
    root = ET.Element(_root_name(view))
    if view.is_list:
        for key, record in list_records(view):
            child = ET.SubElement(root, _element_name(view.item or "record"), id=_text(key))
            _fill(child, record)
    else:
        _fill(root, to_plain(view.data))
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    # XML parsers read a bare carriage return as a newline.
    return text.replace(b"\r", b"&#13;") + b"\n"


def _root_name(view: View) -> str:
    if view.is_list and view.item in KINDS:
        return KINDS[view.item].collection
    if not view.item and isinstance(view.data, dict) and "error" in view.data:
        return "error"
    last = view.path.rpartition("/")[2]
    return _element_name((view.item if not view.is_list else last) or last or "answer")


def _fill(element: ET.Element, value: Any) -> None:
    if value is None:
        element.set("nil", "true")
    elif isinstance(value, bool):
        element.text = "true" if value else "false"
    elif isinstance(value, list):
        for item in value:
            _fill(ET.SubElement(element, _singular(element.tag)), item)
    elif isinstance(value, dict):
        for key, item in value.items():
            child = _named(element.tag, key)
            element.append(child)
            _fill(child, item)
    else:
        element.text = _text(str(value))


def _named(parent: str, key: str) -> ET.Element:
    if key.isascii() and key.isdecimal():
        return ET.Element(_singular(parent), key=key)
    name = _element_name(key)
    return ET.Element(name) if name == key else ET.Element(name, key=_text(key))


def _element_name(key: str) -> str:
    name = _UNFIT_NAME.sub("_", key)
    # Names that begin with "xml" are reserved.
    return name if _NAME.fullmatch(name) and not name.lower().startswith("xml") else f"_{name}"


def _singular(name: str) -> str:
    if name.endswith("ies"):
        return f"{name[:-3]}y"
    if name.endswith("s") and not name.endswith("ss") and len(name) > 1:
        return name[:-1]
    return "entry"


def _text(text: str) -> str:
    return _UNFIT_TEXT.sub("\ufffd", text)
