// One sampler: its picture, its numbers, its verdict, its recipe.

import { chart } from "./chart";
import { controls } from "./controls";
import { debounced, h, short } from "./dom";
import { Exports } from "./exports";
import { heatMap } from "./heat";
import { type Box, draw, type Drawn } from "./plot";
import { type Catalogue, designOf, type Panel, panelName, type State, type View } from "./state";
import { type Report, Verdict } from "./verdict";
import type { Message, Wire } from "./wire";

// How much of the path of the first chain is drawn.
const PATH = 400;
const HISTORY = 600;
// Runs that the page has started, of all panels: what comes for an earlier one is dropped.
let starts = 0;

const noHistory = (): Record<"kl" | "chance" | "effective" | "kinetic" | "thermostat" | "acceptance", (number | null)[]> => ({
  kl: [],
  chance: [],
  effective: [],
  kinetic: [],
  thermostat: [],
  acceptance: [],
});

export class PanelView {
  readonly element = h("article", { class: "card panel" });
  private readonly canvas = h("canvas", { class: "plot", role: "img", "aria-label": "no draws yet" });
  private readonly charts = [h("canvas", { class: "chart" }), h("canvas", { class: "chart" }), h("canvas", { class: "chart" })] as const;
  private readonly numbers = h("dl", { class: "numbers" });
  private readonly madeOf = h("p", { class: "made-of" });
  private readonly error = h("p", { class: "error", role: "alert" });
  private readonly verdict = new Verdict();
  private readonly form = h("div");
  private readonly recipe = h("div", { class: "recipe" });
  private readonly title = h("h2", {}, "");
  private drawn: Drawn | undefined;
  private view: View;
  private readonly trajectoryButton = h("button", { type: "button", "aria-pressed": "false", hidden: true }, "Leapfrog");
  private readonly exports = new Exports(
    this.canvas,
    () => this.name(),
    () => this.send("program", { frames: Math.max(1, this.frames) }),
  );
  private history = noHistory();
  private frames = 0;
  private start = 0;
  private asked = 0;
  private isRunning = false;
  private warning = "";
  private built = "";
  private readonly restartSoon = debounced(250, () => this.restart());
  private readonly checkSoon = debounced(700, () => this.check());

  constructor(
    private readonly id: number,
    private readonly state: State,
    private readonly panel: Panel,
    private readonly catalogue: Catalogue,
    private readonly wire: Wire,
    private readonly changed: () => void,
    remove: (() => void) | undefined,
  ) {
    this.view = panel.view ?? "cloud";
    const head = h("div", { class: "panel-head" }, this.title);
    if (remove !== undefined) head.append(h("button", { type: "button", onclick: remove }, "Remove"));
    const recipe = h("details", { open: panel.recipe }, h("summary", {}, "Recipe: D, Q and Γ"), this.recipe);
    recipe.addEventListener("toggle", () => {
      if (recipe.open === (panel.recipe ?? false)) return; // open from the start
      panel.recipe = recipe.open;
      changed();
      if (recipe.open) this.askRecipe();
    });
    const picture = h("div", { class: "picture" }, this.canvas, this.views(), this.numbers, ...this.charts, this.exports.element);
    const settings = h("details", { open: true }, h("summary", {}, "Settings"), this.form);
    const words = h("div", { class: "words" }, this.verdict.element, settings, recipe);
    this.element.append(head, this.madeOf, this.error, h("div", { class: "halves" }, picture, words));
    this.charts[0].setAttribute("aria-label", "divergence from the target over the steps");
    this.charts[1].setAttribute("aria-label", "effective draws over the steps");
    this.charts[2].setAttribute("aria-label", "temperature, thermostat and acceptance over the steps");
    for (const canvas of this.charts) canvas.setAttribute("role", "img");
    this.rebuild();
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    this.canvas.addEventListener("themechange", () => this.redraw());
  }

  /** Build the form again and start over, after a change of what fields there are. */
  private rebuild(): void {
    const update = (): void => {
      delete this.panel.title;
      this.title.textContent = this.name();
      this.update();
    };
    const rebuild = (): void => {
      delete this.panel.title;
      this.rebuild();
      this.update();
    };
    const hadFocus = this.form.contains(document.activeElement) ? document.activeElement?.id : undefined;
    this.form.replaceChildren(controls(this.panel, this.catalogue, update, rebuild));
    if (hadFocus !== undefined) this.form.querySelector<HTMLElement>("select")?.focus();
    this.title.textContent = this.name();
  }

