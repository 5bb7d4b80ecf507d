"""Work of the browser per frame of 10,000 points: the studio in Chromium, without a screen.

Milliseconds of the page's own scripts for one frame, from its arrival until the next is asked for, as the
page measures them: the median, and what 95 % are within. 4 ms leave the browser three quarters of a sixtieth
of a second. Run by `python benchmarks/studio_page.py`, on an idle machine.
"""

import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "studio")]

from playwright.sync_api import Page, sync_playwright  # noqa: E402
from studio_server import Served, link, until  # noqa: E402

from chromium import ARGUMENTS, SYSTEM  # noqa: E402

FRAMES, MOST = 200, 4.0
RUN = {"seed": 0, "chains": 10_000, "steps": 1, "burn_in": 0}
WATCH = """() => {
  const panel = document.querySelector(".panel");
  window.work = [];
  new MutationObserver(() => work.push(Number(panel.dataset.work)))
    .observe(panel, { attributes: true, attributeFilter: ["data-work"] });
}"""


def measured(page: Page, view: str) -> list[float]:
    """The work of each frame of a view."""
    page.get_by_role("button", name=view, exact=True).click()
    page.evaluate(WATCH)
    page.get_by_role("button", name="Run", exact=True).click()
    until(lambda: page.evaluate("work.length") > FRAMES)
    page.get_by_role("button", name="Pause").click()
    return page.evaluate("work")


def main() -> int:
    """Print a line per view; 1 where a median is above the limit."""
    served, medians = Served(), []
    with sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=SYSTEM, args=ARGUMENTS).new_page()
        page.goto(link(served.address, [{"sampler": {"kind": "named", "name": "sgld"}}], run=RUN))
        until(lambda: page.locator(".panel[data-step]").count() == 1)
        for view in ("Cloud", "Density", "Draws − truth"):
            times = sorted(measured(page, view))
            medians.append(statistics.median(times))
            within = times[int(0.95 * len(times))]
            print(f"{view}: median {medians[-1]:.1f} ms, 95 % within {within:.1f} ms, {len(times)} frames")
    served.stop()
    return int(max(medians) > MOST)


if __name__ == "__main__":
    raise SystemExit(main())
