// Arrays as Python packs them (`fokker.report.packing`): lists, or bytes in base64.

/** Plain numbers with null for those that are not finite, 32-bit numbers, or 16 bits between two bounds. */
export type Packed = (number | null)[] | { f32: string } | { u16: string; low: number; high: number };

const MISSING = 65535;

function bytesOf(text: string): Uint8Array {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let k = 0; k < bytes.length; k++) bytes[k] = binary.charCodeAt(k);
  return bytes;
}

export function floats(text: string): Float32Array {
  return new Float32Array(bytesOf(text).buffer);
}

export function words(text: string): Uint16Array {
  return new Uint16Array(bytesOf(text).buffer);
}

/** A number of 16 bits between two bounds; NaN where it was not finite. */
export function between(word: number, low: number, high: number): number {
  return word === MISSING ? NaN : low + (word / (MISSING - 1)) * (high - low);
}

export function unpacked(packed: Packed): Float64Array {
  if (Array.isArray(packed)) return Float64Array.from(packed, (value) => value ?? NaN);
  if ("f32" in packed) return Float64Array.from(floats(packed.f32));
  return Float64Array.from(words(packed.u16), (word) => between(word, packed.low, packed.high));
}
