// The recording: its columns with names, and what is found in them.

class Recording {
  constructor(columns) {
    const about = this.about = columns.about;
    this.columns = columns;
    this.origin = BigInt(about.begin);
    this.length = Number(BigInt(about.end) - this.origin);
    // A single record has no length, and is drawn all the same.
    this.span = Math.max(1, this.length);
    const time = name => columns.numbers(name, this.origin);
    this.classes = about.classes;
    // Classes of one name, of which `record --syscalls` makes several, are one event: the number of the first.
    this.eventOf = this.classes.map(cls => this.classes.findIndex(other => other.name === cls.name));
    // The first class of each event, in the order of the classes.
    this.names = [...new Set(this.eventOf)];
    this.threads = { tid: columns.numbers('thread.tid'), pid: columns.numbers('thread.pid'), followed: columns.numbers('thread.followed'), name: columns.strings('thread.name').all() };
    this.events = {
      time: time('event.time'), cls: columns.numbers('event.class'), cpu: columns.numbers('event.cpu'),
      thread: columns.numbers('event.thread'), stack: columns.numbers('event.stack'),
    };
    this.rows = this.rowsOfClasses();
    this.states = spans(time('state.begin'), columns.numbers('state.ns'), {
      thread: columns.numbers('state.thread'), state: columns.numbers('state.state'), cpu: columns.numbers('state.cpu'),
      by: columns.numbers('state.by'), stack: columns.numbers('state.stack'), edges: columns.numbers('state.edges'),
    });
    this.calls = spans(time('call.begin'), columns.numbers('call.ns'), {
      thread: columns.numbers('call.thread'), name: columns.numbers('call.name'), marks: columns.numbers('call.marks'),
    });
    this.callText = columns.strings('call.text');
    this.strings = columns.strings('strings');
    this.totals = { running: columns.numbers('total.running'), runnable: columns.numbers('total.runnable'), waiting: columns.numbers('total.waiting') };
    this.nodes = { parent: columns.numbers('node.parent'), frame: columns.numbers('node.frame') };
    this.frames = columns.strings('frames').all();
    this.losses = { from: time('loss.from'), ns: columns.numbers('loss.ns'), count: columns.numbers('loss.count') };
    this.timeline = columns.numbers('timeline');
    const threads = this.threads.tid.length;
    this.statesOf = new Groups(this.states.thread, threads);
    this.callsOf = new Groups(this.calls.thread, threads);
    this.eventsOf = new Groups(this.events.thread, threads);
    const cpus = 1 + Math.max(0, ...about.cpus);
    this.eventsOn = new Groups(this.events.cpu, cpus);
    const running = 'r'.charCodeAt(0);
    this.runsOn = new Groups(this.states.cpu, cpus, index => this.states.state[index] === running);
    if (about.states && about.states.shares) {
      const rows = columns.numbers('share.row');
      this.shares = {
        of: new Groups(rows, 2 + 2 * Math.max(threads, cpus)), bucket: columns.numbers('share.bucket'), width: about.states.shares.width, span: this.span,
        begin: Number(BigInt(about.states.shares.begin) - this.origin), kinds: ['running', 'runnable', 'blocked'].map(kind => columns.numbers(`share.${kind}`)),
      };
    }
  }

  /** The place of each event among those of its class. */
  rowsOfClasses() {
    const seen = new Uint32Array(this.classes.length);
    return Uint32Array.from(this.events.cls, cls => seen[cls]++);
  }

  /** Events of which the page has a sample: how many there were, and of how many it has one. */
  sampledEvents() {
    const all = this.names.map(event => {
      const sampled = this.classes.filter((cls, index) => this.eventOf[index] === event && cls.stride > 1);
      const strides = sampled.map(cls => cls.stride);
      const [least, most] = [Math.min(...strides), Math.max(...strides)];
      return { name: this.classes[event].name, count: sampled.reduce((sum, cls) => sum + cls.count, 0), stride: least === most ? `${most}` : `${least} to ${most}` };
    });
    return all.filter(event => event.count > 0).sort((a, b) => b.count - a.count);
  }

  /** Whether not all events are in the page. */
  get sampled() {
    return this.classes.some(cls => cls.stride > 1);
  }

  threadName(thread) {
    const { tid, name } = this.threads;
    return tid[thread] === 0 ? '<idle>' : `${name[thread]} ${tid[thread]}`;
  }

