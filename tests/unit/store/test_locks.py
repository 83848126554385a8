"""Locks stand in a folder beside the database, and nowhere else."""

from holdfast.store.locks import ProcessLocks, WaitingRoom


def test_a_lock_is_held_in_a_folder_made_for_it(tmp_path):
    locks = ProcessLocks(str(tmp_path / "a.db.holdfast"), "default")
    assert locks.hold("w") is True
    locks.release_all()


def test_a_folder_that_is_away_is_not_made_in_its_place(tmp_path):
    folder = str(tmp_path / "away" / "a.db.holdfast")
    assert ProcessLocks(folder, "default").hold("w") is False
    assert WaitingRoom(folder).enter() is False
    assert not (tmp_path / "away").exists()


def test_a_folder_of_one_s_own_is_made_with_those_above_it(tmp_path):
    locks = ProcessLocks(str(tmp_path / "user" / "name"), "default", with_parents=True)
    assert locks.hold("w") is True
    locks.release_all()
