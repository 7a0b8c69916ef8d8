// What everybody should know at once: no coordinator, no connection, and what an action came to.
import { useEffect, useState } from "preact/hooks";
import { link, said, useLive, useValue } from "../live/live";

export function Banners() {
  const gaps = useLive((state) => state.gaps);
  const trouble = useLive((state) => state.all?.trouble ?? "");
  const state = useValue(link, (l) => l);
  return (
    <div class="banners" aria-live="assertive">
      {state === "logged-out" && (
        <p class="banner bad">This browser is not logged in. Open the last link that <code>pergpu serve</code> printed.</p>
      )}
      {state === "reconnecting" && (
        <p class="banner warn"><code>pergpu serve</code> does not answer; reconnecting. This page may show old data. Jobs keep running.</p>
      )}
      {gaps.length > 0 && <p class="banner warn">{gaps[0]?.why || "The coordinator has ended; another one takes over."}{!gaps[0]?.isFinal && " This page may show old data. Jobs keep running."}</p>}
      {trouble !== "" && <p class="banner warn">Can't read the GPUs: {trouble}</p>}
    </div>
  );
}

/** What was said last, for a while. */
export function Said() {
  const message = useValue(said, (s) => s);
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    if (message.n === 0) return undefined;
    setShown(true);
    const timer = window.setTimeout(() => setShown(false), message.isBad ? 12000 : 7000);
    return () => window.clearTimeout(timer);
  }, [message]);
  return (
    <div class="said" aria-live="polite" role="status" id="said">
      {isShown && (
        <p class={message.isBad ? "bad" : ""}>
          {message.text}
          <button type="button" class="plain" aria-label="Dismiss" onClick={() => setShown(false)}>×</button>
        </p>
      )}
    </div>
  );
}
