import sqlite3

import pytest

from gsp_tf.tuning import tuning


@pytest.fixture(autouse=True)
def unsynced(monkeypatch):
    """SQLite does not wait for the disk, which only matters when the power fails."""
    connect = sqlite3.connect

    def connect_unsynced(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    monkeypatch.setattr(tuning.sqlite3, "connect", connect_unsynced)
