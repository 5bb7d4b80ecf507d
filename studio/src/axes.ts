// Scales and ticks of the pictures of the studio and of reports.

/** Round numbers within a range, about five; two at least, as one gives no scale. */
export function ticks(low: number, high: number, wanted = 5): number[] {
  const rough = (high - low) / wanted;
  if (!(rough > 0) || !Number.isFinite(rough)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const result = [];
  // Multiples, as sums of steps miss 0 by rounding.
  for (let i = Math.ceil(low / step); i * step <= high; i++) result.push(i * step);
  if (result.length < 2 && wanted < 12) return ticks(low, high, wanted + 1);
  return result.map((value) => Number(value.toPrecision(6)));
}

/** Powers of ten within a range of logarithms, and what is between them where there are few. */
export function logTicks(low: number, high: number): number[] {
  const factors = high - low > 3 ? [1] : high - low > 1.2 ? [1, 3] : [1, 2, 5];
  const result = [];
  const every = Math.max(1, Math.ceil((high - low) / 6));
  for (let power = Math.floor(low); power <= high; power++) {
    if (factors.length === 1 && power % every !== 0) continue;
    for (const factor of factors) {
      const place = power + Math.log10(factor);
      if (place >= low && place <= high) result.push(Number((factor * 10 ** power).toPrecision(3)));
    }
  }
  return result.length > 1 ? result : ticks(10 ** low, 10 ** high);
}

/** The lowest and the highest round number within a range; of logarithms where it is logarithmic. */
export function ends(low: number, high: number, isLog: boolean): number[] {
  const all = isLog ? logTicks(low, high) : ticks(low, high);
  return all.length < 2 ? all : [all[0]!, all.at(-1)!];
}

/** A number on an axis, written as all numbers of it are: short, and the same for the same value. */
export function tickText(value: number, all: readonly number[] = [value]): string {
  const most = Math.max(...all.map(Math.abs));
  if (value !== 0 && (most >= 1e5 || most < 1e-3)) return Number(value.toPrecision(6)).toExponential().replace("e+", "e");
  return Math.abs(value) >= 1000 ? value.toLocaleString("en") : String(value);
}
