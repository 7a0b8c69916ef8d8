"""A script has the function of its loader in itself."""
import subprocess
import sys

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pergpu.share", reason="the compiled part of the package is not built")


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for name in ("PERGPU_SWEEP", "PERGPU_OUT", "PERGPU_HOME", "PERGPU_JOB"):
        monkeypatch.delenv(name, raising=False)


def script(tmp_path, text, *arguments, **options):
    (tmp_path / "script.py").write_text(text)
    return subprocess.run(
        [sys.executable, tmp_path / "script.py", *arguments], capture_output=True, text=True, timeout=120, **options
    )


SCRIPT = """
import numpy, os, sys
from pergpu import share
def double(batch):
    return 2 * batch
def main():
    for batch in share.Loader(numpy.arange(6), batch_size=3, shuffle=False, output="numpy", map=double):
        print(batch.tolist())
"""


def test_a_script_may_have_the_function_in_itself(tmp_path):
    done = script(tmp_path, SCRIPT + 'if __name__ == "__main__":\n    main()\n')
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 2, 4]\n[6, 8, 10]\n", "")


@pytest.mark.parametrize("way", ["spawn", "forkserver"])
def test_a_child_of_multiprocessing_may_have_the_loader(tmp_path, way):
    """The script is the module `__mp_main__` there."""
    done = script(tmp_path, SCRIPT + f"""
if __name__ == "__main__":
    import multiprocessing
    child = multiprocessing.get_context("{way}").Process(target=main)
    child.start()
    child.join()
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 2, 4]\n[6, 8, 10]\n", "")


def test_a_script_that_does_its_work_when_it_is_read_is_told(tmp_path):
    done = script(tmp_path, SCRIPT + "main()\n")
    assert done.returncode == 1 and 'own work under `if __name__ == "__main__":`' in done.stderr


def test_the_end_of_the_interpreter_ends_workers_without_a_word(tmp_path):
    text = SCRIPT + """
if __name__ == "__main__":
    loader = share.Loader(numpy.arange(6), batch_size=1, epochs=None, map=double)
    batches = iter(loader)
    next(batches)
"""
    done = script(tmp_path, text)  # their output is the pipe's, which ends when they do
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_ctrl_c_is_for_the_training_alone(tmp_path):
    text = SCRIPT + """
if __name__ == "__main__":
    import signal
    loader = share.Loader(numpy.arange(60), batch_size=1, epochs=None, map=double)
    got = 0
    try:
        for batch in loader:
            got += 1
            if got == 10:
                os.killpg(0, signal.SIGINT)
    except KeyboardInterrupt:
        at = loader.number
        next(iter(loader))
        print("goes on", loader.number - at)
"""
    done = script(tmp_path, text, start_new_session=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "goes on 1\n", "")


def test_a_program_without_a_file_is_refused():
    done = subprocess.run([sys.executable, "-c", SCRIPT + "main()"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "other processes cannot read" in done.stderr
