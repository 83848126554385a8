"""Jobs that are written together: which of them are merged, and which caller gets which answer."""

from concurrent.futures import Future

from holdfast.store.sqlite.jobs import BatchJob, Job, merged


def double(tx, items, now):
    return [item * 2 for item in items]


def negate(tx, items, now):
    return [-item for item in items]


def batch(*items, deed=double, now=None):
    return BatchJob(deed, items, now, None, Future())


def test_batches_of_one_method_are_merged_and_answered_separately():
    [unit] = merged([batch(1, 2), batch(), batch(3)])
    assert unit.run(None) == [[2, 4], [], [6]]


def test_batches_of_different_methods_or_times_are_not_merged():
    units = merged([batch(1), batch(2, deed=negate), batch(3, now=5), batch(4)])
    assert [unit.run(None) for unit in units] == [[[2], [8]], [[-2]], [[6]]]


def test_jobs_that_are_no_batches_are_not_merged():
    jobs = [Job(lambda tx: "a", None, Future()), batch(1), Job(lambda tx: "b", None, Future())]
    assert [unit.run(None) for unit in merged(jobs)] == [["a"], [[2]], ["b"]]
