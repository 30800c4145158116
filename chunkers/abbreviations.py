"""Abbreviations that `sentencex` takes for the end of a sentence, by language: those that it knows are not here.

A stop after a title never ends a sentence. After the others it does not where a number or a lower-case word follows.
"""

from __future__ import annotations

TITLES: dict[str, frozenset[str]] = {
    "en": frozenset({"Mr", "Mrs", "Ms", "Dr", "Prof", "Rev", "Capt", "Lt", "vs", "e.g", "i.e"}),
    "fr": frozenset({"M", "MM", "Mme", "Mlle", "Dr", "Pr", "Me", "St", "Ste"}),
    "de": frozenset({"Dr", "Prof", "Hr", "Fr", "Bd", "Kap", "Abb", "geb", "gest"}),
    "es": frozenset({"Sr", "Sra", "Srta", "Dr", "Dra", "Prof"}),
    "it": frozenset({"Sig", "Dott", "Dr", "Prof", "Avv", "Ing"}),
    "pt": frozenset({"Sr", "Sra", "Dr", "Dra", "Prof", "Av"}),
    "nl": frozenset({"dhr", "mevr", "Dr", "Prof"}),
    "pl": frozenset({"dr", "prof", "św", "ul", "tzw", "tj", "m.in", "np"}),
    "ru": frozenset({"им", "ул", "проф", "акад", "т.е", "Т.е", "е", "рис", "табл", "см"}),
    "sv": frozenset({"t.ex", "bl.a", "Dr", "Prof"}),
    "tr": frozenset({"Dr", "Prof", "Av"}),
}

BEFORE_NUMBERS: dict[str, frozenset[str]] = {
    "en": frozenset(
        {
            "Vol",
            "vol",
            "No",
            "no",
            "Fig",
            "fig",
            "Figs",
            "figs",
            "Eq",
            "eq",
            "Ch",
            "ch",
            "Ed",
            "ed",
            "Sec",
            "sec",
            "p",
            "pp",
        }
        | {"approx", "max", "min", "est", "resp", "ca", "cf"}
    ),
    "fr": frozenset({"no", "p", "vol", "fig", "env", "janv", "févr", "sept", "oct", "nov", "déc", "bd"}),
    "de": frozenset({"Jh", "Tel", "max", "min", "inkl", "ca"}),
    "es": frozenset({"aprox", "pág", "núm", "vol", "fig"}),
    "it": frozenset({"pag", "n", "vol", "fig", "art", "ca"}),
    "pt": frozenset({"p", "pág", "vol", "cap", "n", "fig", "etc"}),
    "nl": frozenset({"nr", "blz", "ca"}),
    "pl": frozenset({"nr", "str", "ok"}),
    "ru": frozenset({"др", "млн", "млрд", "тыс", "руб", "стр"}),
    "sv": frozenset({"nr", "kl", "ca"}),
    "tr": frozenset({"No", "vb"}),
}
