"""Gate `http` against a real server on this machine: right scores, and every way in which a service fails."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import ValidationError

from stages.contracts.plugin import Answer
from stages.train.rewards import http as gate
from stages.train.rewards.http import Settings, judge


@pytest.fixture(autouse=True)
def not_in_ci(monkeypatch):
    """There the addresses would have to be allowed."""
    monkeypatch.delenv("CI", raising=False)


class Service(BaseHTTPRequestHandler):
    """Answers by its path; `server.asked` holds what came in."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, asked))
        answer = getattr(self, self.path.strip("/").split("?")[0])
        answer([completion["text"] for completion in asked["completions"]])

    def do_GET(self):
        self.server.asked.append((self.path, None))
        self.say({"scores": [1.0]})

    def say(self, content, status=200, **headers):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def lengths(self, texts):
        self.say({"scores": [len(text) / 10 for text in texts]})

    def fixed(self, texts):
        self.say({"scores": [json.loads(text) for text in texts]})

    def forbidden(self, texts):
        self.say({"scores": [1.0] * len(texts)}, 403)

    def created(self, texts):
        self.say({"scores": [1.0] * len(texts)}, 201)

    def broken(self, texts):
        self.say({"scores": [1.0] * len(texts)}, 500)

    def busy_once(self, texts):
        self.say({"scores": [1.0] * len(texts)}, 503 if len(self.server.asked) == 1 else 200)

    def elsewhere(self, texts):
        self.say(b"", 302, Location="/lengths")

    def short(self, texts):
        self.say({"scores": [1.0] * (len(texts) - 1)})

    def nonsense(self, texts):
        self.say(b"<html>1.0</html>")

    def no_scores(self, texts):
        self.say([1.0] * len(texts))

    def deep(self, texts):
        self.say(b"[" * 100_000)

    def huge(self, texts):
        self.say(b'{"scores": [1.0]}' + b" " * 2**21)

    def silent(self, texts):
        time.sleep(60)

    def drip(self, texts):
        for _ in range(600):
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX: " if _ == 0 else b"y")
            time.sleep(0.1)

    def hang_up(self, texts):
        self.connection.close()

    def log_message(self, *words):
        """Not on the terminal."""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(gate, "PAUSE_SECONDS", 0.01)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    service = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    service.daemon_threads, service.asked = True, []
    thread = threading.Thread(target=service.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield service
    service.shutdown()
    service.server_close()


def ask(server, path, *texts, row=None, **settings):
    url = f"http://127.0.0.1:{server.server_address[1]}/{path}"
    return judge(Settings(url=url, **{"timeout": 5.0} | settings), [Answer(text, row or {}) for text in texts])


def test_scores_in_order_and_in_requests_of_the_batch_size(server):
    judgements = ask(server, "lengths?v=2", "\ud800", "abcde", "abcdefghij", batch=2, passes_from=0.5)
    assert [(judgement.status, judgement.score) for judgement in judgements] == [("fail", 0.1), ("pass", 0.5), ("pass", 1.0)]
    assert [(path, len(asked["completions"])) for path, asked in server.asked] == [("/lengths?v=2", 2), ("/lengths?v=2", 1)]


def test_only_the_named_columns_are_sent(server):
    ask(server, "lengths", "a", row={"id": "7", "secret": "s", "tests": [1]}, columns=("id", "tests"))
    assert server.asked == [("/lengths", {"completions": [{"text": "a", "truncated": False, "row": {"id": "7", "tests": [1]}}]})]
    (judgement,) = ask(server, "lengths", "a", row={}, columns=("id",))
    assert judgement.status == "unknown" and "no column 'id'" in judgement.reason and len(server.asked) == 1
    (judgement,) = ask(server, "lengths", "a", row={"id": {1, 2}}, columns=("id",))
    assert judgement.status == "unknown" and "not JSON" in judgement.reason


@pytest.mark.parametrize("score", ["null", "1.5", "-0.1", "NaN", "Infinity", "true", '"1"', "[1]"])
def test_a_score_that_is_none_is_unknown_for_that_completion(server, score):
    judgements = ask(server, "fixed", score, "1", "0")
    assert [judgement.status for judgement in judgements] == ["unknown", "pass", "fail"]


@pytest.mark.parametrize(
    ("path", "reason", "requests"),
    [
        ("forbidden", "status 403", 1), ("created", "status 201", 1), ("broken", "status 500", 2), ("elsewhere", "status 302", 1),
        ("short", "2 scores for 2", 1), ("nonsense", "did not answer", 1), ("no_scores", "did not answer", 1),
        ("deep", "did not answer", 1), ("huge", "more than 1048576 bytes", 1), ("hang_up", "cannot be reached", 2),
    ],
)  # fmt: skip
def test_a_service_that_fails_is_unknown(server, path, reason, requests):
    judgements = ask(server, path, "a", "b")
    assert [judgement.status for judgement in judgements] == ["unknown"] * 2
    assert reason in judgements[0].reason
    assert [asked for asked, _ in server.asked] == [f"/{path}"] * requests


@pytest.mark.parametrize("path", ["silent", "drip"])
def test_time_outs_are_unknown_and_not_repeated(server, path):
    (judgement,) = ask(server, path, "a", timeout=0.3)
    assert (judgement.status, judgement.reason) == ("unknown", "timeout: the service took more than 0.3 s")
    assert len(server.asked) == 1


def test_a_busy_service_is_asked_once_more(server):
    assert [judgement.score for judgement in ask(server, "busy_once", "a", "b")] == [1.0, 1.0]
    assert len(server.asked) == 2


def test_nobody_there_is_unknown(monkeypatch):
    monkeypatch.setattr(gate, "PAUSE_SECONDS", 0.01)
    (judgement,) = judge(Settings(url="http://127.0.0.1:1/"), [Answer("a", {})])
    assert judgement.status == "unknown" and "cannot be reached" in judgement.reason


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/x", "file:///etc/passwd", "//host/x", "host/x", "http://", "http:///x", "http://user:word@host/",
        "http://user@host/", "http://host/#part", "http://host:0/", "http://host:99999/", "http://host:x/", "http://ho st/",
        "http://host/\r\nX: y", "http://h\u00f6st/", "javascript:alert(1)", "",
    ],
)  # fmt: skip
def test_only_plain_web_addresses(url):
    with pytest.raises(ValidationError):
        Settings(url=url)


def test_https_is_spoken_where_the_address_says_so(server):
    url = f"https://127.0.0.1:{server.server_address[1]}/lengths"
    (judgement,) = judge(Settings(url=url, timeout=5.0), [Answer("a", {})])
    assert judgement.status == "unknown" and server.asked == []
