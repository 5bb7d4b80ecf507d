// What a page of a report gets by its script: figures, sorted tables, and parameters to choose.

import { h, menu } from "../dom";
import { unpackedFigure, viewOf } from "./figure";
import { type Parameters, ParameterViews } from "./parameters";
import { makeSortable } from "./table";

const chosen = new Map<string, string>();

function dataOf(element: Element): string {
  return element.querySelector("script[type='application/json']")?.textContent ?? "null";
}

/** Put figures, menus and sorted tables where the HTML has their data. */
export function enhance(root: ParentNode): void {
  for (const element of root.querySelectorAll<HTMLElement>("figure[data-figure]")) {
    const view = viewOf(element.dataset.figure ?? "");
    element.replaceWith(view.element);
    view.show(unpackedFigure(dataOf(element)));
  }
  for (const element of root.querySelectorAll<HTMLElement>("[data-choice]")) enhanceChoice(element);
  const section = root.querySelector<HTMLElement>("#parameters");
  const views = section === null ? undefined : new ParameterViews(JSON.parse(dataOf(section)) as Parameters, section);
  for (const table of root.querySelectorAll<HTMLTableElement>("table.sortable")) {
    if (views !== undefined && table.classList.contains("of-parameters")) linkRows(table, views);
    makeSortable(table);
  }
}

/** Several figures of which one is shown. */
function enhanceChoice(element: HTMLElement): void {
  const key = element.dataset.choice ?? "";
  const figures = new Map<string, string>(Object.entries(JSON.parse(dataOf(element)) as Record<string, object>).map(([name, figure]) => [name, JSON.stringify(figure)]));
  const view = viewOf(key);
  const show = (name: string): void => {
    chosen.set(key, name);
    const text = figures.get(name);
    if (text !== undefined) view.show(unpackedFigure(text));
  };
  const names = [...figures.keys()];
  const first = names.includes(chosen.get(key) ?? "") ? chosen.get(key)! : (names[0] ?? "");
  const select = menu(names.map((name) => [name, name]), first, show);
  select.id = `choice-${key.replace(/\W+/g, "-")}`;
  element.replaceChildren(h("div", { class: "row" }, h("label", { for: select.id }, "Show ", select)), view.element);
  show(first);
}

/** The names in a table choose a parameter. */
function linkRows(table: HTMLTableElement, views: ParameterViews): void {
  for (const row of table.tBodies[0]?.rows ?? []) {
    const name = row.dataset.name;
    const cell = row.cells[0];
    if (name === undefined || cell === undefined) continue;
    const button = h("button", { type: "button", class: "link" }, ...cell.childNodes);
    button.addEventListener("click", () => views.choose(name, true));
    cell.replaceChildren(button);
  }
}
