// Who asked for more GPU memory than they use, or for less.
"use strict";
const ACT = new Set(["over-asked", "under-asked"]);

function row(job) {
  const workload = job.workload ? `<br><span class="quiet">${escape(job.workload.workload)}, batch ${job.workload.batch}, sequence ${job.workload.sequence}</span>` : "";
  return `<tr><td><a href="${root}job/${encodeURIComponent(job.job)}">${escape(job.job)}</a>${workload}</td><td>${escape(job.team)} / ${escape(job.project)}</td>
    <td>${escape(job.asks)}</td><td class="number">${(job.peak_mib / 1024).toFixed(1)} GiB</td>
    <td><span class="tag${job.fit === "under-asked" ? " bad" : ""}">${escape(job.fit)}</span></td><td class="why">${escape(job.says)}</td></tr>`;
}

async function draw() {
  const { jobs } = await ask("memory");
  const teams = document.getElementById("team"), chosen = teams.value;
  const names = [...new Set(jobs.map((j) => j.team))].sort();
  teams.innerHTML = `<option value="">all</option>` + names.map((n) => `<option${n === chosen ? " selected" : ""}>${escape(n)}</option>`).join("");
  const all = document.getElementById("fits").checked;
  const shown = jobs.filter((j) => (!chosen || j.team === chosen) && (all || ACT.has(j.fit)));
  document.querySelector("#memory tbody").innerHTML = shown.map(row).join("");
  document.getElementById("none").hidden = shown.length > 0;
}

for (const id of ["team", "fits"]) document.getElementById(id).addEventListener("change", () => draw().catch((e) => trouble(e.message)));
keepDrawing(draw, 5000);
