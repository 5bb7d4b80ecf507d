// Elements by functions: no framework, and texts are never read as HTML.

type Attributes = Record<string, string | number | boolean | undefined | ((event: Event) => void)>;

/** An element with attributes, listeners (keys that start with "on") and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

/** The element of the page with this id, which index.html has. */
export function byId(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`index.html has no #${id}`);
  return element;
}

let labels = 0;

/** An input or menu with its label, and a place for its error. */
export function field(label: string, input: HTMLElement, part?: string, value?: HTMLElement): HTMLElement {
  input.id ||= `field-${++labels}`;
  const error = h("p", { class: "error", id: `${input.id}-error`, role: "alert" });
  if (part !== undefined) input.dataset.part = part;
  input.setAttribute("aria-describedby", error.id);
  const name = h("label", { for: input.id }, label);
  if (value !== undefined) name.append(value);
  return h("div", { class: "field" }, name, input, error);
}

/** A field for a formula, as high as its text: it is used when it has been typed, and not at every key. */
export function formulaField(text: string, change: (text: string) => void): HTMLTextAreaElement {
  const area = h("textarea", { rows: 1, class: "formula", spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
  area.value = text;
  let used = text;
  const use = (): void => {
    if (area.value === used) return;
    used = area.value;
    change(used);
  };
  const grow = (): void => {
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

/** Show another formula in its field, as if it had been used. */
export function setFormula(area: HTMLTextAreaElement, text: string): void {
  area.value = text;
  area.dispatchEvent(new Event("input"));
}

/** A menu of values with their titles. */
export function menu(
  options: [string, string][],
  chosen: string,
  change: (value: string) => void,
): HTMLSelectElement {
  const select = h("select");
  for (const [value, title] of options) {
    select.append(h("option", { value, selected: value === chosen }, title));
  }
  select.addEventListener("change", () => change(select.value));
  return select;
}

/** Call a function when nothing has changed for a while. */
export function debounced(wait: number, act: () => void): () => void {
  let timer: number | undefined;
  return () => {
    window.clearTimeout(timer);
    timer = window.setTimeout(act, wait);
  };
}

/** A number to the decimals of a step that can be told apart. */
export function rounded(value: number, step: number): string {
  const decimals = -Math.floor(Math.log10(step));
  if (!Number.isFinite(value) || !Number.isFinite(decimals) || Math.abs(value) >= 1e6) return short(value);
  // A value that is rounded to zero has no sign.
  if (decimals <= 7) return value.toFixed(Math.max(0, decimals)).replace(/^-(?=[0.]*$)/, "");
  const digits = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value))) + decimals;
  return value.toExponential(Math.min(15, Math.max(0, digits)));
}

/** A number with a few digits. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  if (size >= 10_000) return `${(value / 1e3).toPrecision(3)} k`;
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return size !== 0 && size < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}
