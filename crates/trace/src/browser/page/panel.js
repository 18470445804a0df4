// The tables below the time lines: tabs, each filled when it is seen.

const TABS = [
  ['threads', 'Threads'], ['waits', 'Longest waits'], ['reasons', 'Waited for'], ['latencies', 'Latencies'],
  ['events', 'Events'], ['flame', 'Flame graph'], ['details', 'Details'], ['about', 'About'],
];

class Panel {
  constructor(recording, timeline, tabs, content) {
    Object.assign(this, { recording, timeline, tabs, content });
    this.sorted = {};
    this.families = new Set(['runnable', 'blocked', 'asleep']);
    this.flameBy = recording.classes.some(cls => cls.stacks) ? 'events' : 'waits';
    if (recording.states.stack.some(stack => stack > 0)) this.flameBy = 'waits';
    this.buttons = new Map();
    for (const [name, label] of TABS) {
      const button = element('button', '', label);
      button.dataset.tab = name;
      button.setAttribute('role', 'tab');
      button.onclick = () => this.show(name);
      this.buttons.set(name, button);
      tabs.append(button);
    }
    this.scope = element('span', 'scope');
    tabs.append(this.scope);
    this.show(recording.about.states ? 'threads' : recording.about.calls ? 'latencies' : 'events');
    timeline.watchers.push(() => this.refresh());
  }

  show(name) {
    this.tab = name;
    for (const [key, button] of this.buttons) button.setAttribute('aria-selected', key === name);
    this.refresh();
  }

  refresh() {
    const { from, to } = this.timeline.scope;
    this.scope.replaceChildren();
    if (this.timeline.range) {
      const drop = element('button', '', '×');
      drop.title = 'Drop the range (Esc)';
      drop.onclick = () => this.timeline.setRange(null);
      this.scope.append('tables of ', element('b', '', duration(to - from)), ` from ${moment(from)} on `, drop);
    } else this.scope.append('tables of the whole recording · Shift+drag selects a range');
    const made = this[this.tab](from, to);
    this.content.replaceChildren(...[made].flat());
  }

  /** Goes to a state, a call or an event. */
  go(kind, index, zoom = 'fit') {
    this.timeline.choose({ kind, index }, zoom);
  }

  /** A table that its heads sort. A column: label, value to sort by, cell, whether it is text. */
  table(name, columns, rows, click) {
    const table = element('table', 'rows');
    table.dataset.table = name;
    const head = element('tr');
    const body = element('tbody');
    const fill = () => {
      const [by, down] = this.sorted[name] || [null, true];
      const sorted = by === null ? rows : [...rows].sort((a, b) => {
        const [x, y] = [columns[by].value(a), columns[by].value(b)];
        return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
      });
      head.replaceChildren(...columns.map(({ label, text }, index) => {
        const cell = element('th', text ? 'text' : '', label);
        if (index === by) cell.dataset.sorted = down ? 'down' : 'up';
        cell.onclick = () => {
          this.sorted[name] = [index, index === by ? !down : !text];
          fill();
        };
        return cell;
      }));
      body.replaceChildren(...sorted.slice(0, 1000).map(row => {
        const line = element('tr', click ? 'go' : '');
        for (const { value, cell, text, wide } of columns) {
          const shown = cell ? cell(row) : value(row);
          const box = element('td', (text ? 'text' : '') + (wide ? ' wide' : ''), shown instanceof Node ? shown : String(shown));
          if (wide) box.title = box.textContent;
          line.append(box);
        }
        if (click) line.onclick = () => click(row, line);
        return line;
      }));
    };
    fill();
    table.append(element('thead', '', head), body);
    return table;
  }

  nothing(...words) {
    return element('p', '', ...words);
  }

  /** What the page leaves out of states, if it does. */
  leftOut() {
    const { states } = this.recording.about;
    if (!states || !states.left_out) return [];
    return [element('div', 'note', `${counted(states.left_out, 'state')} of at most ${duration(states.up_to)} are left out of the page: there are too many.`
      + ` Times of threads have them${this.timeline.range ? `, to ${duration(states.shares.width)}, but those asleep` : ''}; counts lack them.`)];
  }

