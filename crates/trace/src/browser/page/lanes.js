// What stands in a row of the time lines: spans with colours and how much of each there is, marks of events.

/** Colours by place: families of states, then calls, then processes and events. */
const PALETTE = ['running', 'runnable', 'blocked', 'asleep', 'call', 'failed', 'busy'];
const [RUNNING, RUNNABLE, BLOCKED, ASLEEP, CALL, FAILED, BUSY] = PALETTE.keys();
const HUES = 24;

/** The colour of a process or an event: neighbours are far apart, and the first of all have colours of their own. */
function hue(number) {
  return PALETTE.length + number * 7 % HUES;
}

/** Spans of a row that do not overlap, by begin. `layers`: of what a pixel with many of them is made, the lowest first: a colour (else the first span's), and whether a span counts. */
class Strip {
  constructor(list, source, colourOf, layers) {
    const n = list.length;
    this.ref = list;
    this.begin = new Float64Array(n);
    this.end = new Float64Array(n);
    this.colour = new Uint8Array(n);
    for (let i = 0; i < n; i++) {
      this.begin[i] = source.begin[list[i]];
      this.end[i] = source.end[list[i]];
      this.colour[i] = colourOf(list[i]);
    }
    // Sums up to each span, so that any stretch of time costs two look-ups.
    this.layers = layers.map(({ colour, counts }) => {
      const sums = new Float64Array(n + 1);
      for (let i = 0; i < n; i++) sums[i + 1] = sums[i] + (counts(this.colour[i]) ? this.end[i] - this.begin[i] : 0);
      return { colour, counts, sums };
    });
  }

  /** How long one of the layers was there between two times. */
  time(layer, from, to) {
    const { counts, sums } = this.layers[layer];
    const first = after(this.end, from);
    const last = after(this.begin, to);
    if (first >= last) return 0;
    let all = sums[last] - sums[first];
    if (counts(this.colour[first])) all -= Math.max(0, from - this.begin[first]);
    if (counts(this.colour[last - 1])) all -= Math.max(0, this.end[last - 1] - to);
    return all;
  }

  /** The span at a time, or -1; with `slack`, one that is near. */
  at(time, slack) {
    const index = after(this.begin, time) - 1;
    if (index >= 0 && this.end[index] >= time) return index;
    const next = index + 1;
    const near = [index, next].filter(it => it >= 0 && it < this.begin.length);
    const distance = it => Math.min(Math.abs(this.begin[it] - time), Math.abs(this.end[it] - time));
    near.sort((a, b) => distance(a) - distance(b));
    return near.length && distance(near[0]) <= slack ? near[0] : -1;
  }
}

/** Times of a row's events. */
class Ticks {
  constructor(list, events, eventOf) {
    this.ref = list;
    this.time = Float64Array.from(list, index => events.time[index]);
    this.colour = Uint8Array.from(list, index => hue(eventOf[events.cls[index]] + 1));
  }

  at(time, slack) {
    const next = after(this.time, time);
    const near = [next - 1, next].filter(it => it >= 0 && it < this.time.length);
    near.sort((a, b) => Math.abs(this.time[a] - time) - Math.abs(this.time[b] - time));
    return near.length && Math.abs(this.time[near[0]] - time) <= slack ? near[0] : -1;
  }
}

/** How long a row was in which state by buckets of time: exact sums where the page has not all states. */
class Shares {
  constructor(list, { bucket, width, begin, kinds, span }) {
    this.width = width;
    this.span = span;
    this.begin = Float64Array.from(list, index => begin + bucket[index] * width);
    this.values = kinds.map(kind => Float64Array.from(list, index => kind[index]));
    this.sums = this.values.map(values => {
      const sums = new Float64Array(values.length + 1);
      for (let i = 0; i < values.length; i++) sums[i + 1] = sums[i] + values[i];
      return sums;
    });
  }

  /** The time of a kind up to a moment; within a bucket it is taken to be even. */
  upTo(kind, time, index = after(this.begin, time) - 1) {
    if (index < 0) return 0;
    // The last bucket ends where the recording does.
    const width = Math.max(1, Math.min(this.width, this.span - this.begin[index]));
    return this.sums[kind][index] + Math.min(1, (time - this.begin[index]) / width) * this.values[kind][index];
  }

  time(kind, from, to) {
    return this.upTo(kind, to) - this.upTo(kind, from);
  }
}

const all = () => true;

