// Speaks like `pergpu serve`, about sweeps that it makes up and that go on: for working on the page
// without GPUs.  node dev/fake-server.mjs [PORT] [RUNS] [SPEED]; nobody logs in here.
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";

const [port, runs, speed] = [8123, 13, 5].map((d, i) => Number(process.argv[2 + i] ?? d));
const dist = new URL("../dist/", import.meta.url);
const kPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const kTypes = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
let seed = 7;
const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
const begin = Date.now();
const now = () => Date.now();
const iso = (ms) => (ms ? new Date(ms).toISOString() : null);
const pick = (list) => list[Math.floor(random() * list.length)];

const lanes = Array.from({ length: 8 }, (_, i) => ({ name: `gpu${i}`, uuid: `GPU-0000000${i}-aaaa-bbbb-cccc-1234567890ab`, state: "free", why: "", job: null, idle_s: 0, idle_now_s: 12 }));
Object.assign(lanes[6], { state: "foreign", why: "used by alice: python3 notebook.py (31.2 GiB)" });
Object.assign(lanes[7], { state: "quarantined", why: "two jobs in a row failed by the driver; it is looked at again in 10m" });
const methods = ["ddpm", "edm", "flow"];
const sweeps = [];
const jobs = new Map();
const byName = new Map();

function makeSweep(id, name, steps, count) {
  const rows = Array.from({ length: count }, (_, i) => [methods[i % 3], String([0.1, 0.01, 0.001][Math.floor(i / 3) % 3]), String(Math.floor(i / 9))]);
  const names = rows.map((r, i) => `${String(i).padStart(count > 99 ? 4 : 2, "0")}-method=${r[0]},lr=${r[1]},seed=${r[2]}`);
  const sweep = { id, name, root: `/data/alice/models/runs/${name}`, steps, columns: ["method", "lr", "seed"], rows, runs: names, counts: {}, lanes: 6, remaining_s: null, warnings: id === 2 ? ["train.py changed since the first start of step train"] : [] };
  sweeps.push(sweep);
  const make = (run, index, step) => {
    const jobId = jobs.size + 1;
    byName.set(`${id} ${run} ${step}`, jobId);
    const out = `${sweep.root}/${run || "_once"}/${step}`;
    const length = step === "train" ? 2000 + random() * 1500 : 300 + random() * 400;
    jobs.set(jobId, {
      id: jobId, sweep: name, sweep_id: id, run, index, step, state: "queued", reason: "", class: null, attempt: 0, exit: null, signal: null, gpus: [], lane: null,
      queued_at: iso(begin), started_at: null, ended_at: null, duration_s: null, expected_s: length * 1.05, expected_end_at: null, out, log: `${out}/log.txt`, metrics: `${out}/metrics.jsonl`,
      status: "", progress: "", retries_left: 1, replaced: false, warnings: [], cores: null, resident_bytes: null, gpu_busy_percent: null, gpu_memory_bytes: null,
      x: { length, bad: random() < 0.12 && index !== null, attempts: [], params: index === null ? {} : { method: rows[index][0], lr: Number(rows[index][1]), seed: Number(rows[index][2]), batch: 256, data: "imagenet-64" }, metrics: {} },
    });
  };
  if (steps.includes("prepare")) make("", null, "prepare");
  names.forEach((run, i) => steps.filter((s) => s !== "prepare").forEach((step) => make(run, i, step)));
}
makeSweep(1, "ablation-width", ["train"], 6);
makeSweep(2, "thirteen", ["prepare", "train", "evaluate"], runs);
makeSweep(3, "tokenizer", ["train", "evaluate"], 4);

const wire = ({ x, ...job }) => job;
const jobsOf = (id) => [...jobs.values()].filter((j) => j.sweep_id === id);
const live = (j) => j.state === "running" || j.state === "starting";
const count = (list) => list.reduce((c, j) => ({ ...c, [j.state]: (c[j.state] ?? 0) + 1 }), {});
const wall = (s) => (s * 1000) / speed;
const streams = new Set();
let eventId = 0;
const changed = new Set();

