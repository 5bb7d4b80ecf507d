// One parameter at a time: trace, distribution, ranks, autocorrelation, effective draws; and pairs.

import { h, menu, rounded } from "../dom";
import { type Figure, viewOf } from "./figure";
import type { Mark } from "./marks";
import { between, floats, words } from "./numbers";

/** What `fokker.report.parameters` writes. Arrays are by parameter first, in the order of `names`. */
export interface Parameters {
  names: string[];
  chains: number[];
  /** All chains of the run, also those that are not drawn. */
  allChains: number;
  draws: number;
  every: number;
  places: number;
  /** Of all draws of each chain that is drawn, by parameter; null where they are not finite. */
  means: (number | null)[][];
  low: number[];
  high: number[];
  values: string;
  bins: number;
  counts: string;
  ranks: string;
  rankBins: number;
  lags: number[];
  autocorrelation: string;
  /** Effective draws after the first `lengths` draws of each chain, of the parameters `grown`. */
  lengths: number[];
  grown: number[];
  bulk: string;
  tail: string;
  divergent: string;
  /** null where the sampler does not say it. */
  divergences: number | null;
  shownDivergences: number;
  note: string;
}

const COLOURS = 8;
let chosen: string | undefined;
let partner: string | undefined;
let isLog = { x: false, y: false };

export class ParameterViews {
  private readonly values: Uint16Array;
  private readonly menus: [HTMLSelectElement, HTMLSelectElement];
  private readonly figures = ["trace", "distribution", "ranks", "autocorrelation", "growth", "pair"].map((name) => viewOf(`parameter-${name}`));
  private readonly checks: [HTMLInputElement, HTMLInputElement];

  constructor(
    private readonly of: Parameters,
    private readonly root: HTMLElement,
  ) {
    this.values = words(of.values);
    const options = of.names.map((name): [string, string] => [name, name]);
    const has = (name: string | undefined): name is string => name !== undefined && of.names.includes(name);
    const first = has(chosen) ? chosen : of.names[0]!;
    const second = has(partner) ? partner : (of.names.find((name) => name !== first) ?? first);
    this.menus = [
      menu(options, first, (name) => this.choose(name)),
      menu(options, second, (name) => {
        partner = name;
        this.show();
      }),
    ];
    this.menus[0].id = "parameter";
    this.menus[1].id = "partner";
    this.checks = [this.logCheck("x"), this.logCheck("y")];
    const step = (by: number): void => {
      const next = (of.names.indexOf(this.menus[0].value) + by + of.names.length) % of.names.length;
      this.choose(of.names[next]!);
    };
    const label = (text: string, input: HTMLElement): HTMLElement => h("label", { for: input.id }, text, input);
    const head = h(
      "div",
      { class: "row" },
      label("Parameter ", this.menus[0]),
      h("button", { type: "button", onclick: () => step(-1) }, "Previous"),
      h("button", { type: "button", onclick: () => step(1) }, "Next"),
    );
    const pairs = [
      label("Pair with ", this.menus[1]),
      ...this.checks.map((check, k) => h("label", { class: "check", for: check.id }, check, `logarithm of ${["x", "y"][k]}`)),
    ];
    const hasPairs = of.names.length > 1;
    if (hasPairs) head.append(...pairs);
    const shown = this.figures.slice(0, hasPairs ? 6 : 5).map((view) => view.element);
    root.replaceChildren(head, h("div", { class: "figures" }, ...shown));
    root.append(h("p", { class: "legend" }, of.note));
    this.show();
  }

  private logCheck(axis: "x" | "y"): HTMLInputElement {
    const check = h("input", { type: "checkbox", id: `log-${axis}` });
    check.checked = isLog[axis];
    check.addEventListener("change", () => {
      isLog = { ...isLog, [axis]: check.checked };
      this.show();
    });
    return check;
  }

  /** Show this parameter; `scrolls`: it was chosen elsewhere on the page. */
  choose(name: string, scrolls = false): void {
    if (!this.of.names.includes(name)) return;
    chosen = name;
    this.menus[0].value = name;
    this.show();
    if (scrolls) this.root.scrollIntoView({ behavior: "smooth", block: "start" });
  }

