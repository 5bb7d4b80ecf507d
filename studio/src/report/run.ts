// A run that goes on: its parts are asked for again when the folder has changed.

import { byId, h } from "../dom";
import { themed } from "../theme";
import { enhance } from "./enhance";

interface Answer {
  title: string;
  text: string;
  canStop: boolean;
  serial: string;
  problem: string;
  html?: string;
}

const WAIT = 1_500;
const connection = byId("connection");
const content = byId("content");
const stop = byId("stop") as HTMLButtonElement;
let serial = "";
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

async function ask(): Promise<void> {
  try {
    const response = await fetch(`run.json?known=${encodeURIComponent(serial)}`);
    if (!response.ok) throw new Error(String(response.status));
    const answer = (await response.json()) as Answer;
    byId("title").textContent = answer.title;
    connection.textContent = [answer.text, answer.problem].filter(Boolean).join("; ");
    connection.classList.remove("problem");
    stop.hidden = !answer.canStop;
    if (answer.html !== undefined) show(answer.html);
    serial = answer.serial;
    document.body.dataset.serial = serial;
  } catch {
    connection.textContent = "the connection is lost; trying again. Is `fokker studio` still running?";
    connection.classList.add("problem");
    stop.hidden = true;
  }
  window.setTimeout(() => void ask(), document.hidden ? 5 * WAIT : WAIT);
}

stop.addEventListener("click", () => {
  if (!window.confirm("End the run early? Everything up to now is kept, and it can go on later.")) return;
  stop.hidden = true;
  void fetch("stop", { method: "POST" })
    .then((response) => response.json() as Promise<{ message: string }>)
    .then(({ message }) => (connection.textContent = message));
});

void ask();
