// The settings of one sampler: what it is, mistakes made on purpose, sliders, and typed formulas.

import { field, formulaField, h, menu, short } from "./dom";
import { type Catalogue, LETTERS, type Panel, type Sampler, typedSampler } from "./state";

type Changed = () => void;

function options(names: string[]): [string, string][] {
  return names.map((name) => [name, name]);
}

/** A cell of a matrix, as wide as its text. */
function cellInput(text: string, label: string, change: (text: string) => void): HTMLInputElement {
  const input = h("input", { type: "text", spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": label });
  setCell(input, text);
  input.addEventListener("change", () => {
    setCell(input, input.value);
    change(input.value);
  });
  return input;
}

function setCell(input: HTMLInputElement, text: string): void {
  input.value = text;
  input.size = Math.max(3, text.length);
}

/** A slider over powers of ten where `isLogarithmic`. */
export function slider(
  label: string,
  part: string,
  value: number,
  range: [number, number],
  isLogarithmic: boolean,
  isWhole: boolean,
  change: (value: number) => void,
): HTMLElement {
  const [low, high] = range;
  const from = (position: number): number => {
    const raw = isLogarithmic ? low * (high / low) ** position : low + (high - low) * position;
    return isWhole ? Math.round(raw) : Number(raw.toPrecision(3));
  };
  const to = (number: number): number =>
    isLogarithmic ? Math.log(Math.max(number, low) / low) / Math.log(high / low) : (number - low) / (high - low);
  const shown = h("span", { class: "value" }, short(value));
  const input = h("input", { type: "range", min: 0, max: 1, step: 0.001, value: to(value) });
  input.setAttribute("aria-valuetext", short(value));
  input.addEventListener("input", () => {
    const next = from(Number(input.value));
    shown.textContent = short(next);
    input.setAttribute("aria-valuetext", short(next));
    change(next);
  });
  return field(label, input, part, shown);
}

/** The form of one panel; `changed` is called after every change, `rebuild` where other fields are needed. */
export function controls(panel: Panel, catalogue: Catalogue, changed: Changed, rebuild: Changed): HTMLElement {
  const { sampler } = panel;
  const kinds: [string, string][] = [
    ["named", "by name"],
    ["parts", "dynamics × integrator × correction"],
    ["typed", "D, Q and H, typed in"],
    ["drift", "drift, D and H, typed in"],
  ];
  const form = h("div", { class: "controls" });
  form.append(
    field(
      "Sampler",
      menu(kinds, sampler.kind, (kind) => {
        panel.sampler = newSampler(kind as Sampler["kind"], catalogue);
        rebuild();
      }),
    ),
  );
  if (sampler.kind === "named") {
    const named = Object.entries(catalogue.samplers).map(([key, row]): [string, string] => [key, `${key}: ${row.title}`]);
    const chosen = menu(named, sampler.name ?? "sghmc", (name) => {
      sampler.name = name;
      rebuild();
    });
    form.append(field("Name", chosen, "sampler"));
  } else if (sampler.kind === "parts") {
    form.append(...partMenus(sampler, catalogue, rebuild));
  } else {
    form.append(...typedFields(panel, changed, rebuild));
  }
  form.append(...mistakes(panel, catalogue, rebuild), ...sliders(panel, catalogue, changed));
  return form;
}

function newSampler(kind: Sampler["kind"], catalogue: Catalogue): Sampler {
  if (kind === "named") return { kind, name: "sghmc" };
  if (kind === "parts") {
    return { kind, dynamics: "underdamped", integrator: "Splitting", correction: catalogue.corrections[0] ?? "none" };
  }
  return typedSampler(kind, 4);
}

function partMenus(sampler: Sampler, catalogue: Catalogue, rebuild: Changed): HTMLElement[] {
  const rows: [string, "dynamics" | "integrator" | "correction", string[]][] = [
    ["Dynamics", "dynamics", catalogue.dynamics],
    ["Integrator", "integrator", catalogue.integrators],
    ["Correction", "correction", catalogue.corrections],
  ];
  return rows.map(([label, key, names]) => {
    const chosen = menu(options(names), sampler[key] ?? names[0] ?? "", (value) => {
      sampler[key] = value;
      rebuild();
    });
    return field(label, chosen, `sampler.${key}`);
  });
}

function typedFields(panel: Panel, changed: Changed, rebuild: Changed): HTMLElement[] {
  const { sampler } = panel;
  const size = sampler.size ?? 4;
  const letters = LETTERS.slice(0, size);
  const sizes: [string, string][] = [
    ["2", "x, y"],
    ["4", "x, y and momenta p, q"],
    ["5", "x, y, p, q and a thermostat s"],
  ];
  const variables = menu(sizes, String(size), (value) => {
    panel.sampler = typedSampler(sampler.kind === "drift" ? "drift" : "typed", Number(value));
    rebuild();
  });
  const energy = formulaField(sampler.H ?? "U", (text) => {
    sampler.H = text;
    changed();
  });
  const result = [field("Variables", variables), field("H (U is the target)", energy, "sampler.H")];
  result.push(matrixField("D", "D, symmetric: the other half is filled in", sampler.D ?? [], letters, 1, changed));
  if (sampler.kind === "typed") {
    result.push(matrixField("Q", "Q, skew-symmetric: the other half is filled in", sampler.Q ?? [], letters, -1, changed));
    return result;
  }
  const drift = sampler.drift ?? [];
  letters.forEach((letter, i) => {
    const input = formulaField(drift[i] ?? "0", (text) => {
      drift[i] = text;
      changed();
    });
    result.push(field(`Drift of ${letter} (Ux and Uy are ∇U)`, input, `sampler.drift.${i}`));
  });
  return result;
}

/** A matrix of formulas; an entry is repeated on the other side of the diagonal, for Q with the other sign. */
function matrixField(
  name: "D" | "Q",
  label: string,
  cells: string[][],
  letters: string[],
  sign: 1 | -1,
  changed: Changed,
): HTMLElement {
  const grid = h("div", { class: "cells", role: "group", "aria-label": label });
  grid.style.gridTemplateColumns = `1rem repeat(${letters.length}, minmax(max-content, 1fr))`;
  grid.append(h("span", {}), ...letters.map((letter) => h("span", {}, letter)));
  const inputs: HTMLInputElement[][] = letters.map(() => []);
  letters.forEach((row, i) => {
    grid.append(h("span", {}, row));
    letters.forEach((column, j) => {
      const input = cellInput(cells[i]?.[j] ?? "0", `${name} ${row} ${column}`, (text) => {
        cells[i]![j] = text;
        if (i !== j) {
          const other = sign === 1 ? text : negated(text);
          cells[j]![i] = other;
          setCell(inputs[j]![i]!, other);
        }
        changed();
      });
      input.dataset.part = `sampler.${name}.${i}.${j}`;
      inputs[i]![j] = input;
      grid.append(input);
    });
  });
  return h("div", { class: "field" }, h("span", { class: "label" }, label), grid, h("p", { class: "error", role: "alert", "data-for": `sampler.${name}` }));
}

function negated(text: string): string {
  const plain = text.trim();
  if (plain === "" || plain === "0") return plain;
  if (/^-[\w.]+$/.test(plain)) return plain.slice(1);
  return /^[\w.]+$/.test(plain) ? `-${plain}` : `-(${plain})`;
}

function mistakes(panel: Panel, catalogue: Catalogue, rebuild: Changed): HTMLElement[] {
  const { sampler } = panel;
  const row = sampler.kind === "named" ? catalogue.samplers[sampler.name ?? ""] : undefined;
  const alterable = sampler.kind === "drift" ? false : (row?.alterable ?? true);
  const gammas: [string, string][] = [
    ["1", "derived from D and Q"],
    ["0", "dropped"],
    ["-1", "with the printed sign"],
  ];
  const drags: [string, string][] = [
    ["1", "matches the noise"],
    ["0", "forgotten"],
    ["2", "twice as large as the noise needs"],
  ];
  const gamma = menu(gammas, String(panel.gamma), (value) => {
    panel.gamma = Number(value);
    rebuild();
  });
  const drag = menu(drags, String(panel.drag), (value) => {
    panel.drag = Number(value);
    rebuild();
  });
  gamma.disabled = drag.disabled = !alterable;
  if (!alterable) [panel.gamma, panel.drag] = [1, 1];
  const correction = h("input", { type: "checkbox", checked: panel.metropolis });
  correction.disabled = row?.exact === true || (sampler.kind === "parts" && sampler.correction !== "none");
  correction.dataset.part = "metropolis";
  correction.addEventListener("change", () => {
    panel.metropolis = correction.checked;
    rebuild();
  });
  return [
    h("div", { class: "pair wide" }, field("Γ", gamma, "gamma"), field("Friction", drag, "drag")),
    h("label", { class: "check" }, correction, "Metropolis correction"),
  ];
}

function sliders(panel: Panel, catalogue: Catalogue, changed: Changed): HTMLElement[] {
  const { settings, sampler } = panel;
  const row = sampler.kind === "named" ? catalogue.samplers[sampler.name ?? ""] : undefined;
  const uses = new Set(row?.uses ?? ["step_size", "friction", "leaps", "metric"]);
  const result: HTMLElement[] = [];
  const add = (
    label: string,
    key: keyof Panel["settings"],
    range: [number, number],
    isLogarithmic = false,
    isWhole = false,
  ): void => {
    result.push(
      slider(label, `settings.${key}`, settings[key], range, isLogarithmic, isWhole, (value) => {
        settings[key] = value;
        changed();
      }),
    );
  };
  add("Step size ε", "step_size", [0.001, 2], true);
  if (uses.has("friction") && sampler.kind !== "typed" && sampler.kind !== "drift") add("Friction", "friction", [0.01, 20], true);
  add("Temperature", "temperature", [0.1, 10], true);
  if (uses.has("leaps") && (sampler.kind === "parts" || row !== undefined)) add("Leapfrog steps", "leaps", [1, 50], false, true);
  if (row?.batches !== false) {
    add("Gradient noise", "noise", [0, 20]);
    add("Batch", "batch", [1, 64], true, true);
  }
  const metric = formulaField(panel.metric, (text) => {
    panel.metric = text;
    changed();
  });
  const grid = h("div", { class: "pair" }, ...result);
  const hasMetric = row === undefined ? /riemann/.test(sampler.dynamics ?? "") : uses.has("metric");
  return hasMetric ? [grid, field("Inverse metric G⁻¹(x, y)", metric, "metric")] : [grid];
}