  private show(): void {
    const [name, other] = [this.menus[0].value, this.menus[1].value];
    const k = this.of.names.indexOf(name);
    const made = [this.trace(k), this.distribution(k), this.ranks(k), this.autocorrelation(k), this.growth(k), this.pair(k, this.of.names.indexOf(other))];
    made.forEach((figure, i) => this.figures[i]!.show(figure));
    this.root.dataset.parameter = name;
  }

  /** One mark per chain, of so many numbers each. */
  private byChain(data: ArrayLike<number>, k: number, length: number, make: (part: number[]) => Omit<Mark, "name" | "colour">): Mark[] {
    const { chains } = this.of;
    return chains.map((chain, c) => {
      const start = (k * chains.length + c) * length;
      const part = Array.from({ length }, (_, i) => data[start + i] ?? NaN);
      return { name: chains.length <= COLOURS ? `chain ${chain}` : undefined, colour: `chain-${c % COLOURS}`, ...make(part) } as Mark;
    });
  }

  private value(word: number, k: number): number {
    return between(word, this.of.low[k]!, this.of.high[k]!);
  }

  private drawsOf(k: number): number[] {
    const size = this.of.chains.length * this.of.places;
    return Array.from(this.values.subarray(k * size, (k + 1) * size), (word) => this.value(word, k));
  }

  private trace(k: number): Figure {
    const { names, places, every, draws } = this.of;
    const x = Array.from({ length: places }, (_, i) => i * every);
    const marks = this.byChain(this.values, k, places, (part) => ({
      kind: "line",
      x,
      y: part.map((word) => this.value(word, k)),
      opacity: 0.75,
      width: 0.9,
    }));
    const some = every > 1 ? `One in ${every} of ${draws.toLocaleString("en")} draws` : `All ${draws.toLocaleString("en")} draws`;
    const step = deviation(this.drawsOf(k)) / 10;
    const means = this.of.means[k]!.map((value) => rounded(value ?? NaN, step));
    return { title: `Trace of ${names[k]}`, text: `${some} of each chain; means ${means.slice(0, COLOURS).join(", ")}.`, x: { label: "draw" }, y: { label: "" }, marks };
  }

  private distribution(k: number): Figure {
    const { names, bins, low, high } = this.of;
    const [a, b] = [low[k]!, high[k]!];
    const x = Array.from({ length: bins + 1 }, (_, i) => a + ((b - a) * i) / bins);
    const marks = this.byChain(words(this.of.counts), k, bins, (part) => {
      const total = part.reduce((s, v) => s + v, 0) * ((b - a) / bins) || 1;
      return { kind: "stairs", x, y: part.map((count) => count / total) };
    });
    return { title: `Distribution of ${names[k]}`, text: `Histograms of all draws, between ${rounded(a, (b - a) / 100)} and ${rounded(b, (b - a) / 100)}.`, x: { label: "" }, y: { label: "density" }, marks };
  }

  private ranks(k: number): Figure {
    const { names, rankBins } = this.of;
    const x = Array.from({ length: rankBins + 1 }, (_, i) => i / rankBins);
    const marks = this.byChain(words(this.of.ranks), k, rankBins, (part) => {
      // By their own sum: counts of long chains are scaled.
      const total = part.reduce((sum, count) => sum + count, 0);
      return { kind: "stairs", x, y: part.map((count) => (count * rankBins) / total) };
    });
    const rule: Mark = { kind: "rule", along: "y", at: 1, colour: "truth", dashed: true, name: "chains that agree" };
    const text = "How the draws of each chain rank among all: flat where the chains agree, sloped or U-shaped where a chain differs from the others.";
    return { title: `Ranks of ${names[k]}`, text, x: { label: "rank among all draws, from 0 to 1" }, y: { label: "density, 1 is uniform" }, marks: [...marks, rule] };
  }

