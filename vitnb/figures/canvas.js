// What AttentionExplorer and PoolExplorer share: letters, rings and shares on a canvas.

const HIGH = 12; // pixels on the screen that letters in a canvas are high

/** How many pixels of a canvas are one pixel of the screen. */
export function zoomOf(canvas) {
  return canvas.width / (canvas.clientWidth || 320);
}

/** Make ready to write on a canvas, centred, in letters of one size whatever the width of the screen. */
export function letters(pen, canvas, weight = 400) {
  Object.assign(pen, { textAlign: "center", textBaseline: "middle" });
  pen.font = `${weight} ${HIGH * zoomOf(canvas)}px system-ui, sans-serif`;
}

/** White words with a dark edge, to be read on any picture. */
export function write(pen, text, x, y, zoom) {
  const dark = "rgb(0 0 0 / 0.75)";
  Object.assign(pen, { lineWidth: 3.5 * zoom, strokeStyle: dark, lineJoin: "round" });
  pen.strokeText(text, x, y);
  pen.fillStyle = "#ffffff";
  pen.fillText(text, x, y);
}

/** Mark a box. */
export function ring(pen, x, y, width, height, zoom, mark) {
  for (const [style, thick] of [
    ["#ffffff", 5 * zoom],
    [mark, 3 * zoom],
  ]) {
    Object.assign(pen, { strokeStyle: style, lineWidth: thick });
    pen.strokeRect(x, y, width, height);
  }
}

/** A share for people: 0.123 -> 12 %, 0.0123 -> 1.2 %. */
export function share(value) {
  return `${(100 * value).toFixed(value < 0.0995 ? 1 : 0)}\u00a0%`;
}

/** The token after a step of an arrow key: cls lies above the first row of patches. */
export function stepToken(token, dx, dy, [rows, cols], prefix) {
  if (token < prefix) return dy > 0 ? prefix : token;
  const n = token - prefix;
  const [row, col] = [Math.floor(n / cols) + dy, (n % cols) + dx];
  if (row < 0 && prefix) return 0;
  const clamp = (value, count) => Math.min(Math.max(value, 0), count - 1);
  return prefix + clamp(row, rows) * cols + clamp(col, cols);
}

/** The token at a place of the picture, in shares of the canvas, of which the top is a strip for cls. */
export function tokenAt(x, y, [rows, cols], prefix, strip) {
  if (prefix && y < strip) return 0;
  const row = Math.floor(((y - strip) / (1 - strip)) * rows);
  return prefix + row * cols + Math.floor(x * cols);
}