/** A row; what it shows is made when it is first seen. */
class Lane {
  constructor(recording, kind, number) {
    Object.assign(this, { recording, kind, number });
    const { states, calls } = recording.about;
    // Gaps and heights of states, calls and marks; rows of marks alone have larger ones.
    const strips = kind === 'head' ? [] : [[3, states ? 15 : 0], [0, kind === 'thread' && calls ? 13 : 0], states || calls && kind === 'thread' ? [1, 5] : [5, 10]];
    let y = states ? 0 : 2;
    this.places = strips.map(([gap, height]) => {
      const top = y + (height ? gap : 0);
      y = top + height;
      return { top, height };
    });
    this.height = kind === 'head' ? 23 : y + 3;
  }

  get label() {
    return this.kind === 'cpu' ? `CPU ${this.number}` : this.recording.threadName(this.number);
  }

  /** States of a thread, or what a CPU ran. */
  get spans() {
    const { states, statesOf, runsOn, threads } = this.recording;
    if (this.kind === 'cpu') {
      const colourOf = state => hue(threads.pid[states.thread[state]]);
      return this.once('spans', () => new Strip(runsOn.list(this.number), states, colourOf, [{ counts: all }]));
    }
    const family = state => FAMILIES.indexOf((STATES[this.recording.letter(state)] || STATES['?']).family);
    const layers = [RUNNING, RUNNABLE, BLOCKED, ASLEEP].map(colour => ({ colour, counts: it => it === colour }));
    return this.once('spans', () => new Strip(statesOf.list(this.number), states, family, layers));
  }

  get calls() {
    const { calls, callsOf } = this.recording;
    const colourOf = call => calls.marks[call] & 4 ? FAILED : CALL;
    return this.once('calls', () => new Strip(callsOf.list(this.number), calls, colourOf, [{ colour: CALL, counts: all }]));
  }

  get ticks() {
    const { events, eventsOf, eventsOn, eventOf } = this.recording;
    const of = this.kind === 'cpu' ? eventsOn : eventsOf;
    return this.once('ticks', () => new Ticks(of.list(this.number), events, eventOf));
  }

  /** Sums by buckets of time, where the page has not all states. */
  get shares() {
    const { shares } = this.recording;
    if (!shares) return null;
    const row = this.kind === 'cpu' ? this.number * 2 + 1 : this.number * 2;
    return this.once('shares', () => new Shares(shares.of.list(row), shares));
  }

  /** How long a layer was there between two times. */
  time(layer, from, to) {
    return (this.shares || this.spans).time(layer, from, to);
  }

  /** Whether anything happens here between two times: a thread that only sleeps does nothing. */
  isActive(from, to) {
    if (this.kind !== 'thread') return true;
    const { time } = this.ticks;
    if (after(time, to) > after(time, from - 1)) return true;
    return [RUNNING, RUNNABLE, BLOCKED].some(layer => this.time(layer, from, to) > 0);
  }

  once(name, make) {
    Object.defineProperty(this, name, { value: make() });
    return this[name];
  }
}

/** All rows, threads in an order. */
function lanesOf(recording, order) {
  const { threads, eventsOf, statesOf, callsOf, about } = recording;
  const cpus = about.cpus.map(cpu => new Lane(recording, 'cpu', cpu));
  const there = [...threads.tid.keys()].filter(thread => threads.tid[thread] !== 0
    && (eventsOf.list(thread).length || statesOf.list(thread).length || callsOf.list(thread).length));
  const sums = threadTimes(recording, 0, recording.span);
  const busy = thread => sums.running[thread] || eventsOf.list(thread).length / 1e9;
  const byName = (a, b) => threads.name[a].localeCompare(threads.name[b]) || threads.tid[a] - threads.tid[b];
  const sorts = {
    busy: (a, b) => busy(b) - busy(a) || byName(a, b),
    runnable: (a, b) => sums.runnable[b] - sums.runnable[a] || byName(a, b),
    blocked: (a, b) => sums.blocked[b] - sums.blocked[a] || sums.asleep[b] - sums.asleep[a] || byName(a, b),
    process: (a, b) => threads.pid[a] - threads.pid[b] || threads.tid[a] - threads.tid[b],
    name: byName,
  };
  there.sort(sorts[order]);
  const head = label => Object.defineProperty(new Lane(recording, 'head', 0), 'label', { value: label });
  const section = (label, threads) => (threads.length ? [head(label(threads.length)), ...threads.map(thread => new Lane(recording, 'thread', thread))] : []);
  return [
    head(`CPUs (${cpus.length})`), ...cpus,
    ...section(count => `Threads (${count})`, there.filter(thread => threads.followed[thread])),
    ...section(count => `Other threads (${count}): only what they did to these`, there.filter(thread => !threads.followed[thread])),
  ];
}
