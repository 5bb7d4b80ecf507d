// Small line charts of a number over the steps of a run.

import { ends, tickText } from "./axes";
import { colour, fitted } from "./colours";
import { short } from "./dom";

export interface Line {
  name: string;
  colour: string;
  values: (number | null)[];
  dashed?: boolean;
}

/** Lines over a common scale, with two of its numbers at the left and the last values at the right. */
export function chart(canvas: HTMLCanvasElement, title: string, lines: Line[], logarithmic: boolean): void {
  const { context, width, height } = fitted(canvas);
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = colour("soft");
  context.textBaseline = "top";
  context.fillText(title, 0, 0);
  const scaled = (value: number): number => (logarithmic ? Math.log10(Math.max(value, 1e-6)) : value);
  const all = lines.flatMap((line) => line.values).filter((v): v is number => v !== null && Number.isFinite(v));
  if (all.length === 0) return;
  let low = Math.min(...all.map(scaled));
  let high = Math.max(...all.map(scaled));
  const least = logarithmic ? 0.5 : 0.1 * Math.abs(high) + 1e-9;
  if (high - low < least) [low, high] = [(low + high - least) / 2, (low + high + least) / 2];
  const labels = lines.map((line) => {
    const last = line.values.at(-1);
    return last === null || last === undefined ? "" : `${line.name} ${short(last)}`;
  });
  // Two round numbers, which say the scale.
  const marks = ends(low, high, logarithmic);
  const left = Math.max(28, ...marks.map((value) => context.measureText(tickText(value)).width + 6));
  // As wide as the longest label, and no narrower where it is short: lines would jump from frame to frame.
  const right = Math.max(84, ...labels.map((label) => context.measureText(label).width + 8));
  const room = { top: 18, bottom: 6, right, left };
  const x = (k: number, n: number): number => room.left + (n < 2 ? 0 : (k / (n - 1)) * (width - room.left - room.right));
  const y = (value: number): number =>
    room.top + (1 - (scaled(value) - low) / (high - low)) * (height - room.top - room.bottom);
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const value of marks) {
    // Within the chart: a number at its end is not cut off.
    context.fillText(tickText(value), room.left - 6, Math.min(y(value), height - 6));
    context.fillRect(room.left - 4, y(value), 4, 1);
  }
  context.textAlign = "left";
  const lasts: [number, string, string][] = [];
  lines.forEach((line, index) => {
    context.strokeStyle = colour(line.colour);
    context.setLineDash(line.dashed === true ? [4, 3] : []);
    context.lineWidth = 1.5;
    context.beginPath();
    line.values.forEach((value, k) => {
      if (value !== null) context.lineTo(x(k, line.values.length), y(value));
    });
    context.stroke();
    context.setLineDash([]);
    const last = line.values.at(-1);
    if (last !== null && last !== undefined) lasts.push([y(last), labels[index]!, line.colour]);
  });
  // Last values, below the title and pushed apart where their lines end close to each other.
  lasts.sort((a, b) => a[0] - b[0]);
  let place = room.top - 6;
  context.textBaseline = "middle";
  lasts.forEach(([wanted, text, name], k) => {
    place = Math.max(place + 12, Math.min(wanted, height - 6 - 12 * (lasts.length - 1 - k)));
    context.fillStyle = colour(name);
    context.fillText(text, width - room.right + 4, place);
  });
}
