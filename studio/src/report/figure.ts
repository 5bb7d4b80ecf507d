// A figure on a canvas: axes, marks, a legend, zooming by pointer and keys, and its numbers as a table.

import { logTicks, ticks, tickText } from "../axes";
import { colour, fitted } from "../colours";
import { h, rounded, short } from "../dom";
import { drawMark, type Mark, range, type Scales } from "./marks";
import { type Packed, unpacked } from "./numbers";

export interface Axis {
  label: string;
  log?: boolean;
  /** Names at 0, 1, 2, …, from the top. */
  names?: string[];
}

export interface Figure {
  title: string;
  /** What it shows, in words, for those who do not see it. */
  text: string;
  x: Axis;
  y: Axis;
  marks: Mark[];
  /** Whether a unit is as long along both axes, which then have no numbers. */
  isMap?: boolean;
}

type Box = [number, number, number, number];
// What was zoomed into, by the name of the figure, over updates of the page.
const zooms = new Map<string, Box>();
// Views are used again where an update of the page has a figure of the same name.
const views = new Map<string, FigureView>();
const ROOM = { left: 52, right: 10, top: 8, bottom: 36 };
const LINE = 15;
const ROWS = 60;

/** A figure as Python writes it, with packed arrays. */
export function unpackedFigure(text: string): Figure {
  const figure = JSON.parse(text) as Figure;
  for (const mark of figure.marks) {
    for (const name of ["x", "y", "low", "high", "size"] as const) {
      if (mark[name] !== undefined) mark[name] = unpacked(mark[name] as unknown as Packed);
    }
  }
  return figure;
}

/** The view of this name, with its zoom. */
export function viewOf(key: string): FigureView {
  const view = views.get(key) ?? new FigureView(key);
  views.set(key, view);
  return view;
}

class FigureView {
  readonly element = h("figure", { class: "drawn" });
  private readonly canvas = h("canvas", { tabindex: 0, role: "img" });
  private readonly place = h("output", { class: "place" });
  private readonly reset = h("button", { type: "button", class: "reset", hidden: true }, "Whole picture");
  private readonly caption = h("figcaption");
  private figure: Figure | undefined;
  private whole: Box = [0, 1, 0, 1];
  private drag: { from: [number, number]; to: [number, number] } | undefined;
  private scales: Scales | undefined;

  constructor(private readonly key: string) {
    this.element.append(this.caption, this.canvas, h("div", { class: "under" }, this.place, this.reset));
    this.reset.addEventListener("click", () => this.zoom(undefined));
    this.canvas.addEventListener("dblclick", () => this.zoom(undefined));
    this.canvas.addEventListener("keydown", (event) => this.press(event));
    this.followPointer();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.canvas.addEventListener("themechange", () => this.draw());
  }

  show(figure: Figure): void {
    this.figure = figure;
    this.whole = wholeOf(figure);
    const isTall = (figure.y.names?.length ?? 0) > 12;
    this.element.classList.toggle("map", figure.isMap === true);
    this.element.classList.toggle("tall", isTall);
    const named = figure.marks.filter((mark) => mark.name !== undefined);
    const keys = named.map((mark) => {
      const swatch = h("i", { class: mark.kind === "points" ? "dot" : mark.kind === "lengths" || mark.kind === "bars" ? "block" : "" });
      if (swatch.className === "block") swatch.style.opacity = String(mark.opacity ?? 1);
      swatch.style.background = `var(--${mark.colour})`;
      return h("span", { class: "key" }, swatch, mark.name ?? "");
    });
    const opened = this.caption.querySelector("details")?.open ?? false;
    const numbers = h("details", {}, h("summary", {}, "Numbers"));
    numbers.addEventListener("toggle", () => {
      if (numbers.open && numbers.childElementCount === 1) numbers.append(tableOf(figure));
    });
    this.caption.replaceChildren(h("h3", {}, figure.title), h("div", { class: "keys" }, ...keys), h("p", { class: "legend" }, figure.text), numbers);
    numbers.open = opened;
    this.canvas.setAttribute("aria-label", `${figure.title}. ${figure.text} Drag to zoom, double click for the whole; keys: + − arrows 0.`);
    this.draw();
  }

  private get box(): Box {
    return zooms.get(this.key) ?? this.whole;
  }

