// The picture of a run: the truth as contours, the draws as a cloud or a density, marginals on two sides.

import { ticks } from "./axes";
import { colour, components, fitted } from "./colours";
import { drawTrajectory, type Trajectory } from "./trajectory";
import { contours, diverging, type Grid, image, marginals, sequential } from "./grid";
import type { View } from "./state";

const MARGIN = 54;
const LABELS = 26;
// Shares of the target within the contours.
const SHARES = [0.3, 0.6, 0.9, 0.99];

/** Left, right, bottom and top. */
export type Box = [number, number, number, number];

export interface Drawn {
  box: Box;
  truth: Grid;
  histogram?: Grid;
  cloud?: Float32Array;
  /** Places of the first chain, in the order of its steps. */
  path: number[];
  /** The first step of the first chain in the latest frame, where it was asked for. */
  trajectory?: Trajectory;
}

/** Draw everything; at most a few milliseconds with 10,000 points. */
export function draw(canvas: HTMLCanvasElement, drawn: Drawn, view: View): void {
  const { context, width, height } = fitted(canvas);
  const [left, right, bottom, top] = drawn.box;
  const inner = { x: LABELS, y: MARGIN, width: width - LABELS - MARGIN, height: height - LABELS - MARGIN };
  const toX = (x: number): number => inner.x + ((x - left) / (right - left)) * inner.width;
  const toY = (y: number): number => inner.y + (1 - (y - bottom) / (top - bottom)) * inner.height;

  // Pictures and videos that are saved have no page behind them.
  context.fillStyle = colour("card");
  context.fillRect(0, 0, width, height);
  context.save();
  context.beginPath();
  context.rect(inner.x, inner.y, inner.width, inner.height);
  context.clip();
  drawImage(context, drawn, view, inner);
  drawContours(context, drawn.truth, inner);
  if (view === "cloud") {
    drawPath(context, drawn.path, toX, toY);
    if (drawn.cloud) drawCloud(context, drawn.cloud, toX, toY);
  }
  if (view === "trajectory" && drawn.trajectory) drawTrajectory(context, drawn.trajectory, toX, toY);
  context.restore();

  context.strokeStyle = colour("line");
  context.lineWidth = 1;
  context.strokeRect(inner.x, inner.y, inner.width, inner.height);
  drawAxes(context, drawn.box, inner, toX, toY);
  drawMarginals(context, drawn, inner);
  if (view === "cloud" && drawn.cloud) drawOutside(context, drawn.cloud, drawn.box, inner);
}

export interface Area {
  x: number;
  y: number;
  width: number;
  height: number;
}

function drawImage(context: CanvasRenderingContext2D, drawn: Drawn, view: View, inner: Area): void {
  const { truth, histogram } = drawn;
  const low = components("card");
  const largest = truth.values.reduce((a, b) => Math.max(a, b), 0);
  let picture: HTMLCanvasElement;
  if (view === "cloud" || view === "trajectory" || histogram === undefined) {
    picture = paleTruth(truth, largest);
  } else if (view === "difference") {
    const values = histogram.values.map((value, k) => value - (truth.values[k] ?? 0));
    const shade = diverging(largest, components("heat-minus"), low, components("heat-high"));
    picture = image({ size: truth.size, values }, shade);
  } else {
    picture = image(histogram, sequential(largest, low, components("heat-high")));
  }
  context.imageSmoothingEnabled = view === "cloud" || view === "trajectory";
  context.drawImage(picture, inner.x, inner.y, inner.width, inner.height);
}

// Contours and the pale picture of a truth, which stay the same from frame to frame.
const lines = new WeakMap<Grid, Path2D[]>();
const pictures = new WeakMap<Grid, { theme: string | undefined; picture: HTMLCanvasElement }>();

function contoursOf(truth: Grid): Path2D[] {
  const known = lines.get(truth) ?? contours(truth, SHARES);
  lines.set(truth, known);
  return known;
}

function paleTruth(truth: Grid, largest: number): HTMLCanvasElement {
  const { theme } = document.documentElement.dataset;
  const known = pictures.get(truth);
  if (known !== undefined && known.theme === theme) return known.picture;
  const picture = image(truth, sequential(largest, components("card"), components("line")));
  pictures.set(truth, { theme, picture });
  return picture;
}

function drawContours(context: CanvasRenderingContext2D, truth: Grid, inner: Area): void {
  context.strokeStyle = colour("truth");
  context.globalAlpha = 0.55;
  for (const line of contoursOf(truth)) {
    const placed = new Path2D();
    const scale = new DOMMatrix([
      inner.width / truth.size, 0, 0, -inner.height / truth.size, inner.x, inner.y + inner.height,
    ]);
    placed.addPath(line, scale);
    context.lineWidth = 1;
    context.stroke(placed);
  }
  context.globalAlpha = 1;
}