  letter(state) {
    return String.fromCharCode(this.states.state[state]);
  }

  /** The time on the wall, as the traced machine had it; nothing where the recording does not say it. */
  wall(ns) {
    if (!this.about.clock) return '';
    const all = BigInt(this.about.clock) + this.origin + BigInt(Math.round(ns));
    const text = new Date(Number(all / 1000000n)).toISOString();
    return `${text.slice(0, 10)} ${text.slice(11, 19)}.${String(all % 1000000000n).padStart(9, '0')} UTC`;
  }

  /** The kernel's clock, as `kestrel print` has it. */
  clock(ns) {
    const all = this.origin + BigInt(Math.round(ns));
    return `${all / 1000000000n}.${String(all % 1000000000n).padStart(9, '0')}`;
  }

  /** Fields of an event with their values as text. */
  fieldsOf(event) {
    const all = [];
    const row = this.rows[event];
    for (const field of this.classes[this.events.cls[event]].fields) {
      const text = this.fieldText(field, row);
      if (field.element > 0) all[all.length - 1][1] = all[all.length - 1][1].replace(/\]$/, `, ${text}]`);
      else all.push([field.name, field.element === 0 ? `[${text}]` : text]);
    }
    return all;
  }

  fieldText(field, row) {
    const value = this.columns.exact(field.column, row);
    if (field.words === 'text') return this.strings.get(Number(value));
    return field.words === 'hexadecimal' ? `0x${value.toString(16)}` : String(value);
  }

  /** The frames of a stack, innermost first; `stack` is 1 + a node. */
  framesOf(stack) {
    const names = [];
    for (let node = stack - 1; node > 0; node = this.nodes.parent[node]) names.push(this.frames[this.nodes.frame[node]]);
    return names;
  }

  /** The call that a thread was in at a time: an index, or -1. */
  callAt(thread, time) {
    const { order, from, to } = this.callsOf.of(thread);
    let low = from, high = to;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.calls.begin[order[middle]] > time) high = middle; else low = middle + 1;
    }
    return low > from && this.calls.end[order[low - 1]] >= time ? order[low - 1] : -1;
  }

  /** What ran on a CPU at a time: a thread, or -1. */
  runningAt(cpu, time) {
    if (cpu >= this.runsOn.count) return -1;
    const { order, from, to } = this.runsOn.of(cpu);
    let low = from, high = to;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.states.begin[order[middle]] > time) high = middle; else low = middle + 1;
    }
    return low > from && this.states.end[order[low - 1]] > time ? this.states.thread[order[low - 1]] : -1;
  }

  /** What a thread waits for, in short. */
  waitsFor(state) {
    const letter = this.letter(state);
    const { thread, begin, cpu, stack } = this.states;
    if (letter === 'r') return '';
    if (letter === 'w' || letter === 'p') {
      const other = this.runningAt(cpu[state], begin[state]);
      const busy = other >= 0 && other !== thread[state] ? `: ${this.threadName(other)} ran there` : '';
      return `CPU ${cpu[state]}${busy}`;
    }
    const call = this.callAt(thread[state], begin[state]);
    if (call >= 0) return this.strings.get(this.calls.name[call]);
    const frame = this.framesOf(stack[state]).find(name => name[0] === 'k' && !SCHEDULER.test(name.slice(1)));
    return frame ? frame.slice(1) : STATES[letter] ? STATES[letter].words : letter;
  }
}

/** Things that last: begins, ends, and what else there is of them. */
function spans(begin, ns, others) {
  return { begin, ns, end: Float64Array.from(begin, (time, index) => time + ns[index]), ...others };
}

/** Indices by a key, in their order. */
class Groups {
  constructor(keys, count, wanted = () => true) {
    this.count = count;
    this.starts = new Uint32Array(count + 1);
    for (let i = 0; i < keys.length; i++) if (wanted(i)) this.starts[keys[i] + 1]++;
    for (let i = 0; i < count; i++) this.starts[i + 1] += this.starts[i];
    const at = this.starts.slice();
    this.order = new Uint32Array(this.starts[count]);
    for (let i = 0; i < keys.length; i++) if (wanted(i)) this.order[at[keys[i]]++] = i;
  }

  of(key) {
    return { order: this.order, from: this.starts[key], to: this.starts[key + 1] };
  }

  list(key) {
    return this.order.subarray(this.starts[key], this.starts[key + 1]);
  }
}
