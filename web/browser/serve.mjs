// The real program for a test: a home of its own in a temporary folder, `pergpu serve` on a free port,
// small sweeps.  Everything is ended by stop().
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
export const kDeadline = Number(process.env.PERGPU_TEST_DEADLINE_MS ?? 60_000);
const bin = process.env.PERGPU_BIN ? resolve(process.env.PERGPU_BIN) : "";

/** The link that it prints, by a line of its stdout. */
function linkOf(child) {
  return new Promise((done, fail) => {
    let text = "";
    const look = (part) => {
      text += part;
      const link = /http:\/\/\S+\/login\?token=[0-9a-f]+/.exec(text);
      if (link) done(link[0]);
    };
    child.stdout.on("data", look);
    child.stderr.on("data", (part) => { text += part; });
    child.once("exit", (code) => fail(new Error(`pergpu serve ended with ${code}: ${text}`)));
    setTimeout(() => fail(new Error(`no link within ${kDeadline} ms: ${text}`)), kDeadline).unref();
  });
}

export async function startServe({ options = [] } = {}) {
  if (bin === "") throw new Error("PERGPU_BIN has to name the program");
  const folder = mkdtempSync(join(tmpdir(), "pergpu-browser-"));
  const env = { ...process.env, PERGPU_HOME: join(folder, "home") };
  const pergpu = async (...args) => (await run(bin, args, { env, cwd: folder, timeout: kDeadline, maxBuffer: 1 << 26 })).stdout;
  const child = spawn(bin, ["serve", "--port", "0", ...options], { env, cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  const link = await linkOf(child);
  return {
    folder,
    pergpu,
    link,
    url: new URL(link).origin,
    file: (name) => join(folder, name),
    touch: (name) => writeFileSync(join(folder, name), ""),
    /** Submits TOML; the number of the sweep and of its jobs. */
    async submit(name, toml, ...args) {
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, `${name}.toml`), toml);
      return JSON.parse(await pergpu("submit", `${name}.toml`, "--json", ...(args.length > 0 ? args : ["--lanes", "2"])));
    },
    async stop() {
      child.removeAllListeners("exit");
      const gone = new Promise((done) => child.once("exit", done));
      if (child.exitCode === null && child.signalCode === null) {
        child.kill("SIGTERM");
        await gone;
      }
      await pergpu("coordinator", "stop", "--kill").catch(() => {});
      // What a keeper writes last may come in between.
      rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    },
  };
}

/** A way to `port` that can be cut: all connections end, and new ones are refused until open(). */
export async function startWay(port) {
  const sockets = new Set();
  let isOpen = true;
  let accepted = 0;
  const server = createServer((near) => {
    if (!isOpen) return near.destroy();
    accepted += 1;
    const far = connect(port, "127.0.0.1");
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => { sockets.delete(socket); near.destroy(); far.destroy(); });
    }
    near.pipe(far).pipe(near);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return {
    port: server.address().port,
    accepted: () => accepted,
    cut() {
      isOpen = false;
      for (const socket of sockets) socket.destroy();
    },
    open() { isOpen = true; },
    stop() {
      this.cut();
      return new Promise((done) => server.close(done));
    },
  };
}
