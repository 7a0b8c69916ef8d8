// Server-sent events (WHATWG HTML, 9.2) out of the text of a stream that comes in pieces.  Pure.
export interface Heard { name: string; data: string; id: string | null } // id: null where it has none

export class EventParser {
  private rest = "";
  private name = "";
  private data: string[] = [];
  private id: string | null = null;

  take(piece: string): Heard[] {
    this.rest += piece;
    if (!piece.includes("\n")) return []; // a line may be of many megabytes: it is not looked through again and again
    const lines = this.rest.split("\n");
    this.rest = lines.pop() ?? "";
    const heard: Heard[] = [];
    for (const line of lines) {
      const text = line.endsWith("\r") ? line.slice(0, -1) : line;
      if (text !== "") {
        this.field(text);
        continue;
      }
      if (this.data.length > 0) heard.push({ name: this.name || "message", data: this.data.join("\n"), id: this.id });
      this.name = "";
      this.data = [];
      this.id = null;
    }
    return heard;
  }

  private field(line: string): void {
    const colon = line.indexOf(":");
    const key = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (key === "event") this.name = value;
    else if (key === "data") this.data.push(value);
    else if (key === "id") this.id = value;
  }
}
