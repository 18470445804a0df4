// Stacks of a range as a flame graph: events counted, or the time that threads were off their CPUs.

const FLAME_ROW = 18;

/** Weights of the nodes of the tree of stacks, what lies below a node included. */
function stackWeights(recording, from, to, by) {
  const { nodes, events, states } = recording;
  const weights = new Float64Array(nodes.parent.length);
  let stacks = 0;
  if (by === 'waits') {
    for (let i = 0, last = after(states.begin, to); i < last; i++) {
      if (!states.stack[i] || recording.letter(i) === 'r') continue;
      const ns = inside(states, i, from, to);
      weights[states.stack[i] - 1] += ns;
      stacks += ns > 0;
    }
  } else {
    for (let i = after(events.time, from - 1), last = after(events.time, to); i < last; i++) {
      if (!events.stack[i] || (by !== 'events' && recording.eventOf[events.cls[i]] !== Number(by))) continue;
      weights[events.stack[i] - 1] += recording.classes[events.cls[i]].stride;
      stacks++;
    }
  }
  for (let node = weights.length - 1; node > 0; node--) weights[nodes.parent[node]] += weights[node];
  return { weights, stacks };
}

/** The flame graph as elements; a click on a frame makes it as wide as all. */
function flameGraph(recording, { weights }, by) {
  const { nodes, frames } = recording;
  const children = nodes.parent.length ? Array.from({ length: nodes.parent.length }, () => []) : [];
  for (let node = 1; node < weights.length; node++) if (weights[node]) children[nodes.parent[node]].push(node);
  const shown = weight => (by === 'waits' ? duration(weight) : counted(weight, 'event'));
  const box = element('div');
  box.id = 'flame';
  const draw = root => {
    box.replaceChildren();
    let deepest = 0;
    const place = (node, left, depth) => {
      const share = weights[node] / weights[root];
      if (share < 0.0008) return;
      deepest = Math.max(deepest, depth);
      const frame = frames[nodes.frame[node]];
      const name = frame.slice(1);
      const bar = element('div', '', share > 0.012 ? name : '');
      const kernel = frame[0] === 'k';
      const shade = [...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 997, 7) % 20;
      bar.style.cssText = `left:${left * 100}%;width:${share * 100}%;top:${depth * FLAME_ROW}px;background:hsl(${kernel ? 16 + shade : 38 + shade},${kernel ? 78 : 84}%,${66 + shade / 4}%)`;
      bar.title = `${name}: ${shown(weights[node])}, ${(weights[node] / weights[0] * 100).toFixed(2)} % of all${kernel ? ' (kernel)' : ''}`;
      bar.onclick = () => draw(node === root ? 0 : node);
      box.append(bar);
      let at = left;
      for (const child of children[node].sort((a, b) => frames[nodes.frame[a]] < frames[nodes.frame[b]] ? -1 : 1)) {
        place(child, at, depth + 1);
        at += weights[child] / weights[root];
      }
    };
    place(root, 0, 0);
    box.style.height = `${(deepest + 1) * FLAME_ROW}px`;
  };
  draw(0);
  return box;
}
