// Search over events, threads, fields and system calls; long ones in pieces, so that the page stays alive.

class Search {
  constructor(recording, timeline, input, status) {
    Object.assign(this, { recording, timeline, input, status });
    this.none();
  }

  none() {
    this.run = null;
    this.found = { event: [], call: [] };
    this.at = -Infinity;
    this.status.textContent = '';
    this.timeline.matches = [];
    this.timeline.redraw();
  }

  /** Looks for a text, or `field=value`; the promise is kept when all is looked through. */
  async look(text) {
    const wanted = text.trim();
    if (!wanted) return this.none();
    const run = this.run = {};
    const found = { event: [], call: [] };
    const matches = this.matcher(wanted);
    const { events, calls, callText, strings } = this.recording;
    const piece = async (length, each) => {
      for (let i = 0; i < length;) {
        const until = performance.now() + 12;
        while (i < length && performance.now() < until) for (const end = Math.min(length, i + 2000); i < end; i++) each(i);
        this.status.textContent = 'searching…';
        if (i < length) await new Promise(done => setTimeout(done));
        if (this.run !== run) return false;
      }
      return true;
    };
    if (!await piece(events.time.length, i => matches.event(i) && found.event.push(i))) return;
    const lower = wanted.toLowerCase();
    const names = new Map();
    const named = call => {
      const name = calls.name[call];
      if (!names.has(name)) names.set(name, strings.get(name).toLowerCase().includes(lower));
      return names.get(name);
    };
    if (!await piece(calls.begin.length, i => (named(i) || callText.get(i).toLowerCase().includes(lower)) && found.call.push(i))) return;
    this.found = found;
    this.at = -Infinity;
    const time = (list, source) => Float64Array.from(list, index => source[index]);
    this.times = { event: time(found.event, events.time), call: time(found.call, calls.begin) };
    this.timeline.matches = ['event', 'call'].map(kind => ({ kind, time: this.times[kind] })).filter(({ time }) => time.length);
    this.tell();
    this.timeline.redraw();
  }

  get count() {
    return this.found.event.length + this.found.call.length;
  }

  tell(place) {
    this.status.textContent = this.count ? `${place ? thousands(place) + ' of ' : ''}${thousands(this.count)}` : 'not found';
  }

  /** What says of an event whether it is meant: strings are compared once each, not once an event. */
  matcher(wanted) {
    const { recording } = this;
    const lower = wanted.toLowerCase();
    const has = text => text.toLowerCase().includes(lower);
    const pair = /^(\w+)\s*==?\s*(.+)$/.exec(wanted);
    const classes = recording.classes.map(cls => has(cls.name));
    const threads = recording.threads.name.map((name, thread) => has(name) || String(recording.threads.tid[thread]) === wanted);
    const strings = new Map();
    const meant = (number, test) => {
      let known = strings.get(number);
      if (known === undefined) strings.set(number, known = test(recording.strings.get(number)));
      return known;
    };
    const value = pair ? pair[2] : wanted;
    let number = null;
    if (/^-?(\d+|0x[0-9a-f]+)$/i.test(value)) number = value[0] === '-' ? -BigInt(value.slice(1)) : BigInt(value);
    const exactly = value.toLowerCase();
    const tests = recording.classes.map(cls => cls.fields.filter(field => !pair || field.name === pair[1]).flatMap(field => {
      if (field.words === 'text') {
        const numbers = recording.columns.numbers(field.column);
        const test = pair ? text => text.toLowerCase() === exactly : has;
        return [row => meant(numbers[row], test)];
      }
      if (number === null) return [];
      const { least, width, count } = recording.columns.directory[field.column];
      const rest = number - BigInt(least);
      if (rest < 0n || rest >= 1n << BigInt(8 * width) && !(width === 0 && rest === 0n)) return [];
      if (width <= 6) {
        const numbers = recording.columns.numbers(field.column);
        const plain = Number(number);
        return [row => numbers[row] === plain];
      }
      return [row => row < count && recording.columns.exact(field.column, row) === number];
    }));
    const { cls, thread } = recording.events;
    return {
      event: i => (!pair && (classes[cls[i]] || threads[thread[i]])) || tests[cls[i]].some(test => test(recording.rows[i])),
    };
  }

  /** Goes to the next match, or the one before. */
  step(forward) {
    if (!this.count) return;
    const position = kind => {
      const times = this.times[kind];
      let index = forward ? after(times, this.at) : after(times, this.at - 0.5) - 1;
      return { kind, index, time: times[index] };
    };
    let next = ['event', 'call'].map(position).filter(it => it.time !== undefined);
    if (!next.length) {
      this.at = forward ? -Infinity : Infinity;
      next = ['event', 'call'].map(position).filter(it => it.time !== undefined);
    }
    next.sort((a, b) => (forward ? a.time - b.time : b.time - a.time));
    const { kind, index, time } = next[0];
    this.at = time;
    this.tell(after(this.times.event, time) + after(this.times.call, time));
    this.timeline.choose({ kind, index: this.found[kind][index] }, 'show');
  }
}
