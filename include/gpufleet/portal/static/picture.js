// The fleet as a picture: zones hold leaves, leaves hold nodes, nodes hold GPUs, a GPU may be cut into slices.
"use strict";
const CELL = 30, GAP = 5, HEIGHT = 44;

function gpuPicture(gpu, x, slots) {
  const title = (who, what) => `<title>${escape(who.job)} (${escape(who.team)}), rank ${who.rank}: ${escape(what)}</title>`;
  const parts = [`<rect class="free" x="${x}" y="0" width="${CELL}" height="${HEIGHT}" rx="4"><title>GPU ${gpu.gpu}${gpu.healthy ? "" : ", unhealthy"}</title></rect>`];
  const row = HEIGHT / slots;
  // memory slice 0 at the bottom, as a bar fills
  const band = (start, size) => ({ y: HEIGHT - (start + size) * row, height: size * row });
  const held = (use, y, height, what) =>
    `<a href="${root}job/${encodeURIComponent(use.job)}"><rect x="${x}" y="${y + 0.5}" width="${CELL}" height="${Math.max(height - 1, 2)}" rx="3" fill="${colour(use.job)}">${title(use, what)}</rect></a>`;
  for (const i of gpu.instances) {
    const { y, height } = band(i.start, i.size);
    parts.push(`<rect class="instance" x="${x + 0.5}" y="${y + 0.5}" width="${CELL - 1}" height="${height - 1}" rx="3"><title>GPU ${gpu.gpu} ${i.profile}@${i.start}, free</title></rect>`);
  }
  let shared = 0;
  for (const use of gpu.uses) {
    if (use.kind === "whole") parts.push(held(use, 0, HEIGHT, `GPU ${gpu.gpu}`));
    if (use.kind === "slice") {
      const size = (gpu.instances.find((i) => i.profile === use.profile && i.start === use.start) || { size: 1 }).size;
      const { y, height } = band(use.start, size);
      parts.push(held(use, y, height, `GPU ${gpu.gpu} ${use.profile}@${use.start}`));
    }
    if (use.kind === "share") {
      const height = (HEIGHT * use.milli) / 1000;
      shared += height;
      parts.push(held(use, HEIGHT - shared, height, `${use.milli / 1000} of GPU ${gpu.gpu}`));
    }
  }
  if (!gpu.healthy) parts.push(`<path class="broken" d="M${x + 4} 4 L${x + CELL - 4} ${HEIGHT - 4} M${x + CELL - 4} 4 L${x + 4} ${HEIGHT - 4}"/>`);
  parts.push(`<text x="${x + CELL / 2}" y="${HEIGHT + 11}" text-anchor="middle">${gpu.gpu}</text>`);
  return parts.join("");
}

function nodePicture(node) {
  const columns = Math.min(node.gpus.length, 8), rows = Math.ceil(node.gpus.length / 8);
  const step = HEIGHT + 16, width = columns * (CELL + GAP) - GAP;
  const cells = node.gpus.map((gpu, i) => `<g transform="translate(0 ${Math.floor(i / 8) * step})">${gpuPicture(gpu, (i % 8) * (CELL + GAP), node.memory_slices)}</g>`).join("");
  const busy = node.gpus.filter((g) => g.uses.length).length;
  const state = node.state === "ready" ? "" : `<span class="tag bad">${escape(node.state)}</span>`;
  return `<div class="node ${escape(node.state)}"><div class="head"><b>${escape(node.node)}</b><span class="tag ${escape(node.capacity)}">${escape(node.capacity)}</span>${state}<span class="quiet">${escape(node.model)}</span></div>
    <svg width="${width}" height="${rows * step}" viewBox="0 0 ${width} ${rows * step}" role="img" aria-label="${escape(node.node)}: ${busy} of ${node.gpus.length} GPUs in use">${cells}</svg></div>`;
}

// nodes -> {zone: {leaf: [nodes]}}; a node without a label stands alone
function byDomain(nodes) {
  const zones = new Map();
  for (const node of nodes) {
    const zone = node.position[0] || "no zone", leaf = node.position.slice(1).join(" / ") || "no leaf";
    if (!zones.has(zone)) zones.set(zone, new Map());
    if (!zones.get(zone).has(leaf)) zones.get(zone).set(leaf, []);
    zones.get(zone).get(leaf).push(node);
  }
  return zones;
}

function fleetPicture(nodes) {
  const sorted = (map) => [...map.entries()].sort(([a], [b]) => a.localeCompare(b));
  return sorted(byDomain(nodes)).map(([zone, leaves]) =>
    `<div class="zone"><div class="name">${escape(zone)}</div><div class="leaves">` +
    sorted(leaves).map(([leaf, list]) => `<div class="leaf"><div class="name">${escape(leaf)}</div><div class="nodes">${list.map(nodePicture).join("")}</div></div>`).join("") +
    `</div></div>`).join("");
}
