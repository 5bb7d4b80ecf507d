// Numbers on a grid, x first: images, contours, marginals. Shared by the plot, the heat maps and reports.

import { type Colour, mixed } from "./colours";

export interface Grid {
  size: number;
  values: Float32Array;
}

/** An image with one pixel per cell, y upwards. `shade` gives a colour and how opaque it is. */
export function image(grid: Grid, shade: (value: number) => [Colour, number]): HTMLCanvasElement {
  const { size, values } = grid;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  if (context === null) return canvas;
  const pixels = context.createImageData(size, size);
  for (let i = 0; i < size; i++) {
    for (let j = 0; j < size; j++) {
      const [[red, green, blue], opacity] = shade(values[i * size + j] ?? 0);
      const at = 4 * ((size - 1 - j) * size + i);
      pixels.data[at] = red;
      pixels.data[at + 1] = green;
      pixels.data[at + 2] = blue;
      pixels.data[at + 3] = 255 * opacity;
    }
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

/** From pale to strong, by the square root, so that tails are seen. */
export function sequential(largest: number, low: Colour, high: Colour): (value: number) => [Colour, number] {
  return (value) => [mixed(low, high, Math.sqrt(Math.max(0, value) / (largest || 1))), 1];
}

/** Two colours around zero. */
export function diverging(largest: number, minus: Colour, zero: Colour, plus: Colour): (value: number) => [Colour, number] {
  return (value) => {
    const share = Math.sqrt(Math.abs(value) / (largest || 1));
    return [mixed(zero, value < 0 ? minus : plus, share), 1];
  };
}

/** The levels above which there are these shares of the whole. */
function levels(grid: Grid, shares: number[]): number[] {
  const sorted = Float32Array.from(grid.values).sort().reverse();
  const total = sorted.reduce((a, b) => a + b, 0);
  return shares.map((share) => {
    let sum = 0;
    for (const value of sorted) {
      sum += value;
      if (sum >= share * total) return value;
    }
    return 0;
  });
}

// Points of a contour's grid per cell and side.
const FINER = 4;

/** Lines around these shares of the whole, in units of cells, smooth where the grid is coarse. */
export function contours(grid: Grid, shares: number[]): Path2D[] {
  const smooth = refined(grid);
  return levels(grid, shares).map((level) => contour(smooth, Math.log(level)));
}

/** Logarithms between the middles of cells, by cubics: those of a density are nearly parabolas. */
function refined(grid: Grid): Grid {
  const { size, values } = grid;
  const least = values.reduce((a, b) => Math.max(a, b), 0) * 1e-30;
  const finer = FINER * (size - 1) + 1;
  const logs = values.map((value) => Math.log(Math.max(value, least)));
  const rows = new Float32Array(size * finer);
  const result = new Float32Array(finer * finer);
  for (let i = 0; i < size; i++) {
    for (let j = 0; j < finer; j++) rows[i * finer + j] = cubic(logs, i * size, 1, size, j / FINER);
  }
  for (let j = 0; j < finer; j++) {
    for (let i = 0; i < finer; i++) result[i * finer + j] = cubic(rows, j, finer, size, i / FINER);
  }
  return { size: finer, values: result };
}

/** Catmull and Rom's cubic through values that are `step` apart in an array, at a place between them. */
function cubic(values: Float32Array, start: number, step: number, length: number, place: number): number {
  const k = Math.min(length - 2, Math.floor(place));
  const t = place - k;
  const at = (i: number): number => values[start + step * Math.max(0, Math.min(length - 1, i))]!;
  const [a, b, c, d] = [at(k - 1), at(k), at(k + 1), at(k + 2)];
  return b + (t / 2) * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}

/** A line of equal values as pieces between points, by marching squares; in units of the cells refined. */
function contour(grid: Grid, level: number): Path2D {
  const { size, values } = grid;
  const path = new Path2D();
  for (let i = 0; i + 1 < size; i++) {
    for (let j = 0; j + 1 < size; j++) {
      const k = i * size + j;
      const corners = [values[k]!, values[k + size]!, values[k + size + 1]!, values[k + 1]!] as const;
      if (corners.every((value) => value >= level) || corners.every((value) => value < level)) continue;
      const [x, y] = [[i, i + 1, i + 1, i], [j, j, j + 1, j + 1]] as const;
      const crossings: [number, number][] = [];
      for (let m = 0; m < 4; m++) {
        const n = (m + 1) % 4;
        const [from, to] = [corners[m]!, corners[n]!];
        if (from >= level === to >= level) continue;
        const t = (level - from) / (to - from);
        crossings.push([(x[m]! + t * (x[n]! - x[m]!)) / FINER + 0.5, (y[m]! + t * (y[n]! - y[m]!)) / FINER + 0.5]);
      }
      for (let m = 0; m + 1 < crossings.length; m += 2) {
        path.moveTo(...crossings[m]!);
        path.lineTo(...crossings[m + 1]!);
      }
    }
  }
  return path;
}

/** Sums over the other coordinate. */
export function marginals(grid: Grid): [Float32Array, Float32Array] {
  const { size, values } = grid;
  const x = new Float32Array(size);
  const y = new Float32Array(size);
  for (let i = 0; i < size; i++) {
    for (let j = 0; j < size; j++) {
      const value = values[i * size + j] ?? 0;
      x[i] = (x[i] ?? 0) + value;
      y[j] = (y[j] ?? 0) + value;
    }
  }
  return [x, y];
}
