// Colours of the style sheet, as canvases need them.

export type Colour = [number, number, number];

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** A colour such as #14698c as three numbers. */
export function components(name: string): Colour {
  const value = parseInt(colour(name).slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

export function mixed(from: Colour, to: Colour, share: number): Colour {
  const t = Math.max(0, Math.min(1, share));
  return [from[0] + (to[0] - from[0]) * t, from[1] + (to[1] - from[1]) * t, from[2] + (to[2] - from[2]) * t];
}

/** A canvas as large as it is shown, in pixels of the screen; the context is scaled to CSS pixels. */
export function fitted(canvas: HTMLCanvasElement): { context: CanvasRenderingContext2D; width: number; height: number } {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.max(1, canvas.clientWidth);
  const height = Math.max(1, canvas.clientHeight);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  if (context === null) throw new Error("this browser has no canvas");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}
