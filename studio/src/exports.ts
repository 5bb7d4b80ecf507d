// What a reader takes along: the program, the picture, and videos of it.

import { h } from "./dom";
import { Gif } from "./gif";

const FRAMES_PER_SECOND = 25;
// Of a GIF: hundredths of a second between its pictures, and how many it has at most.
const HUNDREDTHS = 10;
const PICTURES = 300;

type Stop = () => void;

/** A button that starts a recording and ends it; `start` is told what to call when it has ended. */
function recording(label: string, start: (ended: () => void) => Stop): HTMLButtonElement {
  const button = h("button", { type: "button" });
  let stop: Stop | undefined;
  const show = (next: Stop | undefined): void => {
    stop = next;
    button.textContent = stop === undefined ? label : "End the recording";
    button.setAttribute("aria-pressed", String(stop !== undefined));
  };
  button.addEventListener("click", () => {
    if (stop === undefined) show(start(() => show(undefined)));
    else stop();
  });
  show(undefined);
  return button;
}

export class Exports {
  readonly element: HTMLElement;
  private add: (() => void) | undefined;
  private latest = 0;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly name: () => string,
    copy: () => void,
  ) {
    const save = (): void => canvas.toBlob((blob) => blob !== null && this.download(blob, "png"));
    const video = recording("Record as WebM", (ended) => this.video(ended));
    // Not every browser writes this kind of video.
    video.hidden = typeof MediaRecorder === "undefined" || !MediaRecorder.isTypeSupported("video/webm");
    this.element = h(
      "div",
      { class: "row" },
      h("button", { type: "button", onclick: copy }, "Copy as Python"),
      h("button", { type: "button", onclick: save }, "Save as PNG"),
      recording("Record as GIF", (ended) => this.gif(ended)),
      video,
    );
  }

  /** After a frame was drawn. */
  drawn(): void {
    if (performance.now() - this.latest >= 10 * HUNDREDTHS) this.add?.();
  }

  private download(blob: Blob, kind: string): void {
    const file = `fokker-${this.name().replace(/\W+/g, "-")}.${kind}`;
    const link = h("a", { href: URL.createObjectURL(blob), download: file });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  private video(ended: () => void): Stop {
    const recorder = new MediaRecorder(this.canvas.captureStream(FRAMES_PER_SECOND), { mimeType: "video/webm" });
    recorder.addEventListener("dataavailable", (event) => this.download(event.data, "webm"));
    recorder.addEventListener("stop", ended);
    recorder.start();
    return () => recorder.stop();
  }

  /** A GIF of the frames while the sampler runs: pauses are left out. */
  private gif(ended: () => void): Stop {
    const width = Math.max(1, this.canvas.clientWidth);
    const height = Math.max(1, this.canvas.clientHeight);
    const copy = new OffscreenCanvas(width, height);
    const context = copy.getContext("2d", { willReadFrequently: true });
    if (context === null) throw new Error("this browser has no canvas");
    const gif = new Gif(width, height);
    let pictures = 0;
    const picture = (hundredths: number): void => {
      context.drawImage(this.canvas, 0, 0, width, height);
      gif.add(context.getImageData(0, 0, width, height).data, hundredths);
      this.latest = performance.now();
      pictures += 1;
    };
    const stop = (): void => {
      this.add = undefined;
      picture(100); // what is shown now stays for a second
      this.download(gif.blob(), "gif");
      ended();
    };
    this.add = () => (pictures < PICTURES ? picture(HUNDREDTHS) : stop());
    picture(HUNDREDTHS);
    return stop;
  }
}
