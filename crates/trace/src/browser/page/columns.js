'use strict';
// Columns of numbers and strings, as crates/trace/src/browser/columns.rs lays them out.

/** The bytes of base64 text. */
function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

class Columns {
  /** Inflates what the page carries. */
  static async unpack(base64) {
    const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
    return new Columns(new Uint8Array(await new Response(stream).arrayBuffer()));
  }

  constructor(bytes) {
    const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
    this.about = head.about;
    this.directory = head.columns;
    this.bytes = bytes.subarray(4 + length);
  }

  has(name) {
    return name in this.directory;
  }

  /** Numbers as floats; of a rising column the differences to `origin`, so that times keep their nanoseconds. None where there is no such column. */
  numbers(name, origin = 0n) {
    const entry = this.directory[name];
    if (!entry) return new Float64Array(0);
    const { at, count, width } = entry;
    const least = Number(entry.least);
    const wide = entry.first !== null || width > 3 || least < 0 || least > 2 ** 31;
    const values = wide ? new Float64Array(count) : new Uint32Array(count);
    let unit = 1;
    for (let plane = 0; plane < width; plane++, unit *= 256) {
      const from = at + plane * count;
      for (let i = 0; i < count; i++) values[i] += this.bytes[from + i] * unit;
    }
    if (entry.first !== null) {
      let time = Number(BigInt(entry.first) - origin);
      for (let i = 0; i < count; i++) values[i] = time += values[i] + least;
    } else if (least !== 0) {
      for (let i = 0; i < count; i++) values[i] += least;
    }
    return values;
  }

  /** A number as it is, however great. */
  exact(name, index) {
    const { at, count, width, least } = this.directory[name];
    let value = 0n;
    for (let plane = width - 1; plane >= 0; plane--) value = value << 8n | BigInt(this.bytes[at + plane * count + index]);
    return value + BigInt(least);
  }

  strings(name) {
    return new Strings(this.has(name) ? this : null, name);
  }
}

/** Strings, each decoded when it is asked for. */
class Strings {
  constructor(columns, name) {
    this.lengths = columns ? columns.numbers(name + '#') : [];
    this.length = this.lengths.length;
    this.starts = new Float64Array(this.length + 1);
    for (let i = 0; i < this.length; i++) this.starts[i + 1] = this.starts[i] + this.lengths[i];
    if (columns) {
      const { at, bytes } = columns.directory[name];
      this.bytes = columns.bytes.subarray(at, at + bytes);
    }
    this.decoder = new TextDecoder();
  }

  get(index) {
    return index < this.length ? this.decoder.decode(this.bytes.subarray(this.starts[index], this.starts[index + 1])) : '';
  }

  all() {
    return Array.from({ length: this.length }, (_, index) => this.get(index));
  }
}