  private name(): string {
    return panelName(this.panel);
  }

  /** After a change: a new run from the seed, and a new verdict. */
  update(): void {
    this.changed();
    this.clearErrors();
    this.verdict.waiting();
    this.recipe.replaceChildren();
    if (this.panel.recipe === true) this.askRecipe();
    this.restartSoon();
    this.checkSoon();
  }

  restart(): void {
    this.start = ++starts;
    this.frames = 0;
    this.history = noHistory();
    if (this.drawn !== undefined) {
      this.drawn.path = [];
      delete this.drawn.histogram;
      delete this.drawn.cloud;
      delete this.drawn.trajectory;
    }
    this.madeOf.textContent = "building…";
    this.verdict.of(undefined);
    this.send("start", { start: this.start });
  }

  check(): void {
    this.verdict.waiting();
    this.send("check");
  }

  /** All that is shown, after the connection was opened or the page built again. */
  begin(): void {
    this.restart();
    this.check();
    if (this.panel.recipe === true) this.askRecipe();
  }

  run(isRunning: boolean): void {
    const starts = isRunning && !this.isRunning;
    this.isRunning = isRunning;
    if (starts && this.drawn !== undefined) this.next();
  }

  receive(message: Message): void {
    if (message.start !== undefined && message.start !== this.start) return;
    if (message.kind === "error") this.showError(message);
    else if (message.kind === "started") this.started(message);
    else if (message.kind === "frame") this.frame(message);
    else if (message.asked !== this.asked && message.kind === "check") return;
    else if (message.kind === "check") this.verdict.show(message.report as Report, String(message.text));
    else if (message.kind === "recipe") this.showRecipe(message);
    else if (message.kind === "residual") this.showHeat(message, "Size of the residual |R|, over some momenta", false);
    else if (message.kind === "complete") this.showHeat(message, "Q[x, y] behind the drift", true);
    else if (message.kind === "program") this.showProgram(String(message.program));
  }

  private send(what: string, more: object = {}): void {
    if (what === "check") this.asked += 1;
    this.wire.send({ do: what, id: this.id, asked: this.asked, design: designOf(this.state, this.panel), ...more });
  }

  private started(message: Message): void {
    const truth = message.arrays?.truth;
    if (truth === undefined) return;
    this.drawn = {
      box: message.box as Drawn["box"],
      truth: { size: truth.shape[0] ?? 0, values: truth.data },
      path: [],
    };
    this.built = String(message.sampler);
    this.madeOf.textContent = "compiling the first steps…";
    this.trajectoryButton.hidden = message.trajectories !== true;
    if (this.trajectoryButton.hidden && this.view === "trajectory") this.show("cloud");
    this.warning =
      message.bounded === false ? "exp(-U) does not decay within 64 of the origin: it may have no integral." : "";
    this.error.textContent = this.warning;
    this.redraw();
    // The first frame comes at once, so that a change is seen without a run.
    this.next();
  }

  private next(): void {
    this.wire.send({ do: "next", id: this.id, trajectory: this.view === "trajectory" });
  }

  private frame(message: Message): void {
    const { drawn } = this;
    const { cloud, path, histogram, trajectory } = message.arrays ?? {};
    if (drawn === undefined || cloud === undefined || path === undefined || histogram === undefined) return;
    this.frames += 1;
    this.madeOf.textContent = this.built;
    drawn.cloud = cloud.data;
    if (trajectory !== undefined) drawn.trajectory = { rows: trajectory.data, chosen: Number(message.chosen) };
    drawn.path = [...drawn.path, ...path.data].slice(-2 * PATH);
    if (Number(message.number) > 0) drawn.histogram = { size: drawn.truth.size, values: histogram.data };
    for (const [name, values] of Object.entries(this.history)) {
      const value = message[name];
      values.push(typeof value === "number" ? value : null);
      if (values.length > HISTORY) values.shift();
    }
    const reading = performance.now() - message.arrived;
    requestAnimationFrame(() => {
      if (message.start !== this.start) return;
      const before = performance.now();
      this.redraw();
      this.showNumbers(message);
      this.element.dataset.work = (reading + performance.now() - before).toFixed(2);
      this.exports.drawn();
      // Asked for after it was drawn: a slow page gets fewer frames, not a longer queue.
      if (this.isRunning && message.over !== true) this.next();
    });
  }

