// What every page needs: asking the API, telling of trouble, drawing again without being asked.
"use strict";
const root = document.body.dataset.root;

// Airflow 3.3.2 gives the frame a little more width than it shows; what stands at the right edge would be cut off.
if (window.self !== window.top) document.body.classList.add("framed");

const escape = (text) => String(text ?? "").replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);

// The same job has the same colour everywhere and every time.
function colour(job) {
  let hash = 0;
  for (const c of job) hash = (hash * 31 + c.charCodeAt(0)) >>> 0;
  return `hsl(${(hash * 137) % 360} 52% 52%)`;
}

function trouble(sentence) {
  const box = document.getElementById("trouble");
  if (!box) return;
  box.hidden = !sentence;
  box.textContent = sentence || "";
}

async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(root + "api/" + path, { credentials: "same-origin", ...options });
  const value = await answer.json().catch(() => ({}));
  if (answer.status === 401) throw new Error("You are logged out; log in to Airflow again.");
  if (!answer.ok) throw new Error(typeof value.detail === "string" ? value.detail : `The portal answered ${answer.status}.`);
  return value;
}

// Draw now and then again every so often; a hidden page rests, a failure is told and tried again.
function keepDrawing(draw, every = 1500) {
  let busy = false;
  async function once() {
    if (busy || document.hidden) return;
    busy = true;
    try {
      await draw();
      trouble("");
      const seen = document.getElementById("seen");
      if (seen) seen.textContent = "updated " + new Date().toLocaleTimeString();
    } catch (error) {
      trouble(error.message);
    } finally {
      busy = false;
    }
  }
  document.addEventListener("visibilitychange", once);
  setInterval(once, every);
  once();
}

function ago(iso) {
  if (!iso) return "";
  const s = Math.max(0, (Date.now() - Date.parse(iso)) / 1000);
  return s < 90 ? `${Math.round(s)} s ago` : s < 5400 ? `${Math.round(s / 60)} min ago` : `${Math.round(s / 3600)} h ago`;
}

function bytes(n) {
  return n < 1024 ? `${n} B` : n < 1048576 ? `${(n / 1024).toFixed(1)} KiB` : n < 1073741824 ? `${(n / 1048576).toFixed(1)} MiB` : `${(n / 1073741824).toFixed(1)} GiB`;
}

function devices(place) {
  const words = [];
  if (place.gpus.length) words.push("GPU " + place.gpus.join(", "));
  for (const s of place.slices) words.push(`GPU ${s.gpu} ${s.profile}@${s.start}`);
  for (const s of place.shares) words.push(`GPU ${s.gpu} ${s.fraction}`);
  return words.join(", ");
}
