// Server-sent events, and what a stream of them ends by.
import test from "node:test";
import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { EventParser, type Heard } from "../src/model/event_parser";
import { listen } from "../src/live/listen";

const text = "retry: 1000\n\nid: a.1\nevent: all.snapshot\ndata: {\"x\": 1}\n\nevent: ping\ndata: {}\n\n: note\n\nid:a.2\r\ndata:one\r\ndata: two\r\n\r\nid: a.3\ndata: cut";
const heard: Heard[] = [
  { id: "a.1", name: "all.snapshot", data: '{"x": 1}' }, { id: null, name: "ping", data: "{}" }, { id: "a.2", name: "message", data: "one\ntwo" },
];

test("events are the same in whatever pieces they come; one that is cut off is none", () => {
  for (const size of [1, 2, 7, 1000]) {
    const parser = new EventParser();
    const all: Heard[] = [];
    for (let at = 0; at < text.length; at += size) all.push(...parser.take(text.slice(at, at + size)));
    assert.deepEqual(all, heard, `pieces of ${size}`);
  }
});

async function withServer(server: Server, look: (url: string) => Promise<void>): Promise<void> {
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  try {
    await look(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  } finally {
    server.close();
  }
}

test("a stream is told of as it comes, and what ended it", async () => {
  const asked: (string | undefined)[] = [];
  const server = createServer((request, reply) => {
    asked.push(request.headers.authorization);
    if (request.url === "/no") reply.writeHead(401).end("{}");
    else {
      reply.writeHead(200, { "content-type": "text/event-stream" });
      reply.write("id: 1\ndata: \u00e4\n\n");
      setTimeout(() => request.socket.destroy(), 50);
    }
  });
  await withServer(server, async (url) => {
    const seen: string[] = [];
    const ears = {
      headers: { Authorization: "Bearer x" }, signal: new AbortController().signal,
      onOpen: () => seen.push("open"), onEvent: (event: Heard) => seen.push(event.data),
    };
    assert.equal(await listen(url, ears), 0);
    assert.deepEqual(seen, ["open", "\u00e4"]);
    assert.equal(await listen(`${url}no`, ears), 401);
    assert.deepEqual(asked, ["Bearer x", "Bearer x"]);
    assert.equal(await listen(url, { ...ears, signal: AbortSignal.abort() }), 0);
  });
});
