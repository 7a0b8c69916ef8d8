"""`pergpu coordinator enable`: the unit works from another folder, with another environment, and
its coordinator stays."""
import os
import shlex

from harness import PERGPU, read, wait_until


def unit_of(home, **options):
    os.makedirs(home.root + "/run/systemd", exist_ok=True)
    open(home.root + "/run/systemd/private", "w").close()
    places = {"XDG_RUNTIME_DIR": home.root + "/run", "XDG_CONFIG_HOME": home.root + "/config"}
    done = home.run("coordinator", "enable", env={**places, **options.pop("env", {})}, **options)
    assert "enable-linger" in done.stderr and "coordinator stop" in done.stderr
    return read(home.root + "/config/systemd/user/pergpu.service").splitlines()


def value_of(unit, key):
    return [line.partition("=")[2] for line in unit if line.startswith(key + "=")]


def test_the_unit_names_the_home_of_this_shell_absolutely(home):
    unit = unit_of(home, env={"PERGPU_HOME": "../h"}, cwd=home.work)
    (named,) = [v for v in map(shlex.split, value_of(unit, "Environment")) if "PERGPU_HOME" in v[0]]
    name, _, path = named[0].partition("=")
    assert os.path.isabs(path) and os.path.realpath(path) == os.path.realpath(home.path)
    assert f'"PERGPU_LOCKS={home.root}/l"' in value_of(unit, "Environment")


def test_a_percent_sign_of_a_path_is_no_specifier_of_systemd(home):
    unit = unit_of(home, env={"PERGPU_HOME": home.root + "/100%h"})
    assert f'"PERGPU_HOME={home.root}/100%%h"' in value_of(unit, "Environment")


def test_what_the_unit_starts_is_a_coordinator_that_stays(home):
    (line,) = value_of(unit_of(home), "ExecStart")
    command = shlex.split(line)
    assert command == [os.path.realpath(PERGPU), "coordinator", "run", "--foreground"]
    service = home.start(*command[1:])
    wait_until(lambda: home.run("coordinator", "status", code=None).returncode == 0, "its answer")
    assert home.json("coordinator", "status")["pid"] == service.pid
    home.run("coordinator", "stop")
    assert service.wait(timeout=60) == 0
