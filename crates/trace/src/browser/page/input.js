// Mouse, wheel and keys.

const WHEEL = 1.0016;

class Input {
  constructor(timeline, panel, search, tip) {
    Object.assign(this, { timeline, panel, search, tip });
    const { canvas, overview, bar } = timeline;
    canvas.addEventListener('wheel', event => this.wheel(event), { passive: false });
    canvas.addEventListener('pointerdown', event => this.press(event));
    canvas.addEventListener('pointermove', event => this.hover(event));
    canvas.addEventListener('pointerleave', () => {
      timeline.pointer = null;
      timeline.redraw();
      this.hideTip();
    });
    overview.addEventListener('pointerdown', event => this.pressOverview(event));
    bar.firstElementChild.addEventListener('pointerdown', event => this.pressThumb(event));
    window.addEventListener('keydown', event => this.key(event));
  }

  wheel(event) {
    event.preventDefault();
    const { timeline } = this;
    const unit = event.deltaMode ? 18 : 1;
    const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
    const box = timeline.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    if (x < GUTTER && !event.ctrlKey) return timeline.scrollTo(timeline.scroll + dy);
    if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) return timeline.pan((dx || dy) / (timeline.width - GUTTER));
    timeline.zoom(WHEEL ** (dy * (event.ctrlKey ? 4 : 1)), x);
  }

  /** Follows the pointer until it is let go. */
  follow(event, move, done = () => {}) {
    const target = event.currentTarget;
    target.setPointerCapture(event.pointerId);
    const moved = it => move(it);
    target.addEventListener('pointermove', moved);
    const end = it => {
      target.removeEventListener('pointermove', moved);
      done(it);
    };
    target.addEventListener('pointerup', end, { once: true });
  }

  press(event) {
    if (event.button !== 0) return;
    const { timeline } = this;
    timeline.canvas.focus();
    const box = timeline.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const view = { ...timeline.view };
    const scroll = timeline.scroll;
    let moved = false;
    this.hideTip();
    const selects = (event.shiftKey || y < AXIS) && x > GUTTER;
    const first = timeline.timeAt(x);
    this.follow(event, it => {
      const [dx, dy] = [it.clientX - event.clientX, it.clientY - event.clientY];
      moved ||= Math.abs(dx) + Math.abs(dy) > 3;
      if (!moved) return;
      if (selects) {
        timeline.range = timeline.rangeOf(first, timeline.timeAt(x + dx));
        timeline.redraw();
        return;
      }
      const shift = dx / (timeline.width - GUTTER) * (view.to - view.from);
      if (x > GUTTER) timeline.setView(view.from - shift, view.to - shift);
      timeline.scrollTo(scroll - dy);
      timeline.canvas.style.cursor = 'grabbing';
    }, () => {
      timeline.canvas.style.cursor = '';
      if (moved && selects) return timeline.setRange(timeline.range.from, timeline.range.to);
      if (moved) return;
      timeline.choose(timeline.hit(x, y));
      if (timeline.chosen) this.panel.show('details');
    });
  }

  pressOverview(event) {
    const { timeline } = this;
    const { overview, recording } = timeline;
    const box = overview.getBoundingClientRect();
    const timeAt = it => (it.clientX - box.left - GUTTER) / (box.width - GUTTER - 12) * recording.span;
    const first = timeAt(event);
    let dragged = false;
    this.follow(event, it => {
      dragged ||= Math.abs(it.clientX - event.clientX) > 3;
      if (dragged) timeline.setView(Math.min(first, timeAt(it)), Math.max(first, timeAt(it)));
    }, () => {
      if (dragged) return;
      const half = (timeline.view.to - timeline.view.from) / 2;
      timeline.setView(first - half, first + half);
    });
  }

  pressThumb(event) {
    const { timeline } = this;
    const scroll = timeline.scroll;
    this.follow(event, it => timeline.scrollTo(scroll + (it.clientY - event.clientY) * timeline.content / (timeline.height - AXIS)));
  }

  hover(event) {
    if (event.buttons) return;
    const { timeline } = this;
    const box = timeline.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    timeline.canvas.style.cursor = y < AXIS && x > GUTTER ? 'col-resize' : '';
    timeline.pointer = x;
    timeline.redraw();
    const hit = timeline.hit(x, y);
    if (!hit) return this.hideTip();
    const { head, fields, stack } = describe(timeline.recording, hit);
    const list = element('dl');
    for (const [name, value] of fields) list.append(element('dt', '', name), element('dd', '', value));
    if (stack.length) {
      const more = stack.length > 12 ? [`… and ${stack.length - 12} more`] : [];
      const frames = element('dd', '', [...stack.slice(0, 12).map(frame => frame.slice(1)), ...more].join('\n'));
      frames.style.maxHeight = 'none';
      list.append(element('dt', '', 'stack'), frames);
    }
    this.tip.replaceChildren(element('div', 'head', head.length > 160 ? head.slice(0, 160) + '…' : head), list);
    this.tip.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const left = event.clientX + 16 + width > innerWidth ? event.clientX - 12 - width : event.clientX + 16;
    const top = event.clientY + 18 + height > innerHeight ? Math.max(4, event.clientY - 10 - height) : event.clientY + 18;
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${top}px`;
  }

  hideTip() {
    this.tip.hidden = true;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { timeline, search } = this;
    if (event.target === search.input) {
      if (event.key === 'Escape') this.escape();
      return;
    }
    if (/^(SELECT|INPUT|DIALOG)$/.test(event.target.tagName) && event.key !== 'Escape') return;
    const keys = {
      w: () => timeline.zoom(0.7), '+': () => timeline.zoom(0.7), '=': () => timeline.zoom(0.7),
      s: () => timeline.zoom(1 / 0.7), '-': () => timeline.zoom(1 / 0.7),
      a: () => timeline.pan(-0.15), ArrowLeft: () => timeline.pan(-0.15),
      d: () => timeline.pan(0.15), ArrowRight: () => timeline.pan(0.15),
      ArrowUp: () => timeline.scrollTo(timeline.scroll - 60), ArrowDown: () => timeline.scrollTo(timeline.scroll + 60),
      PageUp: () => timeline.scrollTo(timeline.scroll - timeline.height + AXIS), PageDown: () => timeline.scrollTo(timeline.scroll + timeline.height - AXIS),
      0: () => timeline.setView(0, timeline.recording.span), f: () => this.fit(),
      n: () => search.step(true), N: () => search.step(false),
      '/': () => search.input.focus(), '?': () => document.getElementById('keys').showModal(), Escape: () => this.escape(),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** Zooms to the range, or to what was clicked. */
  fit() {
    const { timeline } = this;
    if (timeline.range) {
      const { from, to } = timeline.range;
      timeline.setView(from - (to - from) * 0.03, to + (to - from) * 0.03);
    } else if (timeline.chosen) timeline.choose(timeline.chosen, 'fit');
  }

  escape() {
    const { timeline, search } = this;
    search.input.value = '';
    search.input.blur();
    search.none();
    timeline.chosen = null;
    timeline.setRange(null);
  }
}
