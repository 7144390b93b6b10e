"""Which statements of a list stay together as one function: grain counts more than clever scheduling (Bramas & Ketterlin 2020).

A short statement goes to the one that needs it, if that is one alone; else to the one that it needs, if that is one alone. What only a
condition needs is computed with it, however long it is. What is stored to arrays stays apart from what is long: a function that changes
nothing but its own values can be run on a guess.
"""

from __future__ import annotations

from laminar.kernels.circuit.cost import cost
from laminar.kernels.circuit.uses import Uses, of_statement, uses
from laminar.kernels.language.tree import Atomic, Barrier, Block, Declare, If, Store, Variable


def grouped(block: Block, opened: frozenset[int], long: float) -> list[list[int]]:
    """Numbers of statements, in an order in which the groups may run. `opened`: branches and loops that are cut further; such a one is
    alone, but for what its condition alone needs."""
    every = [of_statement(one) for one in block]
    heavy = {number for number in range(len(block)) if cost(block[number : number + 1]) > long}
    if not (heavy or opened) or any(one.leaves for one in every):
        return [list(range(len(block)))] if block else []
    needs = _needs(block, every)
    home = list(range(len(block)))
    needed = [{later for later in range(len(block)) if number in needs[later]} for number in range(len(block))]
    for number in reversed(range(len(block))):  # to the one that needs it
        homes = {home[later] for later in needed[number]}
        if number in opened or len(homes) != 1:
            continue
        (only,) = homes
        if only in opened:
            if _for_condition(block, every, number, only):
                home[number] = only
        elif number not in heavy:
            home[number] = only
    for place in range(len(block)):  # to the one that it needs
        group = [number for number in range(len(block)) if home[number] == place]
        if not group or any(number in heavy or number in opened or isinstance(block[number], (Store, Atomic)) for number in group):
            continue
        homes = {home[before] for number in group for before in needs[number]} - {place}
        if len(homes) == 1 and not homes & opened:
            (only,) = homes
            home = [only if one == place else one for one in home]
    groups: dict[int, list[int]] = {}
    for number, place in enumerate(home):
        groups.setdefault(place, []).append(number)
    return _ordered(list(groups.values()), _after(block, every))


def _needs(block: Block, every: list[Uses]) -> list[set[int]]:
    """For each statement those whose results it uses: the last that set a variable, and all that it meets in an array."""
    last: dict[Variable, set[int]] = {}
    found: list[set[int]] = []
    for number, one in enumerate(every):
        wanted = one.needs | (one.sets - one.surely)  # what it may leave as it is, it passes on
        mine = {before for variable in wanted for before in last.get(variable, ())}
        mine |= {before for variable in one.sets for before in last.get(variable, ()) if isinstance(block[before], Declare)}
        mine |= {before for before in range(number) if meet(every[before], one) or Barrier in (type(block[before]), type(block[number]))}
        found.append(mine)
        for variable in one.sets:
            last[variable] = {number}
    return found


def meet(one: Uses, later: Uses) -> bool:
    """Whether they use an array that one of them changes."""
    return bool((one.written | one.declared) & (later.read | later.written) or one.read & later.written)


def _after(block: Block, every: list[Uses]) -> list[set[int]]:
    """For each statement those before it whose order matters for the names of variables, too."""
    found = []
    for number, later in enumerate(every):
        before = {
            earlier
            for earlier, one in enumerate(every[:number])
            if meet(one, later)
            or one.sets & (later.needs | later.sets)
            or one.needs & later.sets
            or Barrier in (type(block[earlier]), type(block[number]))
        }
        found.append(before)
    return found


def _for_condition(block: Block, every: list[Uses], number: int, branch: int) -> bool:
    """Whether what it sets is used by the branch's condition, and not by what stands under it."""
    one = block[branch]
    if not isinstance(one, If) or every[number].stores:
        return False
    within = uses(one.then).needs | uses(one.other).needs | uses(one.then).sets | uses(one.other).sets
    return not every[number].sets & within and bool(every[number].sets)


def _ordered(groups: list[list[int]], after: list[set[int]]) -> list[list[int]]:
    """Each behind what it comes after; groups that would wait for each other become one."""
    while True:
        home = {number: index for index, group in enumerate(groups) for number in group}
        waits = [{home[before] for number in group for before in after[number]} - {index} for index, group in enumerate(groups)]
        order: list[int] = []
        while len(order) < len(groups):
            ready = [index for index in range(len(groups)) if index not in order and waits[index] <= set(order)]
            if not ready:
                break
            order.append(min(ready, key=lambda index: groups[index][0]))
        if len(order) == len(groups):
            return [groups[index] for index in order]
        ring = _ring(waits, [index for index in range(len(groups)) if index not in order])
        groups = [group for index, group in enumerate(groups) if index not in ring] + [
            sorted(number for index in ring for number in groups[index])
        ]


def _ring(waits: list[set[int]], left: list[int]) -> set[int]:
    """Some that wait for each other."""
    path = [left[0]]
    while True:
        following = next(iter(sorted(waits[path[-1]] & set(left))))
        if following in path:
            return set(path[path.index(following) :])
        path.append(following)
