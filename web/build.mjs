// node build.mjs [FOLDER]: builds dist/ or FOLDER: index.html, app.js, app.css, icon.svg, and each
// again compressed (.gz), as it is embedded.  Same sources, same bytes: no hashes of paths, no source
// maps, nothing from elsewhere.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const dist = resolve(process.argv[2] ?? join(here, "dist"));

await rm(dist, { recursive: true, force: true });
await mkdir(dist, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx" },
  outdir: dist,
  bundle: true,
  minify: true,
  format: "iife",
  jsx: "automatic",
  jsxImportSource: "preact",
  target: ["chrome123", "firefox120", "safari17.5"],
  legalComments: "none",
  charset: "utf8",
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) {
  await copyFile(join(here, "src", name), join(dist, name));
}
for (const name of ["index.html", "app.js", "app.css", "icon.svg"]) {
  const bytes = await readFile(join(dist, name));
  await writeFile(join(dist, name + ".gz"), gzipSync(bytes, { level: 9 }));
}