function start(job, lane, at) {
  Object.assign(job, { state: "running", reason: "", class: null, exit: null, attempt: job.attempt + 1, lane: lane.name, gpus: [lane.uuid], started_at: iso(at), ended_at: null, expected_end_at: iso(at + wall(job.expected_s)) });
  Object.assign(lane, { job: job.id, state: "busy", idle_now_s: null });
  changed.add(job.id);
}
function finish(job, state, at, cls, reason) {
  const lane = lanes.find((l) => l.job === job.id);
  if (lane) Object.assign(lane, { job: null, state: "free", idle_now_s: 0 });
  const took = (at - Date.parse(job.started_at)) / 1000;
  Object.assign(job, { state, class: cls, reason, exit: cls === "ok" ? 0 : 1, ended_at: iso(at), duration_s: took, expected_end_at: null, progress: "", status: "", cores: null, gpu_busy_percent: null });
  job.x.attempts.push({ attempt: job.attempt, outcome: cls, class: cls, lane: job.lane, gpus: job.gpus, started_at: job.started_at, ended_at: job.ended_at, duration_s: took, exit: job.exit, signal: null, reason, cpu_s: took * 3.1, peak_memory_bytes: 9e9 });
  if (cls === "ok") job.x.metrics = job.step === "train" ? { step: 5000, loss: 0.35 + random() * 0.2, lr_now: 1e-5 } : { fid: 8 + random() * 9, acc: 0.6 + random() * 0.3 };
  changed.add(job.id);
}
function ready(job) {
  const need = jobs.get(byName.get(job.step === "evaluate" ? `${job.sweep_id} ${job.run} train` : `${job.sweep_id}  ${job.step === "train" ? "prepare" : ""}`));
  if (!need || need.state === "done") { job.reason = "waits for a GPU: 6 of 6 are busy"; return true; }
  if (["failed", "skipped", "cancelled"].includes(need.state)) { job.state = "skipped"; job.reason = `${need.step} (job ${need.id}) ended as ${need.state}`; changed.add(job.id); return false; }
  job.reason = `waits for ${need.step} (job ${need.id})`;
  return false;
}
function turn(at) {
  for (const job of jobs.values()) {
    if (!live(job)) continue;
    const part = (at - Date.parse(job.started_at)) / wall(job.x.length);
    if (part >= 1 || (job.x.bad && part > 0.6)) {
      if (!job.x.bad) finish(job, "done", at, "ok", "");
      else if (job.retries_left > 0) { finish(job, "queued", at, "oom-gpu", "CUDA out of memory (log: torch.OutOfMemoryError)"); job.retries_left = 0; job.x.bad = random() < 0.5; }
      else finish(job, "failed", at, "exit", "exit code 1; last line: RuntimeError: loss is nan");
    } else if (random() < 0.2) {
      Object.assign(job, { progress: `${Math.floor(part * 50)}/50`, status: job.step === "train" ? `epoch ${Math.floor(part * 50)}` : "", cores: 3 + random(), resident_bytes: 9e9, gpu_busy_percent: 85 + Math.floor(random() * 15), gpu_memory_bytes: 3e10 });
      changed.add(job.id);
    }
  }
  const free = lanes.filter((l) => l.state === "free");
  for (const job of jobs.values()) if (job.state === "queued" && ready(job) && free.length > 0) start(job, free.shift(), at);
}
// The first hours are over when the page is opened.
for (let at = begin - wall(9000); at < begin; at += wall(60)) turn(at);

