"""The order of a plan's tasks (pure): which can run side by side, and what stands in whose way."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from dashboard.dependencies import MET, NeedLink, natural_key
from ledger.states import BlockedReason


def waves(ids: Sequence[UUID], links: Iterable[NeedLink]) -> dict[UUID, int]:
    """The wave of each task: one more than the last wave of what it needs, from 1.

    What is needed from another plan counts nothing.
    """
    left = dict.fromkeys(ids, 0)  # how many of its needs have no wave yet
    dependents: dict[UUID, list[UUID]] = {}
    for link in links:
        if link.need and link.need in left and link.task in left:
            left[link.task] += 1
            dependents.setdefault(link.need, []).append(link.task)
    found: dict[UUID, int] = {}
    ready, wave = [id for id, needs in left.items() if not needs], 0
    while ready:
        wave += 1
        found |= dict.fromkeys(ready, wave)
        freed = []
        for dependent in (each for id in ready for each in dependents.get(id, ())):
            left[dependent] -= 1
            if not left[dependent]:
                freed.append(dependent)
        ready = freed
    # what needs itself in the end would wait for ever: it stands in one wave
    return found | {id: wave + 1 for id in ids if id not in found}


def in_the_way(tasks: Iterable[Any], links: Sequence[NeedLink]) -> dict[UUID, list[NeedLink]]:
    """What really holds a task that waits for others up: followed up to what does not wait for
    another one itself, such as the task that failed at the head of a chain."""
    waiting = [task.pk for task in tasks if task.blocked_reason == BlockedReason.DEPENDENCY]
    wave_of = waves(waiting, links)
    unmet = [link for link in links if link.state not in MET and link.task in wave_of]
    heads = {
        link.need or link.ref: link
        for link in unmet
        if link.need is None or link.need not in wave_of
    }
    every = sorted(heads.values(), key=lambda link: natural_key(link.ref))
    # a set of them is a number with their bits: one plan may have 500 tasks and 2,000 needs
    bits = {link.need or link.ref: 1 << place for place, link in enumerate(every)}
    held = dict.fromkeys(waiting, 0)
    needs: dict[UUID, list[UUID]] = {}
    for link in unmet:
        if link.need and link.need in wave_of:
            needs.setdefault(link.task, []).append(link.need)
        else:
            held[link.task] |= bits[link.need or link.ref]
    for id in sorted(waiting, key=wave_of.__getitem__):
        for need in needs.get(id, ()):
            held[id] |= held[need]
    lists = {mask: [every[place] for place in places(mask)] for mask in set(held.values())}
    return {id: lists[mask] for id, mask in held.items()}


def places(bits: int) -> list[int]:
    """Where a number has its bits.

    >>> places(0b1010)
    [1, 3]
    """
    return [place for place, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"]
