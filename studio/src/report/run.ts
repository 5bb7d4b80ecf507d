// A run that goes on: its parts are asked for again when the folder has changed.

import { byId, h } from "../dom";
import { themed } from "../theme";
import { enhance } from "./enhance";

interface State {
  title: string;
  text: string;
  canStop: boolean;
}

interface Content {
  serial: string;
  problem: string;
  html?: string;
}

const WAIT = 1_500;
const connection = byId("connection");
const content = byId("content");
const stop = byId("stop") as HTMLButtonElement;
let serial = "";
let problem = "";
let theme: "light" | "dark" | undefined;

themed(
  byId("theme"),
  () => theme,
  (next) => (theme = next),
)();

function show(html: string): void {
  // Made by the server from the same templates as a report, which escape every text.
  const next = h("div");
  next.innerHTML = html;
  const focus = document.activeElement?.id;
  const place = window.scrollY;
  enhance(next);
  content.replaceChildren(...next.childNodes);
  window.scrollTo({ top: place });
  if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
}

async function fetched<T>(address: string): Promise<T> {
  const response = await fetch(address);
  if (!response.ok) throw new Error(String(response.status));
  return (await response.json()) as T;
}

/** Ask again and again, a while after each answer. */
async function follow(ask: () => Promise<void>): Promise<void> {
  // What cannot be had now is asked for again: the state says whether the connection is lost.
  await ask().catch(() => undefined);
  window.setTimeout(() => void follow(ask), document.hidden ? 5 * WAIT : WAIT);
}

async function askState(): Promise<void> {
  try {
    const state = await fetched<State>("state.json");
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

/** A long run is read for many seconds, in which its state is shown. */
async function askContent(): Promise<void> {
  const answer = await fetched<Content>(`run.json?known=${encodeURIComponent(serial)}`);
  problem = answer.problem;
  if (answer.html !== undefined) show(answer.html);
  serial = answer.serial;
  document.body.dataset.serial = serial;
}

stop.addEventListener("click", () => {
  if (!window.confirm("Stop the run now? All draws so far are kept, and the run can be continued later.")) return;
  stop.hidden = true;
  void fetch("stop", { method: "POST" })
    .then((response) => response.json() as Promise<{ message: string }>)
    .then(({ message }) => (connection.textContent = message));
});

void follow(askState);
void follow(askContent);
