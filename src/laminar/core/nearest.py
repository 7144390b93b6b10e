"""Did you mean: the nearest valid word to a wrong one, where one is near enough to be meant."""

from __future__ import annotations

from collections.abc import Iterable

BEGINNING = 3  # letters that a word must share with one that it begins or ends
MOST_SLIPS = 3


def nearest(word: str, valid: Iterable[str]) -> str | None:
    """A word but for a slip in three letters, or one that the word begins with or is the beginning of. Never the word itself."""
    words = [other for other in valid if other != word]
    near = [(slips(word, other), other) for other in words if abs(len(other) - len(word)) <= MOST_SLIPS]
    near = [(count, other) for count, other in near if count <= min(MOST_SLIPS, max(1, len(word) // 3)) and count < len(word)]
    if near:
        return min(near)[1]
    begun = [other for other in words if min(len(word), len(other)) >= BEGINNING and (other.startswith(word) or word.startswith(other))]
    return min(begun, key=lambda other: (abs(len(other) - len(word)), other), default=None)


def slips(one: str, other: str) -> int:
    """Count the letters that were missed, added, mistaken or swapped (Damerau 1964; each letter is edited once)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted)))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                row[j] = min(row[j], last[j - 2] + 1)
    return row[-1]


def did_you_mean(word: str, valid: Iterable[str], *, limit: int = 12) -> str:
    """A clause for an error: `did you mean 'epochs'?`, or what there is to choose from."""
    words = sorted(set(valid) - {word})
    best = nearest(word, words)
    if best is not None:
        return f"did you mean '{best}'?"
    shown = ", ".join(words[:limit]) + (", …" if len(words) > limit else "")
    return f"known: {shown}" if words else "there are none"
