"""What a user does first with an installed pergpu: run by the Python that has it, and told the program: doctor, a
sweep, the page, and, if that Python has the package, calls and channels.  Prints what went well."""
import gzip
import json
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

PERGPU = sys.argv[1]


def run(*words, code=0):
    done = subprocess.run([PERGPU, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode in (code, 0), f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def doctor():
    begin = time.monotonic()
    findings = json.loads(run("doctor", "--json", code=1))["findings"]
    assert time.monotonic() - begin < 60
    problems = [found for found in findings if found["state"] == "problem"]
    assert not problems, problems


def sweep():
    run("run", "--lanes", "2", "--name", "s", "-g", "i=1..20", "--", "sh", "-c", 'echo $1 >"$PERGPU_OUT/n"', "-", "{i}")
    assert sorted(int(path.read_text()) for path in Path("runs/s").glob("**/n")) == list(range(1, 21))


def page():
    serve = subprocess.Popen([PERGPU, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        link = next(word for line in serve.stdout for word in line.split() if word.startswith("http://"))
        with urllib.request.urlopen(link.partition("#")[0], timeout=20) as answer:
            text = answer.read()
        text = gzip.decompress(text) if text.startswith(b"\x1f\x8b") else text
        assert b"app.js" in text, text
    finally:
        serve.terminate()
        serve.wait()


def calls():
    import pergpu

    with pergpu.Executor(lanes=2) as pool:
        assert [future.result(timeout=60) for future in [pool.submit(lambda n: n * n, n) for n in range(5)]] == [0, 1, 4, 9, 16]


def channels():
    from pergpu import share

    def produce():
        with channel.producer() as out:
            for n in range(10):
                out.put(bytes([n]))

    channel = share.Channel("c", slot_bytes=64)
    producer = threading.Thread(target=produce)
    producer.start()
    with channel.consumer() as items:
        assert [bytes(item.array)[0] for item in items] == list(range(10))
    producer.join()


try:
    for check in (doctor, sweep, page, *([] if sys.argv[2:] else [calls, channels])):
        check()
        print(check.__name__, "ok", flush=True)
finally:
    subprocess.run([PERGPU, "coordinator", "stop", "--kill"], capture_output=True, timeout=60)
