"""Takes the README's pictures from a running embedded fleet: `python -m tools.pictures` while `make demo` is up."""

from __future__ import annotations

import argparse
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tools.demo.home import PROJECT

CHROMIUM = "/usr/bin/chromium"


def log_in(page: Page, url: str, login: str) -> None:
    """As a person would, in Airflow's own form."""
    page.goto(f"{url}/auth/login")
    page.fill("input[name=username]", login)
    page.fill("input[name=password]", login)
    page.click("button[type=submit]")
    page.wait_for_url(lambda found: "/auth/login" not in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, default=PROJECT / ".demo" / "demo")
    parser.add_argument("--job", help="also picture this job's page")
    parser.add_argument("--told", type=Path, help="also picture what `make demo` told, kept with --html")
    parser.add_argument("--out", type=Path, default=PROJECT / "docs" / "pictures")
    given = parser.parse_args()
    portal = (given.home / "portal.url").read_text().strip()
    url = portal.removesuffix("/gpufleet/")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1500, "height": 980})
        log_in(page, url, "ada")
        page.goto(f"{url}/plugin/gpufleet")
        page.frame_locator("iframe").locator("#jobs tbody tr").first.wait_for(timeout=30_000)
        page.wait_for_timeout(1500)
        page.screenshot(path=given.out / "fleet.png")
        if given.job:
            page.goto(f"{portal}job/{given.job}")
            page.locator("dl.facts").wait_for(timeout=30_000)
            page.wait_for_timeout(500)
            page.screenshot(path=given.out / "job.png")
        if given.told:
            page.set_viewport_size({"width": 1100, "height": 600})
            page.goto(given.told.resolve().as_uri())
            page.screenshot(path=given.out / "demo.png", full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
