"""The portal on its own: who may come in, what changes are refused, and its pages in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Header, HTTPException
from tests.fleets import WORLD, Played, played
from tests.portals import serving

from gpufleet.model.tenancy import Principal
from gpufleet.portal.app import create_app


def who(x_login: Annotated[str | None, Header()] = None) -> Principal:
    """Stands in for Airflow: whoever says a name is that person."""
    if not x_login:
        raise HTTPException(401, "Log in first.")
    return Principal(x_login, is_admin=x_login == "admin")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with played(tmp_path_factory.mktemp("portal") / "home", {**WORLD, "nodes": [*WORLD["nodes"], T4]}) as found:
        found.tick()
        yield found


T4 = {"name": "t4", "model": "T4-16", "gpus": 4, "position": ["z", "z/l2"], "capacity": "owned", "region": "east"}


@pytest.fixture(scope="module")
def url(fleet: Played) -> Iterator[str]:
    with serving(fleet.fleet, who) as address:
        yield address


def call(url: str, method: str, path: str, login: str | None = "ada", **more: Any) -> httpx.Response:
    headers = {**({"x-login": login} if login else {}), **more.pop("headers", {})}
    return httpx.request(method, f"{url}/{path}", headers=headers, **more)


def routes(fleet: Played) -> list[tuple[str, str]]:
    """Every route the app has, asked of the app itself, so a new one cannot be forgotten."""
    found = []
    for route in _all_routes(create_app(lambda: fleet.fleet, who)):
        path = route.path.replace("{job}", "x").replace("{name}", "portal.css").lstrip("/")
        found += [(method, path) for method in route.methods - {"HEAD"}]
    return found


def _all_routes(app: Any) -> list[Any]:
    flat: list[Any] = []
    stack = list(app.routes)
    while stack:
        route = stack.pop()
        inner = getattr(route, "routes", None) or getattr(getattr(route, "original_router", None), "routes", None)
        if inner:
            prefix = getattr(getattr(route, "include_context", None), "prefix", "")
            stack += [_Under(prefix, r) for r in inner]
        elif hasattr(route, "methods"):
            flat.append(route)
    return flat


class _Under:
    def __init__(self, prefix: str, route: Any) -> None:
        self.path, self.methods = prefix + route.path, getattr(route, "methods", None) or set()


def test_nobody_comes_in_without_a_login(fleet: Played, url: str) -> None:
    known = routes(fleet)
    assert len(known) >= 17, known
    answers = {f"{m} {p}": call(url, m, p, login=None, json={} if m == "POST" else None).status_code for m, p in known}
    assert {what: status for what, status in answers.items() if status != 401} == {}


def test_there_are_no_open_docs(url: str) -> None:
    assert [call(url, "GET", path).status_code for path in ("docs", "redoc", "openapi.json")] == [404] * 3


ASK = {"team": "vision", "project": "digits", "command": "sleep 600", "gpus": 1}

REFUSED = {
    "no GPUs": ("ada", {**ASK, "gpus": 0}, 422, "gpus must be a whole number above 0"),
    "an unknown key": ("ada", {**ASK, "gpu": 1}, 422, "'gpu' is not a key"),
    "an unknown team": ("ada", {**ASK, "team": "visoin"}, 422, "team 'visoin' is not known"),
    "a stranger": ("lin", ASK, 403, "'lin' is not a member of team 'vision'"),
    "finance only reads": ("finn", {**ASK, "team": "platform", "project": "operations"}, 403, "'finn' is not a member"),
}


@pytest.mark.parametrize(("login", "body", "status", "sentence"), REFUSED.values(), ids=REFUSED)
def test_bad_requests(url: str, login: str, body: dict[str, Any], status: int, sentence: str) -> None:
    answer = call(url, "POST", "api/jobs", login, json=body)
    assert (answer.status_code, sentence in answer.json()["detail"]) == (status, True), answer.text
    assert call(url, "GET", "api/jobs").json()["jobs"] == []


def test_a_change_from_another_site_is_refused(url: str) -> None:
    answer = call(url, "POST", "api/jobs", json=ASK, headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 403
    form = call(
        url, "POST", "api/jobs", content=b"team=vision", headers={"content-type": "application/x-www-form-urlencoded"}
    )
    assert form.status_code == 415


def test_what_is_not_there_is_404(url: str) -> None:
    assert [call(url, "GET", p).status_code for p in ("api/jobs/nosuch", "api/jobs/nosuch/logs", "static/nosuch")] == [
        404
    ] * 3
    assert call(url, "POST", "api/jobs/nosuch/cancel", json={}).status_code == 404


@pytest.fixture
def page(url: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        opened = browser.new_page(extra_http_headers={"x-login": "ada"})
        opened.faults = []
        opened.on("pageerror", lambda error: opened.faults.append(str(error)))
        opened.goto(f"{url}/")
        yield opened
        assert opened.faults == []
        browser.close()


@pytest.mark.browser
def test_the_page_shows_a_job_come_run_and_go_by_itself(fleet: Played, page: Any) -> None:
    page.locator("#nojobs").wait_for()
    assert page.locator(".node").count() == 3
    job = fleet.submit(name="seen", gpus=2)
    fleet.until(job, "running")
    page.locator(f"#jobs >> text={job}").wait_for(timeout=10_000)
    assert page.locator(f"svg a[href$='job/{job}']").count() == 2, "two GPUs are drawn as its own"
    page.click(f"button[data-ask='{job}']")
    page.click("text=really cancel")
    page.locator("#nojobs").wait_for(timeout=15_000)
    fleet.until(job, "cancelled")


@pytest.mark.browser
def test_a_waiting_job_says_its_place_and_why_and_a_slice_is_drawn(fleet: Played, page: Any, url: str) -> None:
    big = fleet.submit(name="too-big", pods=4, gpus=8)
    small = fleet.submit("lin", name="small", memory_gib=9)
    fleet.until(small, "running")
    row = page.locator("#jobs tbody tr", has_text=big).filter(has_text="1 in vision")
    row.wait_for(timeout=10_000)
    assert row.locator(".tag").inner_text() in ("not-enough", "too-large")
    title = page.locator(f"svg a[href$='job/{small}'] title").first.text_content()
    assert "1g.10gb@6" in title
    page.goto(f"{url}/job/{big}")
    page.locator("dl.facts", has_text="would start it").wait_for(timeout=10_000)
    for name in (big, small):
        call(url, "POST", f"api/jobs/{name}/cancel", "admin", json={})
        fleet.until(name, "cancelled")


NET = {"workload": "net", "batch": 2, "sequence": 2048}
USES = ["sh", "-c", "echo 7000 > $GPUFLEET_DEVICE_MEMORY_FILE"]


def test_memory_asked_and_measured_is_there_for_scripts(fleet: Played, url: str) -> None:
    job = fleet.submit(name="measured", memory_gib=30, workload=NET, command=USES)
    fleet.until(job, "succeeded")
    (row,) = [j for j in call(url, "GET", "api/memory?team=vision").json()["jobs"] if j["job"] == job]
    says = "asked 30 GiB, never used more than 6.8 GiB; a 1g.10gb slice would do"
    assert (row["fit"], row["says"], row["workload"]) == ("over-asked", says, NET)
    assert call(url, "GET", "api/memory?team=language").json() == {"jobs": []}
    assert call(url, "GET", f"api/jobs/{job}").json()["memory"] == row


@pytest.mark.browser
def test_who_asked_for_too_much_memory_is_listed_and_told(fleet: Played, page: Any, url: str) -> None:
    job = fleet.submit(name="roomy", memory_gib=30, workload=NET, command=USES)
    fleet.until(job, "succeeded")
    page.click("text=memory asked and used")
    row = page.locator("#memory tbody tr", has_text=job)
    row.filter(has_text="a 1g.10gb slice would do").wait_for(timeout=10_000)
    row.locator("a").click()
    page.locator("dl.facts", has_text="never used more than 6.8 GiB").wait_for(timeout=10_000)
    like = fleet.submit(name="alike", like=NET)
    page.goto(f"{url}/job/{like}")
    page.locator("dl.facts", has_text="like 'net' with batch 2 x sequence 2048").wait_for(timeout=10_000)
    fleet.until(like, "running")
    call(url, "POST", f"api/jobs/{like}/cancel", "admin", json={})
    fleet.until(like, "cancelled")
