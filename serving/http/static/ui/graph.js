// The entities around one, as facts relate them.

import { html } from "/ui/vendor/htm-preact-3.1.1.js";

const WIDTH = 960, HEIGHT = 560;
const RINGS = [[0, 0], [250, 150], [380, 240]];
const MAX_NODES = [1, 12, 22];

const shortened = (name, length) => (name.length > length ? `${name.slice(0, length - 1)}…` : name);

/** The entities within two hops, by their distance, and the facts between them. */
function around(centre, facts, hops) {
  const distance = new Map([[centre, 0]]);
  for (let hop = 1; hop <= hops; hop += 1) {
    let added = 0;
    for (const { subject, object } of facts) {
      for (const [from, to] of [[subject, object], [object, subject]]) {
        if (distance.get(from) === hop - 1 && !distance.has(to) && added < MAX_NODES[hop]) {
          distance.set(to, hop);
          added += 1;
        }
      }
    }
  }
  return [distance, facts.filter(({ subject, object }) => distance.has(subject) && distance.has(object))];
}

/** Places entities on ellipses around the centre, those of the second near their neighbour. */
function placed(distance, edges) {
  const places = new Map();
  for (const hop of [0, 1, 2]) {
    const angle = (name) => {
      const neighbour = edges.map(({ subject, object }) => (subject === name ? object : object === name ? subject : "")).find((other) => places.get(other)?.hop === hop - 1);
      return places.get(neighbour)?.angle ?? 0;
    };
    const names = [...distance].filter(([, each]) => each === hop).map(([name]) => name);
    if (hop === 2) names.sort((a, b) => angle(a) - angle(b));
    names.forEach((name, number) => {
      const at = (2 * Math.PI * (number + 0.5 * (hop - 1))) / names.length;
      const [x, y] = RINGS[hop];
      // At one height, neighbouring names would overlap.
      const height = hop === 2 && number % 2 === 0 ? 0.88 * y : y;
      places.set(name, { hop, angle: at, x: WIDTH / 2 + x * Math.cos(at), y: HEIGHT / 2 + height * Math.sin(at) });
    });
  }
  return places;
}

export function Graph({ centre, facts, hops, onEntity, isClosed }) {
  const [distance, edges] = around(centre, facts.filter((fact) => !fact.sensitive), hops);
  const places = placed(distance, edges);
  const drawn = new Map();
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`Entities around ${centre}`}>
    <svg class="graph" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label=${`${places.size} entities around ${centre}`}>
      ${edges.map((fact) => {
        const from = places.get(fact.subject), to = places.get(fact.object);
        const pair = [fact.subject, fact.object].sort().join("\n");
        const above = drawn.get(pair) ?? 0;
        drawn.set(pair, above + 1);
        // Nearer to the outer end, since the relations of the centre meet there.
        const share = from.hop === 0 ? 0.62 : 0.38;
        const middle = { x: from.x + share * (to.x - from.x), y: from.y + share * (to.y - from.y) - 16 * above };
        return html`<g class=${isClosed(fact) ? "edge closed" : "edge"}>
          <line x1=${from.x} y1=${from.y} x2=${to.x} y2=${to.y} />
          ${Math.min(from.hop, to.hop) === 0 && html`<text x=${middle.x} y=${middle.y}>${shortened(fact.relation, 18)}</text>`}
          <title>${`${fact.subject} ${fact.relation} ${fact.object}`}</title>
        </g>`;
      })}
      ${[...places].map(([name, { hop, x, y }]) => html`<a class=${`node hop${hop}`} href="#memory" role="button" onClick=${(event) => { event.preventDefault(); onEntity(name); }}>
        <circle cx=${x} cy=${y} r=${hop === 0 ? 9 : 6} />
        <text x=${x} y=${y - 11}>${shortened(name, 18)}</text><title>${name}</title>
      </a>`)}
    </svg>
  </div>`;
}