  private zoom(box: Box | undefined): void {
    if (box === undefined) zooms.delete(this.key);
    else if (box[1] > box[0] && box[3] > box[2]) zooms.set(this.key, box);
    this.draw();
  }

  private draw(): void {
    const { figure } = this;
    if (figure === undefined || !this.canvas.isConnected || this.canvas.clientWidth === 0) return;
    const { context, width, height } = fitted(this.canvas);
    this.reset.hidden = !zooms.has(this.key);
    context.font = "11px system-ui, sans-serif";
    const names = figure.y.names ?? [];
    const widest = Math.max(0, ...names.map((name) => context.measureText(name).width));
    const bottom = figure.isMap ? 4 : figure.x.label === "" ? ROOM.bottom - LINE : ROOM.bottom;
    const tall = height - ROOM.top - bottom;
    // The label of the axis has a column of its own, left of the longest number.
    const numbers = Math.max(0, ...yTicks(figure, this.box, tall).map((value, _, all) => context.measureText(tickText(value, all)).width));
    const beside = Math.max(ROOM.left, numbers + 7 + (figure.y.label === "" ? 0 : LINE + 2));
    const left = figure.isMap ? 4 : names.length > 0 ? Math.min(0.45 * width, widest + 10) : beside;
    const inner = { left, top: ROOM.top, width: width - left - ROOM.right, height: tall };
    const box = figure.isMap ? squared(this.box, inner) : this.box;
    const to = (value: number, log: boolean | undefined): number => (log ? Math.log10(value) : value);
    this.scales = {
      ...inner,
      x: (value) => inner.left + ((to(value, figure.x.log) - box[0]) / (box[1] - box[0])) * inner.width,
      y: (value) => inner.top + (1 - (to(value, figure.y.log) - box[2]) / (box[3] - box[2])) * inner.height,
    };
    if (!figure.isMap) drawAxes(context, figure, box, this.scales);
    context.save();
    context.beginPath();
    context.rect(inner.left, inner.top, inner.width, inner.height);
    context.clip();
    for (const mark of figure.marks) drawMark(context, mark, this.scales);
    context.restore();
    context.strokeStyle = colour("line");
    context.strokeRect(inner.left, inner.top, inner.width, inner.height);
    if (this.drag !== undefined) {
      const [x, y, wide, tall] = this.selected();
      context.fillStyle = colour("accent");
      context.globalAlpha = 0.18;
      context.fillRect(x, y, wide, tall);
      context.globalAlpha = 1;
    }
    this.element.dataset.drawn = String(figure.marks.length);
  }

