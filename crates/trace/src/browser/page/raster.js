// Pixels of the time lines. Each row costs what its width in pixels does, however many spans it has: those that share a pixel are found by search, not one by one.

class Raster {
  constructor(context, width, height) {
    Object.assign(this, { width, height });
    this.image = context.createImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  fill(x0, x1, y0, y1, colour) {
    for (let y = y0; y < y1; y++) this.pixels.fill(colour, y * this.width + x0, y * this.width + x1);
  }

  /** Draws a strip between two heights; gives the spans that are `wide` enough for words to `label`. */
  strip(strip, view, [x0, y0, y1], palette, wide, label) {
    const { begin, end, colour, layers } = strip;
    const { width } = this;
    const scale = (width - x0) / (view.to - view.from);
    const place = time => x0 + (time - view.from) * scale;
    const pixel = 1 / scale;
    let i = after(end, view.from);
    while (i < begin.length && begin[i] < view.to) {
      const left = place(begin[i]);
      const right = place(end[i]);
      if (right - left >= 1) {
        const from = Math.max(x0, Math.round(left));
        const to = Math.min(width, Math.max(Math.round(right), from + 1));
        this.fill(from, to, y0, y1, palette[colour[i]]);
        // A seam tells neighbours of one colour apart.
        if (right - left > 4 && left >= x0) this.fill(from, from + 1, y0, y1, palette.seam[colour[i]]);
        if (to - from >= wide) label(from, to, i);
        i++;
        continue;
      }
      const x = Math.max(x0, Math.floor(left));
      if (x >= width) break;
      const edge = view.from + (x + 1 - x0) * pixel;
      let next = gallop(begin, edge, i);
      // One that goes on beyond this pixel is drawn for itself.
      if (next > i + 1 && end[next - 1] - begin[next - 1] >= pixel) next--;
      let y = y1;
      for (const layer of layers) {
        const share = Math.min(1, (layer.sums[next] - layer.sums[i]) * scale);
        if (share <= 0) continue;
        // What is there at all is seen.
        const top = Math.max(y0, y - Math.max(1, Math.round(share * (y1 - y0))));
        this.column(x, top, y, palette[layer.colour === undefined || next === i + 1 ? colour[i] : layer.colour]);
        y = top;
      }
      i = next;
    }
  }

  /** Draws sums by buckets, in the colours of their kinds. */
  shares(shares, view, [x0, y0, y1], palette, colours) {
    const pixel = (view.to - view.from) / (this.width - x0);
    const { begin } = shares;
    const last = begin.length - 1;
    const kinds = colours.length;
    let index = after(begin, view.from) - 1;
    const before = new Float64Array(kinds);
    for (let kind = 0; kind < kinds; kind++) before[kind] = shares.upTo(kind, view.from, index);
    for (let x = x0; x < this.width; x++) {
      const edge = view.from + (x + 1 - x0) * pixel;
      while (index < last && begin[index + 1] <= edge) index++;
      let y = y1;
      for (let kind = 0; kind < kinds; kind++) {
        const now = shares.upTo(kind, edge, index);
        const share = Math.min(1, (now - before[kind]) / pixel);
        before[kind] = now;
        if (share <= 1e-6) continue;
        const top = Math.max(y0, y - Math.max(1, Math.round(share * (y1 - y0))));
        this.column(x, top, y, palette[colours[kind]]);
        y = top;
      }
    }
  }

  /** A column of one pixel's width. */
  column(x, y0, y1, colour) {
    const { pixels, width } = this;
    for (let at = y0 * width + x, end = y1 * width; at < end; at += width) pixels[at] = colour;
  }

  ticks(ticks, view, [x0, y0, y1], palette, thick) {
    const { time, colour } = ticks;
    const scale = (this.width - x0) / (view.to - view.from);
    let i = after(time, view.from - 1);
    while (i < time.length && time[i] <= view.to) {
      const x = x0 + Math.floor((time[i] - view.from) * scale);
      if (x >= this.width) break;
      const next = gallop(time, view.from + (x + 1 - x0) / scale, i);
      for (let end = Math.min(this.width, x + thick), at = x; at < end; at++) this.column(at, y0, y1, palette[colour[i]]);
      i = Math.max(next, i + 1);
    }
  }
}

/** The colours of a theme as pixels, those of seams beside them. */
function paletteOf(dark) {
  const style = getComputedStyle(document.documentElement);
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 1;
  const context = canvas.getContext('2d', { willReadFrequently: true });
  const pixel = (...layers) => {
    for (const layer of layers) {
      context.fillStyle = layer;
      context.fillRect(0, 0, 1, 1);
    }
    return new Uint32Array(context.getImageData(0, 0, 1, 1).data.buffer)[0];
  };
  const colours = PALETTE.map(name => style.getPropertyValue(`--${name}`).trim());
  for (let i = 0; i < HUES; i++) colours.push(`hsl(${i * 360 / HUES}, ${dark ? 38 : 52}%, ${dark ? 44 : 66}%)`);
  const palette = colours.map(colour => pixel(colour));
  palette.css = colours;
  palette.seam = colours.map(colour => pixel(colour, dark ? 'rgba(0,0,0,.35)' : 'rgba(255,255,255,.55)'));
  for (const name of ['ground', 'raised', 'line', 'text', 'dim', 'accent', 'hot', 'mark', 'range', 'loss', 'unknown', 'asleep-text']) {
    palette[name] = style.getPropertyValue(`--${name}`).trim();
  }
  palette.groundPixel = pixel(palette.ground);
  palette.raisedPixel = pixel(palette.raised);
  palette.gridPixel = pixel(palette.ground, palette.line);
  return palette;
}
