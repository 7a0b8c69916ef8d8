// Copies a text; says that it did.
import { useState } from "preact/hooks";
import { say } from "../live/live";

export function CopyButton({ text, what }: { text: string; what: string }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      say(`${what} copied`);
      window.setTimeout(() => setDone(false), 2000);
    } catch {
      say("The browser doesn't allow this page to copy. Select the text instead.", true);
    }
  };
  return <button type="button" class="small" aria-label={`Copy ${what}`} onClick={copy}>{isDone ? "Copied" : "Copy"}</button>;
}
