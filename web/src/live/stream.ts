// The one stream of events of this tab.  It is opened for what the view shows and closed while the tab
// is hidden; one that was lost goes on behind the last event.  Events are handed over once a frame.
import type { Heard } from "../model/event_parser";
import type { LiveEvent } from "../model/store";
import { visibleMarks } from "../model/text";
import { serverNow } from "./api";
import { listen } from "./listen";
import { credentials } from "./session";

export type Link = "connecting" | "live" | "reconnecting" | "paused" | "logged-out";
export interface Target { sweep: number | null; log: number | null }

const kFirstPause = 1000;
const kLongestPause = 15000;

export class Stream {
  private source: AbortController | null = null;
  private lastId = ""; // of what this stream, or the one that it goes on for, has told
  private target: Target | null = null;
  private waiting: LiveEvent[] = [];
  private frame = 0;
  private timer = 0;
  private pause = kFirstPause;

  constructor(
    private readonly onEvents: (events: LiveEvent[]) => void,
    private readonly onLink: (link: Link) => void,
  ) {
    document.addEventListener("visibilitychange", () => this.look());
    window.addEventListener("pagehide", () => this.close());
    window.addEventListener("pageshow", () => this.look());
    window.addEventListener("online", () => this.look());
  }

  show(target: Target): void {
    if (this.target && this.target.sweep === target.sweep && this.target.log === target.log) return;
    this.target = target;
    this.close();
    this.look();
  }

  /** Something has changed for the better: a session, the network. */
  look(): void {
    if (document.visibilityState === "hidden") {
      this.close();
      this.onLink("paused");
    } else if (!this.source && this.target) void this.open(this.target);
  }

  private async open(target: Target): Promise<void> {
    window.clearTimeout(this.timer);
    const query = new URLSearchParams();
    if (target.sweep !== null) query.set("sweep", String(target.sweep));
    if (target.log !== null) query.set("log", String(target.log));
    const text = query.toString();
    const source = new AbortController();
    this.source = source;
    if (this.lastId === "") this.onLink("connecting");
    const status = await listen(`/api/events${text ? `?${text}` : ""}`, {
      headers: { ...credentials(), ...(this.lastId ? { "Last-Event-ID": this.lastId } : {}) },
      signal: source.signal,
      onOpen: () => {
        if (this.source !== source) return;
        this.pause = kFirstPause;
        this.onLink("live");
      },
      onEvent: (event) => {
        if (this.source === source) this.take(event);
      },
    });
    if (this.source !== source) return; // closed by us
    this.source = null;
    if (status === 401) {
      this.lastId = ""; // the next session is another server's
      this.onLink("logged-out");
      return;
    }
    this.onLink("reconnecting");
    this.timer = window.setTimeout(() => this.look(), this.pause);
    this.pause = Math.min(kLongestPause, this.pause * 2);
  }

  private take({ name, data, id }: Heard): void {
    if (id === null) return; // a sign of life
    try {
      this.waiting.push({ name, data: JSON.parse(visibleMarks(data)) as Record<string, unknown>, at: serverNow() });
    } catch {
      return; // no event of ours
    }
    this.lastId = id;
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.flush());
  }

  private flush(): void {
    this.frame = 0;
    const events = this.waiting;
    this.waiting = [];
    if (events.length > 0) this.onEvents(events);
  }

  private close(): void {
    window.clearTimeout(this.timer);
    this.source?.abort();
    this.source = null;
    this.lastId = "";
    cancelAnimationFrame(this.frame);
    this.flush(); // what has arrived is true whether or not it will be drawn at once
  }
}
