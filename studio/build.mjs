// Builds the page into src/fokker/studio/page, or into the folder given.
import { copyFile, mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import path from "node:path";
import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? path.join(here, "..", "src", "fokker", "studio", "page");
await mkdir(out, { recursive: true });
await build({
  absWorkingDir: here, // names of files in the result do not depend on where it is run
  entryPoints: { studio: path.join(here, "src", "main.ts") },
  bundle: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  outdir: out,
});
for (const name of ["index.html", "studio.css"]) await copyFile(path.join(here, "src", name), path.join(out, name));
