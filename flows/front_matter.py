"""Front matter as data: the YAML between the `---` lines at the very start of a text.

A block is taken off only if it holds a mapping (or nothing at all); anything else stays in the text, where it can be found, and the
reason is reported. Aliases are refused and the size is bounded, so that a few lines cannot unfold into gigabytes.
"""

from __future__ import annotations

from typing import Any

import yaml

from chunkers.front_matter import front_matter_end

LONGEST = 64 * 1024
_LONGEST_REASON = 300


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)


def split_front_matter(text: str) -> tuple[dict[str, Any], int, str | None]:
    """What the front matter of `text` says, where the text behind it starts, and why a block was left in the text.

    Keys become strings, values stay what YAML makes of them (dates, numbers, lists). Without front matter: `({}, 0, None)`.
    """
    end = front_matter_end(text)
    if not end:
        return {}, 0, None
    if end > LONGEST:
        return {}, 0, f"longer than {LONGEST} characters"
    inner = text[:end].rstrip()[3:-3].lstrip(" \t")
    if not inner.strip():
        return {}, end, None
    try:
        found = yaml.load(inner, Loader=_Loader)
    except RecursionError:
        return {}, 0, "nested too deeply"
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        reason = " ".join((error.problem or error.context or "it cannot be parsed").split())
        return {}, 0, f"bad YAML: {reason[:_LONGEST_REASON]}{line}"
    except Exception as error:  # PyYAML answers odd values with KeyError, IndexError, AttributeError and others.
        return {}, 0, "bad YAML: " + " ".join(str(error).split())[:_LONGEST_REASON]
    if not isinstance(found, dict):
        return {}, 0, "no mapping of names to values"
    return {str(key): value for key, value in found.items()}, end, None
