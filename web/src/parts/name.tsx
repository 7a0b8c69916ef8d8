// A long name, which may break after / and , only: runs are called after their parameters.
export function Name({ text }: { text: string }) {
  const parts = text.split(/(?<=[/,])/);
  return <>{parts.map((part, i) => (i === 0 ? part : [<wbr key={i} />, part]))}</>;
}