const gpus = () => lanes.map((lane, index) => ({ uuid: lane.uuid, index, name: "NVIDIA H100 80GB HBM3", pci: `0000:0${index}:00.0`, state: lane.state, why: lane.why, lanes: [lane.name], memory_bytes: 85899345920, used_bytes: lane.state === "free" ? 5e8 : 3.1e10, holders: lane.job ? [{ pid: 4000 + lane.job, user: "me", command: "python3", memory_bytes: 3e10, job: lane.job }] : index === 6 ? [{ pid: 99, user: "alice", command: "python3 notebook.py", memory_bytes: 3.3e10, job: null }] : [], busy_percent: lane.job ? 92 : null, power_w: lane.job ? 610 + index : null, temperature_c: lane.job ? 61 + index : null, clock_mhz: lane.job ? 1755 : null, throttle: lane.job && index === 2 ? ["power-cap"] : [] }));
const devices = () => ({ gpus: gpus(), lanes, cpu_lanes: 16, trouble: "" });
const left = (s) => jobsOf(s.id).filter((j) => live(j) || j.state === "queued").reduce((sum, j) => sum + wall(j.x.length) / 1000, 0) / 6;
const shown = (s) => ({ ...s, counts: count(jobsOf(s.id)), remaining_s: left(s) || null });
const summary = (s) => ({ id: s.id, name: s.name, counts: count(jobsOf(s.id)), lanes: 0 });
const log = (j) => Array.from({ length: 120 }, (_, i) => `step ${i * 40}  \x1b[32mloss\x1b[0m ${(2 / (1 + i / 9) + 0.3).toFixed(4)}  lr 1.0e-04`).join("\n") + `\nloading 10%\rloading 55%\rloading 100%\n<b>not bold</b> ${j.id}\n`;
function send(stream, name, data) { stream.write(`id: ${++eventId}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`); }

setInterval(() => {
  turn(now());
  const some = [...changed].map((id) => jobs.get(id));
  changed.clear();
  for (const { stream, sweep } of streams) {
    if (some.length) send(stream, "all.changes", { jobs: some.map(wire), gone: [], sweeps: sweeps.map(summary), counts: count([...jobs.values()]) });
    send(stream, "all.devices", devices());
    if (!sweep) continue;
    for (const job of some) if (job.sweep_id === sweep.id) send(stream, "sweep.job", { job: wire(job) });
    send(stream, "sweep.sweep", { sweep: shown(sweep) });
  }
}, 500);
setInterval(() => { for (const s of streams) if (s.job && live(s.job)) send(s.stream, "log.more", { text: `now ${new Date().toISOString()}\n` }); }, 1000);

const series = (j) => ({ step_s: 10, buckets: Array.from({ length: 200 }, (_, i) => ({ at: iso(begin - 2000000 + i * 10000), cores: [2, 3 + Math.sin(i / 9), 4.5], ...(i > 60 && i < 90 ? {} : { resident_bytes: [7e9, 8e9 + i * 1e7, 9e9 + i * 1e7], gpu_busy_percent: [60, 85 + 10 * Math.sin(i), 99], gpu_memory_bytes: [3e10, 3e10, 3.1e10] }), throttle: [] })) });
const metrics = () => ({ schema: 1, names: ["step", "loss", "acc"], points: Array.from({ length: 400 }, (_, i) => ({ at: null, step: i * 10, loss: 2 / (1 + i / 40) + 0.3 + Math.sin(i) * 0.02, ...(i % 20 === 0 ? { acc: 1 - 1 / (1 + i / 60) } : {}) })) });
const show = (j) => ({ ...wire(j), params: j.x.params, command: ["python3", "train.py", "--lr", "{lr}"], argv: ["python3", "train.py", "--lr", String(j.x.params.lr ?? ""), "--note", "it's a test"], cwd: "/data/alice/models", file: "/data/alice/models/thirteen.toml", git_commit: "d5bf1c0a77e3", git_dirty: true, limits: { timeout: "12h", memory: "64GiB", gpus: 1, grace: "30s" }, limits_held: { timeout: "signals", memory: "cgroup memory.max" }, needs: ["prepare:all"], why: j.reason || "runs as process 4711", attempts: live(j) ? [...j.x.attempts, { attempt: j.attempt, class: null, lane: j.lane, gpus: j.gpus, started_at: j.started_at, ended_at: null, duration_s: null, exit: null, signal: null, reason: "" }] : j.x.attempts, last_attempt: { number: j.attempt, pid: 4711, cpus: 4, cpu_list: [0, 1, 2, 3], peak_memory_bytes: 9e9, cpu_s: 1234 }, learnt: { jobs: 12, duration_s: 2700, memory_bytes: 9e9, gpu_memory_bytes: 3e10 } });
function plan() {
  const names = lanes.slice(0, 6).map((l) => l.name), free = names.map(() => 0), list = [];
  for (const j of jobs.values()) if (live(j) || j.state === "queued") { const i = free.indexOf(Math.min(...free)); list.push({ id: j.id, sweep: j.sweep, run: j.run, step: j.step, lanes: [names[i]], start_s: free[i], end_s: (free[i] += j.x.length), live: live(j) }); }
  const total = Math.max(0, ...free);
  return { schema: 1, sweeps: ["thirteen"], at: iso(now()), end_at: iso(now() + total * 1000), total_s: total, lower_bound_s: total * 0.93, bound_by: { kind: "lanes", words: "6 GPUs: 9h of work" }, idle_share: 0.07, lane_kind: "GPU", lane_count: 6, with_lanes: [1, 2, 4, 8, 12].map((n) => ({ lanes: n, total_s: (total * 6) / Math.min(n, 8) })), with_expect_s: null, lanes: names, jobs: list, others: [{ lanes: ["gpu5"], start_s: 0, end_s: 500 }], durations: [{ sweep: "thirteen", step: "train", jobs: 4, mean_s: 2700, source: "learnt" }], held: 0, stuck: [], notes: ["gpu6 is used by alice and left out"] };
}

