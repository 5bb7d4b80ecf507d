// Builds the pages into src/fokker/studio/page and src/fokker/report/assets, or into two folders of the one given.
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import path from "node:path";
import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const source = (...names) => path.join(here, "src", ...names);
const [studio, report] = process.argv[2]
  ? [path.join(process.argv[2], "studio"), path.join(process.argv[2], "report")]
  : ["studio", "report"].map((part) => path.join(here, "..", "src", "fokker", part, part === "studio" ? "page" : "assets"));
for (const out of [studio, report]) await mkdir(out, { recursive: true });

const common = {
  absWorkingDir: here, // names of files in the result do not depend on where it is run
  bundle: true,
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
};
await build({
  ...common,
  entryPoints: { studio: source("main.ts"), run: source("report", "run.ts") },
  format: "esm",
  outdir: studio,
});
// Within a page that is a file: without modules, which browsers do not load from files.
await build({ ...common, entryPoints: { report: source("report", "main.ts") }, format: "iife", minify: true, outdir: report });
await build({ ...common, entryPoints: { gallery: source("gallery.ts") }, format: "iife", minify: true, outdir: studio });

for (const name of ["index.html", "run.html"]) await copyFile(source(name), path.join(studio, name));
const palette = await readFile(source("palette.css"), "utf8");
// A page without scripts follows the system too.
const dark = palette.slice(palette.indexOf(':root[data-theme="dark"]')).replace('[data-theme="dark"]', ":not([data-theme])");
const system = `@media (prefers-color-scheme: dark) {\n${dark}}\n`;
const style = async (name) => palette + system + (await readFile(source(name), "utf8"));
await writeFile(path.join(studio, "studio.css"), await style("studio.css"));
await writeFile(path.join(studio, "gallery.css"), await style("gallery.css"));
await writeFile(path.join(report, "report.css"), await style(path.join("report", "report.css")));
