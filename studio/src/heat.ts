// A heat map with axes and its scale: the residual, and the Q behind a drift.

import { colour, components, fitted } from "./colours";
import { h, short } from "./dom";
import { diverging, image, sequential } from "./grid";
import { type Area, type Box, drawAxes } from "./plot";

const LABELS = 30;
const SCALE = 58;
// Differences below this share of the terms that they are of are rounding.
const ROUNDING = 1e-9;

/** A picture of numbers on a box; in words alone where all are zero. */
export function heatMap(
  values: Float32Array,
  size: number,
  box: Box,
  largest: number,
  typical: number,
  what: string,
  isSigned: boolean,
): HTMLElement {
  if (largest <= ROUNDING * typical) return h("figure", { class: "field" }, h("figcaption", {}, `${what}: zero everywhere, up to rounding.`));
  const canvas = h("canvas", { class: "heat", role: "img", "aria-label": `${what}, at most ${short(largest)}` });
  const draw = (): void => {
    const { context, width, height } = fitted(canvas);
    const inner: Area = { x: LABELS, y: 16, width: width - LABELS - SCALE, height: height - 16 - LABELS };
    const [left, right, bottom, top] = box;
    const low = components("heat-low");
    const high = components(isSigned ? "heat-high" : "heat-minus");
    const shade = isSigned ? diverging(largest, components("heat-minus"), low, high) : sequential(largest, low, high);
    context.imageSmoothingEnabled = false;
    context.drawImage(image({ size, values }, shade), inner.x, inner.y, inner.width, inner.height);
    context.strokeStyle = colour("line");
    context.strokeRect(inner.x, inner.y, inner.width, inner.height);
    const toX = (x: number): number => inner.x + ((x - left) / (right - left)) * inner.width;
    const toY = (y: number): number => inner.y + (1 - (y - bottom) / (top - bottom)) * inner.height;
    drawAxes(context, box, inner, toX, toY);
    // The scale: what is lowest is below.
    const [from, x] = [isSigned ? -largest : 0, inner.x + inner.width + 14];
    for (let k = 0; k < inner.height; k++) {
      const [[red, green, blue]] = shade(from + (largest - from) * (1 - k / inner.height));
      context.fillStyle = `rgb(${red}, ${green}, ${blue})`;
      context.fillRect(x, inner.y + k, 10, 1.5);
    }
    context.strokeRect(x, inner.y, 10, inner.height);
    context.fillStyle = colour("soft");
    context.textAlign = "left";
    for (const value of isSigned ? [from, 0, largest] : [0, largest]) {
      context.fillText(short(value).replace("-", "−"), x + 13, inner.y + inner.height * (1 - (value - from) / (largest - from)));
    }
  };
  new ResizeObserver(draw).observe(canvas);
  canvas.addEventListener("themechange", draw);
  return h("figure", { class: "field" }, canvas, h("figcaption", { class: "legend" }, `${what}: at most ${short(largest)}.`));
}
