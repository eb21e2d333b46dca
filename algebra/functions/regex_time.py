"""Detection of regular expressions that may take too long.

Java and Python try the ways in which a text may match one after the other. Their number is exponential in the length of
the text if some text leads from a character of the expression back to it in two ways (Weber and Seidl, *On the degree
of ambiguity of finite automata*). The check is on the automaton of the expression's characters (Glushkov's), with the
number of ways from each character to the next; a bounded repetition counts as an unbounded one. Expressions with too
many ways otherwise, as in `.*.*.*.*.*`, are refused too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from mrql.algebra.functions.regex_characters import Ranges, overlap, ranges
from mrql.algebra.functions.regex_syntax import NotAlike, Pattern

OVERLAPPING_MAX_LOOPS = 4
"""The maximal number of consecutive repetitions that can take the same characters: a text of n characters may match in
as many ways as n to this power."""
OVERLAPPING_MAX_CHOICES = 12
"""The maximal number of choices between the same characters: a text may match in as many ways as 2 to this power."""
COMPARED_MAX_PAIRS = 200_000
"""The maximal number of pairs of transitions that are compared within a repetition."""


def check_time(pattern: Pattern) -> None:
    """Raises: NotAlike if an expression may take too long."""
    edges: dict[int, list[int]] = {}
    for p, q in pattern.follows:
        edges.setdefault(p, []).append(q)
    loops = [*components(edges, range(len(pattern.characters)))]
    for part in loops:
        inside = {p: [q for q in edges.get(p, ()) if q in part] for p in part}
        is_doubled = any(pattern.follows[p, q] > 1 for p, after in inside.items() for q in after)
        if is_doubled or _two_ways(inside, pattern.characters):
            raise NotAlike(
                "this regular expression may take exponential time: some text fits its repetitions in many ways"
            )
    if _chain(loops, edges, pattern.characters) > OVERLAPPING_MAX_LOOPS:
        message = f"more than {OVERLAPPING_MAX_LOOPS} repetitions behind each other take the same characters"
        raise NotAlike(f"this regular expression may take too long: {message}")
    optional = pattern.optional
    if any(sum(overlap(one, other) for other in optional) > OVERLAPPING_MAX_CHOICES for one in optional):
        message = f"more than {OVERLAPPING_MAX_CHOICES} choices are between the same characters"
        raise NotAlike(f"this regular expression may take too long: {message}")


def _chain(loops: Sequence[set[int]], edges: Mapping[int, list[int]], characters: Sequence[Ranges]) -> int:
    """The maximal number of loops in a chain in which one text leads from each to the next. In `loops`, each is before
    those that lead to it."""
    longest: list[int] = []
    for i, loop in enumerate(loops):
        taken = ranges(*(pair for place in loop for pair in characters[place]))
        seen, waiting = set(loop), [*loop]
        while waiting:
            fresh = [q for q in edges.get(waiting.pop(), ()) if q not in seen and overlap(taken, characters[q])]
            seen.update(fresh)
            waiting += fresh
        longest.append(1 + max((longest[j] for j in range(i) if loops[j] & seen), default=0))
    return max(longest, default=0)


def _two_ways(inside: Mapping[int, list[int]], characters: Sequence[Ranges]) -> bool:
    """Whether some text leads from a character back to it in two ways."""
    alike = {(p, q): None for p in inside for q in inside if p <= q and overlap(characters[p], characters[q])}
    if len(alike) == len(inside):
        return False
    if sum(len(inside[p]) * len(inside[q]) for p, q in alike) > COMPARED_MAX_PAIRS:
        raise NotAlike("a regular expression with too many alternatives inside a repetition")
    edges = {
        pair: [
            ordered for p in inside[pair[0]] for q in inside[pair[1]] if (ordered := (min(p, q), max(p, q))) in alike
        ]
        for pair in alike
    }
    return any(any(p == q for p, q in part) and any(p != q for p, q in part) for part in components(edges, alike))


Node = TypeVar("Node", bound=Hashable)


def components(edges: Mapping[Node, Sequence[Node]], nodes: Iterable[Node]) -> Iterator[set[Node]]:
    """The strongly connected components of a graph that have a cycle, each before those that lead to it (Tarjan's
    algorithm)."""
    index: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    stack: list[Node] = []
    for root in nodes:
        waiting: list[tuple[Node, int]] = [(root, 0)] if root not in index else []
        while waiting:
            node, done = waiting.pop()
            if done == 0:
                index[node] = lowest[node] = len(index)
                stack.append(node)
            after = edges.get(node, ())
            if done and after[done - 1] in lowest:
                lowest[node] = min(lowest[node], lowest[after[done - 1]])
            for i in range(done, len(after)):
                if after[i] not in index:
                    waiting += [(node, i + 1), (after[i], 0)]
                    break
                if after[i] in lowest:
                    lowest[node] = min(lowest[node], index[after[i]])
            else:
                if lowest[node] == index[node]:
                    part = set(stack[stack.index(node) :])
                    del stack[len(stack) - len(part) :]
                    for each in part:
                        del lowest[each]
                    if len(part) > 1 or node in after:
                        yield part
