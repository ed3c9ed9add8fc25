// What a pod wrote, followed while it writes.
"use strict";
const lines = document.getElementById("lines"), job = lines.dataset.job;
const attempt = document.getElementById("attempt"), rank = document.getElementById("rank");

async function choices() {
  const view = await ask(`jobs/${encodeURIComponent(job)}`);
  if (attempt.options.length === view.attempts.length) return;
  attempt.innerHTML = view.attempts.map((a) => `<option selected>${a.attempt}</option>`).join("");
  const ranks = Math.max(1, ...view.attempts.map((a) => a.where.length));
  rank.innerHTML = Array.from({ length: ranks }, (_, i) => `<option>${i}</option>`).join("");
}

keepDrawing(async () => {
  await choices();
  const query = `rank=${rank.value || 0}` + (attempt.value ? `&attempt=${attempt.value}` : "");
  const answer = await ask(`jobs/${encodeURIComponent(job)}/logs?${query}`);
  const atEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 20;
  lines.textContent = answer.lines.join("\n") || "(nothing written yet)";
  if (atEnd) lines.scrollTop = lines.scrollHeight;
});
