"""docs/troubleshooting.md quotes messages that the code still has, and is short."""

import ast
import re

from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
OF_OTHERS = {"database is locked": "SQLite", "ModuleNotFoundError: No module named …": "Python"}
"""Messages that other programs make."""


def messages_of_the_code() -> str:
    """All texts in the package, a line each; `…` stands for what is filled in."""
    texts = []
    for file in (ROOT / "jobauto_prefect").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (getattr(part, "value", "") for part in node.values)
                texts.append("".join(part if isinstance(part, str) else "…" for part in parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(text.replace("\n", " ") for text in texts)


def test_each_message_is_one_of_the_code() -> None:
    quoted = re.findall(r"^###? .*?`(.+)`$", PAGE, re.MULTILINE)
    code = messages_of_the_code()

    assert len(quoted) > 20
    for message in set(quoted) - OF_OTHERS.keys():
        pattern = ".*".join(re.escape(part.strip()) for part in message.split("…"))
        assert re.search(pattern, code), message


def test_a_trouble_is_told_in_sixty_words() -> None:
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        words = re.sub(r"\]\([^)]*\)", "]", text.partition("\n## ")[0]).split()
        assert 5 < len(words) <= 60, title
