// Numbers, times and states in words.

const UNITS = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];

/** A duration with three or four digits: `1.24 ms`. */
function duration(ns) {
  if (ns === 0) return '0';
  const [unit, name] = UNITS.find(([unit]) => Math.abs(ns) >= unit) || UNITS[3];
  const value = ns / unit;
  const digits = unit === 1 ? 0 : Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 10 ? 2 : 3;
  return `${value.toFixed(digits)} ${name}`;
}

/** A moment since the first record, to the nanosecond: `1.250 042 117 s`. */
function moment(ns) {
  const sign = ns < 0 ? '−' : '';
  const whole = Math.round(Math.abs(ns));
  const rest = String(whole % 1e9).padStart(9, '0');
  return `${sign}${Math.floor(whole / 1e9)}.${rest.slice(0, 3)} ${rest.slice(3, 6)} ${rest.slice(6)} s`;
}

/** 1,234,567 */
function thousands(number) {
  return Math.round(number).toLocaleString('en-US');
}

function counted(number, what) {
  return `${thousands(number)} ${what}${number === 1 ? '' : 's'}`;
}

/** What the letters of states mean, as ps has them; `r`, `w` and `p` are ours. */
const STATES = {
  r: { words: 'running', family: 'running' },
  w: { words: 'runnable: woken, waits for a CPU', family: 'runnable' },
  p: { words: 'runnable: preempted, waits for a CPU', family: 'runnable' },
  D: { words: 'blocked, uninterruptible (D)', family: 'blocked' },
  S: { words: 'asleep (S)', family: 'asleep' },
  I: { words: 'idle kernel thread (I)', family: 'asleep' },
  T: { words: 'stopped (T)', family: 'asleep' },
  t: { words: 'stopped by a tracer (t)', family: 'asleep' },
  P: { words: 'parked (P)', family: 'asleep' },
  X: { words: 'dead (X)', family: 'asleep' },
  Z: { words: 'zombie (Z)', family: 'asleep' },
  '?': { words: 'asleep; since when is not recorded', family: 'asleep' },
};
const FAMILIES = ['running', 'runnable', 'blocked', 'asleep'];

/** Frames of the scheduler itself, which say nothing of what is waited for. */
const SCHEDULER = /^(__)?(schedule|preempt_schedule|schedule_timeout|schedule_hrtimeout|schedule_preempt|io_schedule|__traceiter|perf_|bpf_|trace_|__bpf)/;

/** An element with a class and strings or elements in it: what comes from a trace is never markup. */
function element(tag, name, ...inside) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...inside);
  return made;
}

/** The first index whose value is greater than `value`, in a rising array. */
function after(values, value, low = 0, high = values.length) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] > value) high = middle; else low = middle + 1;
  }
  return low;
}

/** The same from an index near the answer on. */
function gallop(values, value, from) {
  let step = 1;
  while (from + step < values.length && values[from + step] <= value) step *= 2;
  return after(values, value, from, Math.min(from + step + 1, values.length));
}