  needsSwitches() {
    return this.nothing('The recording does not say what ran: ', element('b', '', 'kestrel sched record'),
      ' records the scheduler\'s events (sched:sched_switch, sched:sched_waking); with -g also where threads were when they stopped.');
  }

  threads(from, to) {
    const { recording } = this;
    if (!recording.about.states) return this.needsSwitches();
    const sums = threadTimes(recording, from, to);
    const { threads, states } = recording;
    const rows = [...threads.tid.keys()].filter(thread => FAMILIES.some(family => sums[family][thread] > 0));
    const time = (label, list) => ({ label, value: row => list[row], cell: row => (list[row] ? duration(list[row]) : '') });
    const wait = (label, list) => ({ label, value: row => (list[row] < 0 ? 0 : states.ns[list[row]]), cell: row => (list[row] < 0 ? '' : this.link('state', list[row], duration(states.ns[list[row]]))) });
    const on = list => ({ label: 'on what', text: true, wide: true, value: row => (list[row] < 0 ? '' : recording.waitsFor(list[row])) });
    if (!this.sorted.threads) rows.sort((a, b) => sums.running[b] - sums.running[a]);
    return [this.table('threads', [
      { label: 'Thread', text: true, value: row => threads.name[row], cell: row => recording.threadName(row) },
      { label: 'process', value: row => threads.pid[row] },
      time('ran', sums.running),
      time('waited for a CPU', sums.runnable),
      time('blocked (D)', sums.blocked),
      time('asleep', sums.asleep),
      wait('longest wait for a CPU', sums.longestRunnable),
      wait('longest wait for something', sums.longestWaiting),
      on(sums.longestWaiting),
    ], rows, row => this.reveal(row)), ...this.leftOut()];
  }

  /** Words that go to a thing. */
  link(kind, index, words) {
    const link = element('a', '', words);
    link.style.cssText = 'color:var(--accent);cursor:pointer';
    link.title = 'Show it';
    link.onclick = event => {
      event.stopPropagation();
      this.go(kind, index);
    };
    return link;
  }

  /** Scrolls to a thread's row. */
  reveal(thread) {
    const lane = this.timeline.lanes.find(lane => lane.kind === 'thread' && lane.number === thread);
    if (lane) this.timeline.scrollTo(lane.top - 60);
  }

  waits(from, to) {
    const { recording } = this;
    if (!recording.about.states) return this.needsSwitches();
    const { states } = recording;
    const choice = element('div', 'note', 'Waits of threads that are ');
    for (const [family, words] of [['runnable', 'runnable (for a CPU)'], ['blocked', 'blocked (D)'], ['asleep', 'asleep']]) {
      const box = element('input');
      box.type = 'checkbox';
      box.checked = this.families.has(family);
      box.onchange = () => {
        this.families[box.checked ? 'add' : 'delete'](family);
        this.refresh();
      };
      choice.append(element('label', '', box, ` ${words}`));
    }
    const rows = longestWaits(recording, from, to, this.families);
    return [choice, rows.length ? this.table('waits', [
      { label: 'Waited', value: row => states.ns[row], cell: row => (states.edges[row] ? '≥ ' : '') + duration(states.ns[row]) },
      { label: 'thread', text: true, value: row => recording.threadName(states.thread[row]) },
      { label: 'state', text: true, value: row => recording.letter(row), cell: row => this.stateWords(row) },
      { label: 'for', text: true, wide: true, value: row => recording.waitsFor(row) },
      { label: 'in', text: true, wide: true, value: row => this.callOf(row) },
      { label: 'woken by', text: true, value: row => (states.by[row] ? recording.threadName(states.by[row] - 1) : states.edges[row] & 2 ? '(nobody yet)' : '') },
      { label: 'from', value: row => states.begin[row], cell: row => moment(states.begin[row]) },
    ], rows, row => this.go('state', row)) : this.nothing('No such waits here.')];
  }

