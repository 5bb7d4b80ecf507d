// What a figure is made of, and how each mark is drawn.

import { colour } from "../colours";

export type Numbers = ArrayLike<number>;

/** A mark in the units of the axes; which arrays it has depends on its kind. */
export interface Mark {
  kind: "line" | "points" | "bars" | "stairs" | "lengths" | "intervals" | "rule";
  name?: string;
  colour: string;
  /** Places; of bars and stairs the edges, one more than heights. */
  x?: Numbers;
  y?: Numbers;
  /** Ends of intervals, along x where `along` is x. */
  low?: Numbers;
  high?: Numbers;
  along?: "x" | "y";
  /** Where a rule is, along its axis. */
  at?: number;
  /** Areas of points relative to each other, and texts beside them. */
  size?: Numbers;
  text?: string[];
  dashed?: boolean;
  opacity?: number;
  width?: number;
}

export interface Scales {
  x: (value: number) => number;
  y: (value: number) => number;
  /** The inner area, in CSS pixels. */
  left: number;
  top: number;
  width: number;
  height: number;
}

/** The least and largest values of a mark along an axis. */
export function range(mark: Mark, axis: "x" | "y"): [number, number] {
  const along = mark.along ?? "y";
  const parts: Numbers[] = [];
  if (mark.kind === "rule") return mark.along === axis && mark.at !== undefined ? [mark.at, mark.at] : [Infinity, -Infinity];
  const own = axis === "x" ? mark.x : mark.y;
  if (own !== undefined) parts.push(own);
  if (along === axis) for (const end of [mark.low, mark.high]) if (end !== undefined) parts.push(end);
  if (mark.kind === "bars" && axis === "y") parts.push([0]);
  if (mark.kind === "lengths") parts.push(axis === "x" ? [0] : [0.4 - (mark.y?.length ?? 1), 0.6]);
  let [low, high] = [Infinity, -Infinity];
  for (const part of parts) {
    for (let k = 0; k < part.length; k++) {
      const value = part[k]!;
      if (Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
    }
  }
  return [low, high];
}

export function drawMark(context: CanvasRenderingContext2D, mark: Mark, scales: Scales): void {
  context.save();
  context.strokeStyle = context.fillStyle = colour(mark.colour);
  context.globalAlpha = mark.opacity ?? 1;
  context.lineWidth = mark.width ?? 1.4;
  context.lineJoin = "round";
  if (mark.dashed === true) context.setLineDash([5, 4]);
  DRAW[mark.kind](context, mark, scales);
  context.restore();
}

type Draw = (context: CanvasRenderingContext2D, mark: Mark, scales: Scales) => void;

const DRAW: Record<Mark["kind"], Draw> = {
  line: (context, { x, y }, scales) => {
    context.beginPath();
    let isDown = false;
    for (let k = 0; k < (y?.length ?? 0); k++) {
      const [px, py] = [scales.x(x?.[k] ?? k), scales.y(y![k]!)];
      if (!Number.isFinite(px) || !Number.isFinite(py)) isDown = false;
      else if (isDown) context.lineTo(px, py);
      else {
        context.moveTo(px, py);
        isDown = true;
      }
    }
    context.stroke();
  },
  points: (context, mark, scales) => {
    const { x, y, size, text } = mark;
    const number = y?.length ?? 0;
    for (let k = 0; k < number; k++) {
      const [px, py] = [scales.x(x?.[k] ?? k), scales.y(y![k]!)];
      context.beginPath();
      context.arc(px, py, radiusOf(mark, k, scales), 0, 2 * Math.PI);
      context.fill();
      if (size !== undefined) {
        context.globalAlpha = 1;
        context.stroke();
        context.globalAlpha = mark.opacity ?? 1;
      }
    }
    if (text !== undefined) drawTexts(context, mark, scales);
  },
  bars: (context, { x, y }, scales) => {
    for (let k = 0; k < (y?.length ?? 0); k++) {
      const [left, right] = [scales.x(x?.[k] ?? k), scales.x(x?.[k + 1] ?? k + 1)];
      const top = scales.y(y![k]!);
      context.fillRect(left, top, Math.max(0.5, right - left - 0.5), scales.y(0) - top);
    }
  },
  stairs: (context, { x, y }, scales) => {
    context.beginPath();
    for (let k = 0; k < (y?.length ?? 0); k++) {
      const height = scales.y(y![k]!);
      context.lineTo(scales.x(x?.[k] ?? k), height);
      context.lineTo(scales.x(x?.[k + 1] ?? k + 1), height);
    }
    context.stroke();
  },
  lengths: (context, { x, y }, scales) => {
    const tall = Math.abs(scales.y(1) - scales.y(0)) * 0.66;
    for (let k = 0; k < (y?.length ?? 0); k++) {
      context.fillRect(scales.x(0), scales.y(y![k]!) - tall / 2, scales.x(x?.[k] ?? 0) - scales.x(0), tall);
    }
  },
  intervals: (context, { x, y, low, high, along }, scales) => {
    context.beginPath();
    for (let k = 0; k < (low?.length ?? 0); k++) {
      if (along === "x") {
        const place = scales.y(y?.[k] ?? k);
        context.moveTo(scales.x(low![k]!), place);
        context.lineTo(scales.x(high![k]!), place);
      } else {
        const place = scales.x(x?.[k] ?? k);
        context.moveTo(place, scales.y(low![k]!));
        context.lineTo(place, scales.y(high![k]!));
      }
    }
    context.stroke();
  },
  rule: (context, { at, along }, { x, y, left, top, width, height }) => {
    context.beginPath();
    if (along === "x") {
      context.moveTo(x(at ?? 0), top);
      context.lineTo(x(at ?? 0), top + height);
    } else {
      context.moveTo(left, y(at ?? 0));
      context.lineTo(left + width, y(at ?? 0));
    }
    context.stroke();
  },
};

/** Texts beside points, those of larger points first, where no circle or other text is: zooming in shows more. */
function drawTexts(context: CanvasRenderingContext2D, mark: Mark, scales: Scales): void {
  const { x, y, size, text } = mark;
  const order = [...(text ?? []).keys()].sort((a, b) => (size?.[b] ?? 0) - (size?.[a] ?? 0));
  const circles = order.map((k) => [scales.x(x?.[k] ?? k), scales.y(y![k]!), radiusOf(mark, k, scales)] as const);
  const taken: [number, number, number][] = [];
  const [right, bottom] = [scales.left + scales.width, scales.top + scales.height];
  context.globalAlpha = 1;
  context.fillStyle = colour("text");
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  order.forEach((k, number) => {
    const words = text![k]!;
    const wide = context.measureText(words).width;
    const [px, py, radius] = circles[number]!;
    const away = radius + 4;
    const places: [number, number][] = [[px + away, py], [px - away - wide, py], [px - wide / 2, py - away - 5], [px - wide / 2, py + away + 5]];
    const isFree = ([a, b]: [number, number]): boolean =>
      a >= scales.left && a + wide <= right && b >= scales.top + 5 && b <= bottom - 5 &&
      !taken.some(([c, d, w]) => Math.abs(b - d) < 12 && a < c + w + 4 && c < a + wide + 4) &&
      !circles.some(([cx, cy, r]) => Math.hypot(cx - Math.max(a, Math.min(cx, a + wide)), cy - Math.max(b - 5, Math.min(cy, b + 5))) < r);
    const place = places.find(isFree);
    if (place === undefined) return;
    taken.push([...place, wide]);
    context.fillText(words, ...place);
  });
}

function radiusOf({ size, width, y }: Mark, k: number, scales: Scales): number {
  const number = y?.length ?? 0;
  const plain = number > 2_000 ? 1.1 : number > 300 ? 1.6 : 2.6;
  return size === undefined ? (width ?? plain) : Math.sqrt(size[k] ?? 0) * 0.06 * Math.min(scales.width, scales.height) + 2;
}
