"""Shell completion of record names, quoted so that no shell executes their contents.

A name may contain blanks, `$(…)`, quotes and line ends. Bash inserts typer's output as it is, and
zsh evaluates it; here names are quoted for each shell. The variables have typer's names, so that
scripts it has installed keep working, safely.
"""

import os
import re
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer
from typer import _completion_classes as typer_classes
from typer import _completion_shared as typer_scripts

if TYPE_CHECKING:
    from typer._click.shell_completion import CompletionItem

    from jobauto_prefect.cli.connection.client import Client

BASH_SCRIPT = """
%(complete_func)s() {
    mapfile -t COMPREPLY < <(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORD="$2" \\
        %(autocomplete_var)s=complete_bash "$1")
    [ -n "${COMPREPLY[*]}" ] || COMPREPLY=()
}

complete -o default -F %(complete_func)s %(prog_name)s
"""
ZSH_SCRIPT = """
#compdef %(prog_name)s

%(complete_func)s() {
    eval "$(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" \\
        %(autocomplete_var)s=complete_zsh %(prog_name)s)"
}

if [[ $funcstack[1] == _%(prog_name)s ]]; then
    %(complete_func)s
else
    compdef %(complete_func)s %(prog_name)s
fi
"""
FISH_SCRIPT = (
    "complete --command %(prog_name)s --no-files --arguments "
    '"(env %(autocomplete_var)s=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-names'
    ' _TYPER_COMPLETE_ARGS=(commandline -cp | string collect) %(prog_name)s | string split0)"'
    ' --condition "env %(autocomplete_var)s=complete_fish _TYPER_COMPLETE_FISH_ACTION=is-args'
    ' _TYPER_COMPLETE_ARGS=(commandline -cp | string collect) %(prog_name)s"'
)
END = "\x1f"
"""Stands for the cursor: nobody types it, and it means nothing to shells."""

PLAIN = re.compile(r"[A-Za-z0-9_./:=@%+,-]")


def complete_names(kind: str) -> Callable[[typer.Context, str], list[str]]:
    """Complete the names of records of a kind; empty if the facade does not answer."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        from jobauto_prefect.cli.connection.client import call_facade
        from jobauto_prefect.cli.records.lookup import fetch_record_index
        from jobauto_prefect.errors import JobautoError

        async def titles(client: "Client") -> list[str]:
            return sorted((await fetch_record_index(client, kind)).titles(kind))

        try:
            candidates = call_facade(context.params.get("url"), titles)
        except JobautoError:  # don't print errors into a line being typed
            return []
        return [title for title in candidates if title.startswith(incomplete)]

    return complete


def split_words(line: str) -> list[str]:
    """Split a line as shells do; an open quote is taken to end with the line."""
    words = shlex.shlex(line, posix=True)
    words.whitespace_split, words.commenters = True, ""
    found: list[str] = []
    try:
        found.extend(words)
    except ValueError:
        found.append(words.token)
    return found


def typed(line: str) -> tuple[list[str], str]:
    """Return the words before the cursor, without the program's, and the beginning of the next."""
    *words, last = split_words(line + END)
    return words[1:], last.removesuffix(END)


def open_quote(line: str) -> str:
    """Return the quote that is open at the end of a line, or ""."""
    closes = (quote for quote in ("", "'", '"') if split_words(f"{line}{quote} {END}")[-1] == END)
    return next(closes, "")


def quote_for_bash(text: str, quote: str = "") -> str:
    """Quote the rest of a word in which `quote` is open, if any; line ends become `\n`."""
    return "".join(_quote_character(character, quote) for character in text)


def _quote_character(character: str, quote: str) -> str:
    if not character.isprintable() or (character == "!" and quote == '"'):
        return f"{quote}{quote_ansi(character)}{quote}"
    if quote == "'":
        return "'\\''" if character == "'" else character
    if quote == '"':
        return f"\\{character}" if character in '"$`\\' else character
    return character if PLAIN.match(character) or not character.isascii() else f"\\{character}"


def quote_ansi(text: str) -> str:
    """Quote as `$'…'` with codes for all but letters and digits, so that nothing is special."""
    shown = (
        character
        if character.isascii() and character.isalnum()
        else "".join(f"\\{byte:03o}" for byte in character.encode(errors="surrogateescape"))
        for character in text
    )
    return f"$'{''.join(shown)}'"


class BashCompletion(typer_classes.BashComplete):
    """Names for bash, which inserts the output into the line."""

    source_template = BASH_SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the beginning of the next one."""
        if "COMP_LINE" in os.environ:
            return typed(os.environ["COMP_LINE"])
        return super().get_completion_args()

    def format_completion(self, item: "CompletionItem") -> str:
        """Quote the part of a word that bash replaces: what follows its last word break."""
        line = os.environ.get("COMP_LINE")
        if line is None:
            return quote_for_bash(item.value)
        kept = line.removesuffix(os.environ["COMP_WORD"])
        return quote_for_bash(item.value.removeprefix(typed(kept)[1]), open_quote(kept))


class ZshCompletion(typer_classes.ZshComplete):
    """Names for zsh, which evaluates the output and quotes names when inserting them."""

    source_template = ZSH_SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the beginning of the next one."""
        return typed(os.environ.get("_TYPER_COMPLETE_ARGS", ""))

    def complete(self) -> str:
        """Return the zsh command that offers the names."""
        items = self.get_completions(*self.get_completion_args())
        if not items:
            return "_files"
        helps = [re.sub(r"\s+", " ", item.help or "") for item in items]
        shown = [
            f"{item.value} -- {help_}" if help_ else item.value
            for item, help_ in zip(items, helps, strict=True)
        ]
        names = " ".join(quote_ansi(item.value) for item in items)
        texts = " ".join(map(quote_ansi, shown))
        lines = "-l " if any(helps) else ""
        return f"local -a found=({names}) shown=({texts}); compadd {lines}-d shown -a found"


class FishCompletion(typer_classes.FishComplete):
    """Names for fish, which quotes them itself."""

    source_template = FISH_SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the beginning of the next one."""
        return typed(os.environ.get("_TYPER_COMPLETE_ARGS", ""))

    def complete(self) -> str:
        """Return the names, each followed by NUL, where the script splits."""
        if os.environ.get("_TYPER_COMPLETE_FISH_ACTION") != "get-names":
            return super().complete()
        items = self.get_completions(*self.get_completion_args())
        # Fish reads a description after a tab: of a name with a tab it would insert the beginning.
        fit = [item for item in items if "\t" not in item.value]
        return "".join(f"{self.format_completion(item)}\0" for item in fit)


class PowerShellCompletion(typer_classes.PowerShellComplete):
    """Names for PowerShell, which inserts the output into the line."""

    def format_completion(self, item: "CompletionItem") -> str:
        """Quote a name; its line ends and tabs can't be quoted, and become blanks."""
        if not re.fullmatch(r"[\w./-]+", item.value):
            doubled = re.sub("(['\u2018-\u201b])", r"\1\1", item.value)
            item.value = "'" + re.sub(r"\s", " ", doubled).replace(":::", "") + "'"
        return super().format_completion(item)


def use_safe_completion() -> None:
    """Make typer print and install this module's completion."""
    for ours in (BashCompletion, ZshCompletion, FishCompletion, PowerShellCompletion):
        setattr(typer_classes, ours.__mro__[1].__name__, ours)
    scripts = typer_scripts._completion_scripts  # noqa: SLF001 - typer has no other way
    scripts |= {"bash": BASH_SCRIPT, "zsh": ZSH_SCRIPT, "fish": FISH_SCRIPT}
