"""pergpu.config() and pergpu.out: what a job is told."""
import copy
import json
import pickle

import pergpu
import pytest
from pergpu import Config


@pytest.fixture(autouse=True)
def no_job(monkeypatch):
    for name in ("PERGPU_JOB", "PERGPU_CONFIG", "PERGPU_OUT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Makes this process one of a job with these parameters."""

    def make(parameters):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(parameters))
        monkeypatch.setenv("PERGPU_JOB", "1")
        monkeypatch.setenv("PERGPU_CONFIG", str(path))
        return pergpu.config

    return make


def test_values_are_items_and_attributes_at_every_depth(run):
    cfg = run({"lr": 0.1, "model": {"blocks": [{"width": 8}], "name": "edm"}})()
    assert cfg.lr == cfg["lr"] == 0.1
    assert cfg.model.blocks[0].width == 8 and cfg.model.name == "edm"
    assert "lr" in dir(cfg) and list(cfg) == ["lr", "model"]


def test_it_is_a_dict_for_whoever_wants_one(run):
    cfg = run({"lr": 0.1, "model": {"depth": 4}})()
    assert json.loads(json.dumps(cfg)) == {"lr": 0.1, "model": {"depth": 4}}
    assert dict(**cfg)["lr"] == 0.1
    for other in (pickle.loads(pickle.dumps(cfg)), copy.copy(cfg), copy.deepcopy(cfg), cfg.copy()):
        assert other == cfg and other.model.depth == 4 and type(other) is Config
    assert not hasattr(cfg, "__len_of_it__")


def test_a_parameter_called_like_a_method_is_an_item(run):
    cfg = run({"items": 3, "keys": {"values": 1}})()
    assert cfg["items"] == 3 and cfg["keys"]["values"] == 1 and callable(cfg.items)


def test_a_name_that_is_not_there_is_told_with_the_nearest_one(run):
    cfg = run({"learning_rate": 0.1, "seed": 1})()
    with pytest.raises(AttributeError, match="no parameter 'learning_rat'; did you mean 'learning_rate'"):
        _ = cfg.learning_rat
    with pytest.raises(AttributeError, match="no parameter 'x'; it has learning_rate, seed"):
        _ = cfg.x


def test_a_value_may_be_changed_and_stays_with_the_job(run):
    config = run({"lr": 0.1})
    cfg = config()
    cfg.lr = 0.2
    cfg.extra = {"a": [{"b": 1}]}
    assert cfg["lr"] == 0.2 and cfg.extra.a[0].b == 1 and config() == {"lr": 0.1}
    cfg.update({"more": {"c": 2}})
    assert cfg.more.c == 2
    del cfg.more
    assert "more" not in cfg
    with pytest.raises(AttributeError, match="no parameter 'more'"):
        del cfg.more


def test_a_default_may_have_names_that_are_no_texts(run):
    cfg = run({"lr": 0.1})(classes={0: "cat", 1: "dog"})
    assert cfg.classes[0] == "cat" and not hasattr(cfg.classes, "x") and dir(cfg.classes)
    assert copy.deepcopy(cfg) == cfg == pickle.loads(pickle.dumps(cfg))


def test_defaults_stand_where_the_run_has_nothing(run, monkeypatch):
    config = run({"lr": 0.1})
    assert config(lr=1, seed=7) == {"lr": 0.1, "seed": 7}
    monkeypatch.delenv("PERGPU_CONFIG")
    assert config(lr=1).lr == 1 and config() == {}, "a step that runs once has no parameters"
    monkeypatch.delenv("PERGPU_JOB")
    assert config(model={"depth": 2}).model.depth == 2, "by hand"
    with pytest.raises(pergpu.NotAJob, match="give defaults"):
        config()


def test_the_folder_of_a_job_is_a_path_and_of_others_an_error(tmp_path, monkeypatch):
    with pytest.raises(pergpu.NotAJob, match="pergpu run"):
        _ = pergpu.out
    assert not pergpu.in_job()
    monkeypatch.setenv("PERGPU_OUT", str(tmp_path))
    assert pergpu.out / "model.pt" == tmp_path / "model.pt"
    with pytest.raises(AttributeError, match="no attribute 'outt'"):
        _ = pergpu.outt
