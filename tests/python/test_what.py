"""The names of calls, for people: with parameters, and without secrets."""
import functools

import pytest

pytest.importorskip("cloudpickle")
from pergpu._what import call_text  # noqa: E402


def train(lr, seed=0, *rest, api_key="", max_tokens=0, **more):
    pass


def shown(x):
    pass


class Model:
    def fit(self, data, password, /, epochs=1):
        pass

    def __call__(self, token):
        pass


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "text"),
    [
        (train, (0.2, 0), {}, "train(lr=0.2, seed=0)"),
        (train, (0.2,), {"seed": 1, "api_key": "k", "max_tokens": 9}, "train(lr=0.2, seed=1, api_key=…, max_tokens=9)"),
        (train, (0.2, 0, "a", [1, 2]), {"other": {}}, "train(lr=0.2, seed=0, 'a', [1, 2], other=dict)"),
        (functools.partial(train, 0.1, seed=3), (), {"x": None}, "train(lr=0.1, seed=3, x=None)"),
        (Model().fit, ("d", "hunter2", 3), {}, "Model.fit('d', …, epochs=3)"),
        (Model(), ("hunter2",), {}, "Model(token=…)"),
        (abs, (-1,), {}, "abs(-1)"),
        # Nothing tells what its places are before Python 3.11.
        (print, ("a",), {"sep": ""}, "print('a', sep='')" if print.__text_signature__ else "print(…, sep='')"),
        (lambda *tokens: 0, ("a", "b"), {}, "<lambda>(…, …)"),
        (lambda tokens, monkey: 0, (8, "x" * 70), {}, "<lambda>(tokens=8, monkey=…)"),
    ],
)  # fmt: skip
def test_a_call_is_named_as_it_could_be_written(function, args, kwargs, text):
    assert call_text(function, args, kwargs) == text


def test_methods_are_named_without_what_they_are_bound_to():
    for _ in range(2):
        assert call_text(Model().fit, ("d", "hunter2", 3), {}) == "Model.fit('d', …, epochs=3)"
        assert call_text(Model.fit, (Model(), "d", "hunter2", 3), {}) == "Model.fit(Model, 'd', …, epochs=3)"


@pytest.mark.parametrize("name", ["token", "hf_token", "authToken", "tokens", "key", "API_KEY", "keys", "password", "db_passwd", "client_secret",
                                  "aws_credentials", "pwd", "pw", "db_pw", "creds", "cred_pair", "passcode", "conn_string", "connectionString", "private_pem", "dsn", "auth", "authorization", "session_cookie", "userPassword"])  # fmt: skip
def test_what_is_called_a_secret_is_never_shown(name):
    made: dict = {}
    exec(f"def f({name}): pass", made)
    assert call_text(made["f"], ("hunter2",), {}) == call_text(made["f"], (), {name: "hunter2"}) == f"f({name}=…)"
    assert "hunter2" not in call_text(made["f"], (["hunter2"],), {}) + call_text(made["f"], ({"a": "hunter2"},), {})


@pytest.mark.parametrize("name", ["tokenizer", "keypoints", "author", "path", "bypass_s", "n_tokens", "compass", "power", "credits", "design"])
def test_other_names_are_no_secrets(name):
    assert call_text(train, (1,), {name: 5}) == f"train(lr=1, {name}=5)"


@pytest.mark.parametrize("value", ["hf_abcdefghijklmn", "ghp_0123456789abcdef", "sk-proj-0123456789", "https://ann:hunter2@host/x",
                                   "Authorization: Bearer hunter2", "Bearer hunter2", "bearer hunter2", "--password hunter2", "--token=hunter2", "run --api-key hunter2 x",
                                   "host=h user=u password=hunter2", "Server=x;Pwd=hunter2", "AccountKey=hunter2;x=y", "https://h/?token=hunter2", "https://h/?a=b&sig=hunter2",
                                   "https://hunter2@host/x", "-----BEGIN PRIVATE KEY-----\nhunter2", "-----BEGIN RSA PRIVATE KEY-----\nhunter2", "AIzaSyhunter2hunter2",
                                   "sk_live_hunter2hunter2", "npm_hunter2hunter2", "pypi-hunter2hunter2", "https://hooks.slack.com/services/T0/B0/hunter2",
                                   '{"password": "hunter2"}'])  # fmt: skip
def test_what_looks_like_a_secret_is_not_shown(value):
    assert call_text(shown, (value,), {}) == "shown(x=…)" and value not in call_text(shown, ([value],), {})
    assert call_text(shown, ("https://host/a?b=c",), {}) == "shown(x='https://host/a?b=c')"


@pytest.mark.parametrize("value", [["--token", "hunter2"], ("--password", "hunter2"), ["-v", "--api-key", "hunter2"], ["Authorization:", "hunter2"], ["password", "hunter2"]])
def test_what_follows_the_name_of_a_secret_is_not_shown(value):
    assert call_text(shown, (value,), {}) == f"shown(x={type(value).__name__})"


@pytest.mark.parametrize("value", ["a b", "key", "a=b", "design=1", "tokens", "https://host/a", "lr=0.1 seed=2", "1:2", "--epochs 3", "author: x"])
def test_other_texts_are_shown(value):
    assert call_text(shown, (value,), {}) == f"shown(x={value!r})"
    assert call_text(shown, (["--epochs", "3"],), {}) == "shown(x=['--epochs', '3'])"


def decorated(function):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    return wrapper, method


class Wrapper:
    def __call__(self, *args, **kwargs):
        pass


def test_texts_of_parameters_that_have_no_known_names_are_not_shown():
    wrapper, method = decorated(shown)
    assert call_text(wrapper, ("hunter2", 1, ["hunter2"], [1]), {"y": "a"}) == "decorated.wrapper(…, 1, list, [1], y='a')"
    assert call_text(method, (Wrapper(), "hunter2"), {}) == "decorated.method(self=Wrapper, …)"
    assert call_text(Wrapper(), ("hunter2",), {}) == "Wrapper(…)"
    assert call_text(functools.wraps(shown)(decorated(shown)[0]), ("a",), {}) == "shown(x='a')", "it has the names of another"
    assert call_text(max, ("hunter2", "x"), {}) == "max(…, …)"