  /** The rectangle of the pointer; one that is flat is taken over the whole of the other axis. */
  private selected(): Box {
    const { from, to } = this.drag!;
    const { left, top, width, height } = this.scales!;
    let [x, y] = [Math.min(from[0], to[0]), Math.min(from[1], to[1])];
    let [wide, tall] = [Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1])];
    if (this.figure?.isMap !== true) {
      if (tall < 12) [y, tall] = [top, height];
      else if (wide < 12) [x, wide] = [left, width];
    }
    return [x, y, wide, tall];
  }

  /** The values at a place of the canvas, as logarithms where the axis has them. */
  private at([x, y]: [number, number]): [number, number] {
    const { left, top, width, height } = this.scales!;
    const box = this.figure?.isMap ? squared(this.box, this.scales!) : this.box;
    return [box[0] + ((x - left) / width) * (box[1] - box[0]), box[2] + (1 - (y - top) / height) * (box[3] - box[2])];
  }

  private followPointer(): void {
    const here = (event: PointerEvent): [number, number] => [event.offsetX, event.offsetY];
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || this.scales === undefined) return;
      this.drag = { from: here(event), to: here(event) };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (this.scales === undefined || this.figure === undefined) return;
      const [x, y] = this.at(here(event));
      const [left, right, bottom, top] = this.box;
      const text = (value: number, axis: Axis, wide: number): string => axis.names?.[-Math.round(value)] ?? (axis.log ? short(10 ** value) : rounded(value, wide / 300));
      const [atX, atY] = [text(x, this.figure.x, right - left), text(y, this.figure.y, top - bottom)];
      this.place.textContent = this.figure.isMap ? "" : `${this.figure.x.label || "x"} ${atX}, ${this.figure.y.label || "y"} ${atY}`;
      if (this.drag === undefined) return;
      this.drag.to = here(event);
      this.draw();
    });
    this.canvas.addEventListener("pointerleave", () => (this.place.textContent = ""));
    this.canvas.addEventListener("pointercancel", () => {
      this.drag = undefined;
      this.draw();
    });
    this.canvas.addEventListener("pointerup", () => {
      if (this.drag === undefined) return;
      const { from, to } = this.drag;
      const isClick = Math.hypot(to[0] - from[0], to[1] - from[1]) < 6;
      const [x, y, wide, tall] = this.selected();
      this.drag = undefined;
      if (isClick) this.draw();
      else {
        const [low, high] = [this.at([x, y + tall]), this.at([x + wide, y])];
        this.zoom([low[0], high[0], low[1], high[1]]);
      }
    });
  }

  private press(event: KeyboardEvent): void {
    const [left, right, bottom, top] = this.box;
    const [wide, tall] = [right - left, top - bottom];
    const around = (factor: number): Box => [left + (factor * wide) / 2, right - (factor * wide) / 2, bottom + (factor * tall) / 2, top - (factor * tall) / 2];
    const moved = (x: number, y: number): Box => [left + x * wide, right + x * wide, bottom + y * tall, top + y * tall];
    const boxes: Record<string, () => Box | undefined> = {
      "+": () => around(0.3),
      "=": () => around(0.3),
      "-": () => around(-0.4),
      "0": () => undefined,
      Escape: () => undefined,
      ArrowLeft: () => moved(-0.2, 0),
      ArrowRight: () => moved(0.2, 0),
      ArrowUp: () => moved(0, 0.2),
      ArrowDown: () => moved(0, -0.2),
    };
    const box = boxes[event.key];
    // The arrows scroll the page until something is zoomed into.
    if (box === undefined || event.ctrlKey || event.metaKey || event.altKey || (event.key.startsWith("Arrow") && !zooms.has(this.key))) return;
    event.preventDefault();
    this.zoom(box());
  }
}

