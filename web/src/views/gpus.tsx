// The GPUs: state and why, who holds them, what they do.
import { useEffect } from "preact/hooks";
import { useLive } from "../live/live";
import { bytes, kUnknown, percent, plural } from "../model/format";
import type { Gpu } from "../model/types";
import { LaneMark } from "../parts/mark";
import { memo } from "../parts/memo";

function Holders({ gpu }: { gpu: Gpu }) {
  if (gpu.holders.length === 0) return <>{kUnknown}</>;
  return (
    <ul class="plain-list">
      {gpu.holders.map((holder) => (
        <li key={holder.pid}>
          {holder.job !== null ? <a href={`#/job/${holder.job}`}>job {holder.job}</a> : <>{holder.user || "unknown user"}: {holder.command || `process ${holder.pid}`}</>}
          {holder.memory_bytes !== null && <span class="soft"> {bytes(holder.memory_bytes)}</span>}
        </li>
      ))}
    </ul>
  );
}

function Share({ of, all, text }: { of: number | null; all: number; text: string }) {
  if (of === null || all <= 0) return <>{kUnknown}</>;
  return (
    <span class="meter"><span class="meter-bar" aria-hidden="true"><span style={{ width: `${Math.min(100, (100 * of) / all)}%` }} /></span>{text}</span>
  );
}

const GpuRow = memo<{ gpu: Gpu }>(function GpuRow({ gpu }) {
  const unit = (value: number | null, text: string) => (value === null ? kUnknown : `${Math.round(value)} ${text}`);
  return (
    <tr>
      <th scope="row" class="n">{gpu.instance == null ? gpu.index : `${gpu.index}:${gpu.instance}`}</th>
      <td>{gpu.name}<div class="soft small-text">{gpu.uuid}</div></td>
      <td><LaneMark state={gpu.state} />{gpu.why && <div class="soft">{gpu.why}</div>}</td>
      <td><Holders gpu={gpu} /></td>
      <td class="n"><Share of={gpu.busy_percent} all={100} text={percent(gpu.busy_percent)} /></td>
      <td class="n"><Share of={gpu.used_bytes} all={gpu.memory_bytes} text={`${bytes(gpu.used_bytes)} of ${bytes(gpu.memory_bytes)}`} /></td>
      <td class="n">{unit(gpu.power_w, "W")}</td>
      <td class="n">{unit(gpu.temperature_c, "°C")}</td>
      <td class="n">{unit(gpu.clock_mhz, "MHz")}</td>
      <td>{gpu.throttle.length > 0 ? <span class="bad-text">{gpu.throttle.join(", ")}</span> : kUnknown}</td>
    </tr>
  );
});

export function GpusView() {
  const all = useLive((state) => state.all);
  useEffect(() => { document.title = "GPUs – pergpu"; }, []);
  return (
    <>
      <h1>GPUs</h1>
      {!all ? <p class="empty">Loading …</p> : all.gpus.length === 0 ? (
        <p class="empty card">{all.trouble ? `Can't read the GPUs: ${all.trouble}.` : "This machine has no GPU that pergpu can use."} Jobs without GPUs run on {plural(all.cpu_lanes, "CPU lane")}. For details, run <code>pergpu doctor</code>.</p>
      ) : (
        <section class="card" aria-label="GPUs">
          <div class="scroll" role="group" aria-label="Table of GPUs" tabIndex={0}>
            <table class="gpus">
              <caption>{plural(all.gpus.length, "GPU")}. Utilization, power and clock are read only while your jobs run. – means unknown.</caption>
              <thead>
                <tr>
                  <th scope="col" class="n">No.</th><th scope="col">Model</th><th scope="col">State</th><th scope="col">Used by</th><th scope="col" class="n">Busy</th>
                  <th scope="col" class="n">Memory</th><th scope="col" class="n">Power</th><th scope="col" class="n">Hottest</th><th scope="col" class="n">Clock</th><th scope="col">Slowed by</th>
                </tr>
              </thead>
              <tbody>{all.gpus.map((gpu) => <GpuRow key={gpu.uuid} gpu={gpu} />)}</tbody>
            </table>
          </div>
        </section>
      )}
    </>
  );
}
