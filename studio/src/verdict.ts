// The verdict of the checker in words: first right, wrong or undecided, then why, then everything.

import { h } from "./dom";

export interface Report {
  ok: boolean;
  verdict: string;
  reasons: string[];
  notes: string[];
  power: string;
}

const WORDS: Record<string, string> = {
  right: "Right",
  wrong: "Wrong",
  undecided: "Undecided",
};

const NAMES = "theta is (x, y), r the momenta (p, q), xi the thermostat s, also written ξ.";

/** A box that says what is known so far. */
export class Verdict {
  readonly element = h("div", { class: "verdict", role: "status", "aria-live": "polite" });

  constructor() {
    this.unknown();
  }

  unknown(): void {
    this.element.className = "verdict";
    this.element.replaceChildren(h("p", {}, "Not checked yet."));
  }

  waiting(): void {
    this.element.className = "verdict";
    this.element.replaceChildren(h("p", { class: "busy" }, "Checking whether this samples the target"));
  }

  error(message: string): void {
    this.element.className = "verdict undecided";
    this.element.replaceChildren(h("p", {}, h("span", { class: "word" }, "Cannot be built. "), message));
  }

  show(report: Report, text: string): void {
    const kind = report.ok ? "right" : report.verdict === "undecided" ? "undecided" : "wrong";
    const headline = text.split("\n")[0]?.replace(/^[A-Z]+/, "") ?? "";
    this.element.className = `verdict ${kind}`;
    this.element.replaceChildren(
      h("p", {}, h("span", { class: "word" }, WORDS[kind] ?? kind), headline),
      ...report.reasons.map((reason) => h("p", {}, reason)),
      ...report.notes.map((note) => h("p", { class: "legend" }, note)),
      h("details", {}, h("summary", {}, "What was looked at"), h("p", { class: "legend" }, NAMES), h("pre", {}, text)),
    );
  }
}
