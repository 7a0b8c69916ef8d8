"""Pages for users (docs/): what they tell people to type works, and shows what they say."""
import json
import os
import re
import signal

import pages
import pytest
from test_gpus import uuid, world  # noqa: F401 (a fixture)

import harness


@pytest.fixture
def typist(home):
    return pages.Typist(home)


WITH_GPUS = ["docs/tutorial.md", *(n for n in pages.pages() if n.startswith("docs/commands/"))]


@pytest.mark.parametrize("name", WITH_GPUS)
def test_a_page_shows_what_happens(typist, world, name):  # noqa: F811
    world.show([{"uuid": uuid(n), "name": "NVIDIA H100 80GB HBM3"} for n in range(8)])
    typist.follow(
        pages.page(name),
        {
            "PERGPU_NVML": harness.FAKE_NVML,
            "PERGPU_READ_USAGE": "off",  # what is read, and when, no page can foretell
            "FAKE_NVML_SCENARIO": world.root + "/world.json",
            "PERGPU_LOCKS": world.root + "/locks",
        },
    )


def test_every_page_is_in_the_index():
    index = pages.page("docs/README.md")
    for name in pages.pages():
        if name.startswith("docs/") and name != "docs/README.md":
            assert f"]({name.removeprefix('docs/')})" in index, name


def options(home, words):
    """What `pergpu WORDS --help` knows: (subcommands, options)."""
    text = home.run(*words, "--help").stdout
    below = text.partition("Subcommands:\n")[2].partition("\n\n")[0]
    return re.findall(r"(?m)^  ([a-z]+) ", below), set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))


def test_every_command_and_option_in_the_documents_exists(home):
    known, checked = {}, 0
    for name in pages.pages():
        for words in pages.commands(pages.page(name)):
            told, command = "pergpu " + " ".join(words), []
            while True:
                if tuple(command) not in known:
                    known[tuple(command)] = options(home, command)
                below, named = known[tuple(command)]
                if not below or len(command) == len(words) or words[len(command)].startswith("-"):
                    break
                if not words[len(command)].islower():  # COMMAND, …: any
                    break
                for word in words[len(command)].split("|"):
                    assert word in below, f"{name}: {told}"
                command.append(words[len(command)].split("|")[0])
            end = words.index("--") if "--" in words else len(words)
            for word in words[len(command) : end]:
                if re.match("--?[a-z]", word):
                    assert word.partition("=")[0].rstrip(",.]") in named, f"{name}: {told}: {word}"
            checked += 1
    assert checked > 50 and home.coordinator() is None


def test_what_is_typed_instead_of_other_tools_is_understood(home, typist):
    text = pages.page("docs/coming-from.md")
    for name, body in pages.files(text).items():  # for a machine of any size
        typist.write(name, re.sub(r"(?m)^(memory|cpus) .*$", "", body))
    seen = 0
    for command, *words in pages.commands(text):
        if command in ("run", "submit") and "…" not in words:
            if "--" in words:
                home.run(command, "--emit", *words)
            else:
                home.run(command, words[0], "--dry-run", "--lanes", 8, cwd=typist.folder)
            seen += 1
    assert seen >= 15 and home.ps() == {}
    typist.follow(text)


STANDINS = os.path.dirname(os.path.abspath(__file__)) + "/standins"
RECIPES = sorted(name for name in pages.pages() if name.startswith("docs/recipes/"))


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_shows_what_happens(home, name):
    typist = pages.Typist(home, modules=STANDINS)
    if name.endswith("cpp.md") and typist.type("command -v c++")[1] != 0:
        pytest.skip("no C++ compiler")
    typist.follow(pages.page(name))


def test_the_job_of_the_lightning_recipe_goes_on_where_it_was_when_the_signal_came(home):
    typist = pages.Typist(home, modules=STANDINS)
    for name, body in pages.files(pages.page("docs/recipes/lightning.md")).items():
        typist.write(name, body.replace("seed = [0, 1]", "seed = [0]"))
    typist.type("SECONDS_A_STEP=0.02 pergpu submit lightning.toml --lanes 1")
    job = home.only()
    steps = lambda: re.findall('"step": ([0-9]+)', harness.read(job["metrics"], ""))  # noqa: E731
    harness.wait_until(steps, "the end of an epoch")
    os.kill(home.json("show", "@")["jobs"][0]["last_attempt"]["pid"], signal.SIGUSR1)
    assert home.wait() == 0 and home.only()["attempt"] == 2
    assert json.loads(harness.read(job["out"] + "/attempt.1.json"))["exit"] == 75
    assert steps() == ["64", "128", "192"]
