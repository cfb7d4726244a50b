"""YAML as another syntax for JSON: plain words have the types of YAML 1.2, and values positions."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import yaml

from jobauto_prefect.definitions.findings import child

LINE_LENGTH = 100
MOST_VALUES = 1_000_000  # of one document
MOST_TOKENS = 500_000
"""In all files read together; a key with its value has four, each takes about 10 µs."""

MOST_CHARACTERS = 4_000_000
"""In all files read together: comments are no tokens, and a character takes up to 1 µs."""

MOST_JSON_VALUES = 1_000_000
"""In all JSON read together: a record has some tens, each takes a few µs."""

MERGE = "tag:yaml.org,2002:merge"
Places = dict[str, tuple[int, int]]
"""JSON pointer -> line and column, both from 1."""


class YamlError(Exception):
    """Text that is not YAML or repeats a key; line and column are None if unknown."""

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
    """Reads `no`, `on`, `12:30` and dates as text, as in YAML 1.2 and unlike in YAML 1.1."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as the base class has it
    yaml_constructors: ClassVar[dict[str | None, Any]] = {  # those of JSON's types
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
    message = f"has more than {most} {of_what} together with the YAML before it"
    return YamlError(f"{message}; apply the files in several parts, or as JSON", mark)


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
    """Return the constructor of a word's value, for an implicit or explicit tag."""

    def construct(loader: _Loader, node: yaml.ScalarNode) -> Any:
        word = str(loader.construct_scalar(node))
        if not pattern.match(word):
            raise YamlError(f"is not a value for the tag !!{name}: {word[:40]!r}", node.start_mark)
        try:
            return convert(word)
        except ValueError:  # Python converts numbers up to a certain length
            raise YamlError(f"is a number of {len(word)} digits", node.start_mark) from None

    return construct


def _refuse_tag(_: _Loader, node: yaml.Node) -> Any:
    tag = node.tag.replace("tag:yaml.org,2002:", "!!")
    raise YamlError(f"has the tag {tag}, which JSON has no type for", node.start_mark)


_Loader.add_constructor(None, _refuse_tag)
for _name, _pattern, _first, _convert in _WORDS:
    _tag, _compiled = f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$")
    _Loader.add_implicit_resolver(_tag, _compiled, list(_first))
    if _convert:
        _Loader.add_constructor(_tag, _word_constructor(_name, _compiled, _convert))


class _Dumper(yaml.SafeDumper):
    """Quotes text that readers of YAML 1.1 or 1.2 would take for another type."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - people read these files
        """Use no aliases: write out equal values each time."""
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
    """Return JSON values as YAML documents, which `load_all` reads back unchanged."""
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

    `allowance` is what may be read; None: the limits for all files together.

    Raises:
        YamlError: during the iteration, at the first part that can't be read.
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
    except (ValueError, OverflowError):  # from an escape: the parser interprets no other values
        mark = None if loader is None else loader.get_mark()
        raise YamlError("has an escape sequence that is not a character", mark) from None
    except (yaml.YAMLError, RecursionError):
        raise YamlError("is not YAML, or is nested too deeply") from None


def _refuse_endless(root: yaml.Node) -> None:
    """Refuse aliases that expand a few lines beyond any machine's memory.

    Raises:
        YamlError: with aliases expanded, a document has too many values or contains itself.
    """
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        counted = sizes.get(id(node))
        if counted == 0:
            raise YamlError("has an alias for a value that contains it", node.start_mark)
        if counted is None:
            sizes[id(node)] = 0  # counting in progress
            counted = sizes[id(node)] = 1 + sum(map(size, _parts(node)))
            if counted > MOST_VALUES:
                message = f"has more than {MOST_VALUES} values with aliases expanded"
                raise YamlError(message, node.start_mark)
        return counted

    size(root)


def _refuse_repeated(root: yaml.Node) -> None:
    """Refuse repeated keys of a mapping; a key may override one of a merged mapping.

    Call it before the construction, which adds merged keys to a mapping's own.

    Raises:
        YamlError: naming the first one.
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
        if id(node) not in seen:  # an alias repeats values whose places are known
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
