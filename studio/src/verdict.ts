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

/** What is wrong with a run whose dynamics may be right. */
export type Trouble = "lost" | "far";

const TROUBLES: Record<Trouble, string> = {
  lost: "Chains leave the finite numbers: take smaller steps.",
  far: "The draws are far from the target, and not by chance: take smaller steps, or more of them.",
};

/** A box that says what is known so far. */
export class Verdict {
  readonly element = h("div", { class: "verdict", role: "status", "aria-live": "polite" });
  private shown: { report: Report; text: string } | undefined;
  private trouble: Trouble | undefined;

  constructor() {
    this.unknown();
  }

  unknown(): void {
    this.shown = undefined;
    this.element.className = "verdict";
    this.element.replaceChildren(h("p", {}, "Not checked yet."));
  }

  waiting(): void {
    this.shown = undefined;
    this.element.className = "verdict";
    this.element.replaceChildren(h("p", { class: "busy" }, "Checking whether this samples the target"));
  }

  error(message: string): void {
    this.shown = undefined;
    this.element.className = "verdict undecided";
    this.element.replaceChildren(h("p", {}, h("span", { class: "word" }, "Cannot be built. "), message));
  }

  /** What the run itself shows, which the checker of its dynamics does not look at. */
  of(trouble: Trouble | undefined): void {
    if (trouble === this.trouble) return;
    this.trouble = trouble;
    if (this.shown?.report.ok === true) this.show(this.shown.report, this.shown.text);
  }

  show(report: Report, text: string): void {
    this.shown = { report, text };
    const kind = report.ok ? "right" : report.verdict === "undecided" ? "undecided" : "wrong";
    const headline = text.split("\n")[0]?.replace(/^[A-Z]+/, "") ?? "";
    const trouble = report.ok ? this.trouble : undefined;
    const run =
      trouble === undefined
        ? []
        : [h("p", {}, h("span", { class: "word" }, "The dynamics are right; at this step size the run is not. "), TROUBLES[trouble])];
    this.element.className = `verdict ${trouble === undefined ? kind : "undecided"}`;
    this.element.replaceChildren(
      ...run,
      h("p", {}, h("span", { class: trouble === undefined ? "word" : "" }, WORDS[kind] ?? kind), headline),
      ...report.reasons.map((reason) => h("p", {}, reason)),
      ...report.notes.map((note) => h("p", { class: "legend" }, note)),
      h("details", {}, h("summary", {}, "What was checked"), h("p", { class: "legend" }, NAMES), h("pre", {}, text)),
    );
  }
}
