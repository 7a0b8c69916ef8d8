// The end of a log, as plain text.  It follows what is appended until one scrolls up.
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { useLive } from "../live/live";
import { plainText, tailOf } from "../model/text";

const kMost = 128 * 1024;

export function LogView({ id, path, follows, setFollows }: { id: number; path: string; follows: boolean; setFollows: (f: boolean) => void }) {
  const log = useLive((state) => (state.log?.job === id ? state.log : null));
  const box = useRef<HTMLPreElement>(null);
  const text = useMemo(() => (log ? tailOf(plainText(tailOf(log.text, kMost)), kMost) : ""), [log]);
  const isOurs = useRef(false); // the scroll that comes next is made here
  useLayoutEffect(() => {
    const node = box.current;
    if (!node || !follows) return;
    isOurs.current = true;
    node.scrollTop = node.scrollHeight;
  }, [text, follows]);
  useEffect(() => {
    const node = box.current;
    if (!node) return undefined;
    const onScroll = () => {
      if (isOurs.current) {
        isOurs.current = false;
        return;
      }
      const isAtEnd = node.scrollHeight - node.scrollTop - node.clientHeight < 24;
      if (isAtEnd !== follows) setFollows(isAtEnd);
    };
    node.addEventListener("scroll", onScroll, { passive: true });
    return () => node.removeEventListener("scroll", onScroll);
  }, [follows, log === null]);
  return (
    <section class="card" aria-labelledby="log-title">
      <div class="bar-line">
        <h2 id="log-title">Log{log && log.attempt > 1 ? ` of attempt ${log.attempt}` : ""}</h2>
        <span class="grow" />
        <label class="check"><input type="checkbox" checked={follows} onChange={(e) => setFollows(e.currentTarget.checked)} /> Follow</label>
      </div>
      {!log ? <p class="empty">No log yet.</p>
        : text === "" ? <p class="empty">The log is empty so far.</p>
          : <pre class="log" ref={box} tabIndex={0} role="group" aria-label="End of the log">{text}</pre>}
      <p class="soft path">{path}</p>
    </section>
  );
}