  private autocorrelation(k: number): Figure {
    const { names, lags, draws } = this.of;
    const all = this.byChain(words(this.of.autocorrelation), k, lags.length, (part) => ({
      kind: "line",
      x: lags,
      y: part.map((word) => between(word, -1, 1)),
    }));
    // Farther out is noise alone: it ends at twice the first lag where every chain is within it.
    const isNoise = (place: number): boolean => all.every(({ y }) => Math.abs(y![place]!) < 2 / Math.sqrt(draws));
    const first = lags.findIndex((_, place) => isNoise(place));
    const last = first < 0 ? -1 : lags.findIndex((lag) => lag >= Math.max(20, 2 * lags[first]!));
    const shown = last < 0 ? lags.length : last + 1;
    const marks = all.map((mark) => ({ ...mark, x: lags.slice(0, shown), y: Array.from(mark.y!).slice(0, shown) }));
    const rule: Mark = { kind: "rule", along: "y", at: 0, colour: "truth", dashed: true };
    return { title: `Autocorrelation of ${names[k]}`, text: "Correlation between draws that are this many draws apart: the sooner it falls to zero, the more effective draws there are.", x: { label: "lag, in draws" }, y: { label: "" }, marks: [...marks, rule] };
  }

  private growth(k: number): Figure {
    const { names, lengths, grown, allChains } = this.of;
    const place = grown.indexOf(k);
    const part = (text: string): number[] => Array.from(floats(text).subarray(place * lengths.length, (place + 1) * lengths.length));
    const x = lengths.map((length) => length * allChains);
    const marks: Mark[] =
      place < 0
        ? []
        : [
            { kind: "line", name: "bulk", colour: "chain-0", x, y: part(this.of.bulk) },
            { kind: "line", name: "tails", colour: "chain-1", x, y: part(this.of.tail) },
            { kind: "rule", name: "400, enough for most uses", along: "y", at: 400, colour: "truth", dashed: true },
          ];
    const text = place < 0 ? "Not computed for this one: it is for those at the top of the table." : "By the first draws of all chains: it grows in a straight line where the chains mix.";
    return { title: `Effective draws of ${names[k]}`, text, x: { label: "draws of all chains" }, y: { label: "effective" }, marks };
  }

  private pair(k: number, other: number): Figure {
    const { names, shownDivergences } = this.of;
    const divergences = this.of.divergences ?? 0;
    const [x, y] = [this.drawsOf(k), this.drawsOf(other)];
    const isPositive = [this.of.low[k]! > 0, this.of.low[other]! > 0];
    this.checks.forEach((check, i) => {
      check.disabled = !isPositive[i]!;
      if (!isPositive[i]) check.checked = false;
    });
    const marks: Mark[] = [{ kind: "points", name: "draws", colour: "chain-0", x, y, opacity: 0.45 }];
    if (shownDivergences > 0) {
      const words16 = words(this.of.divergent);
      const at = (i: number): number[] => Array.from(words16.subarray(i * shownDivergences, (i + 1) * shownDivergences), (word) => this.value(word, i));
      marks.push({ kind: "points", name: "divergent", colour: "bad", x: at(k), y: at(other), width: 2.6 });
    }
    const lost = shownDivergences < divergences ? `${shownDivergences} of ${divergences.toLocaleString("en")}` : String(divergences);
    const text = divergences > 0 ? `${lost} divergent draws are marked: where they gather, the steps are too large for the target.` : this.of.divergences === null
          ? "Each point is one draw."
          : "No draw is divergent.";
    return {
      title: `${names[k]} and ${names[other]}`,
      text,
      x: { label: names[k]!, log: this.checks[0].checked },
      y: { label: names[other]!, log: this.checks[1].checked },
      marks,
    };
  }
}

function deviation(values: number[]): number {
  const finite = values.filter(Number.isFinite);
  const centre = mean(finite);
  return Math.sqrt(mean(finite.map((value) => (value - centre) ** 2)));
}

function mean(values: number[]): number {
  return values.reduce((a, b) => a + b, 0) / values.length;
}
