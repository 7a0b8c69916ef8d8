// A stream of server-sent events by fetch: an EventSource cannot send the field that lets us in.
import { EventParser, type Heard } from "../model/event_parser";

export interface Ears {
  headers: Record<string, string>;
  signal: AbortSignal;
  onOpen: () => void;
  onEvent: (event: Heard) => void;
}

/** Until the stream ends: the status of an answer that is none, 0 for a lost connection. */
export async function listen(path: string, ears: Ears): Promise<number> {
  try {
    const response = await fetch(path, {
      cache: "no-store", credentials: "omit", signal: ears.signal, headers: { Accept: "text/event-stream", ...ears.headers },
    });
    if (!response.ok || !response.body) return response.status;
    ears.onOpen();
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    const parser = new EventParser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return 0;
      for (const event of parser.take(decoder.decode(value, { stream: true }))) ears.onEvent(event);
    }
  } catch {
    return 0; // lost, or given up by the signal
  }
}
