// The time lines: what part of the recording is seen, drawing it, and what lies under the pointer.

const GUTTER = 236;
const AXIS = 26;

class Timeline {
  constructor(recording, canvas, overview, bar) {
    Object.assign(this, { recording, canvas, overview, bar });
    this.context = canvas.getContext('2d');
    this.view = { from: 0, to: recording.span };
    this.scroll = 0;
    this.range = null;
    this.chosen = null;
    this.matches = [];
    this.pointer = null;
    this.frames = 0;
    this.watchers = [];
    this.order('busy');
  }

  order(order) {
    this.all = lanesOf(this.recording, order);
    this.place();
  }

  /** Gives the rows that are shown their places. */
  place() {
    const { from, to } = this.view;
    this.lanes = this.onlyActive ? this.all.filter(lane => lane.isActive(from, to)) : this.all;
    let top = 0;
    for (const lane of this.lanes) {
      lane.top = top;
      top += lane.height;
    }
    this.content = top;
    this.scrollTo(this.scroll || 0);
  }

  /** Draws with the next frame. */
  redraw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
    });
  }

  setView(from, to) {
    const { span } = this.recording;
    const margin = span * 0.02;
    const width = Math.min(Math.max(to - from, 20), span + 2 * margin);
    const start = Math.min(Math.max(from, -margin), span + margin - width);
    this.view = { from: start, to: start + width };
    if (this.onlyActive) this.place();
    this.redraw();
  }

  zoom(factor, x = (GUTTER + this.width) / 2) {
    const { from, to } = this.view;
    const at = this.timeAt(x);
    this.setView(at - (at - from) * factor, at + (to - at) * factor);
  }

  pan(share) {
    const { from, to } = this.view;
    this.setView(from + (to - from) * share, to + (to - from) * share);
  }

  scrollTo(top) {
    this.scroll = Math.max(0, Math.min(top, this.content - ((this.height || 0) - AXIS)));
    this.redraw();
  }

  /** Times in either order as a range of whole nanoseconds. */
  rangeOf(from, to) {
    return { from: Math.max(0, Math.round(Math.min(from, to))), to: Math.min(this.recording.span, Math.round(Math.max(from, to))) };
  }

  setRange(from, to) {
    this.range = from === null ? null : this.rangeOf(from, to);
    this.redraw();
    this.watchers.forEach(tell => tell());
  }

  /** The range that tables are of. */
  get scope() {
    return this.range || { from: 0, to: this.recording.span };
  }

  /** Shows a thing: brings its time and its row into sight. */
  choose(chosen, zoom) {
    this.chosen = chosen;
    if (chosen && zoom) {
      const { begin, end, thread } = this.extent(chosen);
      const width = Math.min(this.recording.span, zoom === 'fit' ? Math.max((end - begin) * 1.6, 2000) : this.view.to - this.view.from);
      const middle = (begin + end) / 2;
      if (zoom === 'fit' || begin < this.view.from || end > this.view.to) this.setView(middle - width / 2, middle + width / 2);
      const lane = this.lanes.find(lane => lane.kind === 'thread' && lane.number === thread)
        || this.lanes.find(lane => lane.kind === 'cpu' && chosen.kind === 'event' && lane.number === this.recording.events.cpu[chosen.index]);
      if (lane && (lane.top < this.scroll || lane.top + lane.height > this.scroll + this.height - AXIS)) this.scrollTo(lane.top - (this.height - AXIS) / 2);
    }
    this.redraw();
  }

  extent({ kind, index }) {
    const { events, states, calls } = this.recording;
    if (kind === 'event') return { begin: events.time[index], end: events.time[index], thread: events.thread[index] };
    const source = kind === 'state' ? states : calls;
    return { begin: source.begin[index], end: source.end[index], thread: source.thread[index] };
  }

  timeAt(x) {
    const { from, to } = this.view;
    return from + (x - GUTTER) / (this.width - GUTTER) * (to - from);
  }

  xOf(time) {
    const { from, to } = this.view;
    return GUTTER + (time - from) / (to - from) * (this.width - GUTTER);
  }

  laneAt(y) {
    const at = y - AXIS + this.scroll;
    return y < AXIS ? null : this.lanes.find(lane => lane.top <= at && at < lane.top + lane.height) || null;
  }

  /** What lies at a point: a kind and an index. */
  hit(x, y) {
    const lane = this.laneAt(y);
    if (!lane || lane.kind === 'head' || x < GUTTER) return null;
    const at = y - AXIS + this.scroll - lane.top;
    const time = this.timeAt(x);
    const slack = 4 * (this.view.to - this.view.from) / (this.width - GUTTER);
    const kinds = [['state', () => lane.spans], ['call', () => lane.calls], ['event', () => lane.ticks]];
    for (const [place, [kind, strip]] of kinds.entries()) {
      const { top, height } = lane.places[place];
      if (!height || at < top - 1 || at > top + height) continue;
      const index = strip().at(time, slack);
      return index < 0 ? null : { kind, index: strip().ref[index] };
    }
    return null;
  }

  resize() {
    const box = this.canvas.getBoundingClientRect();
    const scale = this.scale = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(box.width * scale), Math.round(box.height * scale)];
    if (this.raster && this.canvas.width === width && this.canvas.height === height) return;
    [this.width, this.height] = [box.width, box.height];
    [this.canvas.width, this.canvas.height] = [width, height];
    this.raster = new Raster(this.context, Math.max(1, width), Math.max(1, height));
    this.scroll = Math.max(0, Math.min(this.scroll, this.content - (this.height - AXIS)));
  }

  draw() {
    this.resize();
    const { context, raster, scale, palette, view } = this;
    const px = value => Math.round(value * scale);
    raster.pixels.fill(palette.groundPixel);
    const ticks = this.axisTicks();
    for (const { x } of ticks) raster.fill(px(x), px(x) + 1, px(AXIS), raster.height, palette.gridPixel);
    const labels = [];
    const seen = this.lanes.filter(lane => lane.top + lane.height > this.scroll && lane.top < this.scroll + this.height - AXIS);
    for (const lane of seen) {
      const top = AXIS + lane.top - this.scroll;
      const line = px(top + lane.height) - 1;
      if (lane.kind === 'head') {
        this.rows(raster, 0, raster.width, px(top), px(top + lane.height), palette.raisedPixel);
        continue;
      }
      this.rows(raster, px(GUTTER), raster.width, line, line + 1, palette.gridPixel);
      const kinds = ['state', 'call'];
      for (const [place, strip] of [lane.places[0].height && lane.spans, lane.places[1].height && lane.calls].entries()) {
        if (!strip) continue;
        const box = lane.places[place];
        const [y0, y1] = [px(top + box.top), px(top + box.top + box.height)];
        if (y0 < 0 || y1 > raster.height || y1 < px(AXIS)) continue;
        const room = [px(GUTTER), Math.max(y0, px(AXIS)), y1];
        if (place === 0 && lane.shares) {
          raster.shares(lane.shares, view, room, palette, lane.kind === 'cpu' ? [BUSY] : [RUNNING, RUNNABLE, BLOCKED]);
          // From afar the sums are all there is; from near, states that the page has stand before them.
          if ((view.to - view.from) / (raster.width - px(GUTTER)) > lane.shares.width / 4) continue;
        }
        raster.strip(strip, view, room, palette, px(30), (from, to, i) => {
          labels.push({ lane, kind: kinds[place], from: from / scale, to: to / scale, y: top + box.top + box.height / 2, ref: strip.ref[i], colour: strip.colour[i] });
        });
      }
      const box = lane.places[2];
      const [y0, y1] = [px(top + box.top), px(top + box.top + box.height)];
      if (y1 <= raster.height && y0 >= px(AXIS)) raster.ticks(lane.ticks, view, [px(GUTTER), y0, y1], palette, Math.max(1, Math.round(scale)));
    }
    context.putImageData(raster.image, 0, 0);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    this.drawLabels(labels);
    this.drawOverlays();
    this.drawGutter(seen);
    this.drawAxis(ticks);
    this.drawMatches();
    this.drawPointer();
    this.drawOverview();
    this.placeThumb();
    this.frames++;
  }

  rows(raster, x0, x1, y0, y1, colour) {
    const [from, to] = [Math.max(0, y0), Math.min(raster.height, y1)];
    if (from < to) raster.fill(x0, x1, from, to, colour);
  }

  drawLabels(labels) {
    const { context, recording, palette } = this;
    context.font = '10.5px system-ui, "DejaVu Sans", sans-serif';
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    for (const label of labels) {
      const room = label.to - label.from - 8;
      let text;
      if (label.kind === 'call') text = recording.callText.get(label.ref);
      else if (label.lane.kind === 'cpu') text = recording.threadName(recording.states.thread[label.ref]);
      else {
        const letter = recording.letter(label.ref);
        text = letter === 'r' ? `CPU ${recording.states.cpu[label.ref]}` : letter === 'w' || letter === 'p' ? 'waits for a CPU' : recording.waitsFor(label.ref);
      }
      text = fitted(context, text, room);
      if (!text) continue;
      context.fillStyle = label.colour === ASLEEP ? palette['asleep-text'] : this.dark ? '#eef2f6' : '#10161d';
      context.fillText(text, label.from + 4, label.y + 0.5);
    }
  }

  drawOverlays() {
    const { context, recording, palette, height } = this;
    context.save();
    context.beginPath();
    context.rect(GUTTER, 0, this.width - GUTTER, height);
    context.clip();
    const { losses } = recording;
    context.fillStyle = palette.loss;
    for (let i = 0; i < losses.count.length; i++) {
      const x = this.xOf(losses.from[i]);
      context.fillRect(x, AXIS, Math.max(2, this.xOf(losses.from[i] + losses.ns[i]) - x), height);
    }
    if (this.range) {
      const [left, right] = [this.xOf(this.range.from), this.xOf(this.range.to)];
      context.fillStyle = palette.range;
      context.fillRect(left, 0, right - left, height);
      context.fillStyle = palette.accent;
      context.fillRect(left, 0, 1, height);
      context.fillRect(right - 1, 0, 1, height);
      context.font = '11px system-ui, sans-serif';
      context.textAlign = 'center';
      if (right - left > 60) context.fillText(duration(this.range.to - this.range.from), (left + right) / 2, AXIS + 9);
    }
    if (this.chosen) this.drawChosen();
    context.restore();
  }

  drawMatches() {
    const { context, palette } = this;
    context.fillStyle = palette.mark;
    for (const { time } of this.matches) {
      for (let i = after(time, this.view.from - 1), end = after(time, this.view.to); i < end;) {
        const x = Math.round(this.xOf(time[i]));
        context.fillRect(x - 1, AXIS - 7, 3, 7);
        i = Math.max(i + 1, gallop(time, this.timeAt(x + 1), i));
      }
    }
  }

  /** The moment under the pointer. */
  drawPointer() {
    const { context, palette, pointer } = this;
    if (pointer === null || pointer < GUTTER) return;
    context.fillStyle = palette.dim;
    context.fillRect(pointer, AXIS, 1, this.height);
    const text = moment(this.timeAt(pointer));
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    const width = context.measureText(text).width + 10;
    const left = Math.min(Math.max(GUTTER, pointer - width / 2), this.width - width);
    context.fillStyle = palette.text;
    context.fillRect(left, 3, width, AXIS - 8);
    context.fillStyle = palette.ground;
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    context.fillText(text, left + 5, AXIS / 2);
  }

  /** A frame around what was clicked, and the line from who woke a thread. */
  drawChosen() {
    const { context, palette, recording, chosen } = this;
    const { begin, end, thread } = this.extent(chosen);
    const box = lane => {
      const place = lane.places[{ state: 0, call: 1, event: 2 }[chosen.kind]];
      return [AXIS + lane.top - this.scroll + place.top, place.height];
    };
    context.strokeStyle = palette.text;
    context.lineWidth = 1.5;
    const left = Math.max(this.xOf(begin), GUTTER - 4);
    const width = Math.max(3, Math.min(this.xOf(end), this.width + 4) - left);
    const rowOf = number => this.lanes.find(lane => lane.kind === 'thread' && lane.number === number);
    const own = rowOf(thread);
    if (own) {
      const [top, height] = box(own);
      context.strokeRect(left - 1, top - 1, width + 2, height + 2);
    }
    if (chosen.kind !== 'state' || !recording.states.by[chosen.index]) return;
    const waker = rowOf(recording.states.by[chosen.index] - 1);
    if (!waker || !own) return;
    const woken = recording.letter(chosen.index) === 'w' ? begin : end;
    const [x, from, to] = [this.xOf(woken), AXIS + waker.top - this.scroll + 10, AXIS + own.top - this.scroll + 10];
    const down = Math.sign(to - from);
    context.strokeStyle = context.fillStyle = palette.accent;
    context.beginPath();
    context.moveTo(x, from);
    context.lineTo(x, to);
    context.moveTo(x - 4, to - 6 * down);
    context.lineTo(x, to);
    context.lineTo(x + 4, to - 6 * down);
    context.stroke();
    context.beginPath();
    context.arc(x, from, 3, 0, 7);
    context.fill();
  }

  drawGutter(seen) {
    const { context, palette, recording, view } = this;
    context.fillStyle = palette.ground;
    context.fillRect(0, AXIS, GUTTER - 1, this.height);
    const whole = Math.max(1, Math.min(view.to, recording.span) - Math.max(view.from, 0));
    context.textBaseline = 'middle';
    for (const lane of seen) {
      const top = AXIS + lane.top - this.scroll;
      const middle = top + (lane.kind === 'head' || !lane.places[0].height ? lane.height / 2 : lane.places[0].top + 8);
      context.textAlign = 'left';
      if (lane.kind === 'head') {
        context.fillStyle = palette.raised;
        context.fillRect(0, top, GUTTER, lane.height);
        context.fillStyle = palette.dim;
        context.font = '600 11px system-ui, "DejaVu Sans", sans-serif';
        context.fillText(lane.label, 10, middle);
        continue;
      }
      context.fillStyle = palette.line;
      context.fillRect(0, top + lane.height - 1, GUTTER, 1);
      const share = lane.places[0].height ? lane.time(0, Math.max(view.from, 0), Math.min(view.to, recording.span)) / whole : null;
      context.font = '12px system-ui, "DejaVu Sans", sans-serif';
      context.fillStyle = palette.text;
      const name = fitted(context, lane.kind === 'cpu' ? lane.label : recording.threads.name[lane.number], GUTTER - 110);
      context.fillText(name, 10, middle);
      const x = 16 + context.measureText(name).width;
      context.fillStyle = palette.dim;
      context.font = '11px system-ui, "DejaVu Sans", sans-serif';
      if (lane.kind === 'thread') context.fillText(recording.threads.tid[lane.number], x, middle);
      if (share !== null) {
        context.textAlign = 'right';
        context.fillText(`${(share * 100).toFixed(share < 0.0995 && share > 0 ? 1 : 0)}%`, GUTTER - 10, middle);
      }
      if (lane.places[0].height && lane.places[1].height) {
        context.textAlign = 'left';
        const pid = recording.threads.pid[lane.number];
        if (pid !== recording.threads.tid[lane.number]) context.fillText(`of process ${pid}`, 10, middle + 15);
      }
    }
    context.fillStyle = palette.line;
    context.fillRect(GUTTER - 1, 0, 1, this.height);
  }

  /** Places of the axis: multiples of 1, 2 or 5 of a power of ten. */
  axisTicks() {
    const { from, to } = this.view;
    const wanted = (to - from) / Math.max(2, (this.width - GUTTER) / 130);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = this.step = Math.max(1, [1, 2, 5, 10].find(it => it * power >= wanted) * power);
    const ticks = [];
    for (let time = Math.ceil(from / step) * step; time <= to; time += step) ticks.push({ time, x: this.xOf(time) });
    return ticks;
  }

  drawAxis(ticks) {
    const { context, palette, step } = this;
    context.fillStyle = palette.raised;
    context.fillRect(0, 0, this.width, AXIS - 1);
    context.fillStyle = palette.line;
    context.fillRect(0, AXIS - 1, this.width, 1);
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    context.fillStyle = palette.dim;
    for (const { time, x } of ticks) {
      context.fillRect(x, AXIS - 7, 1, 6);
      if (x < GUTTER || x > this.width - 40) continue;
      const [unit, name] = UNITS.find(([unit]) => unit <= Math.max(Math.abs(time), step)) || UNITS[3];
      const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(unit / step) - 1e-9)));
      context.fillText(`${(time / unit).toFixed(digits)} ${name}`, x + 4, AXIS / 2 - 1);
    }
    context.fillStyle = palette.raised;
    context.fillRect(0, 0, GUTTER - 1, AXIS - 1);
    context.fillStyle = palette.dim;
    context.fillText(`${duration(this.view.to - this.view.from)} in view`, 10, AXIS / 2);
    context.textAlign = 'right';
    if (this.recording.about.states) context.fillText('ran', GUTTER - 10, AXIS / 2);
  }

  drawOverview() {
    const { overview, recording, palette } = this;
    const scale = this.scale;
    const { clientWidth: width, clientHeight: height } = overview;
    if (overview.width !== Math.round(width * scale)) [overview.width, overview.height] = [Math.round(width * scale), Math.round(height * scale)];
    const context = overview.getContext('2d');
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = palette.raised;
    context.fillRect(0, 0, width, height);
    const x = time => GUTTER + time / recording.span * (width - GUTTER - 12);
    const { timeline, about, losses } = recording;
    // Counts by pixel change with the width alone.
    if (!this.counts || this.counts.width !== width) {
      const columns = new Float64Array(Math.ceil(width) + 1);
      for (let i = 0; i < timeline.length; i++) columns[Math.floor(Math.min(x(i * about.bucket), width))] += timeline[i];
      this.counts = { width, columns, most: columns.reduce((a, b) => Math.max(a, b), 1) };
    }
    const { columns, most } = this.counts;
    context.fillStyle = palette.css[BUSY];
    for (let i = 0; i < columns.length; i++) {
      const tall = columns[i] && Math.max(1, columns[i] / most * (height - 8));
      if (tall) context.fillRect(i, height - tall, 1, tall);
    }
    context.fillStyle = palette.hot;
    for (let i = 0; i < losses.count.length; i++) context.fillRect(x(losses.from[i]) - 1, 0, 3, height);
    context.fillStyle = palette.mark;
    for (const { time } of this.matches) {
      for (let i = 0, last = -1; i < time.length; i = Math.max(i + 1, gallop(time, time[i] + recording.span / width, i))) {
        const at = Math.round(x(time[i]));
        if (at !== last) context.fillRect(last = at, 0, 1, 6);
      }
    }
    if (this.range) {
      context.fillStyle = palette.range;
      context.fillRect(x(this.range.from), 0, Math.max(2, x(this.range.to) - x(this.range.from)), height);
    }
    const [left, right] = [Math.max(GUTTER, x(this.view.from)), Math.min(width - 12, x(this.view.to))];
    context.fillStyle = this.dark ? 'rgba(0,0,0,.42)' : 'rgba(60,70,85,.16)';
    context.fillRect(GUTTER, 0, left - GUTTER, height);
    context.fillRect(right, 0, width - 12 - right, height);
    context.strokeStyle = palette.accent;
    context.strokeRect(left + 0.5, 0.5, Math.max(2, right - left - 1), height - 1);
    context.fillStyle = palette.dim;
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    context.fillText(counted(about.records, 'event'), 10, height / 2 - 8);
    context.fillText(`in ${duration(recording.length)}`, 10, height / 2 + 8);
  }

  placeThumb() {
    const room = this.height - AXIS;
    const thumb = this.bar.firstElementChild;
    thumb.hidden = this.content <= room;
    thumb.style.height = `${Math.max(24, room * room / this.content)}px`;
    thumb.style.top = `${this.scroll / Math.max(1, this.content - room) * (room - Math.max(24, room * room / this.content))}px`;
  }
}

/** As much of a text as there is room for. */
function fitted(context, text, room) {
  if (room < 12) return '';
  const guess = Math.ceil(room / 3);
  let cut = text.length > guess ? text.slice(0, guess) : text;
  let width = context.measureText(cut).width;
  if (width <= room && cut === text) return text;
  while (cut.length > 1 && width > room - 8) {
    cut = cut.slice(0, Math.min(cut.length - 1, Math.floor(cut.length * (room - 8) / width)));
    width = context.measureText(cut).width;
  }
  return cut.length > 1 ? cut + '…' : '';
}
