// The page: a target, a run, and up to four samplers side by side from one seed.

import { byId, debounced, field, formulaField, h, menu, setFormula } from "./dom";
import { PanelView } from "./panel";
import { type Catalogue, fromHash, newPanel, type Panel, START, type State, type Target, toHash } from "./state";
import { themed } from "./theme";
import { Wire } from "./wire";

const response = await fetch("catalogue.json");
const catalogue = (await response.json()) as Catalogue;
let state: State = fromHash(window.location.hash);
let views: PanelView[] = [];
let isRunning = false;
let isConnected = false;

const connection = byId("connection");
const panels = byId("panels");
const side = byId("side");

const wire = new Wire(
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
  },
);

const remember = debounced(150, () => window.history.replaceState(null, "", `#${toHash(state)}`));

// Light and dark ---------------------------------------------------------------------------------------------

const applyTheme = themed(
  byId("theme"),
  () => state.theme,
  (theme) => {
    state.theme = theme;
    remember();
  },
);

// The run ----------------------------------------------------------------------------------------------------

const play = h("button", { type: "button", class: "main", "aria-keyshortcuts": "Space" }, "Run");

function setRunning(next: boolean): void {
  isRunning = next;
  play.textContent = isRunning ? "Pause" : "Run";
  for (const view of views) view.run(isRunning);
}

function restart(): void {
  for (const view of views) view.restart();
}

play.addEventListener("click", () => setRunning(!isRunning));
document.addEventListener("keydown", (event) => {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA|BUTTON|SUMMARY)$/.test(target.tagName)) return;
  if (event.key === " ") setRunning(!isRunning);
  else if (event.key === "r") restart();
  else return;
  event.preventDefault();
});

function updateAll(): void {
  for (const view of views) view.update();
}

// The side ---------------------------------------------------------------------------------------------------

function targetCard(): HTMLElement {
  const titles = Object.entries(catalogue.targets).map(([key, row]): [string, string] => [key, row.title]);
  const typed = state.target.formula;
  const { x, y, spread } = { ...START, ...state.target };
  const start = { x, y, spread };
  const use = (target: Target): void => {
    state.target = target;
    starts.hidden = target.formula === undefined;
    for (const element of card.querySelectorAll("[aria-invalid]")) element.removeAttribute("aria-invalid");
    for (const error of card.querySelectorAll(".error")) error.textContent = "";
    updateAll();
  };
  const input = formulaField(typed ?? catalogue.targets[state.target.name ?? "valley"]?.formula ?? "", (formula) => {
    chosen.value = "";
    use({ formula, ...start });
  });
  const chosen = menu([...titles, ["", "typed in below"]], typed === undefined ? (state.target.name ?? "valley") : "", (name) => {
    if (name !== "") setFormula(input, catalogue.targets[name]?.formula ?? "");
    use(name === "" ? { formula: input.value, ...start } : { name });
  });
  const formula = field("U(x, y); the target is exp(−U)", input, "target.formula");
  // A number out of its range is sent as it is: the server says what it may be.
  const startField = (label: string, key: keyof typeof start, low: number, high: number): HTMLElement => {
    const number = h("input", { type: "number", min: low, max: high, step: "any", value: start[key] });
    number.addEventListener("change", () => {
      if (number.value === "") number.value = String(START[key]);
      start[key] = Number(number.value);
      use({ formula: input.value, ...start });
    });
    return field(label, number, `target.${key}`);
  };
  const starts = h(
    "div",
    { role: "group", "aria-label": "Where chains start", hidden: typed === undefined },
    h("div", { class: "pair" }, startField("Start x", "x", -100, 100), startField("Start y", "y", -100, 100)),
    startField("Spread of the starts", "spread", 0, 20),
    h("p", { class: "legend" }, "The spread is the standard deviation around the start, in x and in y."),
  );
  const help = `Write x, y, numbers, + − * / ^ and ${catalogue.functions.join(", ")}.`;
  const choice = field("Choose", chosen, "target.name");
  const card = h("section", { class: "card" }, h("h2", {}, "Target"), choice, formula, h("p", { class: "legend" }, help), starts);
  card.addEventListener("targeterror", (event) => {
    const { part, text } = (event as CustomEvent<{ part: string; text: string }>).detail;
    const wrong = card.querySelector<HTMLElement>(`[data-part="${CSS.escape(part)}"]`) ?? input;
    wrong.setAttribute("aria-invalid", "true");
    const error = document.getElementById(`${wrong.id}-error`);
    if (error !== null) error.textContent = text;
  });
  return card;
}

function runCard(): HTMLElement {
  const numberField = (label: string, key: keyof State["run"], low: number, high: number): HTMLElement => {
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
      numberField("Burn-in", "burn_in", 0, 1_000_000),
    ),
  );
}

function storyCard(): HTMLElement {
  const text = h("div", { class: "story" });
  const titles = catalogue.stories.map((story, k): [string, string] => [String(k), story.title]);
  const chosen = menu([["", "choose one"], ...titles], "", (value) => {
    const story = catalogue.stories[Number(value)];
    if (value === "" || story === undefined) return;
    text.replaceChildren(h("h3", {}, story.title), h("p", {}, story.text));
    state.target = story.designs[0]?.target ?? state.target;
    state.panels = story.designs.map((design) => {
      const { title, sampler, metric, gamma, drag, metropolis, settings } = design;
      const parts = { title, sampler, metric, gamma, drag, metropolis, settings };
      const given = Object.entries(parts).filter(([, part]) => part !== undefined);
      return newPanel(structuredClone(Object.fromEntries(given)) as Partial<Panel>);
    });
    rebuild([text, chosen.value]);
    setRunning(true);
  });
  return h("section", { class: "card" }, h("h2", {}, "Stories"), field("Samplers that went wrong", chosen), text);
}

function rebuild(story?: [HTMLElement, string]): void {
  const cards = [targetCard(), runCard(), storyCard()];
  if (story !== undefined) {
    const [text, value] = story;
    const last = cards[2]!;
    last.querySelector(".story")!.replaceWith(text);
    last.querySelector("select")!.value = value;
  }
  side.replaceChildren(...cards);
  for (let id = state.panels.length; id < views.length; id++) wire.send({ do: "stop", id });
  views = state.panels.map((panel, id) => {
    const remove = (): void => {
      state.panels.splice(id, 1);
      rebuild();
    };
    return new PanelView(id, state, panel, catalogue, wire, remember, state.panels.length > 1 ? remove : undefined);
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