createServer(async (request, reply) => {
  const url = new URL(request.url, "http://x");
  const path = url.pathname.split("/").slice(1);
  const json = (value, status = 200) => { reply.writeHead(status, { "content-type": "application/json" }); reply.end(JSON.stringify(value)); };
  if (path[0] !== "api") {
    const name = path[0] || "index.html";
    try { const body = await readFile(new URL(name, dist)); reply.writeHead(200, { "content-type": kTypes[name.split(".")[1]], "content-security-policy": kPolicy }); return reply.end(body); } catch { return json({ error: "no such file" }, 404); }
  }
  const job = jobs.get(Number(path[2])), sweep = sweeps.find((s) => s.id === Number(url.searchParams.get("sweep") ?? path[2]));
  if (path[1] === "hello") return json({ schema: 1, version: "0.2.0", host: "box", home: "/data/alice/.local/state/pergpu", readonly: process.env.READONLY === "1" });
  if (path[1] === "plan") return json(process.env.MISSING ? { missing: [{ sweep: "thirteen", step: "evaluate", jobs: 9 }] } : plan());
  if (path[1] === "sweeps") return sweep ? json({ schema: 1, jobs: jobsOf(sweep.id).map((j) => ({ ...wire(j), params: j.x.params, last_metrics: j.x.metrics, needs: [], attempts: j.x.attempts })) }) : json({ error: "no such sweep" }, 404);
  if (path[1] === "jobs") return !job ? json({ error: `no job ${path[2]}` }, 404) : json(path[3] === "usage" ? series(job) : path[3] === "metrics" ? metrics() : show(job));
  if (path[1] === "actions") {
    let body = ""; for await (const part of request) body += part;
    const asked = JSON.parse(body).jobs.map((id) => jobs.get(id)), did = [], not = [];
    for (const j of asked) { const to = { cancel: live(j) || j.state === "queued" ? "cancelled" : null, hold: j.state === "queued" ? "held" : null, release: j.state === "held" ? "queued" : null, retry: j.ended_at ? "queued" : null }[path[2]]; if (!to) { not.push({ id: j.id, state: j.state, replaced: false }); continue; } if (live(j)) finish(j, to, now(), "cancelled", "cancelled by you"); else Object.assign(j, { state: to, reason: to === "held" ? "held by you" : "" }); changed.add(j.id); did.push(j.id); }
    return json({ schema: 1, changed: did, left: not });
  }
  reply.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  const one = { stream: reply, sweep, job: jobs.get(Number(url.searchParams.get("log"))) };
  reply.write("retry: 1000\n\n");
  send(reply, "all.snapshot", { jobs: [...jobs.values()].filter((j) => live(j) || j.id % 2).slice(0, 700).map(wire), sweeps: sweeps.map(summary), counts: count([...jobs.values()]), ...devices() });
  if (sweep) send(reply, "sweep.snapshot", { sweep: shown(sweep), jobs: jobsOf(sweep.id).map(wire), lanes });
  if (one.job) send(reply, "log.reset", { job: one.job.id, attempt: one.job.attempt, text: log(one.job) });
  streams.add(one);
  request.on("close", () => streams.delete(one));
}).listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port}/`));
