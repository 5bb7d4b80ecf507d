// The WebSocket: JSON to the server; JSON, or JSON with arrays behind it, from it.

export interface Arrays {
  [name: string]: { shape: number[]; data: Float32Array };
}

export interface Message {
  id: number;
  kind: string;
  /** When it came, by the clock of the page. */
  arrived: number;
  arrays?: Arrays;
  // What else a message has depends on its kind.
  [key: string]: unknown;
}

/** The parts of a binary message; `fokker.studio.frames` says how it is laid out. */
export function unpack(buffer: ArrayBuffer): Message {
  const arrived = performance.now();
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays: Arrays = {};
  let start = 4 + length;
  for (const [name, shape] of header.arrays as [string, number[]][]) {
    const size = shape.reduce((a, b) => a * b, 1);
    arrays[name] = { shape, data: new Float32Array(buffer, start, size) };
    start += 4 * size;
  }
  return { ...header, arrays, arrived };
}

/** A connection that comes back by itself; `opened` is called every time that it has. */
export class Wire {
  private socket: WebSocket | undefined;
  private wait = 500;

  constructor(
    private readonly received: (message: Message) => void,
    private readonly opened: () => void,
    private readonly lost: () => void,
  ) {
    this.connect();
  }

  send(message: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private connect(): void {
    const address = new URL("socket", window.location.href);
    address.protocol = "ws:";
    address.hash = "";
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      this.wait = 500;
      this.opened();
    });
    socket.addEventListener("message", (event) => {
      const data: unknown = event.data;
      this.received(data instanceof ArrayBuffer ? unpack(data) : { ...JSON.parse(String(data)), arrived: performance.now() });
    });
    socket.addEventListener("close", () => {
      this.lost();
      window.setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(2 * this.wait, 8_000);
    });
    this.socket = socket;
  }
}
