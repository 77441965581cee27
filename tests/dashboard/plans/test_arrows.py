"""The arrows beside a plan's preview."""

from dashboard.plans.arrows import MOST_LANES, draw_arrows
from ledger.planfile.preview import PreviewRow


def rows(*needs: tuple[int, ...]) -> list[PreviewRow]:
    return [
        PreviewRow(ref=f"task-{n}", needs=tuple(f"task-{each}" for each in own))
        for n, own in enumerate(needs)
    ]


def test_a_chain_shares_one_lane() -> None:
    arrows, lanes = draw_arrows(rows((), (0,), (1,)))
    assert lanes == 1 and [each.starts for each in arrows] == [[5], [5], []]
    assert [each.ends for each in arrows] == [[], [5], [5]]
    assert [(each.above, each.below) for each in arrows] == [([], [5]), ([5], [5]), ([5], [])]


def test_a_lane_passes_the_rows_between_and_reaches_up_to_a_group() -> None:
    arrows, _ = draw_arrows(rows((2,), (), (), (1,)))
    passed = [len(each.through) for each in arrows]
    assert passed == [0, 1, 1, 0]
    assert arrows[0].ends == arrows[2].starts and arrows[3].ends == arrows[1].starts
    assert arrows[0].ends != arrows[3].ends


def test_more_needs_than_lanes_are_left_to_the_words() -> None:
    count = MOST_LANES + 3
    crossing = [(), *[()] * (count - 1), *[(n,) for n in range(count)]]
    arrows, lanes = draw_arrows(rows(*crossing))
    assert sum(len(each.ends) for each in arrows) == lanes == MOST_LANES


def test_without_needs_there_is_no_room_for_arrows() -> None:
    assert draw_arrows(rows((), ()))[1] == 0