  stateWords(state) {
    const { words, family } = STATES[this.recording.letter(state)] || STATES['?'];
    const dot = element('i', 'dot');
    dot.style.background = `var(--${family})`;
    return element('span', '', dot, words);
  }

  callOf(state) {
    const { recording } = this;
    if ('rwp'.includes(recording.letter(state))) return '';
    const call = recording.callAt(recording.states.thread[state], recording.states.begin[state]);
    return call < 0 ? '' : recording.callText.get(call);
  }

  reasons(from, to) {
    const { recording } = this;
    if (!recording.about.states) return this.needsSwitches();
    const { states } = recording;
    const rows = waitedFor(recording, from, to);
    const hint = recording.about.calls || states.stack.some(stack => stack > 0) ? []
      : [element('div', 'note', 'With system calls or stacks in the recording (kestrel sched record -g) this says what threads were blocked on.')];
    return [...hint, rows.length ? this.table('reasons', [
      { label: 'Waited for', text: true, wide: true, value: row => row.name, cell: row => this.reasonWords(row) },
      { label: 'state', text: true, value: row => FAMILIES[row.family] },
      { label: 'total', value: row => row.total, cell: row => duration(row.total) },
      { label: 'times', value: row => row.count, cell: row => thousands(row.count) },
      { label: 'mean', value: row => row.total / row.count, cell: row => duration(row.total / row.count) },
      { label: 'longest', value: row => states.ns[row.longest], cell: row => duration(states.ns[row.longest]) },
      { label: 'threads', value: row => row.threads.size },
      { label: 'the longest was', text: true, value: row => recording.threadName(states.thread[row.longest]) },
    ], rows, row => this.go('state', row.longest)) : this.nothing('No thread waited here.'), ...this.leftOut()];
  }

  reasonWords(row) {
    const dot = element('i', 'dot');
    dot.style.background = `var(--${FAMILIES[row.family]})`;
    return element('span', '', dot, row.name);
  }

  latencies(from, to) {
    const { recording } = this;
    const rows = latencies(recording, from, to);
    if (!rows.length) {
      return this.nothing('Nothing here begins and ends: sched:sched_switch says how long threads ran and waited, ',
        element('b', '', 'kestrel record --syscalls'), ' how long system calls took.');
    }
    const side = element('div', 'side');
    const draw = row => {
      this.latency = row.name;
      side.replaceChildren(element('h3', '', row.name), bars(histogram(row.ns)));
    };
    const shown = rows.find(row => row.name === this.latency) || rows[0];
    const table = this.table('latencies', [
      { label: 'What took time', text: true, value: row => row.name },
      { label: 'times', value: row => row.ns.length, cell: row => thousands(row.ns.length) },
      { label: 'failed', value: row => row.failed, cell: row => row.failed || '' },
      { label: 'total', value: row => row.total, cell: row => duration(row.total) },
      { label: 'mean', value: row => row.total / row.ns.length, cell: row => duration(row.total / row.ns.length) },
      { label: 'median', value: row => percentile(row.ns, 0.5), cell: row => duration(percentile(row.ns, 0.5)) },
      { label: '99 %', value: row => percentile(row.ns, 0.99), cell: row => duration(percentile(row.ns, 0.99)) },
      { label: 'longest', value: row => row.ns[row.ns.length - 1], cell: row => this.link(row.kind, row.longest, duration(row.ns[row.ns.length - 1])) },
    ], rows, (row, line) => {
      line.parentNode.querySelectorAll('.chosen').forEach(other => other.classList.remove('chosen'));
      line.classList.add('chosen');
      draw(row);
    });
    draw(shown);
    const { calls } = recording.about;
    const note = calls && calls.left_out ? [element('div', 'note', `${counted(calls.left_out, 'call')} of at most ${duration(calls.up_to)} are left out of the page: there are too many.`)] : [];
    return element('div', 'columns', element('div', '', ...note, table), side);
  }

