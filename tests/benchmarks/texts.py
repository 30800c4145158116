"""Real texts that every machine with the project installed has, each passage once, so that no cache of a chunker's own helps it."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from pydoc_data.topics import topics
from sysconfig import get_paths

from chunkers.markdown import has_marks


def named_texts(files: list[Path]) -> dict[str, str]:
    """The texts to measure with: the built-in ones, or `files`, joined."""
    if files:
        return {"files": "\n\n".join(path.read_text(encoding="utf-8") for path in files)}
    return {"prose": prose(), "manual": manual(), "markdown": markdown()}


def paragraphs(texts: dict[str, str]) -> list[str]:
    """The paragraphs of named texts, to make documents of."""
    return [paragraph for text in texts.values() for paragraph in text.split("\n\n") if paragraph.strip()]


def prose() -> str:
    """Paragraphs from the documentation strings of Python's standard library, with no mark of markdown in them."""
    paragraphs = dict.fromkeys(_docstring_paragraphs(Path(get_paths()["stdlib"])))
    return "\n\n".join(paragraph for paragraph in paragraphs if not has_marks(paragraph))


def manual() -> str:
    """Python's reference manual: prose with lists, indented code and definitions."""
    return "\n\n".join(topics[name] for name in sorted(topics))


def markdown() -> str:
    """The READMEs of installed packages: headings, fences, lists, tables, HTML."""
    readmes = {}
    for distribution in metadata.distributions():
        described = distribution.metadata
        if str(described.get("Description-Content-Type", "")).startswith("text/markdown"):
            readmes[described["Name"]] = str(described.get_payload() or described.get("Description", ""))
    return "\n\n".join(readmes[name] for name in sorted(readmes))


def _docstring_paragraphs(library: Path) -> Iterator[str]:
    for path in sorted([*library.glob("*.py"), *library.glob("[a-z]*/*.py")]):
        try:
            with warnings.catch_warnings(action="ignore"):
                module = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(module):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                    if len(paragraph) > 120 and paragraph[0].isalpha() and "\n " not in paragraph:
                        yield paragraph
