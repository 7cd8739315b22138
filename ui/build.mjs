// Builds the page into src/openclaw/gateway/web, or into the directory that is given. The same sources and lock file give
// the same bytes; `sources.json` says which sources they were, so that a test can tell an old build without Node.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const given = process.argv[2];
const out = given ? `${given}/` : new URL("../src/openclaw/gateway/web/", import.meta.url).pathname;
process.chdir(new URL(".", import.meta.url).pathname);
await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const result = await build({
  entryPoints: { app: "src/main.ts", style: "src/style.css" },
  outdir: `${out}assets`,
  entryNames: "[name]-[hash]",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  metafile: true,
});
const names = Object.keys(result.metafile.outputs).map((path) => path.split("/").pop());
const named = (start, end) => names.find((name) => name.startsWith(start) && name.endsWith(end));
let index = await readFile("src/index.html", "utf8");
index = index.replace("app.js", `assets/${named("app-", ".js")}`).replace("style.css", `assets/${named("style-", ".css")}`);
await writeFile(`${out}index.html`, index);
await writeFile(`${out}icon.svg`, await readFile("src/icon.svg"));
const licences = [];
for (const name of ["dompurify", "lit", "lit-element", "lit-html", "@lit/reactive-element", "marked"]) {
  const folder = `node_modules/${name}`;
  const { version } = JSON.parse(await readFile(`${folder}/package.json`, "utf8"));
  const files = (await readdir(folder)).filter((file) => /^licen[cs]e/i.test(file));
  const texts = await Promise.all(files.map((file) => readFile(`${folder}/${file}`, "utf8")));
  licences.push(`${name} ${version}\n\n${texts.join("\n").trim()}\n`);
}
await writeFile(`${out}licences.txt`, licences.join("\n----\n\n"));
const sources = {};
for (const name of [...(await readdir("src")).map((file) => `src/${file}`), "build.mjs", "package.json", "package-lock.json"].sort()) {
  sources[name] = createHash("sha256").update(await readFile(name)).digest("hex");
}
await writeFile(`${out}sources.json`, `${JSON.stringify(sources, null, 1)}\n`);
for (const name of names) {
  const data = await readFile(`${out}assets/${name}`);
  console.log(`${name}: ${data.length} bytes, ${gzipSync(data).length} gzipped`);
}