  events(from, to) {
    const { recording } = this;
    const rows = eventCounts(recording, from, to);
    if (!rows.length) return this.nothing('No events here.');
    const all = rows.reduce((sum, row) => sum + row.count, 0);
    const share = row => {
      const bar = element('span', 'share');
      bar.style.width = `${Math.max(1, row.count / rows[0].count * 90)}px`;
      return element('span', '', `${(row.count / all * 100).toFixed(1)} %`, bar);
    };
    const colour = row => {
      const dot = element('i', 'dot');
      dot.style.background = this.timeline.palette.css[hue(row.index + 1)];
      return element('span', '', dot, row.name);
    };
    const sampled = rows.some(row => row.estimated) ? [element('div', 'note', '≈: estimated from the sample that the page has.')] : [];
    return [...sampled, this.table('events', [
      { label: 'Event', text: true, value: row => row.name, cell: colour },
      { label: 'records', value: row => row.count, cell: row => (row.estimated ? '≈ ' : '') + thousands(row.count) },
      { label: 'share', value: row => row.count, cell: share },
      { label: 'per second', value: row => row.count, cell: row => to - from > 1 ? thousands(row.count / ((to - from) / 1e9)) : '' },
    ], rows, row => this.search && this.search(row.name))];
  }

  flame(from, to) {
    const { recording } = this;
    if (recording.nodes.parent.length < 2) {
      return this.nothing('The recording has no stacks: ', element('b', '', 'kestrel record -g'), ' takes them with each event, ', element('b', '', 'kestrel record -F 99 -g'), ' a profile.');
    }
    const choice = element('select');
    const options = [['events', 'all events with stacks'], ...recording.names.filter(event => recording.classes.some((cls, index) => cls.stacks && recording.eventOf[index] === event)).map(event => [String(event), recording.classes[event].name])];
    if (recording.states.stack.some(stack => stack > 0)) options.unshift(['waits', 'time off the CPU']);
    for (const [value, label] of options) choice.append(Object.assign(element('option', '', label), { value }));
    choice.value = this.flameBy;
    choice.onchange = () => {
      this.flameBy = choice.value;
      this.refresh();
    };
    const weighed = stackWeights(recording, from, to, this.flameBy);
    const all = this.flameBy === 'waits' ? duration(weighed.weights[0] || 0) : counted(weighed.weights[0] || 0, 'event');
    const head = element('div', 'note', 'Stacks of ', choice, `${all}; a click on a frame widens it`);
    return weighed.stacks ? [head, flameGraph(recording, weighed, this.flameBy)] : [head, this.nothing('No stacks here.')];
  }

  details() {
    const { chosen } = this.timeline;
    if (!chosen) return this.nothing('Click on a state, a system call or an event: all that is known of it stands here.');
    const { head, fields, stack } = describe(this.recording, chosen);
    const list = element('dl');
    for (const [name, value] of fields) {
      const cell = element('dd', '', value);
      list.append(element('dt', '', name), cell);
    }
    if (chosen.kind === 'state' && this.recording.states.by[chosen.index]) {
      const button = element('button', '', 'show who woke it');
      button.onclick = () => this.reveal(this.recording.states.by[chosen.index] - 1);
      list.append(element('dt'), element('dd', '', button));
    }
    if (stack.length) list.append(element('dt', '', 'stack'), element('dd', '', stack.map(frame => frame.slice(1)).join('\n')));
    return [element('h3', '', head), list];
  }

