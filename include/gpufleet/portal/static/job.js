// One job: where it stands and why, its attempts, its checkpoints.
"use strict";
const main = document.getElementById("job"), name = main.dataset.job;

function facts(job) {
  const p = job.progress || {};
  const rows = [
    ["state", `<span class="state ${escape(job.state)}">${escape(job.state)}</span> ${escape(job.state === "pending" ? "" : job.detail)}`],
    job.state === "pending" && ["place", job.queue_position ? `${job.queue_position} in queue ${escape(job.queue)}, ${job.position} of all` : "not considered yet"],
    job.state === "pending" && ["why", `${job.reason ? `<span class="tag">${escape(job.reason)}</span> ` : ""}${escape(job.detail)}`],
    job.unblock && ["would start it", escape(job.unblock)],
    ["team", `${escape(job.team)} / ${escape(job.project)}, by ${escape(job.submitted_by || "?")}`],
    ["asks", `${escape(job.asks)}, priority ${job.priority}, ${escape(job.kind)}`],
    job.memory.says && ["memory", `<span class="tag${job.memory.fit === "under-asked" ? " bad" : ""}">${escape(job.memory.fit)}</span> ${escape(job.memory.says)}`],
    job.memory.derived && ["memory learned", escape(job.memory.derived)],
    ["command", `<code>${escape(job.command)}</code>`],
    p.total_steps && ["progress", `step ${p.step} of ${p.total_steps}` + (p.base ? `, resumed from step ${p.base.step} of attempt ${p.base.attempt}` : "")],
    p.save_error && ["cannot save", `<span class="state failed">${escape(p.save_error)}</span>`],
    (p.skipped || []).length && ["skipped saves", p.skipped.map((s) => escape(`${s.path}: ${s.why}`)).join("<br>")],
    ["checkpoint", `every ${job.checkpoint_interval_s} s`],
    ["submitted", ago(job.submitted_at)],
  ].filter(Boolean);
  return `<dl class="facts">${rows.map(([k, v]) => `<dt>${k}</dt><dd>${v}</dd>`).join("")}</dl>`;
}

function attempts(job) {
  const rows = [...job.attempts].reverse().map((a) => `<tr><td class="number">${a.attempt}</td><td><span class="state ${escape(a.state)}">${escape(a.state)}</span></td>
    <td>${a.where.map((w) => `rank ${w.rank}: ${escape(w.node)} ${escape(devices(w))}`).join("<br>")}</td><td class="number">${a.busy === null ? "" : `${Math.round(100 * a.busy)} %`}</td><td>${ago(a.running_at)}</td><td>${ago(a.ended_at)}</td><td>${escape(a.end_reason)}</td></tr>`);
  return `<h2>Attempts</h2><div class="scroll"><table><thead><tr><th class="number">no.</th><th>state</th><th>where</th><th class="number">GPUs busy</th><th>ran</th><th>ended</th><th>because</th></tr></thead><tbody>${rows.join("")}</tbody></table></div>`;
}

function checkpoints(job) {
  if (!job.checkpoints.length) return "";
  const rows = [...job.checkpoints].reverse().slice(0, 12).map((c) => `<tr><td class="number">${c.step}</td><td class="number">${c.attempt}</td><td>${ago(c.at)}</td><td>${bytes(c.bytes)}</td></tr>`);
  return `<h2>Checkpoints</h2><table style="max-width:520px"><thead><tr><th class="number">step</th><th class="number">attempt</th><th>saved</th><th>size</th></tr></thead><tbody>${rows.join("")}</tbody></table>`;
}

keepDrawing(async () => {
  const job = await ask(`jobs/${encodeURIComponent(name)}`);
  main.innerHTML = `<h2>${escape(job.name || job.job)} <a class="filter" href="${root}logs/${encodeURIComponent(job.job)}">logs</a></h2>` +
    facts(job) + (job.attempts.length ? attempts(job) : "") + checkpoints(job);
});