  private redraw(): void {
    if (this.drawn === undefined) return;
    draw(this.canvas, this.drawn, this.view);
    const { kl, chance, effective, kinetic, thermostat, acceptance } = this.history;
    chart(this.charts[0], "KL from the target, and how much of it is chance", [
      { name: "KL", colour: "path", values: kl },
      { name: "chance", colour: "soft", values: chance, dashed: true },
    ], true);
    chart(this.charts[1], "effective draws", [{ name: "eff.", colour: "cloud", values: effective }], false);
    const lines = [
      { name: "T", colour: "cloud", values: kinetic },
      { name: "ξ", colour: "path", values: thermostat },
      { name: "acc.", colour: "good", values: acceptance },
    ].filter((line) => line.values.some((value) => value !== null));
    this.charts[2].hidden = lines.length === 0;
    const titles = { T: "kinetic temperature", ξ: "thermostat", "acc.": "acceptance" };
    const title = lines.map((line) => titles[line.name as keyof typeof titles]).join(", ");
    if (lines.length > 0) chart(this.charts[2], title, lines, false);
  }

  private showNumbers(message: Message): void {
    const number = (name: string): number | undefined => {
      const value = message[name];
      return typeof value === "number" ? value : undefined;
    };
    const rows: [string, string, string?][] = [["steps", short(number("step") ?? 0)]];
    const kl = number("kl");
    const chance = number("chance");
    rows.push(["KL from the target", kl === undefined ? "burn-in" : short(kl), chance === undefined ? "" : `chance ${short(chance)}`]);
    const effective = number("effective");
    rows.push(["effective draws", effective === undefined ? "–" : short(effective), `of ${short(number("number") ?? 0)}`]);
    const acceptance = number("acceptance");
    if (acceptance !== undefined) rows.push(["acceptance", short(acceptance)]);
    const kinetic = number("kinetic");
    if (kinetic !== undefined) rows.push(["kinetic temperature", short(kinetic)]);
    const thermostat = number("thermostat");
    if (thermostat !== undefined) rows.push(["thermostat ξ", short(thermostat)]);
    const lost = number("lost") ?? 0;
    this.error.textContent =
      lost > 0 ? `${lost} of ${this.state.run.chains} chains left the finite numbers: the step size is too large here.` : this.warning;
    this.verdict.of(lost > 0 ? "lost" : message.far === true ? "far" : undefined);
    this.numbers.replaceChildren(
      ...rows.map(([name, value, more]) =>
        h("div", {}, h("dt", {}, name), h("dd", {}, value, ...(more ? [" ", h("small", {}, more)] : []))),
      ),
    );
    if (this.frames % 20 === 1) {
      this.canvas.setAttribute("aria-label", `draws after ${short(number("step") ?? 0)} steps; KL ${kl === undefined ? "not known yet" : short(kl)}`);
    }
    this.element.dataset.step = String(number("step") ?? 0);
    if (kl !== undefined) this.element.dataset.kl = String(kl);
  }

  private clearErrors(): void {
    this.error.textContent = "";
    for (const element of this.element.querySelectorAll("[aria-invalid]")) element.removeAttribute("aria-invalid");
    for (const element of this.form.querySelectorAll(".error")) element.textContent = "";
  }

  /** At its field where it has one, else at the top of the panel. */
  private showError(message: Message): void {
    const part = String(message.part ?? "");
    const text = String(message.message);
    if (message.about === "residual" || message.about === "complete") {
      this.recipe.append(h("p", { class: "error" }, text));
      return;
    }
    this.madeOf.textContent = "";
    const input = this.form.querySelector<HTMLElement>(`[data-part="${CSS.escape(part)}"]`);
    const place =
      (input && document.getElementById(`${input.id}-error`)) ??
      this.form.querySelector<HTMLElement>(`[data-for="${CSS.escape(part.split(".").slice(0, 2).join("."))}"]`);
    input?.setAttribute("aria-invalid", "true");
    (place ?? this.error).textContent = text;
    this.verdict.error(place === null || place === undefined ? "" : text);
    const formula = document.querySelector('[data-part="target.formula"]');
    if (part.startsWith("target")) formula?.dispatchEvent(new CustomEvent("targeterror", { detail: { part, text }, bubbles: true }));
  }

