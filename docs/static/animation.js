/* Plays the chains of the samplers' pages, step by step, when a reader asks for it. */
"use strict";
const PER_SECOND = 20;
const TRAIL = 15;

function playable(figure) {
  const path = figure.querySelector(".path");
  const draws = [...figure.querySelectorAll(".draws circle")];
  const points = path.getAttribute("points").split(" ");
  const button = document.createElement("button");
  button.type = "button";
  let timer = null;
  let shown = points.length;

  function show(number) {
    shown = number;
    const isWhole = number >= points.length;
    draws.forEach((draw, i) => draw.classList.toggle("hidden", i >= number));
    path.setAttribute("points", points.slice(isWhole ? 0 : Math.max(0, number - TRAIL), number).join(" "));
    button.textContent = timer === null ? (isWhole ? "Play" : "Continue") : "Pause";
  }
  function pause() {
    clearInterval(timer);
    timer = null;
    show(shown);
  }
  function play() {
    timer = setInterval(() => (shown < points.length ? show(shown + 1) : pause()), 1000 / PER_SECOND);
    show(shown < points.length ? shown : 1);
  }
  button.addEventListener("click", () => (timer === null ? play() : pause()));
  show(shown);
  figure.insertBefore(button, figure.querySelector("figcaption"));
}

document.querySelectorAll("figure.chain").forEach(playable);
