// The page put together.

const byId = id => document.getElementById(id);

/** What is missing or left out, above all else. */
function warnings(recording) {
  const { about, losses } = recording;
  const lines = [...about.missing];
  if (losses.count.length) {
    const all = losses.count.reduce((a, b) => a + b, 0);
    lines.push(`${thousands(all)} events or packets are missing at ${counted(losses.count.length, 'place')}, the first at ${moment(losses.from[0])}: red in the time lines.`);
  }
  const sampled = recording.sampledEvents();
  if (sampled.length) {
    const shown = sampled.slice(0, 3).map(event => `one in ${event.stride} of ${thousands(event.count)} ${event.name}`).join(', ');
    lines.push(`The recording has ${counted(about.records, 'event')}; the page has a sample of the most frequent: ${shown}${sampled.length > 3 ? ` and so on, ${sampled.length} events in all` : ''}. Totals of the whole recording are of all; those of a range are estimated.`);
  }
  if (about.states && about.states.left_out) lines.push(`${counted(about.states.left_out, 'state')} of threads of at most ${duration(about.states.up_to)} are drawn as sums only.`);
  if (about.calls && about.calls.left_out) lines.push(`${counted(about.calls.left_out, about.calls.spans ? 'call or span' : 'system call')} of at most ${duration(about.calls.up_to)} are not drawn.`);
  if (about.strings_left_out) lines.push(`${counted(about.strings_left_out, 'string')} of fields had no room: they are shown as “…”.`);
  const box = byId('warnings');
  box.replaceChildren(...lines.map(line => element('div', '', line)));
  box.hidden = !lines.length;
}

function legend(recording) {
  const rows = [];
  if (recording.about.states) rows.push(['running', 'running'], ['runnable', 'runnable: waits for a CPU'], ['blocked', 'blocked, uninterruptible (D)'], ['asleep', 'asleep: waits for an event']);
  if (recording.about.calls) rows.push(['call', recording.about.calls.spans ? 'system call, or span of the program' : 'system call'], ['failed', 'that failed']);
  const colour = (name, tick) => {
    const dot = element('i', tick ? 'tick' : '');
    dot.style.background = `var(--${name})`;
    return dot;
  };
  const made = rows.map(([name, words]) => element('span', '', colour(name), words));
  if (recording.about.states) made.push(element('span', '', 'CPUs: a colour for each process'));
  made.push(element('span', '', colour('accent', true), 'events: a colour for each (tab Events)'));
  if (recording.losses.count.length) made.push(element('span', '', colour('hot'), 'events lost'));
  byId('legend').replaceChildren(...made);
}

/** Light or dark: as the system has it until the switch says otherwise. */
function theme(timeline, panel) {
  const system = matchMedia('(prefers-color-scheme: dark)');
  let chosen = null;
  const apply = () => {
    const dark = chosen === null ? system.matches : chosen;
    document.documentElement.classList.toggle('dark', dark);
    timeline.dark = dark;
    timeline.palette = paletteOf(dark);
    timeline.redraw();
    if (panel.current) panel.current.refresh();
  };
  system.addEventListener('change', apply);
  byId('theme').onclick = () => {
    chosen = !timeline.dark;
    apply();
  };
  apply();
}

/** The panel is as tall as its upper edge is dragged. */
function divider(timeline) {
  byId('divider').addEventListener('pointerdown', event => {
    const bar = event.currentTarget;
    bar.setPointerCapture(event.pointerId);
    const move = it => {
      const height = Math.max(60, Math.min(innerHeight - 240, innerHeight - it.clientY));
      byId('panel').style.flexBasis = `${height}px`;
      timeline.redraw();
    };
    bar.addEventListener('pointermove', move);
    bar.addEventListener('pointerup', () => bar.removeEventListener('pointermove', move), { once: true });
  });
}

async function main() {
  const data = byId('data');
  const recording = new Recording(await Columns.unpack(data.textContent.trim()));
  data.remove();
  const { about } = recording;
  document.title = `${about.command || about.path} · Kestrel`;
  byId('title').textContent = about.path;
  byId('subtitle').textContent = [about.command, about.host, about.kernel && `Linux ${about.kernel}`, recording.wall(0).replace(/\.\d+/, '')].filter(Boolean).join('  ·  ');
  byId('title').parentNode.title = byId('subtitle').textContent;
  const timeline = new Timeline(recording, byId('lanes'), byId('overview'), byId('bar'));
  const current = {};
  theme(timeline, current);
  const panel = current.current = new Panel(recording, timeline, byId('tabs'), byId('content'));
  const search = new Search(recording, timeline, byId('search'), byId('found'));
  const input = new Input(timeline, panel, search, byId('tip'));
  warnings(recording);
  legend(recording);
  divider(timeline);
  panel.search = text => {
    search.input.value = text;
    return search.look(text);
  };
  const choose = timeline.choose.bind(timeline);
  timeline.choose = (chosen, zoom) => {
    choose(chosen, zoom);
    if (panel.tab === 'details') panel.refresh();
  };
  let typing;
  search.input.addEventListener('input', () => {
    clearTimeout(typing);
    typing = setTimeout(() => search.look(search.input.value), 250);
  });
  search.input.addEventListener('keydown', event => {
    if (event.key !== 'Enter') return;
    clearTimeout(typing);
    const go = () => search.step(!event.shiftKey);
    if (search.looked === search.input.value) go();
    else search.look(search.input.value).then(go);
    search.looked = search.input.value;
  });
  byId('next').onclick = () => search.step(true);
  byId('previous').onclick = () => search.step(false);
  byId('zoom-in').onclick = () => timeline.zoom(0.6);
  byId('zoom-out').onclick = () => timeline.zoom(1 / 0.6);
  byId('zoom-all').onclick = () => timeline.setView(0, recording.span);
  byId('zoom-range').onclick = () => input.fit();
  byId('order').onchange = () => timeline.order(byId('order').value);
  byId('active').onchange = () => {
    timeline.onlyActive = byId('active').checked;
    timeline.place();
  };
  byId('help').onclick = () => byId('keys').showModal();
  byId('order').parentNode.hidden = !about.states;
  timeline.watchers.push(() => { byId('zoom-range').disabled = !timeline.range; });
  new ResizeObserver(() => timeline.redraw()).observe(byId('lanes'));
  timeline.draw();
  // What a test, or somebody at the browser's console, asks.
  window.kestrel = { recording, timeline, panel, search, firstPicture: performance.now() };
  document.documentElement.dataset.ready = 'yes';
}

main().catch(error => {
  document.body.replaceChildren(element('p', '', `This page cannot be shown: ${error.message}. It needs a browser with DecompressionStream (Chrome 103, Firefox 113, Safari 16.4, or newer).`));
  console.error(error);
});
