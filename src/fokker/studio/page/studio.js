// src/dom.ts
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== void 0) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}
function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`index.html has no #${id}`);
  return element;
}
var labels = 0;
function field(label, input, part, value) {
  input.id ||= `field-${++labels}`;
  const error = h("p", { class: "error", id: `${input.id}-error`, role: "alert" });
  if (part !== void 0) input.dataset.part = part;
  input.setAttribute("aria-describedby", error.id);
  const name = h("label", { for: input.id }, label);
  if (value !== void 0) name.append(value);
  return h("div", { class: "field" }, name, input, error);
}
function formulaField(text, change) {
  const area = h("textarea", { rows: 1, class: "formula", spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
  area.value = text;
  let used = text;
  const use = () => {
    if (area.value === used) return;
    used = area.value;
    change(used);
  };
  const grow = () => {
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight + area.offsetHeight - area.clientHeight}px`;
  };
  area.addEventListener("input", grow);
  area.addEventListener("change", use);
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    use();
  });
  let width = 0;
  new ResizeObserver(() => {
    if (area.clientWidth !== width) grow();
    width = area.clientWidth;
  }).observe(area);
  return area;
}
function setFormula(area, text) {
  area.value = text;
  area.dispatchEvent(new Event("input"));
}
function menu(options2, chosen, change) {
  const select = h("select");
  for (const [value, title] of options2) {
    select.append(h("option", { value, selected: value === chosen }, title));
  }
  select.addEventListener("change", () => change(select.value));
  return select;
}
function debounced(wait, act) {
  let timer;
  return () => {
    window.clearTimeout(timer);
    timer = window.setTimeout(act, wait);
  };
}
function short(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  if (size >= 1e4) return `${(value / 1e3).toPrecision(3)} k`;
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return size !== 0 && size < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

// src/axes.ts
function ticks(low, high, wanted = 5) {
  const rough = (high - low) / wanted;
  if (!(rough > 0) || !Number.isFinite(rough)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const result = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) result.push(i * step);
  if (result.length < 2 && wanted < 12) return ticks(low, high, wanted + 1);
  return result.map((value) => Number(value.toPrecision(6)));
}
function logTicks(low, high) {
  const factors = high - low > 3 ? [1] : high - low > 1.2 ? [1, 3] : [1, 2, 5];
  const result = [];
  const every = Math.max(1, Math.ceil((high - low) / 6));
  for (let power = Math.floor(low); power <= high; power++) {
    if (factors.length === 1 && power % every !== 0) continue;
    for (const factor of factors) {
      const place = power + Math.log10(factor);
      if (place >= low && place <= high) result.push(Number((factor * 10 ** power).toPrecision(3)));
    }
  }
  return result.length > 1 ? result : ticks(10 ** low, 10 ** high);
}
function ends(low, high, isLog) {
  const all = isLog ? logTicks(low, high) : ticks(low, high);
  return all.length < 2 ? all : [all[0], all.at(-1)];
}
function tickText(value, all = [value]) {
  const most = Math.max(...all.map(Math.abs));
  if (value !== 0 && (most >= 1e5 || most < 1e-3)) return Number(value.toPrecision(6)).toExponential().replace("e+", "e");
  return Math.abs(value) >= 1e3 ? value.toLocaleString("en") : String(value);
}

// src/colours.ts
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
function components(name) {
  const value = parseInt(colour(name).slice(1), 16);
  return [value >> 16 & 255, value >> 8 & 255, value & 255];
}
function mixed(from, to, share) {
  const t = Math.max(0, Math.min(1, share));
  return [from[0] + (to[0] - from[0]) * t, from[1] + (to[1] - from[1]) * t, from[2] + (to[2] - from[2]) * t];
}
function fitted(canvas) {
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

// src/chart.ts
function chart(canvas, title, lines2, logarithmic) {
  const { context, width, height } = fitted(canvas);
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = colour("soft");
  context.textBaseline = "top";
  context.fillText(title, 0, 0);
  const scaled = (value) => logarithmic ? Math.log10(Math.max(value, 1e-6)) : value;
  const all = lines2.flatMap((line) => line.values).filter((v) => v !== null && Number.isFinite(v));
  if (all.length === 0) return;
  let low = Math.min(...all.map(scaled));
  let high = Math.max(...all.map(scaled));
  const least = logarithmic ? 0.5 : 0.1 * Math.abs(high) + 1e-9;
  if (high - low < least) [low, high] = [(low + high - least) / 2, (low + high + least) / 2];
  const labels2 = lines2.map((line) => {
    const last = line.values.at(-1);
    return last === null || last === void 0 ? "" : `${line.name} ${short(last)}`;
  });
  const marks = ends(low, high, logarithmic);
  const left = Math.max(28, ...marks.map((value) => context.measureText(tickText(value)).width + 6));
  const right = Math.max(84, ...labels2.map((label) => context.measureText(label).width + 8));
  const room = { top: 18, bottom: 6, right, left };
  const x = (k, n) => room.left + (n < 2 ? 0 : k / (n - 1) * (width - room.left - room.right));
  const y = (value) => room.top + (1 - (scaled(value) - low) / (high - low)) * (height - room.top - room.bottom);
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const value of marks) {
    context.fillText(tickText(value), room.left - 6, Math.min(y(value), height - 6));
    context.fillRect(room.left - 4, y(value), 4, 1);
  }
  context.textAlign = "left";
  const lasts = [];
  lines2.forEach((line, index) => {
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
    if (last !== null && last !== void 0) lasts.push([y(last), labels2[index], line.colour]);
  });
  lasts.sort((a, b) => a[0] - b[0]);
  let place = room.top - 6;
  context.textBaseline = "middle";
  lasts.forEach(([wanted, text, name], k) => {
    place = Math.max(place + 12, Math.min(wanted, height - 6 - 12 * (lasts.length - 1 - k)));
    context.fillStyle = colour(name);
    context.fillText(text, width - room.right + 4, place);
  });
}

// src/state.ts
var START = { x: 0, y: 0, spread: 1 };
var LETTERS = ["x", "y", "p", "q", "s"];
function newPanel(part = {}) {
  const settings = { step_size: 0.05, friction: 1, temperature: 1, noise: 0, batch: 1, leaps: 10 };
  return {
    sampler: { kind: "named", name: "sghmc" },
    metric: "0.25 + x^2",
    gamma: 1,
    drag: 1,
    metropolis: false,
    ...part,
    settings: { ...settings, ...part.settings }
  };
}
function panelName(panel) {
  const { title, sampler, gamma, drag, metropolis } = panel;
  if (title !== void 0) return title;
  const name = sampler.kind === "named" ? sampler.name ?? "" : { parts: "parts", typed: "D, Q, H", drift: "drift" }[sampler.kind];
  const mistakes2 = [
    { "0": "Γ dropped", "-1": "Γ subtracted" }[String(gamma)],
    { "0": "friction forgotten", "2": "friction doubled" }[String(drag)],
    metropolis ? "corrected" : void 0
  ];
  return [name, ...mistakes2.filter((word) => word !== void 0)].join(", ");
}
function newState() {
  return {
    target: { name: "valley" },
    run: { seed: 0, chains: 200, steps: 20, burn_in: 200 },
    panels: [newPanel()]
  };
}
function designOf(state2, panel) {
  return { ...panel, target: state2.target, run: state2.run };
}
function typedSampler(kind, size) {
  const zeros = () => Array.from({ length: size }, () => Array(size).fill("0"));
  const D = zeros();
  const Q = zeros();
  const set = (matrix, i, j, text) => {
    const row = matrix[i];
    if (row !== void 0 && j < size) row[j] = text;
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
    5: ["p", "q", "-Ux - s*p", "-Uy - s*q", "(p^2 + q^2)/2 - 1"]
  }[size];
  return { kind, size, H, D, drift };
}
function toHash(state2) {
  const bytes = new TextEncoder().encode(JSON.stringify(state2));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
function fromHash(hash) {
  const start = newState();
  if (hash.length < 2) return start;
  try {
    const text = atob(hash.slice(1).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    const read = JSON.parse(new TextDecoder().decode(bytes));
    const panels2 = (read.panels ?? start.panels).slice(0, 4).map((panel) => newPanel(panel));
    return {
      target: read.target ?? start.target,
      run: { ...start.run, ...read.run },
      panels: panels2.length > 0 ? panels2 : start.panels,
      ...read.theme === void 0 ? {} : { theme: read.theme }
    };
  } catch {
    return start;
  }
}

// src/controls.ts
function options(names) {
  return names.map((name) => [name, name]);
}
function cellInput(text, label, change) {
  const input = h("input", { type: "text", spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": label });
  setCell(input, text);
  input.addEventListener("change", () => {
    setCell(input, input.value);
    change(input.value);
  });
  return input;
}
function setCell(input, text) {
  input.value = text;
  input.size = Math.max(3, text.length);
}
function slider(label, part, value, range, isLogarithmic, isWhole, change) {
  const [low, high] = range;
  const from = (position) => {
    const raw = isLogarithmic ? low * (high / low) ** position : low + (high - low) * position;
    return isWhole ? Math.round(raw) : Number(raw.toPrecision(3));
  };
  const to = (number) => isLogarithmic ? Math.log(Math.max(number, low) / low) / Math.log(high / low) : (number - low) / (high - low);
  const shown = h("span", { class: "value" }, short(value));
  const input = h("input", { type: "range", min: 0, max: 1, step: 1e-3, value: to(value) });
  input.setAttribute("aria-valuetext", short(value));
  input.addEventListener("input", () => {
    const next = from(Number(input.value));
    shown.textContent = short(next);
    input.setAttribute("aria-valuetext", short(next));
    change(next);
  });
  return field(label, input, part, shown);
}
function controls(panel, catalogue2, changed, rebuild2) {
  const { sampler } = panel;
  const kinds = [
    ["named", "by name"],
    ["parts", "dynamics × integrator × correction"],
    ["typed", "D, Q and H, typed in"],
    ["drift", "drift, D and H, typed in"]
  ];
  const form = h("div", { class: "controls" });
  form.append(
    field(
      "Sampler",
      menu(kinds, sampler.kind, (kind) => {
        panel.sampler = newSampler(kind, catalogue2);
        rebuild2();
      })
    )
  );
  if (sampler.kind === "named") {
    const named = Object.entries(catalogue2.samplers).map(([key, row]) => [key, `${key}: ${row.title}`]);
    const chosen = menu(named, sampler.name ?? "sghmc", (name) => {
      sampler.name = name;
      rebuild2();
    });
    form.append(field("Name", chosen, "sampler"));
  } else if (sampler.kind === "parts") {
    form.append(...partMenus(sampler, catalogue2, rebuild2));
  } else {
    form.append(...typedFields(panel, changed, rebuild2));
  }
  form.append(...mistakes(panel, catalogue2, rebuild2), ...sliders(panel, catalogue2, changed));
  return form;
}
function newSampler(kind, catalogue2) {
  if (kind === "named") return { kind, name: "sghmc" };
  if (kind === "parts") {
    return { kind, dynamics: "underdamped", integrator: "Splitting", correction: catalogue2.corrections[0] ?? "none" };
  }
  return typedSampler(kind, 4);
}
function partMenus(sampler, catalogue2, rebuild2) {
  const rows = [
    ["Dynamics", "dynamics", catalogue2.dynamics],
    ["Integrator", "integrator", catalogue2.integrators],
    ["Correction", "correction", catalogue2.corrections]
  ];
  return rows.map(([label, key, names]) => {
    const chosen = menu(options(names), sampler[key] ?? names[0] ?? "", (value) => {
      sampler[key] = value;
      rebuild2();
    });
    return field(label, chosen, `sampler.${key}`);
  });
}
function typedFields(panel, changed, rebuild2) {
  const { sampler } = panel;
  const size = sampler.size ?? 4;
  const letters = LETTERS.slice(0, size);
  const sizes = [
    ["2", "x, y"],
    ["4", "x, y and momenta p, q"],
    ["5", "x, y, p, q and a thermostat s"]
  ];
  const variables = menu(sizes, String(size), (value) => {
    panel.sampler = typedSampler(sampler.kind === "drift" ? "drift" : "typed", Number(value));
    rebuild2();
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
function matrixField(name, label, cells, letters, sign, changed) {
  const grid = h("div", { class: "cells", role: "group", "aria-label": label });
  grid.style.gridTemplateColumns = `1rem repeat(${letters.length}, minmax(max-content, 1fr))`;
  grid.append(h("span", {}), ...letters.map((letter) => h("span", {}, letter)));
  const inputs = letters.map(() => []);
  letters.forEach((row, i) => {
    grid.append(h("span", {}, row));
    letters.forEach((column, j) => {
      const input = cellInput(cells[i]?.[j] ?? "0", `${name} ${row} ${column}`, (text) => {
        cells[i][j] = text;
        if (i !== j) {
          const other = sign === 1 ? text : negated(text);
          cells[j][i] = other;
          setCell(inputs[j][i], other);
        }
        changed();
      });
      input.dataset.part = `sampler.${name}.${i}.${j}`;
      inputs[i][j] = input;
      grid.append(input);
    });
  });
  return h("div", { class: "field" }, h("span", { class: "label" }, label), grid, h("p", { class: "error", role: "alert", "data-for": `sampler.${name}` }));
}
function negated(text) {
  const plain = text.trim();
  if (plain === "" || plain === "0") return plain;
  if (/^-[\w.]+$/.test(plain)) return plain.slice(1);
  return /^[\w.]+$/.test(plain) ? `-${plain}` : `-(${plain})`;
}
function mistakes(panel, catalogue2, rebuild2) {
  const { sampler } = panel;
  const row = sampler.kind === "named" ? catalogue2.samplers[sampler.name ?? ""] : void 0;
  const alterable = sampler.kind === "drift" ? false : row?.alterable ?? true;
  const gammas = [
    ["1", "derived from D and Q"],
    ["0", "dropped"],
    ["-1", "with the printed sign"]
  ];
  const drags = [
    ["1", "matches the noise"],
    ["0", "forgotten"],
    ["2", "twice as large as the noise needs"]
  ];
  const gamma = menu(gammas, String(panel.gamma), (value) => {
    panel.gamma = Number(value);
    rebuild2();
  });
  const drag = menu(drags, String(panel.drag), (value) => {
    panel.drag = Number(value);
    rebuild2();
  });
  gamma.disabled = drag.disabled = !alterable;
  if (!alterable) [panel.gamma, panel.drag] = [1, 1];
  const correction = h("input", { type: "checkbox", checked: panel.metropolis });
  correction.disabled = row?.exact === true || sampler.kind === "parts" && sampler.correction !== "none";
  correction.dataset.part = "metropolis";
  correction.addEventListener("change", () => {
    panel.metropolis = correction.checked;
    rebuild2();
  });
  return [
    h("div", { class: "pair wide" }, field("Γ", gamma, "gamma"), field("Friction", drag, "drag")),
    h("label", { class: "check" }, correction, "Metropolis correction")
  ];
}
function sliders(panel, catalogue2, changed) {
  const { settings, sampler } = panel;
  const row = sampler.kind === "named" ? catalogue2.samplers[sampler.name ?? ""] : void 0;
  const uses = new Set(row?.uses ?? ["step_size", "friction", "leaps", "metric"]);
  const result = [];
  const add = (label, key, range, isLogarithmic = false, isWhole = false) => {
    result.push(
      slider(label, `settings.${key}`, settings[key], range, isLogarithmic, isWhole, (value) => {
        settings[key] = value;
        changed();
      })
    );
  };
  add("Step size ε", "step_size", [1e-3, 2], true);
  if (uses.has("friction") && sampler.kind !== "typed" && sampler.kind !== "drift") add("Friction", "friction", [0.01, 20], true);
  add("Temperature", "temperature", [0.1, 10], true);
  if (uses.has("leaps") && (sampler.kind === "parts" || row !== void 0)) add("Leapfrog steps", "leaps", [1, 50], false, true);
  if (row?.batches !== false) {
    add("Gradient noise", "noise", [0, 20]);
    add("Batch", "batch", [1, 64], true, true);
  }
  const metric = formulaField(panel.metric, (text) => {
    panel.metric = text;
    changed();
  });
  const grid = h("div", { class: "pair" }, ...result);
  const hasMetric = row === void 0 ? /riemann/.test(sampler.dynamics ?? "") : uses.has("metric");
  return hasMetric ? [grid, field("Inverse metric G⁻¹(x, y)", metric, "metric")] : [grid];
}

// src/gif.ts
var COLOURS = 256;
var CODES = 4096;
var Bytes = class {
  parts = [];
  add(...values) {
    this.parts.push(Uint8Array.from(values));
  }
  text(letters) {
    this.add(...Array.from(letters, (letter) => letter.charCodeAt(0)));
  }
  /** Numbers of 16 bits, the low byte first. */
  words(...values) {
    for (const value of values) this.add(value & 255, value >> 8);
  }
  /** Blocks of at most 255 bytes, each after its length, and an empty one as their end. */
  blocks(data) {
    for (let start = 0; start < data.length; start += 255) {
      const block = data.subarray(start, start + 255);
      this.add(block.length);
      this.parts.push(block);
    }
    this.add(0);
  }
  blob(...more) {
    return new Blob([this, ...more].flatMap((bytes) => bytes.parts), { type: "image/gif" });
  }
};
var boxOf = (r, g, b) => r >> 3 << 10 | g >> 3 << 5 | b >> 3;
function reduced(pixels) {
  const counts = /* @__PURE__ */ new Map();
  for (let k = 0; k < pixels.length; k += 4) {
    const colour2 = pixels[k] << 16 | pixels[k + 1] << 8 | pixels[k + 2];
    counts.set(colour2, (counts.get(colour2) ?? 0) + 1);
  }
  const boxes = /* @__PURE__ */ new Map();
  for (const [colour2, count] of counts) {
    const parts = [colour2 >> 16, colour2 >> 8 & 255, colour2 & 255];
    const box = boxes.get(boxOf(...parts)) ?? { total: 0, most: 0, colour: [] };
    box.total += count;
    if (count > box.most) Object.assign(box, { most: count, colour: parts });
    boxes.set(boxOf(...parts), box);
  }
  const used = [...boxes].sort(([, a], [, b]) => b.total - a.total);
  const chosen = used.slice(0, COLOURS).map(([, { colour: colour2 }]) => colour2);
  const nearest = new Uint8Array(1 << 15);
  for (const [order, [box, { colour: colour2 }]] of used.entries()) {
    const distance = (other) => other.reduce((sum, part, k) => sum + (part - colour2[k]) ** 2, 0);
    const distances = order < COLOURS ? [] : chosen.map(distance);
    nearest[box] = order < COLOURS ? order : distances.indexOf(Math.min(...distances));
  }
  const palette = new Uint8Array(3 * COLOURS);
  palette.set(chosen.flat());
  const indices = new Uint16Array(pixels.length / 4);
  for (let k = 0; k < indices.length; k++) {
    indices[k] = nearest[boxOf(pixels[4 * k], pixels[4 * k + 1], pixels[4 * k + 2])];
  }
  return { palette, indices };
}
var table = new Uint16Array(CODES * COLOURS);
function compressed(indices) {
  const [clear, end] = [COLOURS, COLOURS + 1];
  const out = new Uint8Array(16 + 2 * indices.length);
  let length = 0;
  let buffer = 0;
  let bits = 0;
  let width = 9;
  const write = (code) => {
    buffer |= code << bits;
    for (bits += width; bits >= 8; bits -= 8) {
      out[length++] = buffer & 255;
      buffer >>= 8;
    }
  };
  let next = end + 1;
  table.fill(0);
  write(clear);
  let prefix = indices[0] ?? 0;
  for (let k = 1; k < indices.length; k++) {
    const key = prefix * COLOURS + indices[k];
    const known = table[key];
    if (known !== 0) {
      prefix = known;
      continue;
    }
    write(prefix);
    prefix = indices[k];
    if (next < CODES) {
      if (next === 1 << width) width += 1;
      table[key] = next++;
    } else {
      write(clear);
      table.fill(0);
      next = end + 1;
      width = 9;
    }
  }
  write(prefix);
  if (next === 1 << width && width < 12) width += 1;
  write(end);
  if (bits > 0) out[length++] = buffer & 255;
  return out.slice(0, length);
}
var Gif = class {
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.head.text("GIF89a");
    this.head.words(width, height);
    this.head.add(112, 0, 0);
    this.head.add(33, 255, 11);
    this.head.text("NETSCAPE2.0");
    this.head.add(3, 1, 0, 0, 0);
  }
  head = new Bytes();
  pictures = new Bytes();
  /** Add a picture that is shown for some hundredths of a second. */
  add(pixels, hundredths) {
    const { palette, indices } = reduced(pixels);
    this.pictures.add(33, 249, 4, 0);
    this.pictures.words(hundredths);
    this.pictures.add(0, 0, 44);
    this.pictures.words(0, 0, this.width, this.height);
    this.pictures.add(135, ...palette, 8);
    this.pictures.blocks(compressed(indices));
  }
  blob() {
    const end = new Bytes();
    end.add(59);
    return this.head.blob(this.pictures, end);
  }
};

// src/exports.ts
var FRAMES_PER_SECOND = 25;
var HUNDREDTHS = 10;
var PICTURES = 300;
function recording(label, start) {
  const button = h("button", { type: "button" });
  let stop;
  const show = (next) => {
    stop = next;
    button.textContent = stop === void 0 ? label : "End the recording";
    button.setAttribute("aria-pressed", String(stop !== void 0));
  };
  button.addEventListener("click", () => {
    if (stop === void 0) show(start(() => show(void 0)));
    else stop();
  });
  show(void 0);
  return button;
}
var Exports = class {
  constructor(canvas, name, copy) {
    this.canvas = canvas;
    this.name = name;
    const save = () => canvas.toBlob((blob) => blob !== null && this.download(blob, "png"));
    const video = recording("Record as WebM", (ended) => this.video(ended));
    video.hidden = typeof MediaRecorder === "undefined" || !MediaRecorder.isTypeSupported("video/webm");
    this.element = h(
      "div",
      { class: "row" },
      h("button", { type: "button", onclick: copy }, "Copy as Python"),
      h("button", { type: "button", onclick: save }, "Save as PNG"),
      recording("Record as GIF", (ended) => this.gif(ended)),
      video
    );
  }
  element;
  add;
  latest = 0;
  /** After a frame was drawn. */
  drawn() {
    if (performance.now() - this.latest >= 10 * HUNDREDTHS) this.add?.();
  }
  download(blob, kind) {
    const file = `fokker-${this.name().replace(/\W+/g, "-")}.${kind}`;
    const link = h("a", { href: URL.createObjectURL(blob), download: file });
    link.click();
    URL.revokeObjectURL(link.href);
  }
  video(ended) {
    const recorder = new MediaRecorder(this.canvas.captureStream(FRAMES_PER_SECOND), { mimeType: "video/webm" });
    recorder.addEventListener("dataavailable", (event) => this.download(event.data, "webm"));
    recorder.addEventListener("stop", ended);
    recorder.start();
    return () => recorder.stop();
  }
  /** A GIF of the frames while the sampler runs: pauses are left out. */
  gif(ended) {
    const width = Math.max(1, this.canvas.clientWidth);
    const height = Math.max(1, this.canvas.clientHeight);
    const copy = new OffscreenCanvas(width, height);
    const context = copy.getContext("2d", { willReadFrequently: true });
    if (context === null) throw new Error("this browser has no canvas");
    const gif = new Gif(width, height);
    let pictures2 = 0;
    const picture = (hundredths) => {
      context.drawImage(this.canvas, 0, 0, width, height);
      gif.add(context.getImageData(0, 0, width, height).data, hundredths);
      this.latest = performance.now();
      pictures2 += 1;
    };
    const stop = () => {
      this.add = void 0;
      picture(100);
      this.download(gif.blob(), "gif");
      ended();
    };
    this.add = () => pictures2 < PICTURES ? picture(HUNDREDTHS) : stop();
    picture(HUNDREDTHS);
    return stop;
  }
};

// src/grid.ts
function image(grid, shade) {
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
function sequential(largest, low, high) {
  return (value) => [mixed(low, high, Math.sqrt(Math.max(0, value) / (largest || 1))), 1];
}
function diverging(largest, minus2, zero, plus) {
  return (value) => {
    const share = Math.sqrt(Math.abs(value) / (largest || 1));
    return [mixed(zero, value < 0 ? minus2 : plus, share), 1];
  };
}
function levels(grid, shares) {
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
var FINER = 4;
function contours(grid, shares) {
  const smooth = refined(grid);
  return levels(grid, shares).map((level) => contour(smooth, Math.log(level)));
}
function refined(grid) {
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
function cubic(values, start, step, length, place) {
  const k = Math.min(length - 2, Math.floor(place));
  const t = place - k;
  const at = (i) => values[start + step * Math.max(0, Math.min(length - 1, i))];
  const [a, b, c, d] = [at(k - 1), at(k), at(k + 1), at(k + 2)];
  return b + t / 2 * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}
function contour(grid, level) {
  const { size, values } = grid;
  const path = new Path2D();
  for (let i = 0; i + 1 < size; i++) {
    for (let j = 0; j + 1 < size; j++) {
      const k = i * size + j;
      const corners = [values[k], values[k + size], values[k + size + 1], values[k + 1]];
      if (corners.every((value) => value >= level) || corners.every((value) => value < level)) continue;
      const [x, y] = [[i, i + 1, i + 1, i], [j, j, j + 1, j + 1]];
      const crossings = [];
      for (let m = 0; m < 4; m++) {
        const n = (m + 1) % 4;
        const [from, to] = [corners[m], corners[n]];
        if (from >= level === to >= level) continue;
        const t = (level - from) / (to - from);
        crossings.push([(x[m] + t * (x[n] - x[m])) / FINER + 0.5, (y[m] + t * (y[n] - y[m])) / FINER + 0.5]);
      }
      for (let m = 0; m + 1 < crossings.length; m += 2) {
        path.moveTo(...crossings[m]);
        path.lineTo(...crossings[m + 1]);
      }
    }
  }
  return path;
}
function marginals(grid) {
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

// src/trajectory.ts
var COLOURS2 = 8;
function inTime(rows) {
  const order = [];
  for (let k = 0; 4 * k < rows.length; k++) {
    if (rows[4 * k + 3] < 0) order.unshift(k);
    else order.push(k);
  }
  return order;
}
function drawTrajectory(context, trajectory, toX, toY) {
  const { rows, chosen } = trajectory;
  const at = (k) => [toX(rows[4 * k]), toY(rows[4 * k + 1])];
  context.strokeStyle = colour("soft");
  context.lineWidth = 1.2;
  context.beginPath();
  for (const k of inTime(rows)) context.lineTo(...at(k));
  context.stroke();
  for (let k = 1; 4 * k < rows.length; k++) {
    context.fillStyle = colour(`chain-${rows[4 * k + 2] % COLOURS2}`);
    context.beginPath();
    context.arc(...at(k), 3, 0, 2 * Math.PI);
    context.fill();
  }
  context.strokeStyle = colour("text");
  context.lineWidth = 2;
  context.beginPath();
  context.arc(...at(0), 5, 0, 2 * Math.PI);
  context.stroke();
  drawStar(context, ...at(chosen));
}
function drawStar(context, x, y) {
  context.fillStyle = colour("path");
  context.strokeStyle = colour("card");
  context.lineWidth = 1;
  context.beginPath();
  for (let k = 0; k < 10; k++) {
    const radius = k % 2 === 0 ? 9 : 4;
    const angle = Math.PI * k / 5 - Math.PI / 2;
    context.lineTo(x + radius * Math.cos(angle), y + radius * Math.sin(angle));
  }
  context.closePath();
  context.fill();
  context.stroke();
}

// src/plot.ts
var MARGIN = 54;
var LABELS = 26;
var SHARES = [0.3, 0.6, 0.9, 0.99];
function draw(canvas, drawn, view) {
  const { context, width, height } = fitted(canvas);
  const [left, right, bottom, top] = drawn.box;
  const inner = { x: LABELS, y: MARGIN, width: width - LABELS - MARGIN, height: height - LABELS - MARGIN };
  const toX = (x) => inner.x + (x - left) / (right - left) * inner.width;
  const toY = (y) => inner.y + (1 - (y - bottom) / (top - bottom)) * inner.height;
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
function drawImage(context, drawn, view, inner) {
  const { truth, histogram } = drawn;
  const low = components("card");
  const largest = truth.values.reduce((a, b) => Math.max(a, b), 0);
  let picture;
  if (view === "cloud" || view === "trajectory" || histogram === void 0) {
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
var lines = /* @__PURE__ */ new WeakMap();
var pictures = /* @__PURE__ */ new WeakMap();
function contoursOf(truth) {
  const known = lines.get(truth) ?? contours(truth, SHARES);
  lines.set(truth, known);
  return known;
}
function paleTruth(truth, largest) {
  const { theme } = document.documentElement.dataset;
  const known = pictures.get(truth);
  if (known !== void 0 && known.theme === theme) return known.picture;
  const picture = image(truth, sequential(largest, components("card"), components("line")));
  pictures.set(truth, { theme, picture });
  return picture;
}
function drawContours(context, truth, inner) {
  context.strokeStyle = colour("truth");
  context.globalAlpha = 0.55;
  for (const line of contoursOf(truth)) {
    const placed = new Path2D();
    const scale = new DOMMatrix([
      inner.width / truth.size,
      0,
      0,
      -inner.height / truth.size,
      inner.x,
      inner.y + inner.height
    ]);
    placed.addPath(line, scale);
    context.lineWidth = 1;
    context.stroke(placed);
  }
  context.globalAlpha = 1;
}
function drawPath(context, path, toX, toY) {
  if (path.length < 4) return;
  context.strokeStyle = colour("path");
  context.lineWidth = 1.2;
  context.beginPath();
  for (let k = 0; k + 1 < path.length; k += 2) context.lineTo(toX(path[k]), toY(path[k + 1]));
  context.stroke();
}
function drawCloud(context, cloud, toX, toY) {
  const size = cloud.length > 4e3 ? 1.5 : cloud.length > 1e3 ? 2.2 : 3;
  context.fillStyle = colour("cloud");
  context.globalAlpha = 0.8;
  for (let k = 0; k + 1 < cloud.length; k += 2) {
    context.fillRect(toX(cloud[k]) - size / 2, toY(cloud[k + 1]) - size / 2, size, size);
  }
  context.globalAlpha = 1;
}
function drawOutside(context, cloud, box, inner) {
  let inside = 0;
  for (let k = 0; k + 1 < cloud.length; k += 2) {
    const [x, y] = [cloud[k], cloud[k + 1]];
    if (x >= box[0] && x <= box[1] && y >= box[2] && y <= box[3]) inside += 1;
  }
  const all = cloud.length / 2;
  if (all - inside <= 0.02 * all) return;
  context.fillStyle = colour("path");
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "left";
  context.textBaseline = "bottom";
  const count = `${all - inside} of ${all}`;
  const wide = inner.width - 12;
  const text = [`${count} chains are outside of the picture`, `${count} chains are outside`].find((words) => context.measureText(words).width <= wide);
  context.fillText(text ?? `${count} outside`, inner.x + 6, inner.y + inner.height - 5, wide);
}
function drawAxes(context, box, inner, toX, toY) {
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
function minus(value) {
  return String(value).replace("-", "−");
}
function drawMarginals(context, drawn, inner) {
  const truths = marginals(drawn.truth);
  const draws = drawn.histogram === void 0 ? void 0 : marginals(drawn.histogram);
  const size = drawn.truth.size;
  for (const axis of [0, 1]) {
    const truth = truths[axis];
    const bars = draws?.[axis];
    const peak = truth.reduce((a, b) => Math.max(a, b), 1e-9);
    const largest = Math.min(4 * peak, Math.max(1.25 * peak, ...bars ?? []));
    const tall = (value) => Math.min(1, value / largest) * (MARGIN - 8);
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

// src/heat.ts
var LABELS2 = 30;
var SCALE = 58;
var ROUNDING = 1e-9;
function heatMap(values, size, box, largest, typical, what, isSigned) {
  if (largest <= ROUNDING * typical) return h("figure", { class: "field" }, h("figcaption", {}, `${what}: zero everywhere, up to rounding.`));
  const canvas = h("canvas", { class: "heat", role: "img", "aria-label": `${what}, at most ${short(largest)}` });
  const draw2 = () => {
    const { context, width, height } = fitted(canvas);
    const inner = { x: LABELS2, y: 16, width: width - LABELS2 - SCALE, height: height - 16 - LABELS2 };
    const [left, right, bottom, top] = box;
    const low = components("heat-low");
    const high = components(isSigned ? "heat-high" : "heat-minus");
    const shade = isSigned ? diverging(largest, components("heat-minus"), low, high) : sequential(largest, low, high);
    context.imageSmoothingEnabled = false;
    context.drawImage(image({ size, values }, shade), inner.x, inner.y, inner.width, inner.height);
    context.strokeStyle = colour("line");
    context.strokeRect(inner.x, inner.y, inner.width, inner.height);
    const toX = (x2) => inner.x + (x2 - left) / (right - left) * inner.width;
    const toY = (y) => inner.y + (1 - (y - bottom) / (top - bottom)) * inner.height;
    drawAxes(context, box, inner, toX, toY);
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
  new ResizeObserver(draw2).observe(canvas);
  canvas.addEventListener("themechange", draw2);
  return h("figure", { class: "field" }, canvas, h("figcaption", { class: "legend" }, `${what}: at most ${short(largest)}.`));
}

// src/verdict.ts
var WORDS = {
  right: "Right",
  wrong: "Wrong",
  undecided: "Undecided"
};
var NAMES = "theta is (x, y), r the momenta (p, q), xi the thermostat s, also written ξ.";
var TROUBLES = {
  lost: "Chains leave the finite numbers: take smaller steps.",
  far: "The draws are far from the target, and not by chance: take smaller steps, or more of them."
};
var Verdict = class {
  element = h("div", { class: "verdict", role: "status", "aria-live": "polite" });
  shown;
  trouble;
  constructor() {
    this.unknown();
  }
  unknown() {
    this.shown = void 0;
    this.element.className = "verdict";
    this.element.replaceChildren(h("p", {}, "Not checked yet."));
  }
  waiting() {
    this.shown = void 0;
    this.element.className = "verdict";
    this.element.replaceChildren(h("p", { class: "busy" }, "Checking whether this samples the target"));
  }
  error(message) {
    this.shown = void 0;
    this.element.className = "verdict undecided";
    this.element.replaceChildren(h("p", {}, h("span", { class: "word" }, "Cannot be built. "), message));
  }
  /** What the run itself shows, which the checker of its dynamics does not look at. */
  of(trouble) {
    if (trouble === this.trouble) return;
    this.trouble = trouble;
    if (this.shown?.report.ok === true) this.show(this.shown.report, this.shown.text);
  }
  show(report, text) {
    this.shown = { report, text };
    const kind = report.ok ? "right" : report.verdict === "undecided" ? "undecided" : "wrong";
    const headline = text.split("\n")[0]?.replace(/^[A-Z]+/, "") ?? "";
    const trouble = report.ok ? this.trouble : void 0;
    const run = trouble === void 0 ? [] : [h("p", {}, h("span", { class: "word" }, "The dynamics are right; at this step size the run is not. "), TROUBLES[trouble])];
    this.element.className = `verdict ${trouble === void 0 ? kind : "undecided"}`;
    this.element.replaceChildren(
      ...run,
      h("p", {}, h("span", { class: trouble === void 0 ? "word" : "" }, WORDS[kind] ?? kind), headline),
      ...report.reasons.map((reason) => h("p", {}, reason)),
      ...report.notes.map((note) => h("p", { class: "legend" }, note)),
      h("details", {}, h("summary", {}, "What was checked"), h("p", { class: "legend" }, NAMES), h("pre", {}, text))
    );
  }
};

// src/panel.ts
var PATH = 400;
var HISTORY = 600;
var starts = 0;
var noHistory = () => ({
  kl: [],
  chance: [],
  effective: [],
  kinetic: [],
  thermostat: [],
  acceptance: []
});
var PanelView = class {
  constructor(id, state2, panel, catalogue2, wire2, changed, remove) {
    this.id = id;
    this.state = state2;
    this.panel = panel;
    this.catalogue = catalogue2;
    this.wire = wire2;
    this.changed = changed;
    this.view = panel.view ?? "cloud";
    const head = h("div", { class: "panel-head" }, this.title);
    if (remove !== void 0) head.append(h("button", { type: "button", onclick: remove }, "Remove"));
    const recipe = h("details", { open: panel.recipe }, h("summary", {}, "Recipe: D, Q and Γ"), this.recipe);
    recipe.addEventListener("toggle", () => {
      if (recipe.open === (panel.recipe ?? false)) return;
      panel.recipe = recipe.open;
      changed();
      if (recipe.open) this.askRecipe();
    });
    const picture = h("div", { class: "picture" }, this.canvas, this.views(), this.numbers, ...this.charts, this.exports.element);
    const settings = h("details", { open: true }, h("summary", {}, "Settings"), this.form);
    const words = h("div", { class: "words" }, this.verdict.element, settings, recipe);
    this.element.append(head, this.madeOf, this.error, h("div", { class: "halves" }, picture, words));
    this.charts[0].setAttribute("aria-label", "divergence from the target over the steps");
    this.charts[1].setAttribute("aria-label", "effective draws over the steps");
    this.charts[2].setAttribute("aria-label", "temperature, thermostat and acceptance over the steps");
    for (const canvas of this.charts) canvas.setAttribute("role", "img");
    this.rebuild();
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    this.canvas.addEventListener("themechange", () => this.redraw());
  }
  element = h("article", { class: "card panel" });
  canvas = h("canvas", { class: "plot", role: "img", "aria-label": "no draws yet" });
  charts = [h("canvas", { class: "chart" }), h("canvas", { class: "chart" }), h("canvas", { class: "chart" })];
  numbers = h("dl", { class: "numbers" });
  madeOf = h("p", { class: "made-of" });
  error = h("p", { class: "error", role: "alert" });
  verdict = new Verdict();
  form = h("div");
  recipe = h("div", { class: "recipe" });
  title = h("h2", {}, "");
  drawn;
  view;
  trajectoryButton = h("button", { type: "button", "aria-pressed": "false", hidden: true }, "Leapfrog");
  exports = new Exports(
    this.canvas,
    () => this.name(),
    () => this.send("program", { frames: Math.max(1, this.frames) })
  );
  history = noHistory();
  frames = 0;
  start = 0;
  asked = 0;
  isRunning = false;
  warning = "";
  built = "";
  restartSoon = debounced(250, () => this.restart());
  checkSoon = debounced(700, () => this.check());
  /** Build the form again and start over, after a change of what fields there are. */
  rebuild() {
    const update = () => {
      delete this.panel.title;
      this.title.textContent = this.name();
      this.update();
    };
    const rebuild2 = () => {
      delete this.panel.title;
      this.rebuild();
      this.update();
    };
    const hadFocus = this.form.contains(document.activeElement) ? document.activeElement?.id : void 0;
    this.form.replaceChildren(controls(this.panel, this.catalogue, update, rebuild2));
    if (hadFocus !== void 0) this.form.querySelector("select")?.focus();
    this.title.textContent = this.name();
  }
  name() {
    return panelName(this.panel);
  }
  /** After a change: a new run from the seed, and a new verdict. */
  update() {
    this.changed();
    this.clearErrors();
    this.verdict.waiting();
    this.recipe.replaceChildren();
    if (this.panel.recipe === true) this.askRecipe();
    this.restartSoon();
    this.checkSoon();
  }
  restart() {
    this.start = ++starts;
    this.frames = 0;
    this.history = noHistory();
    if (this.drawn !== void 0) {
      this.drawn.path = [];
      delete this.drawn.histogram;
      delete this.drawn.cloud;
      delete this.drawn.trajectory;
    }
    this.madeOf.textContent = "building…";
    this.verdict.of(void 0);
    this.send("start", { start: this.start });
  }
  check() {
    this.verdict.waiting();
    this.send("check");
  }
  /** All that is shown, after the connection was opened or the page built again. */
  begin() {
    this.restart();
    this.check();
    if (this.panel.recipe === true) this.askRecipe();
  }
  run(isRunning2) {
    const starts2 = isRunning2 && !this.isRunning;
    this.isRunning = isRunning2;
    if (starts2 && this.drawn !== void 0) this.next();
  }
  receive(message) {
    if (message.start !== void 0 && message.start !== this.start) return;
    if (message.kind === "error") this.showError(message);
    else if (message.kind === "started") this.started(message);
    else if (message.kind === "frame") this.frame(message);
    else if (message.asked !== this.asked && message.kind === "check") return;
    else if (message.kind === "check") this.verdict.show(message.report, String(message.text));
    else if (message.kind === "recipe") this.showRecipe(message);
    else if (message.kind === "residual") this.showHeat(message, "Size of the residual |R|, over some momenta", false);
    else if (message.kind === "complete") this.showHeat(message, "Q[x, y] behind the drift", true);
    else if (message.kind === "program") this.showProgram(String(message.program));
  }
  send(what, more = {}) {
    if (what === "check") this.asked += 1;
    this.wire.send({ do: what, id: this.id, asked: this.asked, design: designOf(this.state, this.panel), ...more });
  }
  started(message) {
    const truth = message.arrays?.truth;
    if (truth === void 0) return;
    this.drawn = {
      box: message.box,
      truth: { size: truth.shape[0] ?? 0, values: truth.data },
      path: []
    };
    this.built = String(message.sampler);
    this.madeOf.textContent = "compiling the first steps…";
    this.trajectoryButton.hidden = message.trajectories !== true;
    if (this.trajectoryButton.hidden && this.view === "trajectory") this.show("cloud");
    this.warning = message.bounded === false ? "exp(-U) does not decay within 64 of the origin: it may have no integral." : "";
    this.error.textContent = this.warning;
    this.redraw();
    this.next();
  }
  next() {
    this.wire.send({ do: "next", id: this.id, trajectory: this.view === "trajectory" });
  }
  frame(message) {
    const { drawn } = this;
    const { cloud, path, histogram, trajectory } = message.arrays ?? {};
    if (drawn === void 0 || cloud === void 0 || path === void 0 || histogram === void 0) return;
    this.frames += 1;
    this.madeOf.textContent = this.built;
    drawn.cloud = cloud.data;
    if (trajectory !== void 0) drawn.trajectory = { rows: trajectory.data, chosen: Number(message.chosen) };
    drawn.path = [...drawn.path, ...path.data].slice(-2 * PATH);
    if (Number(message.number) > 0) drawn.histogram = { size: drawn.truth.size, values: histogram.data };
    for (const [name, values] of Object.entries(this.history)) {
      const value = message[name];
      values.push(typeof value === "number" ? value : null);
      if (values.length > HISTORY) values.shift();
    }
    const reading = performance.now() - message.arrived;
    requestAnimationFrame(() => {
      if (message.start !== this.start) return;
      const before = performance.now();
      this.redraw();
      this.showNumbers(message);
      this.element.dataset.work = (reading + performance.now() - before).toFixed(2);
      this.exports.drawn();
      if (this.isRunning && message.over !== true) this.next();
    });
  }
  redraw() {
    if (this.drawn === void 0) return;
    draw(this.canvas, this.drawn, this.view);
    const { kl, chance, effective, kinetic, thermostat, acceptance } = this.history;
    chart(this.charts[0], "KL from the target, and how much of it is chance", [
      { name: "KL", colour: "path", values: kl },
      { name: "chance", colour: "soft", values: chance, dashed: true }
    ], true);
    chart(this.charts[1], "effective draws", [{ name: "eff.", colour: "cloud", values: effective }], false);
    const lines2 = [
      { name: "T", colour: "cloud", values: kinetic },
      { name: "ξ", colour: "path", values: thermostat },
      { name: "acc.", colour: "good", values: acceptance }
    ].filter((line) => line.values.some((value) => value !== null));
    this.charts[2].hidden = lines2.length === 0;
    const titles = { T: "kinetic temperature", ξ: "thermostat", "acc.": "acceptance" };
    const title = lines2.map((line) => titles[line.name]).join(", ");
    if (lines2.length > 0) chart(this.charts[2], title, lines2, false);
  }
  showNumbers(message) {
    const number = (name) => {
      const value = message[name];
      return typeof value === "number" ? value : void 0;
    };
    const rows = [["steps", short(number("step") ?? 0)]];
    const kl = number("kl");
    const chance = number("chance");
    rows.push(["KL from the target", kl === void 0 ? "burn-in" : short(kl), chance === void 0 ? "" : `chance ${short(chance)}`]);
    const effective = number("effective");
    rows.push(["effective draws", effective === void 0 ? "–" : short(effective), `of ${short(number("number") ?? 0)}`]);
    const acceptance = number("acceptance");
    if (acceptance !== void 0) rows.push(["acceptance", short(acceptance)]);
    const kinetic = number("kinetic");
    if (kinetic !== void 0) rows.push(["kinetic temperature", short(kinetic)]);
    const thermostat = number("thermostat");
    if (thermostat !== void 0) rows.push(["thermostat ξ", short(thermostat)]);
    const lost = number("lost") ?? 0;
    this.error.textContent = lost > 0 ? `${lost} of ${this.state.run.chains} chains left the finite numbers: the step size is too large here.` : this.warning;
    this.verdict.of(lost > 0 ? "lost" : message.far === true ? "far" : void 0);
    this.numbers.replaceChildren(
      ...rows.map(
        ([name, value, more]) => h("div", {}, h("dt", {}, name), h("dd", {}, value, ...more ? [" ", h("small", {}, more)] : []))
      )
    );
    if (this.frames % 20 === 1) {
      this.canvas.setAttribute("aria-label", `draws after ${short(number("step") ?? 0)} steps; KL ${kl === void 0 ? "not known yet" : short(kl)}`);
    }
    this.element.dataset.step = String(number("step") ?? 0);
    if (kl !== void 0) this.element.dataset.kl = String(kl);
  }
  clearErrors() {
    this.error.textContent = "";
    for (const element of this.element.querySelectorAll("[aria-invalid]")) element.removeAttribute("aria-invalid");
    for (const element of this.form.querySelectorAll(".error")) element.textContent = "";
  }
  /** At its field where it has one, else at the top of the panel. */
  showError(message) {
    const part = String(message.part ?? "");
    const text = String(message.message);
    if (message.about === "residual" || message.about === "complete") {
      this.recipe.append(h("p", { class: "error" }, text));
      return;
    }
    this.madeOf.textContent = "";
    const input = this.form.querySelector(`[data-part="${CSS.escape(part)}"]`);
    const place = (input && document.getElementById(`${input.id}-error`)) ?? this.form.querySelector(`[data-for="${CSS.escape(part.split(".").slice(0, 2).join("."))}"]`);
    input?.setAttribute("aria-invalid", "true");
    (place ?? this.error).textContent = text;
    this.verdict.error(place === null || place === void 0 ? "" : text);
    const formula = document.querySelector('[data-part="target.formula"]');
    if (part.startsWith("target")) formula?.dispatchEvent(new CustomEvent("targeterror", { detail: { part, text }, bubbles: true }));
  }
  // The recipe ---------------------------------------------------------------------------------------------
  askRecipe() {
    this.recipe.replaceChildren(h("p", { class: "busy" }, "deriving Γ"));
    this.send("recipe");
  }
  showRecipe(message) {
    const math = message.equations.filter(Boolean).map((equation) => {
      const box = h("div", { class: "math", tabindex: 0, role: "group", "aria-label": "equation" });
      box.innerHTML = equation;
      return box;
    });
    const letters = message.letters.join(", ");
    this.recipe.replaceChildren(
      ...letters ? [h("p", { class: "legend" }, `Rows and columns: ${letters.replace("s", "ξ")}.`)] : [],
      ...math,
      ...message.note ? [h("p", {}, String(message.note))] : []
    );
    const buttons = h("div", { class: "row" });
    buttons.append(h("button", { type: "button", onclick: () => this.send("residual") }, "Show the residual"));
    const { sampler } = this.panel;
    if (sampler.kind === "drift" && sampler.size === 2) {
      buttons.append(h("button", { type: "button", onclick: () => this.send("complete") }, "Complete: recover Q"));
    }
    const typed = message.typed;
    if (typed !== void 0 && sampler.kind !== "typed") {
      const edit = () => {
        this.panel.sampler = { kind: "typed", ...typed };
        delete this.panel.title;
        this.rebuild();
        this.update();
      };
      buttons.append(h("button", { type: "button", onclick: edit }, "Edit these as D, Q, H"));
    }
    this.recipe.append(buttons);
  }
  showHeat(message, what, isSigned) {
    const values = message.arrays?.values;
    if (values === void 0) return;
    for (const old of this.recipe.querySelectorAll("figure, pre")) old.remove();
    const map = heatMap(values.data, values.shape[0] ?? 0, message.box, Number(message.largest), Number(message.scale ?? message.largest), what, isSigned);
    this.recipe.append(map);
    if (message.kind === "complete") this.recipe.append(h("pre", {}, String(message.text)));
  }
  // Views and the program ----------------------------------------------------------------------------------
  views() {
    const button = (label) => h("button", { type: "button" }, label);
    const buttons = [
      ["cloud", button("Cloud")],
      ["density", button("Density")],
      ["difference", button("Draws − truth")],
      ["trajectory", this.trajectoryButton]
    ];
    for (const [view, element] of buttons) {
      element.dataset.view = view;
      element.setAttribute("aria-pressed", String(view === this.view));
      element.addEventListener("click", () => this.show(view));
    }
    return h("div", { class: "row", role: "group", "aria-label": "What is shown" }, ...buttons.map(([, element]) => element));
  }
  show(view) {
    this.view = this.panel.view = view;
    this.changed();
    for (const button of this.element.querySelectorAll("[data-view]")) {
      button.setAttribute("aria-pressed", String(button.dataset.view === view));
    }
    if (view === "trajectory" && this.drawn !== void 0 && !this.isRunning) this.next();
    this.redraw();
  }
  showProgram(program) {
    this.element.querySelector(".program")?.remove();
    const text = h("pre", { class: "program", tabindex: 0, "aria-label": "the program" }, program);
    this.element.append(text);
    const said = h("p", { class: "legend", role: "status" });
    text.before(said);
    navigator.clipboard.writeText(program).then(
      () => said.textContent = "Copied. The program gives the same draws, bit for bit.",
      () => said.textContent = "The browser does not allow copying: select the text below."
    );
    window.setTimeout(() => said.remove(), 8e3);
  }
};

// src/theme.ts
var prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
function themed(button, chosen, choose) {
  const apply = () => {
    const theme = chosen() ?? (prefersDark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    for (const canvas of document.querySelectorAll("canvas")) canvas.dispatchEvent(new Event("themechange"));
  };
  button.addEventListener("click", () => {
    choose(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    apply();
  });
  prefersDark.addEventListener("change", apply);
  return apply;
}

// src/wire.ts
function unpack(buffer) {
  const arrived = performance.now();
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  let start = 4 + length;
  for (const [name, shape] of header.arrays) {
    const size = shape.reduce((a, b) => a * b, 1);
    arrays[name] = { shape, data: new Float32Array(buffer, start, size) };
    start += 4 * size;
  }
  return { ...header, arrays, arrived };
}
var Wire = class {
  constructor(received, opened, lost) {
    this.received = received;
    this.opened = opened;
    this.lost = lost;
    this.connect();
  }
  socket;
  wait = 500;
  send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
  connect() {
    const address = new URL("socket", window.location.href);
    address.protocol = "ws:";
    address.hash = "";
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      this.wait = 500;
      this.opened();
    });
    socket.addEventListener("message", (event) => {
      const data = event.data;
      this.received(data instanceof ArrayBuffer ? unpack(data) : { ...JSON.parse(String(data)), arrived: performance.now() });
    });
    socket.addEventListener("close", () => {
      this.lost();
      window.setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(2 * this.wait, 8e3);
    });
    this.socket = socket;
  }
};

// src/main.ts
var response = await fetch("catalogue.json");
var catalogue = await response.json();
var state = fromHash(window.location.hash);
var views = [];
var isRunning = false;
var isConnected = false;
var connection = byId("connection");
var panels = byId("panels");
var side = byId("side");
var wire = new Wire(
  (message) => views[message.id]?.receive(message),
  () => {
    isConnected = true;
    connection.textContent = "connected to this machine";
    connection.classList.remove("lost");
    for (const view of views) view.begin();
  },
  () => {
    isConnected = false;
    connection.textContent = "the connection is lost; reconnecting. Is `fokker studio` still running?";
    connection.classList.add("lost");
  }
);
var remember = debounced(150, () => window.history.replaceState(null, "", `#${toHash(state)}`));
var applyTheme = themed(
  byId("theme"),
  () => state.theme,
  (theme) => {
    state.theme = theme;
    remember();
  }
);
var play = h("button", { type: "button", class: "main", "aria-keyshortcuts": "Space" }, "Run");
function setRunning(next) {
  isRunning = next;
  play.textContent = isRunning ? "Pause" : "Run";
  for (const view of views) view.run(isRunning);
}
function restart() {
  for (const view of views) view.restart();
}
play.addEventListener("click", () => setRunning(!isRunning));
document.addEventListener("keydown", (event) => {
  const target = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA|BUTTON|SUMMARY)$/.test(target.tagName)) return;
  if (event.key === " ") setRunning(!isRunning);
  else if (event.key === "r") restart();
  else return;
  event.preventDefault();
});
function updateAll() {
  for (const view of views) view.update();
}
function targetCard() {
  const titles = Object.entries(catalogue.targets).map(([key, row]) => [key, row.title]);
  const typed = state.target.formula;
  const { x, y, spread } = { ...START, ...state.target };
  const start = { x, y, spread };
  const use = (target) => {
    state.target = target;
    starts2.hidden = target.formula === void 0;
    for (const element of card.querySelectorAll("[aria-invalid]")) element.removeAttribute("aria-invalid");
    for (const error of card.querySelectorAll(".error")) error.textContent = "";
    updateAll();
  };
  const input = formulaField(typed ?? catalogue.targets[state.target.name ?? "valley"]?.formula ?? "", (formula2) => {
    chosen.value = "";
    use({ formula: formula2, ...start });
  });
  const chosen = menu([...titles, ["", "typed in below"]], typed === void 0 ? state.target.name ?? "valley" : "", (name) => {
    if (name !== "") setFormula(input, catalogue.targets[name]?.formula ?? "");
    use(name === "" ? { formula: input.value, ...start } : { name });
  });
  const formula = field("U(x, y); the target is exp(−U)", input, "target.formula");
  const startField = (label, key, low, high) => {
    const number = h("input", { type: "number", min: low, max: high, step: "any", value: start[key] });
    number.addEventListener("change", () => {
      if (number.value === "") number.value = String(START[key]);
      start[key] = Number(number.value);
      use({ formula: input.value, ...start });
    });
    return field(label, number, `target.${key}`);
  };
  const starts2 = h(
    "div",
    { role: "group", "aria-label": "Where chains start", hidden: typed === void 0 },
    h("div", { class: "pair" }, startField("Start x", "x", -100, 100), startField("Start y", "y", -100, 100)),
    startField("Spread of the starts", "spread", 0, 20),
    h("p", { class: "legend" }, "The spread is the standard deviation around the start, in x and in y.")
  );
  const help = `Write x, y, numbers, + − * / ^ and ${catalogue.functions.join(", ")}.`;
  const choice = field("Choose", chosen, "target.name");
  const card = h("section", { class: "card" }, h("h2", {}, "Target"), choice, formula, h("p", { class: "legend" }, help), starts2);
  card.addEventListener("targeterror", (event) => {
    const { part, text } = event.detail;
    const wrong = card.querySelector(`[data-part="${CSS.escape(part)}"]`) ?? input;
    wrong.setAttribute("aria-invalid", "true");
    const error = document.getElementById(`${wrong.id}-error`);
    if (error !== null) error.textContent = text;
  });
  return card;
}
function runCard() {
  const numberField = (label, key, low, high) => {
    const input = h("input", { type: "number", min: low, max: high, value: state.run[key] });
    input.addEventListener("change", () => {
      state.run[key] = Math.max(low, Math.min(high, Math.round(Number(input.value) || 0)));
      input.value = String(state.run[key]);
      remember();
      restart();
    });
    return field(label, input, `run.${key}`);
  };
  const { chains, steps, runs } = catalogue.limits;
  const add = h("button", { type: "button" }, "Add a sampler");
  add.addEventListener("click", () => {
    if (state.panels.length >= runs) return;
    state.panels.push(structuredClone(state.panels.at(-1) ?? newPanel()));
    rebuild();
  });
  add.disabled = state.panels.length >= runs;
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Run"),
    h("div", { class: "row" }, play, h("button", { type: "button", onclick: restart, "aria-keyshortcuts": "r" }, "Start again"), add),
    h("p", { class: "legend" }, h("kbd", {}, "space"), " runs and pauses, ", h("kbd", {}, "r"), " starts again."),
    h(
      "div",
      { class: "pair" },
      numberField("Seed", "seed", 0, 2 ** 31 - 1),
      numberField("Chains", "chains", 1, chains),
      numberField("Steps per frame", "steps", 1, steps),
      numberField("Burn-in", "burn_in", 0, 1e6)
    )
  );
}
function storyCard() {
  const text = h("div", { class: "story" });
  const titles = catalogue.stories.map((story, k) => [String(k), story.title]);
  const chosen = menu([["", "choose one"], ...titles], "", (value) => {
    const story = catalogue.stories[Number(value)];
    if (value === "" || story === void 0) return;
    text.replaceChildren(h("h3", {}, story.title), h("p", {}, story.text));
    state.target = story.designs[0]?.target ?? state.target;
    state.panels = story.designs.map((design) => {
      const { title, sampler, metric, gamma, drag, metropolis, settings } = design;
      const parts = { title, sampler, metric, gamma, drag, metropolis, settings };
      const given = Object.entries(parts).filter(([, part]) => part !== void 0);
      return newPanel(structuredClone(Object.fromEntries(given)));
    });
    rebuild([text, chosen.value]);
    setRunning(true);
  });
  return h("section", { class: "card" }, h("h2", {}, "Stories"), field("Samplers that went wrong", chosen), text);
}
function rebuild(story) {
  const cards = [targetCard(), runCard(), storyCard()];
  if (story !== void 0) {
    const [text, value] = story;
    const last = cards[2];
    last.querySelector(".story").replaceWith(text);
    last.querySelector("select").value = value;
  }
  side.replaceChildren(...cards);
  for (let id = state.panels.length; id < views.length; id++) wire.send({ do: "stop", id });
  views = state.panels.map((panel, id) => {
    const remove = () => {
      state.panels.splice(id, 1);
      rebuild();
    };
    return new PanelView(id, state, panel, catalogue, wire, remember, state.panels.length > 1 ? remove : void 0);
  });
  panels.replaceChildren(...views.map((view) => view.element));
  remember();
  applyTheme();
  for (const view of views) view.run(isRunning);
  if (isConnected) {
    for (const view of views) view.begin();
  }
}
window.addEventListener("hashchange", () => {
  state = fromHash(window.location.hash);
  rebuild();
});
rebuild();
