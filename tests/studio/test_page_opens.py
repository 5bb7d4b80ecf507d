"""The page opens, runs and says what is wrong with a formula: what every run of the tests sees of it."""

from types import SimpleNamespace

from studio_server import link, until

from fokker.studio import analysis


def test_the_page_opens_runs_and_names_a_malformed_formula(monkeypatch, page, served):
    said = {"ok": True, "verdict": "right", "reasons": [], "notes": []}
    report = SimpleNamespace(to_json=lambda: said)
    monkeypatch.setattr(analysis, "known_verdict", lambda design: report)
    sampler = {"kind": "named", "name": "sgld"}
    page.goto(link(served.address, [{"sampler": sampler}], run={"chains": 20, "steps": 2, "burn_in": 0}))
    panel = page.locator(".panel[data-step]")
    panel.wait_for()
    page.get_by_role("button", name="Run", exact=True).click()
    until(lambda: int(panel.get_attribute("data-step")) > 6)
    formula = page.get_by_label("U(x, y)")
    formula.fill("x^2 + 2*(y +")
    formula.press("Enter")
    until(lambda: formula.get_attribute("aria-invalid") == "true")
    assert page.locator("#side .error", has_text="wanted").is_visible()
