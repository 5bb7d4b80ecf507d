// GIF, as its specification of 1989 has it: every picture with a palette of its own, compressed by LZW.

const COLOURS = 256;
const CODES = 4096;

/** The bytes of a file, or of a part of it. */
class Bytes {
  private readonly parts: Uint8Array<ArrayBuffer>[] = [];

  add(...values: number[]): void {
    this.parts.push(Uint8Array.from(values));
  }

  text(letters: string): void {
    this.add(...Array.from(letters, (letter) => letter.charCodeAt(0)));
  }

  /** Numbers of 16 bits, the low byte first. */
  words(...values: number[]): void {
    for (const value of values) this.add(value & 255, value >> 8);
  }

  /** Blocks of at most 255 bytes, each after its length, and an empty one as their end. */
  blocks(data: Uint8Array<ArrayBuffer>): void {
    for (let start = 0; start < data.length; start += 255) {
      const block = data.subarray(start, start + 255);
      this.add(block.length);
      this.parts.push(block);
    }
    this.add(0);
  }

  blob(...more: Bytes[]): Blob {
    return new Blob([this, ...more].flatMap((bytes) => bytes.parts), { type: "image/gif" });
  }
}

const boxOf = (r: number, g: number, b: number): number => ((r >> 3) << 10) | ((g >> 3) << 5) | (b >> 3);

/** The commonest colour of each of the 256 fullest of 32 × 32 × 32 boxes, and for each pixel which is nearest to its box. */
function reduced(pixels: Uint8ClampedArray): { palette: Uint8Array; indices: Uint16Array } {
  const counts = new Map<number, number>();
  for (let k = 0; k < pixels.length; k += 4) {
    const colour = (pixels[k]! << 16) | (pixels[k + 1]! << 8) | pixels[k + 2]!;
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const boxes = new Map<number, { total: number; most: number; colour: number[] }>();
  for (const [colour, count] of counts) {
    const parts = [colour >> 16, (colour >> 8) & 255, colour & 255] as const;
    const box = boxes.get(boxOf(...parts)) ?? { total: 0, most: 0, colour: [] };
    box.total += count;
    if (count > box.most) Object.assign(box, { most: count, colour: parts });
    boxes.set(boxOf(...parts), box);
  }
  const used = [...boxes].sort(([, a], [, b]) => b.total - a.total);
  const chosen = used.slice(0, COLOURS).map(([, { colour }]) => colour);
  const nearest = new Uint8Array(1 << 15);
  for (const [order, [box, { colour }]] of used.entries()) {
    const distance = (other: number[]): number => other.reduce((sum, part, k) => sum + (part - colour[k]!) ** 2, 0);
    const distances = order < COLOURS ? [] : chosen.map(distance);
    nearest[box] = order < COLOURS ? order : distances.indexOf(Math.min(...distances));
  }
  const palette = new Uint8Array(3 * COLOURS);
  palette.set(chosen.flat());
  const indices = new Uint16Array(pixels.length / 4);
  for (let k = 0; k < indices.length; k++) {
    indices[k] = nearest[boxOf(pixels[4 * k]!, pixels[4 * k + 1]!, pixels[4 * k + 2]!)]!;
  }
  return { palette, indices };
}

// The code of a known text with one byte more; 0 is none, as no such text has the code 0.
const table = new Uint16Array(CODES * COLOURS);

/** LZW of bytes: codes grow from 9 to 12 bits, and the table starts anew when it is full. */
function compressed(indices: Uint16Array): Uint8Array<ArrayBuffer> {
  const [clear, end] = [COLOURS, COLOURS + 1];
  // At worst a code of 12 bits for each byte.
  const out = new Uint8Array(16 + 2 * indices.length);
  let length = 0;
  let buffer = 0;
  let bits = 0;
  let width = 9;
  const write = (code: number): void => {
    buffer |= code << bits;
    for (bits += width; bits >= 8; bits -= 8) {
      out[length++] = buffer & 255;
      buffer >>= 8;
    }
  };
  let next = end + 1;
  table.fill(0);
  write(clear);
  let prefix = indices[0] ?? 0;
  for (let k = 1; k < indices.length; k++) {
    const key = prefix * COLOURS + indices[k]!;
    const known = table[key]!;
    if (known !== 0) {
      prefix = known;
      continue;
    }
    write(prefix);
    prefix = indices[k]!;
    if (next < CODES) {
      // The reader knows a code one step later, and reads wider ones from then on.
      if (next === 1 << width) width += 1;
      table[key] = next++;
    } else {
      write(clear);
      table.fill(0);
      next = end + 1;
      width = 9;
    }
  }
  write(prefix);
  if (next === 1 << width && width < 12) width += 1;
  write(end);
  if (bits > 0) out[length++] = buffer & 255;
  return out.slice(0, length);
}

/** An animation of pictures of one size, which repeats. */
export class Gif {
  private readonly head = new Bytes();
  private readonly pictures = new Bytes();

  constructor(
    private readonly width: number,
    private readonly height: number,
  ) {
    this.head.text("GIF89a");
    this.head.words(width, height);
    this.head.add(0x70, 0, 0); // no palette for all pictures
    this.head.add(0x21, 0xff, 11);
    this.head.text("NETSCAPE2.0");
    this.head.add(3, 1, 0, 0, 0); // again and again
  }

  /** Add a picture that is shown for some hundredths of a second. */
  add(pixels: Uint8ClampedArray, hundredths: number): void {
    const { palette, indices } = reduced(pixels);
    this.pictures.add(0x21, 0xf9, 4, 0);
    this.pictures.words(hundredths);
    this.pictures.add(0, 0, 0x2c);
    this.pictures.words(0, 0, this.width, this.height);
    this.pictures.add(0x87, ...palette, 8);
    this.pictures.blocks(compressed(indices));
  }

  blob(): Blob {
    const end = new Bytes();
    end.add(0x3b);
    return this.head.blob(this.pictures, end);
  }
}
