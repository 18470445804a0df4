// Answers about a range of time. Each is a plain function of the recording and two times.

/** The part of a span that lies in a range, ns. */
function inside(source, index, from, to) {
  return Math.max(0, Math.min(source.end[index], to) - Math.max(source.begin[index], from));
}

/** How long each thread was in the states of each family, and its longest waits: indices of states, or -1. */
function threadTimes(recording, from, to) {
  const { states, threads, totals } = recording;
  const n = threads.tid.length;
  const sums = { longestRunnable: new Int32Array(n).fill(-1), longestWaiting: new Int32Array(n).fill(-1) };
  for (const family of FAMILIES) sums[family] = new Float64Array(n);
  const families = familyOfStates();
  const last = after(states.begin, to);
  for (let i = 0; i < last; i++) {
    const ns = inside(states, i, from, to);
    if (ns <= 0) continue;
    const thread = states.thread[i];
    const family = families[states.state[i]];
    sums[FAMILIES[family]][thread] += ns;
    if (family === RUNNING) continue;
    const longest = family === RUNNABLE ? sums.longestRunnable : sums.longestWaiting;
    if (longest[thread] < 0 || states.ns[i] > states.ns[longest[thread]]) longest[thread] = i;
  }
  // Short states that the page leaves out are in sums by buckets of time, and in the totals.
  if (recording.shares) {
    for (let thread = 0; thread < n; thread++) {
      const shares = new Shares(recording.shares.of.list(thread * 2), recording.shares);
      [RUNNING, RUNNABLE, BLOCKED].forEach(kind => { sums[FAMILIES[kind]][thread] = Math.round(shares.time(kind, from, to)); });
      if (from <= 0 && to >= recording.span) sums.asleep[thread] = (totals.waiting[thread] || 0) - sums.blocked[thread];
    }
  }
  return sums;
}

/** The family of each state by its letter's number. */
function familyOfStates() {
  const families = new Uint8Array(256).fill(ASLEEP);
  for (const [letter, { family }] of Object.entries(STATES)) families[letter.charCodeAt(0)] = FAMILIES.indexOf(family);
  return families;
}

/** The longest waits that touch a range, the longest first; `wanted` families. */
function longestWaits(recording, from, to, wanted, most = 300) {
  const { states } = recording;
  const families = familyOfStates();
  let found = [];
  let least = 0;
  const trim = () => {
    found.sort((a, b) => states.ns[b] - states.ns[a]);
    found = found.slice(0, most);
    if (found.length === most) least = states.ns[found[most - 1]];
  };
  for (let i = 0, last = after(states.begin, to); i < last; i++) {
    if (states.end[i] < from || states.ns[i] <= least || !wanted.has(FAMILIES[families[states.state[i]]])) continue;
    found.push(i);
    if (found.length >= 4 * most) trim();
  }
  trim();
  return found;
}

/** What threads waited for in a range: by system call, by function of the kernel, or by state. */
function waitedFor(recording, from, to) {
  const { states, threads } = recording;
  const families = familyOfStates();
  const groups = new Map();
  const names = new Map();
  for (let i = 0, last = after(states.begin, to); i < last; i++) {
    const family = families[states.state[i]];
    if (family === RUNNING || states.end[i] < from) continue;
    let key = `${family}`;
    if (family !== RUNNABLE) {
      const call = recording.callAt(states.thread[i], states.begin[i]);
      key = call >= 0 ? `${family}c${recording.calls.name[call]}` : states.stack[i] ? `${family}s${states.stack[i]}` : `${family}l${states.state[i]}`;
      let name = names.get(key);
      if (name === undefined) names.set(key, name = recording.waitsFor(i));
      key = `${family} ${name}`;
    }
    let group = groups.get(key);
    if (!group) groups.set(key, group = { name: family === RUNNABLE ? 'a CPU' : key.slice(2), family, count: 0, total: 0, longest: i, threads: new Set() });
    group.count++;
    group.total += inside(states, i, from, to);
    group.threads.add(states.thread[i]);
    if (states.ns[i] > states.ns[group.longest]) group.longest = i;
  }
  return [...groups.values()].sort((a, b) => b.total - a.total);
}

/** How long things that began in a range took: states and system calls, each with all its durations in order. */
function latencies(recording, from, to) {
  const { states, calls, strings, about } = recording;
  const groups = new Map();
  const add = (key, name, kind, ns, index, failed) => {
    let group = groups.get(key);
    if (!group) groups.set(key, group = { name, kind, ns: [], longest: index, failed: 0, total: 0 });
    group.ns.push(ns);
    group.total += ns;
    group.failed += failed;
    const source = kind === 'state' ? states : calls;
    if (ns > source.ns[group.longest]) group.longest = index;
  };
  const words = { r: 'running at a stretch', w: 'waiting for a CPU, woken', p: 'waiting for a CPU, preempted', D: 'blocked, uninterruptible (D)', S: 'asleep (S)' };
  for (let i = after(states.begin, from - 1), last = after(states.begin, to); i < last; i++) {
    const name = words[recording.letter(i)];
    // Of what is cut by the recording's ends nobody knows how long it took.
    if (name && !states.edges[i]) add(`s${states.state[i]}`, name, 'state', states.ns[i], i, 0);
  }
  for (let i = after(calls.begin, from - 1), last = after(calls.begin, to); i < last; i++) {
    if (!(calls.marks[i] & 3)) add(`c${calls.name[i]}`, strings.get(calls.name[i]), 'call', calls.ns[i], i, calls.marks[i] & 4 ? 1 : 0);
  }
  const all = [...groups.values()];
  for (const group of all) group.ns = Float64Array.from(group.ns).sort();
  return all.sort((a, b) => (a.kind === b.kind ? b.total - a.total : a.kind === 'state' ? -1 : 1));
}

/** The value below which a share of sorted values lies. */
function percentile(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))];
}

/** Sorted durations in buckets that double: [least, count]. */
function histogram(sorted) {
  const buckets = [];
  for (const ns of sorted) {
    const least = ns < 1 ? 0 : 2 ** Math.floor(Math.log2(ns));
    const last = buckets[buckets.length - 1];
    if (last && last[0] === least) last[1]++;
    else {
      for (let gap = last && last[0] ? last[0] * 2 : least; gap < least; gap *= 2) buckets.push([gap, 0]);
      buckets.push([least, 1]);
    }
  }
  return buckets;
}

/** Records of each event in a range; of classes of which the page has a sample, as many as that stands for. */
function eventCounts(recording, from, to) {
  const { events, classes, eventOf } = recording;
  const whole = from <= 0 && to >= recording.span;
  const counts = new Float64Array(classes.length);
  if (!whole) for (let i = after(events.time, from - 1), last = after(events.time, to); i < last; i++) counts[events.cls[i]]++;
  const rows = classes.map((cls, index) => ({ name: cls.name, index, count: 0, estimated: false }));
  classes.forEach((cls, index) => {
    const row = rows[eventOf[index]];
    row.count += whole ? cls.count : counts[index] * cls.stride;
    row.estimated ||= !whole && cls.stride > 1 && counts[index] > 0;
  });
  return rows.filter(row => row.count > 0).sort((a, b) => b.count - a.count);
}