type Place = (value: number) => number;

function drawPath(context: CanvasRenderingContext2D, path: number[], toX: Place, toY: Place): void {
  if (path.length < 4) return;
  context.strokeStyle = colour("path");
  context.lineWidth = 1.2;
  context.beginPath();
  for (let k = 0; k + 1 < path.length; k += 2) context.lineTo(toX(path[k]!), toY(path[k + 1]!));
  context.stroke();
}

function drawCloud(context: CanvasRenderingContext2D, cloud: Float32Array, toX: Place, toY: Place): void {
  const size = cloud.length > 4_000 ? 1.5 : cloud.length > 1_000 ? 2.2 : 3;
  context.fillStyle = colour("cloud");
  context.globalAlpha = 0.8;
  for (let k = 0; k + 1 < cloud.length; k += 2) {
    context.fillRect(toX(cloud[k]!) - size / 2, toY(cloud[k + 1]!) - size / 2, size, size);
  }
  context.globalAlpha = 1;
}

/** How many points are not in the picture, where they are more than a few. */
function drawOutside(context: CanvasRenderingContext2D, cloud: Float32Array, box: Drawn["box"], inner: Area): void {
  let inside = 0;
  for (let k = 0; k + 1 < cloud.length; k += 2) {
    const [x, y] = [cloud[k]!, cloud[k + 1]!];
    if (x >= box[0] && x <= box[1] && y >= box[2] && y <= box[3]) inside += 1;
  }
  const all = cloud.length / 2;
  if (all - inside <= 0.02 * all) return;
  context.fillStyle = colour("path");
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "left";
  context.textBaseline = "bottom";
  // In a narrow picture in fewer words, and never wider than it.
  const count = `${all - inside} of ${all}`;
  const wide = inner.width - 12;
  const text = [`${count} chains are outside of the picture`, `${count} chains are outside`].find((words) => context.measureText(words).width <= wide);
  context.fillText(text ?? `${count} outside`, inner.x + 6, inner.y + inner.height - 5, wide);
}

export function drawAxes(
  context: CanvasRenderingContext2D,
  box: Drawn["box"],
  inner: Area,
  toX: Place,
  toY: Place,
): void {
  context.fillStyle = colour("soft");
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const value of ticks(box[0], box[1])) context.fillText(minus(value), toX(value), inner.y + inner.height + 4);
  context.fillText("x", inner.x + inner.width + 10, inner.y + inner.height + 4);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const value of ticks(box[2], box[3])) context.fillText(minus(value), inner.x - 4, toY(value));
  context.fillText("y", inner.x - 4, inner.y - 8);
}

function minus(value: number): string {
  return String(value).replace("-", "−");
}

/** Bars for the draws and a line for the truth, above and to the right. */
function drawMarginals(context: CanvasRenderingContext2D, drawn: Drawn, inner: Area): void {
  const truths = marginals(drawn.truth);
  const draws = drawn.histogram === undefined ? undefined : marginals(drawn.histogram);
  const size = drawn.truth.size;
  for (const axis of [0, 1] as const) {
    const truth = truths[axis];
    const bars = draws?.[axis];
    const peak = truth.reduce((a, b) => Math.max(a, b), 1e-9);
    // The bars fit too, unless all chains are still near one place.
    const largest = Math.min(4 * peak, Math.max(1.25 * peak, ...(bars ?? [])));
    const tall = (value: number): number => Math.min(1, value / largest) * (MARGIN - 8);
    const along = (axis === 0 ? inner.width : inner.height) / size;
    context.fillStyle = colour("cloud");
    context.globalAlpha = 0.5;
    bars?.forEach((value, k) => {
      const t = tall(value);
      if (axis === 0) context.fillRect(inner.x + k * along, inner.y - 4 - t, along, t);
      else context.fillRect(inner.x + inner.width + 4, inner.y + inner.height - (k + 1) * along, t, along);
    });
    context.globalAlpha = 1;
    context.strokeStyle = colour("truth");
    context.lineWidth = 1.3;
    context.beginPath();
    truth.forEach((value, k) => {
      const t = tall(value);
      const middle = (k + 0.5) * along;
      if (axis === 0) context.lineTo(inner.x + middle, inner.y - 4 - t);
      else context.lineTo(inner.x + inner.width + 4 + t, inner.y + inner.height - middle);
    });
    context.stroke();
  }
}