/** The box of all marks, with a margin; in logarithms where an axis has them. */
function wholeOf(figure: Figure): Box {
  const ends = (axis: "x" | "y"): [number, number] => {
    const log = figure[axis].log === true;
    let [low, high] = [Infinity, -Infinity];
    for (const mark of figure.marks) {
      const [a, b] = range(log ? positive(mark, axis) : mark, axis);
      [low, high] = [Math.min(low, a), Math.max(high, b)];
    }
    if (log) [low, high] = [Math.log10(low), Math.log10(high)];
    if (!Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
    const least = (log ? 0.1 : 1e-3 * Math.max(Math.abs(low), Math.abs(high))) || 1;
    if (high - low < least) [low, high] = [(low + high - least) / 2, (low + high + least) / 2];
    const isBare = figure.marks.some((mark) => (mark.kind === "bars" && axis === "y") || (mark.kind === "lengths" && axis === "x"));
    // Points with areas are large: one at the end is within the frame.
    const hasAreas = figure.isMap === true || figure.marks.some((mark) => mark.kind === "points" && mark.size !== undefined);
    const margin = (hasAreas ? 0.1 : axis === "x" ? 0.01 : 0.05) * (high - low);
    if (figure[axis].names !== undefined) return [Math.min(low, 0.4 - figure[axis].names.length), Math.max(high, 0.6)];
    return [isBare && low === 0 ? 0 : low - margin, high + margin];
  };
  return [...ends("x"), ...ends("y")];
}

function positive(mark: Mark, axis: "x" | "y"): Mark {
  const only = (part: Mark["x"]): Mark["x"] => (part === undefined ? undefined : Array.from(part).filter((value) => value > 0));
  const along = (mark.along ?? "y") === axis;
  return { ...mark, [axis]: only(mark[axis]), ...(along ? { low: only(mark.low), high: only(mark.high) } : {}) };
}

/** The box, made larger along one axis so that a unit is as long along both. */
function squared([left, right, bottom, top]: Box, { width, height }: { width: number; height: number }): Box {
  const unit = Math.max((right - left) / width, (top - bottom) / height);
  const [x, y] = [(left + right) / 2, (bottom + top) / 2];
  return [x - (unit * width) / 2, x + (unit * width) / 2, y - (unit * height) / 2, y + (unit * height) / 2];
}

function yTicks(figure: Figure, box: Box, height: number): number[] {
  if (figure.isMap || figure.y.names !== undefined) return [];
  return figure.y.log ? logTicks(box[2], box[3]) : ticks(box[2], box[3], height < 140 ? 3 : 5);
}

function drawAxes(context: CanvasRenderingContext2D, figure: Figure, box: Box, scales: Scales): void {
  const { left, top, width, height } = scales;
  const few = width < 320 ? 3 : 5;
  context.fillStyle = colour("soft");
  context.strokeStyle = colour("line");
  context.lineWidth = 1;
  context.textAlign = "center";
  context.textBaseline = "top";
  const xTicks = figure.x.log ? logTicks(box[0], box[1]) : ticks(box[0], box[1], few);
  for (const value of xTicks) {
    const text = tickText(value, xTicks);
    const most = left + width + ROOM.right - context.measureText(text).width / 2;
    context.fillText(text, Math.min(scales.x(value), most), top + height + 4);
    context.globalAlpha = 0.5;
    context.strokeRect(scales.x(value), top, 0, height);
    context.globalAlpha = 1;
  }
  context.fillText(figure.x.label, left + width / 2, top + height + 19);
  context.textAlign = "right";
  context.textBaseline = "middle";
  if (figure.y.names !== undefined) {
    context.fillStyle = colour("text");
    figure.y.names.forEach((name, k) => {
      const y = scales.y(-k);
      if (y >= top && y <= top + height) context.fillText(name, left - 6, y, left - 8);
    });
    return;
  }
  const yTexts = yTicks(figure, box, height).map((value, _, all) => tickText(value, all));
  for (const [k, value] of yTicks(figure, box, height).entries()) {
    context.fillText(yTexts[k]!, left - 5, scales.y(value));
    context.globalAlpha = 0.5;
    context.strokeRect(left, scales.y(value), width, 0);
    context.globalAlpha = 1;
  }
  context.save();
  context.translate(9, top + height / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  if (context.measureText(figure.y.label).width < height + 16) context.fillText(figure.y.label, 0, 0);
  context.restore();
}

/** The numbers of a figure, of long marks some in equal distances. */
function tableOf(figure: Figure): HTMLElement {
  const [left, right, bottom, top] = wholeOf(figure);
  const text = (value: number, part: "x" | "y" | "low" | "high", along = "y"): string => {
    const axis = part === "low" || part === "high" ? along : part;
    const isLog = axis === "x" ? figure.x.log : figure.y.log;
    return isLog ? short(value) : rounded(value, (axis === "x" ? right - left : top - bottom) / 1000);
  };
  const tables = figure.marks.map((mark) => {
    const parts = (["x", "y", "low", "high"] as const).filter((part) => mark[part] !== undefined);
    const number = Math.max(0, ...parts.map((part) => mark[part]!.length));
    const every = Math.max(1, Math.ceil(number / ROWS));
    const heads = parts.map((part) => (part === "x" ? figure.x.label || "x" : part === "y" ? figure.y.label || "y" : part));
    const rows = [];
    for (let k = 0; k < number; k += every) {
      const cells = parts.map((part) => {
        const value = mark[part]![k];
        return h("td", {}, (part === "y" ? figure.y.names?.[k] : undefined) ?? (value === undefined ? "" : text(value, part, mark.along)));
      });
      rows.push(h("tr", {}, ...(mark.text === undefined ? [] : [h("th", { scope: "row" }, mark.text[k] ?? "")]), ...cells));
    }
    if (mark.kind === "rule") return h("p", {}, `${mark.name ?? "a line"} at ${short(mark.at ?? NaN)}`);
    const head = h("tr", {}, ...(mark.text === undefined ? [] : [h("td")]), ...heads.map((name) => h("th", { scope: "col" }, name)));
    const some = every > 1 ? `, one in ${every} of ${number}` : "";
    return h("table", {}, h("caption", {}, `${mark.name ?? figure.title}${some}`), h("thead", {}, head), h("tbody", {}, ...rows));
  });
  return h("div", { class: "scroll numbers", tabindex: 0, role: "region", "aria-label": `numbers of ${figure.title}` }, ...tables);
}
