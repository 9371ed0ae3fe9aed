// Numbers and lists in words for people.

/** A number for people: three digits that count, thousands apart. */
export function number(value) {
  return value.toLocaleString("en-US", { maximumSignificantDigits: 3, useGrouping: true });
}

/** A whole number for people, thousands apart. */
export function whole(value) {
  return value.toLocaleString("en-US");
}

/** A share in hundredths, with `digits` after the point: 0.1234 -> "12". */
export function hundredths(share, digits = 0) {
  return (100 * share).toFixed(digits);
}

/** A share in per cent: 0.1234 -> "12 %", that never breaks before its sign. */
export function percent(share, digits = 0) {
  return `${hundredths(share, digits)}\u00a0%`;
}

/** A share in per cent, with a digit after the point where it is small: 12 %, 1.2 %, <0.1 %. */
export function share(value) {
  if (value > 0 && value < 0.001) return `<${percent(0.001, 1)}`;
  return percent(value, value < 0.0995 ? 1 : 0);
}

/** The words one, two and three -> "one, two and three". */
export function list(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** Where a patch lies: "row 1, column 3". */
export function placeOf(patch, cols) {
  return `row ${Math.floor(patch / cols)}, column ${patch % cols}`;
}