  about() {
    const { about, losses } = this.recording;
    const list = element('dl');
    const add = (name, value) => value && list.append(element('dt', '', name), element('dd', '', String(value)));
    add('command', about.command);
    add('machine', `${about.host}, Linux ${about.kernel}, ${about.machine}`);
    add('recording', about.path);
    const [wall, clock] = [this.recording.wall(0), this.recording.clock(0)];
    add('first record', wall ? `${wall} (${clock} of the kernel's clock)` : `${clock} of the recording's clock; it does not say the time of day`);
    add('length', duration(this.recording.length));
    add('records', thousands(about.records));
    for (const event of this.recording.sampledEvents()) add('sample', `of ${thousands(event.count)} ${event.name} the page has one in ${event.stride}`);
    for (const line of about.missing) add('missing', line);
    for (const note of about.notes) add('note', note);
    for (let i = 0; i < Math.min(100, losses.count.length); i++) {
      add('lost', `${thousands(losses.count[i])} events or packets between ${moment(losses.from[i])} and ${moment(losses.from[i] + losses.ns[i])}`);
    }
    if (losses.count.length > 100) add('lost', `and ${thousands(losses.count.length - 100)} times more`);
    if (!losses.count.length && !about.missing.length) add('losses', 'none');
    return list;
  }
}

/** Counts by powers of two, as bars. */
function bars(buckets) {
  const most = buckets.reduce((greatest, [, count]) => Math.max(greatest, count), 1);
  const table = element('table', 'rows');
  table.dataset.table = 'histogram';
  const line = ([least, count]) => {
    const bar = element('span', 'share');
    bar.style.width = `${count / most * 180}px`;
    const label = least ? `${duration(least)} – ${duration(least * 2)}` : 'below 1 ns';
    return element('tr', '', element('td', '', label), element('td', '', thousands(count)), element('td', 'text', bar));
  };
  table.append(element('tbody', '', ...buckets.map(line)));
  return table;
}

/** All that is known of a thing: a head, fields, frames of a stack. */
function describe(recording, { kind, index }) {
  const { events, states, calls, classes, threads } = recording;
  if (kind === 'event') {
    const thread = events.thread[index];
    return {
      head: classes[events.cls[index]].name,
      fields: [['at', `${moment(events.time[index])}  ·  ${recording.clock(events.time[index])}`], ['thread', `${recording.threadName(thread)}, process ${threads.pid[thread]}`],
        ['CPU', String(events.cpu[index])], ...recording.fieldsOf(index)],
      stack: recording.framesOf(events.stack[index]),
    };
  }
  if (kind === 'call') {
    const thread = calls.thread[index];
    const ends = calls.marks[index] & 2 ? ['ended', 'not in the recording'] : ['ended', moment(calls.end[index])];
    return {
      head: recording.callText.get(index),
      fields: [['took', calls.marks[index] & 3 ? 'unknown' : duration(calls.ns[index])], ['thread', recording.threadName(thread)], ['began', moment(calls.begin[index])], ends],
      stack: [],
    };
  }
  const letter = recording.letter(index);
  const thread = states.thread[index];
  const cut = states.edges[index];
  const fields = [['for', `${cut ? 'at least ' : ''}${duration(states.ns[index])}`], ['thread', `${recording.threadName(thread)}, process ${threads.pid[thread]}`],
    ['from', `${moment(states.begin[index])}${cut & 1 ? ' or before' : ''}`], ['to', `${moment(states.end[index])}${cut & 2 ? ' or later' : ''}`]];
  if (letter === 'r') fields.push(['on', `CPU ${states.cpu[index]}`]);
  else fields.push(['waits for', recording.waitsFor(index)]);
  const call = letter === 'r' ? -1 : recording.callAt(thread, states.begin[index]);
  if (call >= 0) fields.push(['in', recording.callText.get(call)]);
  if (states.by[index]) {
    const waker = states.by[index] - 1;
    const how = threads.tid[waker] === 0 ? 'an interrupt on an idle CPU' : recording.threadName(waker);
    fields.push([letter === 'w' ? 'was woken by' : 'woken by', how]);
  } else if (cut & 2 && letter !== 'r') fields.push(['woken by', 'nobody before the recording ended']);
  return { head: (STATES[letter] || { words: letter }).words, fields, stack: recording.framesOf(states.stack[index]) };
}
