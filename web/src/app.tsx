// The frame around the views.
import { useEffect, useRef, useState } from "preact/hooks";
import { useRoute } from "./live/live";
import { Header } from "./parts/header";
import { Help } from "./parts/help";
import { Patterns } from "./parts/lane_bar";
import { Banners, Said } from "./parts/notices";
import { GpusView } from "./views/gpus";
import { JobView } from "./views/job";
import { Overview } from "./views/overview";
import { PlanView } from "./views/plan";
import { SweepView } from "./views/sweep";

function View() {
  const { view, id } = useRoute();
  switch (view) {
    case "overview": return <Overview />;
    case "sweep": return <SweepView key={id} id={id ?? 0} />;
    case "job": return <JobView key={id} id={id ?? 0} />;
    case "plan": return <PlanView />;
    case "gpus": return <GpusView />;
    case "unknown": return <><h1>Page not found</h1><p>This view doesn't exist. <a href="#/">Overview</a></p></>;
  }
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

export function App() {
  const [hasHelp, setHelp] = useState(false);
  const main = useRef<HTMLElement>(null);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("dialog[open]")) return;
      if (event.key === "?") setHelp(true);
      if (event.key === "/") {
        const filter = document.querySelector<HTMLInputElement>("#filter");
        if (!filter) return;
        event.preventDefault();
        filter.focus();
        filter.select();
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  const skip = (event: Event) => {
    event.preventDefault(); // the # of the address is the view's
    main.current?.focus();
  };
  return (
    <>
      <svg width="0" height="0" class="defs" aria-hidden="true"><Patterns /></svg>
      <a class="skip" href="#main" onClick={skip}>Skip to content</a>
      <Header onHelp={() => setHelp(true)} />
      <Banners />
      <main id="main" ref={main} tabIndex={-1}><View /></main>
      <Said />
      {hasHelp && <Help onClose={() => setHelp(false)} />}
    </>
  );
}
