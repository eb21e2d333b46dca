"""Generated regular expressions that both engines read alike, and texts for them."""

from __future__ import annotations

import random

from mrql.algebra.functions.regex import wrong_pattern

ATOMS = (
    *(
        "a",
        "b",
        "B",
        "1",
        " ",
        "-",
        "_",
        "é",
        "𝄞",
        "\n",
        ".",
        "[ab]",
        "[^a]",
        "[a-c]",
        "[^a-c1]",
        "[-a]",
        "[b-]",
        "[é𝄞]",
    ),
    *(
        r"\d",
        r"\D",
        r"\w",
        r"\W",
        r"\s",
        r"\S",
        r"\.",
        r"\\",
        r"\t",
        r"\n",
        r"\x61",
        r"\u00e9",
        r"[\d.]",
        r"[^\s]",
        r"[\W1]",
    ),
)
PLACES = ("^", "$", r"\b", "(?=a)", "(?!b)", "(?=[ab]+1)")
QUANTIFIERS = ("*", "+", "?", "{2}", "{1,2}", "{2,}", "{0,2}", "*?", "+?", "??", "{1,3}?", "{0}")
PIECES = (
    "a",
    "b",
    "c",
    "B",
    "A",
    "1",
    "2",
    " ",
    "-",
    "_",
    ".",
    "é",
    "É",
    "𝄞",
    "\n",
    "\t",
    "\\",
    "\r",
    "aab",
    "ab1",
    "z",
)


def expression(draw: random.Random, depth: int = 3) -> str:
    """An expression of the grammar; it may still be refused."""
    parts = []
    for _ in range(draw.randint(0, 3)):
        kind = draw.random()
        if kind < 0.15:
            parts.append(draw.choice(PLACES))
            continue
        if kind < 0.4 and depth:
            inside = "|".join(expression(draw, depth - 1) for _ in range(draw.randint(1, 3)))
            atom = f"({draw.choice(('', '', '?:'))}{inside})"
        else:
            atom = draw.choice(ATOMS)
        parts.append(atom + (draw.choice(QUANTIFIERS) if draw.random() < 0.4 else ""))
    return "".join(parts)


def expressions(seed: int, number: int) -> list[str]:
    """Different expressions that are not refused."""
    draw = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < number:
        text = ("(?i)" if draw.random() < 0.2 else "") + "|".join(
            expression(draw) for _ in range(draw.choice((1, 1, 2)))
        )
        if len(text) > 2 and wrong_pattern([text]) is None:
            found[text] = None
    return [*found]


def subjects(seed: int, number: int) -> list[str]:
    draw = random.Random(seed)
    return ["", *("".join(draw.choice(PIECES) for _ in range(draw.randint(1, 9))) for _ in range(number))]
