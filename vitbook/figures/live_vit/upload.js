// The reader's own image: how large a file says it is, how it becomes the few pixels that a network reads, and a pen.
import { h } from "../kit/dom.js";

const MOST_BYTES = 40e6;
const MOST_PIXELS = 25e6;
const FINER = 4; // a file is first drawn this factor larger than the network reads it, then averaged

/** Read a file of the reader's into bytes (C, H, W), or throw an error with words for people. It goes nowhere else. */
export async function readImage(file, { width: W, height: H, channels }) {
  const name = file.name || "This file";
  const kinds = "Choose a PNG, JPEG, WebP, GIF or BMP file.";
  const millions = (number) => Math.round(number / 1e6);
  if (file.size > MOST_BYTES)
    throw Error(
      `${name} has ${millions(file.size)} MB. Choose a file of at most ${millions(MOST_BYTES)} MB.`,
    );
  const size = imageSize(new Uint8Array(await file.slice(0, 1 << 20).arrayBuffer()));
  if (!size) throw Error(`${name} is not an image that this figure can read. ${kinds}`);
  if (size.width * size.height > MOST_PIXELS)
    throw Error(
      `${name} has ${size.width} × ${size.height} pixels, ${millions(size.width * size.height)} million. ` +
        `Choose one of at most ${millions(MOST_PIXELS)} million.`,
    );
  const bitmap = await createImageBitmap(file).catch(() => {
    throw Error(`${name} is damaged: the browser cannot decode it. ${kinds}`);
  });
  const canvas = h("canvas", { width: W * FINER, height: H * FINER });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.imageSmoothingQuality = "high";
  pen.fillRect(0, 0, canvas.width, canvas.height); // black behind what is transparent
  const scale = Math.max(canvas.width / bitmap.width, canvas.height / bitmap.height); // the middle, not distorted
  const [width, height] = [bitmap.width * scale, bitmap.height * scale];
  pen.drawImage(bitmap, (canvas.width - width) / 2, (canvas.height - height) / 2, width, height);
  bitmap.close();
  const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
  return shrink(data, W, H, FINER, channels);
}

/** Read width and height from the first bytes of a PNG, JPEG, GIF, WebP or BMP file; null if it is none of them. */
export function imageSize(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = (from, to) => String.fromCharCode(...bytes.subarray(from, to));
  try {
    if (text(1, 4) === "PNG") return { width: view.getUint32(16), height: view.getUint32(20) };
    if (text(0, 3) === "GIF")
      return { width: view.getUint16(6, true), height: view.getUint16(8, true) };
    if (text(0, 2) === "BM")
      return { width: view.getInt32(18, true), height: Math.abs(view.getInt32(22, true)) };
    if (text(0, 4) === "RIFF" && text(8, 12) === "WEBP") return webpSize(view, text(12, 16));
    if (view.getUint16(0) === 0xffd8) return jpegSize(view);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error; // the file ends too early
  }
  return null;
}

function webpSize(view, kind) {
  const three = (at) => view.getUint16(at, true) | (view.getUint8(at + 2) << 16);
  if (kind === "VP8X") return { width: 1 + three(24), height: 1 + three(27) };
  if (kind === "VP8L") {
    const bits = view.getUint32(21, true);
    return { width: 1 + (bits & 0x3fff), height: 1 + ((bits >>> 14) & 0x3fff) };
  }
  return { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff };
}

// A JPEG is a chain of segments; the one that starts a frame (SOF) names the size.
function jpegSize(view) {
  for (let at = 2; ;) {
    if (view.getUint8(at) !== 0xff) return null;
    const mark = view.getUint8(at + 1);
    const frame = mark >= 0xc0 && mark <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(mark);
    if (frame) return { width: view.getUint16(at + 7), height: view.getUint16(at + 5) };
    at += mark === 0xff ? 1 : 2 + view.getUint16(at + 2);
  }
}

/**
 * Average the pixels of an RGBA image that is `times` as large as the network reads it: bytes (C, height, width).
 * One channel is the brightness (ITU-R BT.601); more than three repeat the last.
 */
export function shrink(rgba, width, height, times, channels) {
  const bytes = new Uint8Array(channels * height * width);
  const wide = width * times;
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const sum = [0, 0, 0];
      for (let dy = 0; dy < times; dy++)
        for (let dx = 0; dx < times; dx++)
          for (let c = 0; c < 3; c++)
            sum[c] += rgba[4 * ((y * times + dy) * wide + x * times + dx) + c];
      const mean = sum.map((value) => value / times ** 2);
      const colours = channels === 1 ? [0.299 * mean[0] + 0.587 * mean[1] + 0.114 * mean[2]] : mean;
      for (let c = 0; c < channels; c++)
        bytes[(c * height + y) * width + x] = Math.round(colours[Math.min(c, 2)]);
    }
  return bytes;
}

/** The mean of the outermost pixels of bytes (C, height, width): is the ground dark or bright? */
export function borderMean(bytes, width, height) {
  let sum = 0;
  let count = 0;
  for (let at = 0; at < bytes.length; at++) {
    const x = at % width;
    const y = Math.floor(at / width) % height;
    if (x > 0 && x < width - 1 && y > 0 && y < height - 1) continue;
    sum += bytes[at];
    count++;
  }
  return sum / count;
}

/**
 * Draw a line with a round, soft pen into bytes (C, height, width), from (x0, y0) to (x1, y1) in pixels;
 * erase takes ink away.
 */
export function stroke(bytes, width, height, [x0, y0, x1, y1], radius, erase) {
  const channels = bytes.length / (width * height);
  const reach = radius + 1;
  const long = (x1 - x0) ** 2 + (y1 - y0) ** 2;
  for (
    let y = Math.max(0, Math.floor(Math.min(y0, y1) - reach));
    y < Math.min(height, Math.max(y0, y1) + reach);
    y++
  )
    for (
      let x = Math.max(0, Math.floor(Math.min(x0, x1) - reach));
      x < Math.min(width, Math.max(x0, x1) + reach);
      x++
    ) {
      const [cx, cy] = [x + 0.5, y + 0.5];
      const along = long
        ? Math.min(1, Math.max(0, ((cx - x0) * (x1 - x0) + (cy - y0) * (y1 - y0)) / long))
        : 0;
      const distance = Math.hypot(cx - x0 - along * (x1 - x0), cy - y0 - along * (y1 - y0));
      const ink = Math.round(255 * Math.min(1, Math.max(0, radius + 0.5 - distance)));
      for (let c = 0; c < channels; c++) {
        const at = (c * height + y) * width + x;
        bytes[at] = erase ? Math.min(bytes[at], 255 - ink) : Math.max(bytes[at], ink);
      }
    }
}
