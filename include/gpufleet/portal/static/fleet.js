// The first page: numbers, the fleet as a picture, the jobs with the reason each waits.
"use strict";
const LIVE = new Set(["pending", "starting", "running", "stopping"]);
let confirming = null; // the job whose cancel button was pressed once

function numbers(fleet, jobs) {
  const gpus = fleet.nodes.flatMap((n) => n.gpus);
  const busy = gpus.filter((g) => g.uses.length).length;
  const waiting = jobs.filter((j) => j.state === "pending").length;
  const running = jobs.filter((j) => j.state === "running").length;
  const spend = fleet.instances.reduce((sum, i) => sum + Number(i.hourly), 0);
  const cell = (value, what) => `<div><b>${escape(value)}</b><span class="quiet">${escape(what)}</span></div>`;
  return cell(running, "running") + cell(waiting, "waiting") + cell(`${busy} / ${gpus.length}`, "GPUs in use") + cell(fleet.nodes.length, "nodes") +
    cell(spend.toFixed(2), "USD an hour, bought") + cell(fleet.controller ? "up" : "down", fleet.controller ? "controller" : "controller: fleet_sync ticks each minute");
}

function idle(jobs) {
  const box = document.getElementById("idle");
  box.hidden = !jobs.length;
  box.innerHTML = jobs.map((j) => `<a href="${root}job/${encodeURIComponent(j.job)}">${escape(j.job)}</a> of ${escape(j.team)} holds ${escape(j.asks)} and uses ${Math.round(100 * j.busy)} % of them, since ${ago(j.since)}`).join("<br>");
}

function howFar(job) {
  const p = job.progress;
  if (!p || !p.total_steps || !LIVE.has(job.state)) return "";
  const share = Math.min(100, (100 * p.step) / p.total_steps);
  return `<span class="bar"><i style="width:${share}%"></i></span><span class="quiet">step ${p.step} of ${p.total_steps}${p.last_save ? `, saved at ${p.last_save.step}` : ""}</span> `;
}

function why(job) {
  if (job.state !== "pending") return howFar(job) + escape(job.detail);
  const unblock = job.unblock ? `<br><span class="quiet">${escape(job.unblock)}</span>` : "";
  return (job.reason ? `<span class="tag">${escape(job.reason)}</span> ` : "") + escape(job.detail) + unblock;
}

function row(job) {
  const live = LIVE.has(job.state);
  const button = !live ? "" : confirming === job.job
    ? `<button class="danger" data-cancel="${escape(job.job)}">really cancel</button> <button data-keep="1">keep</button>`
    : `<button data-ask="${escape(job.job)}" aria-label="cancel ${escape(job.job)}">cancel</button>`;
  const where = job.where.length ? `<br><span class="quiet">${escape([...new Set(job.where.map((p) => p.node))].join(", "))}</span>` : "";
  return `<tr><td><span class="swatch" style="background:${live && job.where.length ? colour(job.job) : "var(--free)"}"></span><a href="${root}job/${encodeURIComponent(job.job)}">${escape(job.job)}</a><br><span class="quiet">${escape(job.kind)}</span></td>
    <td>${escape(job.team)} / ${escape(job.project)}</td><td>${escape(job.asks)}</td><td class="number">${job.priority}</td>
    <td><span class="state ${escape(job.state)}">${escape(job.state)}</span>${where}</td>
    <td>${job.queue_position ? `${job.queue_position} in ${escape(job.queue)}` : ""}</td><td class="why">${why(job)}</td><td>${button}</td></tr>`;
}

async function draw() {
  const [fleet, { jobs }] = await Promise.all([ask("fleet"), ask("jobs")]);
  document.getElementById("numbers").innerHTML = numbers(fleet, jobs);
  idle(fleet.idle);
  document.getElementById("fleet").innerHTML = fleetPicture(fleet.nodes);
  const stale = fleet.clusters.filter((c) => c.seen_s > 60).map((c) => `${c.cluster} was last seen ${Math.round(c.seen_s)} s ago`);
  document.getElementById("legend").textContent = stale.join("; ") || "one column is one GPU; a colour is a job; a cut column is MIG slices";
  const teams = document.getElementById("team"), chosen = teams.value;
  const names = [...new Set(jobs.map((j) => j.team))].sort();
  teams.innerHTML = `<option value="">all</option>` + names.map((n) => `<option${n === chosen ? " selected" : ""}>${escape(n)}</option>`).join("");
  const ended = document.getElementById("ended").checked;
  const shown = jobs.filter((j) => (!chosen || j.team === chosen) && (ended || LIVE.has(j.state)));
  const order = { running: 0, starting: 0, stopping: 0, pending: 1 };
  shown.sort((a, b) => (order[a.state] ?? 2) - (order[b.state] ?? 2) || (a.position ?? 1e9) - (b.position ?? 1e9));
  document.querySelector("#jobs tbody").innerHTML = shown.map(row).join("");
  document.getElementById("nojobs").hidden = shown.length > 0;
}

document.getElementById("jobs").addEventListener("click", async (event) => {
  const { ask: wanted, cancel, keep } = event.target.dataset;
  if (!wanted && !cancel && !keep) return;
  confirming = wanted || null;
  try {
    if (cancel) await ask(`jobs/${encodeURIComponent(cancel)}/cancel`, {});
    await draw();
  } catch (error) {
    trouble(error.message);
  }
});
for (const id of ["team", "ended"]) document.getElementById(id).addEventListener("change", () => draw().catch((e) => trouble(e.message)));
keepDrawing(draw);
