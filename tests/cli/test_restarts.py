"""When a process is started again, and when not. No time passes here."""

from holdfast.cli.restarts import LIMIT, QUICK, Restarts


def test_a_process_that_lived_long_is_replaced_at_once():
    assert Restarts().died(QUICK) == 0


def test_quick_deaths_are_followed_by_longer_and_longer_pauses():
    restarts = Restarts()
    assert [restarts.died(1) for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_many_quick_deaths_in_a_row_are_a_crash_loop():
    restarts = Restarts()
    seen = [(restarts.died(1), restarts.is_hopeless)[1] for _ in range(LIMIT)]
    assert seen == [False] * (LIMIT - 1) + [True]


def test_a_long_life_between_quick_deaths_begins_the_count_anew():
    restarts = Restarts()
    for _ in range(LIMIT - 1):
        restarts.died(1)
    restarts.died(QUICK)
    assert (restarts.died(1), restarts.is_hopeless) == (0.5, False)


def test_a_process_that_is_not_to_blame_is_restarted_for_ever_with_longer_pauses():
    restarts = Restarts()
    pauses = [restarts.died(1, is_to_blame=False) for _ in range(20)]
    assert (pauses[0], pauses[-1], restarts.is_hopeless) == (0.5, 30, False)
