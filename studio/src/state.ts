// What the page is about, and its form in the address: a link restores all of it.

export interface Sampler {
  kind: "named" | "parts" | "typed" | "drift";
  name?: string;
  dynamics?: string;
  integrator?: string;
  correction?: string;
  size?: number;
  H?: string;
  D?: string[][];
  Q?: string[][];
  drift?: string[];
}

export interface Settings {
  step_size: number;
  friction: number;
  temperature: number;
  noise: number;
  batch: number;
  leaps: number;
}

export type View = "cloud" | "density" | "difference" | "trajectory";

export interface Panel {
  /** What a story calls it, until it is changed. */
  title?: string;
  /** What is shown, and whether the recipe is. */
  view?: View;
  recipe?: boolean;
  sampler: Sampler;
  metric: string;
  gamma: number;
  drag: number;
  metropolis: boolean;
  settings: Settings;
}

export interface Target {
  name?: string;
  formula?: string;
  /** Where chains of a typed formula start, and the standard deviation around it; older links have none. */
  x?: number;
  y?: number;
  spread?: number;
}

/** What the server takes where a typed target does not say. */
export const START = { x: 0, y: 0, spread: 1 };

export interface Run {
  seed: number;
  chains: number;
  steps: number;
  burn_in: number;
}

export interface State {
  target: Target;
  run: Run;
  panels: Panel[];
  theme?: string;
}

export interface Design extends Panel {
  target: Target;
  run: Run;
}

export interface Catalogue {
  targets: Record<string, { title: string; formula: string }>;
  samplers: Record<
    string,
    { title: string; uses: string[]; alterable: boolean; batches: boolean; exact: boolean }
  >;
  dynamics: string[];
  integrators: string[];
  corrections: string[];
  functions: string[];
  stories: { title: string; text: string; designs: Partial<Design>[] }[];
  limits: { runs: number; chains: number; steps: number };
}

export const LETTERS = ["x", "y", "p", "q", "s"];

export function newPanel(part: Partial<Panel> = {}): Panel {
  const settings = { step_size: 0.05, friction: 1, temperature: 1, noise: 0, batch: 1, leaps: 10 };
  return {
    sampler: { kind: "named", name: "sghmc" },
    metric: "0.25 + x^2",
    gamma: 1,
    drag: 1,
    metropolis: false,
    ...part,
    settings: { ...settings, ...part.settings },
  };
}

/** The sampler and the mistakes made on purpose. */
export function panelName(panel: Panel): string {
  const { title, sampler, gamma, drag, metropolis } = panel;
  if (title !== undefined) return title;
  const name = sampler.kind === "named" ? (sampler.name ?? "") : { parts: "parts", typed: "D, Q, H", drift: "drift" }[sampler.kind];
  const mistakes = [
    { "0": "Γ dropped", "-1": "Γ subtracted" }[String(gamma)],
    { "0": "friction forgotten", "2": "friction doubled" }[String(drag)],
    metropolis ? "corrected" : undefined,
  ];
  return [name, ...mistakes.filter((word) => word !== undefined)].join(", ");
}

export function newState(): State {
  return {
    target: { name: "valley" },
    run: { seed: 0, chains: 200, steps: 20, burn_in: 200 },
    panels: [newPanel()],
  };
}

export function designOf(state: State, panel: Panel): Design {
  return { ...panel, target: state.target, run: state.run };
}

/** Underdamped dynamics as typed matrices, to start from. */
export function typedSampler(kind: "typed" | "drift", size: number): Sampler {
  const zeros = (): string[][] => Array.from({ length: size }, () => Array<string>(size).fill("0"));
  const D = zeros();
  const Q = zeros();
  const set = (matrix: string[][], i: number, j: number, text: string): void => {
    const row = matrix[i];
    if (row !== undefined && j < size) row[j] = text;
  };
  if (size === 2) for (const i of [0, 1]) set(D, i, i, "1");
  for (const i of [0, 1]) {
    set(D, i + 2, i + 2, "1");
    set(Q, i + 2, i, "1");
    if (size > 2) set(Q, i, i + 2, "-1");
    if (size === 5) {
      const p = LETTERS[i + 2] ?? "p";
      set(Q, i + 2, 4, `${p}/2`);
      set(Q, 4, i + 2, `-${p}/2`);
    }
  }
  const H = { 2: "U", 4: "U + (p^2 + q^2)/2", 5: "U + (p^2 + q^2)/2 + (s - 1)^2" }[size] ?? "U";
  if (kind === "typed") return { kind, size, H, D, Q };
  const drift = {
    2: ["-Ux", "-Uy"],
    4: ["p", "q", "-Ux - p", "-Uy - q"],
    5: ["p", "q", "-Ux - s*p", "-Uy - s*q", "(p^2 + q^2)/2 - 1"],
  }[size];
  return { kind, size, H, D, drift };
}

export function toHash(state: State): string {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The state of a link; the usual one where it cannot be read. */
export function fromHash(hash: string): State {
  const start = newState();
  if (hash.length < 2) return start;
  try {
    const text = atob(hash.slice(1).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    const read = JSON.parse(new TextDecoder().decode(bytes)) as Partial<State>;
    const panels = (read.panels ?? start.panels).slice(0, 4).map((panel) => newPanel(panel));
    return {
      target: read.target ?? start.target,
      run: { ...start.run, ...read.run },
      panels: panels.length > 0 ? panels : start.panels,
      ...(read.theme === undefined ? {} : { theme: read.theme }),
    };
  } catch {
    return start;
  }
}
