"""Order a plan's tasks into waves and find the tasks that block others (pure)."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from dashboard.charts.dependencies import MET, NeedLink, natural_key
from ledger.states import BlockedReason


def assign_waves(ids: Sequence[UUID], links: Iterable[NeedLink]) -> dict[UUID, int]:
    """Return the wave of each task: one more than the latest wave of its needs, from 1."""
    left = dict.fromkeys(ids, 0)  # the number of needs without a wave
    dependents: dict[UUID, list[UUID]] = {}
    for link in links:
        # Needs in other plans don't count.
        if link.need and link.need in left and link.task in left:
            left[link.task] += 1
            dependents.setdefault(link.need, []).append(link.task)
    waves: dict[UUID, int] = {}
    ready, wave = [id for id, needs in left.items() if not needs], 0
    while ready:
        wave += 1
        waves |= dict.fromkeys(ready, wave)
        freed = []
        for dependent in (each for id in ready for each in dependents.get(id, ())):
            left[dependent] -= 1
            if not left[dependent]:
                freed.append(dependent)
        ready = freed
    # tasks in a cycle would never be ready: they share the last wave
    return waves | {id: wave + 1 for id in ids if id not in waves}


def find_blockers(tasks: Iterable[Any], links: Sequence[NeedLink]) -> dict[UUID, list[NeedLink]]:
    """Return the root blockers of each task that is blocked by a need."""
    blocked = [task.pk for task in tasks if task.blocked_reason == BlockedReason.DEPENDENCY]
    wave_of = assign_waves(blocked, links)
    unmet = [link for link in links if link.state not in MET and link.task in wave_of]
    # A root blocker is not blocked by a need itself, such as the failed task at the head of a
    # chain.
    roots = {
        link.need or link.ref: link
        for link in unmet
        if link.need is None or link.need not in wave_of
    }
    ordered = sorted(roots.values(), key=lambda link: natural_key(link.ref))
    # sets as bits of an integer, since a plan may have 500 tasks and 2,000 needs
    bits = {link.need or link.ref: 1 << place for place, link in enumerate(ordered)}
    blockers = dict.fromkeys(blocked, 0)
    needs: dict[UUID, list[UUID]] = {}
    for link in unmet:
        if link.need and link.need in wave_of:
            needs.setdefault(link.task, []).append(link.need)
        else:
            blockers[link.task] |= bits[link.need or link.ref]
    for id in sorted(blocked, key=wave_of.__getitem__):
        for need in needs.get(id, ()):
            blockers[id] |= blockers[need]
    # many tasks have the same blockers: they share one list
    lists = {mask: [ordered[n] for n in bit_places(mask)] for mask in set(blockers.values())}
    return {id: lists[mask] for id, mask in blockers.items()}


def bit_places(bits: int) -> list[int]:
    """Return the places of the bits in an integer.

    >>> bit_places(0b1010)
    [1, 3]
    """
    return [place for place, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"]
