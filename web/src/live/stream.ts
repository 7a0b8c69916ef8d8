// The one EventSource of this tab.  It is opened for what the view shows, closed while the tab is
// hidden, and opened anew when the browser gave up.  Events are handed over once a frame.
import type { LiveEvent } from "../model/store";
import { serverNow } from "./api";

export type Link = "connecting" | "live" | "reconnecting" | "paused" | "logged-out";
export interface Target { sweep: number | null; log: number | null }

const kNames = [
  "all.snapshot", "all.changes", "all.devices", "sweep.snapshot", "sweep.job", "sweep.sweep", "sweep.lanes",
  "sweep.remaining", "sweep.end", "log.reset", "log.more", "gap", "failed",
];
const kFirstPause = 1000;
const kLongestPause = 15000;

export class Stream {
  private source: EventSource | null = null;
  private target: Target | null = null;
  private waiting: LiveEvent[] = [];
  private frame = 0;
  private timer = 0;
  private pause = kFirstPause;

  constructor(
    private readonly onEvents: (events: LiveEvent[]) => void,
    private readonly onLink: (link: Link) => void,
    /** Says whether the server still knows us: asked when the browser gave up. */
    private readonly isLoggedIn: () => Promise<boolean>,
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

  private look(): void {
    if (document.visibilityState === "hidden") {
      this.close();
      this.onLink("paused");
    } else if (!this.source && this.target) this.open(this.target);
  }

  private open(target: Target): void {
    window.clearTimeout(this.timer);
    const query = new URLSearchParams();
    if (target.sweep !== null) query.set("sweep", String(target.sweep));
    if (target.log !== null) query.set("log", String(target.log));
    const text = query.toString();
    const source = new EventSource(`/api/events${text ? `?${text}` : ""}`);
    this.source = source;
    this.onLink("connecting");
    source.onopen = () => {
      this.pause = kFirstPause;
      this.onLink("live");
    };
    source.onerror = () => {
      if (this.source !== source) return;
      this.onLink("reconnecting");
      if (source.readyState === EventSource.CLOSED) void this.tryAgain();
    };
    for (const name of kNames) {
      source.addEventListener(name, (event) => {
        if (this.source === source) this.take(name, (event as MessageEvent<string>).data);
      });
    }
  }

  /** The browser itself tries again after a lost connection, not after an answer like 503 or 401. */
  private async tryAgain(): Promise<void> {
    this.close();
    if (!(await this.isLoggedIn())) {
      this.onLink("logged-out");
      return;
    }
    this.timer = window.setTimeout(() => this.look(), this.pause);
    this.pause = Math.min(kLongestPause, this.pause * 2);
  }

  private take(name: string, text: string): void {
    try {
      this.waiting.push({ name, data: JSON.parse(text) as Record<string, unknown>, at: serverNow() });
    } catch {
      return; // cut off in the middle of a message: the stream begins anew and says it again
    }
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
    this.source?.close();
    this.source = null;
    cancelAnimationFrame(this.frame);
    this.flush(); // what has arrived is true whether or not it will be drawn at once
  }
}
