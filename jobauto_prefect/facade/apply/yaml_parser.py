"""YAML as another syntax for JSON: plain words are typed as in YAML 1.2, and have positions."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import yaml

from jobauto_prefect.definitions.findings import child

LINE_LENGTH = 100
MOST_VALUES = 1_000_000  # of one document
MOST_TOKENS = 500_000
"""Of all files that are read together; a key with its value has four, each takes some 10 µs."""

MOST_CHARACTERS = 4_000_000
"""Of all files that are read together: comments are no tokens, and a character takes up to 1 µs."""

MOST_JSON_VALUES = 1_000_000
"""Of all JSON that is read together: a record has some tens, each takes some µs."""

MERGE = "tag:yaml.org,2002:merge"
Places = dict[str, tuple[int, int]]
"""JSON pointer -> line and column, both from 1."""


class YamlError(Exception):
    """Text that is no YAML, or has a key twice; line and column are None where unknown."""

    def __init__(self, message: str, mark: yaml.Mark | None = None) -> None:
        self.line = None if mark is None else mark.line + 1
        self.column = None if mark is None else mark.column + 1
        super().__init__(message)


@dataclass(slots=True)
class Allowance:
    """The remaining limits for reading."""

    tokens: int = field(default_factory=lambda: MOST_TOKENS)
    characters: int = field(default_factory=lambda: MOST_CHARACTERS)
    values: int = field(default_factory=lambda: MOST_JSON_VALUES)


class _Loader(yaml.SafeLoader):
    """`no`, `on`, `12:30` and dates are text, as in YAML 1.2 and unlike in YAML 1.1."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as the base class has it
    yaml_constructors: ClassVar[dict[str | None, Any]] = {  # of JSON's types
        f"tag:yaml.org,2002:{name}": yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{name}"]
        for name in ("str", "seq", "map")
    }

    def __init__(self, text: str, allowance: Allowance) -> None:
        allowance.characters -= len(text)
        if allowance.characters < 0:
            raise _too_much(MOST_CHARACTERS, "characters")
        super().__init__(text)
        self._allowance = allowance

    def fetch_more_tokens(self) -> None:
        """Read a token, or some; PyYAML calls it.

        Raises:
            YamlError: there are too many.
        """
        self._allowance.tokens -= 1
        if self._allowance.tokens < 0:
            raise _too_much(MOST_TOKENS, "words and marks", self.get_mark())
        super().fetch_more_tokens()


def _too_much(most: int, of_what: str, mark: yaml.Mark | None = None) -> YamlError:
    message = f"has, with the YAML before it, more than {most} {of_what}"
    return YamlError(f"{message}; apply it in several parts, or as JSON", mark)


_WORDS: tuple[tuple[str, str, Sequence[str], Callable[[str], Any] | None], ...] = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF", lambda word: word.lower() == "true"),
    ("int", r"-?(?:0|[1-9][0-9]*)", "-0123456789", int),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", "-0123456789", float),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""], lambda _: None),
    ("merge", r"<<", "<", None),
)


def _word_constructor(
    name: str, pattern: re.Pattern[str], convert: Callable[[str], Any]
) -> Callable[[_Loader, yaml.ScalarNode], Any]:
    """Return what makes the value of a word that has a tag, its own or one in the text."""

    def construct(loader: _Loader, node: yaml.ScalarNode) -> Any:
        word = str(loader.construct_scalar(node))
        if not pattern.match(word):
            raise YamlError(f"is no value for the tag !!{name}: {word[:40]!r}", node.start_mark)
        try:
            return convert(word)
        except ValueError:  # Python converts no more digits than this
            raise YamlError(f"is a number of {len(word)} digits", node.start_mark) from None

    return construct


def _refuse_tag(_: _Loader, node: yaml.Node) -> Any:
    tag = node.tag.replace("tag:yaml.org,2002:", "!!")
    raise YamlError(f"has the tag {tag}, which JSON has no values for", node.start_mark)


_Loader.add_constructor(None, _refuse_tag)
for _name, _pattern, _first, _convert in _WORDS:
    _tag, _compiled = f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$")
    _Loader.add_implicit_resolver(_tag, _compiled, list(_first))
    if _convert:
        _Loader.add_constructor(_tag, _word_constructor(_name, _compiled, _convert))


class _Dumper(yaml.SafeDumper):
    """Quotes what readers of YAML 1.1 or 1.2 would take for something else than text."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - people read these files
        """Tell that no aliases are used: values that are the same are written out each time."""
        return True


for _name, _pattern, _first, _ in _WORDS:
    _Dumper.add_implicit_resolver(
        f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), list(_first)
    )


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_all(documents: Iterable[Any]) -> str:
    """Return JSON values as YAML documents, which `load_all` reads as what they were."""
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        explicit_start=True,
        width=LINE_LENGTH,
    )


def load_all(text: str, allowance: Allowance | None = None) -> Iterator[tuple[Any, Places]]:
    """Yield the documents of a text, each with the places of its values.

    `allowance` is what may be read; None: as much as of all files together.

    Raises:
        YamlError: when the iteration reaches what can't be read.
    """
    loader = None
    try:
        loader = _Loader(text, allowance or Allowance())
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                _refuse_endless(node)
                _refuse_repeated(node)
                yield loader.construct_document(node), _places(node)
    except yaml.MarkedYAMLError as error:
        raise YamlError(f"is not YAML: {error.problem}", error.problem_mark) from None
    except (ValueError, OverflowError):  # of an escape: the parser looks at no other values
        mark = None if loader is None else loader.get_mark()
        raise YamlError("has an escape that stands for no character", mark) from None
    except (yaml.YAMLError, RecursionError):
        raise YamlError("is no YAML text of reasonable depth") from None


def _refuse_endless(root: yaml.Node) -> None:
    """Refuse aliases that make of a few lines more than any machine holds.

    Raises:
        YamlError: written out, a document has too many values, or one that holds itself.
    """
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        counted = sizes.get(id(node))
        if counted == 0:
            raise YamlError("has an alias that stands for what it is in", node.start_mark)
        if counted is None:
            sizes[id(node)] = 0  # counting in progress
            counted = sizes[id(node)] = 1 + sum(map(size, _parts(node)))
            if counted > MOST_VALUES:
                message = f"has more than {MOST_VALUES} values, aliases written out"
                raise YamlError(message, node.start_mark)
        return counted

    size(root)


def _refuse_repeated(root: yaml.Node) -> None:
    """Refuse a key that a mapping has twice; one beside a merged mapping overrides its value.

    To be called before the construction, which puts merged keys among a mapping's own.

    Raises:
        YamlError: naming the first.
    """
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        waiting += reversed(_parts(node))
        own: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if key.tag != MERGE and str(key.value) in own:
                raise YamlError(f"has the key {str(key.value)!r} twice", key.start_mark)
            own.add(str(key.value))


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _places(root: yaml.Node) -> Places:
    places: Places = {}
    seen: set[int] = set()
    waiting = [("", root)]
    while waiting:
        pointer, node = waiting.pop()
        places[pointer] = (node.start_mark.line + 1, node.start_mark.column + 1)
        if id(node) not in seen:  # what an alias repeats has been looked at
            seen.add(id(node))
            waiting += _below(pointer, node)
    return places


def _below(pointer: str, node: yaml.Node) -> list[tuple[str, yaml.Node]]:
    if isinstance(node, yaml.SequenceNode):
        return [(child(pointer, number), item) for number, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return []
    own_last = {child(pointer, str(key.value)): value for key, value in node.value}
    return list(own_last.items())
