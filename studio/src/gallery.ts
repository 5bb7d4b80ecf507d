// Recorded runs on a page without a server; `fokker.studio.gallery` says what is recorded.

import { chart } from "./chart";
import { h } from "./dom";
import { draw, type Drawn } from "./plot";
import { newPanel, type Panel, panelName } from "./state";
import { themed } from "./theme";
import { type Message, unpack } from "./wire";

const MILLISECONDS = 120;
const PATH = 400;
const WORDS: Record<string, string> = { right: "Right", wrong: "Wrong", undecided: "Undecided" };

class Recorded {
  readonly element = h("article", { class: "card" });
  private readonly plot = h("canvas", { class: "plot", role: "img", "aria-label": "draws of the sampler and contours of the target" });
  private readonly chart = h("canvas", { class: "chart", role: "img", "aria-label": "divergence from the target" });
  private readonly message: Message;
  private readonly drawn: Drawn;
  private readonly counts: Float32Array;
  private number = 0;
  private frame = -1;

  constructor(text: string) {
    this.message = unpack(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
    const truth = this.message.arrays!.truth!;
    const size = truth.shape[0]!;
    this.counts = new Float32Array(size * size);
    this.drawn = { box: this.message.box as Drawn["box"], truth: { size, values: truth.data }, path: [] };
    const verdict = String(this.message.verdict);
    this.element.append(
      h("h3", {}, panelName(newPanel(this.message.design as Partial<Panel>))),
      h("p", {}, String(this.message.sampler)),
      this.plot,
      this.chart,
      h("p", { class: verdict }, h("b", {}, `${WORDS[verdict] ?? verdict}. `), (this.message.reasons as string[]).join(" ")),
    );
    this.plot.addEventListener("themechange", () => this.redraw());
  }

  /** The next frame; after the last one the first. */
  advance(): void {
    const { clouds, paths } = this.message.arrays!;
    const [frames, chains] = clouds!.shape as [number, number];
    this.frame = (this.frame + 1) % frames;
    if (this.frame === 0) {
      this.drawn.path = [];
      delete this.drawn.histogram;
      this.counts.fill(0);
      this.number = 0;
    }
    const steps = paths!.shape[1]!;
    const cloud = clouds!.data.subarray(2 * chains * this.frame, 2 * chains * (this.frame + 1));
    const path = paths!.data.subarray(2 * steps * this.frame, 2 * steps * (this.frame + 1));
    this.drawn.cloud = cloud;
    this.drawn.path = [...this.drawn.path, ...path].slice(-2 * PATH);
    // The KL is known where the burn-in is over.
    if ((this.message.kl as (number | null)[])[this.frame] !== null) this.count(cloud);
    this.redraw();
  }

  private count(cloud: Float32Array): void {
    const { box, truth } = this.drawn;
    const cell = (value: number, low: number, high: number): number => Math.floor(((value - low) / (high - low)) * truth.size);
    for (let k = 0; k < cloud.length; k += 2) {
      const i = cell(cloud[k]!, box[0], box[1]);
      const j = cell(cloud[k + 1]!, box[2], box[3]);
      if (i >= 0 && i < truth.size && j >= 0 && j < truth.size) this.counts[i * truth.size + j]! += 1;
    }
    this.number += cloud.length / 2;
    this.drawn.histogram = { size: truth.size, values: this.counts.map((count) => count / this.number) };
  }

  redraw(): void {
    draw(this.plot, this.drawn, "cloud");
    const upTo = (values: unknown): (number | null)[] => (values as (number | null)[]).slice(0, this.frame + 1);
    chart(this.chart, "KL from the target", [
      { name: "KL", colour: "path", values: upTo(this.message.kl) },
      { name: "chance", colour: "soft", values: upTo(this.message.chance), dashed: true },
    ], true);
    this.element.dataset.frame = String(this.frame);
  }
}

const runs: Recorded[] = [];
let theme: "light" | "dark" | undefined;
const button = h("button", { type: "button" }, "Dark");
const play = h("button", { type: "button" }, "Pause");
document.querySelector(".top")!.append(play, button);
const applyTheme = themed(button, () => theme, (chosen) => (theme = chosen));
applyTheme();
for (const story of document.querySelectorAll(".story")) {
  const recorded = (JSON.parse(story.querySelector("script")!.textContent ?? "[]") as string[]).map((text) => new Recorded(text));
  story.append(h("div", { class: "runs" }, ...recorded.map((run) => run.element)));
  runs.push(...recorded);
}

/** Those that are on the screen advance. */
function advance(): void {
  for (const run of runs) {
    const { top, bottom } = run.element.getBoundingClientRect();
    if (bottom > 0 && top < window.innerHeight) run.advance();
  }
}

let timer: number | undefined = window.setInterval(advance, MILLISECONDS);
play.addEventListener("click", () => {
  if (timer === undefined) timer = window.setInterval(advance, MILLISECONDS);
  else {
    window.clearInterval(timer);
    timer = undefined;
  }
  play.textContent = timer === undefined ? "Play" : "Pause";
});