  // The recipe ---------------------------------------------------------------------------------------------

  private askRecipe(): void {
    this.recipe.replaceChildren(h("p", { class: "busy" }, "deriving Γ"));
    this.send("recipe");
  }

  private showRecipe(message: Message): void {
    const math = (message.equations as string[]).filter(Boolean).map((equation) => {
      // Printed by the server from a tree of numbers, names and operations, whose texts are escaped there.
      const box = h("div", { class: "math", tabindex: 0, role: "group", "aria-label": "equation" });
      box.innerHTML = equation;
      return box;
    });
    const letters = (message.letters as string[]).join(", ");
    this.recipe.replaceChildren(
      ...(letters ? [h("p", { class: "legend" }, `Rows and columns: ${letters.replace("s", "ξ")}.`)] : []),
      ...math,
      ...(message.note ? [h("p", {}, String(message.note))] : []),
    );
    const buttons = h("div", { class: "row" });
    buttons.append(h("button", { type: "button", onclick: () => this.send("residual") }, "Show the residual"));
    const { sampler } = this.panel;
    if (sampler.kind === "drift" && sampler.size === 2) {
      buttons.append(h("button", { type: "button", onclick: () => this.send("complete") }, "Complete: recover Q"));
    }
    const typed = message.typed as { size: number; H: string; D: string[][]; Q: string[][] } | undefined;
    if (typed !== undefined && sampler.kind !== "typed") {
      const edit = (): void => {
        this.panel.sampler = { kind: "typed", ...typed };
        delete this.panel.title;
        this.rebuild();
        this.update();
      };
      buttons.append(h("button", { type: "button", onclick: edit }, "Edit these as D, Q, H"));
    }
    this.recipe.append(buttons);
  }

  private showHeat(message: Message, what: string, isSigned: boolean): void {
    const values = message.arrays?.values;
    if (values === undefined) return;
    for (const old of this.recipe.querySelectorAll("figure, pre")) old.remove();
    const map = heatMap(values.data, values.shape[0] ?? 0, message.box as Box, Number(message.largest), Number(message.scale ?? message.largest), what, isSigned);
    this.recipe.append(map);
    if (message.kind === "complete") this.recipe.append(h("pre", {}, String(message.text)));
  }

  // Views and the program ----------------------------------------------------------------------------------

  private views(): HTMLElement {
    const button = (label: string): HTMLButtonElement => h("button", { type: "button" }, label);
    const buttons: [View, HTMLButtonElement][] = [
      ["cloud", button("Cloud")],
      ["density", button("Density")],
      ["difference", button("Draws − truth")],
      ["trajectory", this.trajectoryButton],
    ];
    for (const [view, element] of buttons) {
      element.dataset.view = view;
      element.setAttribute("aria-pressed", String(view === this.view));
      element.addEventListener("click", () => this.show(view));
    }
    return h("div", { class: "row", role: "group", "aria-label": "What is shown" }, ...buttons.map(([, element]) => element));
  }

  private show(view: View): void {
    this.view = this.panel.view = view;
    this.changed();
    for (const button of this.element.querySelectorAll<HTMLElement>("[data-view]")) {
      button.setAttribute("aria-pressed", String(button.dataset.view === view));
    }
    // Trajectories come with frames, where they are asked for: one more of these shows the first.
    if (view === "trajectory" && this.drawn !== undefined && !this.isRunning) this.next();
    this.redraw();
  }

  private showProgram(program: string): void {
    this.element.querySelector(".program")?.remove();
    const text = h("pre", { class: "program", tabindex: 0, "aria-label": "the program" }, program);
    this.element.append(text);
    const said = h("p", { class: "legend", role: "status" });
    text.before(said);
    navigator.clipboard.writeText(program).then(
      () => (said.textContent = "Copied. The program gives the same draws, bit for bit."),
      () => (said.textContent = "The browser does not allow copying: select the text below."),
    );
    window.setTimeout(() => said.remove(), 8_000);
  }
}
