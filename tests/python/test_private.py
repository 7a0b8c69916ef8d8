"""Names in a folder where others may write lead to no file of ours."""
import json
import os
import stat

import pytest

from pergpu import _payload, _private
from pergpu._calls_folder import CallsFolder
from pergpu._queue import Queue
from pergpu._settings import Settings


@pytest.fixture
def precious(tmp_path):
    """A file that nothing may change."""
    path = tmp_path / "precious"
    path.write_text("thesis")
    yield path
    assert path.read_text() == "thesis"


def test_a_folder_behind_a_link_of_another_user_is_not_opened(tmp_path):
    (tmp_path / "to").mkdir()
    (tmp_path / "ours").symlink_to("to/.")
    (tmp_path / "round").symlink_to("round")
    os.close(_private.open_folder(tmp_path / "ours" / ".." / "ours"))
    os.close(_private.open_folder(tmp_path / "ours" / "a" / "b", 0o700))
    assert (tmp_path / "to" / "a" / "b").is_dir()
    for wrong in ("no/folder", "round", "ours/a/no"):
        with pytest.raises(OSError) as raised:
            _private.open_folder(tmp_path / wrong)
        assert raised.value.filename == str(tmp_path / wrong)
    if os.geteuid() == 0:
        os.lchown(tmp_path / "ours", 61001, 61001)
        for make in (None, 0o700):
            with pytest.raises(PermissionError, match="ours in it is a link that belongs to uid 61001"):
                _private.open_folder(tmp_path / "ours" / "c", make)
        assert sorted(os.listdir(tmp_path / "to")) == ["a"]


def test_a_private_folder_is_no_link_and_closed_to_others(tmp_path):
    mask = os.umask(0)
    try:
        os.close(_private.open_private(tmp_path / "new" / "private", make=True))
        assert stat.S_IMODE(os.stat(tmp_path / "new").st_mode) == 0o777
    finally:
        os.umask(mask)
    assert stat.S_IMODE(os.stat(tmp_path / "new" / "private").st_mode) == 0o700
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    (tmp_path / "link").symlink_to("open")
    (tmp_path / "file").touch()
    for wrong in ("link", "file"):
        with pytest.raises(PermissionError, match="is a link, or no folder"):
            _private.open_private(tmp_path / wrong, make=True)
    assert stat.S_IMODE(os.stat(tmp_path / "open").st_mode) == 0o755
    os.close(_private.open_private(tmp_path / "open"))
    assert stat.S_IMODE(os.stat(tmp_path / "open").st_mode) == 0o700
    if os.geteuid() == 0:
        os.chown(tmp_path / "open", 61001, 61001)
        with pytest.raises(PermissionError, match="belongs to uid 61001"):
            _private.open_private(tmp_path / "open", make=True)


def test_files_are_read_only_if_they_are_regular_and_have_one_name(tmp_path, precious):
    os.link(precious, tmp_path / "again")
    (tmp_path / "link").symlink_to(precious)
    os.mkfifo(tmp_path / "fifo")
    for name in ("again", "link", "fifo"):
        with pytest.raises(OSError):
            _private.open_record(tmp_path / name)
        with pytest.raises(_payload.NotOurs):
            _payload.open_ours(tmp_path / name)
        for flags in (os.O_RDWR, os.O_RDWR | os.O_CREAT | os.O_APPEND):
            with pytest.raises(OSError):
                os.close(_private.open_by_path(tmp_path / name, flags))
    (tmp_path / "again").unlink()
    assert _private.read_log(precious) == "thesis"


def test_the_folder_of_calls_stays_the_same_whatever_its_name_leads_to(tmp_path, monkeypatch):
    monkeypatch.setattr("pergpu._settings.jobs_of", lambda sweep: [])
    folder = CallsFolder(str(tmp_path / "sweep"))
    settings = Settings(folder.sweep, {"gpus": 1}, folder)
    at = folder.made()
    os.rename(tmp_path / "sweep" / "_calls", tmp_path / "away")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "settings.json").write_text("{}")
    (tmp_path / "sweep" / "_calls").symlink_to(tmp_path / "theirs")
    with settings.agreed() as tell:
        tell(3)
    _payload.write(folder.path + "/0", {"env": {"TOKEN": "secret"}}, b"", at=at)
    assert (tmp_path / "theirs" / "settings.json").read_text() == "{}" and os.listdir(tmp_path / "theirs") == ["settings.json"]
    assert json.loads((tmp_path / "away" / "settings.json").read_text()) == {"gpus": 1, "sweep_id": 3}
    for name in os.listdir(tmp_path / "away"):
        assert stat.S_IMODE(os.stat(tmp_path / "away" / name).st_mode) == 0o600, name
    folder.remove()
    assert os.listdir(tmp_path / "away") == [] and os.listdir(tmp_path / "theirs") == ["settings.json"]


@pytest.mark.parametrize("name", ["index", "calls"])
def test_a_queue_is_led_to_no_other_file(tmp_path, precious, name):
    path = tmp_path / "queue"
    path.mkdir()
    queue = Queue(str(path), create=True)
    queue.append(b"x")
    assert {stat.S_IMODE(os.stat(path / name).st_mode) for name in os.listdir(path)} == {0o600}
    for plant in (os.symlink, os.link):
        os.rename(path / name, path / "away")
        plant(precious, path / name)
        with pytest.raises(_payload.NotOurs, match=f"{name} isn't read"):
            Queue(str(path))
        (path / name).unlink()
        os.rename(path / "away", path / name)
    assert Queue(str(path)).take(7) == 0
    queue.close()
