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
function menu(options, chosen3, change) {
  const select = h("select");
  for (const [value, title] of options) {
    select.append(h("option", { value, selected: value === chosen3 }, title));
  }
  select.addEventListener("change", () => change(select.value));
  return select;
}
function rounded(value, step) {
  const decimals = -Math.floor(Math.log10(step));
  if (!Number.isFinite(value) || !Number.isFinite(decimals) || Math.abs(value) >= 1e6) return short(value);
  if (decimals <= 7) return value.toFixed(Math.max(0, decimals)).replace(/^-(?=[0.]*$)/, "");
  const digits = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value))) + decimals;
  return value.toExponential(Math.min(15, Math.max(0, digits)));
}
function short(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  if (size >= 1e4) return `${(value / 1e3).toPrecision(3)} k`;
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return size !== 0 && size < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

// src/theme.ts
var prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
function themed(button, chosen3, choose) {
  const apply = () => {
    const theme2 = chosen3() ?? (prefersDark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme2;
    button.textContent = theme2 === "dark" ? "Light" : "Dark";
    for (const canvas of document.querySelectorAll("canvas")) canvas.dispatchEvent(new Event("themechange"));
  };
  button.addEventListener("click", () => {
    choose(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    apply();
  });
  prefersDark.addEventListener("change", apply);
  return apply;
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
function tickText(value, all = [value]) {
  const most = Math.max(...all.map(Math.abs));
  if (value !== 0 && (most >= 1e5 || most < 1e-3)) return Number(value.toPrecision(6)).toExponential().replace("e+", "e");
  return Math.abs(value) >= 1e3 ? value.toLocaleString("en") : String(value);
}

// src/colours.ts
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
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

// src/report/marks.ts
function range(mark, axis) {
  const along = mark.along ?? "y";
  const parts = [];
  if (mark.kind === "rule") return mark.along === axis && mark.at !== void 0 ? [mark.at, mark.at] : [Infinity, -Infinity];
  const own = axis === "x" ? mark.x : mark.y;
  if (own !== void 0) parts.push(own);
  if (along === axis) {
    for (const end of [mark.low, mark.high]) if (end !== void 0) parts.push(end);
  }
  if (mark.kind === "bars" && axis === "y") parts.push([0]);
  if (mark.kind === "lengths") parts.push(axis === "x" ? [0] : [0.4 - (mark.y?.length ?? 1), 0.6]);
  let [low, high] = [Infinity, -Infinity];
  for (const part of parts) {
    for (let k = 0; k < part.length; k++) {
      const value = part[k];
      if (Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
    }
  }
  return [low, high];
}
function drawMark(context, mark, scales) {
  context.save();
  context.strokeStyle = context.fillStyle = colour(mark.colour);
  context.globalAlpha = mark.opacity ?? 1;
  context.lineWidth = mark.width ?? 1.4;
  context.lineJoin = "round";
  if (mark.dashed === true) context.setLineDash([5, 4]);
  DRAW[mark.kind](context, mark, scales);
  context.restore();
}
var DRAW = {
  line: (context, { x, y }, scales) => {
    context.beginPath();
    let isDown = false;
    for (let k = 0; k < (y?.length ?? 0); k++) {
      const [px, py] = [scales.x(x?.[k] ?? k), scales.y(y[k])];
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
      const [px, py] = [scales.x(x?.[k] ?? k), scales.y(y[k])];
      context.beginPath();
      context.arc(px, py, radiusOf(mark, k, scales), 0, 2 * Math.PI);
      context.fill();
      if (size !== void 0) {
        context.globalAlpha = 1;
        context.stroke();
        context.globalAlpha = mark.opacity ?? 1;
      }
    }
    if (text !== void 0) drawTexts(context, mark, scales);
  },
  bars: (context, { x, y }, scales) => {
    for (let k = 0; k < (y?.length ?? 0); k++) {
      const [left, right] = [scales.x(x?.[k] ?? k), scales.x(x?.[k + 1] ?? k + 1)];
      const top = scales.y(y[k]);
      context.fillRect(left, top, Math.max(0.5, right - left - 0.5), scales.y(0) - top);
    }
  },
  stairs: (context, { x, y }, scales) => {
    context.beginPath();
    for (let k = 0; k < (y?.length ?? 0); k++) {
      const height = scales.y(y[k]);
      context.lineTo(scales.x(x?.[k] ?? k), height);
      context.lineTo(scales.x(x?.[k + 1] ?? k + 1), height);
    }
    context.stroke();
  },
  lengths: (context, { x, y }, scales) => {
    const tall = Math.abs(scales.y(1) - scales.y(0)) * 0.66;
    for (let k = 0; k < (y?.length ?? 0); k++) {
      context.fillRect(scales.x(0), scales.y(y[k]) - tall / 2, scales.x(x?.[k] ?? 0) - scales.x(0), tall);
    }
  },
  intervals: (context, { x, y, low, high, along }, scales) => {
    context.beginPath();
    for (let k = 0; k < (low?.length ?? 0); k++) {
      if (along === "x") {
        const place = scales.y(y?.[k] ?? k);
        context.moveTo(scales.x(low[k]), place);
        context.lineTo(scales.x(high[k]), place);
      } else {
        const place = scales.x(x?.[k] ?? k);
        context.moveTo(place, scales.y(low[k]));
        context.lineTo(place, scales.y(high[k]));
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
  }
};
function drawTexts(context, mark, scales) {
  const { x, y, size, text } = mark;
  const order = [...(text ?? []).keys()].sort((a, b) => (size?.[b] ?? 0) - (size?.[a] ?? 0));
  const circles = order.map((k) => [scales.x(x?.[k] ?? k), scales.y(y[k]), radiusOf(mark, k, scales)]);
  const taken = [];
  const [right, bottom] = [scales.left + scales.width, scales.top + scales.height];
  context.globalAlpha = 1;
  context.fillStyle = colour("text");
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  order.forEach((k, number) => {
    const words2 = text[k];
    const wide = context.measureText(words2).width;
    const [px, py, radius] = circles[number];
    const away = radius + 4;
    const places = [[px + away, py], [px - away - wide, py], [px - wide / 2, py - away - 5], [px - wide / 2, py + away + 5]];
    const isFree = ([a, b]) => a >= scales.left && a + wide <= right && b >= scales.top + 5 && b <= bottom - 5 && !taken.some(([c, d, w]) => Math.abs(b - d) < 12 && a < c + w + 4 && c < a + wide + 4) && !circles.some(([cx, cy, r]) => Math.hypot(cx - Math.max(a, Math.min(cx, a + wide)), cy - Math.max(b - 5, Math.min(cy, b + 5))) < r);
    const place = places.find(isFree);
    if (place === void 0) return;
    taken.push([...place, wide]);
    context.fillText(words2, ...place);
  });
}
function radiusOf({ size, width, y }, k, scales) {
  const number = y?.length ?? 0;
  const plain = number > 2e3 ? 1.1 : number > 300 ? 1.6 : 2.6;
  return size === void 0 ? width ?? plain : Math.sqrt(size[k] ?? 0) * 0.06 * Math.min(scales.width, scales.height) + 2;
}

// src/report/numbers.ts
var MISSING = 65535;
function bytesOf(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let k = 0; k < bytes.length; k++) bytes[k] = binary.charCodeAt(k);
  return bytes;
}
function floats(text) {
  return new Float32Array(bytesOf(text).buffer);
}
function words(text) {
  return new Uint16Array(bytesOf(text).buffer);
}
function between(word, low, high) {
  return word === MISSING ? NaN : low + word / (MISSING - 1) * (high - low);
}
function unpacked(packed) {
  if (Array.isArray(packed)) return Float64Array.from(packed, (value) => value ?? NaN);
  if ("f32" in packed) return Float64Array.from(floats(packed.f32));
  return Float64Array.from(words(packed.u16), (word) => between(word, packed.low, packed.high));
}

// src/report/figure.ts
var zooms = /* @__PURE__ */ new Map();
var views = /* @__PURE__ */ new Map();
var ROOM = { left: 52, right: 10, top: 8, bottom: 36 };
var LINE = 15;
var ROWS = 60;
function unpackedFigure(text) {
  const figure = JSON.parse(text);
  for (const mark of figure.marks) {
    for (const name of ["x", "y", "low", "high", "size"]) {
      if (mark[name] !== void 0) mark[name] = unpacked(mark[name]);
    }
  }
  return figure;
}
function viewOf(key) {
  const view = views.get(key) ?? new FigureView(key);
  views.set(key, view);
  return view;
}
var FigureView = class {
  constructor(key) {
    this.key = key;
    this.element.append(this.caption, this.canvas, h("div", { class: "under" }, this.place, this.reset));
    this.reset.addEventListener("click", () => this.zoom(void 0));
    this.canvas.addEventListener("dblclick", () => this.zoom(void 0));
    this.canvas.addEventListener("keydown", (event) => this.press(event));
    this.followPointer();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.canvas.addEventListener("themechange", () => this.draw());
  }
  element = h("figure", { class: "drawn" });
  canvas = h("canvas", { tabindex: 0, role: "img" });
  place = h("output", { class: "place" });
  reset = h("button", { type: "button", class: "reset", hidden: true }, "Whole picture");
  caption = h("figcaption");
  figure;
  whole = [0, 1, 0, 1];
  drag;
  scales;
  show(figure) {
    this.figure = figure;
    this.whole = wholeOf(figure);
    const isTall = (figure.y.names?.length ?? 0) > 12;
    this.element.classList.toggle("map", figure.isMap === true);
    this.element.classList.toggle("tall", isTall);
    const named = figure.marks.filter((mark) => mark.name !== void 0);
    const keys = named.map((mark) => {
      const swatch = h("i", { class: mark.kind === "points" ? "dot" : mark.kind === "lengths" || mark.kind === "bars" ? "block" : "" });
      if (swatch.className === "block") swatch.style.opacity = String(mark.opacity ?? 1);
      swatch.style.background = `var(--${mark.colour})`;
      return h("span", { class: "key" }, swatch, mark.name ?? "");
    });
    const opened = this.caption.querySelector("details")?.open ?? false;
    const numbers = h("details", {}, h("summary", {}, "Numbers"));
    numbers.addEventListener("toggle", () => {
      if (numbers.open && numbers.childElementCount === 1) numbers.append(tableOf(figure));
    });
    this.caption.replaceChildren(h("h3", {}, figure.title), h("div", { class: "keys" }, ...keys), h("p", { class: "legend" }, figure.text), numbers);
    numbers.open = opened;
    this.canvas.setAttribute("aria-label", `${figure.title}. ${figure.text} Drag to zoom, double click for the whole; keys: + − arrows 0.`);
    this.draw();
  }
  get box() {
    return zooms.get(this.key) ?? this.whole;
  }
  zoom(box) {
    if (box === void 0) zooms.delete(this.key);
    else if (box[1] > box[0] && box[3] > box[2]) zooms.set(this.key, box);
    this.draw();
  }
  draw() {
    const { figure } = this;
    if (figure === void 0 || !this.canvas.isConnected || this.canvas.clientWidth === 0) return;
    const { context, width, height } = fitted(this.canvas);
    this.reset.hidden = !zooms.has(this.key);
    context.font = "11px system-ui, sans-serif";
    const names = figure.y.names ?? [];
    const widest = Math.max(0, ...names.map((name) => context.measureText(name).width));
    const bottom = figure.isMap ? 4 : figure.x.label === "" ? ROOM.bottom - LINE : ROOM.bottom;
    const tall = height - ROOM.top - bottom;
    const numbers = Math.max(0, ...yTicks(figure, this.box, tall).map((value, _, all) => context.measureText(tickText(value, all)).width));
    const beside = Math.max(ROOM.left, numbers + 7 + (figure.y.label === "" ? 0 : LINE + 2));
    const left = figure.isMap ? 4 : names.length > 0 ? Math.min(0.45 * width, widest + 10) : beside;
    const inner = { left, top: ROOM.top, width: width - left - ROOM.right, height: tall };
    const box = figure.isMap ? squared(this.box, inner) : this.box;
    const to = (value, log) => log ? Math.log10(value) : value;
    this.scales = {
      ...inner,
      x: (value) => inner.left + (to(value, figure.x.log) - box[0]) / (box[1] - box[0]) * inner.width,
      y: (value) => inner.top + (1 - (to(value, figure.y.log) - box[2]) / (box[3] - box[2])) * inner.height
    };
    if (!figure.isMap) drawAxes(context, figure, box, this.scales);
    context.save();
    context.beginPath();
    context.rect(inner.left, inner.top, inner.width, inner.height);
    context.clip();
    for (const mark of figure.marks) drawMark(context, mark, this.scales);
    context.restore();
    context.strokeStyle = colour("line");
    context.strokeRect(inner.left, inner.top, inner.width, inner.height);
    if (this.drag !== void 0) {
      const [x, y, wide, tall2] = this.selected();
      context.fillStyle = colour("accent");
      context.globalAlpha = 0.18;
      context.fillRect(x, y, wide, tall2);
      context.globalAlpha = 1;
    }
    this.element.dataset.drawn = String(figure.marks.length);
  }
  /** The rectangle of the pointer; one that is flat is taken over the whole of the other axis. */
  selected() {
    const { from, to } = this.drag;
    const { left, top, width, height } = this.scales;
    let [x, y] = [Math.min(from[0], to[0]), Math.min(from[1], to[1])];
    let [wide, tall] = [Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1])];
    if (this.figure?.isMap !== true) {
      if (tall < 12) [y, tall] = [top, height];
      else if (wide < 12) [x, wide] = [left, width];
    }
    return [x, y, wide, tall];
  }
  /** The values at a place of the canvas, as logarithms where the axis has them. */
  at([x, y]) {
    const { left, top, width, height } = this.scales;
    const box = this.figure?.isMap ? squared(this.box, this.scales) : this.box;
    return [box[0] + (x - left) / width * (box[1] - box[0]), box[2] + (1 - (y - top) / height) * (box[3] - box[2])];
  }
  followPointer() {
    const here = (event) => [event.offsetX, event.offsetY];
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || this.scales === void 0) return;
      this.drag = { from: here(event), to: here(event) };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (this.scales === void 0 || this.figure === void 0) return;
      const [x, y] = this.at(here(event));
      const [left, right, bottom, top] = this.box;
      const text = (value, axis, wide) => axis.names?.[-Math.round(value)] ?? (axis.log ? short(10 ** value) : rounded(value, wide / 300));
      const [atX, atY] = [text(x, this.figure.x, right - left), text(y, this.figure.y, top - bottom)];
      this.place.textContent = this.figure.isMap ? "" : `${this.figure.x.label || "x"} ${atX}, ${this.figure.y.label || "y"} ${atY}`;
      if (this.drag === void 0) return;
      this.drag.to = here(event);
      this.draw();
    });
    this.canvas.addEventListener("pointerleave", () => this.place.textContent = "");
    this.canvas.addEventListener("pointercancel", () => {
      this.drag = void 0;
      this.draw();
    });
    this.canvas.addEventListener("pointerup", () => {
      if (this.drag === void 0) return;
      const { from, to } = this.drag;
      const isClick = Math.hypot(to[0] - from[0], to[1] - from[1]) < 6;
      const [x, y, wide, tall] = this.selected();
      this.drag = void 0;
      if (isClick) this.draw();
      else {
        const [low, high] = [this.at([x, y + tall]), this.at([x + wide, y])];
        this.zoom([low[0], high[0], low[1], high[1]]);
      }
    });
  }
  press(event) {
    const [left, right, bottom, top] = this.box;
    const [wide, tall] = [right - left, top - bottom];
    const around = (factor) => [left + factor * wide / 2, right - factor * wide / 2, bottom + factor * tall / 2, top - factor * tall / 2];
    const moved = (x, y) => [left + x * wide, right + x * wide, bottom + y * tall, top + y * tall];
    const boxes = {
      "+": () => around(0.3),
      "=": () => around(0.3),
      "-": () => around(-0.4),
      "0": () => void 0,
      Escape: () => void 0,
      ArrowLeft: () => moved(-0.2, 0),
      ArrowRight: () => moved(0.2, 0),
      ArrowUp: () => moved(0, 0.2),
      ArrowDown: () => moved(0, -0.2)
    };
    const box = boxes[event.key];
    if (box === void 0 || event.ctrlKey || event.metaKey || event.altKey || event.key.startsWith("Arrow") && !zooms.has(this.key)) return;
    event.preventDefault();
    this.zoom(box());
  }
};
function wholeOf(figure) {
  const ends = (axis) => {
    const log = figure[axis].log === true;
    let [low, high] = [Infinity, -Infinity];
    for (const mark of figure.marks) {
      const [a, b] = range(log ? positive(mark, axis) : mark, axis);
      [low, high] = [Math.min(low, a), Math.max(high, b)];
    }
    if (log) [low, high] = [Math.log10(low), Math.log10(high)];
    if (!Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
    const least = (log ? 0.1 : 1e-3 * Math.max(Math.abs(low), Math.abs(high))) || 1;
    if (high - low < least) [low, high] = [(low + high - least) / 2, (low + high + least) / 2];
    const isBare = figure.marks.some((mark) => mark.kind === "bars" && axis === "y" || mark.kind === "lengths" && axis === "x");
    const hasAreas = figure.isMap === true || figure.marks.some((mark) => mark.kind === "points" && mark.size !== void 0);
    const margin = (hasAreas ? 0.1 : axis === "x" ? 0.01 : 0.05) * (high - low);
    if (figure[axis].names !== void 0) return [Math.min(low, 0.4 - figure[axis].names.length), Math.max(high, 0.6)];
    return [isBare && low === 0 ? 0 : low - margin, high + margin];
  };
  return [...ends("x"), ...ends("y")];
}
function positive(mark, axis) {
  const only = (part) => part === void 0 ? void 0 : Array.from(part).filter((value) => value > 0);
  const along = (mark.along ?? "y") === axis;
  return { ...mark, [axis]: only(mark[axis]), ...along ? { low: only(mark.low), high: only(mark.high) } : {} };
}
function squared([left, right, bottom, top], { width, height }) {
  const unit = Math.max((right - left) / width, (top - bottom) / height);
  const [x, y] = [(left + right) / 2, (bottom + top) / 2];
  return [x - unit * width / 2, x + unit * width / 2, y - unit * height / 2, y + unit * height / 2];
}
function yTicks(figure, box, height) {
  if (figure.isMap || figure.y.names !== void 0) return [];
  return figure.y.log ? logTicks(box[2], box[3]) : ticks(box[2], box[3], height < 140 ? 3 : 5);
}
function drawAxes(context, figure, box, scales) {
  const { left, top, width, height } = scales;
  const few = width < 320 ? 3 : 5;
  context.fillStyle = colour("soft");
  context.strokeStyle = colour("line");
  context.lineWidth = 1;
  context.textAlign = "center";
  context.textBaseline = "top";
  const xTicks = figure.x.log ? logTicks(box[0], box[1]) : ticks(box[0], box[1], few);
  for (const value of xTicks) {
    const text = tickText(value, xTicks);
    const most = left + width + ROOM.right - context.measureText(text).width / 2;
    context.fillText(text, Math.min(scales.x(value), most), top + height + 4);
    context.globalAlpha = 0.5;
    context.strokeRect(scales.x(value), top, 0, height);
    context.globalAlpha = 1;
  }
  context.fillText(figure.x.label, left + width / 2, top + height + 19);
  context.textAlign = "right";
  context.textBaseline = "middle";
  if (figure.y.names !== void 0) {
    context.fillStyle = colour("text");
    figure.y.names.forEach((name, k) => {
      const y = scales.y(-k);
      if (y >= top && y <= top + height) context.fillText(name, left - 6, y, left - 8);
    });
    return;
  }
  const yTexts = yTicks(figure, box, height).map((value, _, all) => tickText(value, all));
  for (const [k, value] of yTicks(figure, box, height).entries()) {
    context.fillText(yTexts[k], left - 5, scales.y(value));
    context.globalAlpha = 0.5;
    context.strokeRect(left, scales.y(value), width, 0);
    context.globalAlpha = 1;
  }
  context.save();
  context.translate(9, top + height / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  if (context.measureText(figure.y.label).width < height + 16) context.fillText(figure.y.label, 0, 0);
  context.restore();
}
function tableOf(figure) {
  const [left, right, bottom, top] = wholeOf(figure);
  const text = (value, part, along = "y") => {
    const axis = part === "low" || part === "high" ? along : part;
    const isLog2 = axis === "x" ? figure.x.log : figure.y.log;
    return isLog2 ? short(value) : rounded(value, (axis === "x" ? right - left : top - bottom) / 1e3);
  };
  const tables = figure.marks.map((mark) => {
    const parts = ["x", "y", "low", "high"].filter((part) => mark[part] !== void 0);
    const number = Math.max(0, ...parts.map((part) => mark[part].length));
    const every = Math.max(1, Math.ceil(number / ROWS));
    const heads = parts.map((part) => part === "x" ? figure.x.label || "x" : part === "y" ? figure.y.label || "y" : part);
    const rows = [];
    for (let k = 0; k < number; k += every) {
      const cells = parts.map((part) => {
        const value = mark[part][k];
        return h("td", {}, (part === "y" ? figure.y.names?.[k] : void 0) ?? (value === void 0 ? "" : text(value, part, mark.along)));
      });
      rows.push(h("tr", {}, ...mark.text === void 0 ? [] : [h("th", { scope: "row" }, mark.text[k] ?? "")], ...cells));
    }
    if (mark.kind === "rule") return h("p", {}, `${mark.name ?? "a line"} at ${short(mark.at ?? NaN)}`);
    const head = h("tr", {}, ...mark.text === void 0 ? [] : [h("td")], ...heads.map((name) => h("th", { scope: "col" }, name)));
    const some = every > 1 ? `, one in ${every} of ${number}` : "";
    return h("table", {}, h("caption", {}, `${mark.name ?? figure.title}${some}`), h("thead", {}, head), h("tbody", {}, ...rows));
  });
  return h("div", { class: "scroll numbers", tabindex: 0, role: "region", "aria-label": `numbers of ${figure.title}` }, ...tables);
}

// src/report/parameters.ts
var COLOURS = 8;
var chosen;
var partner;
var isLog = { x: false, y: false };
var ParameterViews = class {
  constructor(of, root) {
    this.of = of;
    this.root = root;
    this.values = words(of.values);
    const options = of.names.map((name) => [name, name]);
    const has = (name) => name !== void 0 && of.names.includes(name);
    const first = has(chosen) ? chosen : of.names[0];
    const second = has(partner) ? partner : of.names.find((name) => name !== first) ?? first;
    this.menus = [
      menu(options, first, (name) => this.choose(name)),
      menu(options, second, (name) => {
        partner = name;
        this.show();
      })
    ];
    this.menus[0].id = "parameter";
    this.menus[1].id = "partner";
    this.checks = [this.logCheck("x"), this.logCheck("y")];
    const step = (by) => {
      const next = (of.names.indexOf(this.menus[0].value) + by + of.names.length) % of.names.length;
      this.choose(of.names[next]);
    };
    const label = (text, input) => h("label", { for: input.id }, text, input);
    const head = h(
      "div",
      { class: "row" },
      label("Parameter ", this.menus[0]),
      h("button", { type: "button", onclick: () => step(-1) }, "Previous"),
      h("button", { type: "button", onclick: () => step(1) }, "Next")
    );
    const pairs = [
      label("Pair with ", this.menus[1]),
      ...this.checks.map((check, k) => h("label", { class: "check", for: check.id }, check, `logarithm of ${["x", "y"][k]}`))
    ];
    const hasPairs = of.names.length > 1;
    if (hasPairs) head.append(...pairs);
    const shown = this.figures.slice(0, hasPairs ? 6 : 5).map((view) => view.element);
    root.replaceChildren(head, h("div", { class: "figures" }, ...shown));
    root.append(h("p", { class: "legend" }, of.note));
    this.show();
  }
  values;
  menus;
  figures = ["trace", "distribution", "ranks", "autocorrelation", "growth", "pair"].map((name) => viewOf(`parameter-${name}`));
  checks;
  logCheck(axis) {
    const check = h("input", { type: "checkbox", id: `log-${axis}` });
    check.checked = isLog[axis];
    check.addEventListener("change", () => {
      isLog = { ...isLog, [axis]: check.checked };
      this.show();
    });
    return check;
  }
  /** Show this parameter; `scrolls`: it was chosen elsewhere on the page. */
  choose(name, scrolls = false) {
    if (!this.of.names.includes(name)) return;
    chosen = name;
    this.menus[0].value = name;
    this.show();
    if (scrolls) this.root.scrollIntoView({ behavior: "smooth", block: "start" });
  }
  show() {
    const [name, other] = [this.menus[0].value, this.menus[1].value];
    const k = this.of.names.indexOf(name);
    const made = [this.trace(k), this.distribution(k), this.ranks(k), this.autocorrelation(k), this.growth(k), this.pair(k, this.of.names.indexOf(other))];
    made.forEach((figure, i) => this.figures[i].show(figure));
    this.root.dataset.parameter = name;
  }
  /** One mark per chain, of so many numbers each. */
  byChain(data, k, length, make) {
    const { chains } = this.of;
    return chains.map((chain, c) => {
      const start = (k * chains.length + c) * length;
      const part = Array.from({ length }, (_, i) => data[start + i] ?? NaN);
      return { name: chains.length <= COLOURS ? `chain ${chain}` : void 0, colour: `chain-${c % COLOURS}`, ...make(part) };
    });
  }
  value(word, k) {
    return between(word, this.of.low[k], this.of.high[k]);
  }
  drawsOf(k) {
    const size = this.of.chains.length * this.of.places;
    return Array.from(this.values.subarray(k * size, (k + 1) * size), (word) => this.value(word, k));
  }
  trace(k) {
    const { names, places, every, draws } = this.of;
    const x = Array.from({ length: places }, (_, i) => i * every);
    const marks = this.byChain(this.values, k, places, (part) => ({
      kind: "line",
      x,
      y: part.map((word) => this.value(word, k)),
      opacity: 0.75,
      width: 0.9
    }));
    const some = every > 1 ? `One in ${every} of ${draws.toLocaleString("en")} draws` : `All ${draws.toLocaleString("en")} draws`;
    const step = deviation(this.drawsOf(k)) / 10;
    const means = this.of.means[k].map((value) => rounded(value ?? NaN, step));
    return { title: `Trace of ${names[k]}`, text: `${some} of each chain; means ${means.slice(0, COLOURS).join(", ")}.`, x: { label: "draw" }, y: { label: "" }, marks };
  }
  distribution(k) {
    const { names, bins, low, high } = this.of;
    const [a, b] = [low[k], high[k]];
    const x = Array.from({ length: bins + 1 }, (_, i) => a + (b - a) * i / bins);
    const marks = this.byChain(words(this.of.counts), k, bins, (part) => {
      const total = part.reduce((s, v) => s + v, 0) * ((b - a) / bins) || 1;
      return { kind: "stairs", x, y: part.map((count) => count / total) };
    });
    return { title: `Distribution of ${names[k]}`, text: `Histograms of all draws, between ${rounded(a, (b - a) / 100)} and ${rounded(b, (b - a) / 100)}.`, x: { label: "" }, y: { label: "density" }, marks };
  }
  ranks(k) {
    const { names, rankBins } = this.of;
    const x = Array.from({ length: rankBins + 1 }, (_, i) => i / rankBins);
    const marks = this.byChain(words(this.of.ranks), k, rankBins, (part) => {
      const total = part.reduce((sum, count) => sum + count, 0);
      return { kind: "stairs", x, y: part.map((count) => count * rankBins / total) };
    });
    const rule = { kind: "rule", along: "y", at: 1, colour: "truth", dashed: true, name: "chains that agree" };
    const text = "How the draws of each chain rank among all: flat where the chains agree, sloped or U-shaped where a chain differs from the others.";
    return { title: `Ranks of ${names[k]}`, text, x: { label: "rank among all draws, from 0 to 1" }, y: { label: "density, 1 is uniform" }, marks: [...marks, rule] };
  }
  autocorrelation(k) {
    const { names, lags, draws } = this.of;
    const all = this.byChain(words(this.of.autocorrelation), k, lags.length, (part) => ({
      kind: "line",
      x: lags,
      y: part.map((word) => between(word, -1, 1))
    }));
    const isNoise = (place) => all.every(({ y }) => Math.abs(y[place]) < 2 / Math.sqrt(draws));
    const first = lags.findIndex((_, place) => isNoise(place));
    const last = first < 0 ? -1 : lags.findIndex((lag) => lag >= Math.max(20, 2 * lags[first]));
    const shown = last < 0 ? lags.length : last + 1;
    const marks = all.map((mark) => ({ ...mark, x: lags.slice(0, shown), y: Array.from(mark.y).slice(0, shown) }));
    const rule = { kind: "rule", along: "y", at: 0, colour: "truth", dashed: true };
    return { title: `Autocorrelation of ${names[k]}`, text: "Correlation between draws that are this many draws apart: the sooner it falls to zero, the more effective draws there are.", x: { label: "lag, in draws" }, y: { label: "" }, marks: [...marks, rule] };
  }
  growth(k) {
    const { names, lengths, grown, allChains } = this.of;
    const place = grown.indexOf(k);
    const part = (text2) => Array.from(floats(text2).subarray(place * lengths.length, (place + 1) * lengths.length));
    const x = lengths.map((length) => length * allChains);
    const marks = place < 0 ? [] : [
      { kind: "line", name: "bulk", colour: "chain-0", x, y: part(this.of.bulk) },
      { kind: "line", name: "tails", colour: "chain-1", x, y: part(this.of.tail) },
      { kind: "rule", name: "400, enough for most uses", along: "y", at: 400, colour: "truth", dashed: true }
    ];
    const text = place < 0 ? "Not computed for this one: it is for those at the top of the table." : "By the first draws of all chains: it grows in a straight line where the chains mix.";
    return { title: `Effective draws of ${names[k]}`, text, x: { label: "draws of all chains" }, y: { label: "effective" }, marks };
  }
  pair(k, other) {
    const { names, shownDivergences } = this.of;
    const divergences = this.of.divergences ?? 0;
    const [x, y] = [this.drawsOf(k), this.drawsOf(other)];
    const isPositive = [this.of.low[k] > 0, this.of.low[other] > 0];
    this.checks.forEach((check, i) => {
      check.disabled = !isPositive[i];
      if (!isPositive[i]) check.checked = false;
    });
    const marks = [{ kind: "points", name: "draws", colour: "chain-0", x, y, opacity: 0.45 }];
    if (shownDivergences > 0) {
      const words16 = words(this.of.divergent);
      const at = (i) => Array.from(words16.subarray(i * shownDivergences, (i + 1) * shownDivergences), (word) => this.value(word, i));
      marks.push({ kind: "points", name: "divergent", colour: "bad", x: at(k), y: at(other), width: 2.6 });
    }
    const lost = shownDivergences < divergences ? `${shownDivergences} of ${divergences.toLocaleString("en")}` : String(divergences);
    const text = divergences > 0 ? `${lost} divergent draws are marked: where they gather, the steps are too large for the target.` : this.of.divergences === null ? "Each point is one draw." : "No draw is divergent.";
    return {
      title: `${names[k]} and ${names[other]}`,
      text,
      x: { label: names[k], log: this.checks[0].checked },
      y: { label: names[other], log: this.checks[1].checked },
      marks
    };
  }
};
function deviation(values) {
  const finite = values.filter(Number.isFinite);
  const centre = mean(finite);
  return Math.sqrt(mean(finite.map((value) => (value - centre) ** 2)));
}
function mean(values) {
  return values.reduce((a, b) => a + b, 0) / values.length;
}

// src/report/table.ts
var FIRST = 20;
var LONG = 30;
var remembered = /* @__PURE__ */ new Map();
function numberIn(text) {
  const match = /[-+−]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?/i.exec(text);
  return match === null ? NaN : Number(match[0].replaceAll(",", "").replace("−", "-"));
}
function makeSortable(table) {
  const name = table.caption?.textContent ?? "";
  const body = table.tBodies[0];
  const heads = [...table.tHead?.rows[0]?.cells ?? []];
  if (body === void 0 || heads.length === 0) return;
  const rows = [...body.rows];
  const place = table.closest(".scroll") ?? table;
  const before = place.previousElementSibling;
  const said = before instanceof HTMLElement && before.classList.contains("order") ? before : void 0;
  const state = remembered.get(name) ?? { column: -1, isDescending: false, filter: "", isWhole: rows.length <= LONG };
  remembered.set(name, state);
  const status = h("p", { class: "legend", role: "status" });
  const whole = h("button", { type: "button" });
  const texts = rows.map((row) => [...row.cells].map((cell) => cell.textContent?.trim() ?? ""));
  const original = new Map(rows.map((row, k) => [row, k]));
  const update = () => {
    if (said !== void 0) said.hidden = state.column >= 0;
    const order = [...rows];
    if (state.column >= 0) {
      const of = (row) => texts[original.get(row)]?.[state.column] ?? "";
      const filled = rows.map(of).filter((text) => text !== "" && text !== "–");
      const isNumeric = filled.length > 0 && filled.every((text) => /^(?:> )?[-+−.\d]/.test(text));
      const sign = state.isDescending ? -1 : 1;
      order.sort((a, b) => {
        if (!isNumeric) return sign * of(a).localeCompare(of(b), void 0, { numeric: true });
        const [x, y] = [numberIn(of(a)), numberIn(of(b))];
        if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y));
        return sign * (x - y);
      });
    }
    const wanted = state.filter.toLowerCase();
    const matching = order.filter((row) => (row.cells[0]?.textContent ?? "").toLowerCase().includes(wanted));
    const shown = new Set(state.isWhole || wanted !== "" ? matching : matching.slice(0, FIRST));
    for (const row of order) row.hidden = !shown.has(row);
    body.append(...order);
    heads.forEach((head, k) => {
      if (k === state.column) head.setAttribute("aria-sort", state.isDescending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    status.textContent = `${shown.size} of ${rows.length} rows`;
    whole.textContent = state.isWhole ? `Show the first ${FIRST}` : `Show all ${rows.length}`;
  };
  heads.forEach((head, k) => {
    const words2 = head.textContent?.trim() ?? "";
    const button = h("button", { type: "button", class: "sort" }, words2 || "name");
    button.addEventListener("click", () => {
      state.isDescending = state.column === k ? !state.isDescending : words2 === "R-hat" || words2 === "prevalence";
      state.column = k;
      update();
    });
    head.replaceChildren(button);
  });
  if (rows.length > LONG) {
    const filter = h("input", { type: "search", placeholder: "Filter by name", "aria-label": `Filter ${name || "the table"} by name`, value: state.filter });
    filter.id = `filter-${name.replace(/\W+/g, "-")}`;
    filter.addEventListener("input", () => {
      state.filter = filter.value;
      update();
    });
    whole.addEventListener("click", () => {
      state.isWhole = !state.isWhole;
      update();
    });
    place.before(h("div", { class: "row" }, filter, status));
    place.after(h("div", { class: "row" }, whole));
  }
  update();
}

// src/report/enhance.ts
var chosen2 = /* @__PURE__ */ new Map();
function dataOf(element) {
  return element.querySelector("script[type='application/json']")?.textContent ?? "null";
}
function enhance(root) {
  for (const element of root.querySelectorAll("figure[data-figure]")) {
    const view = viewOf(element.dataset.figure ?? "");
    element.replaceWith(view.element);
    view.show(unpackedFigure(dataOf(element)));
  }
  for (const element of root.querySelectorAll("[data-choice]")) enhanceChoice(element);
  const section = root.querySelector("#parameters");
  const views2 = section === null ? void 0 : new ParameterViews(JSON.parse(dataOf(section)), section);
  for (const table of root.querySelectorAll("table.sortable")) {
    if (views2 !== void 0 && table.classList.contains("of-parameters")) linkRows(table, views2);
    makeSortable(table);
  }
}
function enhanceChoice(element) {
  const key = element.dataset.choice ?? "";
  const figures = new Map(Object.entries(JSON.parse(dataOf(element))).map(([name, figure]) => [name, JSON.stringify(figure)]));
  const view = viewOf(key);
  const show2 = (name) => {
    chosen2.set(key, name);
    const text = figures.get(name);
    if (text !== void 0) view.show(unpackedFigure(text));
  };
  const names = [...figures.keys()];
  const first = names.includes(chosen2.get(key) ?? "") ? chosen2.get(key) : names[0] ?? "";
  const select = menu(names.map((name) => [name, name]), first, show2);
  select.id = `choice-${key.replace(/\W+/g, "-")}`;
  element.replaceChildren(h("div", { class: "row" }, h("label", { for: select.id }, "Show ", select)), view.element);
  show2(first);
}
function linkRows(table, views2) {
  for (const row of table.tBodies[0]?.rows ?? []) {
    const name = row.dataset.name;
    const cell = row.cells[0];
    if (name === void 0 || cell === void 0) continue;
    const button = h("button", { type: "button", class: "link" }, ...cell.childNodes);
    button.addEventListener("click", () => views2.choose(name, true));
    cell.replaceChildren(button);
  }
}

// src/report/run.ts
var WAIT = 1500;
var connection = byId("connection");
var content = byId("content");
var stop = byId("stop");
var serial = "";
var problem = "";
var theme;
themed(
  byId("theme"),
  () => theme,
  (next) => theme = next
)();
function show(html) {
  const next = h("div");
  next.innerHTML = html;
  const focus = document.activeElement?.id;
  const place = window.scrollY;
  enhance(next);
  content.replaceChildren(...next.childNodes);
  window.scrollTo({ top: place });
  if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
}
async function fetched(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(String(response.status));
  return await response.json();
}
async function follow(ask) {
  await ask().catch(() => void 0);
  window.setTimeout(() => void follow(ask), document.hidden ? 5 * WAIT : WAIT);
}
async function askState() {
  try {
    const state = await fetched("state.json");
    byId("title").textContent = state.title;
    connection.textContent = [state.text, problem].filter(Boolean).join("; ");
    connection.classList.remove("problem");
    stop.hidden = !state.canStop;
  } catch {
    connection.textContent = "the connection is lost; reconnecting. Is `fokker studio` still running?";
    connection.classList.add("problem");
    stop.hidden = true;
  }
}
async function askContent() {
  const answer = await fetched(`run.json?known=${encodeURIComponent(serial)}`);
  problem = answer.problem;
  if (answer.html !== void 0) show(answer.html);
  serial = answer.serial;
  document.body.dataset.serial = serial;
}
stop.addEventListener("click", () => {
  if (!window.confirm("Stop the run now? All draws so far are kept, and the run can be continued later.")) return;
  stop.hidden = true;
  void fetch("stop", { method: "POST" }).then((response) => response.json()).then(({ message }) => connection.textContent = message);
});
void follow(askState);
void follow(askContent);
