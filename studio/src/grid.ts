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
export function levels(grid: Grid, shares: number[]): number[] {
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

/** A line of equal values as pieces between the middles of cells, by marching squares; in units of cells. */
export function contour(grid: Grid, level: number): Path2D {
  const { size, values } = grid;
  const path = new Path2D();
  const at = (i: number, j: number): number => values[i * size + j] ?? 0;
  for (let i = 0; i + 1 < size; i++) {
    for (let j = 0; j + 1 < size; j++) {
      const corners: [number, number, number][] = [
        [i, j, at(i, j)],
        [i + 1, j, at(i + 1, j)],
        [i + 1, j + 1, at(i + 1, j + 1)],
        [i, j + 1, at(i, j + 1)],
      ];
      const crossings: [number, number][] = [];
      for (let k = 0; k < 4; k++) {
        const [x0, y0, a] = corners[k]!;
        const [x1, y1, b] = corners[(k + 1) % 4]!;
        if (a >= level === b >= level) continue;
        const t = (level - a) / (b - a);
        crossings.push([x0 + t * (x1 - x0) + 0.5, y0 + t * (y1 - y0) + 0.5]);
      }
      for (let k = 0; k + 1 < crossings.length; k += 2) {
        path.moveTo(...crossings[k]!);
        path.lineTo(...crossings[k + 1]!);
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
