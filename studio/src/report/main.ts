// The script of a report, which is one file without a server.

import { h } from "../dom";
import { themed } from "../theme";
import { enhance } from "./enhance";

let theme: "light" | "dark" | undefined;
const button = h("button", { type: "button", id: "theme", title: "Light or dark" });
document.querySelector(".top")?.append(button);
themed(
  button,
  () => theme,
  (next) => (theme = next),
)();
enhance(document);
