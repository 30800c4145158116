"""Options of the command line that several subcommands have, or that take some lines to say."""

from __future__ import annotations

from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A setting for this run alone, such as chunk_size=256. Repeatable."
    ),
]
CorpusOption = Annotated[
    str | None, typer.Option("--corpus", help="The corpus's name; that of the source's folder, or the only one stored.")
]
STRATEGY_HELP = (
    "One of fixed_size, recursive, sentence, semantic, contextual_retrieval, semantic_parent_child; "
    "all six by default. Repeatable."
)

STORED_HELP = "One of the stored strategies; all of them by default. Repeatable."

LimitOption = Annotated[
    int | None,
    typer.Option("--limit", "-k", min=1, help="Hits at most; 5, or with --max-tokens any number.", show_default=False),
]
FilterOption = Annotated[
    list[str] | None,
    typer.Option("--filter", metavar="NAME=VALUE", help="Only chunks with this source or metadata. Repeatable."),
]
MaxCostOption = Annotated[
    float | None,
    typer.Option(
        "--max-cost", min=0, metavar="USD", help="Stop before the first request that could cost more than this in all."
    ),
]
ModeOption = Annotated[
    str | None,
    typer.Option(help="hybrid (meaning and words), dense (meaning) or sparse (words); hybrid by default."),
]
MaxTokensOption = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="As many of the best passages as fit into N tokens, overlapping ones merged."
    ),
]
