// A heat map with its scale: the residual, and the Q behind a drift.

import { components, fitted } from "./colours";
import { h, short } from "./dom";
import { diverging, image, sequential } from "./grid";

/** A picture of numbers on a box, with a line that says what the colours mean. */
export function heatMap(
  values: Float32Array,
  size: number,
  box: number[],
  largest: number,
  what: string,
  isSigned: boolean,
): HTMLElement {
  const canvas = h("canvas", { class: "heat", role: "img", "aria-label": `${what}, at most ${short(largest)}` });
  const draw = (): void => {
    const { context, width, height } = fitted(canvas);
    const low = components("heat-low");
    const high = components(isSigned ? "heat-high" : "heat-minus");
    const shade = isSigned
      ? diverging(largest, components("heat-minus"), low, high)
      : sequential(largest, low, high);
    context.imageSmoothingEnabled = false;
    context.drawImage(image({ size, values }, shade), 0, 0, width, height);
  };
  requestAnimationFrame(draw);
  document.addEventListener("themechange", draw);
  const [left, right, bottom, top] = box;
  const range = `x from ${short(left ?? 0)} to ${short(right ?? 0)}, y from ${short(bottom ?? 0)} to ${short(top ?? 0)}`;
  return h("figure", { class: "field" }, canvas, h("figcaption", { class: "legend" }, `${what}: at most ${short(largest)}; ${range}.`));
}
