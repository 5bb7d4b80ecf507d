"""`make browser`: a browser where it can be had, and one line where it cannot; it never fails."""

import sys

import chromium


def _install(monkeypatch, program):
    monkeypatch.setattr(chromium, "SYSTEM", None)
    monkeypatch.setattr(chromium, "is_there", lambda playwright: False)
    return chromium.install((sys.executable, "-c", program))


def test_without_a_network_one_line_says_what_is_skipped(monkeypatch):
    message = _install(monkeypatch, "raise SystemExit('no network')")
    assert "tests that need a browser are skipped" in message
    assert "\n" not in message


def test_a_download_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(chromium, "_SECONDS", 0.2)
    assert "timed out" in _install(monkeypatch, "import time; time.sleep(60)")


def test_a_browser_that_was_installed_needs_no_word(monkeypatch):
    assert _install(monkeypatch, "") == ""
    monkeypatch.setattr(chromium, "SYSTEM", sys.executable)
    assert chromium.install(("no such program",)) == ""
