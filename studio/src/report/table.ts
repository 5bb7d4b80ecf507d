// Tables that the page has already: sorted by a click on a head, filtered, and long ones folded.

import { h } from "../dom";

// Rows of a long table that are shown at first, and the length from which on it is folded.
const FIRST = 20;
const LONG = 30;

interface Remembered {
  column: number;
  isDescending: boolean;
  filter: string;
  isWhole: boolean;
}

// By the caption of the table, over updates of the page.
const remembered = new Map<string, Remembered>();

/** The first number of a cell; NaN where there is none. */
export function numberIn(text: string): number {
  const match = /[-+−]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?/i.exec(text);
  return match === null ? NaN : Number(match[0].replaceAll(",", "").replace("−", "-"));
}

export function makeSortable(table: HTMLTableElement): void {
  const name = table.caption?.textContent ?? "";
  const body = table.tBodies[0];
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
  if (body === undefined || heads.length === 0) return;
  const rows = [...body.rows];
  const place = table.closest(".scroll") ?? table;
  // What is said of the order of the rows before they are sorted.
  const before = place.previousElementSibling;
  const said = before instanceof HTMLElement && before.classList.contains("order") ? before : undefined;
  const state: Remembered = remembered.get(name) ?? { column: -1, isDescending: false, filter: "", isWhole: rows.length <= LONG };
  remembered.set(name, state);
  const status = h("p", { class: "legend", role: "status" });
  const whole = h("button", { type: "button" });

  const texts = rows.map((row) => [...row.cells].map((cell) => cell.textContent?.trim() ?? ""));
  const original = new Map(rows.map((row, k) => [row, k]));

  const update = (): void => {
    if (said !== undefined) said.hidden = state.column >= 0;
    const order = [...rows];
    if (state.column >= 0) {
      const of = (row: HTMLTableRowElement): string => texts[original.get(row)!]?.[state.column] ?? "";
      const filled = rows.map(of).filter((text) => text !== "" && text !== "–");
      const isNumeric = filled.length > 0 && filled.every((text) => /^(?:> )?[-+−.\d]/.test(text));
      const sign = state.isDescending ? -1 : 1;
      order.sort((a, b) => {
        if (!isNumeric) return sign * of(a).localeCompare(of(b), undefined, { numeric: true });
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
    const words = head.textContent?.trim() ?? "";
    const button = h("button", { type: "button", class: "sort" }, words || "name");
    button.addEventListener("click", () => {
      // Numbers of which more is worse, or better, are wanted from that end: a second click turns it round.
      state.isDescending = state.column === k ? !state.isDescending : words === "R-hat" || words === "prevalence";
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
